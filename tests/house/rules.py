"""The rules: each takes one source file and yields its breaches. Lists and exceptions are in ``lists.py``.

Names are resolved through the file's imports, so ``from trio import run_process as go`` is seen for what it is. What a determined
author could hide (``getattr`` with a built name) is not the point: the rules keep honest code honest, isolation contains the rest
(DESIGN.md sections 1 and 7).
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.house import lists

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 450
CODE = ("gnus_node/", "roles/")
SPOKEN = ("gnus_node/", "roles/", "simulations/")


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass(slots=True)
class Source:
    """One Python file with what the rules need of it."""

    path: str
    text: str
    tree: ast.Module
    comments: dict[int, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str, text: str) -> Source:
        """Parse a file and collect its comments and the full names behind its imported names."""
        source = cls(path, text, ast.parse(text))
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                source.comments[token.start[0]] = token.string
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    source.aliases[name.asname or name.name.split(".")[0]] = name.name if name.asname else name.name.split(".")[0]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for name in node.names:
                    source.aliases[name.asname or name.name] = f"{node.module}.{name.name}"
        return source

    def imports(self) -> Iterator[tuple[int, str]]:
        """Every imported module or name, in full, with its line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, name.name) for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                yield from ((node.lineno, f"{module}.{name.name}") for name in node.names)

    def uses(self) -> Iterator[tuple[int, str]]:
        """Every name or attribute that resolves through an import, in full, with its line; builtins by their own name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute | ast.Name):
                full = self.full_name(node)
                if full:
                    yield node.lineno, full

    def full_name(self, node: ast.expr) -> str:
        """The dotted name of an expression, or ``""`` where it does not start at a name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.aliases.get(node.id, node.id), *reversed(parts)])


def listed(path: str, names: Iterable[str]) -> bool:
    """Whether a path is one of the listed files, or below a listed folder."""
    return any(path == name or (name.endswith("/") and path.startswith(name)) for name in names)


def below(name: str, modules: Iterable[str]) -> str:
    """The module of ``modules`` that ``name`` is or lies in, or ``""``."""
    return next((m for m in modules if name == m or name.startswith(m + ".")), "")


STARTS_PROCESS = re.compile(
    r"trio\.(run_process|open_tcp_stream|open_ssl_over_tcp_stream|lowlevel\.open_process)|os\.(system|popen|fork|forkpty|exec\w+|spawn\w+|posix_spawn\w*)"
)
RUNS_TEXT = {"exec", "eval", "compile", "__import__", "builtins.exec", "builtins.eval", "builtins.compile", "builtins.__import__"}


def denied_calls(source: Source) -> Iterator[Finding]:
    """DECISIONS, House: processes, raw sockets, running text, imports by name, records made around their validation."""
    if not source.path.startswith(CODE):
        return
    by_name = listed(source.path, lists.MAY_IMPORT_BY_NAME)
    processes = listed(source.path, lists.MAY_START_PROCESSES)
    for line, name in source.imports():
        if below(name, ["importlib", "runpy", "imp"]) and not by_name:
            yield Finding(source.path, line, "denied", f"import of {name}: only loader.py imports by name")
        if below(name, ["subprocess", "multiprocessing", "pty"]) and not processes:
            yield Finding(source.path, line, "denied", f"import of {name}: child processes are a port (sandbox)")
        if below(name, ["pickle", "marshal", "shelve"]):
            yield Finding(source.path, line, "denied", f"import of {name}: reading it runs code")
        if STARTS_PROCESS.fullmatch(name) and not processes:
            yield Finding(source.path, line, "denied", f"import of {name}")
    for line, name in source.uses():
        if STARTS_PROCESS.fullmatch(name) and not processes:
            yield Finding(source.path, line, "denied", f"use of {name}")
        if name in RUNS_TEXT:
            yield Finding(source.path, line, "denied", f"use of {name}: text is never run")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "model_construct":
            yield Finding(source.path, node.lineno, "denied", "model_construct makes a record that nobody validated")
        copies = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "model_copy"
        if isinstance(node, ast.Call) and copies and any(keyword.arg in ("update", None) for keyword in node.keywords):
            yield Finding(source.path, node.lineno, "denied", "model_copy(update=) makes a record that nobody validated")


