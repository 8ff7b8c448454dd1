from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from flinkish.checkpoint.manifest import SourceState
from flinkish.common.clock import Clock, ManualClock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, SourceError
from flinkish.jobmaster import driver_coordinator
from flinkish.jobmaster.admission import AdmissionSettings
from flinkish.jobmaster.driver_coordinator import DriverSourceCoordinator
from flinkish.jobmaster.enumerator_coordinator import EnumeratorCoordinator
from flinkish.jobmaster.program_parts import SourceNode
from flinkish.jobmaster.wakeup import AsyncCalls, Wakeup
from flinkish.runtime.protocol import ReaderReport, SplitState

from .support import SOURCE, JumpingClock, Line, Numbers, NumbersSplit

DEADLINE_S = 120.0


def coordinator(source: Numbers, parallelism: int = 1) -> EnumeratorCoordinator:
    node = SourceNode(uid=SOURCE, name="Numbers", parallelism=parallelism, source=source)
    return EnumeratorCoordinator(node, Configuration(), ManualClock(), post=lambda call: call())


def started(source: Numbers, parallelism: int = 1) -> EnumeratorCoordinator:
    made = coordinator(source, parallelism)
    made.start(None)
    return made


def encoded(split_id: str, position: int, end: int, generator: object = None) -> SplitState:
    split = NumbersSplit(split_id=split_id, position=position, end=end)
    return SplitState(split_id=split_id, split=msgspec.msgpack.encode(split), generator=generator)


def report(*splits: SplitState, more: bool = False, finished: bool = False, wants: bool = False) -> ReaderReport:
    return ReaderReport(splits=splits, records=1, more_available=more, finished=finished, wants_split=wants)


def restored(*splits: SplitState, left: tuple[NumbersSplit, ...] = ()) -> SourceState:
    return SourceState(uid=SOURCE, enumerator=msgspec.msgpack.encode(left), splits=splits)


