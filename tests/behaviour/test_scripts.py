"""One script, both engines, the same outputs: also in virtual time, and through crashes and restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.job_status import JobStatus
from flinkish.common.time import Time
from flinkish.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, StreamExecutionEnvironment
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.testing import CrashPoint, JobHarness, StreamRecord
from flinkish.testing import steps as step
from tests.kit.restarts import restarting

MakeJob = Callable[..., JobHarness]
NO_WATERMARKS = WatermarkStrategy.no_watermarks()
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
LATE = OutputTag("late", PAIR)
HOUR = 3_600_000


class Reminder(KeyedProcessFunction):
    """Counts records, and emits the count one hour of processing time after each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 1)
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + HOUR)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield ctx.get_current_key(), self.count.value(), ctx.timer_service().current_processing_time()


def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
    pairs = env.from_source(job.source("pairs", PAIR, splits=2), NO_WATERMARKS, "pairs")
    keyed = pairs.key_by(lambda pair: pair[0], Types.STRING())
    keyed.process(Reminder()).sink_to(job.sink("reminders"))
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).side_output_late_data(LATE)
    sums = windows.reduce(lambda a, b: (a[0], a[1] + b[1]))
    sums.sink_to(job.sink("sums"))
    sums.get_side_output(LATE).sink_to(job.sink("late"))


def test_a_script_gives_the_same_outputs_through_a_crash_and_at_another_parallelism(flinkish_job: MakeJob) -> None:
    job = flinkish_job(program, parallelism=2, start_time=1_000)
    pairs, sums, late, reminders = job.source("pairs"), job.sink("sums"), job.sink("late"), job.sink("reminders")
    pairs.emit(("a", 1), 3, split=0)
    pairs.emit(("b", 2), 5, split=1)
    pairs.watermark(12, split=0)
    assert sums.take_output() == []
    pairs.idle(split=1)
    sums.assert_output(StreamRecord(("a", 1), 9), StreamRecord(("b", 2), 9))
    pairs.emit(("a", 10), 9, split=0)
    pairs.emit(("a", 4), 15, split=0)
    late.assert_output(StreamRecord(("a", 10), 9))
    job.advance(HOUR - 1)
    assert reminders.take_output() == []

    job.crash(CrashPoint.BEFORE_SINK_COMMIT)
    sums.assert_committed(("a", 1), ("b", 2))
    late.assert_committed(("a", 10))
    # Timers that were set an hour ago fire on time in the restarted job.
    job.advance(1)
    reminders.assert_output(("a", 3, 1_000 + HOUR), ("b", 1, 1_000 + HOUR))
    pairs.emit(("b", 5), 16, split=1)
    job.checkpoint()

    job.restart(parallelism=3)
    pairs.emit(("b", 6), 17, split=1)
    job.advance(HOUR)
    reminders.assert_output(("b", 3, 1_000 + 2 * HOUR))
    job.finish()
    sums.assert_committed(
        StreamRecord(("a", 1), 9), StreamRecord(("b", 2), 9), StreamRecord(("a", 4), 19), StreamRecord(("b", 11), 19)
    )
    reminders.assert_committed(("a", 3, 1_000 + HOUR), ("b", 1, 1_000 + HOUR), ("b", 3, 1_000 + 2 * HOUR))


def test_steps_as_data_with_a_failure_a_pause_and_a_savepoint(flinkish_job: MakeJob) -> None:
    settings = restarting(1, "10 s")
    job = flinkish_job(program, parallelism=2, settings=settings)
    script = [
        step.MarkIdle("pairs", split=1),
        step.Emit(("a", 1), 3, "pairs"),
        step.TakeCheckpoint(),
        step.Emit(("a", 2), 4, "pairs"),
        step.Fail("the disk is gone", "pairs"),
        step.Emit(("a", 4), 5, "pairs"),
        step.EmitWatermark(12, "pairs"),
        step.Settle(),
    ]
    job.play(script)
    assert job.client.get_job_status().result() is JobStatus.RESTARTING
    job.play([step.Advance(10_000), step.Pause(500, "pairs"), step.Emit(("a", 8), 21, "pairs")])
    job.sink("sums").assert_output(StreamRecord(("a", 7), 9))
    job.advance(499)
    job.source("pairs").end(split=1)
    assert job.sink("sums").take_output() == []
    job.advance(1)
    path = job.stop(drain=True)
    job.sink("sums").assert_committed(StreamRecord(("a", 7), 9), StreamRecord(("a", 8), 29))
    assert job.client.get_job_status().result() is JobStatus.FINISHED
    assert path
