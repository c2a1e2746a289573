"""Loading what the configuration names: roles by entry point, adapters by ``module:Class``. The only place that imports by name.

Nothing is imported that the allow-list does not name (DESIGN.md section 1, rule 2).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from gnus_node.records.enums import RoleName
from gnus_node.records.errors import GnusError
from gnus_node.role import Role

ROLE_GROUP = "gnus_node.roles"
ADAPTER_GROUP = "gnus_node.tool_adapters"


def load_class(target: str) -> type[Any]:
    """The class ``module:Class``. Raises ``CONFIG``."""
    module, colon, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name, None) if colon else None
    except ModuleNotFoundError:
        raise GnusError("CONFIG", f"the module of {target}, or one that it needs, is not installed", fix="install its package") from None
    except Exception as error:  # noqa: BLE001 - supervised boundary: another's module, which may fail in any way while it is imported
        raise GnusError(
            "CONFIG", f"the module of {target} fails when imported ({type(error).__name__})", fix="correct the module"
        ) from None
    if not isinstance(found, type):
        raise GnusError("CONFIG", f"{target} is not a class", fix="write module:Class")
    return found


def installed(module: str) -> bool:
    """Whether a top-level module could be imported; it is not imported."""
    return find_spec(module) is not None


def load_roles(wanted: Iterable[RoleName]) -> list[Role]:
    """The roles of the allow-list, each from its one entry point. Raises ``CONFIG`` where one is missing or there are two."""
    offered: dict[str, list[str]] = {}
    for point in entry_points(group=ROLE_GROUP):
        offered.setdefault(point.name, []).append(point.value)
    roles: list[Role] = []
    for name in wanted:
        targets = sorted(set(offered.get(name, [])))
        if len(targets) != 1:
            raise GnusError("CONFIG", f"{len(targets)} packages offer the role {name}", fix="install exactly one package with it")
        role: Role = load_class(targets[0])()
        if role.name is not name:
            raise GnusError("CONFIG", f"the entry point {name} gives the role {role.name}")
        roles.append(role)
    return roles


def installed_adapters() -> dict[str, str]:
    """Tool adapters that installed packages offer, by name; none is imported."""
    return {point.name: point.value for point in entry_points(group=ADAPTER_GROUP)}
