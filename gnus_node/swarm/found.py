"""Founding a local swarm and keeping its membership: keys for every node, a 1-of-1 charter, a grant for each (DESIGN.md section 5).

Runs while no node runs, and may run again: what is there is kept, what is missing is made, and a node that the trust log does not know is
granted. Nothing is ever taken back here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gnus_node.evidence.bundle import import_charter, import_trust, trust_of
from gnus_node.identity import FOLDER, Identity, load_identity, public_key
from gnus_node.init import CHARTER_FILE, TRUST_FILE, make_data_dir
from gnus_node.membership import grant_node, join_swarm, make_member, read_request, write_request
from gnus_node.ports.host import Clock, Entropy
from gnus_node.records.authority import RoleKey
from gnus_node.records.enums import RoleName
from gnus_node.records.errors import GnusError
from gnus_node.store.disk import private_directory
from gnus_node.swarm.settings import SwarmConfig


def ensure_members(swarm: SwarmConfig, entropy: Entropy, clock: Clock) -> tuple[dict[str, Identity], str]:
    """Every node of the file as a member, by name; and the first API key, if the swarm was founded now (shown once, stored hashed).

    Raises ``CONFIG`` where a folder's keys do not fit the file, and what reading and granting raise.
    """
    private_directory(swarm.swarm.data_dir)
    founder, api_key = swarm.folder(swarm.founder), ""
    if not (founder / CHARTER_FILE).exists():
        settings, roles = swarm.swarm, swarm.nodes[swarm.founder].roles
        made = make_data_dir(
            founder, entropy, clock, name=settings.name, operator=settings.operator, profile=settings.profile, roles=sorted(roles)
        )
        api_key = str(made["api_key"])
    found = {swarm.founder: _fitting(swarm, swarm.founder)}
    for name, node in swarm.nodes.items():
        if name == swarm.founder:
            continue
        folder = swarm.folder(name)
        if not (folder / FOLDER).is_dir():
            make_member(folder, entropy, sorted(node.roles))
        found[name] = _fitting(swarm, name)
        _join(swarm, founder, folder, found[name], clock)
    return found, api_key


def _fitting(swarm: SwarmConfig, name: str) -> Identity:
    """A node's identity, which must hold a key for each of its roles."""
    identity = load_identity(swarm.folder(name))
    missing = sorted(set(swarm.nodes[name].roles) - set(identity.roles))
    if missing:
        raise GnusError(
            "CONFIG",
            f"node {name} was made without a key for {', '.join(missing)}",
            fix=f"give the node another name, or remove its folder {swarm.folder(name)} to make it anew",
        )
    return identity


def _join(swarm: SwarmConfig, founder: Path, folder: Path, identity: Identity, clock: Clock) -> None:
    """Have the founder's authority grant a node that its log does not know, and let it take charter and log home."""
    charter = import_charter((founder / CHARTER_FILE).read_bytes())
    state = trust_of(charter, import_trust((founder / TRUST_FILE).read_bytes()))
    granted = state.grants.get(identity.node_id)
    at_home = (folder / CHARTER_FILE).exists() and import_charter((folder / CHARTER_FILE).read_bytes()) == charter
    if granted is not None and _covers(granted.body.roles, identity) and at_home:
        return
    request = read_request(write_request(identity))
    join_swarm(folder, *grant_node(founder, request, clock, operator=swarm.swarm.operator))


def _covers(granted: Iterable[RoleKey], identity: Identity) -> bool:
    keys = {(r.role, r.key) for r in granted}
    return all((RoleName(role), public_key(seed)) in keys for role, seed in identity.roles.items())
