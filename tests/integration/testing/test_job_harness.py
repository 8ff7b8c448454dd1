"""Whole jobs in virtual time, on the local engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Duration, Types, WatermarkStrategy
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, JobExecutionError
from flinkish.common.job_status import JobStatus
from flinkish.common.time import Time
from flinkish.datastream import (
    CheckpointListener,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.datastream.window import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from flinkish.testing import CrashPoint, JobHarness, ScriptedSource, StreamRecord
from flinkish.testing import steps as step
from flinkish.testing.results import assert_records_equal
from tests.kit.functions import Itself, Second
from tests.kit.own_process import set_temporary_folder
from tests.kit.restarts import restarting

Environment = StreamExecutionEnvironment
NO_WATERMARKS = WatermarkStrategy.no_watermarks()
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
LATE = OutputTag("late", PAIR)


def echo(env: Environment, job: JobHarness) -> None:
    env.from_source(job.source("source"), NO_WATERMARKS, "source").sink_to(job.sink("out"))


def windowed(strategy: WatermarkStrategy = NO_WATERMARKS, *, splits: int = 1) -> Callable[[Environment, JobHarness], None]:
    """Sums in windows of 10 ms of event time, and late records."""

    def program(env: Environment, job: JobHarness) -> None:
        pairs = env.from_source(job.source("source", PAIR, splits=splits), strategy, "source")
        windows = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        sums = windows.side_output_late_data(LATE).reduce(lambda a, b: (a[0], a[1] + b[1]))
        sums.sink_to(job.sink("sums"))
        sums.get_side_output(LATE).sink_to(job.sink("late"))

    return program


class Count(KeyedProcessFunction):
    """Counts, and tells the count at once and 100 ms of processing time later."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 100)
        yield "counted", ctx.get_current_key(), count

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield "timer", ctx.get_current_key(), ctx.timer_service().current_processing_time()


def counting(env: Environment, job: JobHarness) -> None:
    words = env.from_source(job.source("source", Types.STRING()), NO_WATERMARKS, "source")
    words.key_by(lambda word: word, Types.STRING()).process(Count()).sink_to(job.sink("out"))


# -- what comes out ----------------------------------------------------------------------------------------------------------


def test_what_a_source_gives_comes_out_with_its_time_when_the_test_looks() -> None:
    with JobHarness(echo) as job:
        source, out = job.source("source"), job.sink("out")
        assert out.take_output() == []
        source.emit("a", 5)
        source.emit("b")
        assert out.take_output() == [StreamRecord("a", 5), StreamRecord("b", None)]
        assert out.take_output() == []
        source.emit_all(["c", StreamRecord("d", 7)], timestamp=6)
        assert out.take_output() == [("c", 6), ("d", 7)]
        assert out.committed() == []
        job.finish()
        assert out.committed_values() == ["a", "b", "c", "d"]


def test_each_sink_has_an_output_of_its_own_also_one_of_a_side_output() -> None:
    with JobHarness(windowed()) as job:
        source = job.source("source")
        source.emit(("a", 1), 3)
        source.watermark(9)
        source.emit(("a", 5), 9)
        source.emit(("a", 7), 10)
        source.watermark(19)
        job.sink("sums").assert_output(StreamRecord(("a", 1), 9), StreamRecord(("a", 7), 19))
        job.sink("late").assert_output(("a", 5))


def test_values_are_converted_to_the_type_of_the_source() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        row = Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.INT()])
        rows = env.from_source(job.source("source", row), NO_WATERMARKS, "rows")
        rows.map(lambda record: record.name, Types.STRING()).sink_to(job.sink("out"))

    with JobHarness(program) as job:
        job.source("source").emit(("x", 1))
        job.source("source").emit({"name": "y", "number": 2})
        assert job.sink("out").take_values() == ["x", "y"]


def test_outputs_that_are_not_as_expected_are_named() -> None:
    with JobHarness(echo) as job:
        job.source("source").emit_all([1, 2, 2])
        with pytest.raises(AssertionError, match=r"sink 'out' are not as expected\n  missing: 3\n  unexpected: 2"):
            job.sink("out").assert_output(3, 2, 1)
        job.source("source").emit_all([1, 2])
        with pytest.raises(AssertionError, match=r"got: \[1, 2\]\n  expected: \[2, 1\]"):
            job.sink("out").assert_output(2, 1, ordered=True)


