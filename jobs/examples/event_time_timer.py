"""Timers in event time: a machine that sends nothing for five seconds is reported, at the time of its last message plus five.

Run it with `python jobs/examples/event_time_timer.py [-Dexecution.engine=local]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinkish.common import Duration, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flinkish.datastream.state import ValueStateDescriptor

SILENCE_MS = 5_000

#: Time in milliseconds, machine, temperature; a little out of order.
MESSAGES = [
    (1_000, "press", 61.0), (2_500, "saw", 35.5), (4_000, "press", 63.0), (3_200, "drill", 44.0), (9_500, "saw", 36.0),
    (8_100, "drill", 45.5), (12_000, "drill", 47.0), (11_300, "saw", 36.5), (13_000, "drill", 48.0),
]  # fmt: skip


class MessageTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


class Silence(KeyedProcessFunction):
    """Sets a timer for each message; the timer of the last message finds that no other message has followed."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest message", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.latest.update(max(ctx.timestamp(), self.latest.value() or 0))
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + SILENCE_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[tuple[str, int]]:
        if timestamp == self.latest.value() + SILENCE_MS:
            yield ctx.get_current_key(), timestamp


def silent_machines(env: StreamExecutionEnvironment) -> DataStream:
    """Return silent machines with the time when the silence was noticed, ordered by that time."""
    messages = env.from_collection(MESSAGES, Types.TUPLE([Types.LONG(), Types.STRING(), Types.DOUBLE()]))
    two_seconds_late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
    timed = messages.assign_timestamps_and_watermarks(two_seconds_late.with_timestamp_assigner(MessageTime()))
    return timed.key_by(lambda message: message[1]).process(Silence())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    silent_machines(env).print()
    env.execute("Timers")


if __name__ == "__main__":
    main()
