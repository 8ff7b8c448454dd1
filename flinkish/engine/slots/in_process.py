"""Runs the levels of an epoch if all slots are in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from flinkish.runtime.protocol import EpochCommand, Frame, LevelResult
from flinkish.runtime.slot import SlotTask


def run_levels(
    slots: Sequence[SlotTask],
    levels: Iterable[int],
    command: EpochCommand,
    states: dict[tuple[int, int], bytes],
    *,
    frames: Iterable[Frame] = (),
    leaving: Collection[int] = (),
) -> Iterator[LevelResult]:
    """Run an epoch level by level, each level slot by slot, and yield the results; the caller may stop early.

    `states` has the state of each level and slot from epoch to epoch, except for level 0, whose state is in the command. `frames`
    come from outside; frames of `leaving` edges go outside, and are only in the results.

    On Spark, the query does this: its plan has the levels, its shuffles transport the frames, its groups store the state.
    """
    waiting: defaultdict[tuple[int, int], list[Frame]] = defaultdict(list)
    for frame in frames:
        waiting[frame.level, frame.slot].append(frame)
    for level in levels:
        for index, slot in enumerate(slots):
            address = level, index
            result = slot.run_level(level, command, states.get(address), waiting.pop(address, ()))
            if level > 0:
                states[address] = result.state
            yield result
            for frame in result.frames:
                if frame.edge not in leaving:
                    waiting[frame.level, frame.slot].append(frame)
