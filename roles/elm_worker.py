"""ELM worker: role- and domain-specific experts (18.1.3.2). It proposes and never acts."""

from __future__ import annotations

from gnus_node.experts.hosting import close_all, host_all
from gnus_node.experts.service import ExpertService, Hosted
from gnus_node.records.enums import ExpertRole, RoleName
from gnus_node.role import RoleHost


class ElmWorker:
    """Serves ``expert.run`` for every configured expert that is no semantic core."""

    name = RoleName.ELM_WORKER

    async def open(self, host: RoleHost) -> None:
        """Open the experts' backends and offer them."""
        specs = [spec for spec in host.experts if spec.role is not ExpertRole.SEMANTIC_CORE]
        self._hosted: dict[str, Hosted] = {}
        await host_all(host.context, specs, host.offer, self._hosted)
        host.serve("expert.run", ExpertService(host.context, self._hosted).run)

    async def work(self) -> None:
        """Nothing in the background."""

    async def aclose(self) -> None:
        """Close the backends."""
        await close_all(self._hosted)
