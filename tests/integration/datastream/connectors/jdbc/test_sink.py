"""JdbcSink.sink: batches, retries, types; each record is written at least once."""

from __future__ import annotations

import datetime
import logging
from decimal import Decimal
from typing import Any

import pytest

from flinkish.common import Instant, Row, RowKind, Types, WatermarkStrategy
from flinkish.common.errors import (
    InvalidArgumentError,
    InvalidProgramError,
    JobExecutionError,
    SinkChangedError,
    SinkError,
    TypeMismatchError,
)
from flinkish.common.typeinfo import DecimalTypeInfo
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from flinkish.datastream.connectors.jdbc.database import Session, database_of
from flinkish.testing import JobHarness
from tests.integration.datastream.connectors.jdbc.conftest import TestDatabase
from tests.kit.environments import env_of
from tests.kit.postgresql import PASSWORD, PostgreSQL
from tests.unit.datastream.connectors.fakes import SinkRun

_LOCAL = {"restart-strategy.type": "none"}
_NONE = WatermarkStrategy.no_watermarks()

TYPE = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
INSERT = "INSERT INTO t (id, name) VALUES (?, ?)"
UPSERT = f"{INSERT} ON CONFLICT (id) DO UPDATE SET name = excluded.name"


def sink_of(database: TestDatabase, sql: str = INSERT, **options: int) -> JdbcSink:
    builder = JdbcExecutionOptions.builder().with_max_retries(0)
    for name, value in options.items():
        builder = getattr(builder, f"with_{name}")(value)
    return JdbcSink.sink(sql, TYPE, database.options, builder.build())


def created(database: TestDatabase) -> TestDatabase:
    database.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
    return database


def ids(database: TestDatabase) -> list[int]:
    return [row[0] for row in database.execute("SELECT id FROM t ORDER BY id")]


def rows(*numbers: int) -> list[Row]:
    return [Row(id=number, name=str(number)) for number in numbers]


def test_a_batch_is_sent_when_it_is_full_and_the_rest_at_a_checkpoint(database: TestDatabase) -> None:
    run = SinkRun(sink_of(created(database), batch_size=3), TYPE)

    run.write(rows(1, 2))
    assert ids(database) == []
    run.write(rows(3, 4))
    assert ids(database) == [1, 2, 3]
    run.end_epoch()
    assert ids(database) == [1, 2, 3]
    run.checkpoint(commit=False)
    assert ids(database) == [1, 2, 3, 4]


def test_without_checkpoints_an_incomplete_batch_is_sent_after_each_epoch(sqlite: TestDatabase) -> None:
    run = SinkRun(sink_of(created(sqlite), batch_size=100), TYPE, checkpoints=False)

    run.epoch(rows(1, 2))
    assert ids(sqlite) == [1, 2]
    run.epoch(rows(3))
    assert ids(sqlite) == [1, 2, 3]


def test_a_batch_that_waits_outlives_its_process(sqlite: TestDatabase) -> None:
    run = SinkRun(sink_of(created(sqlite), batch_size=100), TYPE)

    run.epoch(rows(1, 2)).epoch(rows(3)).lost_epoch(rows(4)).epoch(rows(4)).lose_writers()
    assert ids(sqlite) == []
    run.checkpoint(rows(5), commit=False)
    assert ids(sqlite) == [1, 2, 3, 4, 5]
    run.checkpoint(commit=False)
    assert ids(sqlite) == [1, 2, 3, 4, 5]


def test_a_batch_is_sent_after_the_interval_even_if_nothing_more_comes(sqlite: TestDatabase) -> None:
    created(sqlite)

    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        env.from_source(job.source("rows", TYPE), _NONE, "rows").add_sink(sink_of(sqlite, batch_interval_ms=500))

    with JobHarness(program) as job:
        job.source("rows").emit(Row(id=1, name="a"))
        job.settle()
        job.advance(499)
        assert ids(sqlite) == []
        job.source("rows").emit(Row(id=2, name="b"))
        job.settle()
        job.advance(1)
        assert ids(sqlite) == [1, 2]
        job.source("rows").emit(Row(id=3, name="c"))
        job.settle()
        job.advance(400)
        assert ids(sqlite) == [1, 2]
        job.finish()
        assert ids(sqlite) == [1, 2, 3]


def test_an_upsert_leaves_the_last_row_of_each_key(database: TestDatabase) -> None:
    created(database)
    env = env_of(_LOCAL, 2)
    changes = env.from_collection([Row(id=i % 5, name=f"{i:02}") for i in range(50)], TYPE)
    changes.key_by(lambda row: row["id"]).map(lambda row: row, TYPE).add_sink(sink_of(database, UPSERT, batch_size=7))
    env.execute()

    assert database.execute("SELECT id, name FROM t ORDER BY id") == [(i, str(45 + i)) for i in range(5)]


