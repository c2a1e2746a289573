"""The file-lookup expert: where a question plainly names one file, it proposes to read that file (kind symbolic, role tool_support).

It proposes and nothing else: the intermediary decides about path, policy and taint (18.1.3.2.6), and once the file's text is there the
extractive expert reads it. Two different files in one question are not guessed between. What would change a file is declined with its reason:
a reading tool is no answer to it.
"""

from __future__ import annotations

from gnus_node.content.asked import changes_a_file
from gnus_node.content.filenames import named_files
from gnus_node.experts.backend import BackendInfo, Draft, GenRequest, RuleBackend, ToolCall, abstain
from gnus_node.records.enums import BackendKind, Domain, ExpertRole

TOOL = "files.read"


class FileLookupBackend(RuleBackend):
    """Proposes ``files.read``."""

    def __init__(self, info: BackendInfo | None = None) -> None:
        super().__init__(info or file_lookup_info())

    def decide(self, req: GenRequest) -> tuple[tuple[ToolCall, ...], Draft]:
        """One proposal where one file is named, the tool is offered and nothing was read yet; always an abstention beside it."""
        offered = any(t.name == TOOL for t in req.tools)
        if changes_a_file(req.question):
            return (), abstain("CAPABILITY_DENIED")
        names = named_files(req.question) if offered and not req.tool_outputs else ()
        if len(names) != 1:
            return (), abstain("ABSTAINED")
        return (ToolCall(TOOL, {"path": names[0]}, "the question names this file"),), abstain("ABSTAINED")


def file_lookup_info(backend_id: str = "file-lookup") -> BackendInfo:
    """Who the file-lookup expert is."""
    return BackendInfo(
        backend_id,
        BackendKind.SYMBOLIC,
        model_id="rules-file-lookup",
        engine="gnus-file-lookup",
        engine_version="1",
        model_license="MIT",
        roles=(ExpertRole.TOOL_SUPPORT,),
        domains=(Domain.GENERAL,),
        capabilities=("tool.files.read.readonly",),
        supports=frozenset({"cancel", "deterministic"}),
    )
