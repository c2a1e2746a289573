"""Views made from bodies: one rule for each scalar gives the view's type and how a body's value is shown.

The seed's records have views of their own beside this module; every other record's view is derived here, so that a new record has a JSON
form, a schema and strict reading without further code. What is derived names the body's fields, as they are.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any

from pydantic import BeforeValidator, StringConstraints, create_model
from pydantic.fields import FieldInfo

from gnus_node.records.base import Body, Committed, FixedPoint, Part, RawBytes, View
from gnus_node.records.views.scalars import DecimalNumber, DigestText, FreeText, HexText, SignatureText, Texts, text_or_withheld, to_tuple

Show = Callable[[Any, Texts], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """The view's type of a field, and how the body's value becomes the view's."""

    view: Any
    show: Show


def _same(value: Any, _texts: Texts) -> Any:
    return value


def _hex(prefix: str) -> Show:
    return lambda value, _texts: f"{prefix}:{value.hex()}"


def _decimal(digits: int) -> Show:
    return lambda value, _texts: Decimal(value).scaleb(-digits)


def _of_scalar(base: Any, marks: tuple[Any, ...]) -> Shape | None:
    """A field marked as raw bytes or fixed point."""
    for mark in marks:
        if isinstance(mark, RawBytes):
            pattern = rf"^{mark.prefix}:[0-9a-f]{{{2 * mark.size}}}$"
            return Shape(Annotated[str, StringConstraints(pattern=pattern)], _hex(mark.prefix))
        if isinstance(mark, FixedPoint):
            return Shape(Annotated[Decimal, DecimalNumber(mark.digits, mark.maximum)], _decimal(mark.digits))
    return Shape(HexText, _hex("hex")) if base is bytes else None


def _of_tuple(annotation: Any, marks: tuple[Any, ...]) -> Shape:
    """A list or sorted set, with the bounds of the body."""
    item, _ellipsis = typing.get_args(annotation)
    inner = shape_of(item)
    several: Any = tuple
    # bounds before functions: pydantic writes a bound that follows a function as a text's
    marks = tuple(sorted(marks, key=lambda m: not isinstance(m, FieldInfo)))
    return Shape(
        Annotated[(several[inner.view, ...], *marks, BeforeValidator(to_tuple))],
        lambda value, texts: [inner.show(v, texts) for v in value],
    )


def shape_of(annotation: Any) -> Shape:
    """The shape of a body's field. Raises TypeError for a type no body should have."""
    if typing.get_origin(annotation) is Annotated:
        base, *marks = typing.get_args(annotation)
        found = _of_scalar(base, tuple(marks))
        if found is not None:
            return found
        if typing.get_origin(base) is tuple:
            return _of_tuple(base, tuple(marks))
        inner = shape_of(base)
        return Shape(Annotated[(inner.view, *marks)], inner.show)
    origin = typing.get_origin(annotation)
    if origin is types.UnionType or origin is typing.Union:
        (inner_type,) = [a for a in typing.get_args(annotation) if a is not type(None)]
        return shape_of(inner_type)
    if origin is tuple:
        return _of_tuple(annotation, ())
    if isinstance(annotation, type):
        if annotation is Committed:
            return Shape(FreeText, text_or_withheld)
        if issubclass(annotation, Part):
            return Shape(view_of(annotation), show_part)
        if annotation is bytes:
            return Shape(HexText, _hex("hex"))
        if issubclass(annotation, Enum) or annotation in (str, int, bool):
            return Shape(annotation, _same)
    raise TypeError(f"no view for {annotation!r}")


@cache
def shapes(part: type[Part]) -> dict[str, tuple[Shape, bool]]:
    """Shape of each field of a part, and whether it is required."""
    hints = typing.get_type_hints(part, include_extras=True)
    return {name: (shape_of(hints[name]), info.is_required()) for name, info in part.model_fields.items()}


def show_part(part: Part, texts: Texts) -> dict[str, Any]:
    """A part's values as its view's; absent optionals are left out."""
    found = ((name, shape, getattr(part, name)) for name, (shape, _required) in shapes(type(part)).items())
    return {name: shape.show(value, texts) for name, shape, value in found if value is not None}


@cache
def view_of(part: type[Part]) -> type[View]:
    """The derived view of a part."""
    return create_model(f"{part.__name__}View", __base__=View, __doc__=part.__doc__, **_fields(part))


@cache
def record_view_of(body: type[Body], header: type[View], signature: str = "signature") -> type[View]:
    """The derived view of a whole record: its body's fields, id, signature and header."""
    whole = _fields(body) | {"record_id": (DigestText, ...), signature: (SignatureText, ...), "header": (header, ...)}
    return create_model(f"{body.__name__}View", __base__=View, __doc__=body.__doc__, **whole)


def _fields(part: type[Part]) -> dict[str, Any]:
    return {name: (shape.view, ...) if required else (shape.view, None) for name, (shape, required) in shapes(part).items()}
