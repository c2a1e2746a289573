"""Clock, entropy and offload: what a node may rely on, and what makes a virtual run repeat."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from gnus_node.host import InlineOffload, SeededEntropy, SystemClock, SystemEntropy, ThreadOffload
from gnus_node.host.entropy import MAX_TOKEN_BYTES
from gnus_node.ports import Clock, Entropy, Offload


async def test_adapters_fit_their_ports() -> None:
    clock: Clock = SystemClock()
    entropies: list[Entropy] = [SystemEntropy(), SeededEntropy(1)]
    offloads: list[Offload] = [ThreadOffload({}), InlineOffload()]
    assert clock.monotonic() <= trio.current_time()
    assert len(entropies) == len(offloads) == 2


async def test_system_clock_starts_at_the_system_wall_time() -> None:
    before = time.time_ns() // 1_000_000
    now = SystemClock().wall_ms()
    after = time.time_ns() // 1_000_000
    assert before - 1 <= now <= after + 1


async def test_wall_time_is_virtual_under_a_mock_clock(autojump_clock: trio.testing.MockClock) -> None:
    first = SystemClock(base_ms=1_800_000_000_000)
    assert first.wall_ms() == 1_800_000_000_000
    await trio.sleep(90)
    assert first.wall_ms() == 1_800_000_090_000
    assert first.monotonic() == 90
    late = SystemClock(base_ms=1_800_000_000_000)
    assert late.wall_ms() == first.wall_ms(), "a node started later in the run has the same wall time"
    assert late.drift_ms() == 0


async def test_measured_clock_also_follows_virtual_time(autojump_clock: trio.testing.MockClock) -> None:
    clock = SystemClock()
    start = clock.wall_ms()
    await trio.sleep(3600)
    assert clock.wall_ms() - start == 3_600_000
    assert clock.drift_ms() < 0, "the system's clock did not make the jump"


@given(st.one_of(st.integers(), st.binary(max_size=40)), st.lists(st.integers(0, 100), max_size=8))
def test_the_stream_does_not_depend_on_how_it_is_cut(seed: int | bytes, sizes: list[int]) -> None:
    cut = SeededEntropy(seed)
    whole = SeededEntropy(seed).token(sum(sizes))
    assert b"".join(cut.token(size) for size in sizes) == whole


@given(st.integers(0, 2**32), st.text(max_size=10), st.text(max_size=10), st.integers(0, 99))
def test_forks_depend_on_seed_and_label_only(seed: int, one: str, two: str, drawn: int) -> None:
    parent = SeededEntropy(seed)
    early = parent.fork(one)
    parent.token(drawn)
    assert early.token(32) == parent.fork(one).token(32)
    assert (parent.fork(one).token(32) == parent.fork(two).token(32)) == (one == two)
    assert parent.fork(one).fork(two).token(32) != SeededEntropy(seed).token(32)


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    program = "from gnus_node.host import SeededEntropy as S; e = S(7).fork('keys'); print(e.token(40).hex(), e.uuid())"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    mine = SeededEntropy(7).fork("keys")
    assert other == [mine.token(40).hex(), mine.uuid()]


def test_int_and_bytes_seeds_never_meet() -> None:
    assert SeededEntropy(5).token(16) != SeededEntropy(b"5").token(16)


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(b"x")])
def test_uuids_are_version_4_in_lower_case(entropy: Entropy) -> None:
    made = [entropy.uuid() for _ in range(50)]
    assert len(set(made)) == 50
    for text in made:
        read = uuid.UUID(text)
        assert (read.version, read.variant, str(read)) == (4, uuid.RFC_4122, text)


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(b"x")])
def test_a_draw_is_bounded(entropy: Entropy) -> None:
    assert entropy.token(0) == b""
    assert len(entropy.token(33)) == 33
    for size in (-1, MAX_TOKEN_BYTES + 1):
        with pytest.raises(ValueError):
            entropy.token(size)


async def test_a_lane_runs_at_most_its_number_of_works() -> None:
    offload = ThreadOffload({"one": 1, "default": 3})
    lock = threading.Lock()
    running = {"one": 0, "default": 0}
    highest = dict(running)

    def work(lane: str, meet: threading.Barrier | None) -> None:
        with lock:
            running[lane] += 1
            highest[lane] = max(highest[lane], running[lane])
        if meet is not None:
            meet.wait(timeout=30)
        with lock:
            running[lane] -= 1

    meet = threading.Barrier(3)
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(lambda: offload.run(work, "one", None, lane="one"))
            nursery.start_soon(lambda: offload.run(work, "default", meet, lane="unknown"))
    assert highest == {"one": 1, "default": 3}


async def test_begun_work_ends_before_a_cancelled_caller_goes_on() -> None:
    offload = ThreadOffload({})
    begun, release, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert release.wait(timeout=30)
        done.set()

    async with trio.open_nursery() as nursery:

        async def caller() -> None:
            with trio.CancelScope() as scope:
                nursery.start_soon(canceller, scope)
                await offload.run(work)
            assert done.is_set()

        async def canceller(scope: trio.CancelScope) -> None:
            await trio.to_thread.run_sync(begun.wait)
            scope.cancel()
            release.set()

        nursery.start_soon(caller)


@pytest.mark.parametrize("offload", [ThreadOffload({}), InlineOffload()])
async def test_results_and_errors_come_back(offload: Offload) -> None:
    assert await offload.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await offload.run(divmod, 7, 0, lane="any")


async def test_inline_work_stays_on_the_loop_after_a_checkpoint() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await InlineOffload().run(pytest.fail, "a cancelled caller starts nothing")
    with trio.testing.assert_checkpoints():
        assert await InlineOffload().run(threading.get_ident) == threading.get_ident()


def test_a_lane_without_threads_is_refused() -> None:
    with pytest.raises(ValueError):
        ThreadOffload({"store": 0})
