"""The shape of a node's settings: strict, frozen, every key with its meaning beside it.

Invariants: an unknown key is refused, nothing is coerced, every limit has a name and bounds here. Amounts are decimal GNUS in the file
and minions in memory. Paths are written relative to the file and are absolute once loaded.
"""

from __future__ import annotations

import ipaddress
import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from gnus_node.records.base import Amount, Name, NodeId, Uri, Version
from gnus_node.records.enums import ColocationProfile, Domain, ExpertRole, RoleName, SourceClass

MAX_EXPERTS = 64
MAX_CORPORA = 64
MAX_ROOTS = 64
LOOPBACK = ("127.0.0.1", "::1")
"""Where the HTTP API may listen."""

T = TypeVar("T")


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) != len(values):
        raise ValueError("an entry stands twice")
    return values


def _path(value: Any, info: ValidationInfo) -> Any:
    """A path of the file, made absolute from the folder in the validation's context."""
    if isinstance(value, str):
        if not value or "\0" in value:
            raise ValueError("a path expected")
        value = Path(value)
    if not isinstance(value, Path):
        return value
    try:
        value = value.expanduser()
    except RuntimeError:
        raise ValueError("the home folder of ~ is not known") from None
    folder = (info.context or {}).get("folder")
    return Path(os.path.normpath(folder / value)) if folder is not None else value


def _gnus(value: Any) -> Any:
    # In the file 1 is one GNUS, like 1.0; an int given to Amount would already be minions.
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


Entries = Annotated[tuple[T, ...], BeforeValidator(_tuple), AfterValidator(_distinct)]
FilePath = Annotated[Path, BeforeValidator(_path)]
Gnus = Annotated[Amount, BeforeValidator(_gnus)]


class Settings(BaseModel):
    """Ground of every section: strict, frozen, unknown keys refused; the text below a field is its line in the documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NodeSettings(Settings):
    """Who this node is and what it hosts."""

    data_dir: FilePath = Field(default=Path("data"), validate_default=True)
    """Folder of keys, journals, payloads, trust log and socket; made with mode 0700, and refused where others can enter it."""
    node_id: NodeId | None = None
    """Stable name in the swarm; left out, the one that `gnus-node init` recorded in the data directory."""
    roles: Annotated[Entries[RoleName], Field(min_length=1, max_length=9)] = tuple(RoleName)
    """Roles to host, an allow-list of entry points; all nine by default."""
    operator: Name = "local"
    """Who runs the node, as `init` and `swarm up` write it into its grant; the unit of independence in quorums unless the charter says `node`."""
    profile: ColocationProfile = ColocationProfile.DEV
    """Which roles may share the node: `dev`, `small_swarm` or `high_trust` (`configs/policies/<profile>.toml`)."""
    runtime_dir: FilePath | None = None
    """Folder (mode 0700) through which nodes of one user share the server of an embedded model; left out, the user's runtime directory, else
    one in `/tmp`."""


def _listen(value: str) -> str:
    if value == "off":
        return value
    host, colon, port = value.rpartition(":")
    try:
        address = ipaddress.ip_address(host.strip("[]"))
        if not colon or not 0 <= int(port) <= 65_535:
            raise ValueError
    except ValueError:
        raise ValueError('"ADDRESS:PORT" with a numeric address, or "off", expected') from None
    if str(address) not in LOOPBACK:
        raise ValueError("not 127.0.0.1 or [::1]: the API speaks plain HTTP; to serve other machines put a TLS proxy in front, on this one")
    return value


class ApiSettings(Settings):
    """The doors: a unix socket for the operator, loopback HTTP for clients with keys."""

    unix_socket: FilePath | None = None
    """The operator's socket, mode 0600; left out, `node.sock` in the data directory."""
    listen: Annotated[str, AfterValidator(_listen)] = "127.0.0.1:8737"
    """Loopback address (`127.0.0.1` or `[::1]`) and port of the HTTP API (port 0: any free one), or `off`."""
    max_body_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = 1024 * 1024
    """Largest request body; beyond it the answer is 413."""
    rate_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] = 600
    """Requests a minute per API key; beyond it the answer is 429."""
    rate_burst: Annotated[int, Field(ge=1, le=100_000)] = 60
    """Requests a key may make at once before the rate applies."""
    queue_max: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Requests that may wait at the ingress, fair per tenant; beyond it the answer is `BUSY`."""
    max_streams: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Open streaming answers at a time."""


_WHERE = r"/(ip4|ip6|dns4|dns6)/[^/\s]{1,253}/tcp/[0-9]{1,5}"
Multiaddress = Annotated[str, Field(pattern=rf"^{_WHERE}$")]
PeerAddress = Annotated[str, Field(pattern=rf"^{_WHERE}/p2p/[1-9A-HJ-NP-Za-km-z]{{32,64}}$")]


