"""Input gates: order of channels, combined watermarks, idleness, alignment of barriers."""

from __future__ import annotations

from typing import Any

from flinkish.common.clock import ManualClock
from flinkish.common.ids import CheckpointId
from flinkish.runtime.elements import CheckpointBarrier, EndOfInput, Records, Watermark, WatermarkStatus
from flinkish.runtime.gate import InputChannel, InputGate
from flinkish.runtime.protocol import MAX_WATERMARK, Barrier


class Listener:
    """Notes what a gate says, in order."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []

    def on_records(self, input_index: int, records: Records) -> None:
        self.said.append(("records", input_index, *records.values))

    def on_watermark(self, timestamp: int) -> None:
        self.said.append(("watermark", timestamp))

    def on_status(self, idle: bool) -> None:
        self.said.append(("idle" if idle else "active",))

    def on_barrier(self, barrier: Barrier) -> None:
        self.said.append(("barrier", barrier.checkpoint_id))

    def on_end_of_input(self, input_index: int) -> None:
        self.said.append(("end", input_index))


def barrier(checkpoint_id: int) -> CheckpointBarrier:
    return CheckpointBarrier(Barrier(checkpoint_id=CheckpointId(checkpoint_id), timestamp=0, directory="d", root="r"))


def run(*channels: list[Any], inputs: tuple[int, ...] = ()) -> list[tuple[Any, ...]]:
    gate = InputGate(
        InputChannel(edge=0, sender=sender, input_index=inputs[sender] if inputs else 0) for sender in range(len(channels))
    )
    for sender, elements in enumerate(channels):
        gate.offer(0, sender, elements)
    listener = Listener()
    gate.process(listener)
    return listener.said


def records(*values: Any) -> Records:
    return Records(list(values), None, None)


def test_the_watermark_is_the_least_of_all_channels() -> None:
    assert run([Watermark(5)], [Watermark(3)]) == [("watermark", 3)]


def test_no_watermark_is_emitted_until_every_channel_has_one() -> None:
    assert run([Watermark(5)], []) == []


def test_a_watermark_never_goes_backwards() -> None:
    assert run([Watermark(5), Watermark(3), Watermark(6)]) == [("watermark", 5), ("watermark", 6)]


def test_an_idle_channel_does_not_hold_back_the_watermark() -> None:
    assert run([Watermark(5)], [WatermarkStatus(True)]) == [("watermark", 5)]


def test_a_gate_is_idle_when_all_channels_are_and_active_with_the_first_that_is() -> None:
    gate = InputGate(InputChannel(edge=0, sender=sender, input_index=0) for sender in range(2))
    listener = Listener()
    for sender, element in ((0, WatermarkStatus(True)), (1, WatermarkStatus(True)), (0, Watermark(7))):
        gate.offer(0, sender, [element])
        gate.process(listener)
    assert listener.said == [("idle",), ("active",), ("watermark", 7)]


def test_when_the_last_channel_turns_idle_the_highest_watermark_counts() -> None:
    assert run([Watermark(5), WatermarkStatus(True)], [Watermark(3), WatermarkStatus(True)]) == [
        ("watermark", 3),
        ("watermark", 5),
        ("idle",),
    ]


def test_the_channel_with_the_lowest_watermark_goes_first() -> None:
    said = run([Watermark(10), records("late in time")], [Watermark(1), records("a"), Watermark(20), records("b")])
    assert said == [("watermark", 1), ("records", 0, "a"), ("watermark", 10), ("records", 0, "late in time"), ("records", 0, "b")]


def test_records_behind_a_barrier_wait_until_all_channels_delivered_it() -> None:
    said = run([barrier(1), records("after")], [records("before"), barrier(1)])
    assert said == [("records", 0, "before"), ("barrier", 1), ("records", 0, "after")]


def test_a_barrier_aligns_over_both_inputs() -> None:
    said = run([barrier(1), records("x")], [records("y"), barrier(1)], inputs=(0, 1))
    assert said == [("records", 1, "y"), ("barrier", 1), ("records", 0, "x")]


def test_the_alignment_is_as_long_as_what_comes_between_the_first_barrier_and_the_last() -> None:
    clock = ManualClock()
    gate = InputGate((InputChannel(edge=0, sender=sender, input_index=0) for sender in range(3)), clock=clock)

    class Slow(Listener):
        def on_records(self, input_index: int, records: Records) -> None:
            clock.advance(records.values[0])

        def on_barrier(self, barrier: Barrier) -> None:
            self.said.append((barrier.checkpoint_id, gate.alignment_ms))

    listener = Slow()
    gate.offer(0, 0, [records(100), barrier(1), records(200)])
    gate.offer(0, 1, [records(30), barrier(1)])
    gate.offer(0, 2, [records(4), barrier(1)])
    gate.process(listener)
    for sender in range(3):
        gate.offer(0, sender, [barrier(2)])
    gate.process(listener)
    assert listener.said == [(1, 34), (2, 0)]


def test_channels_that_miss_a_barrier_are_named() -> None:
    gate = InputGate(InputChannel(edge=0, sender=sender, input_index=0) for sender in range(2))
    gate.offer(0, 0, [barrier(1)])
    gate.process(Listener())
    assert gate.unaligned() == [(0, 0)]


def test_an_input_ends_when_all_its_channels_have() -> None:
    said = run([EndOfInput()], [Watermark(MAX_WATERMARK), EndOfInput()], [records(1)], inputs=(0, 0, 1))
    assert said == [("records", 1, 1), ("end", 0)]


def test_a_barrier_may_come_after_the_end_of_input() -> None:
    assert run([EndOfInput(), barrier(3)]) == [("end", 0), ("barrier", 3)]


def test_an_input_ends_once_even_if_a_channel_says_so_again() -> None:
    assert run([EndOfInput(), EndOfInput()], [EndOfInput()], inputs=(0, 1)) == [("end", 0), ("end", 1)]


def test_watermarks_idleness_and_ends_live_on_in_another_process() -> None:
    gate = InputGate(InputChannel(edge=0, sender=sender, input_index=0) for sender in range(2))
    gate.offer(0, 0, [Watermark(5)])
    gate.offer(0, 1, [Watermark(9), WatermarkStatus(True), EndOfInput()])
    gate.process(Listener())
    other = InputGate(InputChannel(edge=0, sender=sender, input_index=0) for sender in range(2))
    other.load(gate.dump(), gate.watermark)
    listener = Listener()
    other.offer(0, 0, [Watermark(4), Watermark(6), EndOfInput()])
    other.process(listener)
    assert listener.said == [("watermark", 6), ("end", 0)]


def test_a_restored_gate_does_not_repeat_watermarks_below_the_one_it_had() -> None:
    gate = InputGate([InputChannel(edge=0, sender=0, input_index=0)])
    gate.load([], 50)
    gate.offer(0, 0, [Watermark(40), Watermark(60)])
    listener = Listener()
    gate.process(listener)
    assert listener.said == [("watermark", 60)]
