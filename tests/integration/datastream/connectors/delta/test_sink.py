"""DeltaSink: one commit for each checkpoint, each row once, schemas that must fit."""

from __future__ import annotations

import datetime
import decimal
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType

from flinkish.common.errors import (
    ForeignCheckpointError,
    InvalidArgumentError,
    InvalidProgramError,
    SinkChangedError,
    SinkError,
    TypeMismatchError,
    UnsupportedError,
)
from flinkish.common.pickling import dumps, loads
from flinkish.common.time import Instant
from flinkish.common.typeinfo import DecimalTypeInfo, Types
from flinkish.common.types import Row, RowKind
from flinkish.datastream.connectors import _row_buffer
from flinkish.datastream.connectors.base import END_OF_INPUT_CHECKPOINT
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.delta.table import partition_folder
from tests.unit.datastream.connectors.fakes import SinkRun

PAIR = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])


def pairs(path: Path) -> list[Any]:
    table = DeltaTable(path).to_pyarrow_table()
    return sorted(((r["k"], r["v"]) for r in table.to_pylist()), key=str)


def parquet_files(path: Path) -> int:
    return len(list(path.rglob("*.parquet")))


@pytest.mark.usefixtures("both_ways")
def test_a_checkpoint_is_one_commit_of_all_writers(tmp_path: Path) -> None:
    path = tmp_path / "table"
    run = SinkRun(loads(dumps(DeltaSink(str(path)))), PAIR, parallelism=2).epoch([Row(k="a", v=1), Row(k="b", v=2)])
    assert not DeltaTable.is_deltatable(str(path))
    run.checkpoint([Row(k="c", v=3)])
    table = DeltaTable(path)
    assert pairs(path) == [("a", 1), ("b", 2), ("c", 3)]
    assert table.version() == 1
    assert table.transaction_version("flinkish/lineage/sink") == 1
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    assert table.history(1)[0]["flinkish.checkpoint-id"] == "1"


@pytest.mark.usefixtures("both_ways")
def test_the_table_is_made_even_if_there_are_no_rows(tmp_path: Path) -> None:
    run = SinkRun(
        DeltaSink(str(tmp_path), partition_by=["k"], table_properties={"delta.appendOnly": "true"}), PAIR, parallelism=2
    )
    run.checkpoint()
    table = DeltaTable(tmp_path)
    assert [field.name for field in table.schema().fields] == ["k", "v"]
    assert table.metadata().partition_columns == ["k"]
    assert table.metadata().configuration == {"delta.appendOnly": "true"}
    run.checkpoint()
    assert DeltaTable(tmp_path).version() == 0


@pytest.mark.usefixtures("both_ways")
def test_a_checkpoint_without_rows_makes_no_version(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR).after([Row(k="a", v=1)])
    run.checkpoint()
    assert DeltaTable(tmp_path).version() == 1
    run.checkpoint([Row(k="b", v=1)])
    assert DeltaTable(tmp_path).transaction_version("flinkish/lineage/sink") == 3


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("partition_by", [(), ("k",)])
def test_rows_survive_lost_writers_repeated_epochs_and_restarts_once_each(
    tmp_path: Path, partition_by: tuple[str, ...], committed: bool, parallelism: int
) -> None:
    run = SinkRun(DeltaSink(str(tmp_path), partition_by=partition_by), PAIR, parallelism=2)
    run.epoch([Row(k="a", v=1), Row(k="b", v=2)]).lost_epoch([Row(k="c", v=3)]).epoch([Row(k="c", v=3)]).lose_writers()
    first = run.checkpoint([Row(k=None, v=4)])
    run.commit(first)
    second = run.epoch([Row(k="a", v=5)]).checkpoint([Row(k="b", v=6)], commit=committed)
    run.epoch([Row(k="lost", v=0)]).checkpoint([Row(k="lost", v=0)], commit=False)
    run.restore(second, parallelism).epoch([Row(k="d", v=7)])
    run.checkpoint(end_of_input=True)
    assert pairs(tmp_path) == [("a", 1), ("a", 5), ("b", 2), ("b", 6), ("c", 3), ("d", 7), (None, 4)]


@pytest.mark.usefixtures("both_ways")
def test_two_tries_of_an_epoch_that_both_wrote_files_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_row_buffer, "BUFFER_ROWS", 2)
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    values = [Row(k="a", v=i) for i in range(5)]
    run.lost_epoch(values).epoch(values)
    assert parquet_files(tmp_path) == 2
    run.lose_writers().checkpoint([Row(k="b", v=0)])
    assert len(pairs(tmp_path)) == 6
    assert len(DeltaTable(tmp_path).file_uris()) == 2


def on_commits(monkeypatch: pytest.MonkeyPatch, act: Callable[[Callable[[], None]], None]) -> None:
    """Call `act` instead of each commit of deltalake, with that commit."""
    real = DeltaTable.create_write_transaction
    monkeypatch.setattr(DeltaTable, "create_write_transaction", lambda *args, **options: act(lambda: real(*args, **options)))


