"""How status, plan, doctor, tools, memory and trust look as text. Pure: values of the admin API in, a ``Page`` out.

Words for a person, columns that line up, nothing of the program's inside; whoever needs all of it takes ``--json``. A value that an older or
newer node does not have is left out, never an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gnus_node.cli.output import Page, one_line
from gnus_node.cli.render import flat, maps, size, spaced

_STAGES = ("memory", "ground", "draft", "tool", "verify", "synthesize")
"""The order in which stages run; a plan names a set."""
KEY_HINT = "programs need an API key: gnus-node config key makes one"


def made_page(made: Mapping[str, Any]) -> Page:
    """What ``init`` made. An API key stands alone on its line, to be copied; it is shown this once."""
    page = Page().line("made a swarm of one node", "ok")
    shown = {"node": "node_id", "tenant": "tenant", "folder": "data_dir", "charter": "charter", "settings": "settings"}
    page.pairs([(name, made[key]) for name, key in shown.items() if made.get(key)], indent=2)
    if made.get("api_key"):
        _key(page, made)
    else:
        page.line(KEY_HINT, hang=2)
    return page.line(f"note: {one_line(made['note'])}", "warn", hang=2) if made.get("note") else page


def _key(page: Page, made: Mapping[str, Any]) -> None:
    page.line(f"API key {one_line(made.get('api_key_id', ''))}, shown this once and stored only hashed:").line(
        f"  {made['api_key']}", "head"
    )


def key_page(made: Mapping[str, Any]) -> Page:
    """A new API key, and whose it is."""
    page = Page()
    _key(page, made)
    shown = ("tenant", "project", "principal", "mode")
    return page.pairs([(name, made[name]) for name in shown if made.get(name)], indent=2, style="dim")


def settings_page(title: str, settings: Mapping[str, Any]) -> Page:
    """Settings, section by section as the file has them; what is not set is a dash."""
    page = Page().line(title, "dim")
    _section(page, "", settings)
    return page


def _section(page: Page, name: str, values: Mapping[str, Any]) -> None:
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping) and not (maps(value))}
    if name:
        page.line().line(f"[{name}]", "head")
    page.pairs([(key, flat(value) or "-") for key, value in plain.items()], indent=2)
    for key, value in values.items():
        inner = f"{name}.{one_line(key)}" if name else one_line(key)
        if isinstance(value, Mapping):
            if value:
                _section(page, inner, value)
        else:
            for entry in maps(value):
                _section(page, f"[{inner}]", entry)


def status_page(value: Mapping[str, Any]) -> Page:
    """A node's status, problems first."""
    page = Page()
    found = value.get("problems") or []
    problems = found if isinstance(found, list | tuple) else [found]
    for problem in problems:
        page.line(f"problem: {one_line(flat(problem))}", "problem", hang=2)
    if not problems:
        page.line("no problems", "ok")
    trust = value.get("trust")
    facts = [
        ("node", ", ".join(one_line(value[name]) for name in ("node_id", "software") if value.get(name))),
        ("roles", _words(value.get("roles"))),
        ("profile", _profile(value)),
        ("swarm", _swarm(trust) if isinstance(trust, Mapping) else ""),
        ("store", _store(value)),
    ]
    page.pairs([fact for fact in facts if fact[1]])
    experts, corpora = maps(value.get("experts")), maps(value.get("corpora"))
    if experts:
        page.line().line("Experts", "head")
        page.table(("name", "kind", "role"), [(e.get("id", ""), e.get("kind", ""), spaced(e.get("role", ""))) for e in experts])
    if corpora:
        page.line().line("Documents", "head")
        page.table(("collection", "passages"), [(c.get("name", ""), c.get("passages", 0)) for c in corpora])
    return page


def _profile(value: Mapping[str, Any]) -> str:
    profile = one_line(value.get("profile") or "")
    alone = value.get("independent") is False
    return f"{profile} (one operator: its parts do not check each other independently)" if profile and alone else profile


