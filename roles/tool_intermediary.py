"""Tool Intermediary: the choke point between proposals and the world (18.1.3.8)."""

from __future__ import annotations

from gnus_node.records.enums import RoleName
from gnus_node.role import RoleHost
from gnus_node.tools.adapter import AdapterContext
from gnus_node.tools.log import EffectLog
from gnus_node.tools.registry import AdapterRegistry, AllowedAdapter
from gnus_node.tools.service import IntermediaryService


class ToolIntermediary:
    """Serves ``tools.mediate`` and ``tools.effects``."""

    name = RoleName.TOOL_INTERMEDIARY

    async def open(self, host: RoleHost) -> None:
        """Build the allow-listed adapters, settle what a crash left open, serve."""
        node = host.context.node
        registry = AdapterRegistry.build(
            [AllowedAdapter(name, target, settings) for name, target, settings in host.adapters],
            AdapterContext(node.offload),
            load=host.load_class,
            installed=host.installed_adapters,
        )
        log = EffectLog(node.store, node.clock, node.entropy)
        for row in await log.recover(registry.resumable):
            node.log.warning("effect.indeterminate", request_id=row.request_id, tool=row.tool, state=str(row.state))
        service = IntermediaryService(host.context, registry, log, host.roots)
        host.serve("tools.mediate", service.mediate)
        host.serve("tools.effects", service.effects)
        host.front.tools = [
            {"name": p.name, "capability": p.capability, "effect": str(p.effect), "description": p.description, "version": p.version}
            for p in registry.profiles()
        ]

    async def work(self) -> None:
        """Nothing in the background."""

    async def aclose(self) -> None:
        """Nothing to let go of."""