CLOCK_AND_CHANCE = ("time", "uuid", "secrets", "random", "threading", "concurrent", "asyncio", "trio.to_thread", "trio.from_thread")
CLOCK_AND_CHANCE_NAMES = re.compile(
    r"os\.(urandom|getrandom)|datetime\.(datetime\.(now|utcnow|today)|date\.today)|trio\.(to_thread|from_thread)(\..*)?|trio\.lowlevel\.start_thread_soon"
    r"|nacl\.utils\.random|(nacl\.\w+\.)?(SigningKey|PrivateKey)\.generate"
)


def ports_only(source: Source) -> Iterator[Finding]:
    """Rule 4: clock, chance and threads are ports; rule 3: deciding files and roles do not know trio at all."""
    if not source.path.startswith(CODE):
        return
    pure = listed(source.path, lists.PURE) or any(re.match(r"#\s*house: pure\b", c) for c in source.comments.values())
    if not listed(source.path, lists.MAY_READ_CLOCK_AND_CHANCE):
        for line, name in source.imports():
            if below(name, CLOCK_AND_CHANCE) or CLOCK_AND_CHANCE_NAMES.fullmatch(name):
                yield Finding(source.path, line, "ports", f"import of {name}: use the Clock, Entropy or Offload port")
        for line, name in source.uses():
            if CLOCK_AND_CHANCE_NAMES.fullmatch(name):
                yield Finding(source.path, line, "ports", f"use of {name}: use the Clock, Entropy or Offload port")
    if pure or source.path.startswith("roles/"):
        for line, name in source.imports():
            if below(name, ["trio"]) and not below(name, CLOCK_AND_CHANCE):
                yield Finding(source.path, line, "ports", "import of trio in a deciding file or a role")


def broad_excepts(source: Source) -> Iterator[Finding]:
    """``except Exception`` says what it protects (``# supervised boundary: ...`` on its line); BaseException is never caught."""
    if not source.path.startswith(SPOKEN):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names = [source.full_name(kind) if kind is not None else "bare except" for kind in kinds]
        elif isinstance(node, ast.Call) and source.full_name(node.func) == "contextlib.suppress":
            names = [source.full_name(arg) for arg in node.args]
        else:
            continue
        if {"BaseException", "bare except", "BaseExceptionGroup"} & set(names):
            yield Finding(source.path, node.lineno, "except", "BaseException is never caught: it would swallow cancellation")
        elif "Exception" in names and not re.search(r"supervised boundary: \S", source.comments.get(node.lineno, "")):
            yield Finding(
                source.path, node.lineno, "except", "catching Exception needs '# supervised boundary: what it protects' on its line"
            )


def sleeping_tests(source: Source) -> Iterator[Finding]:
    """A test that sleeps for ordering is slow or flaky, or both. Virtual time, and a poll under a deadline, are neither."""
    if not source.path.startswith("tests/") or listed(source.path, lists.MAY_SLEEP):
        return
    fine = _virtual_or_polling(source)
    for node in ast.walk(source.tree):
        name = source.full_name(node) if isinstance(node, ast.Attribute | ast.Name) else ""
        if name in ("time.sleep", "asyncio.sleep") or (name == "trio.sleep" and id(node) not in fine):
            message = f"{name} in a test: wait for an event, use MockClock, or poll in a while loop under trio.fail_after"
            yield Finding(source.path, node.lineno, "sleep", message)


def _virtual_or_polling(source: Source) -> set[int]:
    """Ids of the nodes inside functions that run on a MockClock, and inside loops that a deadline bounds."""
    fine: set[int] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = {arg.arg for arg in node.args.args}
            names |= {source.full_name(inner).rpartition(".")[2] for inner in ast.walk(node) if isinstance(inner, ast.Attribute | ast.Name)}
            inside = [node] if {"autojump_clock", "mock_clock", "MockClock"} & names else []
        elif isinstance(node, ast.With):
            bounds = {source.full_name(item.context_expr.func) for item in node.items if isinstance(item.context_expr, ast.Call)}
            loops = [inner for inner in ast.walk(node) if isinstance(inner, ast.While)]
            inside = loops if {"trio.fail_after", "trio.move_on_after"} & bounds else []
        else:
            continue
        fine |= {id(inner) for outer in inside for inner in ast.walk(outer)}
    return fine


