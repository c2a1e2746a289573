"""How a further node joins a swarm: it makes its keys and asks, the authority grants, it takes charter and trust log home (DESIGN.md section 5).

No secret travels: the request holds public keys only. Where the authority's node runs, ``Heads.grant`` does the granting; ``grant_node`` is
for one that is stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from gnus_node.evidence.bundle import export_charter, export_trust, import_charter, import_trust, trust_of
from gnus_node.host.clock import SystemClock
from gnus_node.host.entropy import SystemEntropy
from gnus_node.identity import Identity, load_identity, make_identity, public_key, save_identity
from gnus_node.init import CHARTER_FILE, GRANT_MS, TENANT, TRUST_FILE, issue_head, prepare_data_dir
from gnus_node.net.signing import KeySigner
from gnus_node.ports.host import Clock, Entropy
from gnus_node.records.authority import RoleGrant, RoleKey
from gnus_node.records.enums import RoleName, SignerRole, Tier
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import DirectoryLock, replace_file
from gnus_node.trust.state import TrustState
from gnus_node.wire import jsontext

REQUEST_FORMAT = "gnus-join/1"
REQUEST_FILE = "join.json"
_KEY_HEX = 64


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """Public keys of a node that wants a grant."""

    node_id: str
    transport_key: bytes
    sealing_key: bytes
    roles: tuple[tuple[RoleName, bytes], ...]


def make_member(data_dir: Path, entropy: Entropy, roles: Sequence[RoleName]) -> str:
    """Make a node's identity and its request, which is written beside it and returned. Raises ``ALREADY_RUNNING`` where there is an identity."""
    prepare_data_dir(data_dir)
    identity = make_identity(entropy, roles=tuple(roles), authority=False)
    save_identity(data_dir, identity)
    text = write_request(identity)
    (data_dir / REQUEST_FILE).write_text(text, encoding="utf-8")
    return text


def write_request(identity: Identity) -> str:
    """The JSON text of a node's request."""
    view = {
        "format": REQUEST_FORMAT,
        "node_id": identity.node_id,
        "transport_key": public_key(identity.transport).hex(),
        "sealing_key": identity.sealing_public().hex(),
        "roles": {str(role): public_key(seed).hex() for role, seed in sorted(identity.roles.items())},
    }
    return jsontext.write_view(view, indent=2) + "\n"


def read_request(text: str | bytes) -> JoinRequest:
    """Read a request strictly. Raises ``MALFORMED``."""
    plain = jsontext.read_view(text)
    fields = {"format", "node_id", "transport_key", "sealing_key", "roles"}
    if not isinstance(plain, dict) or set(plain) != fields or plain["format"] != REQUEST_FORMAT or not isinstance(plain["roles"], dict):
        raise GnusError("MALFORMED", "not a request to join", link="join request")
    if not isinstance(plain["node_id"], str) or not set(plain["roles"]) <= {str(role) for role in RoleName}:
        raise GnusError("MALFORMED", "a request to join with an unknown role", link="join request")
    roles = tuple((RoleName(name), _key(key)) for name, key in sorted(plain["roles"].items()))
    return JoinRequest(plain["node_id"], _key(plain["transport_key"]), _key(plain["sealing_key"]), roles)


def _key(text: Any) -> bytes:
    if isinstance(text, str) and len(text) == _KEY_HEX and set(text) <= set("0123456789abcdef"):
        return bytes.fromhex(text)
    raise GnusError("MALFORMED", "a key that is not 64 hexadecimal digits", link="join request")


