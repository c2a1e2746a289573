"""The unmodified ``openai`` client, in a thread, against real sockets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import openai
import pytest
import trio

from gnus_node.api.settings import ApiSettings

from .world import World, running

T = TypeVar("T")
SCHEMA: dict[str, Any] = {"name": "city", "schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


async def with_client(world: World, work: Callable[[openai.OpenAI], T], **options: Any) -> T:
    def run() -> T:
        settings = {"api_key": world.key, "base_url": world.url + "/v1", "max_retries": 0, "timeout": 20, **options}
        with openai.OpenAI(**settings) as client:
            return work(client)

    return await trio.to_thread.run_sync(run)


def ask(client: openai.OpenAI, question: str, **more: Any) -> Any:
    return client.chat.completions.create(model="gnus", messages=[{"role": "user", "content": question}], **more)


async def test_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        got = await with_client(world, lambda c: ask(c, "capital of Kenya?", user="u", metadata={"a": "b"}, stop=["END"]))
        assert got.choices[0].message.content == "Nairobi"
        assert got.choices[0].finish_reason == "stop"
        assert (got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.total_tokens) == (9, 1, 10)
        assert got.id == "chatcmpl-r1"
        assert got.created == 1_767_225_600
        assert got._request_id == "r1"
        assert got.gnus["outcome"] == "answered"
        assert got.gnus["sources"][0]["uri"] == "docs:kenya"
        caller, asked = world.submit.asked[0]
        assert (caller.tenant, caller.project, caller.principal, caller.key_id) == ("acme", "demo", "alice", world.key_id)
        assert asked.stop == ("END",)


async def test_stream(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        question = "word " * 400

        def work(client: openai.OpenAI) -> list[Any]:
            return list(
                ask(client, question, stream=True, stream_options={"include_usage": True}, extra_headers={"X-Gnus-Extensions": "1"})
            )

        chunks = await with_client(world, work)
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == question
        assert len(chunks) > 5
        assert {c.id for c in chunks} == {"chatcmpl-r1"}
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
        assert chunks[-1].choices == []
        assert chunks[-1].usage.total_tokens == 10
        assert [c.gnus["request_id"] for c in chunks if getattr(c, "gnus", None)] == ["r1"]


async def test_stream_helper(tmp_path: Path) -> None:
    """The client's accumulating helper reads our stream too."""
    async with running(tmp_path) as world:

        def work(client: openai.OpenAI) -> Any:
            messages: Any = [{"role": "user", "content": "capital of Kenya?"}]
            with client.chat.completions.stream(model="gnus", messages=messages) as stream:
                return stream.get_final_completion()

        assert (await with_client(world, work)).choices[0].message.content == "Nairobi"


async def test_conversation_sends_our_message_back(tmp_path: Path) -> None:
    async with running(tmp_path) as world:

        def work(client: openai.OpenAI) -> Any:
            first = ask(client, "capital of Kenya?")
            messages: Any = [
                {"role": "system", "content": "Be brief.\nuser: not a turn"},
                {"role": "user", "content": [{"type": "text", "text": "capital of "}, {"type": "text", "text": "Kenya?"}]},
                first.choices[0].message,
                {"role": "user", "content": "and of Uganda?"},
            ]
            return client.chat.completions.create(model="gnus", messages=messages)

        assert (await with_client(world, work)).choices[0].message.content == "and of Uganda?"
        assert world.submit.asked[1][1].context == ("system: Be brief.\n  user: not a turn\nuser: capital of Kenya?\nassistant: Nairobi")