def test_records_are_compared_as_often_as_they_are_there() -> None:
    assert_records_equal([[1], [2], [2]], [[2], [1], [2]])
    with pytest.raises(AssertionError, match=r"missing: \[1\]\n  unexpected: \[2\]"):
        assert_records_equal([[1], [2], [2]], [[2], [1], [1]])


# -- event time --------------------------------------------------------------------------------------------------------------


def test_the_programs_own_watermark_strategy_works_on_scripted_records() -> None:
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2)).with_timestamp_assigner(Second())
    with JobHarness(windowed(bounded)) as job:
        source, sums = job.source("source"), job.sink("sums")
        source.emit_all([("a", 3), ("a", 11)])
        assert sums.take_output() == []
        source.emit(("a", 12))
        assert sums.take_output() == [(("a", 3), 9)]
        source.watermark(19)  # more than the strategy says
        assert sums.take_output() == [(("a", 23), 19)]


def test_the_slowest_split_holds_back_the_watermark_unless_it_is_idle_or_ended() -> None:
    with JobHarness(windowed(splits=3), parallelism=2) as job:
        source, sums = job.source("source"), job.sink("sums")
        for split in range(3):
            source.emit((str(split), 1), 1, split=split)
        source.watermark(9, split=0)
        source.watermark(9, split=1)
        assert sums.take_output() == []
        source.idle(split=2)
        sums.assert_output(("0", 1), ("1", 1), ("2", 1))
        source.emit(("2", 1), 12, split=2)
        source.watermark(11, split=2)
        source.watermark(30, split=0)
        source.watermark(30, split=1)
        assert sums.take_output() == []
        source.end(split=2)
        sums.assert_output(("2", 1))


def test_a_strategy_with_idleness_finds_out_when_the_time_is_moved() -> None:
    idle = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(5))
    with JobHarness(windowed(idle, splits=2)) as job:
        source, sums = job.source("source"), job.sink("sums")
        source.emit(("a", 1), 1, split=0)
        source.emit(("b", 1), 1, split=1)
        source.emit(("b", 1), 10, split=1)
        job.advance(4_000)
        source.emit(("b", 1), 20, split=1)
        assert sums.take_output() == []
        job.advance(1_000)
        sums.assert_output(("a", 1), ("b", 1), ("b", 1))


def test_a_split_without_records_holds_back_the_watermark_until_it_is_idle() -> None:
    idle = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(5))
    with JobHarness(windowed(idle, splits=2)) as job:
        source, sums = job.source("source"), job.sink("sums")
        source.emit(("a", 1), 1, split=0)
        source.emit(("a", 1), 20, split=0)
        assert sums.take_output() == []
        # It is not late.
        source.emit(("b", 1), 2, split=1)
        assert sums.take_output() == []
        source.emit(("b", 1), 20, split=1)
        sums.assert_output(("a", 1), ("b", 1))
    with JobHarness(windowed(idle, splits=2)) as job:
        source, sums = job.source("source"), job.sink("sums")
        source.emit(("a", 1), 1, split=0)
        job.advance(4_000)
        source.emit(("a", 1), 20, split=0)
        assert sums.take_output() == []
        job.advance(1_000)
        sums.assert_output(("a", 1))


def test_an_outage_makes_no_split_idle() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(5))
    with JobHarness(windowed(strategy, splits=2)) as job:
        source, sums = job.source("source"), job.sink("sums")
        source.emit(("a", 1), 1, split=0)
        source.emit(("b", 1), 1, split=1)
        savepoint = job.stop()
        job._clock.move_to(60_000)
        job.restart(savepoint=savepoint)
        source.emit(("a", 1), 40, split=0)
        job.advance(4_999)
        source.emit(("b", 1), 5, split=1)
        source.emit(("b", 1), 50, split=1)
        sums.assert_output(("a", 1), ("b", 2))
        job.advance(5_000)
        job.finish()


def watching(folder: Path, strategy: WatermarkStrategy) -> Callable[[Environment, JobHarness], None]:
    """Sums of the numbers in files, which are their times, too, in windows of 10 ms; a look at the folder each hour."""

    def program(env: Environment, job: JobHarness) -> None:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
        files = source.monitor_continuously(Duration.of_hours(1)).build()
        timed = strategy.with_timestamp_assigner(Itself())
        numbers = env.from_source(files, timed, "files", Types.STRING()).map(int, Types.LONG())
        windows = numbers.window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        windows.reduce(lambda a, b: a + b).sink_to(job.sink("sums"))

    return program