def _swarm(trust: Mapping[str, Any]) -> str:
    nodes = trust.get("nodes")
    words = [
        one_line(trust.get("name") or ""),
        f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}" if isinstance(nodes, list | tuple) else "",
        f"trust head {trust['head']} ({'fresh' if trust.get('head_fresh') else 'STALE: writes are refused'})" if "head" in trust else "",
        f"authority {one_line(trust['authority'])}" if trust.get("authority") else "",
    ]
    return ", ".join(word for word in words if word)


def _store(value: Mapping[str, Any]) -> str:
    tables = value.get("bytes_per_table")
    sizes = {name: count for name, count in tables.items() if isinstance(count, int)} if isinstance(tables, Mapping) else {}
    words = [f"{size(sum(sizes.values()))} in {len(sizes)} tables"] if sizes else []
    return ", ".join([*words, f"{value['commits']} commits since the start"] if "commits" in value else words)


def _words(value: object) -> str:
    return ", ".join(spaced(entry) for entry in value) if isinstance(value, list | tuple) else flat(value)


def plan_page(plan: Mapping[str, Any]) -> Page:
    """A plan: what the question was taken for, who would do what within which limits, and why."""
    graph = _map(plan.get("execution_graph"))
    limits, tools = _map(plan.get("constraints")), _map(plan.get("tool_policy"))
    page = Page().line(f"{spaced(plan.get('intent', 'some'))} question, {spaced(plan.get('risk', 'unknown'))} risk", "head")
    facts = [
        ("route", ", ".join(spaced(graph[name]) for name in ("mode", "topology") if graph.get(name)) or spaced(plan.get("mode", ""))),
        ("stages", _words(graph.get("stages"))),
        ("turns", f"at most {plan['max_turns']}" if plan.get("max_turns") else ""),
        ("limits", _limits(limits)),
        ("privacy", spaced(plan.get("privacy_mode", ""))),
        ("memory", spaced(plan.get("memory_mode", ""))),
        ("tools", _tools(tools)),
    ]
    page.pairs([fact for fact in facts if fact[1]], indent=2)
    places = sorted(maps(plan.get("assignments")), key=lambda p: _STAGES.index(p["stage"]) if p.get("stage") in _STAGES else len(_STAGES))
    if places:
        page.line().line("Who does what", "head")
        rows = [
            (
                spaced(p.get("stage", "")),
                spaced(p.get("role", "")),
                p.get("expert_id") or "-",
                p.get("node_id", ""),
                "only if needed" if p.get("fallback") else "",
            )
            for p in places
        ]
        page.table(("stage", "role", "expert", "node", ""), rows)
    reasons = plan.get("reasons")
    if isinstance(reasons, list | tuple) and reasons:
        page.line().line("Why", "head")
        for reason in map(one_line, reasons):
            if not reason.startswith("mode: "):  # it repeats the route
                page.line(f"  {reason}", hang=4)
    return page


def _limits(limits: Mapping[str, Any]) -> str:
    words = []
    if isinstance(limits.get("max_wall_ms"), int):
        words.append(f"{limits['max_wall_ms'] / 1000:g} s")
    if "max_tokens" in limits:
        words.append(f"{flat(limits['max_tokens'])} tokens of models")
    if "max_spend" in limits:
        words.append(f"{flat(limits['max_spend'])} GNUS")
    return ", ".join(words)


def _tools(policy: Mapping[str, Any]) -> str:
    if not policy:
        return ""
    allowed = policy.get("capability_whitelist")
    if not allowed:
        return "none"
    dry_run = ", dry run first" if policy.get("require_dry_run") else ""
    return f"{_plain_words(allowed)}{dry_run}{', each approved by a person' if policy.get('human_approval') else ''}"


def _plain_words(value: object) -> str:
    return ", ".join(one_line(entry) for entry in value) if isinstance(value, list | tuple) else flat(value)