class TestEnumerators:
    def test_each_reader_without_a_split_is_asked_for_at_the_start(self) -> None:
        source = Numbers((0, 5), (5, 10))
        sources = started(source, parallelism=2)
        assert source.enumerators[0].requests == [0, 1]
        assert {subtask: [s.split_id for s in c.splits] for subtask, c in sources.commands(10).items()} == {0: ["0"], 1: ["1"]}

    def test_a_reader_that_ran_dry_gets_one_answer_and_is_then_told_that_no_more_will_come(self) -> None:
        source = Numbers((0, 5), (5, 10))
        sources = started(source)
        sources.commands(10)
        for _ in range(2):
            sources.apply(0, report(wants=True))
            sources.after_epoch()
            assert sources.input_ready
            last = sources.commands(10)[0]
        assert (last.splits, last.no_more_splits) == ((), True)
        assert source.enumerators[0].requests == [0, 0, 0]

    def test_a_reader_that_has_to_wait_for_a_split_needs_no_epochs(self) -> None:
        source = Numbers(lasting=True)
        sources = started(source)
        sources.commands(10)
        sources.apply(0, report(wants=True))
        sources.after_epoch()
        assert not sources.input_ready
        assert not sources.wants_poll

    def test_a_reader_without_splits_is_asked_again_until_it_has_fallen_idle(self) -> None:
        sources = started(Numbers(lasting=True))
        sources.commands(10)
        sources.apply(0, replace(report(wants=True), awaits_idleness=True))
        sources.after_epoch()
        assert (sources.input_ready, sources.wants_poll) == (False, True)
        sources.apply(0, report(wants=True))
        assert not sources.wants_poll

    def test_a_reader_with_splits_that_has_nothing_now_is_to_be_asked_again(self) -> None:
        sources = started(Numbers((0, 5)))
        sources.commands(10)
        sources.apply(0, report(encoded("0", 5, 5)))
        assert sources.wants_poll
        assert not sources.input_ready

    def test_a_reader_whose_splits_have_limits_is_asked_again_only_when_they_have_changed(self) -> None:
        source = Numbers((0, 50), (50, 90))
        sources = started(source)
        limits = {"0": 5, "1": 60}
        source.enumerators[0].split_limits = lambda: limits  # type: ignore[method-assign]
        # Only those of its own splits.
        assert sources.commands(10)[0].limits == {"0": 5}
        sources.apply(0, report(encoded("0", 5, 50)))
        assert (sources.input_ready, sources.wants_poll) == (False, False)
        limits = {"0": 5, "1": 70}
        assert not sources.input_ready
        limits = {"0": 6, "1": 70}
        assert sources.input_ready
        assert sources.commands(10)[0].limits == {"0": 6}
        assert [split.position for split in sources.assigned_splits()] == [5]  # type: ignore[attr-defined]

    def test_positions_and_generators_come_back_as_the_reader_reported_them(self) -> None:
        sources = started(Numbers((0, 5)))
        sources.commands(10)
        state = encoded("0", 3, 5, generator={"max": 8})
        sources.apply(0, report(state, more=True))
        assert sources.commands(10)[0].splits == (state,)

    def test_the_snapshot_holds_what_is_left_and_what_is_being_read(self) -> None:
        sources = started(Numbers((0, 5), (5, 10)))
        state = sources.snapshot(7)
        assert [s.split_id for s in state.splits] == ["0"]
        assert state.enumerator is not None
        assert [s.split_id for s in msgspec.msgpack.decode(state.enumerator, type=list[NumbersSplit])] == ["1"]

    def test_restored_splits_go_back_before_the_start_and_out_again_evenly_with_their_generators(self) -> None:
        source = Numbers()
        sources = coordinator(source, parallelism=2)
        splits = tuple(encoded(str(i), i, 9, generator=f"g{i}") for i in range(4))
        sources.start(restored(*splits))
        assert source.enumerators[0].taken_back == ["0", "1", "2", "3"]
        commands = sources.commands(10)
        assert [[(s.split_id, s.generator) for s in commands[i].splits] for i in (0, 1)] == [
            [("0", "g0"), ("2", "g2")],
            [("1", "g1"), ("3", "g3")],
        ]

    def test_at_a_lower_parallelism_all_restored_splits_hold_back_the_watermark_from_the_start(self) -> None:
        sources = coordinator(Numbers())
        sources.start(restored(encoded("0", 1, 9), encoded("1", 2, 9)))
        assert [s.split_id for s in sources.commands(10)[0].splits] == ["0", "1"]

    def test_splits_that_were_not_begun_stay_with_the_enumerator(self) -> None:
        source = Numbers()
        sources = coordinator(source)
        left = NumbersSplit(split_id="9", position=0, end=5)
        sources.start(restored(encoded("0", 1, 9), left=(left,)))
        assert [s.split_id for s in sources.commands(10)[0].splits] == ["0"]
        assert source.enumerators[0].left == [left]

    def test_a_checkpoint_of_another_split_type_is_refused_by_name(self) -> None:
        sources = coordinator(Numbers())
        other = SplitState(split_id="0", split=msgspec.msgpack.encode({"split_id": "0", "offset": 3}))
        with pytest.raises(ForeignCheckpointError, match=r"source 'Numbers'.*split '0'"):
            sources.start(restored(other))

    def test_finished_readers_stay_finished(self) -> None:
        sources = started(Numbers((0, 5)))
        sources.commands(10)
        sources.apply(0, report(finished=True))
        assert not sources.input_ready
        assert sources.commands(10)[0].finished

    def test_an_assignment_to_a_subtask_that_is_not_there_is_refused(self) -> None:
        sources = coordinator(Numbers((0, 5)))
        with pytest.raises(SourceError, match="subtask 3; there are subtasks 0 to 0"):
            sources.assign_split(NumbersSplit(split_id="x", position=0, end=1), 3)

    def test_an_assignment_after_no_more_splits_is_refused(self) -> None:
        sources = coordinator(Numbers((0, 5)))
        sources.signal_no_more_splits(0)
        with pytest.raises(SourceError, match="after signal_no_more_splits"):
            sources.assign_split(NumbersSplit(split_id="x", position=0, end=1), 0)

    def test_closing_closes_the_enumerator_once(self) -> None:
        source = Numbers((0, 5))
        sources = started(source)
        sources.close()
        sources.close()
        assert source.enumerators[0].closed


