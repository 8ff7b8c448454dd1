"""A job with one operator of each kind that keeps something: windows, joins, calls, broadcast and operator state.

At every moment there are open windows, records that wait for a partner, timers and lists of each kind. What comes out is a
function of the input alone, computed here once more in plain Python. Run as a process of its own; one call of the asynchronous
function can be told to last for ever, so that the job can be killed while it is under way.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flinkish.common import Duration, Time, Types, WatermarkStrategy
from flinkish.datastream import AsyncDataStream, AsyncFunction, DataStream, StreamExecutionEnvironment, TimeWindow
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkish.datastream.window_join import CoGroupFunction
from tests.recovery.folder_sink import FolderSink
from tests.recovery.keyed_timers_job import KEYS, Tenth
from tests.recovery.ledgers import Census, Ledger
from tests.recovery.mains import job_environment, job_parser

RECORDS = 600
LONG = Types.LONG()
#: Milliseconds between two numbers.
_STEP = 100
_TUMBLING, _SIZE, _SLIDE, _GAP, _ALL, _JOINED = 3_000, 5_000, 1_000, 2_000, 2_000, 2_000
_LOWER, _UPPER = -700, 1_400
#: Later than any record.
_END = 10**15
_RULES = MapStateDescriptor("rules", LONG, LONG)

Row = tuple[Any, ...]


class Statistics(AggregateFunction):
    """Number and sum of the records."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Framed(ProcessWindowFunction[Any, Any, int, TimeWindow]):
    """(name, key, start, end, how often windows of the key have fired, contents sorted)"""

    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, key: int, context: Any, elements: Iterable[Any]) -> Iterator[Row]:
        fired = context.global_state().get_state(ValueStateDescriptor("fired", LONG))
        fired.update((fired.value() or 0) + 1)
        window = context.window()
        yield self.name, key, window.start, window.end, fired.value(), *sorted(elements)


class Pair(ProcessJoinFunction):
    def process_element(self, left: int, right: int, ctx: ProcessJoinFunction.Context) -> Iterator[Row]:
        yield "interval join", left, right


class Both(CoGroupFunction):
    def co_group(self, first: Iterable[int], second: Iterable[int]) -> Iterator[Row]:
        yield "co_group", sorted(first), sorted(second)


