"""Joins against a plain model, with disorder, late records, lost heaps and other parallelisms."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flinkish.common import Time, Types
from flinkish.datastream import DataStream, OutputTag, ProcessJoinFunction
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.testing import TwoInputHarness
from flinkish.testing.steps import Emit, EmitWatermark, Restart, Step
from flinkish.testing.strategies import interleaved, operator_faults, streams, with_faults
from tests.models.testing.examples import examples

LONG_MIN = -(2**63)
SIDES = ["left", "right"]
RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])
LATE = {side: OutputTag(f"{side} late", RECORD) for side in SIDES}

#: Both sides, in any order; records are (key, number).
SCRIPTS = with_faults(
    interleaved(
        *(streams(st.integers(0, 9), keys=st.sampled_from("ab"), source=side, max_size=20, disorder=8, late=15) for side in SIDES)
    ),
    operator_faults(),
    max_faults=4,
)


class Watermarks:
    """The lower one of both inputs; a restored operator knows its own, but must hear those of its inputs again."""

    def __init__(self) -> None:
        self.inputs = dict.fromkeys(SIDES, LONG_MIN)
        self.current = LONG_MIN

    def see(self, step: Step) -> bool:
        """Take a step; returns whether the watermark rose."""
        match step:
            case EmitWatermark(timestamp=timestamp, source=side):
                self.inputs[side] = max(self.inputs[side], timestamp)
            case Restart():
                self.inputs = dict.fromkeys(SIDES, LONG_MIN)
        before, self.current = self.current, max(self.current, min(self.inputs.values()))
        return self.current > before


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield left, ctx.get_left_timestamp(), right, ctx.get_right_timestamp()


@examples(30)
@given(script=SCRIPTS, lower=st.integers(-10, 5), width=st.integers(0, 12))
def test_an_interval_join_pairs_what_is_near_enough_and_has_not_been_forgotten(
    script: list[Step], lower: int, width: int
) -> None:
    upper = lower + width
    #: How long after its time a record of each side may find a partner.
    kept = {"left": max(upper, 0), "right": max(-lower, 0)}

    def build(left: DataStream, right: DataStream) -> DataStream:
        one, two = (stream.key_by(lambda record: record[0], Types.STRING()) for stream in (left, right))
        join = one.interval_join(two).between(Time.milliseconds(lower), Time.milliseconds(upper))
        return join.side_output_left_late_data(LATE["left"]).side_output_right_late_data(LATE["right"]).process(Pairs())

    watermarks = Watermarks()
    held: dict[str, list[tuple[Any, int]]] = {side: [] for side in SIDES}
    with TwoInputHarness(build, RECORD, RECORD, side_outputs=LATE.values(), max_parallelism=8) as harness:
        for step in script:
            pairs: Counter[Any] = Counter()
            late: Counter[Any] = Counter()
            match step:
                case Emit(value=value, timestamp=int() as timestamp, source=side) if timestamp < watermarks.current:
                    late[side, value, timestamp] += 1
                case Emit(value=value, timestamp=int() as timestamp, source=side):
                    held[side].append((value, timestamp))
                    for partner, time in held["right" if side == "left" else "left"]:
                        left, right = ((value, timestamp), (partner, time))[:: 1 if side == "left" else -1]
                        if partner[0] == value[0] and lower <= right[1] - left[1] <= upper:
                            pairs[(*left, *right), max(timestamp, time)] += 1
            if watermarks.see(step):
                for side in SIDES:
                    held[side] = [record for record in held[side] if record[1] + kept[side] > watermarks.current]
            harness.play([step], SIDES)
            assert Counter(tuple(record) for record in harness.take_output()) == pairs, step
            found = [(side, *record) for side in SIDES for record in harness.take_output(LATE[side])]
            assert Counter(found) == late, step
        harness.end_inputs()
        assert harness.snapshot().entries() == ()


@examples(25)
@given(script=SCRIPTS, size=st.integers(1, 15))
def test_a_window_join_pairs_all_of_a_window_when_it_ends(script: list[Step], size: int) -> None:
    def build(left: DataStream, right: DataStream) -> DataStream:
        join = left.join(right).where(lambda record: record[0], Types.STRING()).equal_to(lambda record: record[0])
        windows = join.window(TumblingEventTimeWindows.of(Time.milliseconds(size)))
        return windows.apply(lambda one, two: (one, two), Types.TUPLE([RECORD, RECORD]))

    watermarks = Watermarks()
    #: By window's last millisecond, side and key.
    held: dict[int, dict[tuple[str, str], list[Any]]] = {}
    with TwoInputHarness(build, RECORD, RECORD, max_parallelism=8) as harness:
        for step in script:
            pairs: Counter[Any] = Counter()
            match step:
                case Emit(value=value, timestamp=int() as timestamp, source=side):
                    last = timestamp - timestamp % size + size - 1
                    if last > watermarks.current:
                        held.setdefault(last, {}).setdefault((side, value[0]), []).append(value)
            if watermarks.see(step):
                for last in [last for last in held if last <= watermarks.current]:
                    sides = held.pop(last)
                    for key in "ab":
                        for one in sides.get(("left", key), []):
                            pairs.update(((one, two), last) for two in sides.get(("right", key), []))
            harness.play([step], SIDES)
            assert Counter(tuple(record) for record in harness.take_output()) == pairs, step
