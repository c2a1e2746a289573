"""An audit bundle holds or is refused: whatever is changed, swapped, dropped, added or replayed, and the broken link has a name.

The bundles are a real node's, of real requests: a calculation, a file read by a tool, documents, an abstention, a typed error. The manifest
is made anew after each change by code of this test, so that it is never what betrays the forger, except where it is the lie.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from gnus_node.evidence.bundle import export_charter, export_trust, import_trust, read_bundle, request_of, verify_bundle
from gnus_node.evidence.verdict import Verdict
from gnus_node.init import issue_head
from gnus_node.net.signing import KeySigner
from gnus_node.ports.submit import Ask
from gnus_node.records.authority import Revocation, TrustHead
from gnus_node.records.enums import Outcome, Proof, RoleName, SignerRole
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.trust.state import log_digest
from gnus_node.wire import cbor
from gnus_node.wire.digests import RECORD_DOMAIN
from gnus_node.wire.signed import Opener, open_record, peek
from tests.security.chain_kit import ACME, GLOBEX, NOW_MS, Chain, Key, altered, make_swarm, sign
from tests.security.lies import BASE, CAST
from tests.security.world import QUESTIONS, open_world

OPENER = Opener()
ATTACKER = Key(SignerRole.INGRESS, b"attacker".ljust(32, b"!"))
SHUFFLE = random.Random(2)


@dataclass(frozen=True, slots=True)
class Case:
    """A real bundle with what a judge needs, and the keys of its swarm's authority."""

    name: str
    data: bytes
    charter: bytes
    now_ms: int
    answer: str
    outcome: Outcome
    authority: bytes
    ingress_key: bytes

    def judge(self, data: bytes | None = None, **more: Any) -> Verdict:
        return verify_bundle(self.data if data is None else data, self.charter, self.now_ms, **more)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """Bundles of a real node, with texts."""

    async def make() -> dict[str, Case]:
        found = {}
        async with open_world(tmp_path_factory.mktemp("audit")) as world:
            node = world.node
            asks = {name: Ask(text) for name, text in QUESTIONS.items()}
            asks["error"] = Ask(QUESTIONS["arithmetic"], max_wall_ms=1)
            for name, ask in asks.items():
                answer = await node.submit.ask(node.operator, ask)
                data = await node.admin.audit(answer.request_id, True)
                key = node.context.trust.state.role_key(node.context.node_id, RoleName.INGRESS) or b""
                secret = world.identity.authority
                found[name] = Case(name, data, node.charter, world.clock.wall_ms(), answer.answer, answer.outcome, secret, key)
        return found

    return trio.run(make)


@pytest.fixture(scope="module")
def plain_of_file(cases: dict[str, Case]) -> dict[str, Any]:
    return take_apart(cases["file"].data)


def take_apart(data: bytes) -> dict[str, Any]:
    """A bundle's outer structure, lists open to change."""
    plain = dict(cbor.decode(data, limit=2**24, items=2**16))
    return plain | {name: list(plain[name]) for name in ("trust", "records", "texts")}


def record_rows(raws: list[bytes]) -> list[dict[str, Any]]:
    rows = []
    for raw in raws:
        header, record_id = peek(raw)
        rows.append({"kind": header.kind, "id": record_id, "signer": header.signer, "size": len(raw)})
    return sorted(rows, key=lambda row: row["id"])


def put_together(plain: dict[str, Any], *, order: bool = True) -> bytes:
    """A bundle of these parts, in canonical order, with the manifest that fits."""
    plain = dict(plain)
    if order:
        plain["records"] = sorted(plain["records"], key=lambda raw: peek(raw)[1])
    rows = record_rows(plain["records"])
    plain["manifest"] = {"format": plain["format"], "records": rows, "texts": len(plain["texts"])}
    return cbor.encode(plain)


def with_records(plain: dict[str, Any], records: list[bytes], *, keep_texts: bool = False) -> bytes:
    return put_together(plain | {"records": records} | ({} if keep_texts else {"texts": []}))


def refused(verdict: Verdict) -> str:
    """The named link of a refusal."""
    assert not verdict.ok
    assert verdict.error is not None
    assert verdict.error.link
    assert verdict.links == ()
    return verdict.error.link


