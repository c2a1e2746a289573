"""What every shell of a role is given: the ports of this node, its view of the swarm, and one purpose key.

One ``NodeContext`` is shared by the roles of a node; ``RoleContext`` adds the role's own signer. Neither gives access to another role's key,
to the file system or to a clock other than the port.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gnus_node.net.directory import Directory
from gnus_node.ports.host import Clock, Entropy, Log, Metrics, Offload, Probe
from gnus_node.ports.servers import Servers
from gnus_node.ports.signer import Signer
from gnus_node.ports.store import Keys, Store
from gnus_node.ports.transport import Transport
from gnus_node.privacy.parcels import Vault, open_key
from gnus_node.records.enums import RoleName
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.trust.state import TrustState
from gnus_node.wire.signed import Opener

MAX_VAULTS = 128
"""Most requests whose texts one node keeps open at a time."""
MAX_FENCED = 16_384
"""Most requests whose highest generation one node remembers."""


class TrustBox:
    """The trust state of this node and the log it was folded from, replaced together when the log grows. ``records`` are the log's without
    the charter, superseded grants included, and of the heads the newest."""

    def __init__(self, state: TrustState, records: Iterable[Signed[Any]] = ()) -> None:
        self.state = state
        self.records: tuple[Signed[Any], ...] = ()
        self.replace(state, records)

    def replace(self, state: TrustState, records: Iterable[Signed[Any]]) -> None:
        """Go on under a newer log."""
        head = state.head.id if state.head else None
        self.state = state
        self.records = tuple(r for r in records if r.id in state.log_ids or r.id == head)

    def epoch(self) -> int:
        """Epoch of the newest head."""
        return self.state.epoch


class Vaults:
    """Open vaults of the node, by request; the least recently used is closed."""

    def __init__(self, entropy: Entropy, sealing_secret: bytes) -> None:
        self._entropy = entropy
        self._secret = sealing_secret
        self._open: OrderedDict[str, Vault] = OrderedDict()

    def make(self, request_id: str, request_key: bytes) -> Vault:
        """The vault of a request whose key is known here (the ingress's own, or from the store)."""
        vault = self._open.get(request_id)
        if vault is None or vault.request_key != request_key:
            vault = Vault(request_id, request_key, self._entropy)
        self._keep(request_id, vault)
        return vault

    def receive(self, request_id: str, box: bytes) -> Vault:
        """The vault of a request whose key came sealed to this node. Raises ``COMMITMENT_MISMATCH``."""
        vault = self._open.get(request_id)
        if vault is None:
            vault = Vault(request_id, open_key(box, self._secret, request_id), self._entropy)
        self._keep(request_id, vault)
        return vault

    def _keep(self, request_id: str, vault: Vault) -> None:
        self._open[request_id] = vault
        self._open.move_to_end(request_id)
        if len(self._open) > MAX_VAULTS:
            self._open.popitem(last=False)

    def forget(self, request_id: str) -> None:
        """Close a vault."""
        self._open.pop(request_id, None)


class Fence:
    """The highest generation seen of each request, and whose mandate it was: a lower one is refused, and so is a twin (DECISIONS, Flow)."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[int, bytes]] = OrderedDict()

    def check(self, request_id: str, generation: int, mandate: bytes) -> None:
        """Remember this generation. Raises ``FENCED`` for a lower one, or another mandate of the same one."""
        seen = self._seen.get(request_id)
        if seen is not None and (generation < seen[0] or (generation == seen[0] and mandate != seen[1])):
            raise GnusError("FENCED", f"generation {generation} where {seen[0]} was seen", link="mandate")
        self._seen[request_id] = (generation, mandate)
        self._seen.move_to_end(request_id)
        if len(self._seen) > MAX_FENCED:
            self._seen.popitem(last=False)

    def current(self, request_id: str) -> int:
        """The highest generation seen, 0 for none."""
        return self._seen.get(request_id, (0, b""))[0]


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The node as its roles see it."""

    node_id: str
    clock: Clock
    entropy: Entropy
    offload: Offload
    store: Store
    keys: Keys
    transport: Transport
    trust: TrustBox
    directory: Directory
    opener: Opener
    vaults: Vaults
    metrics: Metrics
    probe: Probe
    log: Log
    servers: Servers


@dataclass(frozen=True, slots=True)
class RoleContext:
    """A role's own context: the node's, and the signer of exactly this role."""

    node: NodeContext
    role: RoleName
    signer: Signer
    fence: Fence
