"""What has happened of a request in the world: the pinned intermediary's word, and what a terminal says of it (DESIGN.md section 3).

A terminal that hides an effect is the worst answer this program can give. So wherever a mandate allows more than reads, the ingress asks the
intermediary before it signs any terminal, and lists what may have happened. Where nobody says, the terminal says that nobody says.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from gnus_node.flow.accept import Accepted
from gnus_node.net.calls import call_peer
from gnus_node.net.context import NodeContext
from gnus_node.records.authority import RequestMandate
from gnus_node.records.enums import EffectClass, EffectState, RoleName
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.tools import EffectReport, EffectSummary
from gnus_node.wire.message import Message

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 1.0
"""Between two questions to an intermediary that is not there."""
_AGAIN = frozenset({"UNREACHABLE", "BUSY", "EFFECT_INDETERMINATE"})
_HAPPENED = frozenset({EffectState.EXECUTING, EffectState.DONE, EffectState.INDETERMINATE})


def may_act(mandate: RequestMandate) -> bool:
    """Whether anything but a read is possible under a mandate at all."""
    acting = any(c.startswith("tool.") and not c.endswith(".readonly") for c in mandate.ceilings.capabilities)
    return acting and mandate.intermediary_id is not None


def happened(effects: Iterable[EffectSummary]) -> tuple[EffectSummary, ...]:
    """The effects that changed something, or may have: nobody re-plans a request that has one."""
    return tuple(e for e in effects if e.effect_class is not EffectClass.READ and e.state in _HAPPENED)


async def ask_effects(node: NodeContext, accepted: Accepted, budget_ms: int) -> Signed[EffectReport]:
    """The pinned intermediary's report under the request's present mandate; asking with a new generation fences the older ones.

    Asking changes nothing else, and nobody but this intermediary can say: so it is asked again for as long as there is time. Raises
    ``EFFECT_INDETERMINATE`` where it is not live, and what the call raises.
    """
    end, pause = node.clock.monotonic() + budget_ms / 1000, FIRST_PAUSE_S
    while True:
        left_ms = int((end - node.clock.monotonic()) * 1000)
        try:
            return await _ask(node, accepted, max(1, left_ms))
        except GnusError as error:
            if error.code not in _AGAIN or left_ms <= pause * 1000:
                raise
        await trio.sleep(pause)
        pause = min(MAX_PAUSE_S, pause * 2)


async def _ask(node: NodeContext, accepted: Accepted, budget_ms: int) -> Signed[EffectReport]:
    mandate = accepted.mandate.body
    hosts = node.directory.hosts(RoleName.TOOL_INTERMEDIARY, mandate.tenant)
    peer = next((h for h in hosts if h.node_id == mandate.intermediary_id), None)
    if peer is None:
        raise GnusError("EFFECT_INDETERMINATE", "the pinned intermediary is not reachable, so its effects are not known")
    records = tuple(r.raw for r in (accepted.mandate, *accepted.policies))
    message = Message(records, {}, accepted.vault.box_for(peer.sealing_key))
    answer = await call_peer(node, peer, "tools.effects", message, budget_ms=budget_ms)
    reports = [node.opener.open(raw) for raw in answer.records]
    if len(reports) != 1 or not isinstance(reports[0].body, EffectReport):
        raise GnusError("PROTOCOL", "the intermediary did not answer with one report", link="effects")
    report: Signed[EffectReport] = reports[0]
    body = report.body
    if report.header.signer != peer.role_key or (body.request_id, body.generation) != (mandate.request_id, mandate.generation):
        raise GnusError("PROTOCOL", "the intermediary reported on another request", link="effects")
    return report