@pytest.mark.usefixtures("both_ways")
def test_a_commit_whose_answer_was_lost_is_recognized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR).after([Row(k="a", v=1)])
    calls = []

    def commit_then_fail(commit: Callable[[], None]) -> None:
        calls.append(1)
        commit()
        raise CommitFailedError("the answer was lost")

    on_commits(monkeypatch, commit_then_fail)
    run.checkpoint([Row(k="b", v=2)])
    assert len(calls) == 1
    assert pairs(tmp_path) == [("a", 1), ("b", 2)]


@pytest.mark.usefixtures("both_ways")
def test_a_driver_that_should_be_dead_is_refused_after_it_has_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    first = run.checkpoint([Row(k="a", v=1)])
    checkpoint = run.checkpoint([Row(k="b", v=2)], commit=False)
    successor = run.restored_committer(first)
    calls = []

    def overtaken(commit: Callable[[], None]) -> None:
        calls.append(1)
        if len(calls) == 1:
            successor.commit(checkpoint.id, checkpoint.requests)
        commit()

    on_commits(monkeypatch, overtaken)
    run.commit(checkpoint)
    assert len(calls) == 2, "that of the successor, and the one that met a conflict"
    assert pairs(tmp_path) == [("a", 1), ("b", 2)]


@pytest.mark.usefixtures("both_ways")
def test_commits_of_other_writers_in_between_do_no_harm(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR).after([Row(k="a", v=1)])
    write_deltalake(tmp_path, pa.table({"k": ["other"], "v": [9]}), mode="append")
    run.checkpoint([Row(k="b", v=2)])
    assert pairs(tmp_path) == [("a", 1), ("b", 2), ("other", 9)]


@pytest.mark.usefixtures("both_ways")
def test_commits_that_always_meet_others_end_with_a_named_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)

    def fail(_: Callable[[], None]) -> None:
        raise CommitFailedError("no")

    on_commits(monkeypatch, fail)
    with pytest.raises(SinkError, match="tries met other commits"):
        run.checkpoint([Row(k="a", v=1)])


