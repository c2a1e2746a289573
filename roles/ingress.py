"""Ingress: accepts questions, owns them until their terminal answer, and hands them to routers (18.1.2.2)."""

from __future__ import annotations

from gnus_node.flow.after import Aftermath
from gnus_node.flow.archive import Archive
from gnus_node.flow.owner import Owner
from gnus_node.flow.retention import Retention
from gnus_node.records.enums import RoleName
from gnus_node.role import RoleHost


class Ingress:
    """Offers the node's front door its ``Owner``; serves nothing to other nodes."""

    name = RoleName.INGRESS

    async def open(self, host: RoleHost) -> None:
        """Build owner and archive over the node's store."""
        node = host.context.node
        secret = await node.keys.key_for("gnus/node", "idempotency")
        archive = Archive(node, host.payloads)
        self._after = Aftermath(host.context, archive, host.limits)
        self._owner = Owner(host.context, host.payloads, archive, host.policies, self._after, host.limits, secret)
        self._retention = Retention(node, host.payloads, archive, host.limits.payload_ms)
        host.front.owner, host.front.archive, host.front.idle = self._owner, archive, self._after.wait_idle

    async def work(self) -> None:
        """Take up what was open, then settle what ends."""
        await self._owner.work(self._retention.work)

    async def aclose(self) -> None:
        """Nothing to let go of."""
