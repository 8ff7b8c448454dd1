"""A program with state of all kinds, whose savepoints tests read and write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
import pytest

from flinkish.common import Row, Time, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.checkpoint import CheckpointedFunction
from flinkish.datastream.functions import (
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from flinkish.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinkish.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from flinkish.runtime.state.snapshot import SnapshotWriter
from flinkish.testing import JobHarness
from tests.kit.functions import Add, Mean


def declare_without_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have checkpoints written as by earlier versions, which did not store the types of states."""
    write = SnapshotWriter.declare

    def declare(self: SnapshotWriter, uid: str, name: str, declaration: Any) -> None:
        write(self, uid, name, msgspec.structs.replace(declaration, types=None, key_type=None))

    monkeypatch.setattr(SnapshotWriter, "declare", declare)


class Colour(Enum):
    RED = 1


@dataclass
class Cart:
    """A value that is pickled."""

    owner: str
    total: int


@dataclass
class Basket:
    """The name of a Cart in a later version of the program."""

    owner: str
    total: int
    currency: str = "EUR"


class Sum(Mean):
    """The sum, with the same accumulator."""

    def get_result(self, accumulator: tuple[int, int]) -> int:
        return accumulator[0]


LONG, TEXT = Types.LONG(), Types.STRING()
ORDER = Types.ROW_NAMED(["id", "tags"], [LONG, Types.LIST(TEXT)])


class Everything(KeyedProcessFunction):
    """Keeps each number in state of each kind, by its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        get = runtime_context
        self.total = get.get_state(ValueStateDescriptor("total", LONG))
        self.order = get.get_state(ValueStateDescriptor("order", ORDER))
        self.cart = get.get_state(ValueStateDescriptor("cart", Types.PICKLED_BYTE_ARRAY()))
        self.pair = get.get_state(ValueStateDescriptor("pair", Types.TUPLE([LONG, Types.PICKLED_BYTE_ARRAY()])))
        self.seen = get.get_list_state(ListStateDescriptor("seen", LONG))
        self.by_tag = get.get_map_state(MapStateDescriptor("by-tag", TEXT, LONG))
        self.sum = get.get_reducing_state(ReducingStateDescriptor("sum", Add(), LONG))
        self.average = get.get_aggregating_state(AggregatingStateDescriptor("average", Sum(), Types.TUPLE([LONG, LONG])))
        expiring = ValueStateDescriptor("expiring", LONG)
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.expiring = get.get_state(expiring)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        key = ctx.get_current_key()
        total = (self.total.value() or 0) + value
        self.total.update(total)
        self.order.update(Row(id=value, tags=[key, "x"]))
        self.cart.update(Cart(key, total))
        self.pair.update((total, Colour.RED))
        self.seen.add(value)
        self.by_tag.put(f"tag{value}", value)
        self.sum.add(value)
        self.average.add(value)
        self.expiring.update(value)
        ctx.timer_service().register_event_time_timer(1_000_000 + value)
        yield f"{key}={total}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield f"{ctx.get_current_key()}@{timestamp}"


class Operators(MapFunction, CheckpointedFunction):
    """Keeps numbers in lists of operator state."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def initialize_state(self, context: Any) -> None:
        self.kept = context.get_operator_state_store().get_list_state(ListStateDescriptor("kept", LONG))
        self.union = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("shared", LONG))
        self.seen = list(self.kept.get())

    def snapshot_state(self, context: Any) -> None:
        self.kept.update(self.seen)
        self.union.update(self.seen)

    def map(self, value: int) -> int:
        self.seen.append(value)
        return value


RULES = MapStateDescriptor("rules", TEXT, LONG)


class Ruled(KeyedBroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield sum(rule for _, rule in ctx.get_broadcast_state(RULES).items()) + value

    def process_broadcast_element(self, value: str, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, len(value))


def parity(number: int) -> str:
    return "odd" if number % 2 else "even"


def build(env: StreamExecutionEnvironment, job: JobHarness) -> None:
    """Numbers, one second apart, with a rule for each text."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number * 1000)
    numbers = env.from_source(job.source("numbers", LONG), strategy, "numbers").uid("numbers")
    numbers.map(Operators(), LONG).uid("operators").sink_to(job.sink("operators")).uid("operators-sink")
    keyed = numbers.key_by(parity, TEXT)
    keyed.process(Everything(), TEXT).uid("everything").sink_to(job.sink("everything")).uid("everything-sink")
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10)))
    windows.aggregate(Sum(), accumulator_type=Types.TUPLE([LONG, LONG])).uid("windows").sink_to(job.sink("windows"))
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(5)))
    sessions.reduce(Add()).uid("sessions").sink_to(job.sink("sessions"))
    untyped = numbers.key_by(lambda number: (number % 2, "k"))
    untyped.reduce(lambda a, b: a + b).uid("untyped").sink_to(job.sink("untyped"))
    rules = env.from_source(job.source("rules", TEXT), WatermarkStrategy.no_watermarks(), "rules").uid("rules").broadcast(RULES)
    keyed.connect(rules).process(Ruled(), LONG).uid("ruled").sink_to(job.sink("ruled"))


def savepoint_of(folder: Any, numbers: list[int], *, engine: str = "local", parallelism: int = 2, **settings: Any) -> str:
    """Run the program on some numbers and return a savepoint of it, signed by the key in the folder."""
    with JobHarness(build, engine=engine, parallelism=parallelism, settings=settings_of(folder, **settings)) as job:
        job.source("rules").emit_all(["ab", "abc"])
        job.settle()
        job.source("numbers").emit_all(numbers)
        return job.savepoint(str(folder / "savepoints"))


def settings_of(folder: Any, **settings: Any) -> dict[str, Any]:
    """Return the settings of jobs and readers that share the key in the folder."""
    return {"security.checkpoint.hmac-key-file": folder / "key", **settings}