class Gathered:
    """What was posted; the test takes it one by one."""

    def __init__(self) -> None:
        self.wakeup = Wakeup(ManualClock())
        self.there = threading.Semaphore(0)

    def post(self, call: Callable[[], None]) -> None:
        self.wakeup.post(call)
        self.there.release()

    def run_next(self) -> None:
        assert self.there.acquire(timeout=DEADLINE_S), "nothing was posted"
        for call in self.wakeup.take_posted():
            call()


class TestAsyncCalls:
    def test_work_runs_elsewhere_and_its_handler_where_it_is_posted(self) -> None:
        gathered, threads = Gathered(), []
        calls = AsyncCalls("test", ManualClock(), gathered.post)
        calls.call(
            lambda: threads.append(threading.current_thread()) or 42,
            lambda result, error: threads.append((result, error, threading.current_thread())),
        )
        gathered.run_next()
        calls.close()
        assert threads[0] is not threading.main_thread()
        assert threads[1] == (42, None, threading.main_thread())

    def test_an_error_of_the_work_goes_to_the_handler(self) -> None:
        gathered, got = Gathered(), []

        def fail() -> None:
            raise OSError("no such folder")

        calls = AsyncCalls("test", ManualClock(), gathered.post)
        calls.call(fail, lambda result, error: got.append((result, str(error))))
        gathered.run_next()
        calls.close()
        assert got == [(None, "no such folder")]

    def test_work_that_would_end_the_program_is_an_error_and_the_thread_goes_on(self) -> None:
        gathered, got = Gathered(), []
        calls = AsyncCalls("test", ManualClock(), gathered.post)
        calls.call(lambda: sys.exit("no more"), lambda result, error: got.append(repr(error)))
        calls.call(lambda: 42, lambda result, error: got.append(result))
        gathered.run_next()
        gathered.run_next()
        calls.close()
        assert got == ["SystemExit('no more')", 42]

    def test_an_error_of_the_handler_names_the_source(self) -> None:
        gathered = Gathered()
        node = SourceNode(uid=SOURCE, name="Numbers", parallelism=1, source=Numbers())
        sources = EnumeratorCoordinator(node, Configuration(), ManualClock(), post=gathered.post)

        def handle(result: object, error: BaseException | None) -> None:
            raise ValueError("not a listing")

        sources.call_async(lambda: 42, handle)
        with pytest.raises(SourceError, match=r"source 'Numbers' \(uid numbers\): a handler of call_async failed"):
            gathered.run_next()
        sources.close()

    def test_periodic_work_comes_again_and_again_until_closed(self) -> None:
        clock, gathered, got = ManualClock(), Gathered(), []
        calls = AsyncCalls("test", clock, gathered.post)
        calls.call(lambda: clock.monotonic(), lambda result, error: got.append(result), period=1)
        for _ in range(3):
            gathered.run_next()
            while not gathered.there.acquire(blocking=False):
                clock.advance(1)
            gathered.there.release()
        calls.close()
        assert len(got) >= 3
        assert got == sorted(got)

    @pytest.mark.parametrize(
        ("slept_before", "slept_in", "expected"),
        [(0, 0, [30, 60, 90]), (0, 100, [30, 130, 160]), (100, 0, [120, 150, 180])],
    )
    def test_periodic_work_comes_at_its_interval_and_missed_calls_are_not_made_up_for(
        self, slept_before: int, slept_in: int, expected: list[int]
    ) -> None:
        clock, times, ended = JumpingClock(0), list[int](), threading.Event()

        def work() -> None:
            times.append(clock.monotonic())
            if len(times) == 1:
                clock.advance(slept_in)
            if len(times) == 3:
                ended.set()
                calls.close()

        def plan(*_: object) -> None:
            calls.call(work, lambda *_: None, 30, 30)
            calls.call(lambda: clock.advance(slept_before), lambda *_: None, 20)

        calls = AsyncCalls("test", clock, post=lambda call: call())
        calls.call(lambda: None, plan)
        assert ended.wait(DEADLINE_S)
        assert times == expected

    def test_closing_ends_the_thread_at_once(self) -> None:
        calls = AsyncCalls("test-of-the-end", ManualClock(), Gathered().post)
        calls.call(lambda: None, lambda *_: None, 30_000)
        calls.close(wait=120_000)
        assert not [thread for thread in threading.enumerate() if thread.name == "test-of-the-end"]


