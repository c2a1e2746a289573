"""Which adapters this intermediary has: exactly those of the configuration's allow-list (18.1.3.8.3, default deny).

A name on the list means a built-in adapter, or one that an installed package offers under the entry point group
``gnus_node.tool_adapters``, or, with an explicit ``module:Class``, that class. Code that is not on the list is never imported.

Invariants: one adapter per name; a package cannot take the name of a built-in adapter; an adapter whose profile does not say what the
list says, or contradicts itself, is refused when the node starts, not when it is called.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from gnus_node.records.base import Part
from gnus_node.records.enums import CapabilityScope, DryRunKind, EffectClass
from gnus_node.records.errors import GnusError
from gnus_node.tools.adapter import MAX_OUTPUT_BYTES, MAX_TIMEOUT_MS, AdapterContext, AdapterProfile, Queryable, ToolAdapter
from gnus_node.tools.adapters.files_read import FilesRead
from gnus_node.tools.capabilities import scope_of

ENTRY_POINT_GROUP = "gnus_node.tool_adapters"
MAX_ADAPTERS = 64
"""Most adapters of one intermediary."""

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){1,4}")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,63}")
_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_CAPABILITY = re.compile(r"tool(\.[a-z][a-z0-9_]*){2,5}")


class AdapterFactory(Protocol):
    """An adapter class as the registry uses it."""

    @classmethod
    def build(cls, context: AdapterContext, settings: Mapping[str, Any]) -> ToolAdapter:
        """Make the one instance. Raises ``CONFIG`` for settings it does not know."""


BUILT_IN: Mapping[str, type[AdapterFactory]] = MappingProxyType({"files.read": FilesRead})
"""The adapters that come with the node."""


@dataclass(frozen=True, slots=True)
class AllowedAdapter:
    """One line of the allow-list. ``target`` is ``module:Class``, or empty for a built-in or an installed adapter."""

    name: str
    target: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


class AdapterRegistry:
    """The adapters of one intermediary, by name. Fixed once built."""

    def __init__(self, adapters: Mapping[str, ToolAdapter]) -> None:
        self._adapters = MappingProxyType(dict(adapters))

    @classmethod
    def build(
        cls,
        allowed: Iterable[AllowedAdapter],
        context: AdapterContext,
        *,
        load: Callable[[str], type],
        installed: Mapping[str, str] = MappingProxyType({}),
    ) -> AdapterRegistry:
        """Build what the list allows.

        ``load`` imports ``module:Class`` and is called for listed names only; ``installed`` maps names of the entry point group to such
        targets. Raises ``CONFIG`` for an unknown, repeated or shadowing name, a class that is no adapter, or a wrong profile.
        """
        adapters: dict[str, ToolAdapter] = {}
        for entry in allowed:
            if not _NAME.fullmatch(entry.name):
                raise _config("an adapter's name has the wrong form", "use lower-case dotted names such as files.read")
            if entry.name in adapters:
                raise _config(f"the adapter {entry.name} is listed twice", "list each adapter once")
            if len(adapters) >= MAX_ADAPTERS:
                raise _config(f"more than {MAX_ADAPTERS} adapters", "list fewer")
            adapter = _class_of(entry, load, installed).build(context, entry.settings)
            check_profile(entry.name, adapter)
            adapters[entry.name] = adapter
        return cls(adapters)

    def get(self, name: str) -> ToolAdapter | None:
        """The adapter, or None where there is none of that name."""
        return self._adapters.get(name)

    def require(self, name: str) -> ToolAdapter:
        """The adapter. Raises ``UNKNOWN_TOOL``; the name is not repeated, it may be a model's text."""
        adapter = self._adapters.get(name)
        if adapter is None:
            raise GnusError("UNKNOWN_TOOL")
        return adapter

    def resumable(self, name: str) -> bool:
        """Whether an execution of this tool that was cut off may be taken up again; False for a tool that is gone."""
        adapter = self._adapters.get(name)
        return adapter is not None and adapter.profile.resumable

    def profiles(self) -> tuple[AdapterProfile, ...]:
        """All profiles, by name."""
        return tuple(self._adapters[name].profile for name in sorted(self._adapters))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._adapters))

    def __len__(self) -> int:
        return len(self._adapters)


def _class_of(entry: AllowedAdapter, load: Callable[[str], type], installed: Mapping[str, str]) -> type[AdapterFactory]:
    built_in = BUILT_IN.get(entry.name)
    if built_in is not None:
        if entry.target or entry.name in installed:
            raise _config(f"{entry.name} is a built-in adapter and cannot be replaced", "give the other adapter its own name")
        return built_in
    target = entry.target or installed.get(entry.name, "")
    if not target:
        near = difflib.get_close_matches(entry.name, [*BUILT_IN, *installed], 1)
        hint = f"did you mean {near[0]}? Otherwise " if near else ""
        raise _config(f"no adapter is called {entry.name}", f"{hint}install its package, or name its class in tools.adapter_paths")
    if not _TARGET.fullmatch(target):
        raise _config(f"the target of the adapter {entry.name} is not module:Class", "write it as package.module:Class")
    found = load(target)
    if not isinstance(found, type) or not callable(getattr(found, "build", None)):
        raise _config(f"the target of the adapter {entry.name} is not an adapter class", "name a class with build(context, settings)")
    return found


def check_profile(name: str, adapter: object) -> None:
    """Refuse (``CONFIG``) an object that is no adapter, or whose profile is not what the allow-list named, or contradicts itself."""
    profile = getattr(adapter, "profile", None)
    if not isinstance(adapter, ToolAdapter) or not isinstance(profile, AdapterProfile):
        raise _config(f"what {name} builds is not a tool adapter", "implement gnus_node.tools.adapter.ToolAdapter")
    faults = {
        "its name": profile.name == name,
        "its version": bool(_VERSION.fullmatch(profile.version)),
        "its capability": bool(_CAPABILITY.fullmatch(profile.capability)) and scope_of(profile.capability) in _SCOPE_WORDS,
        "its scope": profile.effect is not EffectClass.WRITE or scope_of(profile.capability) == CapabilityScope.EXECUTE,
        "its argument model": isinstance(profile.arguments, type) and issubclass(profile.arguments, Part),
        "its status query": not profile.status_query or isinstance(adapter, Queryable),
        "its dry run": profile.dry_run_kind is not DryRunKind.NONE,
        "its output bound": 0 < profile.max_output_bytes <= MAX_OUTPUT_BYTES,
        "its timeout": 0 < profile.timeout_ms <= MAX_TIMEOUT_MS,
    }
    wrong = [what for what, right in faults.items() if not right]
    if wrong:
        raise _config(f"the profile of the adapter {name} is not valid: {', '.join(wrong)}", "correct the adapter")


_SCOPE_WORDS = (CapabilityScope.READONLY, CapabilityScope.EXECUTE)


def _config(what: str, fix: str) -> GnusError:
    return GnusError("CONFIG", what, fix=fix)
