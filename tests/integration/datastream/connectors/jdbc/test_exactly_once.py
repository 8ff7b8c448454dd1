"""JdbcSink.exactly_once_sink: rows and the id of their checkpoint in one transaction, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from flinkish.common import Configuration, Row, Types
from flinkish.common.errors import (
    ForeignCheckpointError,
    InvalidArgumentError,
    InvalidProgramError,
    JobExecutionError,
    SinkChangedError,
    SinkError,
)
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import DataGeneratorSource
from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from flinkish.datastream.connectors.jdbc import sink as sink_module
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT
from flinkish.testing import CrashPoint, JobHarness
from tests.integration.datastream.connectors.jdbc.conftest import TestDatabase, sqlite_database
from tests.integration.datastream.connectors.jdbc.test_sink import INSERT, TYPE, UPSERT, ids, rows
from tests.kit.environments import env_of
from tests.kit.postgresql import PASSWORD, PostgreSQL
from tests.kit.restarts import restarting
from tests.kit.waiting import wait_until
from tests.unit.datastream.connectors.fakes import Checkpoint, SinkRun


def sink_of(database: TestDatabase, sql: str = INSERT, *, retries: int = 0, **options: Any) -> JdbcSink:
    execution = JdbcExecutionOptions.builder().with_batch_size(2).with_max_retries(retries).build()
    return JdbcSink.exactly_once_sink(sql, TYPE, database.options, execution, **options)


def created(database: TestDatabase) -> TestDatabase:
    # Without a key: a row that is written twice is there twice.
    database.execute("CREATE TABLE t (id BIGINT, name TEXT)")
    return database


def run_of(database: TestDatabase, parallelism: int = 1) -> SinkRun:
    return SinkRun(sink_of(created(database)), TYPE, parallelism)


def entries(database: TestDatabase) -> list[tuple[str, int]]:
    return database.execute("SELECT application, checkpoint_id FROM flinkish_checkpoints ORDER BY application")


@contextmanager
def at_commit(call: Callable[[sqlalchemy.Connection], None]) -> Iterator[None]:
    """Have `call` made when the next transaction that has written rows is about to be committed."""
    written: list[bool] = []

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        written.append(statement.startswith("INSERT INTO t "))

    def reach(connection: sqlalchemy.Connection) -> None:
        if any(written):
            written.clear()
            call(connection)

    sqlalchemy.event.listen(sqlalchemy.Engine, "after_cursor_execute", note)
    sqlalchemy.event.listen(sqlalchemy.Engine, "commit", reach)
    try:
        yield
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "after_cursor_execute", note)
        sqlalchemy.event.remove(sqlalchemy.Engine, "commit", reach)


class CrashError(Exception):
    """The driver dies here."""


def crash(connection: sqlalchemy.Connection) -> None:
    raise CrashError


def test_rows_become_visible_with_their_checkpoint_and_once(database: TestDatabase) -> None:
    run = run_of(database, parallelism=2)

    run.epoch(rows(1, 2, 3)).lost_epoch(rows(4, 5)).epoch(rows(4, 5))
    checkpoint = run.lose_writers().checkpoint(rows(6), commit=False)
    assert ids(database) == []
    run.commit(checkpoint)
    run.commit(checkpoint)
    assert ids(database) == [1, 2, 3, 4, 5, 6]
    run.checkpoint()
    assert entries(database) == [("lineage/sink", 1)]
    run.checkpoint(rows(7))
    assert ids(database) == [1, 2, 3, 4, 5, 6, 7]
    assert entries(database) == [("lineage/sink", 3)]


def test_rows_of_one_writer_are_written_in_their_order(database: TestDatabase) -> None:
    database.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
    run = SinkRun(sink_of(database, UPSERT), TYPE)

    for name in "abcde":
        run.epoch([Row(id=1, name=name), Row(id=2, name=name)])
    run.checkpoint([Row(id=2, name="f")])

    assert database.execute("SELECT * FROM t ORDER BY id") == [(1, "e"), (2, "f")]


def test_a_driver_that_dies_in_mid_commit_commits_after_its_restart(database: TestDatabase) -> None:
    run = run_of(database)
    checkpoint = run.checkpoint(rows(1, 2, 3), commit=False)
    with at_commit(crash), pytest.raises(SinkError, match=r"could not commit checkpoint 1 to .*: CrashError"):
        run.commit(checkpoint)
    assert ids(database) == []
    for parallelism in (3, 2):
        run.restore(checkpoint, parallelism)
        assert ids(database) == [1, 2, 3]
    run.checkpoint(rows(4))
    assert ids(database) == [1, 2, 3, 4]


def test_rows_of_an_unfinished_checkpoint_are_restored_and_rescaled(sqlite: TestDatabase) -> None:
    run = run_of(sqlite)
    checkpoint = run.checkpoint(rows(1))
    run.epoch(rows(2))
    states = [{name: list(values) for name, values in each.items()} for each in run.states]
    savepoint = Checkpoint(checkpoint.id, states, checkpoint.requests, checkpoint.lineage, checkpoint.committer_state)

    run.restore(savepoint, 3).checkpoint(rows(3, 4, 5))

    assert ids(sqlite) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("committed", [False, True])
def test_a_commit_whose_answer_was_lost_is_made_or_found(on_postgresql: TestDatabase, committed: bool) -> None:
    run = run_of(on_postgresql)
    url = on_postgresql.options.get_db_url() + "?ApplicationName=sink&user=flinkish&password=" + PASSWORD
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()
    run.sink = sink_of(replace(on_postgresql, options=options), retries=1)
    run.committer = run.sink.create_committer(run.contexts[0].configuration)
    calls: list[None] = []

    def lose_connection(connection: sqlalchemy.Connection) -> None:
        calls.append(None)
        if len(calls) == 1:
            if committed:
                connection.connection.commit()
            on_postgresql.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sink'")

    with at_commit(lose_connection):
        run.checkpoint(rows(1, 2, 3))
    assert ids(on_postgresql) == [1, 2, 3]
    assert len(calls) == (1 if committed else 2)


def test_of_two_drivers_that_commit_at_once_one_writes(on_postgresql: TestDatabase) -> None:
    run = run_of(on_postgresql)
    first = run.checkpoint(rows(0))
    zombie = run.restored_committer(first)
    checkpoint = run.checkpoint(rows(1, 2), commit=False)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE flinkish_checkpoints%'"
    other = threading.Thread(target=zombie.commit, args=(checkpoint.id, checkpoint.requests))

    def meanwhile(connection: sqlalchemy.Connection) -> None:
        other.start()
        wait_until("the second driver waits for the first", lambda: on_postgresql.execute(waiting) == [(1,)])

    with at_commit(meanwhile):
        run.commit(checkpoint)
        other.join(120)
    zombie.close()
    assert not other.is_alive()
    assert ids(on_postgresql) == [0, 1, 2]


def test_a_driver_that_was_overtaken_is_refused(database: TestDatabase) -> None:
    run = run_of(database)
    first = run.checkpoint(rows(1), commit=False)
    zombie = run.sink.create_committer(run.contexts[0].configuration)
    assert zombie is not None
    run.commit(first)
    run.checkpoint(rows(2))
    with pytest.raises(SinkError, match=r"cannot commit checkpoint 1 to .*: it holds the rows of checkpoint 2 already"):
        zombie.commit(first.id, first.requests)
    assert ids(database) == [1, 2]


def test_a_copy_of_the_job_with_other_rows_is_refused(sqlite: TestDatabase) -> None:
    run, copy = run_of(sqlite), SinkRun(sink_of(sqlite), TYPE)
    run.checkpoint(rows(1))
    with pytest.raises(SinkError, match="another job has committed other rows under the same id"):
        copy.checkpoint(rows(2))
    assert ids(sqlite) == [1]


def test_the_end_of_the_input_may_come_again_with_the_same_rows(sqlite: TestDatabase) -> None:
    run = run_of(sqlite)
    checkpoint = run.checkpoint(rows(1, 2), commit=False)
    again = SinkRun(run.sink, TYPE).checkpoint(rows(1), commit=False)
    assert run.committer is not None
    run.committer.commit(END_OF_INPUT_CHECKPOINT, checkpoint.requests)
    run.committer.commit(END_OF_INPUT_CHECKPOINT, again.requests)
    assert ids(sqlite) == [1, 2]


def test_a_checkpoint_older_than_the_database_is_refused(database: TestDatabase) -> None:
    run = run_of(database)
    first = run.checkpoint(rows(1))
    run.checkpoint(rows(2))
    with pytest.raises(ForeignCheckpointError, match=r"is ahead of checkpoint 1, .* holds the rows of checkpoint 2 already"):
        run.restore(first)


def test_a_database_that_lost_commits_is_refused(database: TestDatabase) -> None:
    run = run_of(database).after(rows(1))
    second = run.checkpoint(rows(2))
    database.execute("UPDATE flinkish_checkpoints SET checkpoint_id = 0")
    expected = r"committed checkpoint 1 to .* \(table flinkish_checkpoints\), which knows of checkpoint 0: the rows of all later"
    with pytest.raises(SinkChangedError, match=expected):
        run.restore(second)
    database.execute("DROP TABLE flinkish_checkpoints")
    with pytest.raises(SinkChangedError, match=r"knows of none of its commits: all rows that it wrote there are lost"):
        run.restore(second)


@pytest.mark.parametrize("restored", [False, True])
def test_a_database_that_loses_commits_while_the_job_runs_gets_no_further_rows(database: TestDatabase, restored: bool) -> None:
    run = run_of(database).after(rows(1))
    second = run.checkpoint(rows(2))
    if restored:
        run.restore(second)
    database.execute("DELETE FROM t WHERE id = 2")
    database.execute("UPDATE flinkish_checkpoints SET checkpoint_id = 1")
    run.checkpoint()
    with pytest.raises(
        SinkChangedError, match=r"had committed checkpoint 2 .* knows of checkpoint 1: .* up to checkpoint 2, are"
    ):
        run.checkpoint(rows(3))
    database.execute("DELETE FROM flinkish_checkpoints")
    with pytest.raises(SinkChangedError, match="knows of none of its commits"):
        run.checkpoint(rows(4))
    assert ids(database) == [1]


def test_commits_that_are_lost_between_a_restore_and_the_next_commit_are_noticed(sqlite: TestDatabase) -> None:
    run = run_of(sqlite)
    savepoint = run.checkpoint(rows(1), commit=False)
    run.restore(savepoint, lineage="next")
    run.next_checkpoint = 2
    sqlite.execute("DELETE FROM t")
    sqlite.execute("DELETE FROM flinkish_checkpoints")
    with pytest.raises(SinkChangedError, match=r"had committed checkpoint 1 .* knows of none of its commits"):
        run.checkpoint(rows(2))
    assert ids(sqlite) == []


def test_a_job_that_moved_to_another_database_does_not_ask_it_for_earlier_commits(sqlite: TestDatabase, tmp_path: Path) -> None:
    run = run_of(sqlite).after(rows(1))
    savepoint = run.checkpoint()
    other = created(sqlite_database(tmp_path / "other.db"))
    run.sink = sink_of(other)
    run.restore(savepoint).restore(run.checkpoint()).checkpoint(rows(2))
    assert (ids(sqlite), ids(other)) == ([1], [2])


def test_two_jobs_that_started_from_one_savepoint_do_not_both_write(sqlite: TestDatabase) -> None:
    run = run_of(sqlite)
    savepoint = run.checkpoint(rows(1))
    jobs = []
    for lineage in ("one", "two"):
        job = SinkRun(run.sink, TYPE).restore(savepoint, lineage=lineage)
        job.next_checkpoint = 2
        jobs.append(job)
    jobs[0].checkpoint(rows(2))
    with pytest.raises(SinkError, match="a job that was started from the same savepoint is running"):
        jobs[1].checkpoint(rows(3))
    assert ids(sqlite) == [1, 2]


def test_a_savepoint_starts_one_job_and_no_second_one(sqlite: TestDatabase) -> None:
    run = run_of(sqlite)
    savepoint = run.checkpoint(rows(1), commit=False)
    run.restore(savepoint, lineage="other")
    run.next_checkpoint = 2
    after = run.checkpoint(rows(2))
    assert entries(sqlite) == [("lineage/sink", 2), ("other/sink", 2)]
    # The job itself goes on, also from the savepoint again.
    run.restore(after)
    second = SinkRun(run.sink, TYPE)
    with pytest.raises(ForeignCheckpointError, match="is ahead of checkpoint 1"):
        second.restore(savepoint, lineage="third")
    assert ids(sqlite) == [1, 2]


def test_rows_of_another_type_that_were_not_written_are_refused(sqlite: TestDatabase) -> None:
    run = run_of(sqlite)
    checkpoint = run.checkpoint(rows(1), commit=False)
    run.sink = JdbcSink.exactly_once_sink("INSERT INTO t (id) VALUES (?)", Types.ROW([Types.LONG()]), sqlite.options)
    with pytest.raises(ForeignCheckpointError, match=r"the checkpoint holds rows of type .*, which were not written yet"):
        run.restore(checkpoint)


def test_the_table_of_ids_can_be_named(on_postgresql: TestDatabase) -> None:
    created(on_postgresql).execute("DROP SCHEMA IF EXISTS jobs CASCADE; CREATE SCHEMA jobs")
    SinkRun(sink_of(on_postgresql, checkpoint_table="jobs.ids"), TYPE).checkpoint(rows(1))
    assert on_postgresql.execute("SELECT application, checkpoint_id FROM jobs.ids") == [("lineage/sink", 1)]


def test_a_long_uid_has_a_short_name_in_the_table(sqlite: TestDatabase) -> None:
    from flinkish.datastream.connectors.jdbc.committer import _application

    names = {_application("lineage", uid) for uid in ("x" * 300, "x" * 301, "y" * 240)}
    assert len(names) == 3
    assert max(map(len, names)) <= 255


def test_too_many_waiting_rows_are_an_error(sqlite: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_module, "_MOST_WAITING_BYTES", 100)
    run = run_of(sqlite).epoch(rows(1))
    run.checkpoint()
    run.epoch(rows(2))
    with pytest.raises(SinkError, match="MB of rows wait for a checkpoint"):
        run.epoch(rows(*range(1000)))


def test_what_has_no_meaning_is_refused(sqlite: TestDatabase) -> None:
    interval = JdbcExecutionOptions.builder().with_batch_interval_ms(5).build()
    with pytest.raises(InvalidProgramError, match="exactly_once_sink has no batch interval"):
        JdbcSink.exactly_once_sink(INSERT, TYPE, sqlite.options, interval)
    with pytest.raises(InvalidArgumentError, match=r"'name' or 'schema\.name'; got 'a\.b\.c'"):
        sink_of(sqlite, checkpoint_table="a.b.c")


@pytest.mark.parametrize("point", CrashPoint)
def test_wherever_the_driver_dies_each_row_is_there_once(sqlite: TestDatabase, point: CrashPoint) -> None:
    created(sqlite)

    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        numbers = env.from_source(job.source("rows", TYPE), _none(), "rows")
        numbers.key_by(lambda row: row["id"]).map(lambda row: row, TYPE).add_sink(sink_of(sqlite))

    with JobHarness(program, parallelism=2) as job:
        for row in rows(1, 2, 3):
            job.source("rows").emit(row)
        job.checkpoint()
        for row in rows(4, 5):
            job.source("rows").emit(row)
        job.crash(point)
        assert set(ids(sqlite)) in ({1, 2, 3}, {1, 2, 3, 4, 5})
        job.restart(parallelism=3)
        job.source("rows").emit(Row(id=6, name="6"))
        job.finish()
    assert ids(sqlite) == [1, 2, 3, 4, 5, 6]


def test_a_job_with_two_sinks_outlives_a_restart_of_its_database(on_postgresql: TestDatabase, postgresql: PostgreSQL) -> None:
    created(on_postgresql).execute("CREATE TABLE even (id BIGINT, name TEXT)")
    env = env_of({"execution.checkpointing.interval": "10 ms", **restarting(1000, "20 ms")})
    numbers = DataGeneratorSource(lambda index: Row(id=index, name=str(index)), count=600, records_per_second=400, type_info=TYPE)
    stream = env.from_source(numbers, _none(), "numbers")
    stream.add_sink(sink_of(on_postgresql))
    stream.filter(lambda row: row["id"] % 2 == 0).add_sink(sink_of(on_postgresql, "INSERT INTO even VALUES (?, ?)"))
    job = env.execute_async()
    wait_until("rows of a checkpoint", lambda: len(ids(on_postgresql)) > 0)
    postgresql.stop()
    postgresql.start()
    before = len(ids(on_postgresql))
    job.get_job_execution_result().result(120)

    assert 0 < before < 600
    assert ids(on_postgresql) == list(range(600))
    assert on_postgresql.execute("SELECT id FROM even ORDER BY id") == [(number,) for number in range(0, 600, 2)]
    assert len(entries(on_postgresql)) == 2


def test_an_error_at_the_end_of_the_input_shows_no_number_of_a_checkpoint(sqlite: TestDatabase) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.engine": "local"}))
    env.from_collection(rows(1), TYPE).add_sink(sink_of(sqlite))
    with pytest.raises(JobExecutionError, match="could not commit the end of the input to sqlite"):
        env.execute()


def _none() -> Any:
    from flinkish.common import WatermarkStrategy

    return WatermarkStrategy.no_watermarks()