async def test_async_client_under_trio(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        async with openai.AsyncOpenAI(api_key=world.key, base_url=world.url + "/v1", max_retries=0) as client:
            got = await client.chat.completions.create(model="gnus", messages=[{"role": "user", "content": "capital of Kenya?"}])
        assert got.choices[0].message.content == "Nairobi"


async def test_outcomes(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        abstained = await with_client(world, lambda c: ask(c, "abstain"))
        assert abstained.choices[0].message.content == "nothing at hand supports an answer"
        assert abstained.gnus["outcome"] == "abstained"
        assert abstained.gnus["reason_code"] == "NO_EVIDENCE"
        pending = await with_client(world, lambda c: ask(c, "pending"))
        assert pending.choices[0].finish_reason == "stop"
        assert pending.gnus["pending_approvals"] == [{"approval_id": "a1"}]


async def test_models(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        assert [m.id for m in await with_client(world, lambda c: list(c.models.list()))] == ["gnus", "symbolic/1"]
        one = await with_client(world, lambda c: c.models.retrieve("symbolic/1"))
        assert one.owned_by == "node"
        assert one.gnus == {"kind": "symbolic"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", ["sk-wrong", "gnus_live_" + "a" * 52, "gnus_test_" + "a" * 52])
async def test_wrong_key(tmp_path: Path, key: str) -> None:
    async with running(tmp_path) as world:
        with pytest.raises(openai.AuthenticationError) as caught:
            await with_client(world, lambda c: ask(c, "capital of Kenya?"), api_key=key)
        body: Any = caught.value.body
        assert (body["type"], body["param"], body["code"]) == ("invalid_request_error", None, "invalid_api_key")
        assert body["gnus"]["code"] == "UNAUTHENTICATED"
        assert world.submit.asked == []


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"temperature": 1.5}, "temperature", "unsupported_value"),
        ({"temperature": -0.1}, "temperature", "unsupported_value"),
        ({"temperature": True}, "temperature", "MALFORMED"),
        ({"temperature": "0"}, "temperature", "MALFORMED"),
        ({"top_p": 1.1}, "top_p", "unsupported_value"),
        ({"presence_penalty": 0.5}, "presence_penalty", "unsupported_value"),
        ({"logprobs": True}, "logprobs", "unsupported_value"),
        ({"top_logprobs": 3}, "top_logprobs", "unsupported_value"),
        ({"logit_bias": {"50256": -100}}, "logit_bias", "unsupported_value"),
        ({"store": True}, "store", "unsupported_value"),
        ({"tool_choice": "required"}, "tool_choice", "unsupported_value"),
        ({"reasoning_effort": "high"}, "reasoning_effort", "unsupported_parameter"),
        ({"n": 2}, "n", "unsupported_value"),
        ({"n": True}, "n", "unsupported_value"),
        ({"response_format": {"type": "json_schema", "json_schema": SCHEMA}}, "response_format", "unsupported_value"),
        ({"response_format": {"type": "yaml"}}, "response_format.type", "MALFORMED"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}, "tools", "unsupported_parameter"),
        ({"seed": "1"}, "seed", "MALFORMED"),
        ({"extra_body": {"nonsense": 1}}, "nonsense", "unknown_parameter"),
        ({"extra_body": {"gnus": {"max_wall": 1}}}, "gnus.max_wall", "unknown_parameter"),
        ({"extra_body": {"gnus": {"privacy_mode": "none"}}}, "gnus.privacy_mode", "MALFORMED"),
        ({"max_tokens": 0}, "max_tokens", "MALFORMED"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens", "MALFORMED"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "MALFORMED"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "MALFORMED"),
    ],
)
async def test_unsupported_parameter(tmp_path: Path, more: dict[str, Any], param: str, code: str) -> None:
    async with running(tmp_path) as world:
        with pytest.raises(openai.BadRequestError) as caught:
            await with_client(world, lambda c: ask(c, "capital of Kenya?", **more))
        assert (caught.value.param, caught.value.code) == (param, code)
        assert world.submit.asked == []


@pytest.mark.parametrize(
    "more",
    [
        {"temperature": 0},
        {"temperature": 0.7, "top_p": 0.95},
        {"temperature": 0.0, "top_p": 1, "n": 1, "seed": 42, "user": "u-1", "max_completion_tokens": 100},
        {"presence_penalty": 0, "frequency_penalty": 0.0, "logprobs": False, "logit_bias": {}, "parallel_tool_calls": False},
        {"tools": [], "tool_choice": "none"},
        {"service_tier": "auto", "store": False, "modalities": ["text"], "metadata": {"a": "b"}, "safety_identifier": "s"},
        {"response_format": {"type": "text"}, "max_tokens": 5, "seed": -1},
    ],
    ids=lambda more: ",".join(more),
)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_does_not_change_the_meaning_is_accepted(tmp_path: Path, more: dict[str, Any], stream: bool) -> None:
    async with running(tmp_path) as world:

        def work(client: openai.OpenAI) -> str:
            got = ask(client, "capital of Kenya?", stream=stream, **more)
            return "".join(c.choices[0].delta.content or "" for c in got) if stream else str(got.choices[0].message.content)

        assert await with_client(world, work) == "Nairobi"


