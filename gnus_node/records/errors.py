"""The one error taxonomy: a table of codes, and the exception that carries one.

Every failure that crosses a boundary is a ``GnusError`` whose code stands in ``CODES``. The row says whether the outcome is
``definite`` (nothing happened, or it certainly failed), whether the caller may retry, whose fault it is by default, the HTTP status,
the command-line exit code, and what a person can do. docs/protocol/errors.md is generated from this table (DESIGN.md section 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gnus_node.records.enums import Whose

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NOT_RUNNING, EXIT_REFUSED = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One row of the table: ``definite`` is Maelstrom's sense, the operation certainly did not take effect."""

    definite: bool
    retryable: bool
    whose: Whose
    http: int
    exit: int
    meaning: str
    fix: str


def _row(
    meaning: str,
    fix: str,
    *,
    http: int = 400,
    whose: Whose = Whose.REMOTE,
    definite: bool = True,
    retryable: bool = False,
    exit_code: int | None = None,
) -> CodeRow:
    # What policy refused is exit code 4 unless the row says otherwise (DESIGN.md section 10).
    code = exit_code if exit_code is not None else EXIT_REFUSED if whose is Whose.POLICY else EXIT_FAILED
    return CodeRow(definite, retryable, whose, http, code, meaning, fix)


_POLICY = Whose.POLICY
_LOCAL = Whose.LOCAL

