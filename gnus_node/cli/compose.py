"""Imports by name for the command line: a command's module, and the composition root's functions, only when they are needed.

The root (``init``, ``node``) imports every room; a command that asks a running node for its status must not. The signatures expected
of it are the Protocols below.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import typer

    from gnus_node.config import NodeConfig
    from gnus_node.records.enums import ColocationProfile
    from gnus_node.records.errors import GnusError


class Initialise(Protocol):
    """``gnus_node.init.initialise``."""

    def __call__(
        self,
        data_dir: Path,
        *,
        name: str,
        template: str,
        force: bool,
        with_key: bool = True,
        with_settings: bool = True,
        operator: str = ...,
        profile: ColocationProfile = ...,
    ) -> Mapping[str, Any]:
        """Make keys, charter, grants, trust head, ``with_key`` a first API key; what was made. Raises ``ALREADY_RUNNING``, ``CONFIG``."""


class MakeApiKey(Protocol):
    """``gnus_node.init.make_api_key``."""

    def __call__(self, data_dir: Path, *, tenant: str, project: str, principal: str, mode: str, scopes: Sequence[str]) -> Mapping[str, Any]:
        """Make and store (hashed) one API key; the key itself is in the result and nowhere else."""


class RunNode(Protocol):
    """``gnus_node.process.run_node``."""

    def __call__(self, config: NodeConfig, *, start_over: bool = False, log_json: bool = False) -> int:
        """Run until stopped; the exit code. Raises ``GnusError``, or an ``ExceptionGroup`` of several."""


class Preflight(Protocol):
    """``gnus_node.preflight``."""

    def settings_faults(self, config: NodeConfig) -> list[GnusError]:
        """Everything for which a node with these settings would not start."""

    def data_faults(self, config: NodeConfig) -> list[GnusError]:
        """Everything for which a node would not start on its data directory as it is."""


class VerifyBundle(Protocol):
    """``gnus_node.audit.verify_bundle_file``."""

    def __call__(self, bundle: Path, charter: Path, trust_head: Path | None) -> Mapping[str, Any]:
        """``evidence.verdict.Verdict`` as JSON: ``{"ok", "request_id", "generation", "outcome", "valid_as_of", "trust_head", "error"?,
        "links": [{"name", "proof", "by", "detail"?, "record"?, "children"?}]}``."""


class Schemas(Protocol):
    """``gnus_node.records.schema``."""

    def names(self) -> Sequence[str]:
        """Names of all record schemas."""

    def schema_for(self, name: str) -> Mapping[str, Any]:
        """One schema. Raises ``NOT_FOUND``."""

    def export(self, directory: Path) -> object:
        """Write every schema as ``NAME.json``."""


def command_app(module: str) -> typer.Typer:
    """The typer application of a command's module."""
    return cast("typer.Typer", importlib.import_module(module).app)


def installed(module: str) -> bool:
    """Whether an optional module could be imported; it is not imported."""
    return importlib.util.find_spec(module) is not None


def _module(module: str) -> Any:
    from gnus_node.records.errors import GnusError

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise GnusError("MISSING_DEPENDENCY", f"the module {error.name} is not installed", fix="install the node's extras") from None
        raise GnusError("MISSING_DEPENDENCY", f"this installation has no {module}", fix="install the whole program") from None


def initialise() -> Initialise:
    """See ``Initialise``."""
    return cast(Initialise, _module("gnus_node.init").initialise)


def make_api_key() -> MakeApiKey:
    """See ``MakeApiKey``."""
    return cast(MakeApiKey, _module("gnus_node.init").make_api_key)


def run_node() -> RunNode:
    """See ``RunNode``."""
    return cast(RunNode, _module("gnus_node.process").run_node)


def preflight() -> Preflight:
    """See ``Preflight``."""
    return cast(Preflight, _module("gnus_node.preflight"))


def verify_bundle() -> VerifyBundle:
    """See ``VerifyBundle``."""
    return cast(VerifyBundle, _module("gnus_node.audit").verify_bundle_file)


def schemas() -> Schemas:
    """See ``Schemas``."""
    return cast(Schemas, _module("gnus_node.records.schema"))
