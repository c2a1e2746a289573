"""The walk over a bag: what was seen, which dispatch led to which output, and how links are worded. Shared by the link files."""

from __future__ import annotations

from typing import Any, TypeVar

from gnus_node.evidence.authority import Authority
from gnus_node.evidence.bag import Bag
from gnus_node.evidence.verdict import Link
from gnus_node.records.authority import Dispatch, RequestMandate
from gnus_node.records.base import Body
from gnus_node.records.enums import Proof, Stage
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.plan import ExecutionPlan
from gnus_node.trust.check import check_signer
from gnus_node.trust.state import KeyHolder, TrustState

B = TypeVar("B", bound=Body)


class Walk:
    """State of one judgement. ``outputs`` maps a dispatch id to the one record it led to."""

    def __init__(self, bag: Bag, trust: TrustState, now_ms: int, live: bool) -> None:
        self.bag = bag
        self.trust = trust
        self.now_ms = now_ms
        self.live = live
        self.authority: Authority | None = None
        self.dispatches: dict[bytes, Signed[Dispatch]] = {}
        self.outputs: dict[bytes, Signed[Any]] = {}
        self._seen: set[bytes] = set()

    @property
    def mandate(self) -> Signed[RequestMandate]:
        """The mandate, once the authority was checked."""
        assert self.authority is not None
        return self.authority.mandate

    @property
    def plan(self) -> Signed[ExecutionPlan] | None:
        """The plan, if there is one."""
        assert self.authority is not None
        return self.authority.plan

    def see(self, *records: Signed[Any]) -> None:
        """These records hold their place."""
        self._seen.update(r.id for r in records)

    def refuse_strays(self) -> None:
        """Everything in the bag must have been reached."""
        strays = [r for r in self.bag if r.id not in self._seen]
        if strays:
            kind = strays[0].header.kind
            raise GnusError("CHAIN_BROKEN", f"{len(strays)} records hold no place, the first a {kind}", link=f"stray {kind}")

    def signer(self, record: Signed[Any], link: str) -> KeyHolder:
        """Who signed a record, checked against the trust state."""
        holder = check_signer(self.trust, record, self.now_ms, live=self.live)
        if self.mandate.body.tenant not in holder.tenants:
            raise GnusError("FORBIDDEN", "a record by a node without the tenant", link=link)
        return holder

    def executed(self, record: Signed[Any], dispatch_id: bytes, stages: frozenset[Stage], link: str) -> Signed[Dispatch]:
        """The dispatch a record came of: same request, generation, stage; signed by the very key it was addressed to; one output each."""
        dispatch = self.dispatches.get(dispatch_id)
        if dispatch is None:
            raise GnusError("CHAIN_BROKEN", "an output without its dispatch", link=link)
        self.signer(record, link)
        body = record.body
        same = body.request_id == dispatch.body.request_id and body.generation == dispatch.body.generation
        if record.header.signer != dispatch.body.peer or dispatch.body.stage not in stages or not same:
            raise GnusError("CHAIN_BROKEN", "an output that its dispatch did not ask for", link=link)
        if dispatch_id in self.outputs:
            raise GnusError("CHAIN_BROKEN", "two outputs of one dispatch", link=link)
        self.outputs[dispatch_id] = record
        self.see(record)
        return dispatch

    def of_request(self, record: Signed[Any], link: str) -> None:
        """A record of this request and generation."""
        mandate = self.mandate.body
        if record.body.request_id != mandate.request_id or record.body.generation != mandate.generation:
            raise GnusError("CHAIN_BROKEN", "a record of another request or generation", link=link)

    def by(self, record: Signed[Any]) -> str:
        """Node and role behind a record, for people."""
        holder = self.trust.keys.get(record.header.signer)
        where = holder.node_id if holder and holder.node_id else record.header.signer.hex()[:16]
        return f"{where}/{record.header.role}"

    def link(
        self, name: str, record: Signed[Any], *, proof: Proof = Proof.PROVED, detail: str = "", children: tuple[Link, ...] = ()
    ) -> Link:
        """A link for a record."""
        return Link(name, proof, self.by(record), detail, record.id, children)
