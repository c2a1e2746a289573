"""Audit bundles: raw signed bytes, the trust log they were made under, optionally the texts, and a derived manifest (DESIGN.md section 2).

A bundle is one canonical CBOR map. Each of its bytes is covered: records by signatures, texts by commitments that stand in records, the
manifest by being derived again, everything else by the canonical form. Whatever is not covered is refused.

The judge brings the charter; the bundle's own copy must be the same. A newer trust log may be brought too, so that later revocations count.
Reading and writing files is the caller's part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gnus_node.evidence.bag import MAX_BAG, Bag
from gnus_node.evidence.chain import verify_chain
from gnus_node.evidence.inputs import committed_of
from gnus_node.evidence.links_work import cited_text
from gnus_node.evidence.verdict import Verdict, refused
from gnus_node.records.authority import RequestMandate, TrustHead
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.records.evidence import GroundingEvidence, SynthesisResult
from gnus_node.records.expert import ExpertOutput
from gnus_node.trust.head import require_covered
from gnus_node.trust.state import TrustState, fold, head_authorised
from gnus_node.wire import cbor, jsontext
from gnus_node.wire.digests import commitment
from gnus_node.wire.signed import Opener, open_record

FORMAT = "gnus-bundle/1"
CHARTER_FORMAT = "gnus-charter/1"
TRUST_FORMAT = "gnus-trust-log/1"
MAX_BUNDLE_BYTES = 16 * 1024 * 1024
MAX_BUNDLE_ITEMS = 64 * 1024
"""Most values in a bundle's outer structure: records and trust records with their manifest rows, and texts."""
MAX_TRUST_RECORDS = 4096


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a bundle holds, opened but not judged."""

    charter: bytes
    trust: tuple[bytes, ...]
    records: tuple[bytes, ...]
    texts: Mapping[bytes, tuple[bytes, str]]


def _manifest(bag: Iterable[Signed[Any]], texts: Mapping[bytes, Any]) -> dict[str, Any]:
    """What the bundle holds, derived from it: kind, id and signer of each record."""
    rows = [{"kind": r.header.kind, "id": r.id, "signer": r.header.signer, "size": len(r.raw)} for r in bag]
    return {"format": FORMAT, "records": sorted(rows, key=lambda row: row["id"]), "texts": len(texts)}


def write_bundle(charter: bytes, trust: Iterable[bytes], records: Iterable[bytes], texts: Mapping[bytes, tuple[bytes, str]]) -> bytes:
    """Make a bundle. ``texts`` maps a commitment to salt and text, empty for digests only."""
    opened = {record.id: record for record in map(open_record, records)}
    ordered = [opened[key] for key in sorted(opened)]
    logs = {record.id: record.raw for record in map(open_record, trust)}
    plain = {
        "format": FORMAT,
        "charter": charter,
        "trust": [logs[key] for key in sorted(logs)],
        "records": [r.raw for r in ordered],
        "texts": [[key, texts[key][0], texts[key][1]] for key in sorted(texts)],
        "manifest": _manifest(ordered, texts),
    }
    return cbor.encode(plain)


def read_bundle(data: bytes, opener: Opener | None = None) -> Bundle:
    """Read a bundle strictly: types, order, texts against their commitments, manifest against what it is derived from.

    Raises ``MALFORMED``, ``NON_CANONICAL``, ``TOO_LARGE``, ``COMMITMENT_MISMATCH``, ``CHAIN_BROKEN``, or what opening a record raises.
    """
    opener = opener or Opener()
    plain = cbor.decode(data, limit=MAX_BUNDLE_BYTES, items=MAX_BUNDLE_ITEMS)
    if type(plain) is not dict or set(plain) != {"format", "charter", "trust", "records", "texts", "manifest"} or plain["format"] != FORMAT:
        raise GnusError("MALFORMED", "not a gnus bundle of this version", link="bundle")
    charter, trust, records, rows = plain["charter"], plain["trust"], plain["records"], plain["texts"]
    lists = (trust, records, rows)
    if type(charter) is not bytes or any(type(x) is not tuple for x in lists) or any(type(r) is not bytes for r in (*trust, *records)):
        raise GnusError("MALFORMED", "a field of the bundle has the wrong type", link="bundle")
    if len(records) > MAX_BAG or len(trust) > MAX_TRUST_RECORDS:
        raise GnusError("TOO_LARGE", "a bundle of too many records", link="bundle")
    bag = _open_all(records, "record", opener)
    _sorted_once([r.id for r in bag], "records")
    _sorted_once([r.id for r in _open_all(trust, "trust record", opener)], "trust log")
    texts = _read_texts(rows, {c.commitment: c.size for r in bag for c in committed_of(r)})
    _check_spans(Bag(bag), texts)
    # By their bytes: in Python 1 equals True, on the wire it does not.
    if cbor.encode(plain["manifest"]) != cbor.encode(_manifest(bag, texts)):
        raise GnusError("CHAIN_BROKEN", "the manifest is not what the bundle holds", link="manifest")
    return Bundle(charter, trust, records, texts)


def _open_all(raws: Iterable[bytes], what: str, opener: Opener) -> list[Signed[Any]]:
    """Open records; a refusal names the record by its place."""
    opened = []
    for place, raw in enumerate(raws):
        try:
            opened.append(opener.open(raw))
        except GnusError as error:
            raise GnusError(error.code, error.what, fix=error.fix, link=error.link or f"{what} {place}") from None
    return opened


def _sorted_once(ids: list[bytes], where: str) -> None:
    if ids != sorted(set(ids)):
        raise GnusError("NON_CANONICAL", "records are sorted by id, each once", link=where)


def _read_texts(rows: tuple[Any, ...], known: Mapping[bytes, int]) -> dict[bytes, tuple[bytes, str]]:
    texts: dict[bytes, tuple[bytes, str]] = {}
    for row in rows:
        if type(row) is not tuple or [type(x) for x in row] != [bytes, bytes, str] or len(row[1]) != 16:
            raise GnusError("MALFORMED", "a text is commitment, salt, text", link="texts")
        digest, salt, text = row
        encoded = text.encode("utf-8")
        if known.get(digest) != len(encoded) or commitment(salt, encoded) != digest:
            raise GnusError("COMMITMENT_MISMATCH", "a text that no record commits to", link="texts")
        texts[digest] = (salt, text)
    _sorted_once(list(texts), "texts")
    if len(texts) != len(rows):
        raise GnusError("NON_CANONICAL", "a repeated text", link="texts")
    return texts


def _check_spans(bag: Bag, texts: Mapping[bytes, tuple[bytes, str]]) -> None:
    """Where a cited passage's text is at hand, the span lies within it; without texts ``verify_chain`` bounds it by the text's size."""
    for record in bag:
        cited: tuple[Any, ...] = ()
        if isinstance(record.body, ExpertOutput):
            cited = record.body.evidence
        elif isinstance(record.body, SynthesisResult):
            cited = record.body.sources
        for reference in cited:
            evidence = bag.find(reference.record)
            committed = cited_text(evidence, reference.item) if evidence is not None else None
            if evidence is None or committed is None or committed.commitment not in texts:
                continue
            text: object = texts[committed.commitment][1]
            if isinstance(evidence.body, GroundingEvidence):
                plain = jsontext.read_free(str(text), limit=MAX_BUNDLE_BYTES)
                text = plain.get("text") if isinstance(plain, dict) else None
            if not isinstance(text, str) or reference.span_end > len(text):
                raise GnusError("CHAIN_BROKEN", "a cited span is not in its passage", link="source")


def trust_of(charter: bytes, logs: Iterable[bytes], opener: Callable[[bytes], Signed[Any]] = open_record) -> TrustState:
    """The trust state of a charter and log records. Unauthorised log records are refused, not ignored: a bundle holds nothing idle."""
    record = opener(charter)
    opened = [opener(raw) for raw in logs]
    state = fold(record, opened)
    known = state.log_ids | {r.id for r in opened if isinstance(r.body, TrustHead) and head_authorised(state.charter.body, r)}
    strays = [r for r in opened if r.id not in known]
    if strays:
        raise GnusError("CHAIN_BROKEN", "a trust record that the authority did not sign", link="trust log")
    return state


def verify_bundle(data: bytes, charter: bytes, now_ms: int, *, newer_trust: Iterable[bytes] = ()) -> Verdict:
    """Judge a bundle offline against a charter's raw record; ``newer_trust`` are records of a trust log the judge brings.

    Never raises ``GnusError``: a refusal is a verdict with ``ok`` False and the broken link named.
    """
    head = 0
    opener = Opener()
    try:
        bundle = read_bundle(data, opener)
        if bundle.charter != charter:
            raise GnusError("WRONG_SWARM", "the bundle was made under another charter", link="charter")
        state = trust_of(charter, bundle.trust, opener.open)
        require_covered(state)
        newer = tuple(newer_trust)
        if newer:
            state = trust_of(charter, {*bundle.trust, *newer}, opener.open)
            require_covered(state)
        head = state.epoch
        return verify_chain(Bag.read(bundle.records, opener.open), state, now_ms, ended=True)
    except GnusError as error:
        return refused(error, trust_head=head)


def request_of(data: bytes) -> str:
    """The request a bundle is about."""
    bag = Bag.read(read_bundle(data).records, open_record)
    return bag.one(RequestMandate, "mandate").body.request_id


def export_charter(charter: bytes) -> str:
    """The JSON file a judge keeps: the charter's raw record, and what it says."""
    record = open_record(charter)
    view = {
        "format": CHARTER_FORMAT,
        "name": record.body.name,
        "swarm": f"swarm:{record.header.swarm.hex()}",
        "authority_keys": [f"ed25519:{k.hex()}" for k in record.body.authority_keys],
        "threshold": record.body.threshold,
        "record": charter.hex(),
    }
    return jsontext.write_view(view, indent=2) + "\n"


