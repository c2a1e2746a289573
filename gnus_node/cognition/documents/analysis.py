"""From text to terms, for questions and passages alike: folding, light stemming, concepts, names.

Both sides go through the same analysis before the index sees them, so the index's own tokenizer does not matter. A *concept* is a set of
phrases that mean the same ("sq km", "square kilometre"); the sets stand in ``ontology.json``, data a person can read. Nothing here knows
any question: there are general rules only. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from gnus_node.content.normalise import scan_copy

MAX_QUESTION_CHARS = 4000
MAX_QUERY_TERMS = 24
MAX_PHRASES = 8

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*|[^\W_]+")
_CASED = re.compile(r"[^\W\d_][\w'’.-]*|\([^\W\d_][\w'’.-]*\)")
_QUOTED = re.compile(r"[\"“”«»]([^\"“”«»\n]{2,80})[\"“”«»]|`([^`\n]{1,80})`")
_JOINING = frozenset({"and", "of", "the", "da", "de", "del", "di", "du", "la", "le", "al", "el", "van", "von", "&"})


_DATA = json.loads(resources.files(__package__).joinpath("ontology.json").read_text("utf-8"))
STOPWORDS = frozenset(_DATA["stopwords"].split())


def _concepts() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    by_first: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for concept, phrases in _DATA["concepts"].items():
        for phrase in phrases:
            parts = tuple(stem(word) for word in phrase.split())
            by_first.setdefault(parts[0], []).append((parts, f"x{concept}x"))
    for entries in by_first.values():
        entries.sort(key=lambda entry: -len(entry[0]))
    return by_first


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Light stemming: plurals, -ing, -ed and a final -e go from long words (countries, cleaning, routed); bus, glass, analysis stay. Both
    sides are stemmed alike, so a stem need not be a word."""
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies") and len(word) > 4:
            word = word[:-3] + "y"
        else:
            word = word[:-2] if word.endswith(("xes", "ses", "zes", "ches", "shes")) else word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "aeiouls":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


_CONCEPTS = _concepts()
PLAIN_LEAVES = frozenset(map(stem, _DATA["plain_leaves"]))
"""Words of path segments that add nothing to their parent: "Capital > name" is the capital."""
_WORDS_OF: dict[str, frozenset[str]] = {}
for _entries in _CONCEPTS.values():
    for _parts, _concept in _entries:
        _WORDS_OF[_concept] = _WORDS_OF.get(_concept, frozenset()).union(_parts)


def is_concept(term: str) -> bool:
    """Whether a term stands for a concept rather than a word."""
    return term in _WORDS_OF


def with_words(terms: Iterable[str]) -> frozenset[str]:
    """Terms together with every word by which their concepts are said."""
    return frozenset(terms).union(*(_WORDS_OF.get(term, frozenset()) for term in terms))


def raw_tokens(text: str) -> list[str]:
    """Folded tokens in order: no accents, no case, no possessive, digits without thousands separators."""
    return [_one(token) for token in _TOKEN.findall(scan_copy(text))]


def _one(token: str) -> str:
    if token.isalpha():
        return token
    if token[0].isdigit():
        return token.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", token) else token
    return token.removesuffix("'s").replace("'", "")


def name_tokens(text: str) -> tuple[str, ...]:
    """A name as stemmed tokens without joining words; "Saint" and "St." are one."""
    return tuple(_term(t) for t in raw_tokens(text) if t not in STOPWORDS)


def concepts_of(stems: Sequence[str]) -> list[tuple[int, int, str]]:
    """Concept phrases in a stem sequence, longest first at each place: (start, end, concept)."""
    found: list[tuple[int, int, str]] = []
    at = 0
    while at < len(stems):
        for parts, concept in _CONCEPTS.get(stems[at], ()):
            if tuple(stems[at : at + len(parts)]) == parts:
                found.append((at, at + len(parts), concept))
                at += len(parts) - 1
                break
        at += 1
    return found


def index_terms(text: str) -> list[str]:
    """What the index holds for a text: its stems without stopwords, and the concepts beside their words."""
    tokens = raw_tokens(text)
    terms = [_term(t) for t in tokens if t not in STOPWORDS]
    return terms + [concept for _, _, concept in concepts_of([stem(t) for t in tokens])]


def _term(token: str) -> str:
    return "st" if token == "saint" else stem(token)


@dataclass(frozen=True, slots=True)
class Query:
    """A question's terms: ``terms`` in order without repeats, concepts in place of their words; ``words`` the folded token sequence that
    names are looked for in; ``phrases`` quoted pieces, ``entities`` capitalised ones, each as name tokens."""

    terms: tuple[str, ...]
    words: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...]
    entities: tuple[tuple[str, ...], ...]
    upper: frozenset[str]
    """Tokens written in capitals, where a short code counts as a name."""


def analyse_query(question: str) -> Query:
    """Analyse a question; text beyond ``MAX_QUESTION_CHARS`` is left out."""
    question = question[:MAX_QUESTION_CHARS]
    tokens = raw_tokens(question)
    stems = [stem(t) for t in tokens]
    terms: dict[str, None] = {}
    at = 0
    spans = {start: (end, concept) for start, end, concept in concepts_of(stems)}
    while at < len(stems):
        if at in spans:
            at, concept = spans[at]
            terms[concept] = None
            continue
        if tokens[at] not in STOPWORDS:
            terms[_term(tokens[at])] = None
        at += 1
    phrases = [name_tokens(a or b) for a, b in _QUOTED.findall(question)][:MAX_PHRASES]
    return Query(
        tuple(terms)[:MAX_QUERY_TERMS],
        name_tokens(question),
        tuple(p for p in phrases if p),
        tuple(_entities(question)),
        frozenset(w.casefold() for w in re.findall(r"\b[A-Z]{2,6}\b", question)),
    )


def _entities(question: str) -> list[tuple[str, ...]]:
    """Capitalised sequences, joined over small words ("Isle of Man"); the first word of a sentence counts only with a second."""
    found: list[tuple[str, ...]] = []
    for sentence in re.split(r"[.!?:;,]\s+|\n", question):
        run: list[str] = []
        words = _CASED.findall(sentence)
        for number, word in enumerate([*words, ""]):
            bare = word.strip("()")
            capital = bool(bare) and bare[0].isupper() and (number > 0 or scan_copy(bare) not in STOPWORDS)
            if capital or (run and bare.casefold() in _JOINING):
                run.append(bare)
            else:
                _close(run, found, first_only=number == 1)
                run = []
    return list(dict.fromkeys(found))[:MAX_PHRASES]


def _close(run: list[str], found: list[tuple[str, ...]], *, first_only: bool) -> None:
    while run and run[-1].casefold() in _JOINING:
        run.pop()
    if run and not first_only and (name := name_tokens(" ".join(run))):
        found.append(name)


def contains(words: Sequence[str], part: Sequence[str]) -> int:
    """Where ``part`` stands as a run in ``words``, or -1."""
    size = len(part)
    if not size:
        return -1
    for at in range(len(words) - size + 1):
        if words[at] == part[0] and tuple(words[at : at + size]) == tuple(part):
            return at
    return -1
