"""The plan a question would get, without running it: ``gnus-node plan`` (DESIGN.md section 10). Nothing is stored, sent or dispatched."""

from __future__ import annotations

from collections.abc import Sequence

from gnus_node.cognition.planner import PlanInput, plan_request
from gnus_node.content.asked import asked
from gnus_node.flow import accept
from gnus_node.flow.journal import JournalRow, Phase
from gnus_node.net.context import RoleContext
from gnus_node.ports.submit import Ask, Caller
from gnus_node.privacy.parcels import Vault
from gnus_node.records.authority import Policy
from gnus_node.records.enums import RoleName
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.plan import ExecutionPlan


def preview_plan(context: RoleContext, policies: Sequence[Signed[Policy]], caller: Caller, ask: Ask) -> ExecutionPlan:
    """The body of the plan. Raises ``POLICY_MISSING``, ``UNREACHABLE``, ``NO_EXPERT``."""
    node = context.node
    applied = accept.applicable(policies, caller, node.clock.wall_ms())
    hosts = {role: node.directory.hosts(role, caller.tenant) for role in RoleName}
    if not hosts[RoleName.ROUTER] or not hosts[RoleName.SETTLEMENT]:
        raise GnusError("UNREACHABLE", "no router or settlement node is reachable")
    request_id = node.entropy.uuid()
    vault = Vault(request_id, node.entropy.token(32), node.entropy)
    ceilings = accept.merged(applied, ask)
    who = (caller.tenant, caller.project, caller.principal, caller.key_mode)
    row = JournalRow(request_id, Phase.ACCEPTED, 1, *who, node.clock.wall_ms(), ceilings.max_wall_ms, bytes(32))
    tools = hosts[RoleName.TOOL_INTERMEDIARY]
    mandate = accept.make_mandate(
        context,
        row,
        vault.commit(ask.question),
        None,
        applied,
        ceilings,
        hosts[RoleName.ROUTER][0],
        hosts[RoleName.SETTLEMENT][0].role_key,
        tools[0].node_id if tools else None,
        None,
    )
    return plan_request(PlanInput(asked(ask.question, ask.context), mandate, hosts, node.directory.experts(caller.tenant)))