def trust_page(trust: Mapping[str, Any]) -> Page:
    """The swarm's authority as this node sees it."""
    page = Page().line(f"swarm {one_line(trust.get('name') or '')}".rstrip(), "head")
    fresh = "" if "head_fresh" not in trust else " (fresh)" if trust["head_fresh"] else " (STALE: writes are refused)"
    head = trust.get("head", trust.get("epoch", ""))
    shown = [
        ("id", one_line(trust.get("swarm", "")).removeprefix("swarm:")),
        ("authority", f"{one_line(trust['authority'])} keys" if trust.get("authority") else ""),
        ("trust head", f"{flat(head)}{fresh}"),
        ("nodes", _plain_words(trust.get("nodes"))),
        ("tenants", _plain_words(trust.get("tenants"))),
    ]
    return page.pairs([row for row in shown if row[1]], indent=2)


def tools_page(tools: Sequence[Mapping[str, Any]]) -> Page:
    """The tools there are; everything else is refused."""
    if not tools:
        return Page().line("no tools are allowed", "warn")
    page = Page()
    for number, tool in enumerate(tools):
        if number:
            page.line()
        version, effect = one_line(tool.get("version", "")), spaced(tool.get("effect", ""))
        page.line(f"{one_line(tool.get('name', '?'))} {version}".rstrip(), "head")
        if tool.get("description"):
            page.line(f"  {one_line(tool['description'])}", hang=2)
        page.pairs(
            [row for row in (("effect", effect), ("capability", one_line(tool.get("capability", "")))) if row[1]], indent=2, style="dim"
        )
    return page


def memory_page(found: Sequence[Mapping[str, Any]]) -> Page:
    """What memory holds, best first."""
    if not found:
        return Page().line("nothing found", "warn")
    page = Page()
    for number, event in enumerate(found, start=1):
        lead = f"[{number}] "
        text = event.get("text", event.get("content", ""))
        for part, line in enumerate(str(text).split("\n")):
            page.line(f"{' ' * len(lead) if part else lead}{line}", hang=len(lead))
        words = [spaced(event[name]) for name in ("class", "trust", "event") if event.get(name)]
        if words:
            page.line(f"{' ' * len(lead)}{', '.join(words)}", "dim", hang=len(lead))
    return page


def remembered_page(made: Mapping[str, Any]) -> Page:
    """What became of a proposal to memory."""
    findings = made.get("findings")
    rows = [
        ("trust", spaced(made.get("trust", ""))),
        ("event", one_line(made.get("event", made.get("id", "")))),
        ("findings", f"{findings}, replaced before it was kept" if findings else "none" if findings == 0 else ""),
    ]
    return Page().line("remembered", "ok").pairs([row for row in rows if row[1]], indent=2)


def doctor_page(checks: Sequence[Mapping[str, Any]]) -> Page:
    """Findings, worst first; what the tables take on disk in one row."""
    styles = {"problem": "problem", "warn": "warn", "missing": "warn", "note": "dim", "ok": "ok"}
    bad = sum(check["state"] == "problem" for check in checks)
    page = Page().line(f"{bad} {'problem' if bad == 1 else 'problems'} to mend" if bad else "no problems", "problem" if bad else "ok")
    tables = [check for check in checks if str(check["name"]).startswith("table ")]
    single = [check for check in checks if check not in tables]
    width = max((len(one_line(check["name"])) for check in single), default=0)
    for check in single:
        lead = f"{check['state']:<7}  {one_line(check['name']):<{width}}  "
        page.line(lead + one_line(check["what"]), styles.get(str(check["state"]), ""), hang=len(lead))
        if check.get("fix"):
            page.line(f"{' ' * len(lead)}{one_line(check['fix'])}", "dim", hang=len(lead))
    if tables:
        lead = f"{'ok':<7}  {'tables':<{width}}  "
        filled = [
            f"{one_line(str(t['name']).removeprefix('table '))} {one_line(t['what'])}"
            for t in tables
            if not str(t["what"]).startswith("0 ")
        ]
        page.line(lead + (", ".join(filled) or "empty"), "ok", hang=len(lead))
    return page


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