@pytest.mark.usefixtures("both_ways")
def test_an_older_checkpoint_than_the_last_one_committed_is_refused(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    first = run.checkpoint([Row(k="a", v=1)])
    run.checkpoint([Row(k="b", v=2)])
    with pytest.raises(SinkError, match=r"cannot commit checkpoint 1 .* holds the rows of checkpoint 2"):
        run.commit(first)
    assert pairs(tmp_path) == [("a", 1), ("b", 2)]


@pytest.mark.usefixtures("both_ways")
def test_a_job_that_begins_again_under_the_same_job_id_commits_all_its_rows(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    for value in range(3):
        run.checkpoint([Row(k="first", v=value)])
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    run.lineage = "another checkpoint table"
    run.checkpoint([Row(k="second", v=0)])
    assert pairs(tmp_path) == [("first", 0), ("first", 1), ("first", 2), ("second", 0)]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("lineage", ["lineage", "that of the next job"])
@pytest.mark.parametrize("rows", [(), (Row(k="b", v=2),)])
def test_a_sink_that_is_ahead_of_the_checkpoint_restored_is_refused(tmp_path: Path, rows: tuple[Row, ...], lineage: str) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR).after([Row(k="a", v=1)])
    second = run.checkpoint(rows)
    run.checkpoint([Row(k="c", v=3)])
    with pytest.raises(ForeignCheckpointError, match=r"ahead of checkpoint 2, .* rows of checkpoint 3 already(?s:.*)Hint: "):
        run.restore(second, lineage=lineage)
    assert len(pairs(tmp_path)) == 2 + len(rows)


@pytest.mark.usefixtures("both_ways")
def test_a_job_on_a_copy_of_the_checkpoint_folder_does_not_pass_for_the_other_one(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    first = run.checkpoint([Row(k="a", v=1)])
    copy = SinkRun(DeltaSink(str(tmp_path)), PAIR).restore(first)
    copy.next_checkpoint = 2
    second = run.checkpoint([Row(k="b", v=2)])
    run.commit(second)
    with pytest.raises(SinkChangedError, match="another job has committed other rows under the same id"):
        copy.checkpoint([Row(k="of the copy", v=3)])
    assert pairs(tmp_path) == [("a", 1), ("b", 2)]


@pytest.mark.usefixtures("both_ways")
def test_what_a_savepoint_holds_is_committed_once_in_the_lineage_that_prepared_it(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR).after([Row(k="a", v=1)])
    savepoint = run.checkpoint([Row(k="b", v=2)], commit=False)
    run.restore(savepoint, lineage="next").checkpoint([Row(k="c", v=3)])
    assert pairs(tmp_path) == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("generations", [1, 2])
def test_a_second_start_from_a_savepoint_is_refused_once_the_first_one_has_committed(tmp_path: Path, generations: int) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    savepoint = run.checkpoint([Row(k="a", v=1)])
    last = savepoint
    for generation in range(generations):
        last = run.restore(last, lineage=f"generation {generation}").checkpoint()
    run.restore(last).restore(savepoint, lineage="while nothing was committed")
    run.restore(last, lineage="the last one").checkpoint([Row(k="b", v=2)])
    for checkpoint in {savepoint.id: savepoint, last.id: last}.values():
        with pytest.raises(ForeignCheckpointError, match=f"ahead of checkpoint {checkpoint.id}"):
            run.restore(checkpoint, lineage="again")
    assert pairs(tmp_path) == [("a", 1), ("b", 2)]


@pytest.mark.usefixtures("both_ways")
def test_an_attempt_that_starts_again_from_the_savepoint_is_not_behind_its_own_commit(tmp_path: Path) -> None:
    """In a job without checkpoints, when something else fails after the sink's commit at the end of the input."""
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    savepoint = run.checkpoint([Row(k="a", v=1)])
    for _ in range(2):
        run.restore(savepoint, lineage="next")
        run.next_checkpoint = END_OF_INPUT_CHECKPOINT
        run.checkpoint([Row(k="b", v=2)], end_of_input=True)
    assert pairs(tmp_path) == [("a", 1), ("b", 2)]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("gone", ["its newest commit", "the table"])
@pytest.mark.parametrize("lineage", ["lineage", "next"])
def test_commits_that_are_lost_at_a_restore_are_an_error(tmp_path: Path, gone: str, lineage: str) -> None:
    path = tmp_path / "table"
    run = SinkRun(DeltaSink(str(path)), PAIR).after([Row(k="a", v=1)])
    run.checkpoint([Row(k="b", v=2)])
    third = run.checkpoint([Row(k="c", v=3)], commit=False)
    if gone == "the table":
        shutil.rmtree(path / "_delta_log")
        expected = "none of its commits: all rows that it wrote there"
    else:
        (path / "_delta_log" / f"{DeltaTable(path).version():020}.json").unlink()
        expected = "checkpoint 1: the rows of all later checkpoints, up to checkpoint 2,"
    with pytest.raises(SinkChangedError, match=rf"had committed checkpoint 2 to .*, which knows of {expected} are lost"):
        run.restore(third, lineage=lineage)


SINKS = pytest.mark.parametrize("sink", [{}, {"upsert_keys": ["k"]}, {"overwrite": True}], ids=["append", "merge", "overwrite"])


@SINKS
@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("gone", ["its newest commit", "the table"])
def test_commits_that_are_lost_while_the_job_runs_are_an_error(tmp_path: Path, sink: dict[str, Any], gone: str) -> None:
    path = tmp_path / "table"
    run = SinkRun(DeltaSink(str(path), **sink), PAIR).after([Row(k="a", v=1)])
    shutil.copytree(path, tmp_path / "backup")
    run.checkpoint([Row(k="b", v=2)])
    shutil.rmtree(path / "_delta_log")
    expected = "none of its commits: all rows that it wrote there"
    if gone == "its newest commit":
        shutil.copytree(tmp_path / "backup", path, dirs_exist_ok=True)
        expected = "checkpoint 1: the rows of all later checkpoints, up to checkpoint 2,"
    for _ in range(2):
        with pytest.raises(SinkChangedError, match=rf"had committed checkpoint 2 to .*, which knows of {expected} are lost"):
            run.checkpoint([Row(k="c", v=3)])
    assert (path / "_delta_log").exists() == (gone != "the table")


@SINKS
@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("restart", [False, True])
def test_a_restore_of_the_table_takes_back_no_commit_unnoticed(tmp_path: Path, sink: dict[str, Any], restart: bool) -> None:
    path = tmp_path / "table"
    run = SinkRun(DeltaSink(str(path), **sink), PAIR).after([Row(k="a", v=1)])
    checkpoint = run.checkpoint([Row(k="b", v=2)])
    last = DeltaTable(path).version()
    DeltaTable(path).restore(last - 1)

    def go_on() -> None:
        run.restore(checkpoint) if restart else run.checkpoint([Row(k="c", v=3)])

    for _ in range(2):
        with pytest.raises(
            SinkChangedError, match=rf"version {last + 1} of the table .* is a RESTORE of version {last - 1}, but"
        ):
            go_on()
    DeltaTable(path).restore(last)
    run.restore(checkpoint).checkpoint([Row(k="d", v=4)])
    assert {("a", 1), ("b", 2), ("d", 4)} <= set(pairs(path))


@pytest.mark.usefixtures("both_ways")
def test_a_restore_that_takes_back_only_what_others_wrote_is_no_error(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR).after([Row(k="a", v=1)])
    last = DeltaTable(tmp_path).version()
    for _ in range(2):
        write_deltalake(tmp_path, pa.table({"k": ["other"], "v": [9]}), mode="append")
    run.checkpoint()
    DeltaTable(tmp_path).restore(last)
    DeltaTable(tmp_path).optimize.compact()
    checkpoint = run.checkpoint([Row(k="b", v=2)])
    run.restore(checkpoint)
    assert pairs(tmp_path) == [("a", 1), ("b", 2)]


@pytest.mark.usefixtures("both_ways")
def test_commits_that_are_lost_between_a_savepoint_s_restore_and_the_next_commit_are_an_error(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    savepoint = run.checkpoint([Row(k="a", v=1)], commit=False)
    run.restore(savepoint, lineage="next")
    run.next_checkpoint = 2
    shutil.rmtree(tmp_path / "_delta_log")
    with pytest.raises(SinkChangedError, match=r"had committed checkpoint 1 to .*, which knows of none of its commits"):
        run.checkpoint([Row(k="b", v=2)])


@pytest.mark.usefixtures("both_ways")
def test_two_jobs_that_started_from_one_savepoint_do_not_both_write(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    savepoint = run.checkpoint([Row(k="a", v=1)])
    jobs = []
    for lineage in ("one", "two"):
        job = SinkRun(run.sink, PAIR).restore(savepoint, lineage=lineage)
        job.next_checkpoint = 2
        jobs.append(job)
    jobs[0].checkpoint([Row(k="b", v=2)])
    with pytest.raises(SinkError, match="a job that was started from the same savepoint is running"):
        jobs[1].checkpoint([Row(k="c", v=3)])
    assert pairs(tmp_path) == [("a", 1), ("b", 2)]


@pytest.mark.usefixtures("both_ways")
def test_a_job_that_writes_elsewhere_does_not_ask_for_what_was_committed(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path / "a")), PAIR).after([Row(k="a", v=1)])
    savepoint = run.checkpoint()
    run.sink = DeltaSink(str(tmp_path / "b"))
    run.restore(savepoint, lineage="next").restore(run.checkpoint()).checkpoint([Row(k="b", v=2)])
    assert (pairs(tmp_path / "a"), pairs(tmp_path / "b")) == ([("a", 1)], [("b", 2)])


@pytest.mark.usefixtures("both_ways")
def test_what_another_table_s_savepoint_holds_uncommitted_is_named(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path / "a")), PAIR)
    savepoint = run.checkpoint([Row(k="a", v=1)], commit=False)
    run.sink = DeltaSink(str(tmp_path / "b"))
    expected = rf"into {tmp_path}/b: the checkpoint holds {tmp_path}/a/part-(?s:.*)Hint: start once with"
    with pytest.raises(SinkError, match=expected):
        run.restore(savepoint, lineage="next")


