"""What the views of whole records share: header, and how a view is made from an opened record."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import Field, ValidationError

from gnus_node.records.base import MAX_INT, Body, Name, View
from gnus_node.records.enums import SignerRole
from gnus_node.records.envelope import Header, Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.jsontext import read_view
from gnus_node.records.views.derive import show_part
from gnus_node.records.views.scalars import WITHHELD_KEYS, DigestText, Items, KeyText, SwarmText, Texts, signature_text

V = TypeVar("V", bound=View)

Whole = Annotated[int, Field(ge=0, le=MAX_INT)]
"""A count, or milliseconds, as a JSON number."""


class HeaderView(View):
    """A record's header (``envelope.Header``)."""

    kind: Name
    version: Annotated[int, Field(ge=1, le=1000)]
    swarm: SwarmText
    epoch: Whole
    signer: KeyText
    role: SignerRole
    seq: Annotated[int, Field(ge=0, le=2**63 - 1)]
    issued_at_ms: Whole
    expires_at_ms: Whole | None = None
    refs: Items[DigestText]


def show_header(header: Header) -> dict[str, Any]:
    """A header's values as its view's."""
    return show_part(header, {})


def poses_as_withheld(value: object) -> bool:
    """Whether a JSON value looks like a withheld text."""
    return isinstance(value, dict) and frozenset(value) == WITHHELD_KEYS


def structured(text: str, kinds: type | tuple[type, ...]) -> Any:
    """The JSON value of a text, where it is one of ``kinds`` and can be shown without posing as a withheld text; otherwise None.

    Never raises: an expert's bad text must not make its record unreadable.
    """
    try:
        value = read_view(text)
    except GnusError:
        return None
    return value if isinstance(value, kinds) and not poses_as_withheld(value) else None


class SeedView(View):
    """A view whose record the seed gives. ``OURS`` names the fields that are not the seed's; each is optional."""

    OURS: ClassVar[frozenset[str]] = frozenset()


class RecordView(SeedView):
    """The view of a whole record. ``SIGNATURE`` is the seed's name of its signature."""

    BODY: ClassVar[type[Body]]
    SIGNATURE: ClassVar[str] = "signature"

    @classmethod
    def adapt(cls, shown: dict[str, Any], withheld: dict[str, Any]) -> dict[str, Any]:
        """Turn the body's shown fields into this view's; ``withheld`` is the same without any text, for texts that cannot be shown."""
        return shown

    @classmethod
    def from_signed(cls, signed: Signed[Any], texts: Texts) -> Self:
        """The view of an opened record. Raises ``UNKNOWN_KIND`` for another kind, ``COMMITMENT_MISMATCH``, ``MALFORMED`` for its texts."""
        if not isinstance(signed.body, cls.BODY):
            raise GnusError("UNKNOWN_KIND", f"{signed.header.kind} has another view")
        shown = cls.adapt(show_part(signed.body, texts), show_part(signed.body, {}))
        shown |= {
            cls.SIGNATURE: signature_text(signed.signature),
            "record_id": f"sha256:{signed.id.hex()}",
            "header": show_header(signed.header),
        }
        return read_as(cls, shown)

    def to_json(self) -> dict[str, Any]:
        """JSON's own values, for ``jsontext.write_view``; absent fields are left out."""
        return dump(self)


def dump(view: View) -> dict[str, Any]:
    """The plain JSON values of a view."""
    return view.model_dump(exclude_none=True)


def read_as(model: type[V], value: object) -> V:
    """Read plain JSON values (of ``jsontext.read_view``) as a view. Raises ``MALFORMED`` with path and rule, never the value."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "value"
        raise GnusError("MALFORMED", f"{model.__name__}: {where}: {first['type']}"[:200]) from None