class NetSettings(Settings):
    """The peer-to-peer network (extra `p2p`); without `listen` the node is a swarm of its own."""

    listen: Annotated[Entries[Multiaddress], Field(max_length=16)] = ()
    """Where to listen, for example `/ip4/0.0.0.0/tcp/4001` (port 0: any free one)."""
    announce: Annotated[Entries[Multiaddress], Field(max_length=16)] = ()
    """Where others reach this node, if that is not where it listens (port forwarding, containers)."""
    bootstrap: Annotated[Entries[PeerAddress], Field(max_length=64)] = ()
    """Nodes to stay connected to, each with its peer id: `/ip4/192.0.2.7/tcp/4001/p2p/12D3...`."""
    psk_file: FilePath | None = None
    """File of a private network's key: 64 hexadecimal digits, mode 0600; only nodes with the same key can connect."""
    mdns: bool = False
    """Look for peers on the local network by multicast DNS."""

    @model_validator(mode="after")
    def _needs_listen(self) -> NetSettings:
        if not self.listen and (self.announce or self.bootstrap or self.psk_file or self.mdns):
            raise ValueError("the other keys of [net] need listen")
        return self


class SwarmSettings(Settings):
    """Which swarm the node belongs to."""

    charter: FilePath | None = None
    """The swarm's charter; left out, `charter.json` in the data directory, as `gnus-node init` writes it."""
    trust_head: FilePath | None = None
    """A trust head to start from; left out, the one in the data directory."""


class StoreSettings(Settings):
    """Durable state."""

    map_size_bytes: Annotated[int, Field(ge=16 * 1024 * 1024, le=2**44)] = 1024 * 1024 * 1024
    """Most that the journals and payloads may take on disk; beyond it writes are refused `STORE_FULL`."""
    flush_ms: Annotated[int, Field(ge=1, le=1000)] = 200
    """Longest time a write that nobody waits for stays unwritten."""
    payload_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days after which payloads and salts of ended requests are erased; records stay checkable."""


class LimitSettings(Settings):
    """Most that any one request may use here, whatever its policies say."""

    max_wall_ms: Annotated[int, Field(ge=100, le=3_600_000)] = 60_000
    """Wall time of a request in milliseconds, waiting for approval not counted."""
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 8_192
    """Tokens over all experts of a request."""
    max_spend: Gnus = 1_000_000
    """Spend of a request in GNUS, at most six decimal places."""
    max_turns: Annotated[int, Field(ge=1, le=16)] = 4
    """Rounds of draft, adjudication and tool."""
    max_question_bytes: Annotated[int, Field(ge=1, le=1024 * 1024)] = 65_536
    """Length of a question in bytes of UTF-8."""
    max_running: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Requests under way at a time; others wait in the queue of `[api]`."""
    drain_s: Annotated[int, Field(ge=0, le=3_600)] = 20
    """Longest time that a node which is told to stop (SIGTERM) works on what is under way."""


ExpertKind = Literal["symbolic", "extractive", "openai", "embedded", "replay", "faulty", "file_lookup"]
MODEL_KINDS = ("openai", "embedded")
"""Kinds that run somebody's model: its licence must be said."""
PATH_OPTIONS = ("api_key_file", "cassette", "path")
"""Options that are paths, whatever the kind."""
Option = str | bool | int | Decimal


def _option_paths(value: Any, info: ValidationInfo) -> Any:
    """Options with those that are paths made absolute."""
    if not isinstance(value, dict):
        return value
    return {k: str(_path(v, info)) if k in PATH_OPTIONS and isinstance(v, str) and v else v for k, v in value.items()}


class ExpertSettings(Settings):
    """One expert of this node. The key of the table is its id."""

    kind: ExpertKind
    """What produces its output, attested with it: `symbolic`, `extractive`, `openai`, `embedded`, `replay`, `faulty` or `file_lookup`."""
    role: ExpertRole = ExpertRole.DOMAIN_EXPERT
    """Its role in plans: `domain_expert`, `semantic_core`, `primary_draft`, `tool_support` and so on."""
    domains: Annotated[Entries[Domain], Field(min_length=1)] = (Domain.GENERAL,)
    """Domains it declares."""
    version: Version = "1"
    """Version shown in plans and attestations."""
    license: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Licence of the model behind it, attested as `model_license`; required for `openai` and `embedded`, otherwise that of the rules."""
    enabled: bool = True
    """Whether the node offers it."""
    options: Annotated[dict[str, Option | Entries[Option]], BeforeValidator(_option_paths)] = Field(default_factory=dict)
    """What the kind itself reads, checked by it: for `openai` its `base_url` and `model`, for `embedded` its `path`, `sha256` and
    `prompt_style`, for `replay` its `cassette`."""

    @model_validator(mode="after")
    def _licence_of_models(self) -> ExpertSettings:
        said = self.options.get("model_license")
        if self.kind in MODEL_KINDS and self.license is None and said is None:
            raise ValueError(f'an expert of kind {self.kind} needs license = "...": the licence of its model')
        if said is not None and (not isinstance(said, str) or (self.license is not None and said != self.license)):
            raise ValueError("license and options.model_license differ")
        return self

    @property
    def model_license(self) -> str:
        """The licence that was said; empty where the rules' own holds."""
        said = self.options.get("model_license")
        return self.license or (said if isinstance(said, str) else "")

    @property
    def backend(self) -> dict[str, Any]:
        """The settings of its backend, as ``experts.registry`` reads them."""
        plain = {key: float(value) if isinstance(value, Decimal) else value for key, value in self.options.items()}
        said = {"model_license": self.model_license} if self.kind in MODEL_KINDS else {}
        return {"kind": self.kind, **plain, **said}


