"""Policy templates and colocation profiles: data in ``configs/policies``, read into typed values (18.1.3.8.11, 18.1.2.2.1).

A template gives the ``Ceilings`` every request of a tenant starts from; a profile says which roles may share a node and how far sharing
lowers a role's tier. Both are data, so that an operator reads what holds and changes it without code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from gnus_node.config.load import load_toml
from gnus_node.config.model import Entries, Gnus, Settings
from gnus_node.records.authority import CapabilityName, Ceilings, Domainname
from gnus_node.records.enums import ApprovalMode, ColocationProfile, MemoryMode, PrivacyMode, RoleName, Tier
from gnus_node.records.errors import GnusError

TOOL_ROOTS = "@roots"
"""In a template's ``paths``: the folders of ``[tools] roots``."""
TEMPLATES = ("default", "delegated", "step_by_step", "read_only")


class PolicyFile(Settings):
    """A policy as written: the ceilings of ``records.authority.Ceilings``, lists in any order."""

    description: Annotated[str, Field(min_length=1, max_length=500)]
    capabilities: Entries[CapabilityName]
    domains: Entries[Domainname] = ()
    paths: Entries[Annotated[str, Field(pattern=r"^(/[^\x00]{0,1023}|@roots)$")]] = ()
    pre_granted: Entries[CapabilityName] = ()
    max_tokens: Annotated[int, Field(ge=0, le=2**53 - 1)]
    max_wall_ms: Annotated[int, Field(ge=0, le=2**53 - 1)]
    max_spend: Gnus
    max_turns: Annotated[int, Field(ge=1, le=16)]
    privacy_floor: PrivacyMode
    approval_floor: ApprovalMode
    memory_floor: MemoryMode


class TierCap(Settings):
    """Where ``role`` shares a node with one of ``beside``, its tier is at most ``tier``."""

    role: RoleName
    beside: Entries[RoleName]
    tier: Tier
    why: Annotated[str, Field(min_length=1, max_length=300)]


class ForbiddenPair(Settings):
    """Two roles that may not share a node under this profile."""

    roles: Annotated[Entries[RoleName], Field(min_length=2, max_length=2)]
    why: Annotated[str, Field(min_length=1, max_length=300)]


class ColocationRules(Settings):
    """One profile. Every role's own tier is its ceiling alone on a node (18.1.2.2.2)."""

    profile: ColocationProfile
    description: Annotated[str, Field(min_length=1, max_length=500)]
    tiers: dict[RoleName, Tier]
    caps: Entries[TierCap] = ()
    forbidden: Entries[ForbiddenPair] = ()

    def tier_of(self, role: RoleName, together: Iterable[RoleName]) -> Tier:
        """The highest tier ``role`` may have on a node that hosts ``together``; D for a role the profile does not name."""
        others = set(together) - {role}
        caps = [cap.tier for cap in self.caps if cap.role is role and others & set(cap.beside)]
        return min([self.tiers.get(role, Tier.D), *caps])

    def tier_caps(self, together: Iterable[RoleName]) -> dict[RoleName, Tier]:
        """``tier_of`` for every role of ``together``, as ``trust.tiers.effective_tier`` takes it."""
        hosted = tuple(together)
        return {role: self.tier_of(role, hosted) for role in hosted}

    def clashes(self, together: Iterable[RoleName]) -> tuple[ForbiddenPair, ...]:
        """The pairs of ``together`` that the profile forbids."""
        hosted = set(together)
        return tuple(pair for pair in self.forbidden if set(pair.roles) <= hosted)

    def check(self, together: Iterable[RoleName]) -> None:
        """Raise ``COLOCATION`` for the first forbidden pair."""
        for pair in self.clashes(together):
            first, second = pair.roles
            raise GnusError("COLOCATION", f"profile {self.profile} forbids {first} beside {second}: {pair.why}")


def builtin_policies() -> Path:
    """The folder of templates and profiles that came with the program; in a checkout a link to ``configs/policies``."""
    return Path(__file__).resolve().parent / "shipped"


def load_policy(path: Path, *, tool_roots: Sequence[Path] = ()) -> Ceilings:
    """The ceilings of a policy file, ``@roots`` replaced by ``tool_roots``. Raises ``CONFIG``."""
    policy = load_toml(path, PolicyFile)
    roots = {str(root) for root in tool_roots}
    paths = {path for path in policy.paths if path != TOOL_ROOTS} | (roots if TOOL_ROOTS in policy.paths else set())
    return Ceilings(
        capabilities=tuple(sorted(policy.capabilities)),
        domains=tuple(sorted(policy.domains)),
        paths=tuple(sorted(paths)),
        pre_granted=tuple(sorted(policy.pre_granted)),
        max_tokens=policy.max_tokens,
        max_wall_ms=policy.max_wall_ms,
        max_spend=policy.max_spend,
        max_turns=policy.max_turns,
        privacy_floor=policy.privacy_floor,
        approval_floor=policy.approval_floor,
        memory_floor=policy.memory_floor,
    )


def load_template(name: str, *, directory: Path | None = None, tool_roots: Sequence[Path] = ()) -> Ceilings:
    """The ceilings of one of the four templates. Raises ``CONFIG``."""
    if name not in TEMPLATES:
        raise GnusError("CONFIG", "no such policy template", fix=f"one of {', '.join(TEMPLATES)}")
    return load_policy((directory or builtin_policies()) / f"{name}.toml", tool_roots=tool_roots)


def load_colocation(profile: ColocationProfile, *, directory: Path | None = None) -> ColocationRules:
    """The rules of a profile. Raises ``CONFIG``, also where the file is of another profile."""
    path = (directory or builtin_policies()) / f"{profile}.toml"
    rules = load_toml(path, ColocationRules)
    if rules.profile is not profile:
        raise GnusError("CONFIG", f"{path}: holds the profile {rules.profile}, not {profile}", fix="correct its profile or its name")
    return rules