def test_a_table_that_forgets_transactions_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(
        tmp_path,
        pa.schema([("k", pa.string()), ("v", pa.int64())]),
        configuration={"delta.setTransactionRetentionDuration": "interval 7 days"},
    )
    with pytest.raises(SinkError, match="forgets transactions"):
        DeltaSink(str(tmp_path)).validate(PAIR)


@pytest.mark.usefixtures("both_ways")
def test_the_commit_at_the_end_of_a_job_without_checkpoints_counts_once(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    run.next_checkpoint = END_OF_INPUT_CHECKPOINT
    checkpoint = run.checkpoint([Row(k="a", v=1)], end_of_input=True)
    run.commit(checkpoint)
    assert pairs(tmp_path) == [("a", 1)]


@pytest.mark.usefixtures("both_ways")
def test_all_types_arrive_as_they_were(tmp_path: Path) -> None:
    inner = Types.ROW_NAMED(["x", "when"], [Types.FLOAT(), Types.INSTANT()])
    row_type = Types.ROW_NAMED(
        ["str", "bool", "byte", "short", "int", "long", "float", "double", "char", "big", "dec", "date", "ts", "at", "bytes",
         "ints", "list", "map", "row", "rows", "pair"],
        [Types.STRING(), Types.BOOLEAN(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(),
         Types.CHAR(), Types.BIG_INT(), Types.BIG_DEC(), Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.INSTANT(),
         Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PRIMITIVE_ARRAY(Types.INT()), Types.LIST(Types.SQL_DATE()),
         Types.MAP(Types.STRING(), Types.LIST(Types.BIG_INT())), inner, Types.OBJECT_ARRAY(inner),
         Types.TUPLE([Types.INT(), Types.STRING()])],
    )  # fmt: skip
    day, when = datetime.date(2021, 1, 9), datetime.datetime(2021, 1, 9, 12, 0, 0, 11)
    values = ["ü", True, -128, 300, 70_000, 2**40, 1.5, 0.1, "c", 10**30, decimal.Decimal("-1.50"), day, when,
              Instant(1_600_000_000, 123_456_000), b"\x00\xff", [1, 2], [day], {"k": [10**20, None]},
              Row(x=2.5, when=Instant(1, 0)), [Row(x=None, when=None), None], (1, "x")]  # fmt: skip
    run = SinkRun(DeltaSink(str(tmp_path)), row_type)
    make = Row(*row_type.get_field_names())
    run.epoch([make(*values)]).checkpoint([make(*[None] * len(values))])
    table = DeltaTable(tmp_path)
    types = {field.name: str(field.type) for field in table.schema().fields}
    assert "timestampNtz" not in str(table.protocol())
    assert "decimal(38,18)" in types["dec"].replace(" ", "")
    full, empty = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["str"] is None)
    assert set(empty.values()) == {None}
    utc = datetime.UTC
    assert full == {
        "str": "ü", "bool": True, "byte": -128, "short": 300, "int": 70_000, "long": 2**40, "float": 1.5, "double": 0.1,
        "char": "c", "big": decimal.Decimal(10**30), "dec": decimal.Decimal("-1.50"), "date": day, "ts": when.replace(tzinfo=utc),
        "at": datetime.datetime(2020, 9, 13, 12, 26, 40, 123_456, tzinfo=utc), "bytes": b"\x00\xff", "ints": [1, 2],
        "list": [day],
        "map": [("k", [decimal.Decimal(10**20), None])],
        "row": {"x": 2.5, "when": datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=utc)},
        "rows": [{"x": None, "when": None}, None], "pair": {"f0": 1, "f1": "x"},
    }  # fmt: skip