def opened(plain: dict[str, Any]) -> list[Signed[Any]]:
    return [OPENER.open(raw) for raw in plain["records"]]


# -- what holds ---------------------------------------------------------------------------------------------------------------


def test_real_bundles_hold_with_and_without_texts(cases: dict[str, Case]) -> None:
    expected = {"arithmetic": Outcome.ANSWERED, "file": Outcome.ANSWERED, "abstention": Outcome.ABSTAINED, "error": Outcome.FAILED}
    for case in cases.values():
        assert put_together(take_apart(case.data)) == case.data  # this test's own manifest is the program's
        bare = put_together(take_apart(case.data) | {"texts": []})
        for data in (case.data, bare):
            verdict = case.judge(data)
            assert verdict.ok, (case.name, verdict.error)
            assert verdict.outcome is expected.get(case.name, case.outcome)
            assert verdict.to_plain()["valid_as_of"] == "trust head 1"
        assert request_of(case.data) == case.judge().request_id
    assert cases["file"].answer.startswith("The release codename is Blue Heron")


def test_a_request_that_is_not_settled_yet_says_so(cases: dict[str, Case]) -> None:
    plain = take_apart(cases["file"].data)
    verdict = cases["file"].judge(with_records(plain, [r.raw for r in opened(plain) if r.header.kind != "task_record"]))
    assert verdict.ok
    assert [link.proof for link in verdict.links if link.name == "settlement"] == [Proof.ABSENT]


# -- bytes and leaves ---------------------------------------------------------------------------------------------------------


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf of a plain structure, with where it stands."""
    if isinstance(value, dict):
        for name in value:
            yield from leaves(value[name], (*path, name))
    elif isinstance(value, tuple) and value:
        for place, item in enumerate(value):
            yield from leaves(item, (*path, place))
    else:
        yield path, value


def flipped(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1, *value[1:]]) if value else b"\0"
    if isinstance(value, str):
        return "b" + value[1:] if value[:1] == "a" else "a" + value[1:]
    assert value == ()
    return (bytes(32),)


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return value | {path[0]: replaced(value[path[0]], path[1:], new)}
    return tuple(replaced(item, path[1:], new) if place == path[0] else item for place, item in enumerate(value))


def test_every_leaf_of_every_record_is_signed(cases: dict[str, Case]) -> None:
    seen = 0
    for case in cases.values():
        for raw in take_apart(case.data)["records"]:
            header, body, signature = cbor.decode(raw)
            for part in (0, 1):
                plain = cbor.decode((header, body)[part])
                for path, value in leaves(plain):
                    content = cbor.encode(replaced(plain, path, flipped(value)))
                    forged = [content, body, signature] if part == 0 else [header, content, signature]
                    with pytest.raises(GnusError):
                        open_record(cbor.encode(forged))
                    seen += 1
    assert seen > 1000


def test_a_flipped_leaf_refuses_the_bundle_and_names_a_link(cases: dict[str, Case]) -> None:
    """One leaf of each record, with a manifest that fits what can still be read of it."""
    for case in cases.values():
        plain = take_apart(case.data)
        for place, raw in enumerate(plain["records"]):
            header, body, signature = cbor.decode(raw)
            content = cbor.decode(body)
            path, value = SHUFFLE.choice(list(leaves(content)))
            forged = cbor.encode([header, cbor.encode(replaced(content, path, flipped(value))), signature])
            records = [*plain["records"][:place], forged, *plain["records"][place + 1 :]]
            assert refused(case.judge(with_records(plain, records)))


def test_every_byte_counts(cases: dict[str, Case]) -> None:
    """Every byte of the bundle's own structure, and a sample of all the others."""
    case = cases["file"]
    inner: set[int] = set()
    plain = take_apart(case.data)
    for content in (plain["charter"], *plain["trust"], *plain["records"]):
        at = case.data.index(content)
        inner.update(range(at, at + len(content)))
    structure = [at for at in range(len(case.data)) if at not in inner]
    sample = SHUFFLE.sample(sorted(inner), 400)
    for at in (*structure, *sample):
        data = bytearray(case.data)
        data[at] ^= 1 << (at % 8)
        try:
            bundle = read_bundle(bytes(data), OPENER)
        except GnusError:
            continue
        # What still reads is another charter or trust log: the judge's own decides.
        assert bundle.charter != case.charter or bundle.trust != tuple(plain["trust"])
        assert refused(case.judge(bytes(data)))
    for at in SHUFFLE.sample(range(len(case.data)), 25):
        data = bytearray(case.data)
        data[at] ^= 0x80
        assert refused(case.judge(bytes(data)))