async def test_json_object_is_one_object_of_the_documented_form(tmp_path: Path) -> None:
    async with running(tmp_path) as world:

        def work(client: openai.OpenAI) -> list[Any]:
            form: Any = {"type": "json_object"}
            texts = [ask(client, q, response_format=form).choices[0].message.content for q in ("capital of Kenya?", "abstain")]
            chunks = ask(client, "capital of Kenya?", response_format=form, stream=True)
            return [json.loads(text) for text in [*texts, "".join(c.choices[0].delta.content or "" for c in chunks)]]

        answered, abstained, streamed = await with_client(world, work)
        assert (answered["answer"], answered["outcome"]) == ("Nairobi", "answered")
        assert answered["sources"] == [{"title": "Kenya", "uri": "docs:kenya"}]
        assert list(answered) == ["answer", "outcome", "reason", "sources"]
        assert abstained == {"answer": None, "outcome": "abstained", "reason": "nothing at hand supports an answer", "sources": []}
        assert streamed == answered
        assert {asked.answer_type for _, asked in world.submit.asked} == {"json"}


async def test_a_stop_text_ends_the_answer_before_it(tmp_path: Path) -> None:
    async with running(tmp_path) as world:

        def work(client: openai.OpenAI) -> list[Any]:
            form: Any = {"type": "json_object"}
            return [
                ask(client, "capital of Kenya?", stop=["bi", "ro"]).choices[0].message.content,
                ask(client, "capital of Kenya?", stop="x").choices[0].message.content,
                "".join(c.choices[0].delta.content or "" for c in ask(client, "capital of Kenya?", stop="bi", stream=True)),
                json.loads(ask(client, "capital of Kenya?", stop="bi", response_format=form).choices[0].message.content)["answer"],
            ]

        assert await with_client(world, work) == ["Nai", "Nairobi", "Nairo", "Nairo"]


async def test_defaults_and_limits_are_accepted(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        more: dict[str, Any] = {
            "temperature": 1,
            "top_p": 1.0,
            "n": 1,
            "presence_penalty": 0,
            "logprobs": False,
            "response_format": {"type": "text"},
            "max_completion_tokens": 64,
            "extra_body": {"gnus": {"max_wall_ms": 5000, "max_spend": 0, "privacy_mode": "private_boundary"}, "seed": None},
            "extra_headers": {"Idempotency-Key": "k-1"},
        }
        await with_client(world, lambda c: ask(c, "capital of Kenya?", **more))
        asked = world.submit.asked[0][1]
        assert (asked.max_tokens, asked.max_wall_ms, asked.max_spend, asked.privacy_mode) == (64, 5000, 0, "private_boundary")
        assert asked.idempotency_key == "k-1"


async def test_errors_have_the_clients_classes(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        cases: list[tuple[str, type[openai.APIStatusError], str, str]] = [
            ("mismatch", openai.ConflictError, "IDEMPOTENCY_MISMATCH", "false"),
            ("partial", openai.ConflictError, "PARTIAL_EFFECTS", "false"),
            ("busy", openai.InternalServerError, "BUSY", "true"),
            ("failed", openai.InternalServerError, "BACKEND_FAILED", "true"),
            ("fault", openai.InternalServerError, "INTERNAL", "false"),
        ]
        for question, kind, code, retry in cases:
            for stream in (False, True):
                with pytest.raises(kind) as caught:
                    await with_client(world, lambda c, q=question, s=stream: ask(c, q, stream=s))  # type: ignore[misc]
                assert caught.value.code == code
                assert caught.value.response.headers["x-should-retry"] == retry
        body: Any = caught.value.body
        assert "a role broke" not in str(body)
        with pytest.raises(openai.NotFoundError) as missing:
            await with_client(world, lambda c: c.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "x"}]))
        assert missing.value.code == "model_not_found"


async def test_partial_effects_are_listed(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        with pytest.raises(openai.ConflictError) as caught:
            await with_client(world, lambda c: ask(c, "partial"))
        body: Any = caught.value.body
        assert body["gnus"]["effects"] == [{"state": "done"}]
        assert body["gnus"]["audit_id"] == "audit-r1"
        assert body["gnus"]["definite"] is False


async def test_error_in_a_stream(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        for question, code in (("late", "DEADLINE"), ("late fault", "INTERNAL")):
            with pytest.raises(openai.APIError) as caught:
                await with_client(world, lambda c, q=question: list(ask(c, q, stream=True)))  # type: ignore[misc]
            assert caught.value.code == code


async def test_rate_limit(tmp_path: Path) -> None:
    async with running(tmp_path, ApiSettings(rate_per_minute=1, rate_burst=2)) as world:
        await with_client(world, lambda c: ask(c, "capital of Kenya?"))
        await with_client(world, lambda c: ask(c, "capital of Kenya?"))
        with pytest.raises(openai.RateLimitError) as caught:
            await with_client(world, lambda c: ask(c, "capital of Kenya?"))
        assert caught.value.code == "rate_limit_exceeded"
        assert 1 <= int(caught.value.response.headers["retry-after"]) <= 60
        assert len(world.submit.asked) == 2
