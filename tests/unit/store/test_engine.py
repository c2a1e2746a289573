"""The store on real LMDB: what is acknowledged stays, what is refused harms nobody, nothing waits for ever."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import lmdb
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gnus_node.host import InlineOffload, ThreadOffload
from gnus_node.ports import Offload, Row, Store, Write
from gnus_node.records.errors import GnusError
from gnus_node.store import CommitSeen, LmdbStore, StoreLimits, open_store, tables

from .offloads import GatedOffload, until

SMALL = StoreLimits(map_size_bytes=1 << 30)


def put(key: str, value: bytes = b"v", *, table: str = "journal", if_absent: bool = False) -> Write:
    return Write(table, key.encode(), value, if_absent)


async def code_of(call: object) -> str:
    """The code of the error an awaitable raises, or OK."""
    try:
        await call  # type: ignore[misc]
    except GnusError as error:
        return error.code
    return "OK"


async def test_it_fits_the_port_and_keeps_rows_over_a_reopen(tmp_path: Path) -> None:
    for turn in range(2):
        async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as opened:
            store: Store = opened
            if turn == 0:
                await store.commit([put("a"), put("b", b"w", table="answer")])
                await store.commit([Write("journal", b"a", b"newer"), put("gone")])
                await store.commit([Write("journal", b"gone", None)])
                assert store.commits == 3
            assert await store.get("journal", b"a") == b"newer"
            assert await store.get("answer", b"b") == b"w"
            assert await store.get("journal", b"gone") is None


async def test_directory_and_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with open_store(tmp_path / "up" / "store", ThreadOffload({}), limits=SMALL) as store:
            await store.commit([put("a")])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "up" / "store").stat().st_mode) == 0o700
    files = list((tmp_path / "up" / "store").iterdir())
    assert len(files) == 3
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


async def test_a_directory_open_to_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o755)
    with pytest.raises(GnusError) as caught:
        async with open_store(tmp_path / "store", ThreadOffload({})):
            pass
    assert caught.value.code == "CONFIG"
    assert "chmod" in caught.value.fix


async def test_batches_that_queue_during_a_commit_share_the_next(tmp_path: Path) -> None:
    offload = GatedOffload()
    seen: list[CommitSeen] = []
    async with open_store(tmp_path / "store", offload, limits=SMALL, on_commit=seen.append) as store, trio.open_nursery() as nursery:
        offload.hold()
        before = offload.arrived
        nursery.start_soon(store.commit, [put("first")])
        await until(lambda: offload.arrived == before + 1)
        for number in range(100):
            nursery.start_soon(store.commit, [put(f"{number}")])
        await trio.testing.wait_all_tasks_blocked()
        assert store.commits == 0
        assert await store.get("journal", b"99") == b"v", "queued writes are seen"
        offload.gate.set()
    assert store.commits == 2
    assert [(s.batches, s.rows, s.transactions) for s in seen] == [(1, 1, 1), (100, 100, 1)]
    assert store.commit_wait_s > 0


async def test_a_conflict_fails_its_own_batch_only(tmp_path: Path) -> None:
    offload = GatedOffload()
    async with open_store(tmp_path / "store", offload, limits=SMALL) as store:
        await store.commit([put("taken", b"1")])
        codes: dict[int, str] = {}

        async def claim(number: int, writes: list[Write]) -> None:
            codes[number] = await code_of(store.commit(writes))

        offload.hold()
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(claim, number, [put("free", b"%d" % number, if_absent=True), put(f"beside-{number}")])
            nursery.start_soon(claim, 10, [put("beside-10"), put("taken", b"2", if_absent=True)])
            nursery.start_soon(claim, 11, [put("plain", b"p")])
            nursery.start_soon(claim, 12, [Write("journal", b"taken", None), put("taken", b"3", if_absent=True)])
            await trio.testing.wait_all_tasks_blocked()
            seen = await store.get("journal", b"free")
            offload.gate.set()
        winners = [n for n in range(10) if codes[n] == "OK"]
        assert len(winners) == 1
        assert sorted(codes.values()) == ["OK"] * 3 + ["REPLAYED"] * 10
        assert await store.get("journal", b"free") == b"%d" % winners[0] == seen
        assert [r.key for r in await store.scan("journal", b"beside-")] == [b"beside-%d" % winners[0]]
        assert await store.get("journal", b"taken") == b"3"
        assert await store.get("journal", b"plain") == b"p"


async def test_write_behind_goes_out_within_a_second_and_keeps_its_order(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with open_store(tmp_path / "store", InlineOffload(), limits=SMALL) as store:
        store.write_behind([put("k", b"1")])
        await trio.sleep(0.5)
        store.write_behind([put("k", b"2"), put("other")])
        assert store.commits == 0
        assert await store.get("journal", b"k") == b"2"
        await trio.sleep(0.6)
        assert store.commits == 1
        assert await store.get("journal", b"k") == b"2"
        store.write_behind([put("k", b"3")])
        await store.commit([put("z")])
        assert store.commits == 2, "it rides along with the next commit"
        store.write_behind([Write("journal", b"k", None)])
        await store.flush()
        assert store.commits == 3
        await store.flush()
        assert store.commits == 3, "nothing to do, nothing synced"
        store.write_behind([put("last")])
    async with open_store(tmp_path / "store", InlineOffload(), limits=SMALL) as store:
        assert await store.get("journal", b"k") is None
        assert await store.get("journal", b"last") == b"v", "closing flushes"


async def test_a_lost_write_behind_shows_at_the_next_flush_once(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as store:
        await store.commit([put("taken")])
        store.write_behind([put("taken", if_absent=True)])
        assert await code_of(store.flush()) == "REPLAYED"
        assert await code_of(store.flush()) == "OK"
        store.write_behind([put("fine")])
        assert await code_of(store.flush()) == "OK"


async def test_a_full_queue_answers_busy_and_recovers(tmp_path: Path) -> None:
    offload = GatedOffload()
    limits = StoreLimits(map_size_bytes=1 << 30, queue_rows=4)
    async with open_store(tmp_path / "store", offload, limits=limits) as store:
        offload.hold()
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(store.commit, [put(f"{number}")])
            await trio.testing.wait_all_tasks_blocked()
            assert await code_of(store.commit([put("more")])) == "BUSY"
            with pytest.raises(GnusError, match="BUSY"):
                store.write_behind([put("more")])
            assert await store.get("journal", b"more") is None
            offload.gate.set()
        await store.commit([put("more")])
        assert len(await store.scan("journal")) == 5


async def test_a_full_map_refuses_what_does_not_fit_and_the_rest_goes_on(tmp_path: Path) -> None:
    offload = GatedOffload()
    async with open_store(tmp_path / "store", offload, limits=StoreLimits(map_size_bytes=1 << 20)) as store:
        await store.commit([put("small", b"kept")])
        offload.hold()
        codes: dict[str, str] = {}

        async def commit(name: str, size: int) -> None:
            codes[name] = await code_of(store.commit([put(name, b"x" * size, table="payload")]))

        async with trio.open_nursery() as nursery:
            for name, size in (("one", 10), ("huge", 2 << 20), ("two", 10)):
                nursery.start_soon(commit, name, size)
            await trio.testing.wait_all_tasks_blocked()
            offload.gate.set()
        assert codes == {"one": "OK", "huge": "STORE_FULL", "two": "OK"}
        assert await store.get("payload", b"huge") is None
        assert await code_of(store.commit([put("again", b"x" * (2 << 20), table="payload")])) == "STORE_FULL"
        assert await store.get("journal", b"small") == b"kept"
        assert store.failed is None
        await store.commit([put("after")])


async def test_a_table_at_its_bound_refuses_new_rows_and_takes_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tables.TABLES, "fence", tables.Table("fence", "", 3, 64, ""))
    async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as store:
        await store.commit([put(f"{n}", table="fence") for n in range(3)])
        assert await code_of(store.commit([put("3", table="fence")])) == "STORE_FULL"
        await store.commit([put("0", b"new", table="fence")])
        await store.commit([Write("fence", b"1", None), put("3", table="fence")])
        assert [row.key for row in await store.scan("fence")] == [b"0", b"2", b"3"]


async def test_a_second_open_is_refused_and_the_lock_is_let_go(tmp_path: Path) -> None:
    for _ in range(2):
        async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL):
            with pytest.raises(GnusError) as caught:
                async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL):
                    pass
            assert caught.value.code == "ALREADY_RUNNING"
            assert str(os.getpid()) in caught.value.what


@pytest.mark.parametrize(("key", "value"), [(b"store.schema", b"999"), (b"store.lmdb", b"1.0.2"), (b"store.schema", None)])
async def test_another_schema_or_engine_is_refused_with_a_fix(tmp_path: Path, key: bytes, value: bytes | None) -> None:
    async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL):
        pass
    env = lmdb.open(str(tmp_path / "store"), max_dbs=64, map_size=1 << 30)
    with env.begin(db=env.open_db(b"meta"), write=True) as txn:
        assert txn.put(key, value) if value is not None else txn.delete(key)
    env.close()
    for _ in range(2):
        with pytest.raises(GnusError) as caught:
            async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL):
                pass
        assert caught.value.code == "STORE_CORRUPT"
        assert caught.value.fix


@pytest.mark.parametrize("damage", ["cut", "garbage"])
async def test_a_damaged_file_is_refused_and_the_process_lives(tmp_path: Path, damage: str) -> None:
    async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as store:
        for number in range(50):
            await store.commit([put(f"{number}", b"x" * 20_000)])
    data = tmp_path / "store" / "data.mdb"
    if damage == "cut":
        os.truncate(data, data.stat().st_size // 2)
    else:
        data.write_bytes(os.urandom(data.stat().st_size))
    with pytest.raises(GnusError) as caught:
        async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL):
            pass
    assert caught.value.code == "STORE_CORRUPT"


def break_disk(path: Path) -> None:
    """Put a file that takes no writes behind the descriptors the engine has open for its data."""
    null = os.open("/dev/null", os.O_RDONLY)
    for entry in Path("/proc/self/fd").iterdir():
        if int(entry.name) != null and entry.is_symlink() and os.readlink(entry) == str(path / "data.mdb"):
            os.dup2(null, int(entry.name), inheritable=False)
    os.close(null)


async def test_a_disk_error_ends_every_wait_and_later_writes(tmp_path: Path) -> None:
    offload = GatedOffload()
    async with open_store(tmp_path / "store", offload, limits=SMALL) as store:
        await store.commit([put("safe")])
        offload.hold()
        codes: list[str] = []

        async def commit(name: str) -> None:
            codes.append(await code_of(store.commit([put(name)])))

        async with trio.open_nursery() as nursery:
            before = offload.arrived
            nursery.start_soon(commit, "in flight")
            await until(lambda: offload.arrived > before)
            for number in range(5):
                nursery.start_soon(commit, f"{number}")
            store.write_behind([put("behind")])
            await trio.testing.wait_all_tasks_blocked()
            break_disk(tmp_path / "store")
            offload.gate.set()
        assert codes == ["STORE_CORRUPT"] * 6
        assert store.failed is not None
        assert await code_of(store.commit([put("late")])) == "STORE_CORRUPT"
        assert await code_of(store.flush()) == "STORE_CORRUPT"
        with pytest.raises(GnusError, match="STORE_CORRUPT"):
            store.write_behind([put("late")])
        assert await store.get("journal", b"safe") == b"v"
        assert await store.get("journal", b"in flight") is None
    async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as store:
        assert [row.key for row in await store.scan("journal")] == [b"safe"]


async def test_a_cancelled_waiter_takes_nothing_with_it(tmp_path: Path) -> None:
    offload = GatedOffload()
    async with open_store(tmp_path / "store", offload, limits=SMALL) as store:
        offload.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.commit, [put("one")])
            with trio.CancelScope() as scope:
                nursery.start_soon(store.commit, [put("two")])
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(cancel_when_blocked, scope)
                await store.commit([put("cancelled")])
            assert scope.cancelled_caught
            nursery.start_soon(store.commit, [put("three")])
            await trio.testing.wait_all_tasks_blocked()
            offload.gate.set()
        assert {row.key for row in await store.scan("journal")} == {b"one", b"two", b"three", b"cancelled"}
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.commit([put("never")])
        await store.flush()
        assert await store.get("journal", b"never") is None, "a caller cancelled before writes nothing"


async def cancel_when_blocked(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()


async def test_cancelling_the_node_still_writes_what_was_accepted(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as store:
            store.write_behind([put("behind")])
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert await code_of(store.commit([put("late")])) == "NOT_RUNNING"
    assert await code_of(store.get("journal", b"behind")) == "NOT_RUNNING"
    async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as store:
        assert await store.get("journal", b"behind") == b"v"


async def test_what_the_block_raises_comes_out_bare(tmp_path: Path) -> None:
    async def block() -> None:
        async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as store:
            store.write_behind([put("behind")])
            raise GnusError("NO_EXPERT")

    assert await code_of(block()) == "NO_EXPERT"
    async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as store:
        assert await store.get("journal", b"behind") == b"v"


async def test_a_fault_in_the_writer_stops_the_node_and_frees_the_waiters(tmp_path: Path) -> None:
    def observe(_: CommitSeen) -> None:
        raise ZeroDivisionError

    codes: list[str] = []

    async def block() -> None:
        async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL, on_commit=observe) as store:
            with trio.CancelScope(shield=True):
                codes.append(await code_of(store.commit([put("one")])))
                codes.append(await code_of(store.commit([put("two")])))

    with pytest.raises(ZeroDivisionError):
        await block()
    assert codes == ["OK", "INTERNAL"], "the first was durable before the fault; nobody waits for a writer that is gone"


async def test_reads_are_checked(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as store:
        assert await code_of(store.get("nope", b"k")) == "INTERNAL"
        assert await code_of(store.scan("nope")) == "INTERNAL"
        assert await code_of(store.get("meta", b"")) == "MALFORMED"
        assert await code_of(store.get("meta", b"k" * 512)) == "TOO_LARGE"
        assert await code_of(store.scan("meta", b"k" * 512)) == "TOO_LARGE"
        assert await code_of(store.scan("meta", limit=SMALL.scan_rows + 1)) == "TOO_LARGE"
        assert await code_of(store.commit([Write("nope", b"k", b"v")])) == "INTERNAL"


async def test_table_bytes_shows_rows_against_bounds(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store", ThreadOffload({}), limits=SMALL) as store:
        await store.commit([put(f"{n}", b"x" * 9000, table="payload") for n in range(7)])
        sizes = {size.name: size for size in store.table_bytes()}
        assert set(sizes) == set(tables.TABLES)
        assert sizes["payload"].rows == 7
        assert sizes["payload"].size_bytes >= 7 * 9000
        assert sizes["payload"].max_rows == tables.TABLES["payload"].max_rows
        assert sizes["answer"].rows == 0


KEYS = st.sampled_from([b"a", b"a\x00", b"ab", b"b", b"b\xff", b"c"])
STEP = st.tuples(
    st.sampled_from(["commit", "behind", "flush"]),
    st.lists(st.builds(Write, st.just("journal"), KEYS, st.one_of(st.none(), st.binary(max_size=2)), st.booleans()), max_size=4),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, max_size=12))
def test_any_sequence_reads_as_a_plain_dictionary_would(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[Write]]]
) -> None:
    model: dict[bytes, bytes] = {}

    def apply(writes: list[Write]) -> bool:
        new = dict(model)
        for write in writes:
            if write.if_absent and write.key in new:
                return False
            if write.value is None:
                new.pop(write.key, None)
            else:
                new[write.key] = write.value
        model.clear()
        model.update(new)
        return True

    async def check(store: LmdbStore) -> None:
        assert await store.scan("journal") == [Row(k, v) for k, v in sorted(model.items())]
        for key in (b"a", b"a\x00", b"ab", b"b", b"b\xff", b"c"):
            assert await store.get("journal", key) == model.get(key)
            assert await store.scan("journal", after=key, limit=1) == [Row(k, v) for k, v in sorted(model.items()) if k > key][:1]
        assert await store.scan("journal", b"a") == [Row(k, v) for k, v in sorted(model.items()) if k.startswith(b"a")]

    async def run(offload: Offload) -> None:
        path = tmp_path_factory.mktemp("run") / "store"
        lost = False
        async with open_store(path, offload, limits=SMALL) as store:
            for kind, writes in steps:
                if kind == "commit":
                    expected = "OK" if apply(writes) else "REPLAYED"
                    assert await code_of(store.commit(writes)) == expected
                elif kind == "behind":
                    lost = not apply(writes) or lost
                    store.write_behind(writes)
                else:
                    assert await code_of(store.flush()) == ("REPLAYED" if lost else "OK")
                    lost = False
                await check(store)
        async with open_store(path, offload, limits=SMALL) as store:
            await check(store)

    trio.run(run, InlineOffload())


async def test_a_virtual_run_repeats(tmp_path: Path) -> None:
    async def run(path: Path, seen: list[CommitSeen]) -> int:
        async with open_store(path, InlineOffload(), limits=SMALL, on_commit=seen.append) as store, trio.open_nursery() as nursery:

            async def client(number: int) -> None:
                for turn in range(5):
                    await trio.sleep(number / 10)
                    await store.commit([put(f"{number}-{turn}")])
                    store.write_behind([put(f"{number}-{turn}-behind")])

            for number in range(6):
                nursery.start_soon(client, number)
        return len(seen)

    def in_virtual_time(path: Path, seen: list[CommitSeen]) -> None:
        trio.run(run, path, seen, clock=trio.testing.MockClock(autojump_threshold=0))

    traces: list[list[CommitSeen]] = [[], []]
    for number, trace in enumerate(traces):
        path = tmp_path / f"{number}"
        await trio.to_thread.run_sync(in_virtual_time, path, trace)
    assert sum(seen.rows for seen in traces[0]) == 60
    assert [seen.rows for seen in sorted(traces[0], key=repr)] == [seen.rows for seen in sorted(traces[1], key=repr)]