CODES: dict[str, CodeRow] = {
    # bytes and records
    "MALFORMED": _row("bytes or JSON that do not decode strictly", "send the documented form"),
    "TOO_LARGE": _row("a frame, record, text or list is over its bound", "send less", http=413),
    "NON_CANONICAL": _row("a record is not in its one canonical encoding", "encode deterministically (docs/protocol/wire.md)"),
    "UNKNOWN_KIND": _row("a record kind or version this node does not read", "upgrade this node or the sender"),
    "NUMBER_RANGE": _row("a number outside the exact range", "keep integers within 2^53"),
    "BAD_SIGNATURE": _row("a signature does not verify", "get the record again from its signer", http=403),
    "UNKNOWN_KEY": _row("the signing key has no grant in this swarm", "grant the key, or sync the trust log", http=403),
    "WRONG_ROLE": _row("the key may not sign this kind of record", "sign with the role's own key", http=403),
    "WRONG_SWARM": _row("the record belongs to another swarm", "use the swarm's own charter", http=403),
    "NOT_YET_VALID": _row("the record or grant is dated in the future", "check the clocks", http=403),
    "EXPIRED": _row("the record or grant has expired", "make a fresh one", http=403),
    "REVOKED": _row("the signing key was revoked", "use the node's present key", http=403),
    "REPLAYED": _row("the record was already used", "make a fresh record", http=409),
    "DUPLICATE_KEY": _row("one key stands in two grants or roles", "use one key for each purpose", http=403),
    "EQUIVOCATED": _row("one key signed two different records with one sequence number", "grant the node fresh keys", http=403),
    # trust
    "TRUST_STALE": _row("the trust head is too old for writes", "reach a node with a fresh head", http=503, retryable=True),
    "TIER_TOO_LOW": _row("the signer's effective tier is too low here", "use a node of a higher tier", http=403, whose=_POLICY),
    "COLOCATION": _row("the profile forbids these roles on one node", "move a role, or choose another profile", whose=_POLICY, http=403),
    # authority
    "PLAN_EXCEEDS_MANDATE": _row("a plan is wider than its mandate", "plan within the mandate", http=403, whose=_POLICY),
    "MANDATE_EXCEEDS_POLICY": _row("a mandate is wider than the policies", "narrow the mandate", http=403, whose=_POLICY),
    "POLICY_MISSING": _row("a named policy is missing or not signed by the tenant", "send the policy", http=403, whose=_POLICY),
    "DISPATCH_EXCEEDS_PLAN": _row("a dispatch is outside its plan", "dispatch what the plan names", http=403, whose=_POLICY),
    "FENCED": _row("a lower generation than one already seen", "the newer router goes on", http=409),
    "LEASE_EXPIRED": _row("the router's lease has run out", "the ingress starts a new generation", http=409),
    "CHAIN_BROKEN": _row("the chain of records does not verify", "see the named link", http=502),
    "WRONG_PEER": _row("the transport peer is not the record's signer", "send from the node that signed", http=403),
    "COMMITMENT_MISMATCH": _row("a text does not match its commitment", "send the committed text and salt", http=403),
    # tools
    "CAPABILITY_DENIED": _row("the capability is not allowed here", "allow it in policy and plan", http=403, whose=_POLICY),
    "MANIFEST_MISSING": _row("the expert's manifest does not declare it", "publish a manifest that does", http=403, whose=_POLICY),
    "UNKNOWN_TOOL": _row("no such tool on this intermediary", "install the adapter", http=404),
    "BAD_ARGUMENTS": _row("the tool's arguments do not fit its schema", "propose valid arguments"),
    "PATH_DENIED": _row("the path is outside the allowed roots or escapes them", "allow the root in policy", http=403, whose=_POLICY),
    "EGRESS_DENIED": _row("the destination is not allowed", "allow the domain in policy", http=403, whose=_POLICY),
    "TAINTED": _row("an argument is not proven by a trusted source", "have a person approve it", http=403, whose=_POLICY),
    "DRY_RUN_FAILED": _row("the dry run failed", "see the finding", http=422),
    "DRY_RUN_TIMEOUT": _row("the dry run ran out of time", "try again", http=504, retryable=True),
    "SANITIZER_FAILED": _row("the sanitiser failed; the output is unusable", "see the audit store", http=422),
    "TRAP_DETECTED": _row("the tool's output carries severe risk flags", "review it", http=403, whose=_POLICY),
    "APPROVAL_REQUIRED": _row("a person must approve first", "approve or deny it", http=403, whose=_POLICY),
    "APPROVAL_DENIED": _row("a person denied it", "propose something else", http=403, whose=_POLICY),
    "NOT_SELECTED": _row("the proposal is not of the selected draft", "nothing to do"),
    "EFFECT_INDETERMINATE": _row(
        "an effect may or may not have happened; it is never run again", "check the tool's own system", http=409, definite=False
    ),
    "PARTIAL_EFFECTS": _row("some effects happened, the request did not finish", "see the listed effects", http=409, definite=False),
    "UNATTESTED": _row("a tool output without a valid attestation", "mediate it first", http=403, whose=_POLICY),
    "TOOL_FAILED": _row("the tool definitely failed", "see the detail", http=502),
    "LICENSE_NOT_ACCEPTED": _row(
        "the licence of the weights was not accepted", "read it, then repeat with --accept-license", http=403, whose=_POLICY
    ),
    "ISOLATION_UNAVAILABLE": _row("no sandbox at least as strict as asked for", "install what doctor names", http=503, whose=_LOCAL),
    # experts and answers
    "NO_EXPERT": _row("no capable expert is reachable", "start a worker with a fitting expert", http=503, retryable=True),
    "NO_EVIDENCE": _row("nothing at hand supports an answer", "add documents, or ask otherwise", http=200),
    "ABSTAINED": _row("the expert declines to answer", "ask otherwise", http=200),
    "AMBIGUOUS": _row("the question means more than one thing", "say which one is meant", http=200),
    "UNDEFINED": _row("the calculation has no defined value", "ask otherwise", http=200),
    "NO_SUCH_DATE": _row("the date does not exist", "give a date of the calendar", http=200),
    "NOT_A_QUESTION": _row("the text is data, not a question", "ask in words", http=200),
    "NOT_IN_FILE": _row("the named file does not say it", "name another file, or none", http=200),
    "BACKEND_FAILED": _row("an expert's backend failed", "see the worker's log", http=502, retryable=True),
    "CASSETTE_MISS": _row("the replay backend has no recording of this request", "record it", http=502),
    "UNSUPPORTED": _row("the request asks for something not supported", "leave it out"),
    # flow
    "DEADLINE": _row("the time allowed ran out", "allow more time", http=504, definite=False, retryable=True),
    "CANCELLED": _row("the caller cancelled", "ask again", http=499),
    "BUSY": _row("the queue is full", "try again later", http=503, retryable=True),
    "RATE_LIMITED": _row("too many requests with this key", "slow down", http=429, retryable=True, whose=_POLICY),
    "SPEND_EXCEEDED": _row("the spend ceiling is reached", "allow more", http=403, whose=_POLICY),
    "IDEMPOTENCY_MISMATCH": _row("the idempotency key was used for another request", "use a new key", http=409),
    "NOT_FOUND": _row("no such thing", "check the name", http=404),
    "UNAUTHENTICATED": _row("no valid API key", "send Authorization: Bearer KEY", http=401, whose=_POLICY, exit_code=EXIT_REFUSED),
    "FORBIDDEN": _row("the key may not do this", "use a key with the scope", http=403, whose=_POLICY, exit_code=EXIT_REFUSED),
    "UNREACHABLE": _row("the peer cannot be reached", "see status", http=503, definite=False, retryable=True),
    "UNKNOWN_SERVICE": _row("the peer does not host this service", "choose another peer", http=503),
    "PROTOCOL": _row("the peer broke the protocol", "see the peer's version", http=502, definite=False),
    # local
    "CONFIG": _row("the configuration is not valid", "see file and line", whose=_LOCAL, exit_code=EXIT_USAGE),
    "USAGE": _row("the command was called wrongly", "see --help", whose=_LOCAL, exit_code=EXIT_USAGE),
    "NOT_RUNNING": _row("no node is running here", "gnus-node run", whose=_LOCAL, http=503, exit_code=EXIT_NOT_RUNNING),
    "ALREADY_RUNNING": _row("a node already runs on this data directory", "stop it first", whose=_LOCAL, http=409),
    "STORE_FULL": _row("the data directory is full", "free space or raise map_size", whose=_LOCAL, http=507, definite=False),
    "STORE_CORRUPT": _row("the data directory does not verify", "restore a backup", whose=_LOCAL, http=500, definite=False),
    "ERASED": _row("the key of this payload was destroyed", "it cannot be brought back", http=410),
    "MISSING_DEPENDENCY": _row("an optional part is not installed", "install the named extra", whose=_LOCAL, http=503),
    "MEMORY_REFUSED": _row("the memory event is not admitted", "see the reason", http=403, whose=_POLICY),
    "INTERNAL": _row("a fault of this program", "report it with the log", whose=_LOCAL, http=500, definite=False),
}