@pytest.mark.usefixtures("both_ways")
def test_tuples_go_to_columns_by_position(tmp_path: Path) -> None:
    tuples = Types.TUPLE([Types.STRING(), Types.LONG()])
    run = SinkRun(DeltaSink(str(tmp_path / "a")), tuples).after([("a", 1)])
    assert DeltaTable(tmp_path / "a").to_pyarrow_table().to_pylist() == [{"f0": "a", "f1": 1}]
    named = DeltaSink.for_table(str(tmp_path / "b")).with_field_names("k", "v").with_partition_columns("k").build()
    run = SinkRun(named, tuples).after([("a", 1), Row(x="b", y=2)])
    assert pairs(tmp_path / "b") == [("a", 1), ("b", 2)]
    with pytest.raises(SinkError, match="only appends"):
        run.write([Row.of_kind(RowKind.DELETE, "a", 1)])


@pytest.mark.usefixtures("both_ways")
def test_an_undeclared_stream_needs_a_row_type_and_may_hold_rows_tuples_and_dicts(tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match=r"rows or tuples.*PickledByteArrayTypeInfo"):
        DeltaSink(str(tmp_path)).validate(Types.PICKLED_BYTE_ARRAY())
    run = SinkRun(DeltaSink(str(tmp_path), row_type=PAIR))
    run.checkpoint([Row(v=1, k="row"), ("tuple", 2), {"k": "dict", "v": 3}, {"k": "part"}])
    assert pairs(tmp_path) == [("dict", 3), ("part", None), ("row", 1), ("tuple", 2)]


PARTITIONS: list[tuple[Any, list[Any]]] = [
    (Types.STRING(), ["a b", "x%y", "ü=1", "p/q", "a:b", "..", "*", "x" * 300, None]),
    (Types.LONG(), [-(2**63), 0, None]),
    (Types.BOOLEAN(), [True, False]),
    (Types.SQL_DATE(), [datetime.date(2021, 1, 9), None]),
    (Types.SQL_TIMESTAMP(), [datetime.datetime(2021, 1, 9, 12, 0, 0, 11)]),
    (Types.INSTANT(), [Instant(1_600_000_000, 123_456_000)]),
    (Types.BIG_DEC(), [decimal.Decimal("1.5"), decimal.Decimal("-1E+3")]),
]


@pytest.mark.usefixtures("both_ways", "small_partitions")
@pytest.mark.parametrize(("type_info", "values"), PARTITIONS)
def test_partition_values_come_back_as_they_were(tmp_path: Path, type_info: Any, values: list[Any]) -> None:
    run = SinkRun(DeltaSink(str(tmp_path), partition_by=["p"]), Types.ROW_NAMED(["v", "p"], [Types.INT(), type_info]))
    run.epoch([Row(v=i, p=value) for i, value in enumerate(values)])
    run.checkpoint([Row(v=100 + i, p=value) for i, value in enumerate(values)])
    back = {row["v"]: row["p"] for row in DeltaTable(tmp_path).to_pyarrow_table().to_pylist()}
    for i, value in enumerate(values):
        expected = value
        if isinstance(value, datetime.datetime):
            expected = value.replace(tzinfo=datetime.UTC)
        if isinstance(value, Instant):
            expected = datetime.datetime(2020, 9, 13, 12, 26, 40, 123_456, tzinfo=datetime.UTC)
        assert back[i] == back[100 + i] == expected
    assert len(DeltaTable(tmp_path).file_uris()) == len(values)


class Printed(str):
    """A text with another printed form, as a member of a str Enum has."""

    def __str__(self) -> str:
        return "Color.RED"


