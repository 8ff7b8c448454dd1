"""PyFlink's self-contained example programs, written anew; what they print is what PyFlink 2.3.0 prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flinkish.common import Duration, Time, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import StateTtlConfig, ValueStateDescriptor
from tests.conftest import MakeEnvironment

PEOPLE = [
    (1, '{"name": "Flink", "tel": 123, "addr": {"country": "Germany", "city": "Berlin"}}'),
    (2, '{"name": "hello", "tel": 135, "addr": {"country": "China", "city": "Shanghai"}}'),
    (3, '{"name": "world", "tel": 124, "addr": {"country": "USA", "city": "NewYork"}}'),
    (4, '{"name": "PyFlink", "tel": 32, "addr": {"country": "China", "city": "Hangzhou"}}'),
]


@pytest.fixture
def env(make_env: MakeEnvironment) -> StreamExecutionEnvironment:
    return make_env(parallelism=1)


def printed(stream: Any, env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]) -> list[str]:
    stream.print()
    env.execute()
    return capsys.readouterr().out.splitlines()


def test_basic_operations(env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    people = env.from_collection(PEOPLE, Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()]))

    def one_more(person: Any) -> Any:
        info = json.loads(person.info)
        info["tel"] += 1
        return person.id, json.dumps(info)

    def country_and_number(person: Any) -> Any:
        info = json.loads(person.info)
        return info["addr"]["country"], info["tel"]

    # three programs on one environment, each from the same source
    assert printed(people.map(one_more), env, capsys) == [
        """(1, '{"name": "Flink", "tel": 124, "addr": {"country": "Germany", "city": "Berlin"}}')""",
        """(2, '{"name": "hello", "tel": 136, "addr": {"country": "China", "city": "Shanghai"}}')""",
        """(3, '{"name": "world", "tel": 125, "addr": {"country": "USA", "city": "NewYork"}}')""",
        """(4, '{"name": "PyFlink", "tel": 33, "addr": {"country": "China", "city": "Hangzhou"}}')""",
    ]
    assert printed(people.filter(lambda person: person.id == 1).map(one_more), env, capsys) == [
        """(1, '{"name": "Flink", "tel": 124, "addr": {"country": "Germany", "city": "Berlin"}}')"""
    ]
    assert printed(people.map(country_and_number).key_by(lambda pair: pair[0]).sum(1), env, capsys) == [
        "('Germany', 123)",
        "('China', 135)",
        "('USA', 124)",
        "('China', 167)",
    ]


def test_process_json_data(env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    def one_more(person: Any) -> Any:
        info = json.loads(person[1])
        info["tel"] += 1
        return person[0], info

    chinese = env.from_collection(PEOPLE).map(one_more).filter(lambda person: "China" in person[1]["addr"]["country"])
    assert printed(chinese, env, capsys) == [
        "(2, {'name': 'hello', 'tel': 136, 'addr': {'country': 'China', 'city': 'Shanghai'}})",
        "(4, {'name': 'PyFlink', 'tel': 33, 'addr': {'country': 'China', 'city': 'Hangzhou'}})",
    ]


class SumOf(KeyedProcessFunction):
    """Adds up in a FLOAT state that lives for a second after it was last used."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("state", Types.FLOAT())
        descriptor.enable_time_to_live(
            StateTtlConfig.new_builder(Time.seconds(1))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .disable_cleanup_in_background()
            .build()
        )
        self.state = runtime_context.get_state(descriptor)

    def add(self, amount: float) -> float:
        total = (self.state.value() or 0) + amount
        self.state.update(total)
        return total


class Running(SumOf):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        yield value[0], self.add(value[1])


def test_state_access(env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    payments = [
        ("Alice", 110.1), ("Bob", 30.2), ("Alice", 20.0), ("Bob", 53.1),
        ("Alice", 13.1), ("Bob", 3.1), ("Bob", 16.1), ("Alice", 20.1),
    ]  # fmt: skip
    stream = env.from_collection(payments, Types.TUPLE([Types.STRING(), Types.FLOAT()]))
    # FLOAT input comes with the rounding of 32 bits, and the sums in state are not rounded again.
    assert printed(stream.key_by(lambda payment: payment[0]).process(Running()), env, capsys) == [
        "('Alice', 110.0999984741211)",
        "('Bob', 30.200000762939453)",
        "('Alice', 130.0999984741211)",
        "('Bob', 83.29999923706055)",
        "('Alice', 143.19999885559082)",
        "('Bob', 86.39999914169312)",
        "('Bob', 102.49999952316284)",
        "('Alice', 163.29999923706055)",
    ]


class TwoSecondsLater(SumOf):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.add(value[2])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield ctx.get_current_key(), self.state.value()


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


def test_event_time_timer(env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    payments = [
        (1000, "Alice", 110.1), (4000, "Bob", 30.2), (3000, "Alice", 20.0), (2000, "Bob", 53.1),
        (5000, "Alice", 13.1), (3000, "Bob", 3.1), (7000, "Bob", 16.1), (10000, "Alice", 20.1),
    ]  # fmt: skip
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(FirstField())
    stream = env.from_collection(payments, Types.TUPLE([Types.LONG(), Types.STRING(), Types.FLOAT()]))
    stream = stream.assign_timestamps_and_watermarks(strategy)
    # A short input is read to its end before the first watermark: each timer sees the final sum, in the order of time.
    alice, bob = "('Alice', 163.29999923706055)", "('Bob', 102.49999952316284)"
    lines = printed(stream.key_by(lambda payment: payment[1]).process(TwoSecondsLater()), env, capsys)
    assert lines == [alice, bob, alice, bob, bob, alice, bob, alice]
