"""The settings as a documentation page, made from the models themselves, so that the page cannot lag behind."""

from __future__ import annotations

import ast
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gnus_node.config import model as source
from gnus_node.config.model import CorpusSettings, ExpertSettings, NodeConfig
from gnus_node.records.base import MINIONS_PER_GNUS

HEAD = """# Configuration

<!-- Made from gnus_node/config/model.py by `make schemas`; do not edit. -->

A node reads one TOML file: `gnus-node run --config node.toml`. `configs/node.toml` is the one that `make demo` uses. Every section and
key has a default except where the table says *required*; `gnus-node config check` reads a file without starting anything, and
`gnus-node config show` prints what holds, defaults included.

- An unknown key or a bad value is refused with exit code 2, naming the file, the line and the nearest known key. Nothing is guessed.
- Relative paths are taken from the folder of the file; `~` is the home folder.
- Environment variables do not override settings: what runs is what the file says.
- API keys are not settings. They are kept hashed in `api_keys.json` in the data directory: `gnus-node init` makes the first,
  `gnus-node config key` makes more.
- Amounts are decimal GNUS with at most six places.
"""


def describe_config() -> str:
    """The whole page, Markdown."""
    parts = [HEAD]
    meanings = field_texts(Path(source.__file__).read_text(encoding="utf-8"))
    for name, field in NodeConfig.model_fields.items():
        model, title = _section(name, field)
        rows = [_row(key, info, meanings[model.__name__, key]) for key, info in model.model_fields.items()]
        table = ["| key | type | default | meaning |", "| --- | --- | --- | --- |", *rows]
        parts.append(f"## {title}\n\n{(model.__doc__ or '').strip()}\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


def field_texts(text: str) -> dict[tuple[str, str], str]:
    """The text below each field of each class of a module's source. pydantic could collect it too, at every start of the program."""
    found: dict[tuple[str, str], str] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, below in pairwise(node.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
                found[node.name, field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return found


def _section(name: str, field: FieldInfo) -> tuple[type[BaseModel], str]:
    """The model of a section and how its header is written."""
    if name == "experts":
        return ExpertSettings, "[experts.ID]"
    if name == "corpora":
        return CorpusSettings, "[[corpora]]"
    if not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
        raise TypeError(f"{name} is no section")
    return field.annotation, f"[{name}]"


def _row(key: str, info: FieldInfo, meaning: str) -> str:
    default = "*required*" if info.is_required() else _default(key, info.get_default(call_default_factory=True, validated_data={}))
    bounds = _bounds(info)
    kind = type_name(info.annotation) + (f", {bounds}" if bounds else "")
    cells = [f"`{key}`", "amount" if key == "max_spend" else kind, default, meaning]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(key: str, value: Any) -> str:
    """A default as the file would write it."""
    if value is None or value == {}:
        return ""
    if key == "max_spend":
        return f"`{Decimal(value) / MINIONS_PER_GNUS}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{entry}"' for entry in value) + "]`"
    return f"`{value}`" if isinstance(value, int) else f'`"{value}"`'


def _bounds(info: FieldInfo) -> str:
    """The numeric bounds of a field, as ``a to b``; lengths of lists are bounds of ours that need no table."""
    low = next((rule.ge for rule in info.metadata if getattr(rule, "ge", None) is not None), None)
    high = next((rule.le for rule in info.metadata if getattr(rule, "le", None) is not None), None)
    return f"{low} to {high}" if low is not None and high is not None else ""


def type_name(annotation: Any) -> str:
    """A type in the words of a TOML file."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return type_name(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return " or ".join(type_name(arg) for arg in get_args(annotation) if arg is not type(None))
    if origin is Literal:
        return "text: " + ", ".join(f"`{arg}`" for arg in get_args(annotation))
    if origin is tuple:
        inner = type_name(get_args(annotation)[0])
        return f"list of {inner}"
    if origin is dict:
        return "table"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        members = [str(member.value) for member in annotation]
        return "text: " + ", ".join(f"`{member}`" for member in members)
    return {str: "text", int: "integer", bool: "boolean", Path: "path", Decimal: "number"}.get(annotation, "text")
