"""Dates: days between, days and months after or before, weekdays, leap years, lengths of months.

Gregorian calendar, years 1583 to 9999; earlier dates depend on the place, so they are not answered. ``03/04/2024`` is read differently
in different places: not read. There is no "today" here: a backend has no clock.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from gnus_node.experts.symbolic.frames import strip_frame
from gnus_node.experts.symbolic.numbers import SMALL_ORDINALS, cardinals, sign, word
from gnus_node.experts.symbolic.tokens import Kind, Token

FIRST_YEAR = 1583
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
MONTHS = {name: i + 1 for i, name in enumerate(_MONTHS)} | {name[:3]: i + 1 for i, name in enumerate(_MONTHS)} | {"sept": 9}
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MAX_SHIFT = 4_000_000
"""Most days, weeks, months or years a date is moved by."""

Reading = tuple[date, int]


def _plain(tokens: Sequence[Token], at: int) -> int | None:
    """An unsigned integer literal without separators."""
    if at < len(tokens) and tokens[at].kind is Kind.NUMBER and tokens[at].raw.isdigit() and len(tokens[at].raw) <= 7:
        return int(tokens[at].raw)
    return None


def _year(tokens: Sequence[Token], at: int) -> int | None:
    value = _plain(tokens, at)
    return value if value is not None and len(tokens[at].raw) == 4 and value >= FIRST_YEAR else None


def _day(tokens: Sequence[Token], at: int) -> tuple[int, int] | None:
    """A day of the month and where it ends: ``12``, ``12th``, ``twelfth``, ``the 12th``."""
    at += word(tokens, at) == "the"
    if at >= len(tokens):
        return None
    if tokens[at].kind is Kind.ORDINAL:
        return int(tokens[at].text[:-2]), at + 1
    if word(tokens, at) in SMALL_ORDINALS:
        return SMALL_ORDINALS[word(tokens, at)], at + 1
    value = _plain(tokens, at)
    return (value, at + 1) if value is not None and value <= 31 else None


def _made(year: int | None, month: int, day: int, end: int) -> Iterator[Reading]:
    if year is not None and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]:
        yield date(year, month, day), end


def read_date(tokens: Sequence[Token], at: int) -> Iterator[Reading]:
    """Dates that may stand here: ISO, "12 March 2024", "March 12th, 2024", "the 12th of March, 2024"; a weekday before must be right."""
    if at < len(tokens) and tokens[at].kind is Kind.DATE:
        year, month, day = (int(x) for x in tokens[at].text.split("-"))
        yield from _made(year if year >= FIRST_YEAR else None, month, day, at + 1)
        return
    weekday = word(tokens, at).capitalize()
    if weekday in _WEEKDAYS:
        start = at + 1 + (sign(tokens, at + 1) == ",")
        yield from ((d, end) for d, end in read_date(tokens, start) if _WEEKDAYS[d.weekday()] == weekday)
        return
    if (month := MONTHS.get(word(tokens, at), 0)) and (found := _day(tokens, _dot(tokens, at + 1))):
        year_at = found[1] + (sign(tokens, found[1]) == ",")
        yield from _made(_year(tokens, year_at), month, found[0], year_at + 1)
        return
    if found := _day(tokens, at):
        month_at = found[1] + (word(tokens, found[1]) == "of")
        if month := MONTHS.get(word(tokens, month_at), 0):
            year_at = _dot(tokens, month_at + 1)
            year_at += sign(tokens, year_at) == ","
            yield from _made(_year(tokens, year_at), month, found[0], year_at + 1)


def shifted_day(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """The question with every date that does not exist in its month or year made one that does: to see whether only the date is wrong."""
    made = list(tokens)
    for at, token in enumerate(tokens):
        if token.kind is Kind.DATE:
            year, month, day = (int(x) for x in token.text.split("-"))
            if year < FIRST_YEAR or not 1 <= month <= 12 or not 1 <= day <= monthrange(year, month)[1]:
                made[at] = Token(Kind.DATE, "2001-01-01", "2001-01-01")
        elif MONTHS.get(word(tokens, at)):
            beside = (at - 1 - (word(tokens, at - 1) == "of"), at + 1)
            day_at = next((p for p in beside if 0 <= p < len(tokens) and _day(tokens, p) and _year(tokens, p) is None), None)
            number = _day(tokens, day_at) if day_at is not None else None
            year_at = next((p for p in range(at + 1, min(at + 5, len(tokens))) if _year(tokens, p) is not None), None)
            last = monthrange(_year(tokens, year_at) or 2000, MONTHS[word(tokens, at)])[1] if year_at is not None else 31
            if day_at is not None and number is not None and not 1 <= number[0] <= last:
                made[day_at] = Token(Kind.NUMBER, "1", "1")
    return tuple(made)


def _dot(tokens: Sequence[Token], at: int) -> int:
    """Past the dot of an abbreviated month."""
    return at + (sign(tokens, at) == "." and len(word(tokens, at - 1)) <= 4)


def _texts(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(t.text for t in tokens)


def _is(tokens: Sequence[Token], at: int, phrase: str) -> int:
    """Where the phrase ends if it stands here, otherwise 0."""
    words = tuple(phrase.split())
    return at + len(words) if _texts(tokens[at : at + len(words)]) == words else 0


def date_answers(tokens: Sequence[Token]) -> list[str]:
    """All readings of a question about dates that use every token, as answer texts."""
    while tokens and tokens[-1].text in ("?", "."):
        tokens = tokens[:-1]
    bare = strip_frame(tokens)
    found = [*_between(bare), *_shifted(bare), *_weekday(bare), *_weekday(tokens), *_leap(tokens), *_length(bare)]
    return list(dict.fromkeys(found))


def _starts(tokens: Sequence[Token], at: int, phrases: Sequence[str]) -> list[int]:
    return [end for phrase in phrases if (end := _is(tokens, at, phrase))]


def _between(tokens: Sequence[Token]) -> Iterator[str]:
    heads = ("how many {u} are there", "how many {u} are", "how many {u}", "number of {u}", "the number of {u}", "{u}", "the {u}")
    for unit, days in (("days", 1), ("weeks", 7)):
        for start in _starts(tokens, 0, [h.format(u=unit) for h in heads]):
            for opening, joins in (("between", ("and",)), ("from", ("to", "until", "till", "through"))):
                at = _is(tokens, start, opening)
                for first, middle in read_date(tokens, at) if at else ():
                    for join in joins:
                        then = _is(tokens, middle, join)
                        for last, end in read_date(tokens, then) if then else ():
                            if end == len(tokens) and join != "through":
                                yield _count(abs((last - first).days), days, unit)
            for then in _starts(tokens, start, ("passed between",)):
                yield from _between((*tokens[:start], *tokens[then - 1 :]))


def _count(days: int, size: int, unit: str) -> str:
    whole, rest = divmod(days, size)
    one = unit[:-1]
    text = f"{whole} {one if whole == 1 else unit}"
    return text if not rest else f"{text} and {rest} {'day' if rest == 1 else 'days'}"


def _amounts(tokens: Sequence[Token], at: int) -> Iterator[tuple[int, str, int]]:
    """ "30 days", "two weeks", "a month"."""
    numbers: list[tuple[int, int]] = list(cardinals(tokens, at, MAX_SHIFT))
    if (literal := _plain(tokens, at)) is not None:
        numbers.append((literal, at + 1))
    if word(tokens, at) in ("a", "an", "one"):
        numbers.append((1, at + 1))
    for number, end in numbers:
        unit = word(tokens, end).removesuffix("s")
        if unit in ("day", "week", "month", "year") and number <= MAX_SHIFT:
            yield number, unit, end + 1


def move(start: date, number: int, unit: str) -> date | None:
    """A date moved; a month too short takes its last day; None outside the calendar."""
    try:
        if unit in ("day", "week"):
            moved = start + timedelta(days=number * (7 if unit == "week" else 1))
        else:
            months = start.year * 12 + start.month - 1 + number * (12 if unit == "year" else 1)
            year, month = divmod(months, 12)
            moved = date(year, month + 1, min(start.day, monthrange(year, month + 1)[1]))
    except (OverflowError, ValueError):
        return None
    return moved if moved.year >= FIRST_YEAR else None


_ASKED = (
    "what date is",
    "which date is",
    "the date",
    "date",
    "what day is",
    "when is",
    "which day is",
    "day",
    "day is",
    "date is",
    "what date will it be",
    "",
)


def _shifted(tokens: Sequence[Token]) -> Iterator[str]:
    for start in (0, *_starts(tokens, 0, [a for a in _ASKED if a])):
        for sign_of, moved in (*_amount_first(tokens, start), *_date_first(tokens, start)):
            result = move(moved[0], sign_of * moved[1], moved[2])
            if result is not None:
                yield result.isoformat()


Shift = tuple[int, tuple[date, int, str]]


def _amount_first(tokens: Sequence[Token], start: int) -> Iterator[Shift]:
    """ "30 days after D", "add 30 days to D"."""
    verbs = {"add": (("to", 1),), "subtract": (("from", -1),)}
    verb = word(tokens, start)
    links = verbs.get(verb, (("after", 1), ("from", 1), ("before", -1)))
    for number, unit, at in _amounts(tokens, start + (verb in verbs)):
        for link, direction in links:
            then = _is(tokens, at, link)
            for day, end in read_date(tokens, then) if then else ():
                if end == len(tokens):
                    yield direction, (day, number, unit)


def _date_first(tokens: Sequence[Token], start: int) -> Iterator[Shift]:
    """ "D plus 30 days"."""
    for day, at in read_date(tokens, start):
        for link, direction in (("plus", 1), ("+", 1), ("minus", -1), ("-", -1)):
            then = _is(tokens, at, link)
            for number, unit, end in _amounts(tokens, then) if then else ():
                if end == len(tokens):
                    yield direction, (day, number, unit)


_WEEKDAY_ASKED = (
    "what day of the week was",
    "what day of the week is",
    "what day of the week will",
    "which day of the week was",
    "which day of the week is",
    "what weekday was",
    "what weekday is",
    "which weekday was",
    "which weekday is",
    "on what day of the week was",
    "on what day of the week did",
    "on which day of the week did",
    "day of the week of",
    "day of the week was",
    "the day of the week of",
    "the weekday of",
    "weekday of",
    "day of the week is",
    "day of the week",
    "weekday is",
    "weekday was",
)


def _weekday(tokens: Sequence[Token]) -> Iterator[str]:
    for start in _starts(tokens, 0, _WEEKDAY_ASKED):
        for day, end in read_date(tokens, start):
            if _texts(tokens[end:]) in ((), ("be",), ("fall",), ("fall", "on")):
                yield _WEEKDAYS[day.weekday()]


def _leap(tokens: Sequence[Token]) -> Iterator[str]:
    for start in _starts(tokens, 0, ("is", "was", "will", "is the year", "was the year", "will the year")):
        year = _year(tokens, start)
        end = start + 1 + (word(tokens, start + 1) == "be")
        if year is not None and _texts(tokens[end:]) == ("a", "leap", "year"):
            yield "yes" if isleap(year) else "no"


def _length(tokens: Sequence[Token]) -> Iterator[str]:
    """ "how many days are in February 2024", "how many days does 2024 have"."""
    heads = ("how many days are there in", "how many days are in", "how many days in", "how many days does", "how many days did")
    for start in _starts(tokens, 0, (*heads, "number of days in", "the number of days in")):
        at = start + (word(tokens, start) == "the") + (word(tokens, start + (word(tokens, start) == "the")) in ("year", "month"))
        at += word(tokens, at) == "of"
        month = MONTHS.get(word(tokens, at), 0)
        year_at = at + bool(month)
        year_at += bool(month) and (sign(tokens, year_at) == "," or word(tokens, year_at) == "of")
        year = _year(tokens, year_at)
        if year is not None and _texts(tokens[year_at + 1 :]) in ((), ("have",)):
            days = monthrange(year, month)[1] if month else 366 if isleap(year) else 365
            yield f"{days} days"
