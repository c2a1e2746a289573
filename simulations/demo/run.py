"""What the demo does: claim a folder, start the node, ask, show, audit, count."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnus_node.cli.output import one_line, styled
from gnus_node.cli.render import answer_page, size
from gnus_node.evidence.bundle import import_charter, verify_bundle
from gnus_node.records.errors import GnusError
from simulations.demo.child import ROOT, Child, NodeDied, claim, running

ASK_S = 120.0
AUDIT_S = 60.0
SHOWN_EVERY_S = 3.0
"""How often progress is a new line where there is no terminal to rewrite one on."""
QUESTIONS = (
    "What does an audit bundle hold?",
    "Who signs the mandate?",
    "What is twelve times seven plus the square root of eighty one?",
    "How many kilometres are 26.2 miles?",
    "What is the capital of Burkina Faso?",
    "What is the total area of Mongolia in square kilometres?",
    "What is the capital of Kazakhstan?",
    "At what voltage is the battery warning raised, according to release-notes.txt?",
    "What colour are the curtains in the reading room of Hollow Ridge?",
)
"""Of different kinds: the system itself from its docs, arithmetic in words, a unit, facts only documents hold, one on which two real
collections disagree, one that needs a tool, one nobody can answer."""


@dataclass(slots=True)
class Totals:
    """What the demo counts."""

    outcomes: dict[str, int] = field(default_factory=dict)
    verified: int = 0
    failed: int = 0
    overhead_ms: list[float] = field(default_factory=list)
    inference_ms: list[float] = field(default_factory=list)


def run(argv: list[str]) -> int:
    """0 if every audit was verified and the node lived to the end; otherwise 1."""
    parser = argparse.ArgumentParser(prog="simulations.demo", description="A node with nine roles answers questions and is audited.")
    parser.add_argument("--questions", type=Path, metavar="FILE", help="a file of questions, one a line, instead of the built-in ones")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "node.toml", help="settings of the node")
    parser.add_argument("--run-dir", type=Path, default=ROOT / "run", help="folder in which the demo makes its data directory")
    args = parser.parse_args(argv)
    questions = read_questions(args.questions) if args.questions else list(QUESTIONS)
    folder, lock = claim(args.run_dir.absolute())
    started = time.monotonic()
    totals = Totals()
    died = ""
    try:
        with running(args.config.absolute(), folder, lock) as child:
            api = progress(child.starting(), folder)
            say(f"ready after {time.monotonic() - started:.1f} s: nine roles in one process, API at http://{api}/v1, log in {child.log}\n")
            charter = import_charter((folder / "charter.json").read_bytes())
            for number, question in enumerate(questions, 1):
                one(child, charter, number, question, totals)
            child.check()
    except NodeDied as death:
        died = str(death)
    finally:
        os.close(lock)
    return finish(totals, len(questions), time.monotonic() - started, died)


def read_questions(path: Path) -> list[str]:
    """The questions of a file, one a line; empty lines and lines that begin with # are left out. Raises ``SystemExit``."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SystemExit(f"{path} cannot be read: {why}") from None
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise SystemExit(f"{path} holds no question")
    return found


def progress(events: Iterable[dict[str, Any]], folder: Path) -> str:
    """Tell how the start goes, event by event; the API's address. One line that is rewritten on a terminal, now and then a line elsewhere."""
    live = styled(sys.stdout)
    say(f"starting one node with nine roles in {folder}; the first start indexes the documents, later ones find them indexed")
    shown = 0.0
    for event in events:
        name = event.get("event")
        if name == "corpus.indexing":
            now = time.monotonic()
            text = f"  indexing {event['corpus']} ({event['number']} of {event['of']} collections): {event['passages']:,} passages so far"
            if live:
                sys.stdout.write(f"\r{text}\x1b[K")
                sys.stdout.flush()
            elif now - shown > SHOWN_EVERY_S:
                say(text)
                shown = now
        elif name == "corpus.ready":
            lead = "\r\x1b[K" if live else ""
            how = "indexed" if event["rebuilt"] else "was indexed already"
            say(f"{lead}  {event['corpus']}: {event['passages']:,} passages, {how}")
        elif name == "node.ready":
            return str(event.get("api", "off"))
    return "off"


def one(child: Child, charter: bytes, number: int, question: str, totals: Totals) -> None:
    """Ask, audit, show one question. Raises ``NodeDied``."""
    say(f"[{number}] {one_line(question)}\n")
    try:
        answer = child.node.post("/admin/ask", {"question": question}, timeout_s=ASK_S)
        bundle = child.node.call("GET", f"/admin/audit/{answer['audit_id']}?payloads=1", timeout_s=AUDIT_S)
    except GnusError as error:
        child.answering(error)
        say(f"    error  {one_line(error.what)} ({error.code})\n")
        totals.failed += 1
        return
    verdict = verify_bundle(bundle, charter, time.time_ns() // 1_000_000)
    totals.outcomes[answer["outcome"]] = totals.outcomes.get(answer["outcome"], 0) + 1
    totals.verified += verdict.ok
    totals.failed += not verdict.ok
    for name, spent in (("overhead", totals.overhead_ms), ("inference", totals.inference_ms)):
        spent.append(answer["latency_ms"].get(name, 0.0))
    why = "" if verdict.ok or verdict.error is None else f" at {verdict.error.link}: {verdict.error.what}"
    audit = f"{'verified offline' if verdict.ok else 'REFUSED' + why}, a bundle of {size(len(bundle))}"
    answer_page(answer, audit=audit).show(indent=4)
    say("")


def finish(totals: Totals, asked: int, seconds: float, died: str) -> int:
    """The totals, what went wrong, and the exit code."""
    outcomes = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(totals.outcomes.items())) or "none answered"
    say(f"{asked} questions: {outcomes}; audits verified {totals.verified} of {asked}; {seconds:.0f} s in all")
    say(f"median of overhead {_median(totals.overhead_ms):.1f} ms, of inference {_median(totals.inference_ms):.1f} ms")
    if died:
        sys.stderr.write(f"\n{died}\n")
    return 0 if totals.verified == asked and not totals.failed and not died else 1


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)