@pytest.mark.usefixtures("both_ways", "small_partitions")
@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (Types.STRING(), Printed("red"), "red"),
        (DecimalTypeInfo(5, 2), decimal.Decimal("1.235"), decimal.Decimal("1.24")),
        (Types.SQL_DATE(), datetime.datetime(2021, 1, 9, 12), datetime.date(2021, 1, 9)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(999, 1, 1), datetime.datetime(999, 1, 1, tzinfo=datetime.UTC)),
    ],
)
def test_a_partition_has_the_value_that_a_column_in_a_file_has(tmp_path: Path, type_info: Any, value: Any, expected: Any) -> None:
    row_type = Types.ROW_NAMED(["v", "p", "q"], [Types.INT(), type_info, type_info])
    SinkRun(DeltaSink(str(tmp_path), partition_by=["p"], row_type=row_type)).checkpoint([Row(v=1, p=value, q=value)])
    (row,) = DeltaTable(tmp_path).to_pyarrow_table().to_pylist()
    assert row["p"] == row["q"] == expected


@pytest.mark.usefixtures("both_ways", "small_partitions")
@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.INT(), True),
        (Types.INT(), 2**31),
        (Types.BYTE(), 128),
        (Types.BIG_INT(), 10**38),
        (DecimalTypeInfo(5, 2), decimal.Decimal("1000.00")),
        (Types.BIG_DEC(), decimal.Decimal("NaN")),
        (Types.STRING(), "\ud800"),
        (Types.INSTANT(), Instant(10**12, 0)),
    ],
)
def test_a_value_that_a_partition_column_cannot_hold_is_refused(tmp_path: Path, type_info: Any, value: Any) -> None:
    row_type = Types.ROW_NAMED(["v", "p"], [Types.INT(), type_info])
    run = SinkRun(DeltaSink(str(tmp_path), partition_by=["p"], row_type=row_type))
    with pytest.raises(SinkError, match=r"DeltaSink into .*: partition column 'p' is "):
        run.write([Row(v=1, p=value)])


@pytest.mark.usefixtures("both_ways", "small_partitions")
@pytest.mark.parametrize("type_info", [Types.INSTANT(), Types.SQL_TIMESTAMP()])
def test_a_point_in_time_is_a_partition_in_any_time_zone_of_a_reader(tmp_path: Path, type_info: Any) -> None:
    run = SinkRun(DeltaSink(str(tmp_path), partition_by=["p"]), Types.ROW_NAMED(["v", "p"], [Types.INT(), type_info]))
    run.checkpoint([Row(v=1, p=Instant(-1, 0) if type_info == Types.INSTANT() else datetime.datetime(1969, 12, 31, 23, 59, 59))])
    log = (tmp_path / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    (add,) = [json.loads(line)["add"] for line in log if line.startswith('{"add"')]
    assert add["partitionValues"] == {"p": "1969-12-31T23:59:59.000000Z"}


@pytest.mark.usefixtures("both_ways", "small_partitions")
def test_files_stand_in_folders_named_by_partition(tmp_path: Path) -> None:
    SinkRun(DeltaSink(str(tmp_path), partition_by=["k"]), PAIR).checkpoint([Row(k="a b", v=1), Row(k=None, v=2)])
    folders = {p.parent.name for p in tmp_path.rglob("*.parquet")}
    assert folders == {"k=a%20b", "k=__HIVE_DEFAULT_PARTITION__"}
    assert len(DeltaTable(tmp_path).to_pyarrow_table(filters=[("k", "=", "a b")])) == 1


@pytest.mark.usefixtures("both_ways")
def test_the_log_holds_statistics_of_whole_numbers_and_dates(tmp_path: Path) -> None:
    SinkRun(DeltaSink(str(tmp_path)), PAIR).checkpoint([Row(k="a", v=5), Row(k=None, v=-7), Row(k="b", v=None)])
    log = (tmp_path / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    (add,) = [json.loads(line)["add"] for line in log if line.startswith('{"add"')]
    assert json.loads(add["stats"]) == {
        "numRecords": 3, "minValues": {"v": -7}, "maxValues": {"v": 5}, "nullCount": {"k": 1, "v": 1},
    }  # fmt: skip


@pytest.mark.usefixtures("both_ways")
def test_a_table_of_another_schema_is_refused_with_both_schemas(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"k": pa.array(["a"]), "v": pa.array([1], pa.int32()), "w": pa.array([[1]])}))
    sink = DeltaSink(str(tmp_path))
    with pytest.raises(SinkError) as caught:
        sink.validate(PAIR)
    text = str(caught.value)
    assert "Table: k: string, v: integer, w: array<long>" in text
    assert "Rows:  k: string, v: long" in text
    assert "v: integer in the table, long in the rows" in text
    run = SinkRun(sink, PAIR)
    with pytest.raises(SinkError, match="do not fit"):
        run.checkpoint([Row(k="a", v=1)])
    assert DeltaTable(tmp_path).version() == 0


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda table: table.alter.add_columns([Field("w", PrimitiveType("long"))]), "w: long in the table, missing in the rows"),
        (lambda table: table.alter.add_constraint({"positive": "v > 0"}), "asks more of writers"),
        (lambda table: table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 days"}), "forgets"),
    ],
    ids=["columns", "constraint", "properties"],
)
@pytest.mark.parametrize("options", [{}, {"upsert_keys": ["k"]}], ids=["append", "merge"])
def test_a_table_that_is_changed_so_that_it_takes_no_rows_ends_the_job(
    change: Callable[[DeltaTable], None], problem: str, options: dict[str, Any], tmp_path: Path
) -> None:
    run = SinkRun(DeltaSink(str(tmp_path), **options), PAIR).after([Row(k="a", v=1)])
    change(DeltaTable(tmp_path))
    with pytest.raises(SinkChangedError, match=problem):
        run.checkpoint([Row(k="b", v=2)])


