"""Units: exact factors to a base unit, and every spelling that is read. Data, and how a name becomes a unit.

Calendar units (month, year) are a dimension of their own: a month has no fixed number of days. Names that mean different things in
different places and are dangerous to guess (``ton``, ``nm``) are absent; US gallons and their like are taken, and said (``note``).
Symbols are case-sensitive (``Mb`` is a megabit, ``MB`` a megabyte); decimal prefixes are powers of ten, ``KiB`` and its like of two.
Factors: international yard and pound (1959), US survey units not used, NIST SP 811.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit: ``value_in_base = factor * value + offset``. ``dimension`` names what it measures."""

    name: str
    plural: str
    dimension: str
    factor: Fraction
    offset: Fraction = Fraction(0)
    note: str = ""


_LENGTH = """
millimetre millimetres 1/1000 mm millimeter millimeters
centimetre centimetres 1/100 cm centimeter centimeters
decimetre decimetres 1/10 dm decimeter decimeters
metre metres 1 m meter meters
kilometre kilometres 1000 km kilometer kilometers
micrometre micrometres 1/1000000 µm um micrometer micrometers micron microns
nanometre nanometres 1/1000000000 nanometer nanometers
inch inches 254/10000 in
foot feet 3048/10000 ft
yard yards 9144/10000 yd yds
mile miles 1609344/1000 mi
nautical_mile nautical_miles 1852 nmi
"""
_MASS = """
microgram micrograms 1/1000000 µg
milligram milligrams 1/1000 mg
gram grams 1 g gramme grammes
kilogram kilograms 1000 kg kgs kilo kilos kilogramme kilogrammes
tonne tonnes 1000000 metric_ton metric_tons metric_tonne metric_tonnes
ounce ounces 28349523125/1000000000 oz
pound pounds 45359237/100000 lb lbs
stone stones 635029318/100000 st
short_ton short_tons 90718474/100 us_ton us_tons
long_ton long_tons 10160469088/10000 imperial_ton imperial_tons
carat carats 2/10 ct
"""
_TIME = """
nanosecond nanoseconds 1/1000000000 ns
microsecond microseconds 1/1000000 µs
millisecond milliseconds 1/1000 ms msec
second seconds 1 s sec secs
minute minutes 60 min mins
hour hours 3600 h hr hrs
day days 86400
week weeks 604800 wk wks
fortnight fortnights 1209600
"""
_CALENDAR = """
month months 1
year years 12 yr yrs
decade decades 120
century centuries 1200
millennium millennia 12000 millenniums
"""
_VOLUME = """
millilitre millilitres 1/1000 ml mL milliliter milliliters cc
centilitre centilitres 1/100 cl cL centiliter centiliters
decilitre decilitres 1/10 dl dL deciliter deciliters
litre litres 1 l L liter liters
imperial_gallon imperial_gallons 454609/100000 uk_gallon uk_gallons
imperial_pint imperial_pints 56826125/100000000 uk_pint uk_pints
imperial_quart imperial_quarts 11365225/10000000 uk_quart uk_quarts
"""
_VOLUME_US = """
US_gallon US_gallons 3785411784/1000000000 gallon gallons gal us_gallon us_gallons
US_quart US_quarts 946352946/1000000000 quart quarts qt us_quart us_quarts
US_pint US_pints 473176473/1000000000 pint pints us_pint us_pints
US_cup US_cups 2365882365/10000000000 cup cups us_cup us_cups
US_fluid_ounce US_fluid_ounces 295735295625/10000000000000 fluid_ounce fluid_ounces fl_oz us_fluid_ounce us_fluid_ounces
US_tablespoon US_tablespoons 1478676478125/100000000000000 tablespoon tablespoons tbsp
US_teaspoon US_teaspoons 492892159375/100000000000000 teaspoon teaspoons tsp
"""
_AREA = """
hectare hectares 10000 ha
acre acres 40468564224/10000000
"""
_DATA = """
bit bits 1
byte bytes 8 B
kilobit kilobits 1000 kbit kb Kb
megabit megabits 1000000 Mbit Mb
gigabit gigabits 1000000000 Gbit Gb
terabit terabits 1000000000000 Tbit Tb
kilobyte kilobytes 8000 kB KB
megabyte megabytes 8000000 MB
gigabyte gigabytes 8000000000 GB
terabyte terabytes 8000000000000 TB
petabyte petabytes 8000000000000000 PB
kibibyte kibibytes 8192 KiB
mebibyte mebibytes 8388608 MiB
gibibyte gibibytes 8589934592 GiB
tebibyte tebibytes 8796093022208 TiB
"""
_SPEED = """
mile_per_hour miles_per_hour 44704/100000 mph
kilometre_per_hour kilometres_per_hour 1000/3600 kph kmh
knot knots 1852/3600 kn kts
"""
_US_NOTE = "US measure"
_TABLES: tuple[tuple[str, str, str], ...] = (
    ("length", _LENGTH, ""),
    ("mass", _MASS, ""),
    ("time", _TIME, ""),
    ("calendar", _CALENDAR, ""),
    ("volume", _VOLUME, ""),
    ("volume", _VOLUME_US, _US_NOTE),
    ("area", _AREA, ""),
    ("data", _DATA, ""),
    ("speed", _SPEED, ""),
)
_DEGREES = (
    (Unit("degree Celsius", "degrees Celsius", "temperature", Fraction(1), Fraction(27315, 100)), "celsius centigrade C °c °C"),
    (
        Unit("degree Fahrenheit", "degrees Fahrenheit", "temperature", Fraction(5, 9), Fraction(27315, 100) - Fraction(160, 9)),
        "fahrenheit F °f °F",
    ),
    (Unit("kelvin", "kelvins", "temperature", Fraction(1)), "kelvin kelvins K"),
)
_CASED = frozenset({"B", "kb", "Kb", "Mb", "Gb", "Tb", "kB", "KB", "MB", "GB", "TB", "PB", "mL", "cL", "dL", "L", "C", "F", "K"})
"""Symbols read only in exactly this case."""


