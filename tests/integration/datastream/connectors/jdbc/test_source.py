"""JdbcSource: each row once, in ranges, from the position in a checkpoint on."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from flinkish.common import Instant, Row, Types, WatermarkStrategy
from flinkish.common.errors import FlinkishError, InvalidArgumentError, InvalidProgramError, SourceChangedError, SourceError
from flinkish.common.typeinfo import LocalTimeTypeInfo
from flinkish.datastream.connectors.jdbc import JdbcSink, JdbcSource
from flinkish.datastream.connectors.jdbc.source import JdbcSplit
from flinkish.datastream.connectors.jdbc.values import rows_from
from tests.integration.datastream.connectors.jdbc.conftest import TestDatabase
from tests.kit.environments import env_of
from tests.unit.datastream.connectors.fakes import FakeOutput, FakeReaderContext, SourceRun

TYPE = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])


def filled(database: TestDatabase, count: int = 20) -> TestDatabase:
    database.execute("CREATE TABLE t (id BIGINT, name TEXT)")
    values = ", ".join(f"({number}, 'n{number}')" for number in reversed(range(count)))
    database.execute(f"INSERT INTO t VALUES {values}, (NULL, 'none'), (7, 'N7')")
    return database


def expected(count: int = 20) -> list[tuple[Any, ...]]:
    return sorted([(number, f"n{number}") for number in range(count)] + [(None, "none"), (7, "N7")], key=str)


def as_tuples(records: Any) -> list[tuple[Any, ...]]:
    return [tuple(record) for record in records]


@pytest.mark.parametrize(("credit", "restart"), [(3, False), (1000, False), (1, True), (3, True)])
@pytest.mark.parametrize("column", [None, "id"])
def test_each_row_is_read_once(database: TestDatabase, column: str | None, restart: bool, credit: int) -> None:
    parts = 3 if column else None
    source = JdbcSource(filled(database).options, TYPE, table="t", partition_column=column, num_partitions=parts, fetch_size=2)
    run = SourceRun(source, parallelism=2, credit=credit, restart_readers=restart)

    emitted = run.values()

    assert sorted(as_tuples(emitted), key=str) == expected()
    assert {type(record) for record in emitted} == {Row}


@pytest.mark.parametrize("stop", range(1, 8))
def test_equal_values_of_the_column_are_not_read_twice(database: TestDatabase, stop: int) -> None:
    database.execute("CREATE TABLE t (id BIGINT, name TEXT)")
    database.execute("INSERT INTO t VALUES (1,'a'),(1,'B'),(1,'b'),(1,'A'),(2,'a'),(2,'a'),(3,'c'),(0,'z')")
    source = JdbcSource(database.options, TYPE, table="t", partition_column="id", num_partitions=1)
    whole = read(source, JdbcSplit(split_id="0"), 100)[0]

    first, position = read(source, JdbcSplit(split_id="0"), stop)
    assert len(first) == stop
    # Rows that are added where the reader has been are not read, and move nothing.
    database.execute("INSERT INTO t VALUES (-1, 'late')")
    second, _ = read(source, position, 100)

    assert [*first, *second] == whole
    assert len(whole) == 8


def read(source: JdbcSource, split: JdbcSplit | None, count: int) -> tuple[list[tuple[Any, ...]], JdbcSplit | None]:
    """Read rows of a split with a new reader; return them and the position."""
    assert split is not None
    reader = source.create_reader(FakeReaderContext(subtask_index=0, parallelism=1, metric_group=None))
    reader.add_splits([split])
    reader.notify_no_more_splits()
    output = FakeOutput(count)
    try:
        while output.credit > 0 and reader.snapshot_state():
            reader.poll_next(output)
        left = reader.snapshot_state()
    finally:
        reader.close()
    return as_tuples(output.values), left[0] if left else None


def test_bounds_decide_on_ranges_and_lose_no_rows(sqlite: TestDatabase) -> None:
    source = JdbcSource(
        filled(sqlite).options, TYPE, table="t", partition_column="id", lower_bound=5, upper_bound=8, num_partitions=2
    )
    splits = source.splits(4)
    assert [(split.lower, split.upper, split.nulls) for split in splits] == [
        (None, 7, False),
        (7, None, False),
        (None, None, True),
    ]
    emitted = [read(source, split, 100)[0] for split in splits]
    assert [len(each) for each in emitted] == [7, 14, 1]


def test_a_query_is_read_like_a_table(database: TestDatabase) -> None:
    query = "SELECT id * 2 AS id, name || ':%x' AS name FROM t WHERE id < 3 AND name <> ':id';"
    source = JdbcSource(filled(database).options, TYPE, query=query, partition_column="id")
    rows = [row for split in source.splits(2) for row in read(source, split, 100)[0]]
    assert rows == [(0, "n0:%x"), (2, "n1:%x"), (4, "n2:%x")]


def test_a_query_may_end_with_a_comment(database: TestDatabase) -> None:
    query = "SELECT id, name FROM t\nWHERE id < 1  -- the first one"
    source = JdbcSource(filled(database).options, TYPE, query=query, partition_column="id")
    assert [row for split in source.splits(2) for row in read(source, split, 100)[0]] == [(0, "n0")]


def test_an_empty_table_has_no_rows(database: TestDatabase) -> None:
    database.execute("CREATE TABLE t (id BIGINT, name TEXT)")
    source = JdbcSource(database.options, TYPE, table="t", partition_column="id")
    assert SourceRun(source, parallelism=2).values() == []


_DAY = datetime.date(2013, 1, 1)
_TIME = datetime.datetime(2013, 1, 1, 5, 17, 0, 123000)


@pytest.mark.parametrize(
    ("column", "type_info", "values"),
    [
        ("DATE", Types.SQL_DATE(), [_DAY + datetime.timedelta(days=i) for i in range(9)]),
        ("TIMESTAMP", Types.SQL_TIMESTAMP(), [_TIME + datetime.timedelta(hours=i) for i in range(9)]),
        ("TIMESTAMP WITH TIME ZONE", Types.INSTANT(), [Instant.of_epoch_milli(1_357_017_420_123 + i * 1000) for i in range(9)]),
        ("INTEGER", Types.INT(), list(range(-4, 5))),
        ("NUMERIC", Types.LONG(), [10**12 + i for i in range(9)]),
    ],
)
def test_ranges_of_dates_times_and_numbers(on_postgresql: TestDatabase, column: str, type_info: Any, values: list[Any]) -> None:
    on_postgresql.execute(f"CREATE TABLE t (at {column})")
    on_postgresql.execute("SET timezone = 'America/New_York'; ALTER ROLE flinkish SET timezone = 'America/New_York'")
    shown = [
        f"'{value}'" if not isinstance(value, Instant) else f"to_timestamp({value.to_epoch_milli()} / 1000.0)" for value in values
    ]
    on_postgresql.execute(f"INSERT INTO t VALUES {', '.join(f'({each})' for each in shown)}")
    source = JdbcSource(
        on_postgresql.options, Types.ROW_NAMED(["at"], [type_info]), table="public.t", partition_column="at", num_partitions=3
    )

    parts = [read(source, split, 100)[0] for split in source.splits(1)]
    by_twos = [
        read(source, position, 100)[0] for split in source.splits(1) for _, position in [read(source, split, 2)] if position
    ]

    assert [row[0] for part in parts for row in part] == values
    assert [len(part) for part in parts] == [3, 3, 3, 0]
    assert [row[0] for part in by_twos for row in part] == [values[2], values[5], values[8]]
    on_postgresql.execute("ALTER ROLE flinkish RESET timezone")


def test_times_keep_their_microseconds(database: TestDatabase) -> None:
    database.execute("CREATE TABLE t (at TIMESTAMP, t TIME)")
    database.execute("INSERT INTO t VALUES ('2013-01-01 05:17:00.123456', '05:17:00.123456')")
    time = _TIME.replace(microsecond=123456)
    kinds = LocalTimeTypeInfo.TimeType
    local = [LocalTimeTypeInfo(kind) for kind in (kinds.LOCAL_DATE_TIME, kinds.LOCAL_TIME)]
    for types in ([Types.SQL_TIMESTAMP(), Types.SQL_TIME()], local):
        source = JdbcSource(database.options, Types.ROW_NAMED(["at", "t"], types), table="t")
        assert SourceRun(source).values() == [Row(at=time, t=time.time())]


def test_a_column_of_another_kind_of_time_is_refused(on_postgresql: TestDatabase) -> None:
    on_postgresql.execute("CREATE TABLE t (at TIMESTAMP WITH TIME ZONE)")
    on_postgresql.execute("INSERT INTO t VALUES (now())")
    row = Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()])
    with pytest.raises(
        SourceError, match=r"'at' or one of its bounds holds .* wants a timestamp without time zone\nHint: .*INSTANT"
    ):
        JdbcSource(on_postgresql.options, row, table="t", partition_column="at").splits(1)


def test_all_types_come_back_as_they_were_written(database: TestDatabase) -> None:
    binary = "BYTEA" if database.kind == "postgresql" else "BLOB"
    exact = "NUMERIC" if database.kind == "postgresql" else "TEXT"
    columns = {
        "s": (Types.STRING(), "TEXT", "é"),
        "b": (Types.BOOLEAN(), "BOOLEAN", True),
        "i": (Types.INT(), "INTEGER", -5),
        "f": (Types.FLOAT(), "REAL", 1.5),
        "d": (Types.DOUBLE(), "DOUBLE PRECISION", 0.1),
        "big": (Types.BIG_INT(), "NUMERIC", 10**12),
        "large": (Types.BIG_INT(), exact, -(10**18)),
        "dec": (Types.BIG_DEC(), exact, Decimal("1234567890.123456789")),
        "day": (Types.SQL_DATE(), "DATE", _DAY),
        "t": (Types.SQL_TIME(), "TIME", _TIME.time()),
        "ts": (Types.SQL_TIMESTAMP(), "TIMESTAMP", _TIME),
        "at": (Types.INSTANT(), "TIMESTAMP WITH TIME ZONE", Instant.of_epoch_milli(1_357_017_420_123)),
        "raw": (Types.PRIMITIVE_ARRAY(Types.BYTE()), binary, b"\x00\xff"),
    }
    database.execute(f"CREATE TABLE t ({', '.join(f'{name} {column}' for name, (_, column, _) in columns.items())})")
    type_info = Types.ROW_NAMED(list(columns), [each[0] for each in columns.values()])
    records = [Row(**{name: each[2] for name, each in columns.items()}), Row(**dict.fromkeys(columns))]
    env = env_of()
    sink = JdbcSink.sink(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", type_info, database.options)
    env.from_collection(records, type_info).add_sink(sink)
    env.execute()

    source = JdbcSource(database.options, type_info, table="t")
    found = env.from_source(source, WatermarkStrategy.no_watermarks(), "t").execute_and_collect()

    assert sorted(found, key=str) == sorted(records, key=str)


@pytest.mark.parametrize(
    ("column", "value", "type_info", "message"),
    [
        ("DOUBLE PRECISION", "1.5", Types.LONG(), r"the table t: column 'x' is declared Long and holds 1.5 of type float"),
        ("TEXT", "'abc'", Types.LONG(), r"column 'x' is declared Long and holds 'abc' of type str"),
        ("BIGINT", "5000000000", Types.INT(), r"column 'x' is declared Integer and holds 5000000000 of type int"),
        ("BIGINT", "2", Types.BOOLEAN(), r"holds 2 of type int: .* it must be a bool"),
        ("BIGINT", "2", Types.PRIMITIVE_ARRAY(Types.BYTE()), r"holds 2 of type int: .* it must be bytes"),
        ("TEXT", "'2013-01-01'", Types.SQL_TIME(), r"holds '2013-01-01' of type str"),
    ],
)
def test_values_that_do_not_fit_their_type_are_named(
    database: TestDatabase, column: str, value: str, type_info: Any, message: str
) -> None:
    database.execute(f"CREATE TABLE t (x {column})")
    database.execute(f"INSERT INTO t VALUES ({value})")
    source = JdbcSource(database.options, Types.ROW_NAMED(["x"], [type_info]), table="t")
    with pytest.raises(SourceError, match=message):
        read(source, JdbcSplit(split_id="0"), 1)


def test_what_the_database_refuses_is_named(database: TestDatabase) -> None:
    source = JdbcSource(database.options, TYPE, table="no_such", partition_column="id")
    with pytest.raises(SourceChangedError, match=r"JdbcSource could not read the table no_such of .*no_such"):
        source.splits(1)
    with pytest.raises(SourceChangedError, match=r"JdbcSource could not read the table no_such of .*no_such"):
        read(source, JdbcSplit(split_id="0"), 1)


def test_a_hint_says_why_the_database_refused_only_where_it_is_the_reason(on_postgresql: TestDatabase) -> None:
    on_postgresql.execute("CREATE TABLE t (id BIGINT, name JSON)")
    refusals = {
        "t": r"could not identify an ordering(.|\n)*\nHint: the source sorts by all columns; cast .* json, in a query\.\Z",
        "T": r'relation "T" does not exist(.|\n)*\nHint: names with capital letters are quoted, so .*\Z',
        "no_such": r'relation "no_such" does not exist\n(?!(.|\n)*Hint)',
    }
    for table, message in refusals.items():
        with pytest.raises(SourceError, match=message):
            read(JdbcSource(on_postgresql.options, TYPE, table=table), JdbcSplit(split_id="0"), 1)


@pytest.mark.parametrize(
    ("type_info", "options", "message"),
    [
        (Types.TUPLE([Types.LONG()]), {"table": "t"}, "needs a row type with the names of the columns"),
        (Types.ROW_NAMED(["id"], [Types.LIST(Types.INT())]), {"table": "t"}, r"field 'id' of type .* fits no column"),
        (TYPE, {}, "either a table or a query"),
        (TYPE, {"table": "t", "query": "SELECT 1"}, "either a table or a query"),
        (TYPE, {"table": "t", "fetch_size": 0}, "fetch_size of JdbcSource must be an int of at least 1; got 0"),
        (TYPE, {"table": "t", "num_partitions": 2}, "need a partition_column"),
        (TYPE, {"table": "t", "partition_column": "x"}, r"'x' of JdbcSource is not in type_info, which has id, name"),
        (TYPE, {"table": "t", "partition_column": "name"}, r"'name' is of type String; here it must be of"),
        (TYPE, {"table": "t", "partition_column": "id", "lower_bound": 2, "upper_bound": 1}, "lower_bound 2 is above"),
        (TYPE, {"table": "t", "partition_column": "id", "lower_bound": "a"}, r"holds 'a'; its type wants a whole number"),
    ],
)
def test_what_cannot_work_is_refused_when_the_source_is_made(
    sqlite: TestDatabase, type_info: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(FlinkishError, match=message):
        JdbcSource(sqlite.options, type_info, **options)


def test_sqlite_has_no_ranges_of_times(sqlite: TestDatabase) -> None:
    with pytest.raises(InvalidProgramError, match="must be of BYTE, SHORT, INT or LONG"):
        JdbcSource(sqlite.options, Types.ROW_NAMED(["at"], [Types.SQL_DATE()]), table="t", partition_column="at")
    with pytest.raises(InvalidArgumentError, match="needs JdbcConnectionOptions; got str"):
        JdbcSource("jdbc:sqlite:x", TYPE, table="t")  # type: ignore[arg-type]


def test_a_job_reads_and_writes_the_same_file(sqlite: TestDatabase) -> None:
    filled(sqlite, 300).execute("CREATE TABLE copy (id BIGINT, name TEXT)")
    env = env_of({"execution.epoch.max-records": 20, "execution.checkpointing.interval": "10 ms"}, 2)
    source = JdbcSource(sqlite.options, TYPE, table="t", partition_column="id", fetch_size=7)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "t")
    rows.add_sink(JdbcSink.exactly_once_sink("INSERT INTO copy VALUES (?, ?)", TYPE, sqlite.options))
    env.execute()

    assert sorted(sqlite.execute("SELECT * FROM copy"), key=str) == expected(300)


@pytest.mark.parametrize("hours", [-1, 24, 25])
def test_a_duration_is_no_time_of_day(hours: int) -> None:
    # Columns of type TIME hold durations in MySQL, from -838 to 838 hours.
    convert = rows_from(("at",), (Types.SQL_TIME(),), "the table t")
    assert convert([(datetime.timedelta(hours=23, minutes=59),)]) == [Row(at=datetime.time(23, 59))]

    with pytest.raises(SourceError, match=r"column 'at' is declared .*: not a time of day"):
        convert([(datetime.timedelta(hours=hours),)])


@pytest.mark.parametrize(
    ("type_info", "value"), [(Types.DOUBLE(), Decimal("1e400")), (Types.DOUBLE(), 2**53 + 1), (Types.FLOAT(), 2**24 + 1)]
)
def test_a_number_that_a_float_cannot_hold_is_named(type_info: Any, value: Any) -> None:
    convert = rows_from(("x",), (type_info,), "the table t")
    assert convert([(Decimal("1.5"),), (2**24,), (None,)]) == [Row(x=1.5), Row(x=float(2**24)), Row(x=None)]
    with pytest.raises(SourceError, match=r"column 'x' is declared \w+ and holds"):
        convert([(value,)])
