"""One request as its owner carries it: what was accepted, the records of the present generation, how it goes."""

from __future__ import annotations

from dataclasses import dataclass, field

from gnus_node.evidence.bag import Bag
from gnus_node.flow.accept import Accepted
from gnus_node.flow.journal import JournalRow
from gnus_node.ports.submit import StatusSink
from gnus_node.records.enums import Outcome
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.flow import AgentResponse
from gnus_node.records.tools import EffectSummary


@dataclass(slots=True)
class Case:
    """A request being carried: what was accepted, the records of this generation, how it goes."""

    accepted: Accepted
    bag: Bag
    sink: StatusSink | None = None
    number: int = 0
    error: GnusError | None = None
    outcome: Outcome | None = None
    effects: tuple[EffectSummary, ...] = ()
    stages: dict[str, float] = field(default_factory=dict)
    inference_ms: float = 0.0
    response: Signed[AgentResponse] | None = None

    @property
    def row(self) -> JournalRow:
        """The journal row."""
        return self.accepted.row