def import_charter(text: str | bytes) -> bytes:
    """The raw charter of a charter file; what stands beside it must be what it says. Raises ``MALFORMED``, ``CHAIN_BROKEN``."""
    plain = jsontext.read_view(text)
    if not isinstance(plain, dict) or plain.get("format") != CHARTER_FORMAT or not isinstance(plain.get("record"), str):
        raise GnusError("MALFORMED", "not a charter file", link="charter")
    try:
        raw = bytes.fromhex(plain["record"])
    except ValueError:
        raise GnusError("MALFORMED", "not a charter file", link="charter") from None
    if jsontext.read_view(export_charter(raw)) != plain:
        raise GnusError("CHAIN_BROKEN", "the charter file's text does not fit its record", link="charter")
    return raw


def export_trust(records: Iterable[bytes]) -> str:
    """The JSON file of a trust log, heads included."""
    return jsontext.write_view({"format": TRUST_FORMAT, "records": [raw.hex() for raw in records]}, indent=2) + "\n"


def import_trust(text: str | bytes) -> tuple[bytes, ...]:
    """The raw records of a trust log file. Raises ``MALFORMED``."""
    plain = jsontext.read_view(text, limit=MAX_BUNDLE_BYTES)
    rows = plain.get("records") if isinstance(plain, dict) and plain.get("format") == TRUST_FORMAT else None
    if not isinstance(rows, list) or len(rows) > MAX_TRUST_RECORDS or any(not isinstance(r, str) for r in rows):
        raise GnusError("MALFORMED", "not a trust log file", link="trust head")
    try:
        return tuple(bytes.fromhex(row) for row in rows)
    except ValueError:
        raise GnusError("MALFORMED", "not a trust log file", link="trust head") from None
