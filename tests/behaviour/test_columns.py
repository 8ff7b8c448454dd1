"""Aggregates of columns through crashes, restarts and savepoints, also from a program on columns to one on records and back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from flinkish.common import Configuration, Row, RowKind, Time, Types, WatermarkStrategy
from flinkish.datastream import DataStream, StreamExecutionEnvironment, aggregates
from flinkish.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkish.runtime.operators.column_fold import ColumnFold
from flinkish.runtime.operators.window import combining
from flinkish.state import SavepointReader
from flinkish.testing import CrashPoint, JobHarness
from tests.conftest import also_on_spark
from tests.kit.backends import BACKENDS
from tests.kit.folded import note_combined
from tests.kit.stateful import settings_of

ROW = Types.ROW_NAMED(["key", "name", "value", "amount"], [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.LONG()])
FIGURES: dict[str, Any] = {
    "key": aggregates.key(),
    "count": aggregates.count(),
    "values": aggregates.count("value"),
    "total": aggregates.sum("value"),
    "least": aggregates.min("amount"),
    "most": aggregates.max("value"),
    "mean": aggregates.avg("amount"),
    "best": aggregates.max_by("name", by="amount"),
}


class Program:
    """Rolling aggregates, of keys of one field and of two, and four kinds of windows; `columns` may change between two starts."""

    columns = True

    def __call__(self, env: StreamExecutionEnvironment, job: JobHarness) -> None:
        source = job.source("rows", ROW, splits=2)
        rows: DataStream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").uid("rows")
        rows = rows.filter(pc.field("key") >= 0) if self.columns else rows.filter(lambda row: row.key >= 0)
        rows.key_by("key").aggregate(**FIGURES).uid("rolling").sink_to(job.sink("rolling")).uid("rolling sink")
        rows.key_by("key").aggregate(per="epoch", **FIGURES).uid("latest").sink_to(job.sink("latest")).uid("latest sink")
        rows.key_by(["name", "key"]).sum("amount").uid("summed").sink_to(job.sink("summed")).uid("summed sink")
        rows.key_by("name").deduplicate().uid("first").sink_to(job.sink("first")).uid("first sink")
        rows.key_by("name").top_n(3, "amount").uid("greatest").sink_to(job.sink("greatest")).uid("greatest sink")
        counted: Any = rows.key_by("name").count_window(9)
        counted.aggregate(**FIGURES).uid("counted").sink_to(job.sink("counted")).uid("counted sink")
        paused: Any = rows.key_by("name").window(EventTimeSessionWindows.with_gap(Time.milliseconds(3)))
        shown = {"start": aggregates.window_start(), "end": aggregates.window_end(), "count": aggregates.count()}
        sessions = paused.aggregate(least=aggregates.min("amount"), total=aggregates.sum("amount"), **shown).uid("sessions")
        sessions.sink_to(job.sink("sessions")).uid("sessions sink")
        sliding: Any = rows.key_by("name").window(SlidingEventTimeWindows.of(Time.milliseconds(25), Time.milliseconds(10)))
        windows = {"start": aggregates.window_start(), **FIGURES}
        sliding.allowed_lateness(20).aggregate(**windows).uid("sliding").sink_to(job.sink("sliding")).uid("sliding sink")
        tumbling: Any = rows.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(30)))
        tumbling.aggregate(**windows).uid("tumbling").sink_to(job.sink("tumbling")).uid("tumbling sink")


SINKS = ("rolling", "sessions", "sliding", "tumbling")


def emit(job: JobHarness, step: int) -> None:
    """Emit rows of some keys, of which none is late for a window of the other split, and a watermark."""
    source = job.source("rows")
    for split in (0, 1):
        for number in range(40):
            value = None if number % 5 == 0 else number / 2 - split
            row = Row(key=number % 7, name=f"ä{number % 3}", value=value, amount=(number * 31 - step) << 20)
            source.emit(row, step * 20 + number % 25 - 5, split=split)
    for split in (0, 1):
        source.watermark(step * 20, split=split)


def committed(job: JobHarness) -> dict[str, Counter[Any]]:
    # What a key's rows of two splits add up to, one after the other, depends on which comes first; their last result does not.
    found = {name: Counter(map(repr, job.sink(name).committed())) for name in SINKS[1:]}
    counts = ((record.value.key, record.value.count) for record in job.sink("rolling").committed())
    sums = [record.value for record in job.sink("summed").committed()]
    last = Counter({(row.key, row.name): row.amount for row in sums})
    found["first"] = Counter(record.value.name for record in job.sink("first").committed())
    # Which records are displaced depends on the order, too; those that are left do not.
    found["greatest"] = Counter()
    for record in job.sink("greatest").committed():
        row = record.value
        found["greatest"][row.name, row.amount] += 1 if row.get_row_kind() is RowKind.INSERT else -1
    found["greatest"] = +found["greatest"]
    # Which records of two splits fall into a window depends on the order, too; how many windows are full does not.
    found["counted"] = Counter((record.value.key, record.value.count) for record in job.sink("counted").committed())
    return {**found, "rolling": Counter(counts), "sums": Counter(row.key for row in sums), "last sums": last}


def undisturbed(steps: int) -> dict[str, Counter[Any]]:
    program = Program()
    program.columns = False
    with JobHarness(program) as job:
        for step in range(steps):
            emit(job, step)
            job.settle()
        job.finish()
        return committed(job)


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the runs that were folded as columns in this process."""
    sizes: list[int] = []
    fold = ColumnFold.fold

    def counting(self: ColumnFold, codes: Any, *others: Any) -> Any:
        sizes.append(len(codes))
        return fold(self, codes, *others)

    monkeypatch.setattr(ColumnFold, "fold", counting)
    return sizes


