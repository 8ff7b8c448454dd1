"""Rows that a database refuses: in the writer if that is known there, else put aside when their checkpoint is committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy.engine.base import RootTransaction
from sqlalchemy.exc import OperationalError

from flinkish.common import Row, Types
from flinkish.common.errors import RecordRefusedError, SinkError, TargetRefusedError
from flinkish.datastream.connectors.base import CommitRequest
from flinkish.datastream.connectors.jdbc import JdbcExecutionOptions, JdbcSink
from flinkish.datastream.connectors.jdbc.values import RowShape
from flinkish.program.refused_records import RefusedRecord, RefusedRecords
from tests.integration.datastream.connectors.jdbc.conftest import TestDatabase
from tests.integration.datastream.connectors.jdbc.test_sink import INSERT, TYPE, ids, rows
from tests.unit.datastream.connectors.fakes import SinkRun

NO_RETRIES = JdbcExecutionOptions.builder().with_batch_size(4).with_max_retries(0).build()


def run_of(database: TestDatabase, columns: str = "id BIGINT UNIQUE, name TEXT NOT NULL") -> SinkRun:
    database.execute(f"CREATE TABLE t ({columns})")
    return SinkRun(JdbcSink.exactly_once_sink(INSERT, TYPE, database.options, NO_RETRIES), TYPE)


class Kept(RefusedRecords):
    """Remembers what is put aside, and which rows the database showed at that moment."""

    def __init__(self, database: TestDatabase) -> None:
        self.database = database
        self.records: list[RefusedRecord] = []
        self.seen: list[int] = []

    def put_aside(self, checkpoint_id: int, requests: Sequence[CommitRequest[Any]], records: Sequence[RefusedRecord]) -> None:
        self.seen = ids(self.database)
        self.records += records


def keeping(run: SinkRun, database: TestDatabase) -> Kept:
    assert run.committer is not None
    kept = Kept(database)
    run.committer.refused_records = kept
    return kept


@pytest.mark.parametrize(
    ("dialect", "type_info", "value", "message"),
    [
        ("sqlite", Types.DOUBLE(), float("nan"), "is NaN, which SQLite would store as NULL"),
        ("sqlite", Types.BIG_INT(), 1 << 63, "outside the 64 bits"),
        ("sqlite", Types.STRING(), "a\ud800", "lone surrogate"),
        ("postgresql", Types.STRING(), "a\0b", "NUL character"),
        ("mysql", Types.DOUBLE(), float("inf"), "is inf, which MySQL cannot store"),
    ],
)
def test_values_that_no_column_can_hold_are_refused_with_their_record(
    dialect: str, type_info: Any, value: Any, message: str
) -> None:
    row_type = Types.ROW_NAMED(["id", "x"], [Types.LONG(), type_info])
    read = RowShape(row_type, "JdbcSink").reader(row_type, dialect, deletions=False)
    with pytest.raises(RecordRefusedError, match=rf"field 'x' .*{message}.*\nHint: .*pipeline.dead-letters.dir"):
        read(Row(id=1, x=value))


def test_the_writer_of_an_exactly_once_sink_refuses_such_values(sqlite: TestDatabase) -> None:
    type_info = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.DOUBLE()])
    sqlite.execute("CREATE TABLE t (id BIGINT, name DOUBLE)")
    run = SinkRun(JdbcSink.exactly_once_sink(INSERT, type_info, sqlite.options, NO_RETRIES), type_info)
    with pytest.raises(RecordRefusedError):
        run.write([Row(id=1, name=float("nan"))])
    run.checkpoint([Row(id=2, name=1.0)])
    assert ids(sqlite) == [2]


def test_a_commit_that_the_database_refuses_names_the_row_and_the_way_on_and_writes_nothing(database: TestDatabase) -> None:
    run = run_of(database)
    with pytest.raises(TargetRefusedError) as raised:
        run.checkpoint([*rows(1, 2), Row(id=3, name=None), *rows(4, 1)])
    text = str(raised.value)
    assert "refuses 2 records" in text
    assert "{'id': 3, 'name': None}" in text
    assert "Hint: set pipeline.dead-letters.dir, and start again" in text
    assert ids(database) == []


def test_only_refused_rows_are_put_aside_and_before_the_others_are_visible(database: TestDatabase) -> None:
    run = run_of(database)
    kept = keeping(run, database)
    checkpoint = run.checkpoint([*rows(*range(1, 20)), Row(id=20, name=None), *rows(7, 21)], commit=False)
    run.commit(checkpoint)
    run.commit(checkpoint)
    assert ids(database) == [*range(1, 20), 21]
    assert [record.value for record in kept.records] == [{"id": 20, "name": None}, {"id": 7, "name": "7"}]
    assert "name" in kept.records[0].reason
    assert kept.seen == []
    run.checkpoint(rows(22))
    assert ids(database)[-1] == 22


def test_a_deferred_constraint_is_known_before_the_commit(on_postgresql: TestDatabase) -> None:
    run = run_of(on_postgresql, "id BIGINT UNIQUE DEFERRABLE INITIALLY DEFERRED, name TEXT")
    kept = keeping(run, on_postgresql)
    run.checkpoint(rows(1, 2, 1, 3))
    assert ids(on_postgresql) == [1, 2, 3]
    assert [record.value["id"] for record in kept.records] == [1]


def test_rows_that_a_trigger_or_a_type_of_the_table_refuses_are_put_aside(on_postgresql: TestDatabase) -> None:
    on_postgresql.execute(
        "CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN IF NEW.id = 2 THEN RAISE EXCEPTION 'not two'; END IF; "
        "RETURN NEW; END $$ LANGUAGE plpgsql"
    )
    run = run_of(on_postgresql, "id INT, name VARCHAR(2)")
    on_postgresql.execute("CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse()")
    kept = keeping(run, on_postgresql)
    run.checkpoint(rows(1, 2, 3, 1 << 40, 444, 5))
    assert ids(on_postgresql) == [1, 3, 5]
    assert [record.value["id"] for record in kept.records] == [2, 1 << 40, 444]
    on_postgresql.execute("DROP FUNCTION refuse CASCADE")


def test_nan_in_a_checkpoint_of_an_earlier_version_is_put_aside(sqlite: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    type_info = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.DOUBLE()])
    sqlite.execute("CREATE TABLE t (id BIGINT, name DOUBLE)")
    with monkeypatch.context() as patch:
        patch.setattr("flinkish.datastream.connectors.jdbc.values._holdable", lambda *arguments: None)
        sink = JdbcSink.exactly_once_sink(INSERT, type_info, sqlite.options, NO_RETRIES)
        checkpoint = SinkRun(sink, type_info).checkpoint([Row(id=1, name=float("nan")), Row(id=2, name=2.0)], commit=False)
    run = SinkRun(sink, type_info)
    kept = keeping(run, sqlite)
    run.commit(checkpoint)
    assert ids(sqlite) == [2]
    assert "is NaN" in kept.records[0].reason


def test_a_missing_table_is_no_refused_row(sqlite: TestDatabase) -> None:
    run = SinkRun(JdbcSink.exactly_once_sink(INSERT, TYPE, sqlite.options, NO_RETRIES), TYPE)
    kept = keeping(run, sqlite)
    with pytest.raises(SinkError, match="no such table") as raised:
        run.checkpoint(rows(1))
    assert not isinstance(raised.value, TargetRefusedError)
    assert kept.records == []


def at_least_once(database: TestDatabase, execution: JdbcExecutionOptions = NO_RETRIES) -> SinkRun:
    database.execute("CREATE TABLE t (id BIGINT UNIQUE, name TEXT NOT NULL)")
    return SinkRun(JdbcSink.sink(INSERT, TYPE, database.options, execution), TYPE)


def test_a_batch_that_is_refused_at_least_once_names_its_row_which_need_not_be_its_last_one(sqlite: TestDatabase) -> None:
    run = at_least_once(sqlite)
    with pytest.raises(TargetRefusedError, match=r"NOT NULL .*'id': 1, .*\nHint: .*dead-letters") as raised:
        run.write([Row(id=1, name=None), *rows(2, 3, 4)])
    assert not isinstance(raised.value, RecordRefusedError)


def test_a_sink_that_writes_at_least_once_puts_only_refused_rows_aside(database: TestDatabase) -> None:
    run = at_least_once(database)
    run.keeps_dead_letters = True
    run.write([*rows(1, 2), Row(id=3, name=None), *rows(4, 1, 5)])
    assert ids(database) == [1, 2, 4]
    run.checkpoint(commit=False)
    run.checkpoint(rows(6), commit=False)
    assert ids(database) == [1, 2, 4, 5, 6]
    assert [value for value, _ in run.put_aside] == [{"id": 3, "name": None}, {"id": 1, "name": "1"}]
    assert "name" in run.put_aside[0][1]


def test_a_row_is_put_aside_once_if_its_transaction_is_tried_again(sqlite: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    run = at_least_once(sqlite, JdbcExecutionOptions.builder().with_batch_size(4).with_max_retries(1).build())
    run.keeps_dead_letters = True
    commit, lost = RootTransaction.commit, [OperationalError("COMMIT", {}, Exception("the connection is lost"))]

    def commit_or_fail(transaction: RootTransaction) -> None:
        if lost:
            raise lost.pop()
        commit(transaction)

    monkeypatch.setattr(RootTransaction, "commit", commit_or_fail)
    run.write([*rows(1, 2), Row(id=3, name=None), *rows(4)])
    assert (ids(sqlite), lost) == ([1, 2, 4], [])
    assert [value["id"] for value, _ in run.put_aside] == [3]
