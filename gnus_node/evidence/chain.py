"""``verify_chain``: does this set of records carry an answer, from the question to the last side effect? (DESIGN.md section 2)

One implementation for ingress (before it releases), settlement (before it records), verifier and auditor. Pure: a bag of opened records, a
trust state and the judge's time in; a verdict tree out, or a ``GnusError`` whose ``link`` names what is broken.

Every record must hold its place: what the walk does not reach is refused as ``stray``, so nothing can be slipped in; an expert named in the
plan without an output or a signed absence is refused, so nothing can be left out.
"""

from __future__ import annotations

from typing import Any

from gnus_node.evidence.authority import Authority, check_dispatch, check_mandate, check_plan
from gnus_node.evidence.bag import Bag
from gnus_node.evidence.inputs import digest_of
from gnus_node.evidence.links_end import check_response, check_synthesis, check_task
from gnus_node.evidence.links_tools import AttestedOutput, admit, check_tools
from gnus_node.evidence.links_work import check_task_attestations, check_work
from gnus_node.evidence.verdict import Link, Verdict, refused
from gnus_node.evidence.walk import Walk
from gnus_node.policy.ceilings import wider_fields
from gnus_node.records.authority import Dispatch
from gnus_node.records.enums import Proof, SignerRole
from gnus_node.records.errors import GnusError
from gnus_node.records.flow import AgentRequest
from gnus_node.records.plan import ExecutionPlan
from gnus_node.trust.check import check_role_record
from gnus_node.trust.state import TrustState


def verify_chain(
    bag: Bag, trust: TrustState, now_ms: int, *, live: bool = False, settled: bool | None = None, ended: bool = False
) -> Verdict:
    """Judge all records of one request and generation.

    ``live`` also enforces leases and expiry at ``now_ms``. ``settled``: True requires a task record, False refuses one, None takes either.
    ``ended`` requires the response: without one, a chain holds as far as it goes.
    Raises ``GnusError`` with ``link`` set; ``judge`` returns the refusal as a verdict instead.
    """
    return _judge(bag, trust, now_ms, live=live, settled=settled, ended=ended)[0]


def _judge(bag: Bag, trust: TrustState, now_ms: int, *, live: bool, settled: bool | None, ended: bool = False) -> tuple[Verdict, Walk]:
    """The walk itself: every link in order."""
    walk = Walk(bag, trust, now_ms, live)
    allowed = check_mandate(bag, trust, now_ms, live=live)
    walk.see(allowed.mandate, *allowed.policies)
    links = [_mandate_link(walk, allowed)]
    plan = bag.maybe(ExecutionPlan, "plan")
    planned = allowed
    if plan is not None:
        planned = check_plan(allowed, plan, trust, now_ms, live=live)
        walk.see(plan)
    walk.authority = planned
    _check_dispatches(walk, allowed, planned)
    work = check_work(walk)
    if plan is not None:
        links.append(walk.link("plan", plan, detail=f"{plan.body.execution_graph.mode}, within the mandate"))
    links.extend(work)
    links.extend(check_tools(walk))
    synthesis, synthesis_links = check_synthesis(walk)
    links.extend(synthesis_links)
    check_task_attestations(walk)
    response, response_links = check_response(walk, synthesis, ended=ended)
    links.extend(response_links)
    links.extend(check_task(walk, response, settled))
    walk.refuse_strays()
    body = allowed.mandate.body
    outcome = response.body.outcome if response else (synthesis.body.outcome if synthesis else None)
    return Verdict(True, body.request_id, body.generation, outcome, trust.epoch, tuple(links)), walk


def admit_chain(bag: Bag, trust: TrustState, now_ms: int) -> dict[bytes, AttestedOutput]:
    """The attested tool outputs of a chain that holds so far, by the id of their second attestation (``evidence.admit``).

    For the verifier, before there is a synthesis. Raises as ``verify_chain``.
    """
    return admit(_judge(bag, trust, now_ms, live=False, settled=False)[1])


def judge(bag: Bag, trust: TrustState, now_ms: int, *, settled: bool | None = None) -> Verdict:
    """As ``verify_chain``, with a refusal as its verdict."""
    try:
        return verify_chain(bag, trust, now_ms, settled=settled)
    except GnusError as error:
        return refused(error, trust_head=trust.epoch)


def _mandate_link(walk: Walk, allowed: Authority) -> Link:
    """The mandate with what it says of the user: proved by the client's own signature, or asserted by the ingress."""
    mandate = allowed.mandate
    body = mandate.body
    policies = tuple(walk.link("policy", p, detail=p.body.policy_id) for p in allowed.policies)
    ingress = walk.by(mandate)
    if body.client_signature is None:
        if body.client_key is not None:
            raise GnusError("CHAIN_BROKEN", "a client key without the client's request", link="user")
        user = Link("user", Proof.ASSERTED, ingress, f"principal as {body.ingress_node} authenticated it")
        return walk.link("mandate", mandate, children=(*policies, user))
    request = walk.bag.get(body.client_signature, AgentRequest, "user")
    holder = check_role_record(walk.trust, request, walk.now_ms, SignerRole.CLIENT, live=False)
    asked = request.body
    same = (asked.query == body.query, asked.context == body.context, asked.principal == body.principal, asked.tenant == body.tenant)
    narrowing = asked.narrowing
    if narrowing is not None and wider_fields(body.ceilings, narrowing):
        raise GnusError("MANDATE_EXCEEDS_POLICY", "the mandate is wider than the client allowed", link="mandate")
    if not all(same) or holder.tenants != (body.tenant,) or request.header.signer != body.client_key:
        raise GnusError("CHAIN_BROKEN", "the client's request does not fit the mandate", link="user")
    walk.see(request)
    return walk.link("mandate", mandate, children=(*policies, walk.link("user", request)))


def _check_dispatches(walk: Walk, allowed: Authority, planned: Authority) -> None:
    """Each dispatch within the plan (or the mandate, before it), unique, with its inputs at hand."""
    places: set[tuple[Any, ...]] = set()
    for dispatch in walk.bag.of(Dispatch):
        body = dispatch.body
        check_dispatch(allowed if body.plan is None else planned, dispatch, walk.trust, walk.now_ms, live=walk.live)
        place = (body.stage, body.turn, body.attempt, body.peer, body.expert_id)
        if place in places:
            raise GnusError("CHAIN_BROKEN", "two dispatches for one place", link="dispatch")
        places.add(place)
        refs = []
        for ref in dispatch.header.refs:
            found = walk.bag.find(ref)
            if found is None:
                raise GnusError("CHAIN_BROKEN", "an input of a dispatch is missing", link="dispatch")
            refs.append(found)
        if allowed.mandate.id not in dispatch.header.refs or digest_of(refs) != body.input_digest:
            raise GnusError("CHAIN_BROKEN", "the inputs of a dispatch are not the ones at hand", link="dispatch")
        walk.dispatches[dispatch.id] = dispatch
        walk.see(dispatch)
