"""What speaks against an answer, and how that is told with it (18.1.3.3). Pure.

A reader must see that sources disagree, and who says what: both sides are named, the winner too. Figures of different dates are no
contradiction: then the dates are told. Where two documents of one corpus disagree, the documents are named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from gnus_node.content.agreement import agree, numbers_in
from gnus_node.content.quoting import plain_quote

MAX_NOTES = 3
"""Most dissenting answers that are told."""
MAX_TOLD = 300
"""Most of a dissenting answer that is told, in characters."""
DRIFT = Fraction(1, 2)
"""Figures that differ by at most this share may be of different dates; more is a contradiction whatever the dates."""
_DATE = re.compile(r"\s{0,3}\(([^()]{0,40}?\b(?:19|20)\d\d\b[^()]{0,20})\)")


@dataclass(frozen=True, slots=True)
class Cited:
    """One passage a draft rests on, with its text at hand."""

    record: bytes
    item: str
    span: tuple[int, int]
    text: str
    title: str
    corpus: str
    trusted: bool
    fresh_at_ms: int
    attestation: bytes | None = None
    memory_event: bytes | None = None
    uri: str = ""

    @property
    def quote(self) -> str:
        """What a reader sees of the span."""
        return plain_quote(self.text[self.span[0] : self.span[1]])

    @property
    def document(self) -> str:
        """The first part of the title: the document, or the thing, that the passage belongs to."""
        return self.title.split(" > ")[0] or self.uri

    @property
    def thing(self) -> str:
        """What the passage is about, as its title says: a document's row or section, else the document or thing itself."""
        path = self.title.split(" > ")
        return path[-1] if "." in path[0] else self.document

    @property
    def date(self) -> str:
        """The date that stands in brackets right after the span, "" where none does."""
        found = _DATE.match(self.text, self.span[1])
        return " ".join(found[1].split()).removesuffix(" est.") if found else ""


@dataclass(frozen=True, slots=True)
class Opposing:
    """Something else that is said: the text, the passages that hold it, and who said it where none does."""

    answer: str
    cited: tuple[Cited, ...]
    speaker: str


@dataclass(frozen=True, slots=True)
class Dissent:
    """What is told with an answer. ``within`` are the passages of it that stand against their own corpus."""

    note: str
    disagree: bool
    cited: tuple[Cited, ...]
    within: tuple[Cited, ...]


def dissent_of(answer: str, cited: Sequence[Cited], opposing: Sequence[Opposing]) -> Dissent:
    """What of ``opposing`` really says otherwise, each thing once, at most ``MAX_NOTES``; told as disagreement or as figures of other dates."""
    against: list[str] = []
    dated: list[str] = []
    said = [answer]
    found: list[Cited] = []
    within: list[Cited] = []
    for one in opposing:
        if len(against) + len(dated) >= MAX_NOTES or any(agree(one.answer, other) for other in said):
            continue
        said.append(one.answer)
        source = one.cited[0] if one.cited else None
        where = _where(source, cited) if source else one.speaker
        told = f"{one.answer[:MAX_TOLD]} (according to {where})"
        if source and cited and _of_other_dates(answer, cited[0], one.answer, source):
            dated.append(f"{told}, {source.date or 'without a date'}")
        else:
            against.append(told)
            within += [c for c in one.cited if any(c.corpus == own.corpus for own in cited)][:1]
        found.extend(one.cited)
    note = ""
    if against:
        own = f" The answer given is according to {_where(cited[0], tuple(found))}." if cited else ""
        note += f"\n\nSources disagree.{own} Another source says: {'; '.join(against)}."
    if dated and cited:
        date = f", {cited[0].date}" if cited[0].date else ", without a date"
        note += f"\n\nThis figure is according to {_where(cited[0], tuple(found))}{date}. Figures of other dates: {'; '.join(dated)}."
    return Dissent(note, bool(against), tuple(found), tuple(within))


def _of_other_dates(a: str, first: Cited, b: str, second: Cited) -> bool:
    left, right = numbers_in(a), numbers_in(b)
    if not left or len(left) != len(right) or first.date == second.date:
        return False
    return all(abs(x - y) <= DRIFT * max(abs(x), abs(y)) for x, y in zip(left, right, strict=True))


def _where(cited: Cited, others: Sequence[Cited]) -> str:
    """The corpus; with its document where the other side is of the same corpus."""
    if all(o.corpus != cited.corpus for o in others):
        return cited.corpus
    document = cited.document
    if any(o.corpus == cited.corpus and o.document == document for o in others):
        document = cited.title
    return f"{cited.corpus}, {document}" if document else cited.corpus