def test_tuples_are_bound_by_position_and_converted_to_the_type(sqlite: TestDatabase) -> None:
    sink = sink_of(created(sqlite))
    SinkRun(sink, Types.TUPLE([Types.LONG(), Types.STRING()])).checkpoint([(1, "a")], commit=False)
    SinkRun(sink, Types.PICKLED_BYTE_ARRAY()).checkpoint([(2.0, "b"), Row(3, None)], commit=False)

    assert sqlite.execute("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "b"), (3, None)]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((1,), r"a record of 1 fields came; expected 2"),
        ((1, 5), r"field 'name': .*String"),
        ("ab", r"writes rows and tuples; got 'ab' of type str"),
        (Row.of_kind(RowKind.DELETE, id=1, name="a"), r"a row of kind DELETE came"),
    ],
)
def test_records_that_do_not_fit_are_named(sqlite: TestDatabase, record: Any, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        SinkRun(sink_of(created(sqlite))).write([record])


def test_the_error_of_a_change_says_that_a_second_sink_has_no_order_with_the_first(sqlite: TestDatabase) -> None:
    with pytest.raises(TypeMismatchError, match=r"Hint: filter rows of kind UPDATE_BEFORE; .* would have no order with this one"):
        SinkRun(sink_of(created(sqlite))).write([Row.of_kind(RowKind.UPDATE_BEFORE, id=1, name="a")])


def test_deletions_go_to_a_delete_statement(sqlite: TestDatabase) -> None:
    created(sqlite).execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    key = Types.ROW_NAMED(["id"], [Types.LONG()])
    sink = JdbcSink.sink("delete FROM t WHERE id = ?", key, sqlite.options)

    SinkRun(sink, key).checkpoint([Row.of_kind(RowKind.DELETE, id=1)], commit=False)

    assert ids(sqlite) == [2]


_MOMENT = datetime.datetime(2013, 1, 1, 5, 17, 0, 123000)
_TYPES: list[tuple[Any, str, Any, Any, Any]] = [
    # type, column, value, what PostgreSQL holds, what SQLite holds
    (Types.STRING(), "TEXT", "é%?'", "é%?'", "é%?'"),
    (Types.CHAR(), "CHAR(1)", "x", "x", "x"),
    (Types.BOOLEAN(), "BOOLEAN", True, True, 1),
    (Types.BYTE(), "SMALLINT", -128, -128, -128),
    (Types.LONG(), "BIGINT", 2**63 - 1, 2**63 - 1, 2**63 - 1),
    (Types.BIG_INT(), "NUMERIC", 10**15, Decimal(10**15), 10**15),
    (Types.FLOAT(), "REAL", 1.1, pytest.approx(1.1), 1.100000023841858),
    (Types.DOUBLE(), "DOUBLE PRECISION", 0.1, 0.1, 0.1),
    (Types.BIG_DEC(), "NUMERIC(30, 10)", Decimal("12345.6789"), Decimal("12345.6789"), 12345.6789),
    (DecimalTypeInfo(10, 2), "TEXT", Decimal("1.50"), "1.50", "1.50"),
    (Types.SQL_DATE(), "DATE", _MOMENT.date(), _MOMENT.date(), "2013-01-01"),
    (Types.SQL_TIME(), "TIME", _MOMENT.time(), _MOMENT.time(), "05:17:00.123000"),
    (Types.SQL_TIMESTAMP(), "TIMESTAMP", _MOMENT, _MOMENT, "2013-01-01 05:17:00.123000"),
    (
        Types.INSTANT(),
        "TIMESTAMP WITH TIME ZONE",
        Instant.of_epoch_milli(1_357_017_420_123),
        _MOMENT.replace(tzinfo=datetime.UTC),
        "2013-01-01 05:17:00.123000",
    ),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "BYTES", b"\x00\xff", b"\x00\xff", b"\x00\xff"),
]


