"""From settings to what the roles and the network of a node are given. Used to start one, and to say beforehand what would be refused."""

from __future__ import annotations

from gnus_node.config.model import CorpusSettings, ExpertSettings, NodeConfig
from gnus_node.init import TENANT
from gnus_node.net.attach import NetOptions
from gnus_node.records.enums import SourceClass
from gnus_node.records.errors import GnusError
from gnus_node.role import CorpusSpec, ExpertSpec
from gnus_node.tools.registry import BUILT_IN, AllowedAdapter


def net_options(config: NodeConfig) -> NetOptions:
    """The network of the settings. Raises ``CONFIG`` where the private network's key cannot be read, or others could read it."""
    net = config.net
    psk = ""
    if net.psk_file is not None:
        try:
            if net.psk_file.stat().st_mode & 0o077:
                raise GnusError("CONFIG", "the private network's key is readable by others", fix=f"chmod 600 {net.psk_file.name}")
            psk = net.psk_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            raise GnusError("CONFIG", "net.psk_file cannot be read", fix="64 hexadecimal digits, mode 0600") from None
    return NetOptions(net.listen, net.announce, net.bootstrap, psk, net.mdns)


def expert_spec(name: str, settings: ExpertSettings) -> ExpertSpec:
    """One expert."""
    return ExpertSpec(name, settings.version, settings.role, settings.domains, settings.model_license, settings.backend)


def expert_specs(config: NodeConfig) -> tuple[ExpertSpec, ...]:
    """The enabled experts, by name."""
    return tuple(expert_spec(name, settings) for name, settings in sorted(config.experts.items()) if settings.enabled)


def corpus_spec(settings: CorpusSettings) -> CorpusSpec:
    """One corpus."""
    tenant = TENANT if settings.source_class is SourceClass.PRIVATE_TENANT else None
    prefix = str(settings.uri_prefix)
    return CorpusSpec(settings.name, settings.kind, settings.path, settings.source_class, settings.trusted, prefix, tenant)


def adapter_specs(config: NodeConfig) -> tuple[AllowedAdapter, ...]:
    """The allow-list with its targets: ``adapter_paths`` are ``module:Class`` for the names that are no built-in ones, in order.

    Raises ``CONFIG`` where there are more paths than names for them: which adapter was meant is not guessed.
    """
    targets = list(config.tools.adapter_paths)
    rows: list[AllowedAdapter] = []
    for name in config.tools.allow:
        if name == "files.read":
            rows.append(AllowedAdapter(name, "", {"max_bytes": config.tools.max_read_bytes}))
        else:
            rows.append(AllowedAdapter(name, targets.pop(0) if targets and name not in BUILT_IN else ""))
    if targets:
        raise GnusError(
            "CONFIG",
            f"tools.adapter_paths has more entries than tools.allow has names for, {len(targets)} too many",
            fix="add each adapter's name to tools.allow, in the same order",
        )
    return tuple(rows)
