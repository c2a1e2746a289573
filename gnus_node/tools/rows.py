"""One row of the effect log, and its one encoding (deterministic CBOR; reference: memory, section 2).

Checked in pairs: a row is checked when it is written and again when it is read, and what is read must be the very bytes that writing it
again gives. A row that fails is ``STORE_CORRUPT``: the log then says nothing, rather than something about another effect.

A row holds ids, digests, codes and times; never arguments, output, or any text of a user.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Final, NoReturn

import cbor2

from gnus_node.records.base import MAX_INT
from gnus_node.records.enums import EffectClass, EffectState
from gnus_node.records.errors import CODES, GnusError

ROW_VERSION: Final = 1
MAX_ROW_BYTES: Final = 2048
KEY_BYTES: Final = 32

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_TAGS = frozenset(range(64)) | {100, 256, 258, 260, 261, 1004, 25, 43000, 55799}


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """What a proposal says of its effect. ``arguments`` is the digest that the effect key binds; ``resumable`` the adapter's word."""

    request_id: str
    tool_call_id: str
    generation: int
    turn: int
    tool: str
    effect: EffectClass
    resumable: bool
    arguments: bytes

    def same_call(self, row: EffectRow) -> bool:
        """Whether a row is of this very call. The proposal's own id and the generation may differ: hedges, retries, successors."""
        mine = (self.request_id, self.turn, self.tool, self.effect, self.arguments)
        return mine == (row.request_id, row.turn, row.tool, row.effect, row.arguments)


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One effect. ``attestation``: id of its latest attestation, ``outcome``: digest of its real output; empty while there is none.

    ``reason_code`` says why it stands where it does (``OK``, or a code of the error table).
    """

    effect_key: bytes
    request_id: str
    tool_call_id: str
    generation: int
    turn: int
    tool: str
    effect: EffectClass
    resumable: bool
    arguments: bytes
    state: EffectState
    idempotency_key: str
    attestation: bytes
    outcome: bytes
    reason_code: str
    created_at_ms: int
    updated_at_ms: int


_FIELDS = tuple(field.name for field in fields(EffectRow))


def check_row(row: EffectRow) -> EffectRow:
    """The row, if every field has its exact type and range. Raises ``STORE_CORRUPT``."""
    right = (
        _exact(row.effect_key, KEY_BYTES)
        and _exact(row.arguments, KEY_BYTES)
        and (row.attestation == b"" or _exact(row.attestation, KEY_BYTES))
        and (_exact(row.outcome, KEY_BYTES) or (row.outcome == b"" and row.state is not EffectState.DONE))
        and all(_matches(_UUID, each) for each in (row.request_id, row.tool_call_id, row.idempotency_key))
        and _matches(_TOOL, row.tool)
        and type(row.effect) is EffectClass
        and type(row.state) is EffectState
        and type(row.resumable) is bool
        and _within(row.generation, 1, 2**31)
        and _within(row.turn, 0, 16)
        and _within(row.created_at_ms, 0, MAX_INT)
        and _within(row.updated_at_ms, 0, MAX_INT)
        and (row.reason_code == "OK" or row.reason_code in CODES)
    )
    if not right:
        raise GnusError("STORE_CORRUPT", "a row of the effect log has a field out of range")
    return row


def encode_row(row: EffectRow) -> bytes:
    """The row's bytes: version, then the fields in their order."""
    check_row(row)
    plain = {name: getattr(row, name) for name in _FIELDS}
    plain["effect"], plain["state"] = str(row.effect), str(row.state)
    return cbor2.dumps([ROW_VERSION, plain], canonical=True)


def decode_row(raw: bytes, effect_key: bytes) -> EffectRow:
    """Read what ``encode_row`` wrote under ``effect_key``. Raises ``STORE_CORRUPT`` for anything else."""
    if len(raw) > MAX_ROW_BYTES:
        raise _corrupt("too long")
    try:
        value: Any = cbor2.loads(
            raw,
            max_depth=3,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
            tag_hook=_no_tag,
            semantic_decoders=dict.fromkeys(_TAGS, _no_tag),
        )
        if not isinstance(value, list) or len(value) != 2 or value[0] != ROW_VERSION or not isinstance(value[1], dict):
            raise _corrupt("of another version")
        plain = value[1]
        if set(plain) != set(_FIELDS):
            raise _corrupt("with other fields")
        plain["effect"], plain["state"] = EffectClass(plain["effect"]), EffectState(plain["state"])
        row = EffectRow(**plain)
        if encode_row(row) != raw:
            raise _corrupt("in another encoding")
    except (cbor2.CBORDecodeError, ValueError, TypeError):
        raise _corrupt("that does not read") from None
    if row.effect_key != effect_key:
        raise _corrupt("under another key")
    return row


def index_prefix(request_id: str) -> bytes:
    """The 16 bytes under which a request's keys are indexed."""
    if not _matches(_UUID, request_id):
        raise GnusError("MALFORMED", "the request id is not a UUID")
    return bytes.fromhex(request_id.replace("-", ""))


def index_key(row: EffectRow) -> bytes:
    """Request id, then effect key."""
    return index_prefix(row.request_id) + row.effect_key


def _exact(value: object, size: int) -> bool:
    return type(value) is bytes and len(value) == size


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return type(value) is str and pattern.fullmatch(value) is not None


def _within(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _no_tag(*_: object) -> NoReturn:
    raise ValueError("tags are not used here")


def _corrupt(how: str) -> GnusError:
    return GnusError("STORE_CORRUPT", f"the effect log holds a row {how}")
