"""View of a typed error, as it travels in frames and answers (18.1.5.1; DESIGN.md section 4)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from gnus_node.records.base import View
from gnus_node.records.enums import Whose
from gnus_node.records.errors import CODES, MAX_TEXT, GnusError
from gnus_node.records.views.record import read_as


def _known(code: str) -> str:
    if code not in CODES:
        raise ValueError("not a code of the table")
    return code


ErrorCode = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": list(CODES)})]
Sentence = Annotated[str, Field(max_length=MAX_TEXT)]


class ErrorView(View):
    """What went wrong, why, and what to do; ``definite`` says that it certainly took no effect."""

    code: ErrorCode
    what: Sentence
    fix: Sentence
    link: Sentence | None = None
    whose: Whose
    definite: bool | None = None
    retryable: bool | None = None

    @classmethod
    def from_error(cls, error: GnusError) -> ErrorView:
        """The view of an error, with its code's row."""
        row = error.row
        return read_as(cls, {**error.to_plain(), "definite": row.definite, "retryable": row.retryable})
