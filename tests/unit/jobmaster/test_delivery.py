from __future__ import annotations

from typing import Any

import pytest

from flinkish.common.errors import JobExecutionError
from flinkish.common.ids import Epoch, OperatorUid
from flinkish.jobmaster.delivery import Delivery, Results
from flinkish.program.sinks import COLLECT, PRINT
from flinkish.runtime.protocol import DriverValues, EpochReport


def ended(results: Results, error: BaseException | None = None) -> list[Any]:
    results.end(error)
    return list(results)


def sent(slot: int, destination: str, *values: Any) -> EpochReport:
    return EpochReport(
        epoch=Epoch(0),
        level=0,
        slot=slot,
        driver_values=(DriverValues(operator_uid=OperatorUid("s"), subtask=slot, destination=destination, values=values),),
    )


def test_without_checkpoints_values_are_there_at_once() -> None:
    results = Results(checkpointed=False)
    results.add([1, 2])
    iterator = iter(results)
    assert [next(iterator), next(iterator)] == [1, 2]


def test_with_checkpoints_only_what_a_complete_one_covers_is_handed_out() -> None:
    results = Results(checkpointed=True)
    results.add([1, 2])
    results.mark(1)
    results.add([3])
    results.mark(2)
    results.add([4])
    results.commit(1)
    results.commit(2)
    assert ended(results) == [1, 2, 3]


def test_a_checkpoint_covers_what_an_aborted_one_before_it_would_have() -> None:
    results = Results(checkpointed=True)
    results.add([1])
    results.mark(1)
    results.add([2])
    results.mark(2)
    results.commit(2)
    assert ended(results) == [1, 2]


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "in doubt"])
def test_a_restart_hands_out_what_its_checkpoint_covers_and_drops_what_is_computed_again(is_committed: bool) -> None:
    results = Results(checkpointed=True)
    results.add([1])
    results.mark(1)
    if is_committed:
        results.commit(1)
    results.add([2])
    results.restart(1)
    results.add([2])
    results.commit_all()
    assert ended(results) == [1, 2]


def test_without_checkpoints_a_restart_is_refused_once_a_value_was_taken() -> None:
    results = Results(checkpointed=False)
    results.add([1, 2])
    results.check_restart()
    results.add([1, 2])
    assert next(iter(results)) == 1
    with pytest.raises(JobExecutionError, match="enable_checkpointing"):
        results.check_restart()


def test_the_jobs_error_comes_behind_the_last_value() -> None:
    results = Results(checkpointed=False)
    results.add([1])
    results.end(JobExecutionError("boom"))
    iterator = iter(results)
    assert next(iterator) == 1
    with pytest.raises(JobExecutionError, match="boom"):
        next(iterator)


def test_sources_wait_for_a_slow_client_until_it_has_taken_half() -> None:
    results, rung = Results(checkpointed=False, most_waiting=4), []
    results.on_space = lambda: rung.append(len(results._ready))
    results.add(range(4))
    assert results.full
    iterator = iter(results)
    for _ in range(4):
        next(iterator)
    assert rung == [2]
    assert not results.full


def test_lines_are_printed_and_values_collected_in_the_order_of_the_slots() -> None:
    results, lines = Results(checkpointed=False), []
    delivered = Delivery(results, lines.extend)
    delivered.deliver([sent(1, PRINT, "b"), sent(0, PRINT, "a"), sent(2, COLLECT, 7)])
    assert lines == ["a", "b"]
    assert ended(results) == [7]


def test_a_channel_that_nobody_takes_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    delivered = Delivery(Results(checkpointed=False), lambda lines: None)
    for _ in range(3):
        delivered.deliver([sent(0, "own", 1)])
    assert [record.getMessage() for record in caplog.records] == ["Operator s sends values on channel 'own', which nobody takes."]


def test_further_channels_go_to_those_who_take_them() -> None:
    taken: list[tuple[int, tuple[Any, ...]]] = []
    delivered = Delivery(
        Results(checkpointed=False), lambda lines: None, {"own": lambda sent: taken.append((sent.subtask, sent.values))}
    )
    delivered.deliver([sent(1, "own", "b"), sent(0, "own", "a", "c")])
    assert taken == [(0, ("a", "c")), (1, ("b",))]


def test_collected_values_come_in_the_order_of_the_watermarks_before_them_then_of_the_slots() -> None:
    def of_slot(slot: int, *runs: tuple[int | None, str]) -> EpochReport:
        values = [
            DriverValues(operator_uid=OperatorUid("s"), subtask=slot, destination=COLLECT, values=(value,), watermark=watermark)
            for watermark, value in runs
        ]
        return EpochReport(epoch=Epoch(0), level=0, slot=slot, driver_values=tuple(values))

    results = Results(checkpointed=False)
    delivered = Delivery(results, lambda lines: None)
    delivered.deliver([of_slot(1, (-(2**63), "b"), (20, "d"), (20, "e")), of_slot(0, (None, "a"), (10, "c"), (30, "f"))])
    assert ended(results) == ["a", "b", "c", "d", "e", "f"]
