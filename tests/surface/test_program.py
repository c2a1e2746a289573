"""A real node as its operator meets it: what it says, what it keeps to itself, how its options take effect, how it stops."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

from gnus_node.evidence.bundle import read_bundle
from gnus_node.records.plan import ExecutionPlan
from gnus_node.wire.signed import open_record
from tests.house.rules import ROOT
from tests.surface.program import command, events, eventually, finish, running_node, settings_in, spawn


def ok(*args: str) -> str:
    done = command(*args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ask(settings: Path, *args: str) -> dict[str, Any]:
    return dict(json.loads(ok("ask", *args, "--json", "--config", str(settings))))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings = settings_in(tmp_path_factory.mktemp("n"))
    with running_node(settings) as (_process, out):
        yield settings, out


def test_no_key_is_in_anything_a_running_node_says_and_config_key_makes_one(node: tuple[Path, Path]):
    settings, out = node
    made = json.loads(ok("config", "key", "--json", "--config", str(settings)))
    assert made["api_key"].startswith("gnus_live_")
    assert "gnus_live_" not in out.read_text()
    assert "gnus-node config key" in out.read_text()


def test_the_log_holds_no_python_objects_and_names_the_address(node: tuple[Path, Path]):
    _, out = node
    ready = next(e for e in events(out.read_text()) if e["event"] == "node.ready")
    assert re.fullmatch(r"127\.0\.0\.1:\d+", ready["api"])
    indexing = next(e for e in events(out.read_text()) if e["event"] == "corpus.indexing")
    assert (indexing["corpus"], indexing["number"], indexing["of"]) == ("notes", 1, 1)
    assert indexing["passages"] >= 1
    for event in events(out.read_text()):
        assert not any(isinstance(value, str) and value.startswith(("(", "[", "{", "<")) for value in event.values()), event


def test_the_quick_start_has_nothing_for_doctor_to_mend(node: tuple[Path, Path]):
    settings, _ = node
    report = json.loads(ok("doctor", "--json", "--config", str(settings)))
    assert report["ok"] is True
    assert [check["state"] for check in report["checks"] if check["name"] == "authority"] == ["note"]
    assert ok("doctor", "--config", str(settings)).splitlines()[0] == "no problems"


@pytest.mark.parametrize("verb", [["status"], ["trust", "show"], ["tools", "list"], ["plan", "What is 2 + 2?"], ["ask", "What is 2 + 2?"]])
def test_no_verb_shows_the_program_s_inside(node: tuple[Path, Path], verb: list[str]):
    settings, _ = node
    out = ok(*verb, "--config", str(settings))
    assert not re.search(r"\('|\[\[|\{|None|True|False|=\(|_ms\b|sha256:|ed25519:", out), out


def test_latencies_are_milliseconds_to_the_microsecond(node: tuple[Path, Path]):
    settings, _ = node
    stages = ask(settings, "What is 12 times 11?")["latency_ms"]
    assert {"total", "overhead", "inference", "commit_wait"} <= set(stages)
    assert all(round(ms, 3) == ms for ms in stages.values())


def test_a_json_answer_is_one_object_also_where_there_is_none_and_when_it_is_repeated(node: tuple[Path, Path]):
    settings, _ = node
    question = "What is the release codename?"
    plain = ask(settings, question)
    for key in ("json-1", "json-1"):
        formed = ask(settings, question, "--answer-type", "json", "--idempotency-key", key)
        value = json.loads(formed["answer"])
        assert list(value) == ["answer", "outcome", "reason", "sources"]
        assert (value["answer"], value["outcome"]) == (plain["answer"], "answered")
        assert [source["uri"] for source in value["sources"]] == [source["uri"] for source in plain["sources"]] != []
        assert formed["answer_type"] == "json"
    nothing = json.loads(ask(settings, "Who painted the ceiling of Hollow Ridge?", "--answer-type", "json")["answer"])
    assert (nothing["answer"], nothing["outcome"], nothing["sources"]) == (None, "abstained", [])
    assert nothing["reason"]


def test_every_option_of_ask_takes_effect_or_is_refused(node: tuple[Path, Path], tmp_path: Path):
    settings, _ = node
    where = ("--config", str(settings))
    private = ask(settings, "What is 2 + 2?", "--privacy-mode", "private_boundary")
    assert private["route"]["privacy_mode"] == "private_boundary"
    assert "privacy private boundary" in ok("ask", "What is 2 + 2?", "--privacy-mode", "private_boundary", *where)
    late = command("ask", "What is 2 + 2?", "--max-wall-ms", "1", "--json", *where)
    assert (late.returncode, json.loads(late.stdout)["outcome"]) == (1, "failed")
    limited = ask(settings, "What is 2 + 2?", "--max-tokens", "7", "--max-spend", "0.25")
    bundle = tmp_path / "b"
    ok("audit", "export", limited["audit_id"], "-o", str(bundle), *where)
    # Tokens and spend are ceilings: they stand in the signed records that every role checks its work against.
    records = map(open_record, read_bundle(bundle.read_bytes()).records)
    plans = [r.body for r in records if isinstance(r.body, ExecutionPlan)]
    assert [(p.constraints.max_tokens, p.constraints.max_spend) for p in plans] == [(7, 250_000)]
    first = ask(settings, "What is 3 + 3?", "--idempotency-key", "k")
    assert ask(settings, "What is 3 + 3?", "--idempotency-key", "k")["request_id"] == first["request_id"]
    assert command("ask", "What is 4 + 4?", "--idempotency-key", "k", *where).returncode == 1
    for option, value in (("--answer-type", "xml"), ("--privacy-mode", "none"), ("--max-tokens", "0"), ("--max-spend", "-1")):
        assert command("ask", "q", option, value, *where).returncode == 2


def test_the_openai_client_sees_flat_models_and_gets_its_answer(node: tuple[Path, Path]):
    settings, out = node
    key = json.loads(ok("config", "key", "--json", "--config", str(settings)))["api_key"]
    api = next(e for e in events(out.read_text()) if e["event"] == "node.ready")["api"]
    with openai.OpenAI(api_key=key, base_url=f"http://{api}/v1", max_retries=0, timeout=20) as client:
        models = {model.id: getattr(model, "gnus", None) for model in client.models.list()}
        assert models["gnus"] is None
        assert models["calc"] == {"kind": "symbolic", "model": "rules-exact", "license": "MIT"}
        got = client.chat.completions.create(
            model="gnus",
            messages=[{"role": "user", "content": "What is 12 times 11?"}],
            temperature=0,
            seed=7,
            top_p=1,
            response_format={"type": "json_object"},
        )
    assert json.loads(str(got.choices[0].message.content))["answer"] == "132"


def test_run_takes_another_data_directory_and_address(node: tuple[Path, Path], tmp_path: Path):
    settings, _ = node
    out = tmp_path / "o"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    second = spawn(
        "gnus_node", "swarm", "up", "--config", str(settings), "--data-dir", str(tmp_path / "d"), "--listen", f"127.0.0.1:{port}", out=out
    )
    try:
        eventually(lambda: '"node.ready"' in out.read_text() or second.poll() is not None, "ready")
        assert f'"api":"127.0.0.1:{port}"' in out.read_text()
        status = json.loads(ok("status", "--json", "--data-dir", str(tmp_path / "d")))
        assert status["node_id"] != json.loads(ok("status", "--json", "--config", str(settings)))["node_id"]
    finally:
        second.send_signal(signal.SIGINT)
        assert finish(second) == 0
    assert "Traceback" not in out.read_text()
    assert not (tmp_path / "d" / "node.sock").exists()
    assert command("run", "--config", str(settings), "--listen", "8737").returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", ['"node.starting"', '"node.ready"'])
def test_a_node_that_is_told_to_stop_stops_without_a_traceback(tmp_path: Path, number: signal.Signals, after: str):
    settings = settings_in(tmp_path)
    out = tmp_path / "o"
    process = spawn("gnus_node", "swarm", "up", "--config", str(settings), out=out)
    eventually(lambda: after in out.read_text() or process.poll() is not None, after)
    process.send_signal(number)
    assert finish(process) == 0, out.read_text()
    assert "Traceback" not in out.read_text()


STUBBORN = """
import trio
from gnus_node.foreground import until_signal

async def main():
    async with trio.open_nursery() as nursery:
        await nursery.start(until_signal, nursery.cancel_scope)
        print("up", flush=True)
        with trio.CancelScope(shield=True):
            while not nursery.cancel_scope.cancel_called:
                await trio.sleep(0.01)
            print("stopping", flush=True)
            await trio.sleep_forever()

trio.run(main)
"""


def test_a_second_ctrl_c_ends_at_once_whatever_the_first_one_waits_for():
    with subprocess.Popen([sys.executable, "-c", STUBBORN], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for word in (b"up\n", b"stopping\n"):
            assert child.stdout.readline() == word
            os.kill(child.pid, signal.SIGINT)
        assert finish(child) == -signal.SIGINT
        assert child.stderr.read() == b""
