"""Unit conversion and dates of the symbolic expert, and the expert itself."""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnus_node.content.unit_table import UNITS, power_of
from gnus_node.experts.backend import GenRequest
from gnus_node.experts.collect import collect
from gnus_node.experts.symbolic.backend import SymbolicBackend
from gnus_node.experts.symbolic.dates import move
from gnus_node.experts.symbolic.solve import solve
from gnus_node.records.base import SCORE_ONE
from gnus_node.records.enums import AnswerType, BackendKind, UsageSource


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How many feet are there in a mile?", "5280 feet"),
        ("Convert 12 inches to centimetres", "30.48 centimetres"),
        ("what is 26.2 miles in km", "42.1648128 kilometres"),
        ("three kilometres in metres", "3000 metres"),
        ("5 feet 3 inches in cm", "160.02 centimetres"),
        ("how many seconds are in two hours and 30 minutes?", "9000 seconds"),
        ("How many grams in half a kilogram?", "500 grams"),
        ("2 stone in pounds", "28 pounds"),
        ("What is 98.6 °F in Celsius?", "37 degrees Celsius"),
        ("convert minus 40 degrees celsius to fahrenheit", "-40 degrees Fahrenheit"),
        ("0 K in °C", "-273.15 degrees Celsius"),
        ("10 m/s in km/h", "36 kilometres per hour"),
        ("60 mph in kilometres per hour", "96.56064 kilometres per hour"),
        ("how many square metres in a hectare", "10000 square metres"),
        ("2 km2 in square metres", "2000000 square metres"),
        ("1 cubic metre in litres", "1000 litres"),
        ("how many megabytes are in 2 GB?", "2000 megabytes"),
        ("8 Mb in MB", "1 megabyte"),
        ("How many bytes in a KiB", "1024 bytes"),
        ("1 US gallon in ml", "3785.411784 millilitres (US measure)"),
        ("How many months in a decade?", "120 months"),
        ("How many weeks in 21 days", "3 weeks"),
    ],
)
def test_conversions(question: str, answer: str) -> None:
    found = solve(question)
    assert found is not None
    assert found.answer == answer


@pytest.mark.parametrize(
    "question",
    [
        "how many days are in a year?",
        "5 miles in kilograms",
        "10 tons in kilograms",
        "how many miles",
        "5 in miles",
        "convert 5 smoots to metres",
        "5 pounds in dollars",
        "how many feet does a dog have",
        "3 metres in 2 feet",
        "100 K in",
    ],
)
def test_conversions_that_are_not_understood(question: str) -> None:
    assert solve(question) is None


@settings(deadline=None)
@given(st.sampled_from(["mm", "km", "inch", "yards", "miles"]), st.sampled_from(["metres", "feet", "cm"]), st.integers(0, 10**6))
def test_lengths_convert_exactly(source: str, target: str, amount: int) -> None:
    metres = {
        "mm": "0.001",
        "km": "1000",
        "inch": "0.0254",
        "yards": "0.9144",
        "miles": "1609.344",
        "metres": "1",
        "feet": "0.3048",
        "cm": "0.01",
    }
    found = solve(f"{amount} {source} in {target}")
    assert found is not None
    value = Fraction(found.answer.removeprefix("≈ ").split()[0])
    expected = amount * Fraction(metres[source]) / Fraction(metres[target])
    assert value == expected or (found.answer.startswith("≈") and abs(value - expected) <= expected / 10**11)