@pytest.mark.parametrize("exactly_once", [False, True])
def test_values_of_all_types_arrive(database: TestDatabase, exactly_once: bool) -> None:
    is_postgresql = database.kind == "postgresql"
    columns = [f"c{i} {column}" for i, (_, column, *_) in enumerate(_TYPES)]
    binary = "BYTEA" if is_postgresql else "BLOB"
    database.execute(f"CREATE TABLE t (id BIGINT, {', '.join(columns)})".replace("BYTES", binary))
    types = [Types.LONG(), *(type_info for type_info, *_ in _TYPES)]
    type_info = Types.ROW(types)
    make = JdbcSink.exactly_once_sink if exactly_once else JdbcSink.sink
    sink = make(f"INSERT INTO t VALUES ({', '.join('?' * len(types))})", type_info, database.options)

    run = SinkRun(sink, Types.PICKLED_BYTE_ARRAY()).epoch([Row(1, *(value for _, _, value, _, _ in _TYPES))])
    run.lose_writers().checkpoint([Row(2, *(None for _ in _TYPES))], commit=exactly_once)

    (_, *found), (_, *nothing) = database.execute("SELECT * FROM t ORDER BY id")
    expected = [in_postgresql if is_postgresql else in_sqlite for *_, in_postgresql, in_sqlite in _TYPES]
    assert found == expected
    assert nothing == [None] * len(_TYPES)


def test_times_of_a_stream_without_types_keep_their_microseconds(sqlite: TestDatabase) -> None:
    sqlite.execute("CREATE TABLE t (at TIMESTAMP, t TIME)")
    sink = JdbcSink.sink("INSERT INTO t VALUES (?, ?)", Types.ROW([Types.SQL_TIMESTAMP(), Types.SQL_TIME()]), sqlite.options)
    moment = _MOMENT.replace(microsecond=123456)
    SinkRun(sink, Types.PICKLED_BYTE_ARRAY()).checkpoint([Row(moment, moment.time())], commit=False)
    assert sqlite.execute("SELECT at, t FROM t") == [("2013-01-01 05:17:00.123456", "05:17:00.123456")]


@pytest.mark.parametrize(
    ("options", "naive"), [("", "05:17:00.123"), ("?options=-c timezone%3DAmerica/New_York", "00:17:00.123")]
)
def test_times_do_not_depend_on_the_time_zone_of_the_server(on_postgresql: TestDatabase, options: str, naive: str) -> None:
    database = on_postgresql
    database.execute("ALTER ROLE flinkish SET timezone = 'America/New_York'")
    database.execute("CREATE TABLE t (at TIMESTAMP, local TIMESTAMP WITH TIME ZONE)")
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(database.options.get_db_url() + options)
    connection = builder.with_user_name("flinkish").with_password(PASSWORD).build()
    type_info = Types.ROW_NAMED(["at", "local"], [Types.INSTANT(), Types.SQL_TIMESTAMP()])
    sink = JdbcSink.sink("INSERT INTO t VALUES (?, ?)", type_info, connection)
    row = Row(at=Instant.of_epoch_milli(1_357_017_420_123), local=_MOMENT)

    SinkRun(sink, type_info).checkpoint([row], commit=False)

    shift = datetime.timedelta(hours=5 if options else 0)
    ((at, local),) = database.execute("SELECT at, local FROM t")
    assert at.time().isoformat("milliseconds") == naive
    assert local == _MOMENT.replace(tzinfo=datetime.UTC) + shift
    database.execute("ALTER ROLE flinkish RESET timezone")


def test_nan_is_not_made_null_by_sqlite(sqlite: TestDatabase) -> None:
    sqlite.execute("CREATE TABLE n (x DOUBLE)")
    sink = JdbcSink.sink("INSERT INTO n VALUES (?)", Types.TUPLE([Types.DOUBLE()]), sqlite.options)
    with pytest.raises(SinkError, match=r"field 'f0' is NaN, which SQLite would store as NULL"):
        SinkRun(sink, Types.TUPLE([Types.DOUBLE()])).checkpoint([(float("nan"),)], commit=False)


@pytest.mark.parametrize(
    ("sql", "type_info", "message"),
    [
        ("INSERT INTO t VALUES (?)", TYPE, r"has 1 placeholders \(\?\) for 2 fields \(id, name\)"),
        ("INSERT INTO t VALUES (:id, :name)", TYPE, r"has 0 placeholders .*\nHint: write one \? for each field, not %s, :name"),
        (INSERT, Types.LONG(), "needs the type of a row or tuple"),
        (INSERT, Types.TUPLE([Types.LONG(), Types.LIST(Types.INT())]), r"field 'f1' of type .* fits no column"),
        (INSERT, Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()]), r"field 'f1' of type .* fits no column"),
        (" ", TYPE, "must be a text that is not empty"),
    ],
)
def test_what_cannot_work_is_refused_when_the_sink_is_made(sqlite: TestDatabase, sql: str, type_info: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        JdbcSink.sink(sql, type_info, sqlite.options)


def test_builders_instead_of_options_are_refused(sqlite: TestDatabase) -> None:
    with pytest.raises(InvalidArgumentError, match="needs JdbcConnectionOptions; got JdbcConnectionOptionsBuilder"):
        JdbcSink.sink(INSERT, TYPE, JdbcConnectionOptions.JdbcConnectionOptionsBuilder())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"must be a JdbcExecutionOptions; got .* of type Builder\.\nHint: "):
        JdbcSink.sink(INSERT, TYPE, sqlite.options, JdbcExecutionOptions.builder())  # type: ignore[arg-type]