@also_on_spark("backend", list(BACKENDS), "hashmap")
def test_a_job_goes_on_with_records_and_with_columns_again(engine: str, backend: str, tmp_path: Path, folded: list[int]) -> None:
    settings = settings_of(tmp_path, **{"state.backend.type": backend, "execution.checkpointing.incremental": True})
    program = Program()
    with JobHarness(program, engine=engine, settings=settings) as job:
        emit(job, 0)
        job.checkpoint()
        emit(job, 1)
        job.crash()
        assert bool(folded) == (engine == "local")
        program.columns = False
        job.restart(parallelism=3)
        emit(job, 2)
        job.checkpoint()
        emit(job, 3)
        program.columns = True
        job.restart(parallelism=2)
        emit(job, 4)
        job.crash(CrashPoint.AFTER_COMMIT)
        job.checkpoint()
        saved = job.savepoint(str(tmp_path / "savepoints"))
        check_accumulators(saved, settings)
        emit(job, 5)
        job.finish()
        assert committed(job) == undisturbed(6)


def combined(env: StreamExecutionEnvironment, job: JobHarness) -> None:
    """Windows by key and over all, for which records of a key are combined before they are sent."""
    rows: DataStream = env.from_source(job.source("rows", ROW, splits=2), WatermarkStrategy.no_watermarks(), "rows").uid("rows")
    rows = rows.filter(pc.field("key") >= 0).uid("filter")
    figures = {"count": aggregates.count(), "sum": aggregates.sum("amount"), "most": aggregates.max("value")}
    shown = {"start": aggregates.window_start(), **figures}
    tumbling: Any = rows.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(30)))
    tumbling.aggregate(key=aggregates.key(), **shown).name("by key").uid("tumbling").sink_to(job.sink("tumbling")).uid("sink")
    sliding: Any = rows.window_all(SlidingEventTimeWindows.of(Time.milliseconds(40), Time.milliseconds(20)))
    sliding.aggregate(**shown).name("over all").uid("over all").sink_to(job.sink("over all")).uid("other sink")


@also_on_spark("backend", list(BACKENDS), "hashmap")
def test_windows_of_records_that_were_combined_are_exact_across_crashes(
    engine: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combining, "_LEAST_RECORDS", 1_000)
    groups = note_combined(monkeypatch, lambda groups, records: groups)
    every: list[tuple[int, Row]] = []

    def emit_many(step: int, count: int = 6_000) -> None:
        source = job.source("rows")
        for number in range(count):
            row = Row(key=number % 7, name="", value=number / 2, amount=number * step)
            every.append((step * 20 + number % 20, row))
            source.emit(row, step * 20 + number % 20, split=number % 2)
        for split in (0, 1):
            source.watermark(step * 20 - 1, split=split)

    with JobHarness(combined, engine=engine, settings=settings_of(tmp_path, **{"state.backend.type": backend})) as job:
        emit_many(0)
        job.checkpoint()
        emit_many(1)
        job.crash()
        job.restart(parallelism=3)
        emit_many(2)
        job.crash(CrashPoint.AFTER_COMMIT)
        job.checkpoint()
        emit_many(3, 40_000)
        job.restart()  # now all of them are there at once
        job.finish()
        found = {
            name: sorted((record.value for record in job.sink(name).committed()), key=repr) for name in ("tumbling", "over all")
        }
        read = [vertex for vertex in job.client.figures().vertices if vertex.name.startswith(("by key", "over all"))]
    expected: dict[str, Any] = {"tumbling": {}, "over all": {}}
    for time, row in every:
        expected["tumbling"].setdefault((row.key, time // 30 * 30), []).append(row)
        for start in (time // 20 * 20 - 20, time // 20 * 20):
            expected["over all"].setdefault(start, []).append(row)

    def result(start: int, rows: list[Row], **key: int) -> Row:
        figures = {"count": len(rows), "sum": sum(row.amount for row in rows), "most": max(row.value for row in rows)}
        return Row(**key, start=start, **figures)

    by_key = [result(start, rows, key=key) for (key, start), rows in expected["tumbling"].items()]
    assert found["tumbling"] == sorted(by_key, key=repr)
    assert found["over all"] == sorted((result(start, rows) for start, rows in expected["over all"].items()), key=repr)
    # Metrics count the records, although few bytes were sent; a record takes 32, and was sent twice.
    assert [vertex.records_in for vertex in read] == [40_000] * 2
    assert all(sum(subtask.bytes_in for subtask in vertex.subtasks.values()) < 40_000 * 16 for vertex in read)
    assert bool(groups) == (engine == "local")


def check_accumulators(path: str, settings: dict[str, Any]) -> None:
    """Check the state of the first five steps in a savepoint."""
    reader: Any = SavepointReader.read(path, Configuration.from_dict({key: str(value) for key, value in settings.items()}))
    counts = Counter({key: 10 * len(range(key, 40, 7)) for key in range(7)})
    for uid in ("rolling", "latest"):
        assert {row.key: row.value[0] for row in reader.read_keyed_state(uid, "_aggregates")} == counts
    assert all(row.value[0] > 0 for row in reader.read_windows("tumbling"))
    # A window that is full is not kept.
    for name in range(3):
        count = 10 * len(range(name, 40, 3))
        kept = [(row.namespace, row.value[0]) for row in reader.read_windows("counted") if row.key == f"ä{name}"]
        assert kept == [divmod(count, 9)]