def test_the_unit_table_has_no_name_that_two_tables_claim() -> None:
    for words, unit in UNITS.items():
        assert words
        assert unit.factor > 0
    metre = UNITS[("metre",)]
    cubic = power_of(metre, 3)
    assert cubic is not None
    assert cubic.factor == 1000
    assert ("ton",) not in UNITS
    assert ("nm",) not in UNITS


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How many days are there between 12 March 2024 and 2024-04-01?", "20 days"),
        ("how many days from January 1, 2023 to January 1, 2024", "365 days"),
        ("How many weeks between 2024-01-01 and 2024-01-17?", "2 weeks and 2 days"),
        ("What is 30 days after March 1st, 2023?", "2023-03-31"),
        ("What date is two weeks before the 3rd of January 2021?", "2020-12-20"),
        ("2024-01-31 plus 1 month", "2024-02-29"),
        ("add 10 years to 29 February 2024", "2034-02-28"),
        ("What day of the week was 20 July 1969?", "Sunday"),
        ("On what day of the week did 1 January 2000 fall?", "Saturday"),
        ("Is 2000 a leap year?", "yes"),
        ("Was 1900 a leap year?", "no"),
        ("How many days are there in February 2023?", "28 days"),
        ("how many days are in the year 2024", "366 days"),
    ],
)
def test_dates(question: str, answer: str) -> None:
    found = solve(question)
    assert found is not None
    assert found.answer == answer


@pytest.mark.parametrize(
    "question",
    [
        "how many days until Christmas?",
        "what day is it today?",
        "how many days between 03/04/2024 and 05/06/2024",
        "what day of the week was 30 February 2024",
        "what day of the week was 12 March 1066",
        "what is 9999999 days after 2024-01-01",
        "what date is 8000 years after 2024-01-01",
        "is 20245 a leap year",
        "how many days are in February",
        "What is 30 days after Friday, 1 March 2023?",  # that was a Wednesday
    ],
)
def test_dates_that_are_not_understood(question: str) -> None:
    assert solve(question) is None


_DATES = st.dates(date(1583, 1, 1), date(9999, 12, 31))


@settings(deadline=None)
@given(_DATES, _DATES, st.sampled_from(["%Y-%m-%d", "%d %B %Y", "%B %d, %Y"]))
def test_days_between_any_two_dates(a: date, b: date, style: str) -> None:
    found = solve(f"How many days are between {a.strftime(style)} and {b.strftime(style)}?")
    assert found is not None
    days = abs((a - b).days)
    assert found.answer == f"{days} day{'' if days == 1 else 's'}"


@settings(deadline=None)
@given(_DATES, st.integers(-5000, 5000))
def test_moving_by_days_and_by_months(day: date, n: int) -> None:
    moved = move(day, n, "day")
    if moved is not None:
        assert moved == day + timedelta(days=n)
    moved = move(day, n, "month")
    if moved is not None:
        assert (moved.year - day.year) * 12 + moved.month - day.month == n
        assert moved.day == day.day or (moved.day < day.day and (moved + timedelta(days=1)).day == 1)


async def test_the_expert_is_certain_where_it_answers_and_silent_elsewhere() -> None:
    backend = SymbolicBackend()
    assert backend.info.kind is BackendKind.SYMBOLIC
    got = await collect(backend, GenRequest("r", "What is six times seven?"))
    assert (got.draft.answer, got.draft.confidence, got.draft.calibration_id) == ("42", SCORE_ONE, "exact/1")
    assert got.usage.source is UsageSource.NONE
    assert got.failure is None
    rounded = await collect(backend, GenRequest("r", "two divided by three"))
    assert rounded.draft.answer == "≈ 0.666666666667"
    assert rounded.draft.claims == ("exactly 2/3",)
    silent = await collect(backend, GenRequest("r", "What is the capital of Oz?"))
    assert (silent.draft.abstained, silent.draft.answer, silent.draft.confidence) == ("ABSTAINED", "", 0)
    as_json = await collect(backend, GenRequest("r", "2+2", answer_type=AnswerType.JSON))
    assert as_json.draft.answer == '"4"'
    assert as_json.draft.answer_type is AnswerType.JSON
    refused = await collect(backend, GenRequest("r", "2+2", json_schema={"type": "object"}))
    assert refused.draft.abstained == "UNSUPPORTED"