def _load() -> dict[tuple[str, ...], Unit]:
    found: dict[tuple[str, ...], Unit] = {}
    for dimension, table, note in _TABLES:
        for line in table.strip().splitlines():
            name, plural, factor, *aliases = line.split()
            unit = Unit(name.replace("_", " "), plural.replace("_", " "), dimension, Fraction(factor), note=note)
            for alias in (name, plural, *aliases):
                text = alias if alias in _CASED else alias.casefold()
                found[tuple(text.split("_"))] = unit
    for unit, names in _DEGREES:
        for name in names.split():
            words = (name,) if name in _CASED else (name.casefold(),)
            found[words] = unit
            if name not in ("K", "kelvins", "kelvin") and not name.startswith("°"):
                found["degrees", *words] = found["degree", *words] = found["°", *words] = unit
    return found


UNITS = _load()
"""Words of a name -> unit. Cased symbols keep their case, everything else is case-folded."""
MAX_WORDS = max(len(name) for name in UNITS)


def power_of(unit: Unit, exponent: int) -> Unit | None:
    """The square or cubic unit of a length."""
    if unit.dimension != "length":
        return None
    word, dimension = ("square", "area") if exponent == 2 else ("cubic", "volume")
    factor = unit.factor**exponent * (1000 if exponent == 3 else 1)  # volumes are counted in litres
    return Unit(f"{word} {unit.name}", f"{word} {unit.plural}", dimension, factor)


def per(top: Unit, bottom: Unit) -> Unit | None:
    """A unit per unit of time: a speed from a length, a rate from anything else."""
    if bottom.dimension != "time" or top.offset or top.dimension in ("time", "temperature", "calendar"):
        return None
    dimension = "speed" if top.dimension == "length" else f"{top.dimension} per time"
    return Unit(f"{top.name} per {bottom.name}", f"{top.plural} per {bottom.name}", dimension, top.factor / bottom.factor, note=top.note)
