"""Reads TOML files into strict models; every refusal names file, line and, for an unknown key, the nearest one that exists."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from gnus_node.config.lines import KeyPath, key_lines, nearest_line
from gnus_node.config.model import NodeConfig
from gnus_node.records.errors import GnusError

MAX_CONFIG_BYTES = 1024 * 1024
MAX_SHOWN_KEY = 60

M = TypeVar("M", bound=BaseModel)


def load_config(path: Path) -> NodeConfig:
    """The settings in ``path``, relative paths taken from its folder. Raises ``CONFIG``."""
    return load_toml(path, NodeConfig)


def load_toml(path: Path, model: type[M]) -> M:
    """A TOML file as ``model``, its ``Path`` fields made absolute. Raises ``CONFIG`` for the first thing wrong."""
    text = read_text(path)
    try:
        data = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        reason = re.sub(r"\s*\(at .*\)$", "", str(error)) if found else "it ends too early, or is nested too deeply"
        raise GnusError("CONFIG", f"{path}:{line}: not valid TOML: {reason}", fix="correct the line") from None
    try:
        return model.model_validate(data, context={"folder": path.resolve().parent})
    except ValidationError as error:
        raise refusal(path, text, model, error) from None


def read_text(path: Path) -> str:
    """A settings file's text, bounded. Raises ``CONFIG``."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise GnusError("CONFIG", f"{path}: cannot be read: {error.strerror}", fix="correct the path, or the file's rights") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise GnusError("CONFIG", f"{path}: larger than {MAX_CONFIG_BYTES} bytes")
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise GnusError("CONFIG", f"{path}:{line}: not UTF-8", fix="save the file as UTF-8") from None


def refusal(path: Path, text: str, model: type[BaseModel], error: ValidationError) -> GnusError:
    """The first fault of a validation as one error. Values are not repeated: a setting may be a secret."""
    places = key_lines(text)
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    # A mistyped key is often a missing one as well; the typo is the better thing to say.
    fault = min(faults, key=lambda f: (f["type"] != "extra_forbidden", nearest_line(places, f["loc"])))
    where: KeyPath = tuple(fault["loc"])
    line = nearest_line(places, where)
    if fault["type"] not in ("extra_forbidden", "missing"):
        # A union's branches and a key's own check add names to the place; the file knows keys only.
        while len(where) > 1 and where not in places:
            where = where[:-1]
    dotted = ".".join(str(part) for part in where)[:200] or "the file"
    if fault["type"] == "extra_forbidden":
        known = known_keys(model, where[:-1])
        near = nearest(str(where[-1]), known, model)
        return GnusError("CONFIG", f"{path}:{line}: unknown key {dotted!r}", fix=near)
    if fault["type"] == "missing":
        return GnusError("CONFIG", f"{path}:{line}: the key {dotted!r} is missing", fix=f"add {str(where[-1])[:MAX_SHOWN_KEY]} = ...")
    message = fault["msg"].removeprefix("Value error, ")
    choices = known_values(fault)
    if choices:
        given = next(f["input"] for f in error.errors(include_url=False) if f["loc"] == fault["loc"])
        return GnusError("CONFIG", f"{path}:{line}: {dotted}: not a known value", fix=nearest_value(given, choices))
    if fault["type"] == "string_pattern_mismatch":
        message = "does not have the form that this key takes"
    return GnusError("CONFIG", f"{path}:{line}: {dotted}: {message}", fix="correct the value (docs/configuration.md)")


def located(path: Path, faults: Iterable[GnusError]) -> list[GnusError]:
    """Faults found beyond the file's form, whose link is a dotted key, each with file and line. Raises ``CONFIG``."""
    lines = key_lines(read_text(path))
    found = []
    for fault in faults:
        where = tuple(int(part) if part.isdigit() else part for part in fault.link.split("."))
        what = f"{path}:{nearest_line(lines, where)}: {fault.what}"
        found.append(GnusError(fault.code, what, fix=fault.fix, link=fault.link, whose=fault.whose))
    return found


def known_values(fault: Mapping[str, Any]) -> list[str]:
    """The values an enumeration or a literal takes, from its refusal; none for other faults."""
    message = str(fault["msg"])
    if fault["type"] == "literal_error":
        return re.findall(r"'([^']*)'", message)
    found = re.fullmatch(r"Value error, not one of (.*)", message)
    return found[1].split(", ") if found else []


def nearest_value(given: object, choices: Sequence[str]) -> str:
    """What to write instead: the nearest of the known values, and all of them where there are few."""
    close = difflib.get_close_matches(str(given), choices, n=1, cutoff=0.5)
    every = f"one of {', '.join(choices)}"
    return f"did you mean {close[0]!r}? ({every})" if close else every


def nearest(key: str, known: list[str], model: type[BaseModel]) -> str:
    """What to do instead: the same key where it belongs, else the nearest here, else the nearest elsewhere, else what is known here."""
    elsewhere = {name: section for section in model.model_fields for name in known_keys(model, (section,))}
    if key in elsewhere and key not in known:
        return f"{key!r} belongs in [{elsewhere[key]}]"
    if close := difflib.get_close_matches(key, known, n=1, cutoff=0.6):
        return f"did you mean {close[0]!r}?"
    if close := difflib.get_close_matches(key, list(elsewhere), n=1, cutoff=0.8):
        return f"did you mean {close[0]!r} in [{elsewhere[close[0]]}]?"
    return f"known here: {', '.join(known)}" if known else "remove it (docs/configuration.md)"


def known_keys(model: type[BaseModel], where: KeyPath) -> list[str]:
    """The keys a table at ``where`` may have, or none where it is free."""
    place: Any = model
    entry = False
    for part in where:
        if entry:
            # A list's number or a table's free name: the annotation was already unwrapped to the entry's model.
            entry = False
            continue
        field = place.model_fields.get(str(part)) if isinstance(place, type) and issubclass(place, BaseModel) else None
        place = _models_in(field.annotation) if field else None
        entry = field is not None and get_origin(field.annotation) in (dict, tuple, list)
    return list(place.model_fields) if isinstance(place, type) and issubclass(place, BaseModel) else []


def _models_in(annotation: Any) -> Any:
    """The model inside an annotation such as ``tuple[Model, ...]``, ``dict[str, Model]``, ``Model | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (tuple, list, dict, Annotated, Union, UnionType):
        return next((found for arg in get_args(annotation) if (found := _models_in(arg)) is not None), None)
    return None
