from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flinkish.common.clock import ManualClock
from flinkish.common.ids import Epoch
from flinkish.jobmaster.job_metrics import JobMetrics
from flinkish.runtime.protocol import EpochReport, ReaderReport, VertexMetrics

from .support import SOURCE, VERTEX, Notes, Numbers, make_plan


def report(
    slot: int, *, read: int = 0, busy: float = 1.0, watermark: int = 0, user: Mapping[str, Any] | None = None
) -> EpochReport:
    return EpochReport(
        epoch=Epoch(0),
        level=0,
        slot=slot,
        readers={(SOURCE, slot): ReaderReport(splits=(), records=read, more_available=False, finished=False, wants_split=False)},
        metrics=(
            VertexMetrics(
                vertex=VERTEX, subtask=slot, records_in=read, records_out=read, busy_ms=busy, watermark=watermark, user=user or {}
            ),
        ),
    )


def metrics() -> JobMetrics:
    return JobMetrics(make_plan(Numbers(), Notes(), parallelism=2), ManualClock())


def test_records_add_up_over_epochs_and_subtasks() -> None:
    figures = metrics()
    for _ in range(3):
        figures.add([report(0, read=5), report(1, read=7)], elapsed_ms=20)
    assert figures.figures().records_read == 36
    assert figures.figures().vertices[0].records_in == 36
    assert figures.figures().epochs == 3


def test_the_busiest_slot_counts() -> None:
    assert metrics().add([report(0, busy=5), report(1, busy=9)], elapsed_ms=20) == 9


def test_the_watermark_of_a_vertex_is_the_least_of_its_subtasks() -> None:
    figures = metrics()
    figures.add([report(0, watermark=5), report(1, watermark=3)], elapsed_ms=20)
    assert figures.figures().vertices[0].watermark == 3


def test_user_counters_are_summed_and_other_metrics_taken_as_they_are() -> None:
    figures = metrics()
    figures.add([report(0, user={"seen": 2, "state": "a"}), report(1, user={"seen": 3, "state": "b"})], elapsed_ms=20)
    figures.add([report(0, user={"seen": 4, "state": "a"}), report(1)], elapsed_ms=20)
    assert figures.figures().user == {"seen": 7, "state": "b"}


def test_meters_and_distributions_hold_what_all_subtasks_counted() -> None:
    figures = metrics()
    one = {"m": {"count": 2, "rate": 1.0}, "d": {"count": 1, "sum": 5, "min": 5, "max": 5}}
    other = {"m": {"count": 3, "rate": 0.5}, "d": {"count": 2, "sum": 10, "min": 1, "max": 9}}
    figures.add([report(0, user=one), report(1, user=other)], elapsed_ms=20)
    assert figures.figures().user == {"m": {"count": 5, "rate": 1.5}, "d": {"count": 3, "sum": 15, "min": 1, "max": 9}}


def test_a_restart_begins_user_metrics_anew_and_is_counted() -> None:
    figures = metrics()
    figures.add([report(0, read=5, user={"seen": 2})], elapsed_ms=20)
    figures.restarted()
    assert figures.figures().user == {}
    assert (figures.figures().restarts, figures.figures().records_read) == (1, 5)


def test_bytes_that_come_in_are_counted_and_the_processes_of_the_slots_known() -> None:
    figures = metrics()
    process = {"host": "h", "pid": 5, "cpus": 2, "memory": 100, "python": "3.11", "flinkish": "1"}
    told = [replace(report(slot), process={**process, "pid": 5 + slot}) for slot in (0, 1)]
    told[0] = replace(told[0], metrics=(replace(told[0].metrics[0], bytes_in=300),))

    figures.introduce(told)
    figures.add(told, elapsed_ms=20)

    found = figures.figures()
    assert [found.vertices[0].subtasks[index].bytes_in for index in (0, 1)] == [300, 0]
    assert {slot: (each.host, each.pid) for slot, each in found.processes.items()} == {0: ("h", 5), 1: ("h", 6)}
    assert figures.process(1) == found.processes[1]
    assert found.reported is not None
    figures.restarted()
    assert figures.figures().processes == {}
    assert figures.process(1) is None
