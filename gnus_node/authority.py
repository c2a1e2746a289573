"""What a 1-of-1 swarm's node does with its operator's keys: fresh trust heads, and the tenant's policy from the settings (DECISIONS,
Authority). Nodes of other swarms have none of these keys, and do nothing here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import trio

from gnus_node.config.model import NodeConfig
from gnus_node.config.policies import load_policy, load_template
from gnus_node.evidence.bundle import export_trust
from gnus_node.identity import Identity
from gnus_node.init import TENANT, issue_head, trust_path
from gnus_node.net.context import TrustBox
from gnus_node.net.directory import Directory
from gnus_node.net.signing import KeySigner
from gnus_node.ports.host import Offload
from gnus_node.ports.store import Store, Write
from gnus_node.records.authority import Ceilings, Policy
from gnus_node.records.enums import PolicyLevel, SignerRole
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.trust.state import fold
from gnus_node.wire import cbor
from gnus_node.wire.signed import Opener

HEAD_EVERY_S = 180.0
_POLICIES = b"policies"


class Heads:
    """Reissues the trust head every three minutes where the authority's key lies on this node."""

    def __init__(
        self,
        config: NodeConfig,
        identity: Identity,
        trust: TrustBox,
        directory: Directory,
        maker: Callable[[bytes, SignerRole], KeySigner],
        opener: Opener,
        offload: Offload,
    ) -> None:
        self._path = trust_path(config)
        self._signer = maker(identity.authority, SignerRole.AUTHORITY) if identity.authority else None
        self._trust = trust
        self._directory = directory
        self._opener = opener
        self._offload = offload

    async def refresh(self) -> None:
        """Issue a fresh head over the log at hand, here and on disk."""
        if self._signer is None:
            return
        state = self._trust.state
        head = issue_head(self._signer, tuple(state.log_ids), max(1, state.epoch))
        records = [*state.grants.values(), *state.tenants.values()]
        if len(records) + 1 != len(state.log_ids):
            raise GnusError("STORE_CORRUPT", "the trust log holds records this node does not fold")
        self._trust.state = fold(state.charter, [*records, self._opener.open(head.raw)])
        self._directory.set_trust(self._trust.state)
        text = export_trust([*(r.raw for r in records), head.raw])
        await self._offload.run(write_atomic, self._path, text)

    async def run(self) -> None:
        """Until cancelled."""
        while self._signer is not None:
            await trio.sleep(HEAD_EVERY_S)
            await self.refresh()


def write_atomic(path: Path, text: str) -> None:
    """Replace a file whole: a reader sees the old or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(name, path)


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
        if not known:
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
