"""Accepting a request: policies, ceilings, mandate, and the one batch that makes it durable (DESIGN.md section 3, step 1).

Everything up to the commit is decided here before any other node sees a text. Pure but for the entropy and signatures it is handed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from gnus_node.flow.journal import IDEMPOTENCY, JOURNAL, JournalRow, request_key
from gnus_node.net.context import RoleContext
from gnus_node.net.directory import Peer
from gnus_node.policy.ceilings import merge
from gnus_node.ports.store import Write
from gnus_node.ports.submit import Ask, Caller
from gnus_node.privacy.parcels import Vault
from gnus_node.records.authority import Ceilings, Policy, RequestMandate
from gnus_node.records.base import Committed
from gnus_node.records.enums import PrivacyMode
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.wire import cbor


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Named bounds of the ingress."""

    max_question_bytes: int = 32 * 1024
    max_context_bytes: int = 128 * 1024
    running: int = 64
    waiting: int = 256
    max_generations: int = 3
    max_recoveries: int = 5
    """Generations after which a request that a restart finds is closed: it may be what brings the node down."""
    max_unsettled: int = 4096
    settle_retry_ms: int = 500
    settle_retry_max_ms: int = 30_000
    close_ms: int = 2_000
    payload_ms: int = 30 * 24 * 3600 * 1000
    """How long texts of settled requests are kept."""


def applicable(policies: Sequence[Signed[Policy]], caller: Caller, now_ms: int) -> tuple[Signed[Policy], ...]:
    """The policies of the caller's tenant that apply to it: any, its project, itself. Raises ``POLICY_MISSING``."""
    subjects = {"any", caller.project, caller.principal}
    found = [p for p in policies if p.body.tenant == caller.tenant and p.body.subject in subjects]
    live = [p for p in found if p.body.not_after_ms is None or now_ms <= p.body.not_after_ms]
    if not live:
        raise GnusError("POLICY_MISSING", "no policy of this tenant applies to the caller")
    return tuple(sorted(live, key=lambda p: p.id))


def narrowed(ceilings: Ceilings, ask: Ask) -> Ceilings:
    """The merged ceilings, narrowed by what the request asks for; asking for more changes nothing."""
    privacy = ceilings.privacy_floor
    if ask.privacy_mode is not None:
        privacy = max(privacy, ask.privacy_mode, key=lambda m: m.rank())
    return ceilings.model_validate(
        {
            **{name: getattr(ceilings, name) for name in Ceilings.model_fields},
            "max_tokens": min(ceilings.max_tokens, ask.max_tokens if ask.max_tokens is not None else ceilings.max_tokens),
            "max_wall_ms": min(ceilings.max_wall_ms, ask.max_wall_ms if ask.max_wall_ms is not None else ceilings.max_wall_ms),
            "max_spend": min(ceilings.max_spend, ask.max_spend if ask.max_spend is not None else ceilings.max_spend),
            "privacy_floor": privacy,
        }
    )


def check_size(ask: Ask, limits: FlowLimits) -> None:
    """Refuse what is too large or empty before anything else. Raises ``TOO_LARGE``, ``MALFORMED``."""
    if not ask.question.strip():
        raise GnusError("MALFORMED", "an empty question")
    try:
        sizes = len(ask.question.encode("utf-8")), len(ask.context.encode("utf-8"))
    except UnicodeEncodeError:
        raise GnusError("MALFORMED", "a text with lone surrogates") from None
    if sizes[0] > limits.max_question_bytes:
        raise GnusError("TOO_LARGE", f"a question of more than {limits.max_question_bytes} bytes")
    if sizes[1] > limits.max_context_bytes:
        raise GnusError("TOO_LARGE", f"a context of more than {limits.max_context_bytes} bytes")


def idempotency_key(caller: Caller, key: str) -> bytes:
    """Table key of an idempotency key: one tenant's never meets another's."""
    return hashlib.sha256(b"gnus/idem/1\x00" + caller.tenant.encode() + b"\x00" + caller.key_id.encode() + b"\x00" + key.encode()).digest()


def question_digest(secret: bytes, ask: Ask) -> bytes:
    """Keyed digest of all that was asked, to tell a repeat from another request under the same key without storing the text."""
    privacy = None if ask.privacy_mode is None else str(ask.privacy_mode)
    limits = (ask.max_tokens, ask.max_wall_ms, ask.max_spend)
    asked = cbor.encode((ask.question, ask.context, str(ask.answer_type), *limits, privacy, ask.stop))
    return hashlib.blake2b(asked, key=secret[:32], digest_size=32).digest()


def idempotency_row(key: bytes, request_id: str, digest: bytes) -> Write:
    """The row that claims an idempotency key; the batch fails where it is claimed."""
    return Write(IDEMPOTENCY, key, cbor.encode({"request": request_id, "digest": digest}), if_absent=True)


def make_mandate(
    context: RoleContext,
    row: JournalRow,
    query: Committed,
    extra: Committed | None,
    policies: Sequence[Signed[Policy]],
    ceilings: Ceilings,
    router: Peer,
    settlement: bytes,
    intermediary: str | None,
    idempotency: bytes | None,
) -> Signed[RequestMandate]:
    """Sign the mandate of one generation. The router's lease ends with the request's wall time."""
    now = context.node.clock.wall_ms()
    body = RequestMandate(
        request_id=row.request_id,
        generation=row.generation,
        tenant=row.tenant,
        project=row.project,
        principal=row.principal,
        key_mode=row.key_mode,
        query=query,
        context=extra,
        policies=tuple(sorted(p.id for p in policies)),
        ceilings=ceilings,
        ingress_node=context.node.node_id,
        router=router.role_key,
        router_node=router.node_id,
        not_after_ms=now + ceilings.max_wall_ms,
        settlement=settlement,
        intermediary_id=intermediary,
        idempotency=idempotency,
    )
    return context.signer.sign(body, refs=[p.id for p in policies])


def merged(policies: Sequence[Signed[Policy]], ask: Ask) -> Ceilings:
    """Strictest merge of the policies, narrowed by the request."""
    return narrowed(merge(p.body.ceilings for p in policies), ask)


def journal_write(row: JournalRow) -> Write:
    """The row as a write."""
    return Write(JOURNAL, request_key(row.request_id), row.encode())


def subject_of(caller_tenant: str, principal: str) -> str:
    """Whose key protects the texts of a request: one key for each principal of a tenant, so that one person can be forgotten."""
    return f"{caller_tenant}/{principal}"


PRIVATE = PrivacyMode.PRIVATE_BOUNDARY


@dataclass(slots=True)
class Accepted:
    """An accepted request as the owner carries it."""

    row: JournalRow
    mandate: Signed[RequestMandate]
    policies: tuple[Signed[Policy], ...]
    vault: Vault
    deadline: float
    started: float
    commit_wait_s: float = 0.0
    recovered: bool = False
