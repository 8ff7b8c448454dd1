"""Keyed state: a value for each key, which expires when it has not been used for a while.

Run it with `python jobs/examples/state_access.py [-Dexecution.engine=local]`.
"""

from __future__ import annotations

from collections.abc import Iterator

from flinkish.common import Time, Types
from flinkish.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flinkish.datastream.state import StateTtlConfig, ValueStateDescriptor

TRIPS = [
    ("van", 12.4), ("bike", 3.3), ("van", 7.1), ("bike", 2.05), ("truck", 180.0), ("van", 33.3), ("bike", 1.7), ("truck", 95.5),
]  # fmt: skip


class Odometer(KeyedProcessFunction):
    """Adds up the kilometres of each vehicle."""

    def open(self, runtime_context: RuntimeContext) -> None:
        unused_for_an_hour = (
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .disable_cleanup_in_background()
            .build()
        )
        descriptor = ValueStateDescriptor("kilometres", Types.FLOAT())
        descriptor.enable_time_to_live(unused_for_an_hour)
        self.kilometres = runtime_context.get_state(descriptor)

    def process_element(self, value: tuple[str, float], ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, float]]:
        kilometres = (self.kilometres.value() or 0.0) + value[1]
        self.kilometres.update(kilometres)
        yield ctx.get_current_key(), kilometres


def odometers(env: StreamExecutionEnvironment) -> DataStream:
    """Return the distance of each vehicle so far, after each trip. Trips are FLOAT, 32 bits, as the printed digits show."""
    trips = env.from_collection(TRIPS, Types.TUPLE([Types.STRING(), Types.FLOAT()]))
    return trips.key_by(lambda trip: trip[0]).process(Odometer())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    odometers(env).print()
    env.execute("State")


if __name__ == "__main__":
    main()