def test_trailing_and_missing_bytes_are_refused(cases: dict[str, Case]) -> None:
    data = cases["arithmetic"].data
    for forged in (data + b"\0", data + data, data[:-1], b"", b"\xa0", b"\0" + data, data[: len(data) // 2]):
        assert refused(cases["arithmetic"].judge(forged)) == "bundle"


# -- forging ------------------------------------------------------------------------------------------------------------------


def resigned(record: Signed[Any], key: Key, **changes: Any) -> bytes:
    """A record under another key, its body as it was or changed."""
    body = altered(record.body, changes)
    header = {"version": record.header.version, "issued_at_ms": record.header.issued_at_ms, "epoch": record.header.epoch}
    kept = {"role": record.header.role}
    return sign(body, key, record.header.swarm, seq=record.header.seq, at_ms=0, refs=record.header.refs, **(header | kept)).raw


def test_a_record_resigned_with_an_attackers_key_is_refused(cases: dict[str, Case]) -> None:
    for case in cases.values():
        plain = take_apart(case.data)
        for place, record in enumerate(opened(plain)):
            records = [*plain["records"][:place], resigned(record, ATTACKER), *plain["records"][place + 1 :]]
            assert refused(case.judge(with_records(plain, records)))


def test_a_signature_under_another_signers_name_is_refused(cases: dict[str, Case]) -> None:
    """The header still names the true key, the signature is the attacker's."""
    case = cases["file"]
    plain = take_apart(case.data)
    for place, raw in enumerate(plain["records"]):
        header, body, _ = cbor.decode(raw)
        forged = cbor.encode([header, body, ATTACKER.sign(RECORD_DOMAIN + header + body)])
        records = [*plain["records"][:place], forged, *plain["records"][place + 1 :]]
        verdict = case.judge(with_records(plain, records))
        refused(verdict)
        assert verdict.error is not None
        assert verdict.error.code == "BAD_SIGNATURE"


def test_a_whole_chain_by_an_attacker_is_refused() -> None:
    """Another swarm's keys, this swarm's name: every record consistent, none by a granted key; and with the attacker's own charter."""
    other = make_swarm(2)
    forged = Chain(other)
    bundle = forged.bundle()
    assert verify_bundle(bundle, other.charter, NOW_MS + 5000).ok
    assert refused(verify_bundle(bundle, CAST.charter, NOW_MS + 5000)) == "charter"
    plain = take_apart(bundle) | {"charter": CAST.charter, "trust": list(take_apart(BASE.bundle())["trust"])}
    assert refused(verify_bundle(put_together(plain), CAST.charter, NOW_MS + 5000)) == "request_mandate"


# -- mixing -------------------------------------------------------------------------------------------------------------------


def test_valid_records_swapped_between_two_bundles_are_refused(cases: dict[str, Case]) -> None:
    swapped = 0
    for one, two in (("arithmetic", "file"), ("file", "abstention"), ("abstention", "arithmetic"), ("error", "file")):
        mine, theirs = take_apart(cases[one].data), take_apart(cases[two].data)
        foreign = {}
        for record in opened(theirs):
            foreign.setdefault(record.header.kind, record.raw)
        for place, record in enumerate(opened(mine)):
            other = foreign.get(record.header.kind)
            if other is None or other in mine["records"]:
                continue
            records = [*mine["records"][:place], other, *mine["records"][place + 1 :]]
            assert refused(cases[one].judge(with_records(mine, records)))
            swapped += 1
    assert swapped > 20


def test_a_foreign_record_beside_the_chain_is_refused(cases: dict[str, Case]) -> None:
    mine, theirs = take_apart(cases["arithmetic"].data), take_apart(cases["file"].data)
    for raw in theirs["records"]:
        if raw not in mine["records"]:
            assert refused(cases["arithmetic"].judge(with_records(mine, [*mine["records"], raw])))


def test_a_dropped_step_is_refused(cases: dict[str, Case]) -> None:
    """Each record of each bundle; settlement alone may be missing, and is then said to be."""
    for case in cases.values():
        plain = take_apart(case.data)
        for place, record in enumerate(opened(plain)):
            records = [*plain["records"][:place], *plain["records"][place + 1 :]]
            if record.header.kind != "task_record":
                assert refused(case.judge(with_records(plain, records)))


def test_an_end_that_is_left_out_is_refused(cases: dict[str, Case]) -> None:
    for case in cases.values():
        plain = take_apart(case.data)
        end = {"task_record", "agent_response"}
        for gone in (end, {*end, "synthesis_result"}, {*end, "synthesis_result", "task_attestation", "dispatch"}):
            left = [r.raw for r in opened(plain) if r.header.kind not in gone]
            link = refused(case.judge(with_records(plain, left)))
            assert gone != end or link == "response"


def test_order_and_repeats_are_refused(cases: dict[str, Case]) -> None:
    for name in ("records", "trust"):
        plain = take_apart(cases["file"].data)
        for forged in (plain[name][::-1], [*plain[name][1:], plain[name][0]], [plain[name][0], *plain[name]]):
            verdict = cases["file"].judge(put_together(plain | {name: forged}, order=False))
            assert refused(verdict) == {"records": "records", "trust": "trust log"}[name]


def test_records_of_another_generation_tenant_and_swarm_are_refused() -> None:
    """Each record of a second, valid chain in the place of the first chain's own."""
    plain = take_apart(BASE.bundle())
    others = {
        "generation": Chain(CAST, generation=2),
        "tenant": Chain(make_cast_for(GLOBEX)),
        "swarm": Chain(make_swarm(2)),
    }
    for what, other in others.items():
        assert other.verdict().ok
        for name, record in other.records.items():
            mine = BASE[name]
            if record.raw == mine.raw:
                # A policy belongs to no generation, a registry entry to no request.
                assert name.split(".")[0] in ({"policy", "manifest", "entry"} if what == "generation" else {"manifest", "entry"})
                continue
            records = [raw for raw in plain["records"] if raw != mine.raw]
            assert refused(verify_bundle(with_records(plain, [*records, record.raw]), CAST.charter, NOW_MS + 5000)), (what, name)


def make_cast_for(tenant: str) -> Any:
    return type(CAST)(CAST.swarm, CAST.trust, CAST.keys, CAST.charter, CAST.log, tenant=tenant)


# -- texts and manifest -------------------------------------------------------------------------------------------------------


def test_texts_are_what_the_records_commit_to(cases: dict[str, Case]) -> None:
    case = cases["file"]
    plain = take_apart(case.data)
    digest, salt, text = plain["texts"][0]
    lies = [
        [digest, salt, text + "x"],
        [digest, bytes(16), text],
        [bytes(32), salt, text],
        [digest, salt[:-1], text],
        [digest, salt],
        [digest, salt, text.encode()],
    ]
    for lie in lies:
        assert refused(case.judge(put_together(plain | {"texts": [lie, *plain["texts"][1:]]}))) == "texts"
    for texts in ([*plain["texts"], plain["texts"][0]], plain["texts"][::-1]):
        assert refused(case.judge(put_together(plain | {"texts": texts}))) == "texts"
    other = take_apart(cases["arithmetic"].data)["texts"][0]
    assert refused(case.judge(put_together(plain | {"texts": sorted([*plain["texts"], other])}))) == "texts"


def test_a_span_beyond_its_text_is_refused_where_the_text_is_at_hand() -> None:
    """The JSON of a passage is longer than its text: only the text itself shows that the span runs past its end."""
    from tests.security.chain_kit import PASSAGE, with_parts

    longer = {"synthesis": {"sources": lambda old: (with_parts(old[0], span_end=len(PASSAGE) + 1), old[1])}}
    chain = Chain(CAST, change=longer)
    assert verify_bundle(chain.bundle(), CAST.charter, NOW_MS + 5000).ok
    assert refused(verify_bundle(chain.bundle(texts=True), CAST.charter, NOW_MS + 5000)) == "source"


def test_an_edited_manifest_is_refused(cases: dict[str, Case]) -> None:
    case = cases["arithmetic"]
    plain = take_apart(put_together(take_apart(case.data) | {"texts": []}))
    manifest = plain["manifest"]
    row = manifest["records"][0]
    one_text = take_apart(put_together(take_apart(case.data) | {"texts": take_apart(case.data)["texts"][:1]}))
    lies = [
        plain | {"manifest": manifest | {"texts": 1}},
        plain | {"manifest": manifest | {"format": "gnus-bundle/2"}},
        plain | {"manifest": manifest | {"records": manifest["records"][1:]}},
        plain | {"manifest": manifest | {"records": manifest["records"][::-1]}},
        plain | {"manifest": manifest | {"note": "verified"}},
        plain | {"manifest": manifest | {"texts": False}},
        one_text | {"manifest": one_text["manifest"] | {"texts": True}},
        *(plain | {"manifest": manifest | {"records": (row | {k: flipped(row[k])}, *manifest["records"][1:])}} for k in row),
    ]
    for lie in lies:
        assert refused(case.judge(cbor.encode(lie))) == "manifest"


def test_an_odd_outer_structure_is_refused(cases: dict[str, Case]) -> None:
    case = cases["arithmetic"]
    plain = take_apart(case.data)
    lies = [
        plain | {"format": "gnus-bundle/2"},
        plain | {"note": "x"},
        {k: v for k, v in plain.items() if k != "manifest"},
        plain | {"charter": "x"},
        plain | {"records": {}},
        plain | {"records": ["x"]},
        plain | {"trust": [1]},
        plain | {"texts": b""},
    ]
    for lie in lies:
        assert refused(case.judge(cbor.encode(lie))) == "bundle"
    assert refused(case.judge(cbor.encode(plain | {"records": [b""] * 1025}))) == "bundle"
    assert refused(case.judge(cbor.encode(plain | {"trust": [b""] * 4097}))) == "bundle"
    assert refused(case.judge(cbor.encode(plain | {"records": [b"", *plain["records"]]}))) == "record 0"


# -- trust --------------------------------------------------------------------------------------------------------------------


def test_the_charter_is_the_judges(cases: dict[str, Case]) -> None:
    case = cases["file"]
    assert refused(verify_bundle(case.data, CAST.charter, case.now_ms)) == "charter"
    plain = take_apart(case.data)
    assert refused(case.judge(put_together(plain | {"charter": CAST.charter}))) == "charter"
    log_record = plain["trust"][0]
    assert refused(verify_bundle(put_together(plain | {"charter": log_record}), log_record, case.now_ms)) == "charter"


def test_a_head_that_does_not_cover_the_log_is_refused(cases: dict[str, Case]) -> None:
    case = cases["file"]
    plain = take_apart(case.data)
    for raw in plain["trust"]:
        kind = peek(raw)[0].kind
        left = [r for r in plain["trust"] if r != raw]
        assert refused(case.judge(put_together(plain | {"trust": left}))) == "trust head", kind


def test_a_trust_record_by_somebody_else_is_refused(cases: dict[str, Case]) -> None:
    """Also a head: one the authority did not sign would be idle bytes that nothing covers."""
    case = cases["file"]
    plain = take_apart(case.data)
    heads = [OPENER.open(raw) for raw in plain["trust"] if peek(raw)[0].kind == "trust_head"]
    grants = [OPENER.open(raw) for raw in plain["trust"] if peek(raw)[0].kind == "role_grant"]
    for record in (heads[0], grants[0]):
        forged = resigned(record, ATTACKER)
        trust = sorted([*plain["trust"], forged], key=lambda raw: peek(raw)[1])
        assert refused(case.judge(put_together(plain | {"trust": trust}))) == "trust log"


class _Still:
    """A clock that stands."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def wall_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return 0.0


def newer_log(case: Case, *, head_epoch: int = 2, cover: bool = True) -> list[bytes]:
    """The bundle's trust log, with the ingress's key revoked since, under a newer head."""
    swarm = OPENER.open(case.charter).header.swarm
    signer = KeySigner(case.authority, SignerRole.AUTHORITY, swarm, lambda: 2, _Still(case.now_ms), 99)
    cut = signer.sign(Revocation(key=case.ingress_key, cut_epoch=2, revoked_at_ms=case.now_ms, reason="stolen"))
    kept = [raw for raw in take_apart(case.data)["trust"] if peek(raw)[0].kind != "trust_head"]
    ids = [peek(raw)[1] for raw in (case.charter, *kept, *([cut.raw] if cover else []))]
    return [*kept, cut.raw, issue_head(signer, ids, head_epoch).raw]


def test_a_later_revocation_counts_for_a_judge_who_knows_it(cases: dict[str, Case]) -> None:
    case = cases["file"]
    verdict = case.judge(newer_trust=newer_log(case))
    assert refused(verdict) == "request_mandate"
    assert verdict.error is not None
    assert verdict.error.code == "REVOKED"
    assert verdict.to_plain()["valid_as_of"] == "trust head 2"


def test_a_newer_log_must_be_covered_by_its_head(cases: dict[str, Case]) -> None:
    case = cases["file"]
    assert refused(case.judge(newer_trust=newer_log(case, cover=False))) == "trust head"
    assert refused(case.judge(newer_trust=[raw for raw in newer_log(case) if peek(raw)[0].kind != "trust_head"])) == "trust head"
    # An older log of the judge's adds nothing and takes nothing away.
    assert case.judge(newer_trust=take_apart(case.data)["trust"]).ok


def test_a_forged_head_does_not_hide_a_revocation() -> None:
    """The swarm revoked the ingress; a bundle with the log before it is refused once the judge has the newer one."""
    revoked = make_swarm(revoke=[("node-alpha", SignerRole.INGRESS)], epoch=2)
    data = BASE.bundle()
    assert verify_bundle(data, CAST.charter, NOW_MS + 5000).ok
    assert refused(verify_bundle(data, CAST.charter, NOW_MS + 5000, newer_trust=revoked.log)) == "request_mandate"
    ids = [r.id for r in map(OPENER.open, (CAST.charter, *CAST.log)) if r.header.kind != "trust_head"]
    body = TrustHead(head_epoch=9, log_digest=log_digest(ids), log_size=len(ids))
    forged = sign(body, Key(SignerRole.HEAD, b"h" * 32), CAST.swarm, seq=1, at_ms=NOW_MS)
    assert refused(verify_bundle(data, CAST.charter, NOW_MS + 5000, newer_trust=[*CAST.log, forged.raw])) == "trust log"


def test_a_client_of_another_tenant_proves_no_user() -> None:
    assert ACME != GLOBEX
    chain = Chain(CAST, client=True)
    assert verify_bundle(chain.bundle(texts=True), CAST.charter, NOW_MS + 5000).ok


# -- the command --------------------------------------------------------------------------------------------------------------


def audit(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gnus_node", "audit", "verify", *args], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_command_judges_without_a_node(cases: dict[str, Case], tmp_path: Path) -> None:
    case = cases["file"]
    bundle, charter, trust, forged = (tmp_path / name for name in ("bundle", "charter.json", "trust.json", "forged"))
    bundle.write_bytes(case.data)
    charter.write_text(export_charter(case.charter))
    trust.write_text(export_trust(newer_log(case)))
    assert import_trust(trust.read_text()) == tuple(newer_log(case))
    plain = take_apart(case.data)
    forged.write_bytes(with_records(plain, [r.raw for r in opened(plain) if r.header.kind != "absence"][1:]))

    good = audit(str(bundle), "--charter", str(charter), "--json")
    assert good.returncode == 0, good.stderr
    verdict = json.loads(good.stdout)
    assert (verdict["ok"], verdict["outcome"], verdict["valid_as_of"]) == (True, "answered", "trust head 1")
    assert {link["name"]: link["proof"] for link in verdict["links"]}["mandate"] == "proved"

    page = audit(str(bundle), "--charter", str(charter)).stdout
    assert page.startswith("verified\n")
    assert "asserted by" in page
    assert "attested by" in page

    bad = audit(str(forged), "--charter", str(charter), "--json")
    assert bad.returncode == 1
    assert json.loads(bad.stdout)["error"]["link"]

    revoked = audit(str(bundle), "--charter", str(charter), "--trust-head", str(trust))
    assert revoked.returncode == 1
    assert "REFUSED" in revoked.stdout
    assert "REVOKED" in revoked.stdout

    charter.write_text("{}")
    odd = audit(str(bundle), "--charter", str(charter), "--json")
    assert odd.returncode == 1
    assert json.loads(odd.stdout)["error"]["code"] == "MALFORMED"
