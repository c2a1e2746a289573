"""The form a client asked its answer in: cut at a stop text, or as one JSON object. Pure; docs/protocol/http.md, "Forms of an answer".

What is signed and audited is the verified text; these forms are made of it at the door, so every answer has them, also one that is given
again for an idempotency key. Invariant: with ``json`` the text is one valid JSON object whatever the outcome, and a stop text never cuts
through the JSON itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gnus_node.ports.submit import Answered
from gnus_node.records.enums import AnswerType, Outcome
from gnus_node.records.errors import CODES


def formed(answered: Answered, answer_type: AnswerType | None, stop: Sequence[str]) -> Answered:
    """``answered`` in the form asked for."""
    text = cut(answered.answer, stop) if answered.answer_type is AnswerType.TEXT else answered.answer
    if answer_type is AnswerType.JSON:
        return replace(answered, answer=json_text(replace(answered, answer=text)), answer_type=AnswerType.JSON)
    return answered if text == answered.answer else replace(answered, answer=text)


def cut(text: str, stop: Sequence[str]) -> str:
    """``text`` up to where the first of the stop texts begins."""
    return text[: min((at for word in stop if (at := text.find(word)) >= 0), default=len(text))]


def reason_of(answered: Answered) -> str:
    """Why there is no answer, in words."""
    row = CODES.get(answered.reason_code)
    return answered.reason or (row.meaning if row is not None else "no answer")


def json_text(answered: Answered) -> str:
    """``{"answer", "outcome", "reason", "sources": [{"title", "uri"}]}``; ``answer`` is null where there is none."""
    there = bool(answered.answer) or answered.outcome is Outcome.ANSWERED
    answer: Any = None
    if there:
        answer = json.loads(answered.answer) if answered.answer_type is AnswerType.JSON else answered.answer
    value = {
        "answer": answer,
        "outcome": answered.outcome.value,
        "reason": answered.reason if there else reason_of(answered),
        "sources": [{"title": source.title, "uri": source.uri} for source in answered.sources],
    }
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
