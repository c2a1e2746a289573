"""Words as the extractive expert compares them: folded, lightly stemmed, with their places in the text. Pure data and functions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*(?:['’][^\W_]+)?", re.UNICODE)
"""``max_turns`` is one word: the name of one thing, not two words of prose."""
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ß": "ss", "ı": "i", "’": "'"})
_SHORT = {"st": "saint", "ste": "saint", "mt": "mount", "&": "and"}


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_CACHED = 160
"""Longest text whose stems are kept, in characters."""
STOP = _set(
    "the a an of in on at to for from by with and or is are was were be been being do does did done has have had having it its this that"
    " these those there here which what whats who whom whose when where why how me my you your i we our us they their them he she his her"
    " as than then if so please tell give show find can could would will should may might must shall let any some about into onto per s"
)
"""Words without content of their own."""
SOFT = _set(
    "total official officially current currently presently name names named called known number amount value overall main major country"
    " nation according document documents documentation file text passage say says said state states stated mention mentions mentioned"
    " contain contains content contents read exact exactly approximately approximate many much kind type sort today now gain gained become"
    " became happen happened take took taken place occur occurred hold held list describe explain mean means word words write written"
    " located situated found lie lies question answer come comes get gets got go goes use uses used using"
    " call calls rate rates level levels cover covers span spans occupy occupies"
)
"""Words that help to choose but whose absence decides nothing."""


def fold(text: str) -> str:
    """Case-folded, without diacritics."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text.casefold().translate(_LETTERS))
    return "".join(c for c in plain if not unicodedata.combining(c))


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A light stem of a folded word: plurals, possessives, -ed, -ing, final e. The same on both sides is all that counts."""
    word = word.removesuffix("'s").replace("'", "")
    word = _SHORT.get(word, word)
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            word = word.removesuffix(ending)
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text: its stem, as it stood, and where."""

    stem: str
    raw: str
    start: int
    end: int

    @property
    def capital(self) -> bool:
        """Whether it starts with a capital letter."""
        return self.raw[:1].isupper()


def words(text: str) -> list[Word]:
    """Every word of a text, in order. A number with separators (``1,234.5``) counts as its parts."""
    return [Word(stem(fold(m[0])), m[0], m.start(), m.end()) for m in _WORD.finditer(text)]


STOP_STEMS = frozenset(stem(w) for w in STOP) | STOP
SOFT_STEMS = frozenset(stem(w) for w in SOFT)


def content(found: Iterable[Word]) -> frozenset[str]:
    """The content stems of words: all but stop words; of a joined name also its parts."""
    return _with_parts(frozenset([w.stem for w in found]))


def stems(text: str) -> frozenset[str]:
    """The content stems of a text, as ``content``."""
    return _label_stems(text) if len(text) <= MAX_CACHED else _with_parts(keys(text))


@lru_cache(maxsize=4096)
def _label_stems(text: str) -> frozenset[str]:
    """Labels come again and again."""
    return _with_parts(keys(text))


def keys(text: str) -> frozenset[str]:
    """The content stems of a text with joined names whole: what a label is called."""
    return frozenset([stem(fold(found)) for found in _WORD.findall(text)]) - STOP_STEMS


def parts(of: str) -> list[str]:
    """The stems of the parts of a joined name; of any other stem none."""
    return [stem(part) for part in of.split("_") if part] if "_" in of else []


def _with_parts(found: frozenset[str]) -> frozenset[str]:
    joined = [part for one in found for part in parts(one)]
    return (found.union(joined) if joined else found) - STOP_STEMS


def _groups(text: str) -> tuple[tuple[frozenset[str], ...], ...]:
    lines = [line.split("|") for line in text.strip().splitlines()]
    return tuple(tuple(stems(phrase) for phrase in line) for line in lines)


SYNONYMS = _groups("""
top-level domain|tld|cctld|internet country code|country code domain
inhabitants|population|residents|people living|people live
surface|surface area|area
currency|money
president|chief of state|head of state
king|chief of state|head of state
queen|chief of state|head of state
monarch|chief of state|head of state
prime minister|head of government
default|preset
depth|deep
height|high|tall
length|long
width|wide
age|old
gdp per capita|real gdp per capita|gdp per head
official name|conventional long form|long form|formal name|full name
highest point|highest mountain|highest peak|highest elevation
lowest point|lowest elevation
neighbours|neighbors|border countries|bordering countries
borders|border countries
coast length|coastline
form of government|government type
spoken|language
faith|religion
gdp|gross domestic product
unemployed|unemployment
size|area
license|licence
location|located|lies|lie|situated
author|written by
maximum|max|at most|limit
minimum|min|at least
voltage|volt|volts|kilovolts
temperature|degrees|celsius|fahrenheit|kelvin
weight|kilograms|kg|grams|pounds|tonnes
speed|km h|kilometres per hour|miles per hour|knots|metres per second
distance|kilometres|miles|metres
duration|hours|minutes|days|weeks|months|years
price|euros|dollars|pounds
pressure|pascals|hectopascals|bar
""")
"""Phrases that name the same thing, one group a line, as sets of stems."""