class CountBesideRules(KeyedBroadcastProcessFunction):
    """Counts the records of each key and, in broadcast state, those of each rule; a timer tells both when all has ended."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", LONG))

    def process_element(self, value: int, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(_END)

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        rules = ctx.get_broadcast_state(_RULES)
        rules.put(value % 9, (rules.get(value % 9) or 0) + 1)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Row]:
        rules = ctx.get_broadcast_state(_RULES)
        yield "broadcast", ctx.get_current_key(), self.count.value(), *(rules.get(rule) for rule in range(9))


class Square(AsyncFunction):
    """The call for the number `at` never ends, the first time in the whole life of the job: when `held` is not there yet."""

    def __init__(self, held: Path | None, at: int) -> None:
        self.held = held
        self.at = at

    async def async_invoke(self, value: int) -> list[Row]:
        if value == self.at and self.held is not None and not self.held.exists():
            self.held.touch()
            await asyncio.Event().wait()
        # So that an epoch is long enough for a checkpoint to be due.
        await asyncio.sleep(0.001)
        return [("async", value, value * value)]


class AddUp(ProcessWindowFunction[Any, Any, int, TimeWindow]):
    """What a changed program makes of the windows: only sums."""

    def process(self, key: int, context: Any, elements: Iterable[Any]) -> Iterator[Row]:
        for count, total in elements:
            yield "changed", key, context.window().start, count, total


def by_key(stream: DataStream) -> KeyedStream:
    return stream.key_by(lambda value: value % KEYS, LONG)


def active(number: int) -> bool:
    """Of each six seconds the last two are silent, so that sessions end."""
    return number * _STEP % 6_000 < 4_000


def build(
    env: StreamExecutionEnvironment, output: Path, records: int = RECORDS, held: Path | None = None, *, changed: bool = False
) -> None:
    """Add the job to an environment. `changed`: a later version of it, with another function for the tumbling windows."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(Tenth())
    numbers = env.from_source(NumberSequenceSource(0, records - 1), strategy, "numbers").uid("numbers")
    rules = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "rules").uid("rules")
    keyed = by_key(numbers)
    milliseconds = Time.milliseconds

    tumbling = keyed.window(TumblingEventTimeWindows.of(milliseconds(_TUMBLING))).allowed_lateness(2_000)
    sliding = keyed.window(SlidingEventTimeWindows.of(milliseconds(_SIZE), milliseconds(_SLIDE)))
    sessions = by_key(numbers.filter(active)).window(EventTimeSessionWindows.with_gap(milliseconds(_GAP)))
    totals = numbers.window_all(TumblingEventTimeWindows.of(milliseconds(_ALL))).reduce(lambda a, b: a + b, output_type=LONG)
    left, right = numbers.filter(lambda number: number % 2 == 0), numbers.filter(lambda number: number % 3 == 0)
    join = by_key(left).interval_join(by_key(right)).between(milliseconds(_LOWER), milliseconds(_UPPER))
    windows = left.co_group(right).where(lambda number: number % KEYS, LONG).equal_to(lambda number: number % KEYS)
    accumulator = Types.TUPLE([LONG, LONG])
    frame = AddUp() if changed else Framed("tumbling")
    results = [
        tumbling.aggregate(Statistics(), frame, accumulator).uid("tumbling"),
        sliding.aggregate(Statistics(), Framed("sliding"), accumulator).uid("sliding"),
        sliding.process(Framed("sliding lists")).uid("sliding lists"),
        sessions.process(Framed("sessions")).uid("sessions"),
        totals.uid("totals").map(lambda total: ("totals", total)),
        join.process(Pair()).uid("interval join"),
        windows.window(TumblingEventTimeWindows.of(milliseconds(_JOINED))).apply(Both()).uid("co_group"),
        keyed.connect(rules.broadcast(_RULES)).process(CountBesideRules()).uid("broadcast"),
        AsyncDataStream.unordered_wait(numbers, Square(held, records // 4), Time.seconds(60), 5).uid("async"),
    ]
    results[0].union(*results[1:]).sink_to(FolderSink(output / "rows")).uid("rows")
    numbers.add_sink(Ledger(output / "ledger")).uid("ledger")
    numbers.broadcast().add_sink(Census(output / "census")).uid("census")


#: Operators of which every checkpoint in the middle of the job holds something.
STATEFUL = {
    "tumbling",
    "sliding",
    "sliding lists",
    "sessions",
    "totals",
    "interval join",
    "co_group",
    "broadcast",
    "ledger",
    "census",
}


def expected(records: int = RECORDS) -> list[Row]:
    """Return all rows of an uninterrupted run."""
    numbers = range(records)
    evens, thirds = [n for n in numbers if n % 2 == 0], [n for n in numbers if n % 3 == 0]
    rows: list[Row] = []
    rows += _framed("tumbling", _windows(numbers, _TUMBLING, _TUMBLING), _counted)
    rows += _framed("sliding", _windows(numbers, _SIZE, _SLIDE), _counted)
    rows += _framed("sliding lists", _windows(numbers, _SIZE, _SLIDE), list)
    rows += _framed("sessions", _sessions(filter(active, numbers)), list)
    totals: dict[int, int] = defaultdict(int)
    for number in numbers:
        totals[number * _STEP // _ALL] += number
    rows += [("totals", total) for total in totals.values()]
    rows += [
        ("interval join", one, other)
        for one in evens
        for other in thirds
        if one % KEYS == other % KEYS and _LOWER <= (other - one) * _STEP <= _UPPER
    ]
    first, second = _windows(evens, _JOINED, _JOINED), _windows(thirds, _JOINED, _JOINED)
    rows += [("co_group", first.get(window, []), second.get(window, [])) for window in first.keys() | second.keys()]
    rules = [len(range(rule, records, 9)) for rule in range(9)]
    rows += [("broadcast", key, len(range(key, records, KEYS)), *rules) for key in range(KEYS)]
    rows += [("async", number, number * number) for number in numbers]
    return rows


#: Key, start, end -> numbers.
_Contents = dict[tuple[int, int, int], list[int]]


def _windows(numbers: Iterable[int], size: int, slide: int) -> _Contents:
    contents: _Contents = defaultdict(list)
    for number in numbers:
        time = number * _STEP
        for start in range(time - time % slide, time - size, -slide):
            contents[number % KEYS, start, start + size].append(number)
    return contents


def _sessions(numbers: Iterable[int]) -> _Contents:
    contents: _Contents = {}
    last: dict[int, tuple[int, int, int]] = {}
    for number in numbers:
        key, time = number % KEYS, number * _STEP
        before = last.get(key)
        if before is not None and time <= before[2]:
            contents[key, before[1], time + _GAP] = [*contents.pop(before), number]
            last[key] = key, before[1], time + _GAP
        else:
            last[key] = key, time, time + _GAP
            contents[last[key]] = [number]
    return contents


def _counted(numbers: list[int]) -> list[Any]:
    return [(len(numbers), sum(numbers))]


def _framed(name: str, contents: _Contents, fold: Callable[[list[int]], list[Any]]) -> Iterator[Row]:
    fired: dict[int, int] = defaultdict(int)
    for key, start, end in sorted(contents, key=lambda window: window[2]):
        fired[key] += 1
        yield name, key, start, end, fired[key], *fold(contents[key, start, end])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = job_parser()
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--held", type=Path)
    given = parser.parse_args(arguments)
    # So that there are some epochs, each with a checkpoint.
    env = job_environment(given, 15 if given.engine == "local" else 60)
    build(env, given.output, given.records, given.held)
    env.execute("every operator")


if __name__ == "__main__":
    main()