CorpusKind = Literal["folder", "factbook", "countryinfo"]


class CorpusSettings(Settings):
    """One collection of documents for grounding. The entries form a list."""

    name: Name
    """Name shown with every source."""
    kind: CorpusKind
    """`folder` (text, Markdown), `factbook` or `countryinfo` (both of the extra `demo`)."""
    path: FilePath | None = None
    """The folder; only with `kind = "folder"`."""
    source_class: SourceClass = SourceClass.PUBLIC
    """`public` or `private_tenant`: who may see what is quoted from it."""
    trusted: bool = False
    """Whether its structured fields may prove a tool's argument."""
    uri_prefix: Uri
    """Begins the URI of every passage, for example `doc://docs/`."""

    @model_validator(mode="after")
    def _path_for_folders(self) -> CorpusSettings:
        if (self.kind == "folder") != (self.path is not None):
            raise ValueError('path goes with kind = "folder", and with no other')
        return self


class ToolSettings(Settings):
    """Tools that the intermediary may use at all; everything else is refused."""

    allow: Annotated[Entries[Name], Field(max_length=64)] = ()
    """Names of adapters, for example `files.read`."""
    roots: Annotated[Entries[FilePath], Field(max_length=MAX_ROOTS)] = ()
    """Folders that `files.read` may read below; links that lead out of them are refused."""
    max_read_bytes: Annotated[int, Field(ge=1, le=16 * 1024 * 1024)] = 262_144
    """Most that one read returns."""
    adapter_paths: Annotated[Entries[Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]], Field(max_length=16)] = ()
    """Further adapters as `module:Class`. They run inside the node as trusted code."""


Experts = Annotated[dict[Name, ExpertSettings], Field(max_length=MAX_EXPERTS)]
Corpora = Annotated[tuple[CorpusSettings, ...], BeforeValidator(_tuple), Field(max_length=MAX_CORPORA)]


class PolicySettings(Settings):
    """The operator's policy, from which every request's ceilings start."""

    template: Literal["default", "delegated", "step_by_step", "read_only"] = "default"
    """Which of the four templates applies."""
    directory: FilePath | None = None
    """Folder of `<template>.toml` and `<profile>.toml`; left out, the ones that come with the program."""
    files: Annotated[Entries[FilePath], Field(max_length=16)] = ()
    """Further policy files; merging takes the strictest of each ceiling."""


class TelemetrySettings(Settings):
    """The log. It holds ids, codes, counts and durations, never what a user wrote."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severity that is logged."""
    log_file: FilePath | None = None
    """File of the log, one JSON object a line; left out, standard error."""


class NodeConfig(Settings):
    """Everything a node reads at start, with absolute paths."""

    node: NodeSettings = Field(default_factory=dict, validate_default=True)
    # Validated, so that data_dir becomes absolute in a file without [node] too.
    api: ApiSettings = Field(default_factory=ApiSettings)
    swarm: SwarmSettings = Field(default_factory=SwarmSettings)
    net: NetSettings = Field(default_factory=NetSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    experts: Experts = Field(default_factory=dict)
    corpora: Corpora = ()
    tools: ToolSettings = Field(default_factory=ToolSettings)
    policy: PolicySettings = Field(default_factory=PolicySettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)

    @model_validator(mode="after")
    def _distinct_corpora(self) -> NodeConfig:
        names = [corpus.name for corpus in self.corpora]
        if len(set(names)) != len(names):
            raise ValueError("two corpora have the same name")
        return self

    @property
    def socket_path(self) -> Path:
        """The operator's unix socket."""
        return self.api.unix_socket or self.node.data_dir / "node.sock"

    @property
    def charter_path(self) -> Path:
        """The swarm's charter."""
        return self.swarm.charter or self.node.data_dir / "charter.json"

    @property
    def weights_path(self) -> Path:
        """Where the digests of checked files of weights are remembered."""
        return self.node.data_dir / "weights.json"

    @property
    def api_keys_path(self) -> Path:
        """The hashed API keys (`gnus-node config key`)."""
        return self.node.data_dir / "api_keys.json"
