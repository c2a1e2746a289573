"""Trust logs grow towards each other and never shrink; what contradicts or drops is reported and changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.net import rpc
from gnus_node.net.context import TrustBox
from gnus_node.net.memory_transport import MemoryBus, MemoryTransport
from gnus_node.net.trust_rules import contradictions, grow
from gnus_node.net.trust_sync import SERVICE, TOPIC, TrustSync
from gnus_node.records.authority import TrustHead
from gnus_node.records.enums import RoleName, SignerRole
from gnus_node.records.envelope import Signed
from gnus_node.records.errors import GnusError
from gnus_node.telemetry.log import NullLog
from gnus_node.trust.head import require_covered
from gnus_node.trust.state import TrustState, fold, log_digest
from gnus_node.wire.message import Message
from gnus_node.wire.signed import Opener
from tests.unit.net.swarm import NOW_MS, Swarm, sign

A, B, C = b"a" * 32, b"b" * 32, b"c" * 32
WORKER = RoleName.ELM_WORKER


@dataclass
class Log:
    """A swarm's log as it grows: grants one by one, and a head for any prefix or choice of them."""

    swarm: Swarm = field(default_factory=Swarm)
    seq: int = 100

    def grants(self, count: int) -> list[Signed[Any]]:
        while len(self.swarm.records) < count:
            self.swarm.grant(f"n{len(self.swarm.records)}", WORKER)
        return list(self.swarm.records[:count])

    def head(self, records: list[Signed[Any]], epoch: int, *, at: int = 0, seq: int = 0, by: str = "authority") -> Signed[TrustHead]:
        self.seq += 1
        ids = [self.swarm.charter.id, *(r.id for r in records)]
        body = TrustHead(head_epoch=epoch, log_digest=log_digest(ids), log_size=len(ids))
        return sign(self.swarm.swarm, by, SignerRole.AUTHORITY, body, seq=seq or self.seq, at_ms=NOW_MS + at, epoch=epoch)

    def box(self, count: int, epoch: int) -> TrustBox:
        records = self.grants(count)
        log = [*records, self.head(records, epoch)]
        return TrustBox(fold(self.swarm.charter, log), log)


def growth(box: TrustBox, *offered: Signed[Any]) -> tuple[TrustState | None, list[str]]:
    result = grow(box.state, box.records, offered)
    return result.state, [problem.code for problem in result.problems]


def test_records_that_a_newer_head_covers_are_taken() -> None:
    log = Log()
    box = log.box(1, 1)
    more = log.grants(3)
    state, problems = growth(box, *more, log.head(more, 2))
    assert state is not None
    assert (state.epoch, set(state.grants), problems) == (2, {"n0", "n1", "n2"}, [])
    require_covered(state)


def test_a_fresh_head_over_the_same_log_is_taken_and_an_old_one_is_not() -> None:
    log = Log()
    box = log.box(2, 3)
    records = log.grants(2)
    state, problems = growth(box, log.head(records, 3, at=1000))
    assert state is not None
    assert state.head is not None
    assert (state.head.header.issued_at_ms, problems) == (NOW_MS + 1000, [])
    assert growth(box, log.head(records, 2, at=5000)) == (None, [])
    assert growth(box, *box.records) == (None, [])


def test_records_without_a_head_that_covers_them_wait() -> None:
    log = Log()
    box = log.box(1, 1)
    more = log.grants(3)
    assert growth(box, *more) == (None, ["CHAIN_BROKEN"])
    assert growth(box, *more, log.head(more[:2], 2)) == (None, ["CHAIN_BROKEN"])
    state, problems = growth(box, *more, log.head(log.grants(1), 1, at=10))
    assert state is not None, "the fresh head over what is held counts all the same"
    assert (len(state.grants), problems) == (1, [])


def test_a_head_that_drops_records_is_reported() -> None:
    log = Log()
    box = log.box(3, 2)
    state, problems = growth(box, *log.grants(1), log.head(log.grants(1), 9, at=9))
    assert (state, problems) == (None, ["CHAIN_BROKEN"])


