"""What every role must do, as a check that also third parties' roles can be put through: ``check_class``, then ``check_life``.

A role has a ``name`` of the nine, is made without arguments, and keeps no state in its class. ``open`` serves before it returns and leaves
no task behind; ``work`` runs until cancelled or returns; ``aclose`` lets go, also a second time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import trio
import trio.lowlevel
import trio.testing

from gnus_node.net.services import service
from gnus_node.records.enums import RoleName
from gnus_node.role import Role, RoleHost


def check_class(kind: type[Any], name: RoleName) -> None:
    """The shape of the class. Raises ``AssertionError``."""
    assert inspect.isclass(kind)
    assert kind.name is name, "the entry point's name and the class's are one"
    assert not inspect.signature(kind).parameters, "a role is made without arguments; its host comes with open"
    for method, parameters in (("open", ["self", "host"]), ("work", ["self"]), ("aclose", ["self"])):
        function = inspect.getattr_static(kind, method)
        assert inspect.iscoroutinefunction(function), f"{method} is a coroutine function"
        assert list(inspect.signature(function).parameters) == parameters
        assert inspect.getdoc(function), f"{method} says what it does"
    assert inspect.getdoc(kind)
    shared = {k: v for k, v in vars(kind).items() if not k.startswith("__") and not callable(v) and k != "name"}
    assert not any(isinstance(v, list | dict | set) for v in shared.values()), "state in the class is shared between nodes"


async def check_life(role: Role, host: RoleHost, serves: set[str]) -> None:
    """Open, work and close a role on a real host whose ``serve`` was not used for it yet. Raises ``AssertionError``."""
    served: dict[str, Callable[..., Any]] = {}

    def serve(name: str, handler: Callable[..., Any]) -> None:
        service(name)  # refuses what is no service
        assert name not in served, "a service is served once"
        served[name] = handler

    host = _with(host, serve)
    await trio.testing.wait_all_tasks_blocked()  # what the node itself has to finish
    before = _tasks()
    await role.open(host)
    assert set(served) == serves, "exactly the role's services, and before open returns"
    assert all(inspect.iscoroutinefunction(getattr(h, "func", h)) for h in served.values())
    assert _tasks() == before, "open starts no tasks; that is what work is for"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(role.work)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert _tasks() == before
    await role.aclose()
    await role.aclose()


def _tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def _with(host: RoleHost, serve: Callable[[str, Callable[..., Any]], None]) -> RoleHost:
    return replace(host, serve=serve)
