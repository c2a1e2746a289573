"""``gnus-node ask``: a question to the running node, as its operator."""

from __future__ import annotations

import sys
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from gnus_node.cli import options

app = options.application()

MAX_STDIN_BYTES = 1024 * 1024
MINIONS = 1_000_000
DEFAULT_WAIT_S = 960.0
"""Waiting time when the question sets none: a little above the API's own outermost bound."""
GRACE_S = 30.0
PRIVACY_MODES = ("plaintext", "restricted", "private_boundary")
ANSWER_TYPES = ("text", "json")


def minions(gnus: str) -> int:
    """A decimal amount of GNUS as minions. Raises ``typer.BadParameter``."""
    try:
        amount = Decimal(gnus) * MINIONS
        if amount >= 0 and amount == amount.to_integral_value():
            return int(amount)
    except (InvalidOperation, ValueError, OverflowError):
        pass
    raise typer.BadParameter("an amount of GNUS, with at most six decimal places")


@app.command(help="Ask a question; print the answer with its sources.")
def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    max_wall_ms: Annotated[int | None, typer.Option(min=1, help="Most wall time in milliseconds.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Most tokens that models may write; rules and extraction write none.")
    ] = None,
    max_spend: Annotated[str | None, typer.Option(metavar="GNUS", help="Most spend, decimal GNUS.")] = None,
    privacy_mode: Annotated[str | None, typer.Option(help="plaintext, restricted or private_boundary; can only narrow.")] = None,
    answer_type: Annotated[str | None, typer.Option(help="text, or json: one object with answer, outcome, reason and sources.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="The same key with the same question gives the same answer.")] = None,
    config: options.Config = None,
    data_dir: options.DataDir = None,
    socket: options.Socket = None,
    as_json: options.Json = False,
) -> None:
    """Exit code 0 for an answer, an abstention and a pending approval; otherwise the reason's own."""
    from gnus_node.cli.output import emit
    from gnus_node.cli.render import answer_page, exit_of

    given: dict[str, Any] = {
        "question": options.filled(_question(question), "the question"),
        "max_wall_ms": max_wall_ms,
        "max_tokens": max_tokens,
        "max_spend": None if max_spend is None else minions(max_spend),
        "privacy_mode": options.choice(privacy_mode, PRIVACY_MODES, "--privacy-mode"),
        "answer_type": options.choice(answer_type, ANSWER_TYPES, "--answer-type"),
        "idempotency_key": idempotency_key,
    }
    body = {key: value for key, value in given.items() if value is not None}
    wait_s = DEFAULT_WAIT_S if max_wall_ms is None else max_wall_ms / 1000 + GRACE_S
    answer = options.node(config, data_dir, socket).post("/admin/ask", body, timeout_s=wait_s)
    emit(answer, as_json, answer_page(answer))
    raise typer.Exit(exit_of(answer))


def _question(text: str) -> str:
    if text != "-":
        return text
    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(data) > MAX_STDIN_BYTES:
        raise typer.BadParameter(f"the question is longer than {MAX_STDIN_BYTES} bytes")
    try:
        return data.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise typer.BadParameter("the question is not UTF-8") from None
