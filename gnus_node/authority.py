"""What a 1-of-1 swarm's node does with its operator's keys: fresh trust heads, and the tenant's policy from the settings (DECISIONS,
Authority). Nodes of other swarms have none of these keys, and do nothing here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from gnus_node.config.model import NodeConfig
from gnus_node.config.policies import load_policy, load_template
from gnus_node.evidence.bundle import export_trust
from gnus_node.identity import Identity
from gnus_node.init import TENANT, issue_head
from gnus_node.membership import JoinRequest, grant_records
from gnus_node.net.context import TrustBox
from gnus_node.net.signing import KeySigner
from gnus_node.ports.host import Clock, Offload
from gnus_node.ports.store import Store, Write
from gnus_node.records.authority import Ceilings, Policy
from gnus_node.records.enums import PolicyLevel, RoleName, SignerRole, Tier
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import replace_file
from gnus_node.trust.state import fold
from gnus_node.wire import cbor
from gnus_node.wire.signed import Opener

HEAD_EVERY_S = 180.0
_POLICIES = b"policies"


class TrustFile:
    """The trust log on disk, as ``TrustBox`` has it. Written one after the other, so that an older log never lies over a newer one."""

    def __init__(self, path: Path, trust: TrustBox, offload: Offload) -> None:
        self._path = path
        self._trust = trust
        self._offload = offload
        self._writing = trio.Lock()

    async def save(self) -> None:
        """Write what is held now."""
        async with self._writing:
            text = export_trust(r.raw for r in self._trust.records)
            await self._offload.run(replace_file, self._path, text)


class Heads:
    """Grants, and reissues the trust head every three minutes, where the authority's key lies on this node. ``changed`` is awaited after
    each change of the trust log."""

    def __init__(self, trust: TrustBox, signer: KeySigner | None, clock: Clock, changed: Callable[[], Awaitable[None]]) -> None:
        self._trust = trust
        self._signer = signer
        self._clock = clock
        self._changed = changed

    async def refresh(self) -> None:
        """Issue a fresh head over the log at hand."""
        if self._signer is not None:
            state = self._trust.state
            await self._add(issue_head(self._signer, tuple(state.log_ids), max(1, state.epoch)))

    async def grant(self, request: JoinRequest, *, operator: str, tier: Tier, tenants: Sequence[str] = (TENANT,)) -> None:
        """Grant a node what it asks for; its peers hear of it at once. Raises ``FORBIDDEN`` without the authority's key, ``DUPLICATE_KEY``."""
        if self._signer is None:
            raise GnusError("FORBIDDEN", "the authority's key is not on this node", fix="grant on the node that founded the swarm")
        now_ms = self._clock.wall_ms()
        made = grant_records(self._signer, self._trust.state, request, now_ms, operator=operator, tier=tier, tenants=tenants)
        await self._add(*made)

    async def _add(self, *made: Signed[Any]) -> None:
        log = [*(r for r in self._trust.records if r.header.kind != "trust_head"), *made]
        self._trust.replace(fold(self._trust.state.charter, log), log)
        await self._changed()

    async def run(self) -> None:
        """Until cancelled."""
        while self._signer is not None:
            await trio.sleep(HEAD_EVERY_S)
            await self.refresh()


async def ensure_policy(
    config: NodeConfig,
    identity: Identity,
    trust: TrustBox,
    maker: Callable[[bytes, SignerRole], KeySigner],
    store: Store,
    opener: Opener,
) -> tuple[Signed[Policy], ...]:
    """The tenant's signed policies. Where the policy key lies here, those of the settings are signed anew whenever they changed.

    Raises ``POLICY_MISSING`` where there are none and no key to make one.
    """
    stored = await store.get("meta", _POLICIES)
    known: list[Signed[Policy]] = []
    for policy_id in cbor.decode(stored) if stored else ():
        raw = await store.get("record", policy_id)
        if raw is not None:
            known.append(opener.open(raw))
    if not identity.policy:
        # Only the ingress starts from the policies; to every other role they come with the mandate.
        if not known and RoleName.INGRESS in config.node.roles:
            raise GnusError("POLICY_MISSING", "this node has no signed policy", fix="copy the tenant's policies to it")
        return tuple(known)
    wanted = _wanted(config)
    fits = [p for p in known if wanted.get(p.body.policy_id) == p.body.ceilings and p.header.swarm == trust.state.swarm]
    if len(fits) == len(wanted) == len(known):
        return tuple(known)
    signer = maker(identity.policy, SignerRole.POLICY)
    version = max((p.body.policy_version for p in known), default=0) + 1
    made = [
        signer.sign(
            Policy(policy_id=name, tenant=TENANT, level=PolicyLevel.WORKSPACE, subject="any", policy_version=version, ceilings=ceilings)
        )
        for name, ceilings in sorted(wanted.items())
    ]
    rows = [Write("record", p.id, p.raw) for p in made]
    await store.commit([*rows, Write("meta", _POLICIES, cbor.encode([p.id for p in made]))])
    return tuple(made)


def _wanted(config: NodeConfig) -> dict[str, Ceilings]:
    """The ceilings the settings ask for: the template, further files, and the node's own limits, each a policy of its own."""
    roots = config.tools.roots
    template = load_template(config.policy.template, directory=config.policy.directory, tool_roots=roots)
    limits = config.limits
    narrowed = template.model_validate(
        {
            **{name: getattr(template, name) for name in Ceilings.model_fields},
            "max_wall_ms": min(template.max_wall_ms, limits.max_wall_ms),
            "max_tokens": min(template.max_tokens, limits.max_tokens),
            "max_spend": min(template.max_spend, limits.max_spend),
            "max_turns": min(template.max_turns, limits.max_turns),
        }
    )
    wanted = {f"template-{config.policy.template}": narrowed}
    for number, path in enumerate(config.policy.files, 1):
        wanted[f"file-{number}"] = load_policy(path, tool_roots=roots)
    return wanted