MAX_TEXT = 500
MAX_FAULTS = 20
"""Most errors that are told of one failure."""


class GnusError(Exception):
    """What went wrong, why, and what to do, with a code of ``CODES``.

    ``what`` is one sentence for a person and never holds user text; ``fix`` overrides the table's. ``link`` names the record or stage.
    """

    def __init__(self, code: str, what: str = "", *, fix: str = "", link: str = "", whose: Whose | None = None) -> None:
        if code not in CODES:
            raise ValueError(f"unknown error code {code}")
        row = CODES[code]
        self.code = code
        self.what = (what or row.meaning)[:MAX_TEXT]
        self.fix = (fix or row.fix)[:MAX_TEXT]
        self.link = link[:MAX_TEXT]
        self.whose = whose or row.whose
        super().__init__(f"{code}: {self.what}")

    @property
    def row(self) -> CodeRow:
        """The code's row of the table."""
        return CODES[self.code]

    def to_plain(self) -> dict[str, str]:
        """The form that travels in frames: code, what, fix, link, whose."""
        return {"code": self.code, "what": self.what, "fix": self.fix, "link": self.link, "whose": str(self.whose)}

    @classmethod
    def from_plain(cls, value: object) -> GnusError:
        """Read the travelling form of a peer; anything odd becomes ``PROTOCOL`` (never an exception of another type)."""
        if not isinstance(value, dict):
            return cls("PROTOCOL", "the peer sent an error that is not a map")
        code, what, fix, link = (value.get(k) for k in ("code", "what", "fix", "link"))
        if not isinstance(code, str) or code not in CODES:
            return cls("PROTOCOL", "the peer sent an unknown error code")
        text = [t if isinstance(t, str) else "" for t in (what, fix, link)]
        whose = Whose.POLICY if CODES[code].whose is Whose.POLICY else Whose.REMOTE
        return cls(code, text[0], fix=text[1], link=text[2], whose=whose)


def faults_of(error: BaseException) -> tuple[GnusError, ...] | None:
    """The typed errors that an exception, or a group of any depth, consists of: each once, in order, at most ``MAX_FAULTS``.

    None where anything else is among them: then it is a fault of this program.
    """
    found: dict[tuple[str, str, str], GnusError] = {}
    waiting = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, GnusError):
            found.setdefault((one.code, one.what, one.link), one)
        elif isinstance(one, BaseExceptionGroup):
            waiting[:0] = one.exceptions
        else:
            return None
    return tuple(found.values())[:MAX_FAULTS]


def refuse(faults: Iterable[GnusError]) -> None:
    """Raise what was found: nothing, the one error, or a group of them."""
    found = tuple(faults)
    if len(found) == 1:
        raise found[0]
    if found:
        raise ExceptionGroup("several things are wrong", found)
