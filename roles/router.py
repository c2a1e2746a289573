"""Router and planner: carries one generation of a request, under a lease (18.1.3.1)."""

from __future__ import annotations

from functools import partial

from gnus_node.flow.coordinator import route
from gnus_node.records.enums import RoleName
from gnus_node.role import RoleHost


class Router:
    """Serves ``router.route``."""

    name = RoleName.ROUTER

    async def open(self, host: RoleHost) -> None:
        """Serve the coordinator."""
        host.serve("router.route", partial(route, host.context))

    async def work(self) -> None:
        """Nothing in the background: a router keeps nothing."""

    async def aclose(self) -> None:
        """Nothing to let go of."""