def test_contradicting_heads_are_reported_and_neither_is_taken() -> None:
    log = Log()
    box = log.box(1, 1)
    three = log.grants(3)
    one, two = log.head(three[:2], 2, seq=7), log.head([three[0], three[2]], 2, seq=8)
    assert growth(box, *three, one, two) == (None, ["EQUIVOCATED", "EQUIVOCATED", "CHAIN_BROKEN"]), "two logs of one size in one epoch"
    one, two = log.head(three[:2], 2, seq=7), log.head(three, 3, seq=7)
    assert growth(box, *three, one, two) == (None, ["EQUIVOCATED", "EQUIVOCATED", "CHAIN_BROKEN"]), "two heads under one number"
    assert contradictions([log.head(three, 4), log.head(three, 4, at=5)]) == [], "the same log again is no contradiction"


def test_what_the_authority_did_not_sign_is_refused() -> None:
    log = Log()
    box = log.box(1, 1)
    stranger, other = Swarm(), Log(Swarm())
    body = stranger.charter.body
    forged = log.head(log.grants(2), 5, by="n0/transport")
    foreign = sign(b"other swarm id..", "authority", SignerRole.AUTHORITY, body)
    assert growth(box, forged) == (None, ["UNKNOWN_KEY"])
    assert growth(box, foreign) == (None, ["WRONG_SWARM"])
    assert growth(box, log.swarm.announce("n0", WORKER)) == (None, ["UNKNOWN_KEY"])
    assert growth(box, log.swarm.charter) == (None, [])
    assert other is not log


@given(st.data())
def test_whatever_is_offered_in_whatever_order_the_log_only_grows_and_stays_covered(data: st.DataObject) -> None:
    log = Log()
    grants = log.grants(5)
    box = log.box(data.draw(st.integers(0, 3)), 1)
    pool: list[Signed[Any]] = list(grants)
    for _ in range(data.draw(st.integers(1, 4))):
        chosen = data.draw(st.lists(st.sampled_from(grants), unique_by=lambda r: r.id))
        pool.append(log.head(chosen, data.draw(st.integers(1, 4)), at=data.draw(st.integers(0, 5)), seq=data.draw(st.integers(1, 5))))
    for _ in range(4):
        offered = data.draw(st.lists(st.sampled_from(pool)))
        before = box.state
        result = grow(box.state, box.records, offered)
        if result.state is not None:
            box.replace(result.state, result.records)
        assert before.log_ids <= box.state.log_ids
        assert before.head is not None
        assert box.state.head is not None
        assert (before.epoch, before.head.header.issued_at_ms) <= (box.state.epoch, box.state.head.header.issued_at_ms)
        require_covered(box.state)
        assert {r.id for r in box.records} == {*box.state.log_ids, box.state.head.id} - {log.swarm.charter.id}


@dataclass
class Node:
    box: TrustBox
    transport: MemoryTransport
    sync: TrustSync
    changes: list[int]


@asynccontextmanager
async def node(bus: MemoryBus, key: bytes, box: TrustBox) -> AsyncIterator[Node]:
    changes: list[int] = []

    async def changed() -> None:
        await trio.lowlevel.checkpoint()
        changes.append(box.state.epoch)

    async with bus.attach(key) as transport:
        sync = TrustSync(box, transport, Opener(), NullLog(), changed)
        sync.serve()
        await sync.listen(transport.gossip)
        yield Node(box, transport, sync, changes)


async def test_two_nodes_pull_what_they_lack() -> None:
    log = Log()
    log.grants(600)
    ahead, behind = log.box(600, 5), log.box(2, 1)
    bus = MemoryBus()
    async with node(bus, A, ahead) as a, node(bus, B, behind) as b:
        assert not await a.sync.pull(B), "who is ahead gets nothing"
        assert await b.sync.pull(A)
        assert b.box.state.log_ids == a.box.state.log_ids
        assert (b.box.state.epoch, b.changes, a.changes) == (5, [5], [])
        assert not await b.sync.pull(A), "and then there is nothing to get"
        assert not b.sync.reports


