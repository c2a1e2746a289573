"""Memory and index: keeps admitted events, and gives governed context (18.1.3.4)."""

from __future__ import annotations

from gnus_node.memory.log import MemoryLog
from gnus_node.memory.service import MemoryService
from gnus_node.records.enums import RoleName
from gnus_node.role import RoleHost


class MemoryIndex:
    """Serves ``memory.retrieve``, ``memory.put``, and for this node's own front door ``memory.search`` and ``memory.remember``."""

    name = RoleName.MEMORY_INDEX

    async def open(self, host: RoleHost) -> None:
        """Open the log and serve it."""
        log = MemoryLog(host.context.node, host.context.signer, host.sign_bytes, lambda: host.make_index(None))
        await log.open()
        service = MemoryService(host.context, log)
        host.serve("memory.retrieve", service.retrieve)
        host.serve("memory.put", service.put)
        host.serve("memory.search", service.search)
        host.serve("memory.remember", service.remember)

    async def work(self) -> None:
        """Nothing in the background."""

    async def aclose(self) -> None:
        """Nothing to let go of."""
