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


def answer_page(answer: Mapping[str, Any], *, audit: str = "") -> Page:
    """An answer: the text first, then what it rests on, how it came about, how long it took, and its audit (``audit``: the caller's own)."""
    page = Page()
    outcome = str(answer.get("outcome", ""))
    if answer.get("answer"):
        page.line(answer["answer"], "head")
    if outcome != "answered":
        page.line(f"{spaced(outcome)}: {one_line(answer.get('reason') or answer.get('reason_code', ''))}", "warn", hang=2)
    _sources(page, maps(answer.get("sources")))
    for waiting in maps(answer.get("pending_approvals")):
        page.line(f"waits for a person's approval: {_call(waiting)}", "warn", hang=2)
    for effect in maps(answer.get("effects")):
        page.line(f"tool {_call(effect)}: {spaced(effect.get('state', ''))}", hang=2)
    page.line()
    verdict = answer.get("verdict")
    node_said = "every link holds (proved)" if verdict == "proved" else spaced(verdict or "not verified")
    facts = [
        ("route", route_words(answer.get("route"))),
        ("experts", experts_words(answer)),
        ("agreement", percent(answer.get("agreement"))),
        ("time", latency(answer.get("latency_ms"))),
        ("audit", f"{answer.get('audit_id') or 'none'}, {audit or node_said}"),
    ]
    return page.pairs([fact for fact in facts if fact[1]], style="dim")


def _sources(page: Page, sources: Sequence[Mapping[str, Any]]) -> None:
    if sources:
        page.line().line("Sources", "dim")
    for number, source in enumerate(sources, start=1):
        lead = f"  [{number}] "
        title, uri = one_line(source.get("title", "")), one_line(source.get("uri", ""))
        if title and uri.startswith(("tool:", "memory:")):
            uri = ""  # an id of this request alone, which leads nowhere
        page.line(f"{lead}{title}  {uri}".rstrip() if title else lead + uri, "dim", hang=len(lead))
        if quote := one_line(source.get("quote", "")):
            page.line(f'{" " * len(lead)}"{quote[:MAX_QUOTE]}{"…" if len(quote) > MAX_QUOTE else ""}"', "dim", hang=len(lead) + 1)


def _call(effect: Mapping[str, Any]) -> str:
    kind = effect.get("effect")
    return f"{one_line(effect.get('tool', '?'))}{f' ({spaced(kind)})' if kind else ''}"


def spaced(word: object) -> str:
    """A name of the program's as words: ``parallel_with_arbiter`` as ``parallel with arbiter``."""
    return one_line(word).replace("_", " ")


def percent(share: object) -> str:
    """A share of one as percent; "" where there is none."""
    return f"{100 * share:.0f} %" if isinstance(share, int | float) and not isinstance(share, bool) else ""


def route_words(route: object) -> str:
    """How a question was classified and run, in one line; "" before there is a plan."""
    if not isinstance(route, Mapping) or not route:
        return ""
    words = [
        f"{spaced(route['intent'])} question" if route.get("intent") else "",
        f"{spaced(route['risk'])} risk" if route.get("risk") else "",
    ]
    words += [spaced(route[name]) for name in ("mode", "topology") if route.get(name)]
    privacy = route.get("privacy_mode")
    words += [f"privacy {spaced(privacy)}"] if privacy not in (None, "plaintext") else []
    return ", ".join(word for word in words if word)


def experts_words(answer: Mapping[str, Any]) -> str:
    """Who took part, by what they run on; then who stood by."""
    groups: dict[str, list[str]] = {}
    took_part = set()
    for backend in maps(answer.get("backends")):
        what = ", ".join(one_line(backend[name]) for name in ("kind", "model", "license") if backend.get(name))
        name = one_line(backend.get("expert", "?"))
        if name not in groups.setdefault(what, []):
            groups[what].append(name)
        took_part.add(name)
    lines = [f"{', '.join(names)} ({what})" if what else ", ".join(names) for what, names in groups.items()]
    route = answer.get("route")
    named = route.get("experts") if isinstance(route, Mapping) else None
    idle = [one_line(name) for name in named if one_line(name) not in took_part] if isinstance(named, list | tuple) else []
    return "\n".join([*lines, *([f"{', '.join(idle)} (not needed)"] if idle else [])])


TOTALS = {"total": "in all", "overhead": "of it overhead", "inference": "inference", "commit_wait": "waiting for the disk"}


def latency(stages: object) -> str:
    """Milliseconds in two lines: the whole and its parts, then each stage."""
    if not isinstance(stages, Mapping):
        return ""
    whole = [f"{_ms(stages[name])} ms {words}" for name, words in TOTALS.items() if name in stages]
    each = [f"{spaced(name)} {_ms(value)}" for name, value in stages.items() if name not in TOTALS]
    return "\n".join(part for part in (", ".join(whole), f"by stage, in ms: {', '.join(each)}" if each else "") if part)


def _ms(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else one_line(value)


def size(count: object) -> str:
    """A number of bytes for reading."""
    if not isinstance(count, int):
        return one_line(count)
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.{0 if count >= 10 * factor else 1}f} {unit}"
    return f"{count} bytes"


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


def verdict_page(verdict: Mapping[str, Any]) -> Page:
    """A verdict tree: every link with how far it is proved and by whom; of a refusal, the link that does not hold and why."""
    good = verdict.get("ok") is True
    page = Page().line("verified" if good else "REFUSED", "ok" if good else "problem")
    error = verdict.get("error")
    if isinstance(error, Mapping):
        page.line(f"  {one_line(error.get('link', '?'))}: {one_line(error.get('what', ''))} ({one_line(error.get('code', ''))})", "problem")
    shown = {"request": "request_id", "generation": "generation", "outcome": "outcome", "valid as of": "valid_as_of"}
    page.pairs([(name, flat(verdict[key])) for name, key in shown.items() if verdict.get(key) not in (None, "", 0)], indent=2)
    _links(page, maps(verdict.get("links")), "")
    return page


def _links(page: Page, links: Sequence[Mapping[str, Any]], lead: str) -> None:
    for number, link in enumerate(links):
        last = number == len(links) - 1
        proof = str(link.get("proof", ""))
        # What is proved needs nobody's word; its signer is named all the same.
        by = f" {'of' if proof == 'proved' else 'by'} {link['by']}" if link.get("by") else ""
        detail = f": {link['detail']}" if link.get("detail") else ""
        text = f"{'└─' if last else '├─'} {link.get('name', '?')}, {proof}{by}{detail}"
        page.line(lead + one_line(text), PROOF_STYLES.get(proof, ""), hang=len(lead) + 3)
        _links(page, maps(link.get("children")), lead + ("   " if last else "│  "))


def maps(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list; of anything else none."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []
