"""What a question asks: its kind, the concepts an answer's place must cover, the unit it wants. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise, takewhile

from gnus_node.content.asked import is_data
from gnus_node.content.filenames import named_files
from gnus_node.content.unit_table import Unit
from gnus_node.experts.extractive.words import SOFT_STEMS, STOP_STEMS, SYNONYMS, Word, fold, parts, stem, stems, words
from gnus_node.experts.symbolic.tokens import tokenize
from gnus_node.experts.symbolic.units import read_unit

MAX_QUESTION = 2000
MAX_CONCEPTS = 24


class Ask(Enum):
    """Kinds of questions, by what an answer must look like."""

    NUMBER = "number"
    TIME = "time"
    WHO = "who"
    WHERE = "where"
    HOW = "how"
    WHAT = "what"


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing the place of an answer must mention: a stem, or one of the phrases that say the same."""

    stem: str
    phrases: tuple[frozenset[str], ...] = ()
    name: bool = False
    """A proper name or a number: never negotiable."""

    def covered(self, stems: frozenset[str]) -> bool:
        """Whether a set of stems mentions it."""
        return self.stem in stems or any(phrase <= stems for phrase in self.phrases)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, analysed."""

    ask: Ask
    concepts: tuple[Concept, ...]
    stems: frozenset[str]
    """All content stems, soft ones and the stems of synonyms included: what a label may be made of."""
    own: frozenset[str]
    """The stems that stand in the question itself."""
    unit: Unit | None
    defines: bool
    """It names one thing and asks what that is."""
    counted: str = ""
    """Stem of what "how many" counts."""
    plural: bool = False
    """It asks for several things."""
    text: str = ""
    """As it was asked, without the files it names."""
    strict: bool = False
    """It asks what a thing does or means: only what is said of the thing as such answers, no sentence that mentions it."""
    attribute: frozenset[str] = frozenset()
    owner: frozenset[str] = frozenset()
    """In "what is the ATTRIBUTE of OWNER": the stems of both; the attribute must be said of this owner."""
    quantity: bool = False
    """The attribute is a quantity, so a value without a number is none of it."""
    nested: bool = False
    """It asks for a thing of the like thing of something ("the capital of the capital of"): no single place says that."""

    @property
    def names(self) -> tuple[Concept, ...]:
        """The concepts that are names or numbers."""
        return tuple(c for c in self.concepts if c.name)

    @property
    def asks(self) -> bool:
        """Whether it can be answered from a text at all: it names something in letters, and is a question."""
        return not self.nested and any(any(c.isalpha() for c in concept.stem) for concept in self.concepts)

    @property
    def predicates(self) -> tuple[Concept, ...]:
        """The concepts that are not."""
        return tuple(c for c in self.concepts if not c.name)


_ASKS: tuple[tuple[re.Pattern[str], Ask], ...] = tuple(
    (re.compile(pattern), ask)
    for pattern, ask in (
        (r"\bhow (many|much|long|tall|high|old|far|large|big|deep|wide|heavy|fast|often|small)\b", Ask.NUMBER),
        (r"\b(what|which) (number|percentage|percent|share|amount|fraction)\b", Ask.NUMBER),
        (r"(?:^\W*|, )(?:(?:since|until|by) )?when\b|\b(what|which) (year|date|day|month|century)\b", Ask.TIME),
        (r"(?:^\W*|, )(?:(?:by|to|from|for|with|of) )?(who|whom|whose)\b", Ask.WHO),
        (r"(?:^\W*|, )(?:from )?where\b", Ask.WHERE),
        (r"^\W*(how|why)\b", Ask.HOW),
    )
)
_MEASURES = {"large": "area", "big": "area", "small": "area", "tall": "height", "high": "height", "deep": "depth", "wide": "width"}
_MEASURES |= {"old": "age", "heavy": "weight", "fast": "speed", "far": "distance", "long": "length"}
_TIME_WORDS = frozenset({"date", "year", "day", "month"})
_KIND_WORDS = frozenset(_MEASURES) | {"how", "many", "much", "often", "year", "date"}
_DEFINE = re.compile(r"^\W*(?:what|who)(?:'s| is| are| was| were) (?:an? |the )?([^,;]+?)\W*$", re.I)
_STRICT = re.compile(
    r"^\W*what (?:does|do|did) (?:an? |the )?(?:term |word |code |setting |key |option |role |error )?(.+?) (?:do|mean|stand for|refer to)\W*$|"
    r"^\W*(?:what is|what's|explain|describe|state) (?:the |an? )?"
    r"(?:role|purpose|job|function|task|duty|meaning|definition|point) of (?:an? |the )?(?:term |word )?(.+?)\W*$|"
    r"^\W*what is (?:an? |the )?(.+?) (?:for|used for|good for)\W*$|^\W*what is meant by (?:an? |the )?(.+?)\W*$|^\W*define (?:an? |the )?(.+?)\W*$",
    re.I,
)
_OF = re.compile(
    r"^\W*(?:what|who|which|where|when|name|give|tell me|state|find)?(?:'s| is| are| was| were)?\s*(?:the |an? |its )?"
    r"([^,;]{2,80}?) (?:of|in|for) (?:the )?([^;]{2,80}?)\W*$",
    re.I,
)
_QUANTITIES = stems(
    "population area height length depth width weight number count size distance price cost age temperature speed pressure voltage gdp percentage"
    " elevation salary capacity duration altitude volume mass share density expectancy inhabitants"
)
_DATED = re.compile(r"^\W*(?:what|which) (?:is|was|are|were) (?:the |its )?(?:\w+ ){0,2}(?:date|year|birthday|deadline)\b", re.I)
_FRAME = re.compile(r"^\W*(?:(?:please|kindly|could you|can you|would you|tell me|i want to know|do you know)\s+)+", re.I)
_PREPOSITION = re.compile(r"\b(of|in|for|by|at|on|from|to|with|between|during|under|that|which|used|called|when|if)\b", re.I)
_NAMING = r"(?:,?\s*\b(?:according to|as (?:stated|written|given) in|in|from|inside|of|by)\s+)?(?:\b(?:the|a)\s+)?(?:\bfile\s+)?"
_TAIL_UNIT = re.compile(r"\b(?:in|measured in|expressed in) ([A-Za-z0-9²³°/ ]{1,40}?)\s*[?.!]*\s*$")
_COUNT_UNIT = re.compile(r"\bhow many ([A-Za-z²³ ]{1,40})", re.I)


def _unit(text: str) -> tuple[Unit | None, tuple[int, int]]:
    """The unit an answer is wanted in, and where it is named."""
    if tail := _TAIL_UNIT.search(text):
        tokens = tokenize(tail[1])
        if tokens and (found := [u for u, end in read_unit(tokens, 0) if end == len(tokens)]):
            return found[0], tail.span()
    if count := _COUNT_UNIT.search(text):
        tokens = tokenize(count[1])
        named = sorted(read_unit(tokens or (), 0), key=lambda pair: pair[1])
        if tokens and named:
            unit, end = named[-1]
            width = sum(len(t.raw) + 1 for t in tokens[:end])
            return unit, (count.start(1), min(count.start(1) + width, count.end(1)))
    return None, (0, 0)


def without_files(text: str) -> str:
    """The question without the files it names: they say where to look, not what for."""
    for name in named_files(text):
        text = re.sub(rf"{_NAMING}[\"'`“‘«]?{re.escape(name)}[\"'`”’»]?", " ", text)
    return text


def analyse(text: str) -> Question:
    """Analyse a question. Total: any text gives a Question, an empty one without concepts."""
    bare = text[:MAX_QUESTION]
    if is_data(bare):
        return Question(Ask.WHAT, (), frozenset(), frozenset(), None, False)
    text = without_files(bare)
    strict = _STRICT.match(text)
    if strict is not None:
        text = f"what is {next(g for g in strict.groups() if g)}"
    folded = fold(text)
    ask = next((kind for pattern, kind in _ASKS if pattern.search(folded)), Ask.TIME if _DATED.match(text) else Ask.WHAT)
    unit, (unit_start, unit_end) = _unit(text)
    found = [w for w in words(text) if not (unit_start <= w.start and w.end <= unit_end)]
    own = frozenset(w.stem for w in found)
    joined = frozenset(s for group in SYNONYMS for phrase in group if len(phrase) > 1 and phrase <= own for s in phrase)
    owned = _OF.match(text) is not None
    concepts: dict[str, Concept] = {}
    measure = ""
    for at, word in enumerate(found):
        if ask in (Ask.NUMBER, Ask.TIME) and fold(word.raw) in _KIND_WORDS and at <= 3:
            measure = measure or _MEASURES.get(fold(word.raw), "")
        elif ask is Ask.TIME and owned and fold(word.raw) in _TIME_WORDS:
            continue
        elif word.stem not in STOP_STEMS and (word.stem not in SOFT_STEMS or word.stem in joined) and len(concepts) < MAX_CONCEPTS:
            name = word.raw[0].isdigit() or (word.capital and at > 0 and not _heading(found))
            concepts.setdefault(word.stem, Concept(word.stem, _phrases(word.stem, own), name))
    implied = stem("location" if ask is Ask.WHERE else measure if unit is None else "")
    if implied and all(c.name for c in concepts.values()):
        concepts[implied] = Concept(implied, _phrases(implied, own | {implied}))
    pieces = {part for one in own for part in parts(one)}
    every = own.union({implied, stem(measure)} - {""}, pieces, *(phrase for c in concepts.values() for phrase in c.phrases)) - STOP_STEMS
    attribute, owner, nested = _of(text, frozenset(concepts))
    return Question(
        ask,
        tuple(concepts.values()),
        every,
        own - STOP_STEMS,
        unit,
        strict is not None or _defines(text, len(concepts)),
        counted=_counted(found) if unit is None else "",
        plural=any(w.raw.endswith("s") and w.raw.islower() and w.stem != w.raw and w.stem not in STOP_STEMS for w in found),
        text=text,
        strict=strict is not None,
        attribute=attribute,
        owner=owner,
        quantity=bool(attribute & _QUANTITIES) and ask is not Ask.WHO,
        nested=nested,
    )


def _of(text: str, concepts: frozenset[str]) -> tuple[frozenset[str], frozenset[str], bool]:
    """The attribute and its owner, and whether the attribute is asked of a like thing again."""
    match = _OF.match(text)
    if match is None:
        return frozenset(), frozenset(), False
    attribute, owner = stems(match[1]) & concepts, stems(match[2]) & concepts
    chain = [stems(link) - SOFT_STEMS for link in re.split(r"\b(?:of|in|for)\b", f"{match[1]} of {match[2]}")[:-1]]
    nested = any(first and first == second for first, second in pairwise(chain))
    return attribute - owner, owner, nested


def _counted(found: list[Word]) -> str:
    """What "how many" counts: the last of the content words right after it ("how many other roles" counts roles)."""
    for at, (first, second) in enumerate(pairwise(found)):
        if (fold(first.raw), fold(second.raw)) == ("how", "many"):
            run = list(takewhile(lambda w: w.stem not in STOP_STEMS, found[at + 2 : at + 5]))
            plural = [w.stem for w in run if fold(w.raw).endswith("s")]
            return plural[0] if plural else run[0].stem if run else ""
    return ""


def _heading(found: list[Word]) -> bool:
    """Written like a heading, with capitals even on small words: then capitals say nothing."""
    return any(w.capital and w.stem in STOP_STEMS and w.raw != "I" for w in found[1:])


def _phrases(of: str, own: frozenset[str]) -> tuple[frozenset[str], ...]:
    """What says the same as the phrase this stem belongs to, where the question holds that whole phrase."""
    found: dict[frozenset[str], None] = {}
    for group in SYNONYMS:
        if any(of in phrase and phrase <= own for phrase in group):
            found.update((phrase, None) for phrase in group if of not in phrase or not phrase <= own)
    return tuple(found)


def _defines(text: str, concepts: int) -> bool:
    match = _DEFINE.match(text)
    if match is None:
        return False
    thing = match[1] or match[2]
    return 0 < concepts <= 4 and not _PREPOSITION.search(thing)
