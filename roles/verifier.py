"""Verifier and arbiter: judges the chain, composes and signs the answer (18.1.3.3)."""

from __future__ import annotations

from gnus_node.cognition.verifying import VerifierService
from gnus_node.records.enums import RoleName
from gnus_node.role import RoleHost


class Verifier:
    """Serves ``verifier.synthesize``."""

    name = RoleName.VERIFIER

    async def open(self, host: RoleHost) -> None:
        """Serve the verifier."""
        host.serve("verifier.synthesize", VerifierService(host.context).synthesize)

    async def work(self) -> None:
        """Nothing in the background."""

    async def aclose(self) -> None:
        """Nothing to let go of."""