def docstrings(source: Source) -> Iterator[Finding]:
    """A module opens with what it is and why; a file with nothing in it needs no word."""
    if source.path.startswith(SPOKEN) and source.tree.body and not ast.get_docstring(source.tree):
        yield Finding(source.path, 1, "docstring", "the module does not open with what it is and why")


def length(source: Source) -> Iterator[Finding]:
    """Past the limit there is a second room inside."""
    lines = source.text.count("\n")
    if source.path.startswith("gnus_node/") and lines > MAX_LINES and not listed(source.path, lists.MAY_BE_LONG):
        yield Finding(source.path, lines, "length", f"{lines} lines, more than {MAX_LINES}: look for the second room inside")


def coded_ignores(source: Source) -> Iterator[Finding]:
    """An ignored warning names which."""
    for line, comment in source.comments.items():
        if re.search(r"type:\s*ignore(?!\[[\w-]+)", comment):
            yield Finding(source.path, line, "ignore", "'type: ignore' without a code")
        if re.search(r"#\s*noqa(?!: ?[A-Z]+\d+)", comment):
            yield Finding(source.path, line, "ignore", "'noqa' without a code")


def role_imports(source: Source) -> Iterator[Finding]:
    """A role sees the Role protocol and its own rooms' facades; what thinks reaches neither tools nor network (rules 2 and 5)."""
    found = re.match(r"roles/(\w+?)(\.py|/)", source.path)
    if not found or found[1] == "__init__":
        return
    allowed = (*lists.ROLE_COMMON, *lists.ROLE_ROOMS.get(found[1], ()))
    for line, name in source.imports():
        if name.startswith(".") or (below(name, ["roles"]) and not below(name, [f"roles.{found[1]}"])):
            yield Finding(source.path, line, "role", f"import of {name}: roles do not know each other")
        if below(name, ["gnus_node"]) and not below(name, allowed):
            yield Finding(source.path, line, "role", f"import of {name}: not among this role's rooms (tests/house/lists.py)")
        if found[1] in lists.THINKING_ROLES and below(name, ["socket", "ctypes", "subprocess", "httpx", "ssl", "urllib", "http"]):
            yield Finding(source.path, line, "role", f"import of {name}: a role that thinks does not act")


RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    denied_calls,
    ports_only,
    broad_excepts,
    sleeping_tests,
    docstrings,
    length,
    coded_ignores,
    role_imports,
)

# Written in parts, so that this file does not name what it looks for.
_PLACES = "|".join(f"/{name}/" for name in ("work", "root", "home"))
_HOSTS = "|".join(re.escape(".".join(parts)) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("golang", "org")))
MACHINE = re.compile(rf"(?<![\w.~-])(?:{_PLACES})[\w.-]|{_HOSTS}")


def machine_paths(path: str, text: str) -> Iterator[Finding]:
    """No path of the machine it was written on, and no registry's host, in anything that is tracked."""
    if listed(path, lists.MAY_NAME_MACHINE_PATHS):
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if found := MACHINE.search(line):
            yield Finding(path, number, "machine", f"names {found[0]!r}, which belongs to one machine or registry")


def check_text(path: str, text: str) -> list[Finding]:
    """Every breach of one file."""
    findings = list(machine_paths(path, text))
    if path.endswith(".py"):
        source = Source.read(path, text)
        for rule in RULES:
            findings += rule(source)
    return sorted(set(findings), key=lambda f: (f.line, f.rule, f.message))


def tracked(root: Path) -> list[str]:
    """Tracked and new files as git sees them; without git (an unpacked archive) all files outside hidden and built folders."""
    try:
        command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, capture_output=True, check=True).stdout
        return sorted({name for name in listing.decode().split("\0") if name and (root / name).is_file()})
    except (OSError, subprocess.CalledProcessError):
        skipped = re.compile(r"(^|/)(\.|__pycache__|build/|dist/|run/)")
        names = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
        return sorted(name for name in names if not skipped.search(name))


def check_tree(root: Path) -> list[Finding]:
    """Every breach of the tree, in path order. Files that are not UTF-8 text are skipped."""
    findings: list[Finding] = []
    for name in tracked(root):
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        findings += check_text(name, text)
    return findings