@pytest.mark.usefixtures("both_ways")
def test_a_table_of_the_same_columns_in_another_order_fits(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"v": pa.array([1]), "k": pa.array(["a"])}))
    sink = DeltaSink(str(tmp_path))
    sink.validate(PAIR)
    SinkRun(sink, PAIR).checkpoint([Row(k="b", v=2)])
    assert pairs(tmp_path) == [("a", 1), ("b", 2)]


def test_tables_that_ask_more_of_writers_are_refused(tmp_path: Path) -> None:
    naive = pa.table({"k": ["a"], "v": [1], "t": pa.array([datetime.datetime(2021, 1, 1)], pa.timestamp("us"))})
    write_deltalake(tmp_path / "ntz", naive)
    row_type = Types.ROW_NAMED(["k", "v", "t"], [Types.STRING(), Types.LONG(), Types.SQL_TIMESTAMP()])
    with pytest.raises(SinkError, match=r"protocol \(3, 7\) with timestampNtz"):
        DeltaSink(str(tmp_path / "ntz")).validate(row_type)
    table = DeltaTable.create(tmp_path / "strict", pa.schema([pa.field("k", pa.string(), nullable=False), ("v", pa.int64())]))
    assert table.version() == 0
    with pytest.raises(SinkError, match="k: NOT NULL"):
        DeltaSink(str(tmp_path / "strict")).validate(PAIR)
    DeltaTable.create(tmp_path / "cdf", pa.schema([("k", pa.string()), ("v", pa.int64())])).alter.add_constraint({"c": "v > 0"})
    with pytest.raises(SinkError, match="asks more of writers"):
        DeltaSink(str(tmp_path / "cdf")).validate(PAIR)


def test_other_partition_columns_than_the_table_s_are_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"k": ["a"], "v": [1]}), partition_by=["k"])
    with pytest.raises(SinkError, match=r"partitioned by \['k'\], the sink by \[\]"):
        DeltaSink(str(tmp_path)).validate(PAIR)
    DeltaSink(str(tmp_path), partition_by=["k"]).validate(PAIR)


@pytest.mark.usefixtures("both_ways")
def test_a_value_of_another_type_names_column_and_value(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path), partition_by=["k"]), PAIR).write([Row(k="a", v=1), Row(k="a", v="two")])
    with pytest.raises(TypeMismatchError, match=r"column 'v' is Long, stored as int64; got 'two' of type str"):
        run.end_epoch()
    with pytest.raises(SinkError, match=r"partition column 'k' is string; got 5 of type int"):
        run.write([Row(k=5, v=1)])
    with pytest.raises(SinkError, match=r"only appends; got a row of kind -U"):
        run.write([Row.of_kind(RowKind.UPDATE_BEFORE, "a", 1)])
    with pytest.raises(TypeMismatchError, match="expected a row with the fields"):
        run.write(["text"])


@pytest.mark.usefixtures("both_ways")
def test_a_file_that_is_gone_or_changed_before_its_commit_is_named(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR)
    checkpoint = run.checkpoint([Row(k="a", v=1)], commit=False)
    (file,) = tmp_path.glob("*.parquet")
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    with pytest.raises(SinkChangedError, match=rf"has {len(data) - 1} bytes; {len(data)} were written"):
        run.commit(checkpoint)
    file.unlink()
    with pytest.raises(SinkChangedError, match="is gone before it was committed"):
        run.commit(checkpoint)


@pytest.mark.parametrize(
    ("options", "row_type", "message"),
    [
        ({"partition_by": ["x"]}, PAIR, r"partition columns \['x'\] are not among the columns"),
        ({"partition_by": ["k", "v"]}, PAIR, "not all columns"),
        ({"partition_by": ["v"]}, Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.DOUBLE()]), "cannot be a partition column"),
        ({}, Types.ROW_NAMED(["k", "K"], [Types.STRING(), Types.STRING()]), "upper and lower case"),
        ({}, Types.ROW_NAMED(["a b"], [Types.STRING()]), "no name that a Delta table takes"),
        ({}, Types.ROW_NAMED(["t"], [Types.SQL_TIME()]), "column 't' of type TimeTypeInfo cannot be stored"),
        ({}, Types.ROW_NAMED(["p"], [Types.LIST(Types.PICKLED_BYTE_ARRAY())]), r"column 'p'\.element of type Pickled"),
        ({"field_names": ["a"]}, Types.TUPLE([Types.INT(), Types.INT()]), "1 field_names"),
    ],
)
def test_what_makes_no_table_is_refused_when_the_job_is_built(
    tmp_path: Path, options: dict[str, Any], row_type: Any, message: str
) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        DeltaSink(str(tmp_path), **options).validate(row_type)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="partition_by"):
        DeltaSink(str(tmp_path), partition_by="k")
    with pytest.raises(InvalidArgumentError, match="compression"):
        DeltaSink(str(tmp_path), compression="rar")
    with pytest.raises(UnsupportedError, match=r"hdfs://.*or is in an object store \(s3://"):
        DeltaSink("hdfs://host/table")
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="a table is a folder"):
        DeltaSink(str(tmp_path / "file")).validate(PAIR)


