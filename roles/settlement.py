"""Settlement: verifies finished chains and records them as tasks (18.1.3.6)."""

from __future__ import annotations

from gnus_node.records.enums import RoleName
from gnus_node.role import RoleHost
from gnus_node.settlement.service import SettlementService


class Settlement:
    """Serves ``settlement.settle``."""

    name = RoleName.SETTLEMENT

    async def open(self, host: RoleHost) -> None:
        """Open the log and serve it."""
        service = SettlementService(host.context)
        await service.open()
        host.serve("settlement.settle", service.settle)

    async def work(self) -> None:
        """Nothing in the background."""

    async def aclose(self) -> None:
        """Nothing to let go of."""
