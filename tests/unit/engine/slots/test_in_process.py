"""Where all slots are in one process, their levels run in order, and each frame comes to the level and slot it is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flinkish.common.ids import AttemptId, Epoch
from flinkish.engine.slots.in_process import run_levels
from flinkish.runtime.protocol import EpochCommand, EpochReport, Frame, LevelResult

COMMAND = EpochCommand(attempt_id=AttemptId("a"), attempt_number=0, epoch=Epoch(0), processing_time=0)


class Scripted:
    """A slot that notes its calls and sends at each level what it was told to send."""

    def __init__(self, slot: int, calls: list[tuple[Any, ...]], sends: dict[tuple[int, int], list[Frame]]) -> None:
        self._slot, self._calls, self._sends = slot, calls, sends

    def run_level(self, level: int, command: EpochCommand, state: bytes | None, frames: Sequence[Frame]) -> LevelResult:
        self._calls.append((level, self._slot, state, [frame.body for frame in frames]))
        sent = tuple(self._sends.get((level, self._slot), ()))
        after = b"%d-%d" % (level, self._slot)
        return LevelResult(frames=sent, state=after, report=EpochReport(epoch=command.epoch, level=level, slot=self._slot))


@pytest.fixture
def calls() -> list[tuple[Any, ...]]:
    return []


def delivered(calls: list[tuple[Any, ...]]) -> dict[tuple[int, int], list[bytes]]:
    return {(level, slot): bodies for level, slot, _, bodies in calls if bodies}


def slots(calls: list[tuple[Any, ...]], sends: dict[tuple[int, int], list[Frame]] | None = None) -> Any:
    return [Scripted(slot, calls, sends or {}) for slot in range(2)]


def test_a_frame_comes_to_its_level_and_slot_also_past_a_level(calls: list[tuple[Any, ...]]) -> None:
    sends = {(0, 1): [Frame(0, 1, 7, 1, 0, b"next"), Frame(1, 2, 8, 1, 0, b"past")], (1, 0): [Frame(1, 2, 9, 0, 0, b"then")]}
    reports = [result.report for result in run_levels(slots(calls, sends), range(3), COMMAND, {})]
    assert [(report.level, report.slot) for report in reports] == [(level, slot) for level in range(3) for slot in range(2)]
    assert delivered(calls) == {
        (1, 0): [b"next"],
        (2, 1): [b"past", b"then"],
    }


def test_levels_get_back_the_state_they_gave_but_for_level_0_whose_state_is_in_the_command(calls: list[tuple[Any, ...]]) -> None:
    states: dict[tuple[int, int], bytes] = {}
    for _ in range(2):
        list(run_levels(slots(calls), range(2), COMMAND, states))
    first, second = calls[:4], calls[4:]
    assert [state for _, _, state, _ in first] == [None] * 4
    assert [state for _, _, state, _ in second] == [None, None, b"1-0", b"1-1"]


def test_frames_from_outside_come_in_and_those_of_leaving_edges_do_not(calls: list[tuple[Any, ...]]) -> None:
    sends = {(1, 0): [Frame(0, 2, 5, 0, 0, b"leaves"), Frame(0, 2, 6, 0, 0, b"stays")]}
    given = [Frame(1, 1, 3, 0, 0, b"given"), Frame(0, 2, 4, 0, 0, b"deep")]
    results = list(run_levels(slots(calls, sends), [1, 2], COMMAND, {}, frames=given, leaving={5}))
    assert delivered(calls) == {
        (1, 1): [b"given"],
        (2, 0): [b"deep", b"stays"],
    }
    assert [frame.body for result in results for frame in result.frames] == [b"leaves", b"stays"]


def test_an_epoch_that_is_not_gone_through_to_its_end_stops_there(calls: list[tuple[Any, ...]]) -> None:
    results = run_levels(slots(calls), range(2), COMMAND, {})
    next(results)
    results.close()
    assert [(level, slot) for level, slot, _, _ in calls] == [(0, 0)]