def test_windows_over_a_watched_folder_fire_while_files_come(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("1\n2\n11\n", encoding="utf-8")
    with JobHarness(watching(tmp_path, WatermarkStrategy.for_monotonous_timestamps())) as job:
        sums = job.sink("sums")
        sums.assert_output(3)
        # Read in one go, in the order of their names: what is older in the second one is not late.
        (tmp_path / "2").write_text("12\n40\n", encoding="utf-8")
        (tmp_path / "3").write_text("13\n25\n", encoding="utf-8")
        job.advance(3_600_000)
        sums.assert_output(36, 25)
        job.crash(CrashPoint.AFTER_COMMIT)
        (tmp_path / "4").write_text("41\n53\n", encoding="utf-8")
        job.advance(3_600_000)
        sums.assert_output(81)


# -- processing time ---------------------------------------------------------------------------------------------------------


def test_timers_fire_in_order_at_their_time_while_the_test_moves_it() -> None:
    with JobHarness(counting, start_time=1_000) as job:
        source, out = job.source("source"), job.sink("out")
        source.emit("a")
        job.advance(50)
        source.emit("b")
        assert out.take_values() == [("counted", "a", 1), ("counted", "b", 1)]
        job.advance(49)
        assert out.take_values() == []
        job.advance(10_000)
        assert out.take_output() == [(("timer", "a", 1_100), 1_100), (("timer", "b", 1_150), 1_150)]
        assert job.processing_time == 11_099


def test_windows_of_processing_time() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        numbers = env.from_source(job.source("source", Types.LONG()), NO_WATERMARKS, "source")
        windows = numbers.window_all(TumblingProcessingTimeWindows.of(Time.hours(1)))
        windows.reduce(lambda a, b: a + b).sink_to(job.sink("out"))

    hour = 3_600_000
    with JobHarness(program) as job:
        source, out = job.source("source"), job.sink("out")
        source.emit_all([1, 2])
        job.advance(hour - 2)
        source.emit(4)
        assert out.take_output() == []
        job.advance(1)
        assert out.take_output() == [(7, hour - 1)]
        job.advance(1)
        source.emit(8)
        job.advance(24 * hour)
        assert out.take_output() == [(8, 2 * hour - 1)]


def test_a_source_that_pauses_goes_on_by_itself_while_others_go_on() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        for name in ("one", "two"):
            env.from_source(job.source(name), NO_WATERMARKS, name).sink_to(job.sink("out"))

    with JobHarness(program) as job:
        one, two, out = job.source("one"), job.source("two"), job.sink("out")
        one.emit("before")
        one.pause(100)
        one.emit("after")
        one.pause(50)
        one.emit("last")
        two.emit("other")
        out.assert_output("before", "other")
        job.advance(99)
        two.emit("more")
        assert out.take_values() == ["more"]
        job.advance(1)
        assert out.take_values() == ["after"]
        job.advance(1_000)
        assert out.take_values() == ["last"]


def test_checkpoints_are_taken_periodically_in_virtual_time_if_the_program_says_so() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        env.enable_checkpointing(60_000)
        echo(env, job)

    with JobHarness(program) as job:
        job.source("source").emit(1)
        job.advance(59_999)
        assert job.sink("out").committed() == []
        job.advance(1)
        assert job.sink("out").committed_values() == [1]
        job.advance(150_000)
        assert job.checkpoint() == 4


# -- failures ----------------------------------------------------------------------------------------------------------------


def test_the_error_of_a_job_is_raised_by_the_step_that_brings_it() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        numbers = env.from_source(job.source("source", Types.LONG()), NO_WATERMARKS, "source")
        numbers.map(lambda number: 1 // number, Types.LONG()).sink_to(job.sink("out"))

    with JobHarness(program) as job:
        job.source("source").emit(1)
        assert job.sink("out").take_values() == [1]
        job.checkpoint()
        job.source("source").emit(0)
        with pytest.raises(JobExecutionError, match="ZeroDivisionError"):
            job.settle()
        with pytest.raises(InvalidArgumentError, match="the job has ended"):
            job.settle()
        assert job.client.get_job_status().result() is JobStatus.FAILED
        with pytest.raises(JobExecutionError, match="ZeroDivisionError"):
            job.restart()  # it reads the same again


def test_a_failure_in_the_script_happens_once_and_the_restart_strategy_decides() -> None:
    settings = restarting(2, "10 s")
    with JobHarness(counting, settings=settings) as job:
        source, out = job.source("source"), job.sink("out")
        source.emit("a")
        job.checkpoint()
        source.emit("a")
        source.fail("the disk is gone")
        source.emit("a")
        job.settle()
        assert job.client.get_job_status().result() is JobStatus.RESTARTING
        job.advance(9_999)
        assert out.take_values() == [("counted", "a", 1)]
        job.advance(1)
        assert job.client.get_job_status().result() is JobStatus.RUNNING
        # Its timer, too: it was due while the job was down.
        assert out.take_values() == [("timer", "a", 10_000), ("counted", "a", 2), ("counted", "a", 3)]


def test_without_a_restart_strategy_a_failure_in_the_script_ends_the_job() -> None:
    with JobHarness(echo) as job:
        job.source("source").fail("the disk is gone")
        with pytest.raises(JobExecutionError, match="ScriptedFailure: the disk is gone"):
            job.settle()


@pytest.mark.parametrize("point", [None, *CrashPoint])
def test_whenever_the_driver_dies_each_record_counts_once(point: CrashPoint | None) -> None:
    def program(env: Environment, job: JobHarness) -> None:
        numbers = env.from_source(job.source("source", Types.LONG()), NO_WATERMARKS, "source")
        sums = numbers.key_by(lambda number: number % 2, Types.LONG()).reduce(lambda a, b: a + b)
        sums.sink_to(job.sink("out"))

    with JobHarness(program, parallelism=2) as job:
        source, out = job.source("source"), job.sink("out")
        source.emit_all([1, 2])
        job.checkpoint()
        source.emit_all([3, 4])
        before = job.client
        job.crash(point)
        assert job.client is not before
        source.emit_all([5, 6])
        job.finish()
        assert sorted(out.committed_values()) == sorted([1, 2, 4, 6, 9, 12])
        # Written, but not committed: what was computed again after a checkpoint that did not come about.
        lost = point in (None, CrashPoint.BEFORE_SNAPSHOT, CrashPoint.AFTER_SNAPSHOT)
        lost = lost or point in (CrashPoint.BEFORE_COMMIT, CrashPoint.DURING_COMMIT)
        assert out.take_values().count(4) == (2 if lost else 1)


def test_a_crash_before_the_first_checkpoint_begins_anew() -> None:
    with JobHarness(counting) as job:
        job.source("source").emit("a")
        assert job.sink("out").take_values() == [("counted", "a", 1)]
        job.crash()
        assert job.sink("out").take_values() == [("counted", "a", 1)]


def test_a_job_that_dies_again_and_again_still_counts_each_record_once() -> None:
    with JobHarness(counting) as job:
        for number, point in enumerate(CrashPoint, 1):
            job.source("source").emit("a")
            job.crash(point)
            job.crash()
            assert ("counted", "a", number) in job.sink("out").take_values() + job.sink("out").committed_values()
        job.finish()
        assert job.sink("out").committed_values() == [("counted", "a", count) for count in range(1, len(CrashPoint) + 1)]


# -- stops and restarts ------------------------------------------------------------------------------------------------------


def test_a_restart_rescales_and_keeps_state_and_timers() -> None:
    with JobHarness(counting, parallelism=1) as job:
        source, out = job.source("source"), job.sink("out")
        source.emit_all("abcdef")
        job.checkpoint()
        out.take_output()
        job.restart(parallelism=3)
        assert job.client.job_master.setup.plan.slots == 3
        source.emit_all("abcdef")
        out.assert_output(*(("counted", key, 2) for key in "abcdef"))
        job.advance(100)
        assert len(out.take_output()) == 6


def test_a_savepoint_starts_the_same_script_or_another_one() -> None:
    with JobHarness(counting) as job:
        job.source("source").emit("a")
        passing = job.savepoint()
        job.source("source").emit("a")
        stopped = job.stop()
        assert job.client.get_job_status().result() is JobStatus.FINISHED
        with pytest.raises(InvalidArgumentError, match="the job has finished"):
            job.restart()
        job.sink("out").take_output()
        job.restart(savepoint=passing)
        assert job.sink("out").take_values() == [("counted", "a", 2)]
        with JobHarness(
            counting, savepoint=stopped, settings={"security.checkpoint.hmac-key-file": job._folder / "key"}
        ) as other:
            other.source("source").emit("a")
            assert other.sink("out").take_values() == [("counted", "a", 3)]


def test_draining_fires_what_waits_for_the_end_of_time() -> None:
    with JobHarness(windowed()) as job:
        job.source("source").emit(("a", 1), 3)
        job.stop(drain=True)
        assert job.sink("sums").committed_values() == [("a", 1)]


def test_a_source_ends_split_by_split_and_the_job_with_the_last() -> None:
    with JobHarness(windowed(splits=2)) as job:
        source = job.source("source")
        source.emit(("a", 1), 3, split=0)
        source.end(split=0)
        job.settle()
        assert not source.ended
        with pytest.raises(InvalidArgumentError, match="split 0 of source 'source' has ended"):
            source.emit(("a", 1), 3, split=0)
        source.end()
        job.settle()
        assert source.ended
        assert job.sink("sums").committed_values() == [("a", 1)]
        assert job.client.get_job_status().result() is JobStatus.FINISHED


def test_sources_of_other_kinds_are_read_without_being_asked() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        numbers = env.from_source(NumberSequenceSource(1, 3), NO_WATERMARKS, "numbers")
        numbers.union(env.from_source(job.source("source", Types.LONG()), NO_WATERMARKS, "source")).sink_to(job.sink("out"))

    with JobHarness(program) as job:
        job.sink("out").assert_output(1, 2, 3)
        job.source("source").emit(4)
        job.sink("out").assert_output(4)
        job.finish()
        job.sink("out").assert_committed(1, 2, 3, 4)


def test_what_sources_do_in_threads_of_their_own_is_waited_for_and_keeps_to_the_virtual_time(tmp_path: Path) -> None:
    def program(env: Environment, job: JobHarness) -> None:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        files = source.monitor_continuously(Duration.of_hours(1)).build()
        env.from_source(files, NO_WATERMARKS, "files").sink_to(job.sink("out"))

    (tmp_path / "first").write_text("a\nb\n", encoding="utf-8")
    with JobHarness(program) as job:
        assert job.sink("out").take_values() == ["a", "b"]
        (tmp_path / "second").write_text("c\n", encoding="utf-8")
        job.advance(3_599_999)
        assert job.sink("out").take_values() == []
        job.advance(1)
        assert job.sink("out").take_values() == ["c"]
        job.crash(CrashPoint.AFTER_COMMIT)
        (tmp_path / "third").write_text("d\n", encoding="utf-8")
        job.advance(3_600_000)
        assert job.sink("out").take_values() == ["d"]


def test_in_batch_mode_everything_comes_out_at_the_end() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        numbers = env.from_source(job.source("source", Types.LONG(), bounded=True), NO_WATERMARKS, "source")
        numbers.key_by(lambda number: number % 2).reduce(lambda a, b: a + b).sink_to(job.sink("out"))

    with JobHarness(program) as job:
        job.source("source").emit_all([1, 2, 3])
        assert job.sink("out").take_values() == []
        with pytest.raises(InvalidArgumentError, match="takes no checkpoints"):
            job.checkpoint()
        with pytest.raises(InvalidArgumentError, match="takes no checkpoints"):
            job.crash(CrashPoint.BEFORE_COMMIT)
        job.crash()
        job.finish()
        job.sink("out").assert_committed(4, 2)


# -- what else a job does ----------------------------------------------------------------------------------------------------


class Listening(MapFunction, CheckpointListener):
    heard: list[int] = []  # noqa: RUF012 - the local engine's tasks share it with the test

    def map(self, value: Any) -> Any:
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard.append(checkpoint_id)


def test_functions_have_learned_of_a_checkpoint_when_it_was_taken() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        env.from_source(job.source("source"), NO_WATERMARKS, "source").map(Listening()).sink_to(job.sink("out"))

    Listening.heard.clear()
    with JobHarness(program) as job:
        assert [job.checkpoint(), job.checkpoint()] == [1, 2]
        assert Listening.heard == [1, 2]


def test_a_script_of_steps_does_what_the_calls_do() -> None:
    script: list[step.Step] = [
        step.Emit(("a", 1), 3),
        step.TakeCheckpoint(),
        step.EmitWatermark(9),
        step.Settle(),
        step.Emit(("a", 2), 4),
        step.Crash(CrashPoint.AFTER_SINK_COMMIT),
        step.Pause(10),
        step.Emit(("b", 4), 12),
        step.Advance(10),
        step.MarkIdle(),
        step.MarkActive(),
        step.Restart(parallelism=2),
        step.End(),
    ]
    with JobHarness(windowed()) as job:
        job.play(script)
        job.settle()
        job.sink("sums").assert_committed(StreamRecord(("a", 1), 9), StreamRecord(("b", 4), 19))
        job.sink("late").assert_committed(("a", 2))


def test_two_jobs_at_once_do_not_wait_for_each_other() -> None:
    with JobHarness(echo) as one, JobHarness(echo) as two:
        for number in range(3):
            one.source("source").emit(number)
            two.source("source").emit(-number)
            assert two.sink("out").take_values() == [-number]
        assert one.sink("out").take_values() == [0, 1, 2]


def test_nothing_is_left_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_temporary_folder(monkeypatch, tmp_path)
    threads = set(threading.enumerate())
    with JobHarness(counting) as job:
        job.source("source").emit("a")
        job.crash(CrashPoint.DURING_COMMIT)
        job.savepoint()
    job.close()  # once more does no harm
    assert list(tmp_path.iterdir()) == []
    left = {thread for thread in set(threading.enumerate()) - threads if thread.name != "flinkish-signals"}
    for thread in left:
        thread.join(60)
    assert not any(thread.is_alive() for thread in left)


class Stuck(ProcessFunction):
    release = threading.Event()

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        Stuck.release.wait(60)
        yield value

    def __reduce__(self) -> Any:
        return Stuck, ()


def test_a_job_that_does_not_come_to_rest_is_shown_with_its_stack() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        env.from_source(job.source("source"), NO_WATERMARKS, "source").process(Stuck()).sink_to(job.sink("out"))

    Stuck.release.clear()
    with JobHarness(program) as job:
        job.source("source").emit(1)
        job.timeout = 0.3
        with pytest.raises(TimeoutError, match=r"not come to rest within 0.3 s(.|\n)*process_element"):
            job.settle()
        Stuck.release.set()
        job.timeout = 60
        assert job.sink("out").take_values() == [1]


# -- what is refused ---------------------------------------------------------------------------------------------------------


def test_a_program_that_executes_itself_is_refused() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        echo(env, job)
        env.execute()

    with pytest.raises(InvalidProgramError, match=r"called execute\(\)"):
        JobHarness(program)


def test_a_program_that_does_not_end_is_named() -> None:
    def program(env: Environment, job: JobHarness) -> None:
        job.source("unused")
        env.from_source(ScriptedSource("other"), NO_WATERMARKS, "other").sink_to(job.sink("out"))

    with JobHarness(program) as job, pytest.raises(InvalidProgramError, match="sources that are not those of the harness"):
        job.finish()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda job: job.source("nothing"), r"no source 'nothing'; it has \['source'\]"),
        (lambda job: job.source("source", splits=2), "made with another type"),
        (lambda job: job.source("source", Types.LONG()), "made with another type"),
        (lambda job: job.sink("nothing"), r"no sink 'nothing'; it has \['out'\]"),
        (lambda job: job.source("source").emit(1, split=1), "has splits 0 to 0"),
        (lambda job: job.source("source").pause(-1), "can pause"),
        (lambda job: job.advance(-1), "time cannot go back"),
        (lambda job: job.play([step.LoseHeap()]), "a step for the harness of an operator"),
    ],
)
def test_what_cannot_be_is_refused(wrong: Callable[[JobHarness], Any], message: str) -> None:
    with JobHarness(echo) as job, pytest.raises(InvalidArgumentError, match=message):
        wrong(job)


def test_another_engine_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'local' or 'spark'"):
        JobHarness(echo, engine="flink")


def test_a_closed_harness_is_refused() -> None:
    with JobHarness(echo) as job:
        pass
    with pytest.raises(InvalidArgumentError, match="closed"):
        job.settle()