def test_a_lost_connection_is_replaced_and_its_batch_sent_again(
    on_postgresql: TestDatabase, postgresql: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    database = on_postgresql
    run = SinkRun(sink_of(created(database), batch_size=2, max_retries=1), TYPE).write(rows(1, 2))
    postgresql.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    with caplog.at_level(logging.WARNING):
        run.write(rows(3, 4))
    assert ids(database) == [1, 2, 3, 4]
    assert "JdbcSink could not write 2 rows to postgresql+psycopg://flinkish@127.0.0.1" in caplog.text
    # A server that is gone for longer.
    postgresql.stop()
    with pytest.raises(SinkError, match=r"could not write 2 rows to .* in 2 tries: OperationalError"):
        run.write(rows(5, 6))
    postgresql.start()
    run.checkpoint(commit=False)
    assert ids(database) == [1, 2, 3, 4, 5, 6]


def test_a_batch_is_tried_as_often_as_the_options_say_with_longer_and_longer_pauses(sqlite: TestDatabase) -> None:
    import sqlalchemy

    created(sqlite)
    waits: list[float] = []
    tries: list[int] = []

    def work(connection: sqlalchemy.Connection) -> str:
        tries.append(connection.exec_driver_sql("INSERT INTO t VALUES (1, 'a')").rowcount)
        if len(tries) < 4:
            connection.exec_driver_sql("INSERT INTO t VALUES (1, 'a')")
        return "done"

    session = Session(database_of(sqlite.options, "JdbcSink"), 3, waits.append)
    assert session.run(work, "work") == "done"
    session.close()
    assert (tries, waits) == ([1, 1, 1, 1], [0, 1, 2])
    assert ids(sqlite) == [1]


def test_a_batch_that_fails_leaves_nothing_and_fails_the_job(database: TestDatabase) -> None:
    created(database).execute("INSERT INTO t VALUES (2, 'there')")
    env = env_of(_LOCAL)
    env.from_collection(rows(1, 2, 3), TYPE).add_sink(sink_of(database))
    with pytest.raises(JobExecutionError, match=r"the target refuses 1 record: .*: (IntegrityError|UniqueViolation)"):
        env.execute()
    assert ids(database) == [2]


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("change", ["ALTER TABLE t RENAME COLUMN name TO title", "DROP TABLE t"])
def test_a_table_without_the_columns_of_the_statement_ends_the_job(
    database: TestDatabase, exactly_once: bool, change: str
) -> None:
    created(database)
    make = JdbcSink.exactly_once_sink if exactly_once else JdbcSink.sink
    run = SinkRun(make(INSERT, TYPE, database.options, JdbcExecutionOptions.builder().with_max_retries(0).build()), TYPE)
    run.checkpoint(rows(1), commit=exactly_once)
    assert ids(database) == [1]
    database.execute(change)
    with pytest.raises(SinkChangedError, match=r"(?s)could not .*Hint: compare the statement with the columns"):
        run.checkpoint(rows(2), commit=exactly_once)


def test_no_error_shows_the_password(postgresql: PostgreSQL) -> None:
    wrong = f"{PASSWORD}-wrong"
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"{postgresql.url}?user=flinkish&password={wrong}")
    sink = JdbcSink.sink(INSERT, TYPE, builder.build(), JdbcExecutionOptions.builder().with_max_retries(0).build())
    env = env_of(_LOCAL)
    env.from_collection(rows(1), TYPE).add_sink(sink)
    assert wrong not in env.get_execution_plan()
    assert wrong not in repr(sink)
    with pytest.raises(JobExecutionError, match="authentication failed") as caught:
        env.execute()
    shown = "".join(map(str, _chain(caught.value)))
    assert PASSWORD not in shown
    assert database_of(builder.build(), "JdbcSink").described(ValueError(f"x {wrong}")) == "ValueError: x ***"


def _chain(error: BaseException | None) -> list[Any]:
    found: list[Any] = []
    while error is not None:
        found += [error, *getattr(error, "__notes__", ())]
        error = error.__cause__ or error.__context__
    return found