class TestDriverSources:
    def make(
        self, line: Line, limit: int = 100, max_bytes: int = 1 << 20, clock: Clock | None = None
    ) -> tuple[DriverSourceCoordinator, Gathered]:
        gathered = Gathered()
        node = SourceNode(uid=SOURCE, name="Lines", parallelism=1, source=line)
        settings = AdmissionSettings(target_duration=1_000, max_records=limit, max_bytes=max_bytes)
        sources = DriverSourceCoordinator(node, Configuration(), clock or ManualClock(), post=gathered.post, limit=settings)
        return sources, gathered

    def test_a_reader_is_closed_although_no_thread_could_be_started_to_wait_for_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def start(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        line = Line()
        sources, _ = self.make(line)
        sources.start(None)
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start"):
            sources.refresh()
        sources.close()
        assert line.reader.closed

    def test_closing_ends_a_wait_that_has_been_repeated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(driver_coordinator, "_DRIVER_WAIT_MS", 20)
        waited = threading.Semaphore(0)
        line, clock = Line(), JumpingClock()

        def wait(timeout: int) -> None:
            clock.advance(timeout)
            waited.release()

        monkeypatch.setattr(line.reader, "wait", wait)
        sources, gathered = self.make(line, clock=clock)
        sources.start(None)
        sources.refresh()
        for _ in range(3):
            assert waited.acquire(timeout=DEADLINE_S)
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "flinkish-driver-source-Lines")
        sources.close()
        thread.join(DEADLINE_S)
        assert (thread.is_alive(), line.reader.closed, gathered.wakeup.take_posted()) == (False, True, [])

    def test_the_bell_rings_when_records_come(self) -> None:
        line = Line()
        sources, gathered = self.make(line)
        sources.start(None)
        sources.refresh()
        assert not sources.input_ready
        line.reader.put("a")
        gathered.run_next()
        sources.refresh()
        assert sources.input_ready
        assert sources.commands(10)[0].records == ("a",)
        sources.close()

    def test_records_beyond_the_credit_wait_for_the_next_epoch(self) -> None:
        line = Line()
        line.reader.put("a", "b", "c", end=True)
        sources, _ = self.make(line)
        sources.start(None)
        sources.refresh()
        first, second = sources.commands(2)[0], sources.commands(2)[0]
        assert (first.records, first.end_of_records) == (("a", "b"), False)
        assert (second.records, second.end_of_records) == (("c",), True)
        sources.close()

    def test_a_full_poll_is_followed_by_another_without_waiting(self) -> None:
        line = Line()
        line.reader.put("a", "b", "c")
        sources, _ = self.make(line, limit=2)
        sources.start(None)
        for expected in (("a", "b"), ("c",)):
            sources.refresh()
            assert sources.commands(10)[0].records == expected
        sources.close()

    def test_of_large_records_an_epoch_gets_few_and_few_are_polled(self) -> None:
        line = Line()
        line.reader.put(*("x" * 1_000 for _ in range(250)))
        sources, _ = self.make(line, limit=1_000, max_bytes=10_000)
        sources.start(None)
        taken, polled = [], []
        for _ in range(25):
            before = len(line.reader.records)
            sources.refresh()
            polled.append(before - len(line.reader.records))
            taken.append(len(sources.commands(1_000)[0].records))
        assert set(taken) == {10}
        # The size is known after the first poll.
        assert [count for count in polled if count] == [100] + [10] * 15
        sources.close()

    def test_the_generators_state_travels_and_is_in_the_checkpoint(self) -> None:
        line = Line()
        sources, _ = self.make(line)
        sources.start(None)
        state = SplitState(split_id="", split=b"", generator={"max": 5})
        sources.apply(0, report(state))
        assert sources.commands(10)[0].splits == (state,)
        assert sources.snapshot(1) == SourceState(uid=SOURCE, enumerator=None, splits=(state,))
        sources.close()

    def test_input_that_had_ended_before_the_checkpoint_is_not_read_anew(self) -> None:
        line = Line()
        line.reader.put(end=True)
        sources, _ = self.make(line)
        sources.start(None)
        sources.refresh()
        sources.commands(10)
        state = sources.snapshot(1)
        sources.close()
        again, _ = self.make(line)
        again.start(state)
        again.refresh()
        assert line.made == 1
        assert again.commands(10)[0].end_of_records
        again.close()