async def test_logs_that_went_apart_are_told_of() -> None:
    """Two authority machines that each granted: no head covers both, so nothing moves until one does."""
    log = Log()
    base = log.grants(3)
    left = [*base[:1], base[1]]
    right = [*base[:1], base[2]]
    one, two = [*left, log.head(left, 2)], [*right, log.head(right, 3)]
    bus = MemoryBus()
    async with (
        node(bus, A, TrustBox(fold(log.swarm.charter, one), one)) as a,
        node(bus, B, TrustBox(fold(log.swarm.charter, two), two)) as b,
    ):
        assert not await a.sync.pull(B)
        assert not await b.sync.pull(A)
        assert {report.code for report in a.sync.reports} == {"CHAIN_BROKEN"}
        joined = log.head(base, 4)
        await a.sync.offer([*base, joined])
        assert await b.sync.pull(A)
        assert a.box.state.log_ids == b.box.state.log_ids


async def test_a_gossiped_head_is_taken_or_asked_about(autojump_clock: trio.testing.MockClock) -> None:
    log = Log()
    records = log.grants(3)
    bus = MemoryBus()
    async with node(bus, A, log.box(2, 1)) as a, node(bus, B, log.box(2, 1)) as b, node(bus, C, log.box(2, 1)) as c:
        fresh = log.head(records[:2], 1, at=50)
        assert await a.sync.offer([fresh])
        await a.sync.tell(a.transport.gossip)
        await trio.testing.wait_all_tasks_blocked()
        assert [n.box.state.head.id for n in (b, c) if n.box.state.head] == [fresh.id] * 2
        assert await a.sync.offer([*records, log.head(records, 2)])
        await a.sync.tell(a.transport.gossip)
        await trio.testing.wait_all_tasks_blocked()
        assert [n.box.state.epoch for n in (b, c)] == [2, 2], "the record behind the head was fetched from its author"
        for junk in (b"", b"junk", records[0].raw, log.head(records[:1], 9, by="n1/transport").raw, log.head(records[:2], 1).raw):
            await a.transport.gossip.publish(TOPIC, junk)
        await trio.testing.wait_all_tasks_blocked()
        assert not b.sync.reports


@pytest.mark.parametrize("answer", ["no ids", "ids that are no ids", "nothing", "other records", "junk"])
async def test_a_lying_peer_costs_its_own_exchange(answer: str) -> None:
    log = Log()
    records = log.grants(4)
    head = log.head(records, 3)
    bus = MemoryBus()

    async def lie(request: rpc.Request) -> Message:
        await trio.lowlevel.checkpoint()
        op = request.message.args["op"]
        if op == "head":
            return Message((head.raw,), args={"size": 5, "same": False})
        if op == "ids":
            ids = {"no ids": 7, "ids that are no ids": ["x"]}.get(answer, [log.swarm.charter.id, *(r.id for r in records)])
            return Message(args={"ids": ids})
        return Message({"nothing": (), "other records": (records[0].raw,), "junk": (b"junk",)}[answer])

    async with bus.attach(B) as liar, node(bus, A, log.box(1, 1)) as a:
        rpc.serve(liar, SERVICE, lie)
        with pytest.raises(GnusError, match="PROTOCOL"):
            await a.sync.pull(B)
        assert a.box.state.epoch == 1


async def test_odd_questions_are_refused() -> None:
    log = Log()
    bus = MemoryBus()
    async with node(bus, A, log.box(1, 1)), bus.attach(B) as asker:
        for args in ({}, {"op": "drop"}, {"op": 7}):
            with pytest.raises(GnusError, match="UNSUPPORTED"):
                await rpc.request(asker, A, SERVICE, Message(args=args), budget_ms=1000)
        for wanted in (7, [7], ["x"]):
            reply = await rpc.request(asker, A, SERVICE, Message(args={"op": "get", "ids": wanted}), budget_ms=1000)
            assert reply.records == ()
        reply = await rpc.request(asker, A, SERVICE, Message((b"junk",), args={"op": "head"}), budget_ms=1000)
        assert reply.args == {"size": 2, "same": False}
