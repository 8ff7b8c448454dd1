"""Keyed state of all kinds, on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Row, Time, Types
from flinkish.common.errors import JobExecutionError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.functions import (
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from flinkish.datastream.state import (
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests.conftest import locally
from tests.kit.functions import CountByKey
from tests.kit.results import collect

RECORDS = [("a", 1), ("b", 10), ("a", 2), ("b", 20), ("a", 3)]


def run(env: StreamExecutionEnvironment, function: KeyedProcessFunction, records: list[Any] = RECORDS) -> list[Any]:
    stream = env.from_collection(records).key_by(lambda value: value[0], key_type=Types.STRING())
    return sorted(collect(stream.process(function)))


def test_keys_are_equal_by_what_they_hold_however_python_compares_them(env: StreamExecutionEnvironment) -> None:
    keys = {
        "path": lambda number: Path("a") / "b" if number % 2 else Path("a/b"),
        "nan": lambda number: (1, float("nan")),
        "row": lambda number: Row(a=1, b=2),
    }
    stream = env.from_collection([(name, number) for number in range(4) for name in keys])
    counted = stream.key_by(lambda value: keys[value[0]](value[1])).process(CountByKey())
    expected = [(key, count) for key in ("(1, nan)", "PosixPath('a/b')", "Row(a=1, b=2)") for count in range(1, 5)]
    assert sorted(collect(counted)) == expected


def test_map_state_is_a_dictionary_for_each_key(env: StreamExecutionEnvironment) -> None:
    class Remember(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.state = runtime_context.get_map_state(MapStateDescriptor("state", Types.INT(), Types.STRING()))

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            number = value[1]
            self.state.put(number, f"n{number}")
            if number == 2:
                self.state.remove(1)
            yield value[0], sorted(self.state.items()), self.state.get(99), 3 in self.state

    assert run(env, Remember()) == [
        ("a", [(1, "n1")], None, False),
        ("a", [(2, "n2")], None, False),
        ("a", [(2, "n2"), (3, "n3")], None, True),
        ("b", [(10, "n10")], None, False),
        ("b", [(10, "n10"), (20, "n20")], None, False),
    ]


@locally
def test_keyed_state_without_a_key_is_refused_by_name(env: StreamExecutionEnvironment) -> None:
    class Wrong(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(JobExecutionError, match="keyed stream"):
        collect(env.from_collection([1]).map(Wrong()))


def test_expired_values_are_not_seen(env: StreamExecutionEnvironment) -> None:
    descriptor = ValueStateDescriptor("short", Types.INT())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(200)).build())

    class Expire(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.state = runtime_context.get_state(descriptor)

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            self.state.update(value[1])
            service = ctx.timer_service()
            service.register_processing_time_timer(service.current_processing_time() + 400)
            yield "now", self.state.value()

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
            yield "later", self.state.value()

    from flinkish.common import WatermarkStrategy
    from flinkish.datastream.connectors.datagen import DataGeneratorSource

    source = DataGeneratorSource(lambda index: ("k", 7), count=None, records_per_second=0.01)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "one").key_by(lambda value: value[0]).process(Expire())
    with stream.execute_and_collect() as results:
        assert [next(results), next(results)] == [("now", 7), ("later", None)]
