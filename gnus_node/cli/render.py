"""How answers, plans and verdicts look as text. Pure: values of the admin API in, a ``Page`` out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gnus_node.cli.output import PROOF_STYLES, Page, one_line
from gnus_node.records.errors import CODES, EXIT_FAILED, EXIT_OK

MAX_QUOTE = 160


def exit_of(answer: Mapping[str, Any]) -> int:
    """Exit code of an ended request: an honest abstention, and one that waits for approval, are no failures."""
    if answer.get("outcome") in ("answered", "abstained", "pending_approval"):
        return EXIT_OK
    row = CODES.get(str(answer.get("reason_code")))
    return (row.exit if row else EXIT_FAILED) or EXIT_FAILED


def answer_page(answer: Mapping[str, Any]) -> Page:
    """An answer: the text first, then what it rests on."""
    page = Page()
    outcome = str(answer.get("outcome", ""))
    if answer.get("answer"):
        page.line(answer["answer"], "head")
    if outcome != "answered":
        page.line(f"{outcome}: {one_line(answer.get('reason') or answer.get('reason_code', ''))}", "warn")
    for number, source in enumerate(_maps(answer.get("sources")), start=1):
        page.line(f"[{number}] {one_line(source.get('title', ''))}  {one_line(source.get('uri', ''))}", "dim")
        if quote := one_line(source.get("quote", "")):
            page.line(f'    "{quote[:MAX_QUOTE]}{"…" if len(quote) > MAX_QUOTE else ""}"', "dim")
    for waiting in _maps(answer.get("pending_approvals")):
        page.line(f"waits for approval: {flat(waiting)}", "warn")
    for effect in _maps(answer.get("effects")):
        page.line(f"effect: {flat(effect)}")
    page.line()
    facts: list[tuple[str, object]] = [
        ("request", answer.get("request_id", "")),
        ("audit", f"{answer.get('audit_id', '')}  {answer.get('verdict') or 'not verified'}"),
        ("route", flat(answer.get("route"))),
        ("backends", "; ".join(flat(backend) for backend in _maps(answer.get("backends"))) or "none"),
        ("agreement", "not measured" if answer.get("agreement") is None else answer["agreement"]),
        ("latency", latency(answer.get("latency_ms"))),
    ]
    return page.pairs(facts, style="dim")


def latency(stages: object) -> str:
    """``{"draft": 3.14}`` as ``draft 3.1 ms``."""
    if not isinstance(stages, Mapping):
        return ""
    return ", ".join(f"{name} {value:.1f} ms" if isinstance(value, int | float) else f"{name} {value}" for name, value in stages.items())


def flat(value: object) -> str:
    """A JSON value in one line, without the noise of brackets at the top."""
    if isinstance(value, Mapping):
        return ", ".join(f"{one_line(key)} {_inner(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_inner(entry) for entry in value)
    if isinstance(value, bool):
        return str(value).lower()
    return one_line("" if value is None else value)


def _inner(value: object) -> str:
    if isinstance(value, Mapping):
        return f"({flat(value)})"
    return f"[{flat(value)}]" if isinstance(value, list | tuple) else flat(value)


def tree_page(title: str, value: Mapping[str, Any]) -> Page:
    """Any JSON object as an indented outline."""
    page = Page().line(title, "head")
    _outline(page, value, 1)
    return page


def _outline(page: Page, value: object, depth: int) -> None:
    pad = "  " * depth
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if isinstance(entry, Mapping | list | tuple) and entry:
                page.line(f"{pad}{one_line(key)}:")
                _outline(page, entry, depth + 1)
            else:
                page.line(f"{pad}{one_line(key)}: {flat(entry)}".rstrip())
    elif isinstance(value, list | tuple):
        for entry in value:
            page.line(f"{pad}- {flat(entry)}")
    else:
        page.line(f"{pad}{flat(value)}")


def verdict_page(verdict: Mapping[str, Any]) -> Page:
    """A verdict tree: every link with how far it is proved and by whom; of a refusal, the link that does not hold and why."""
    good = verdict.get("ok") is True
    page = Page().line("verified" if good else "REFUSED", "ok" if good else "problem")
    error = verdict.get("error")
    if isinstance(error, Mapping):
        page.line(f"  {one_line(error.get('link', '?'))}: {one_line(error.get('what', ''))} ({one_line(error.get('code', ''))})", "problem")
    shown = {"request": "request_id", "generation": "generation", "outcome": "outcome", "valid as of": "valid_as_of"}
    page.pairs([(name, flat(verdict[key])) for name, key in shown.items() if verdict.get(key) not in (None, "", 0)], indent=2)
    _links(page, _maps(verdict.get("links")), "")
    return page


def _links(page: Page, links: Sequence[Mapping[str, Any]], lead: str) -> None:
    for number, link in enumerate(links):
        last = number == len(links) - 1
        proof = str(link.get("proof", ""))
        # What is proved needs nobody's word; its signer is named all the same.
        by = f" {'of' if proof == 'proved' else 'by'} {link['by']}" if link.get("by") else ""
        detail = f": {link['detail']}" if link.get("detail") else ""
        text = f"{'└─' if last else '├─'} {link.get('name', '?')}, {proof}{by}{detail}"
        page.line(lead + one_line(text), PROOF_STYLES.get(proof, ""))
        _links(page, _maps(link.get("children")), lead + ("   " if last else "│  "))


def _maps(value: object) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []
