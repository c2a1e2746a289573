"""What must hold before a node starts: one set of checks, which ``run`` refuses by and ``config check`` and ``doctor`` report.

``settings_faults`` looks at the settings and what they name (adapters, folders, extras); ``data_faults`` at the data directory: keys,
charter, trust log, API keys, store. Each gives every fault it finds, as the error that starting would raise. Nothing is written, no
environment is opened, no server is reached.

Invariant: a key that this node would sign or open with is the one that charter and grants name for it. A damaged key file would
otherwise give a node that looks well and whose every record is refused.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnus_node.api.keys import read_rows
from gnus_node.api.sockets import MAX_UNIX_PATH
from gnus_node.cognition.documents import CorpusConfig, CorpusKind
from gnus_node.cognition.documents.countries import package_digest
from gnus_node.config.model import NodeConfig
from gnus_node.config.policies import load_colocation, load_policy, load_template
from gnus_node.evidence.bundle import MAX_BUNDLE_BYTES, import_charter, import_trust, trust_of
from gnus_node.experts.embedded.catalogue import ENGINE, engine_missing
from gnus_node.experts.registry import build_backend
from gnus_node.host.offload import InlineOffload
from gnus_node.host.servers import NoServers
from gnus_node.identity import FOLDER, Identity, has_identity, load_identity, public_key, seed_name
from gnus_node.init import KEYS_FILE, TENANT, trust_path
from gnus_node.loader import installed, installed_adapters, load_class, load_roles
from gnus_node.records.enums import RoleName
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError, faults_of
from gnus_node.specs import adapter_specs, corpus_spec, expert_specs, net_options
from gnus_node.store.disk import gone, lost
from gnus_node.store.keyfile import MASTER_FILE
from gnus_node.tools.adapter import AdapterContext
from gnus_node.tools.registry import AdapterRegistry
from gnus_node.trust.state import TrustState
from gnus_node.wire.signed import open_record

STORE, KEYS = "store", "keys"
"""Folders of the journal and of the data keys, below the data directory."""
FILE_OPTIONS = {"openai": ("api_key_file",), "replay": ("cassette",), "embedded": ("path",)}
"""Options of experts that name a file which must be there."""


@dataclass(frozen=True, slots=True)
class Swarm:
    """Charter and trust log as they lie in the data directory."""

    charter: bytes
    log: tuple[bytes, ...]
    state: TrustState


class _Found(list[GnusError]):
    """Collects what checks raise."""

    def run(self, check: Callable[[], Any], link: str = "") -> Any:
        """The check's value, or None where it refused. ``link`` names the setting."""
        try:
            return check()
        except (GnusError, ExceptionGroup) as error:
            faults = faults_of(error)
            if faults is None:
                raise
            self.extend(_linked(fault, link) for fault in faults)
            return None


def _linked(fault: GnusError, link: str) -> GnusError:
    fix = f"correct {link} (docs/configuration.md)" if link and fault.fix == fault.row.fix else fault.fix
    return GnusError(fault.code, fault.what, fix=fix, link=fault.link or link, whose=fault.whose)


def settings_faults(config: NodeConfig) -> list[GnusError]:
    """Everything for which a node with these settings would not start, whatever its data directory holds."""
    found = _Found()
    found.run(lambda: _colocation(config), "node.roles")
    found.run(
        lambda: load_template(config.policy.template, directory=config.policy.directory, tool_roots=config.tools.roots), "policy.template"
    )
    for path in config.policy.files:
        found.run(lambda path=path: load_policy(path, tool_roots=config.tools.roots), "policy.files")  # type: ignore[misc]
    found.run(lambda: load_roles(config.node.roles), "node.roles")
    found.run(lambda: _adapters(config), "tools.allow")
    for root in config.tools.roots:
        found.run(lambda root=root: _folder(root, "the tool root"), "tools.roots")  # type: ignore[misc]
    _corpora(config, found)
    _experts(config, found)
    found.run(lambda: _network(config), "net")
    found.run(lambda: _socket(config), "api.unix_socket")
    if config.telemetry.log_file is not None:
        found.run(lambda: _folder(Path(config.telemetry.log_file or "").parent, "the log file's folder"), "telemetry.log_file")
    return found


def _colocation(config: NodeConfig) -> None:
    load_colocation(config.node.profile, directory=config.policy.directory).check(config.node.roles)


def _adapters(config: NodeConfig) -> None:
    AdapterRegistry.build(adapter_specs(config), AdapterContext(InlineOffload()), load=load_class, installed=installed_adapters())


def _folder(path: Path, what: str) -> None:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        raise GnusError("CONFIG", f"{what} {path} cannot be opened: {os.strerror(error.errno or 0)}", fix="correct the path") from None


def _corpora(config: NodeConfig, found: _Found) -> None:
    for number, settings in enumerate(config.corpora):
        link = f"corpora.{number}"
        spec = corpus_spec(settings)
        kind = CorpusKind(spec.kind)
        found.run(
            lambda s=spec, k=kind: CorpusConfig(s.name, k, s.source_class, s.trusted, s.path, None, s.uri_prefix, s.tenant),  # type: ignore[misc]
            link,
        )
        if spec.path is not None:
            found.run(lambda path=spec.path: _folder(path, "the corpus folder"), link)  # type: ignore[misc]
        else:
            found.run(lambda kind=kind: package_digest(kind), link)  # type: ignore[misc]


def _experts(config: NodeConfig, found: _Found) -> None:
    known = [corpus.name for corpus in config.corpora]
    for spec in expert_specs(config):
        link = f"experts.{spec.expert_id}"
        found.run(lambda spec=spec: build_backend({"id": spec.expert_id, **spec.backend}, InlineOffload(), NoServers()), link)  # type: ignore[misc]
        if spec.backend["kind"] == "embedded" and not installed(ENGINE):
            found.append(_linked(engine_missing(), link))
        for key in FILE_OPTIONS.get(str(spec.backend["kind"]), ()):
            path = spec.backend.get(key)
            if isinstance(path, str) and path and not os.path.isfile(path):
                found.append(GnusError("CONFIG", f"{key} names no file: {path}", fix="correct the path", link=link))
        # Without grounding here the passages come from other nodes, whose corpora are not known.
        named = spec.backend.get("corpora", ())
        for name in named if RoleName.GROUNDING in config.node.roles and isinstance(named, list | tuple) else ():
            if name not in known:
                near = difflib.get_close_matches(str(name), known, 1)
                fix = f"did you mean {near[0]}?" if near else f"configured are: {', '.join(known) or 'none'}"
                found.append(GnusError("CONFIG", f"no corpus is called {str(name)[:64]}", fix=fix, link=link))


def _network(config: NodeConfig) -> None:
    if net_options(config).listen and not installed("libp2p"):
        raise GnusError("MISSING_DEPENDENCY", "[net] is set and libp2p is not installed", fix="pip install 'gnus-node[p2p]'")


def _socket(config: NodeConfig) -> None:
    size = len(os.fsencode(config.socket_path))
    if size > MAX_UNIX_PATH:
        raise GnusError("CONFIG", f"the unix socket's path has {size} bytes, at most {MAX_UNIX_PATH} can be", fix="set a shorter one")


def data_faults(config: NodeConfig) -> list[GnusError]:
    """Everything for which a node would not start on this data directory as it is."""
    found = _Found()
    found.run(lambda: private_data_dir(config.node.data_dir), "node.data_dir")
    identity = found.run(lambda: load_identity(config.node.data_dir))
    swarm = found.run(lambda: load_swarm(config))
    if identity is not None and swarm is not None:
        found.extend(key_faults(config, identity, swarm.state))
    found.run(lambda: read_rows(config.node.data_dir / KEYS_FILE))
    if identity is not None and identity.incarnation:
        for folder in (STORE, KEYS):
            why = lost(config.node.data_dir / folder)
            if why:
                found.append(gone(why))
        master = config.node.data_dir / KEYS / MASTER_FILE
        if not os.path.lexists(master):
            found.append(GnusError("STORE_CORRUPT", f"{master} is missing but data keys exist", fix=f"restore {MASTER_FILE}"))
    return found


def private_data_dir(path: Path) -> None:
    """Refuse (``CONFIG``) a data directory that is none, is not there, or that others can enter."""
    try:
        status = path.stat()
    except OSError as error:
        why = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {os.strerror(error.errno or 0)}"
        raise GnusError("CONFIG", f"the data directory {path} {why}", fix="gnus-node init makes it") from None
    if not stat.S_ISDIR(status.st_mode):
        raise GnusError("CONFIG", f"the data directory {path} is not a directory", fix="give the right one")
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise GnusError("CONFIG", f"the data directory {path} is open to other users (mode {mode:04o})", fix=f"chmod 700 {path}")


def load_swarm(config: NodeConfig, opener: Callable[[bytes], Signed[Any]] = open_record) -> Swarm:
    """Read charter and trust log. Raises ``CONFIG`` that names the file which is missing or damaged."""
    path = config.charter_path
    with _named(path, "the charter"):
        charter = import_charter(_bytes(path))
        opener(charter)
    path = trust_path(config)
    with _named(path, "the trust log"):
        log = import_trust(_bytes(path))
        return Swarm(charter, log, trust_of(charter, log, opener))


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BUNDLE_BYTES + 1)


@contextmanager
def _named(path: Path, what: str) -> Iterator[None]:
    fix = f"restore {path.name} from a backup, or copy it from another node of the swarm"
    try:
        yield
    except OSError as error:
        why = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {os.strerror(error.errno or 0)}"
        fix = "gnus-node init makes it" if not has_identity(path.parent) else fix
        raise GnusError("CONFIG", f"{what} {path} {why}", fix=fix) from None
    except GnusError as error:
        raise GnusError("CONFIG", f"{what} {path} is damaged: {error.what}", fix=fix, link=error.link) from None


def key_faults(config: NodeConfig, identity: Identity, state: TrustState) -> list[GnusError]:
    """Every key of this node that is not the one which charter and grants name for its purpose, by file."""
    folder = config.node.data_dir / FOLDER
    if config.node.node_id not in (None, identity.node_id):
        what = f"node.node_id is not the name in {folder / 'node_id'}, which is {identity.node_id}"
        return [GnusError("CONFIG", what, fix="correct node_id, or leave it out", link="node.node_id")]
    holder = state.by_transport(public_key(identity.transport))
    if identity.node_id not in state.grants:
        if holder is None:
            what = f"the trust log {trust_path(config)} grants nothing to this node, {identity.node_id}"
            return [GnusError("CONFIG", what, fix="have the authority grant it, then take its trust log home")]
        return [_other(folder / "node_id", f"the trust log has this node's transport key for {holder}")]
    grant = state.node(identity.node_id)
    granted = {pair.role: pair.key for pair in grant.roles}
    found: list[GnusError] = []
    if grant.transport_key != public_key(identity.transport):
        found.append(_other(folder / "transport.seed", "it is not the key granted for the transport and the peer id"))
    if grant.sealing_key != identity.sealing_public():
        found.append(_other(folder / "sealing.seed", "it is not the key granted for sealed texts"))
    for role in (*config.node.roles, *(r for r in identity.roles if r not in config.node.roles)):
        path = folder / seed_name(role)
        seed = identity.roles.get(role)
        if seed is None:
            found.append(GnusError("CONFIG", f"the key of the role {role}, {path}, is missing", fix="restore it, or host other roles"))
        elif role in granted and granted[role] != public_key(seed):
            found.append(_other(path, f"it is not the key granted for the role {role}"))
        elif role not in granted and role in config.node.roles:
            found.append(GnusError("CONFIG", f"the swarm grants this node no role {role}", fix="have it granted, or host other roles"))
    found.extend(_authority_faults(folder, identity, state))
    return found


def _authority_faults(folder: Path, identity: Identity, state: TrustState) -> Iterable[GnusError]:
    """The keys of a 1-of-1 swarm's operator, where they lie here."""
    tenant = state.tenants.get(TENANT)
    policies = tenant.body.policy_keys if tenant else ()
    approvers = tenant.body.approver_keys if tenant else ()
    for name, seed, keys, where in (
        ("authority", identity.authority, state.charter.body.authority_keys, "one of the charter's authority"),
        ("policy", identity.policy, policies, f"a policy key of the tenant {TENANT}"),
        ("approver", identity.approver, approvers, f"an approver key of the tenant {TENANT}"),
    ):
        if seed and public_key(seed) not in keys:
            yield _other(folder / f"{name}.seed", f"it is not {where}")


def _other(path: Path, why: str) -> GnusError:
    return GnusError("CONFIG", f"{path} is damaged or another node's: {why}", fix="restore the identity folder from a backup")