@pytest.mark.usefixtures("both_ways")
def test_a_newer_transaction_of_the_same_application_is_an_error(tmp_path: Path) -> None:
    run = SinkRun(DeltaSink(str(tmp_path)), PAIR).after([Row(k="a", v=1)])
    write_deltalake(
        tmp_path,
        pa.table({"k": ["b"], "v": [2]}),
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction("flinkish/lineage/sink", 50)]),
    )
    with pytest.raises(SinkError, match="holds the rows of checkpoint 50 already"):
        run.checkpoint([Row(k="stale", v=0)])
    assert pairs(tmp_path) == [("a", 1), ("b", 2)]


def test_long_partition_folders_stay_within_what_file_systems_take() -> None:
    folder = partition_folder(["p"], ("ü" * 200,))
    assert len(folder) <= 110


def next_job(path: Path, name: str = "next") -> SinkRun:
    run = SinkRun(DeltaSink.for_table(str(path)).with_overwrite().build(), PAIR, parallelism=2)
    run.job_id = run.lineage = name
    return run


def test_overwrite_replaces_what_an_earlier_job_wrote_with_the_first_commit_only(tmp_path: Path) -> None:
    next_job(tmp_path, "first").checkpoint([Row(k="old", v=1)])
    run = next_job(tmp_path)
    run.epoch([Row(k="new", v=1)])
    assert pairs(tmp_path) == [("old", 1)]
    run.checkpoint()
    assert pairs(tmp_path) == [("new", 1)]
    run.checkpoint([Row(k="new", v=2)])
    assert pairs(tmp_path) == [("new", 1), ("new", 2)]


def test_overwrite_by_a_job_without_rows_leaves_an_empty_table(tmp_path: Path) -> None:
    next_job(tmp_path, "first").checkpoint([Row(k="old", v=1)])
    run = next_job(tmp_path)
    run.checkpoint()
    assert pairs(tmp_path) == []
    run.checkpoint([Row(k="new", v=1)])
    assert pairs(tmp_path) == [("new", 1)]


def test_a_job_that_was_restarted_does_not_overwrite_its_own_rows(tmp_path: Path) -> None:
    next_job(tmp_path, "first").checkpoint([Row(k="old", v=1)])
    run = next_job(tmp_path)
    checkpoint = run.checkpoint([Row(k="new", v=1)])
    run.restore(checkpoint).checkpoint([Row(k="new", v=2)])
    assert pairs(tmp_path) == [("new", 1), ("new", 2)]


def test_a_first_commit_that_is_made_again_after_a_crash_replaces_once(tmp_path: Path) -> None:
    next_job(tmp_path, "first").checkpoint([Row(k="old", v=1)])
    run = next_job(tmp_path)
    checkpoint = run.checkpoint([Row(k="new", v=1)], commit=False)
    run.restore(checkpoint)
    assert pairs(tmp_path) == [("new", 1)]
    run.commit(checkpoint)
    assert pairs(tmp_path) == [("new", 1)]


@pytest.mark.usefixtures("both_ways")
def test_a_job_that_starts_from_another_job_s_checkpoint_keeps_the_rows(tmp_path: Path) -> None:
    next_job(tmp_path, "first").checkpoint([Row(k="old", v=1)])
    savepoint = SinkRun(DeltaSink(str(tmp_path)), PAIR).checkpoint(commit=False)
    run = next_job(tmp_path)
    run.restore(savepoint, lineage="next").checkpoint([Row(k="new", v=1)])
    assert pairs(tmp_path) == [("new", 1), ("old", 1)]
    # Also when it starts again, from a checkpoint of its own before whose commit nothing was written.
    run = next_job(tmp_path)
    own = run.restore(savepoint, lineage="yet another").checkpoint(commit=False)
    run.restore(own).checkpoint([Row(k="new", v=2)])
    assert pairs(tmp_path) == [("new", 1), ("new", 2), ("old", 1)]


@pytest.mark.usefixtures("both_ways")
def test_overwrite_of_a_table_that_only_takes_appends_is_refused_when_the_job_is_built(tmp_path: Path) -> None:
    SinkRun(DeltaSink(str(tmp_path), table_properties={"delta.appendOnly": "true"}), PAIR).checkpoint([Row(k="a", v=1)])
    with pytest.raises(SinkError, match="append-only"):
        DeltaSink(str(tmp_path), overwrite=True).validate(PAIR)
    DeltaSink(str(tmp_path)).validate(PAIR)
