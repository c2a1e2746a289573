"""The ground of every record: strict frozen bodies, exact scalars, and the two forms a value has.

A *body* is what is signed: exact integers and raw bytes, no floats, no nulls, no defaults. A *view* is what JSON shows: the seed's
field names, decimals, ``sha256:`` and ``ed25519:`` text. Bodies and views are separate classes (DECISIONS, Bytes); this module gives
the scalars both are made of.

Invariant: one value has one encoding. An optional field is absent, never null; every other field is always present.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, StringConstraints, model_validator
from pydantic_core import core_schema

SCORE_ONE = 10_000
"""A score of 1.0: scores are integers 0..10000 in bodies, decimals with at most four digits in JSON."""
MINIONS_PER_GNUS = 1_000_000
"""1 GNUS in minions (gnus-definitions, settlement)."""
MAX_INT = 2**53 - 1
MAX_LIST = 256
"""Longest list in any record."""
MAX_NAME = 128
MAX_URI = 2048


class Part(BaseModel):
    """A structure inside a body: strict, frozen, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Body(Part):
    """The signed body of one record kind. ``KIND`` names it on the wire, ``VERSION`` its schema."""

    KIND: ClassVar[str] = ""
    VERSION: ClassVar[int] = 1
    SEED: ClassVar[str] = ""
    """The seed section that gives the record, or empty for one of ours."""


class View(BaseModel):
    """A JSON view with the seed's field names. Its values are JSON's own: text for digests and keys, ``Decimal`` for scores and amounts.

    Strict and frozen, unknown fields refused; an optional field is absent, never null (``records.views`` has the classes).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, value: Any) -> Any:
        if isinstance(value, dict) and any(item is None for item in value.values()):
            raise ValueError("an absent field is left out, never null")
        return value


def _exact(read: Any, write: Any, result: core_schema.CoreSchema, when: Any, schema: dict[str, Any]) -> core_schema.CoreSchema:
    """A field type with its own reader, writer and JSON Schema."""
    return core_schema.no_info_plain_validator_function(
        read,
        serialization=core_schema.plain_serializer_function_ser_schema(write, return_schema=result, when_used=when),
        metadata={"pydantic_js_functions": [lambda _s, _h: schema]},
    )


@dataclass(frozen=True, slots=True)
class RawBytes:
    """Marks a field of exactly ``size`` raw bytes; ``prefix:hex`` (lower case) in JSON."""

    size: int
    prefix: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Bytes in Python and CBOR, prefixed hex in JSON; nothing else is read."""
        size, prefix = self.size, self.prefix
        pattern = re.compile(rf"{prefix}:([0-9a-f]{{{2 * size}}})")

        def read(value: object) -> bytes:
            if isinstance(value, bytes) and len(value) == size:
                return value
            if isinstance(value, str) and (found := pattern.fullmatch(value)):
                return bytes.fromhex(found[1])
            raise ValueError(f"{size} bytes, or {prefix}: and {2 * size} lower-case hex digits, expected")

        schema = {"type": "string", "pattern": f"^{pattern.pattern}$"}
        return _exact(read, lambda v: f"{prefix}:{v.hex()}", core_schema.str_schema(), "json", schema)


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Marks an exact integer that JSON shows as a decimal with at most ``digits`` places; extra digits are refused."""

    digits: int
    maximum: int
    what: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """In Python an ``int`` is already scaled, a ``Decimal`` is not; floats are refused."""
        digits, maximum, what = self.digits, self.maximum, self.what

        def read(value: object) -> int:
            if isinstance(value, bool) or not isinstance(value, int | Decimal):
                raise ValueError(f"{what}: a decimal number expected")
            number = value
            if isinstance(value, Decimal):
                if not value.is_finite() or abs(value) > MAX_INT:
                    raise ValueError(f"{what}: out of range")
                # scaleb rounds to 28 digits, comparing does not: so scale, cut, and compare what came of it with the value itself
                number = int(value.scaleb(digits))
                if Decimal(number).scaleb(-digits) != value:
                    raise ValueError(f"{what}: at most {digits} decimal places")
            if not 0 <= number <= maximum:
                raise ValueError(f"{what}: out of range")
            return int(number)

        schema = {"type": "number", "minimum": 0, "maximum": maximum // 10**digits, "description": f"at most {digits} decimal places"}
        return _exact(read, lambda v: Decimal(v).scaleb(-digits), core_schema.decimal_schema(), "json", schema)


Digest = Annotated[bytes, RawBytes(32, "sha256")]
"""A SHA-256 digest: 32 bytes, ``sha256:<hex>`` in JSON."""
RecordId = Digest
"""Id of a record: SHA-256 of domain, header and body, without the signature."""
PublicKey = Annotated[bytes, RawBytes(32, "ed25519")]
"""An Ed25519 public key; it is its own key id."""
SealingKey = Annotated[bytes, RawBytes(32, "x25519")]
"""An X25519 public key to which payload keys are sealed."""
SignatureBytes = Annotated[bytes, RawBytes(64, "ed25519")]
SwarmId = Annotated[bytes, RawBytes(16, "swarm")]
"""First 16 bytes of the digest of the charter's body."""

Uuid = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$")]
"""An identifier: printable ASCII without blanks, at most 128 characters."""
NodeId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Version = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$")]
Label = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""A short text of ours (a title, a reason code with detail); never user text."""
Uri = Annotated[str, StringConstraints(min_length=1, max_length=MAX_URI, pattern=r"^[a-z][a-z0-9+.-]*:[^\s]+$")]
ReasonCode = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]

Count = Annotated[int, Field(ge=0, le=MAX_INT)]
Millis = Annotated[int, Field(ge=0, le=MAX_INT)]
"""Milliseconds: a duration, or since the Unix epoch where the name ends in ``_at_ms``, ``_before_ms``, ``_after_ms``."""
Generation = Annotated[int, Field(ge=1, le=2**31)]
Epoch = Annotated[int, Field(ge=0, le=2**31)]


Score = Annotated[int, FixedPoint(4, SCORE_ONE, "score")]
"""0..10000 in bodies; 0.0000..1.0000 in JSON."""
Amount = Annotated[int, FixedPoint(6, MAX_INT, "amount")]
"""Minions in bodies; GNUS with six decimal places in JSON."""

T = TypeVar("T")


def _sorted_unique(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if any(a >= b for a, b in pairwise(values)):
        raise ValueError("must be sorted and without repeats")
    return values


SortedSet = Annotated[tuple[T, ...], Field(max_length=MAX_LIST), AfterValidator(_sorted_unique)]
"""A tuple that stands for a set: sorted, no repeats, so that one value has one encoding."""
Listing = Annotated[tuple[T, ...], Field(max_length=MAX_LIST)]
"""A tuple whose order means something."""


class Committed(Part):
    """Stands for a free text in a signed body: its commitment ``H(salt || text)`` and its size in bytes (UTF-8).

    Text and salt travel sealed beside the record (``privacy``), and die on erasure; the record stays checkable.
    """

    commitment: Digest
    size: Count