def grant_records(
    signer: KeySigner, state: TrustState, request: JoinRequest, now_ms: int, *, operator: str, tier: Tier, tenants: Sequence[str]
) -> tuple[Signed[Any], Signed[Any]]:
    """The grant and the head that covers it, one epoch further. Raises ``DUPLICATE_KEY`` for keys another node holds, ``MALFORMED``."""
    for key in (request.transport_key, *(key for _, key in request.roles)):
        holder = state.keys.get(key)
        if key in state.duplicates or (holder is not None and holder.node_id != request.node_id):
            raise GnusError("DUPLICATE_KEY", "a key of the request stands elsewhere in the trust log", link="join request")
    epoch = state.epoch + 1
    try:
        grant = RoleGrant(
            node_id=request.node_id,
            operator=operator,
            transport_key=request.transport_key,
            sealing_key=request.sealing_key,
            roles=tuple(RoleKey(role=role, key=key) for role, key in request.roles),
            tier=tier,
            tenants=tuple(sorted(tenants)),
            not_before_ms=now_ms,
            not_after_ms=now_ms + GRANT_MS,
            grant_epoch=epoch,
        )
    except ValueError:
        raise GnusError("MALFORMED", "a request that makes no grant", link="join request") from None
    signed = signer.sign(grant)
    return signed, issue_head(signer, (*state.log_ids, signed.id), epoch)


def grant_node(
    data_dir: Path, request: JoinRequest, clock: Clock, *, operator: str = "local", tier: Tier = Tier.A, tenants: Sequence[str] = (TENANT,)
) -> tuple[str, str]:
    """Grant a request with the authority's key in ``data_dir``, whose node is stopped; charter and trust log for the new node.

    Raises ``ALREADY_RUNNING`` while it runs, ``FORBIDDEN`` where the authority's key is elsewhere, and what ``grant_records`` raises.
    """
    identity = load_identity(data_dir)
    if not identity.authority:
        raise GnusError("FORBIDDEN", "the authority's key is not on this node", fix="grant on the node that founded the swarm")
    charter = import_charter((data_dir / CHARTER_FILE).read_bytes())
    store = data_dir / "store"
    store.mkdir(mode=0o700, exist_ok=True)
    lock = DirectoryLock(store)
    try:
        raws = import_trust((data_dir / TRUST_FILE).read_bytes())
        state = trust_of(charter, raws)
        # The numbers of this key go on where the newest head stopped; a running node's next start is above all of them.
        last = max((r.header.seq for r in (state.head, *state.grants.values(), *state.tenants.values()) if r is not None), default=0)
        signer = KeySigner(identity.authority, SignerRole.AUTHORITY, state.swarm, lambda: state.epoch + 1, clock, 0, after=last)
        records = grant_records(signer, state, request, clock.wall_ms(), operator=operator, tier=tier, tenants=tenants)
        old_head = state.head.raw if state.head else b""
        text = export_trust([*(raw for raw in raws if raw != old_head), *(r.raw for r in records)])
        replace_file(data_dir / TRUST_FILE, text)
    finally:
        lock.release()
    return export_charter(charter), text


def join_swarm(data_dir: Path, charter_text: str, trust_text: str) -> None:
    """Take charter and trust log home. Raises ``UNKNOWN_KEY`` where the log grants this node nothing, and what reading them raises."""
    identity = load_identity(data_dir)
    state = trust_of(import_charter(charter_text), import_trust(trust_text))
    if state.by_transport(public_key(identity.transport)) != identity.node_id:
        raise GnusError("UNKNOWN_KEY", "this trust log holds no grant for this node", fix="have the authority grant join.json")
    (data_dir / CHARTER_FILE).write_text(charter_text, encoding="utf-8")
    (data_dir / TRUST_FILE).write_text(trust_text, encoding="utf-8")


def request_membership(data_dir: Path, roles: Sequence[RoleName]) -> Mapping[str, Any]:
    """``gnus-node join request``: keys, and the request that the authority grants. Raises what ``make_member`` raises."""
    request = read_request(make_member(data_dir, SystemEntropy(), roles))
    return {"node_id": request.node_id, "roles": [str(role) for role, _ in request.roles], "request": str(data_dir / REQUEST_FILE)}


def grant_stopped(data_dir: Path, request: str, *, operator: str, tier: Tier) -> tuple[str, str]:
    """``gnus-node join grant`` where the founder's node is stopped: charter and trust log. Raises what ``grant_node`` raises."""

    async def grant() -> tuple[str, str]:
        return grant_node(data_dir, read_request(request), SystemClock(), operator=operator, tier=tier)

    return trio.run(grant)
