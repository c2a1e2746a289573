"""Effective tiers: the weakest of role, grant and colocation profile (18.1.2.2.2). Pure; caps are data."""

from __future__ import annotations

from collections.abc import Mapping

from gnus_node.records.enums import RoleName, SignerRole, Tier
from gnus_node.trust.state import KeyHolder

ROLE_TIERS: Mapping[SignerRole, Tier] = {
    SignerRole.SETTLEMENT: Tier.A,
    SignerRole.TOOL_INTERMEDIARY: Tier.A,
    SignerRole.MEMORY_INDEX: Tier.A,
    SignerRole.ROUTER: Tier.B,
    SignerRole.VERIFIER: Tier.B,
    SignerRole.GROUNDING: Tier.B,
    SignerRole.INGRESS: Tier.B,
    SignerRole.SEMANTIC_CORE: Tier.C,
    SignerRole.ELM_WORKER: Tier.C,
}
"""The seed's suggested ranking; ingress stands with the router it hands work to."""


def effective_tier(holder: KeyHolder, caps: Mapping[RoleName, Tier] | None = None) -> Tier:
    """Tier of one (node, role): the weakest of its role's, its grant's and the profile's cap for the role."""
    tier = min(ROLE_TIERS.get(holder.role, Tier.D), holder.tier)
    if caps and holder.role.value in RoleName.__members__.values():
        tier = min(tier, caps.get(RoleName(holder.role.value), Tier.A))
    return tier
