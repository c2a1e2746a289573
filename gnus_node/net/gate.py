"""The gate of every service that acts on a dispatch: open the records, check the whole authority, fence, open the vault.

A role's handler gets an ``Admitted`` or nothing. The checks are ``evidence.authorise``'s; added here is what only a receiver knows: which peer
really called, which generation was seen before, whether the texts open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnus_node.evidence.authority import Authority, authorise
from gnus_node.evidence.bag import Bag
from gnus_node.evidence.inputs import digest_of
from gnus_node.net.context import RoleContext
from gnus_node.net.rpc import Request
from gnus_node.privacy.parcels import Vault
from gnus_node.records.authority import Dispatch
from gnus_node.records.enums import BackendKind, Stage
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.expert import Usage
from gnus_node.records.settlement import TaskAttestation
from gnus_node.trust.check import check_signer
from gnus_node.trust.state import TrustState


@dataclass(frozen=True, slots=True)
class Admitted:
    """A dispatch this role may execute now: its authority, all records that came, the texts, and the referred inputs in order."""

    authority: Authority
    dispatch: Signed[Dispatch]
    bag: Bag
    vault: Vault
    inputs: tuple[Signed[Any], ...]


def digest_arg(request: Request, name: str) -> bytes:
    """A 32-byte argument of a message. Raises ``MALFORMED``."""
    value = request.message.args.get(name)
    if type(value) is not bytes or len(value) != 32:
        raise GnusError("MALFORMED", f"argument {name} is a 32-byte id")
    return value


def admit_dispatch(context: RoleContext, request: Request, stages: frozenset[Stage]) -> Admitted:
    """Check a call that carries a dispatch for this role.

    Raises what ``evidence.authorise`` raises, ``WRONG_PEER`` where another node than the router's calls, ``FENCED``, ``FORBIDDEN`` where this
    node is not granted the tenant, ``CHAIN_BROKEN`` where inputs are missing or not the dispatched ones.
    """
    node = context.node
    trust = node.trust.state
    now_ms = node.clock.wall_ms()
    bag = Bag.read(request.message.records, node.opener.open)
    dispatch_id = digest_arg(request, "dispatch")
    authority = authorise(bag, trust, now_ms, me=context.signer.key, stages=stages, dispatch_id=dispatch_id)
    mandate = authority.mandate.body
    if trust.by_transport(request.peer) != mandate.router_node:
        raise GnusError("WRONG_PEER", "a dispatch from another node than its router's", link="dispatch")
    if mandate.tenant not in trust.node(node.node_id).tenants:
        raise GnusError("FORBIDDEN", "this node is not granted the tenant", link="mandate")
    context.fence.check(mandate.request_id, mandate.generation, authority.mandate.id)
    dispatch = bag.get(dispatch_id, Dispatch, "dispatch")
    inputs = []
    for ref in dispatch.header.refs:
        found = bag.find(ref)
        if found is None:
            raise GnusError("CHAIN_BROKEN", "an input of the dispatch did not come with it", link="dispatch")
        _check_input(found, authority, trust, now_ms)
        inputs.append(found)
    if digest_of(inputs) != dispatch.body.input_digest:
        raise GnusError("CHAIN_BROKEN", "the inputs are not the dispatched ones", link="dispatch")
    vault = node.vaults.receive(mandate.request_id, request.message.key_box)
    vault.add(request.message.parcels)
    return Admitted(authority, dispatch, bag, vault, tuple(inputs))


def _check_input(record: Signed[Any], authority: Authority, trust: TrustState, now_ms: int) -> None:
    """An input was signed by a node with the tenant, for this very request: a router feeds nobody what it made up or took from elsewhere."""
    mandate = authority.mandate.body
    holder = check_signer(trust, record, now_ms, live=False)
    if mandate.tenant not in holder.tenants:
        raise GnusError("FORBIDDEN", "an input by a node without the tenant", link=record.header.kind)
    same = getattr(record.body, "request_id", mandate.request_id) == mandate.request_id
    if not same or getattr(record.body, "generation", mandate.generation) != mandate.generation:
        raise GnusError("CHAIN_BROKEN", "an input of another request or generation", link=record.header.kind)


def attest_task(
    context: RoleContext,
    admitted: Admitted,
    output: bytes,
    wall_ms: float,
    *,
    backend: BackendKind = BackendKind.SERVICE,
    usage: Usage | None = None,
) -> Signed[TaskAttestation]:
    """What everyone signs who executed a dispatch: which output came of it, with what kind of backend, at what cost."""
    body = TaskAttestation(
        request_id=admitted.dispatch.body.request_id,
        generation=admitted.dispatch.body.generation,
        dispatch=admitted.dispatch.id,
        output=output,
        processing_pass=admitted.dispatch.body.processing_pass,
        node_id=context.node.node_id,
        backend_kind=backend,
        wall_ms=max(0, round(wall_ms)),
        usage=usage,
    )
    return context.signer.sign(body, refs=[admitted.dispatch.id, output])
