"""The values of JSON views: what digests, keys, decimals, free texts and free JSON look like (DESIGN.md section 4; DECISIONS, Bytes).

Digests are ``sha256:`` and hex, keys ``ed25519:`` and hex, signatures ``ed25519:`` and base64 as the seed writes them, content addresses
``cid://`` and hex. Scores and amounts are decimal numbers and stay ``Decimal``: a whole 1 is one, not one ten-thousandth. A free
text is the text itself, or ``{commitment, size}`` where it is withheld.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, StringConstraints
from pydantic_core import core_schema

from gnus_node.records.base import MAX_INT, MAX_LIST, SCORE_ONE, Committed, View
from gnus_node.records.capabilities import MAX_CAPABILITY, SPELLING, parse
from gnus_node.records.errors import GnusError
from gnus_node.records.jsontext import MAX_EXACT, MAX_JSON_DEPTH

T = TypeVar("T")

Texts = Mapping[bytes, str]
"""Commitment to text, of the texts the reader may see. The caller has checked each against its salt."""

MAX_FREE_TEXT = 256 * 1024
"""Longest free text of a view, in characters; the wire bounds it in bytes."""

DigestText = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
KeyText = Annotated[str, StringConstraints(pattern=r"^ed25519:[0-9a-f]{64}$")]
SwarmText = Annotated[str, StringConstraints(pattern=r"^swarm:[0-9a-f]{32}$")]
HexText = Annotated[str, StringConstraints(pattern=r"^hex:([0-9a-f]{2})*$", max_length=16 * 1024)]
CidText = Annotated[str, StringConstraints(pattern=r"^cid://[0-9a-f]{64}$")]


def _signature(text: str) -> str:
    body = text.removeprefix("ed25519:")
    try:
        raw = base64.b64decode(body, validate=True)
    except binascii.Error:
        raw = b""
    if len(raw) != 64 or base64.b64encode(raw).decode() != body:
        raise ValueError("the base64 of 64 bytes, in its one spelling, expected")
    return text


SignatureText = Annotated[str, StringConstraints(pattern=r"^ed25519:[A-Za-z0-9+/]{86}==$"), AfterValidator(_signature)]


def signature_text(signature: bytes) -> str:
    """A signature as the seed writes it: ``ed25519:`` and base64. Raises ``MALFORMED``."""
    if len(signature) != 64:
        raise GnusError("MALFORMED", "a signature has 64 bytes")
    return "ed25519:" + base64.b64encode(signature).decode()


def cid(digest: bytes) -> str:
    """A content address."""
    return f"cid://{digest.hex()}"


def to_tuple(value: object) -> object:
    """A JSON array is a list; a view holds a tuple. Nothing else is taken for one."""
    return tuple(value) if isinstance(value, list) else value


Items = Annotated[tuple[T, ...], Field(max_length=MAX_LIST), BeforeValidator(to_tuple)]
"""A JSON array."""


@dataclass(frozen=True, slots=True)
class DecimalNumber:
    """Marks a decimal with at most ``digits`` places: the JSON side of ``base.FixedPoint``."""

    digits: int
    maximum: int
    """In units of the last place."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Whole JSON numbers and Decimals; floats, which are not exact, and booleans are refused."""
        digits, unit = self.digits, Decimal(1).scaleb(-self.digits)
        top = Decimal(self.maximum).scaleb(-digits)

        def read(value: object) -> Decimal:
            if isinstance(value, bool) or not isinstance(value, int | Decimal):
                raise ValueError("an exact decimal number expected")
            number = Decimal(value)
            if not number.is_finite() or not 0 <= number <= top:
                raise ValueError("out of range")
            # quantize rounds, comparing does not: only a number that has no further digits equals its rounding
            exact = number.quantize(unit)
            if exact != number:
                raise ValueError(f"at most {digits} decimal places")
            return exact

        schema = {"type": "number", "minimum": 0, "maximum": self.maximum // 10**digits, "description": f"at most {digits} decimal places"}
        return core_schema.no_info_plain_validator_function(read, metadata={"pydantic_js_functions": [lambda _s, _h: schema]})


SCORE_NUMBER = DecimalNumber(4, SCORE_ONE)
AMOUNT_NUMBER = DecimalNumber(6, MAX_INT)
ScoreNumber = Annotated[Decimal, SCORE_NUMBER]
"""0.0 to 1.0, at most four places."""
AmountNumber = Annotated[Decimal, AMOUNT_NUMBER]
"""GNUS, at most six places (1 GNUS is a million minions)."""


def _capability(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse(value)
    except GnusError as error:
        raise ValueError(error.what) from None


Capability = Annotated[
    str,
    BeforeValidator(_capability),
    Field(max_length=MAX_CAPABILITY, json_schema_extra={"pattern": SPELLING}),
]
"""A capability in any of the seed's spellings; held in its canonical one."""


class Withheld(View):
    """Stands for a free text the reader was not given: what it commits to, and its size in bytes."""

    commitment: DigestText
    size: Annotated[int, Field(ge=0, le=MAX_INT)]


WITHHELD_KEYS = frozenset(Withheld.model_fields)

FreeText = Annotated[str, StringConstraints(max_length=MAX_FREE_TEXT)] | Withheld


def _free(value: object, depth: int) -> object:
    """Check free JSON: JSON's own types, exact numbers, bounded depth."""
    if depth > MAX_JSON_DEPTH:
        raise ValueError(f"JSON deeper than {MAX_JSON_DEPTH}")
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        if abs(value) > MAX_EXACT:
            raise ValueError("an integer beyond 2^53")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("NaN and infinities are not JSON")
        return Decimal(repr(value))
    if isinstance(value, Decimal):
        if not value.is_finite() or not math.isfinite(float(value)) or Decimal(repr(float(value))) != value:
            raise ValueError("a number that a double does not hold as written")
        return value
    if isinstance(value, list | tuple):
        return [_free(item, depth + 1) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _free(item, depth + 1) for key, item in value.items()}
    raise ValueError("not a JSON value")


@dataclass(frozen=True, slots=True)
class FreeJson:
    """Marks free JSON of one ``kind``. An object that looks like ``Withheld`` is refused, so that nothing can pose as it."""

    kind: type

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Numbers come out as ``Decimal`` or ``int``, arrays as lists."""
        kind = self.kind

        def read(value: object) -> object:
            plain = list(value) if isinstance(value, tuple) else value
            if not isinstance(plain, kind) or (isinstance(plain, dict) and frozenset(plain) == WITHHELD_KEYS):
                raise ValueError("free JSON of another kind expected")
            return _free(plain, 0)

        schema = {"type": "object" if kind is dict else "array"}
        return core_schema.no_info_plain_validator_function(read, metadata={"pydantic_js_functions": [lambda _s, _h: schema]})


FreeObject = Annotated[dict[str, Any], FreeJson(dict)]
FreeArray = Annotated[list[Any], FreeJson(list)]


def text_or_withheld(value: Committed, texts: Texts) -> Any:
    """The text of a commitment, or its withheld form. Raises ``COMMITMENT_MISMATCH`` where the size differs."""
    text = texts.get(value.commitment)
    if text is None:
        return {"commitment": f"sha256:{value.commitment.hex()}", "size": value.size}
    if len(text.encode("utf-8", "surrogatepass")) != value.size:
        raise GnusError("COMMITMENT_MISMATCH", "a text has another size than its commitment says")
    return text
