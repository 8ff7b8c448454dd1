"""DataFrames of Spark as sources and results of jobs, in the one session of the tests."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.functions import udf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from flinkish.common import Row, Time, Types, WatermarkStrategy
from flinkish.common.errors import InvalidProgramError, JobCancelledError, UnsupportedError
from flinkish.common.job_client import JobClient
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors import DataFrameCommit, DataFrameSink
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.engine.spark.native import Arrivals
from flinkish.program.driver_objects import session_settings
from tests.integration.docs.test_examples import check_outputs, needs_spark
from tests.kit.functions import Number
from tests.kit.waiting import wait_until
from tests.unit.docs.pages import PAGES

pytestmark = pytest.mark.spark

MakeEnvironment = Callable[..., StreamExecutionEnvironment]
TOTAL = Types.ROW_NAMED(["key", "time"], [Types.STRING(), Types.LONG()])
EVERY_TYPE = """
    select id, id % 2 = 0 yes, cast(id as tinyint) b, cast(id as smallint) s, cast(id as int) i, float(1.5) f, double(2.5) d,
    cast(id as decimal(10, 2)) price, 'x' text, binary('ab') raw, date'2024-01-02' day, timestamp'1969-12-31 23:59:59.5Z' at,
    timestamp'1969-12-31 23:59:59.000001Z' exact,
    timestamp_ntz'2024-01-01 00:00:00.000001' wall, array(1, null) a, map('k', id) m,
    struct(id x, array(timestamp'2024-01-01') y) n, cast(null as string) nothing
"""


class Written:
    """What a DataFrameSink was given, by checkpoint; a repeated call must bring the same rows."""

    def __init__(self) -> None:
        self.by_id: dict[int, list[tuple[Any, ...]]] = {}

    def __call__(self, df: DataFrame, checkpoint_id: int) -> None:
        rows = sorted(tuple(row) for row in df.collect())
        assert self.by_id.setdefault(checkpoint_id, rows) == rows

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(row for rows in self.by_id.values() for row in rows)


def numbers_source() -> type[DataSource]:
    """Return a Python data source of the numbers below the one in a file; a local class goes to Spark's processes by value."""

    class Reader(SimpleDataSourceStreamReader):
        def __init__(self, file: str) -> None:
            self._file = file

        def initialOffset(self) -> dict[str, int]:
            return {"n": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
            end = {"n": int(Path(self._file).read_text())}
            return self.readBetweenOffsets(start, end), end

        def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:
            return iter([("python", number) for number in range(start["n"], end["n"])])  # Spark copies the iterator

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "key string, time long"

        def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
            return Reader(self.options["file"])

    return Numbers


def put(folder: Path, name: str, *rows: tuple[str, int]) -> None:
    """Let a file of rows appear in a folder as a whole."""
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text("\n".join(json.dumps({"key": key, "time": time}) for key, time in rows), encoding="utf-8")
    os.rename(folder / f".{name}", folder / name)


def sums(stream: DataStream[Any]) -> DataStream[Any]:
    return (
        stream.key_by(lambda row: row.key, key_type=Types.STRING())
        .reduce(lambda a, b: Row(key=a.key, time=a.time + b.time))
        .uid("sums")
        .map(lambda row: row, output_type=TOTAL)
    )


def end(client: JobClient) -> None:
    client.cancel().result(120)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(120)


@pytest.fixture
def on_spark(spark_session: SparkSession, flinkish_spark_env: StreamExecutionEnvironment) -> StreamExecutionEnvironment:
    return flinkish_spark_env


@pytest.fixture
def engine() -> str:
    return "spark"


@pytest.mark.parametrize("page", [page for page in PAGES if needs_spark(page)], ids=lambda page: page.stem)
def test_the_examples_of_the_documentation_print_what_it_says(
    page: Path, spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_outputs(page, "spark", tmp_path, monkeypatch, capsys)


def test_all_types_are_the_same_there_and_back(
    on_spark: StreamExecutionEnvironment, spark_session: SparkSession, tmp_path: Path
) -> None:
    frame = spark_session.sql(f"{EVERY_TYPE} from range(100)")
    given: list[DataFrame] = []
    stream = on_spark.from_data_frame(frame)
    # Not for the rows of a DataFrame on their way.
    spark_session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS")
    stream.sink_to(DataFrameSink(lambda df, _: given.append(df.persist()) or df.count()))
    on_spark.execute()
    assert sorted(given[0].collect()) == sorted(frame.collect())
    assert given[0].dtypes == frame.dtypes
    back = on_spark.from_data_frame(frame).collect_as_data_frame(spark_session)
    assert (sorted(back.collect()), back.dtypes) == (sorted(frame.collect()), frame.dtypes)
    assert spark_session.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MILLIS"
    spark_session.conf.unset("spark.sql.parquet.outputTimestampType")
    frame.write.parquet(str(tmp_path / "rows"))
    streaming = spark_session.readStream.schema(frame.schema).parquet(str(tmp_path / "rows"))
    rows = on_spark.from_data_frame(streaming).execute_and_collect(limit=100)
    wanted = {row.id: row for row in on_spark.from_data_frame(frame).execute_and_collect()}
    assert {row.id: row for row in rows} == wanted


def test_rows_of_a_bounded_data_frame_among_temporary_files_are_private_and_removed(
    make_env: MakeEnvironment, spark_session: SparkSession, tmp_path: Path
) -> None:
    env = make_env(1, {"io.tmp.dirs": str(tmp_path)})
    folder = str(tmp_path)

    def modes(_row: Any) -> str:
        return ",".join(oct(path.stat().st_mode & 0o777) for path in Path(folder).glob("flinkish-rows-*") if path.is_dir())

    assert list(env.from_data_frame(spark_session.range(1)).map(modes).execute_and_collect()) == ["0o700"]
    assert list(tmp_path.glob("flinkish-rows-*")) == []


def test_dates_and_times_do_not_depend_on_settings_of_the_session(
    on_spark: StreamExecutionEnvironment, spark_session: SparkSession
) -> None:
    frame = spark_session.sql(
        "select date'1400-03-01' day, timestamp_ltz'1400-03-01 00:00:00Z' at, timestamp_ntz'1400-03-01 00:00:00' wall"
    )
    given: list[tuple[Any, ...]] = []

    def write(df: DataFrame, _: int) -> None:
        given.append((df.dtypes, df.collect()))
        spark_session.createDataFrame([(1,)], "a int")  # makes the session that of the thread

    settings = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}
    with session_settings(spark_session, settings):
        stream = on_spark.from_data_frame(frame)
        stream.sink_to(DataFrameSink(write))
        stream.sink_to(DataFrameSink(write))
        on_spark.execute()
        back = on_spark.from_data_frame(frame).collect_as_data_frame(spark_session)
    assert given == [(frame.dtypes, frame.collect())] * 2
    assert (back.dtypes, back.collect()) == (frame.dtypes, frame.collect())


def test_no_row_of_a_bounded_frame_is_late_in_whatever_order_spark_reads_it(
    make_env: MakeEnvironment, spark_session: SparkSession
) -> None:
    env = make_env(2, {"execution.runtime-mode": "STREAMING", "execution.epoch.max-records": 500})
    # The last times come first, in each of the files.
    frame = spark_session.range(3_000).selectExpr("string(id % 5) key", "2999 - id time").repartition(4)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: int(value.time))
    windows = (
        env.from_data_frame(frame, strategy, "rows")
        .key_by(lambda row: row.key, key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .aggregate(Number(), output_type=Types.LONG())
    )
    assert list(windows.execute_and_collect()) == [200] * 15


def test_each_row_of_a_bounded_frame_counts_once_where_an_attempt_fails(
    make_env: MakeEnvironment, spark_session: SparkSession, tmp_path: Path
) -> None:
    env = make_env(
        2,
        {
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.epoch.max-records": "700",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "3",
            "restart-strategy.fixed-delay.delay": "10 ms",
        },
    )
    mark = tmp_path / "failed"

    def fail_once(row: Row) -> Row:
        if row.time == 7_777 and not mark.exists():
            mark.touch()
            raise RuntimeError("once")
        return row

    # A single partition, behind an exchange.
    frame = spark_session.range(10_000).selectExpr("string(id % 5) key", "id time").repartition(3).coalesce(1)
    results = sums(env.from_data_frame(frame, name="rows").uid("rows").map(fail_once, TOTAL)).execute_and_collect()
    last = {row.key: row.time for row in results}
    assert mark.exists()
    assert last == {str(key): sum(range(key, 10_000, 5)) for key in range(5)}


def test_sparks_tasks_see_the_settings_of_the_session_while_they_compute_a_bounded_frame(
    on_spark: StreamExecutionEnvironment, spark_session: SparkSession
) -> None:
    def read_zone(_):  # type: ignore[no-untyped-def] # Spark would read hints
        return TaskContext.get().getLocalProperty("spark.sql.session.timeZone")

    zone = udf(read_zone, "string")
    with session_settings(spark_session, {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.adaptive.enabled": "true"}):
        # The first function runs before the exchange, in a stage of its own, the second one behind it.
        frame = spark_session.range(2).select(zone("id").alias("a")).repartition(2).select("a", zone("a").alias("b"))
        rows = list(on_spark.from_data_frame(frame, as_tuples=True).execute_and_collect())
    assert rows == [("Asia/Tokyo", "Asia/Tokyo")] * 2
    assert spark_session.sparkContext.getLocalProperty("spark.sql.session.timeZone") is None


def test_files_and_a_delta_table_and_numbers_meet_in_windows_of_event_time(
    make_env: MakeEnvironment, spark_session: SparkSession, tmp_path: Path
) -> None:
    folder, table = tmp_path / "files", tmp_path / "table"
    put(folder, "1.json", ("a", 100), ("a", 900), ("b", 1500))
    spark_session.createDataFrame([("a", 200), ("a", 1900)], "key string, time long").write.format("delta").save(str(table))
    env = make_env(2, {"execution.checkpointing.interval": "1 s"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: int(value.time))
    json_lines = spark_session.readStream.schema("key string, time long").json(str(folder))
    files = env.from_data_frame(json_lines, strategy, "files")
    rows = env.from_data_frame(spark_session.readStream.format("delta").load(str(table)), strategy, "table")
    written = Written()
    numbers = env.from_collection([Row(key="a", time=300)], TOTAL).assign_timestamps_and_watermarks(strategy)
    (
        files.union(rows, numbers)
        .key_by(lambda row: row.key, key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .reduce(lambda a, b: Row(key=a.key, time=a.time + b.time))
        .map(lambda row: row, output_type=TOTAL)
        .sink_to(DataFrameSink(written))
    )
    client = env.execute_async("windows")
    wait_until("the first window", lambda: written.rows() == [("a", 1500)], 120)
    assert "windows" in [query.name for query in spark_session.streams.active]
    assert spark_session.conf.get("spark.sql.streaming.unsupportedOperationCheck") == "true"
    put(folder, "2.json", ("b", 5000))
    spark_session.createDataFrame([("a", 4000)], "key string, time long").write.format("delta").mode("append").save(str(table))
    wait_until("the second window", lambda: written.rows() == [("a", 1500), ("a", 1900), ("b", 1500)], 120)
    end(client)
    assert "windows" not in [query.name for query in spark_session.streams.active]


def names_of_queries(spark: SparkSession) -> set[str]:
    """Return the names under which Spark's page shows the batches of queries; one without a name is the query's id."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    described = [jobs.apply(position).description() for position in range(jobs.size())]
    return {each.get().partition("\n")[0] for each in described if each.isDefined()}


def test_a_job_goes_on_from_a_savepoint_at_another_parallelism_and_reads_nothing_twice(
    make_env: MakeEnvironment, spark_session: SparkSession, tmp_path: Path
) -> None:
    folder, written, others = tmp_path / "files", Written(), Written()
    put(folder, "1.json", ("a", 1), ("b", 2))
    table, numbers = str(tmp_path / "table"), tmp_path / "numbers"
    spark_session.createDataFrame([("delta", 1)], "key string, time long").write.format("delta").save(table)
    numbers.write_text("2")
    spark_session.dataSource.register(numbers_source())

    def start(parallelism: int, settings: dict[str, str] | None = None) -> JobClient:
        env = make_env(parallelism, {"execution.checkpointing.interval": "1 s"} | (settings or {}))
        reader = spark_session.readStream.schema("key string, time long").option("maxFilesPerTrigger", 1)
        sums(env.from_data_frame(reader.json(str(folder)), name="files").uid("files")).sink_to(DataFrameSink(written)).uid("out")
        # Other kinds of sources in the same job: Spark's offsets of each are found again.
        frames = {
            "delta": spark_session.readStream.format("delta").load(table),
            "python": spark_session.readStream.format("numbers").option("file", str(numbers)).load(),
        }
        delta, python = (env.from_data_frame(frame).uid(name) for name, frame in frames.items())
        delta.union(python).map(lambda row: row, output_type=TOTAL).sink_to(DataFrameSink(others)).uid("others")
        return env.execute_async("sums")

    client = start(2)
    wait_until("rows", lambda: ("b", 2) in written.rows(), 120)
    put(folder, "2.json", ("a", 10))
    wait_until("more rows", lambda: ("a", 11) in written.rows(), 120)
    wait_until("other rows", lambda: {"delta", "python"} == {row[0] for row in others.rows()}, 120)
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(120)
    sources = spark_session.read.format("delta").load(savepoint).where("value_json LIKE '%offsets%'").select("value_json").first()
    assert sources is not None
    offsets = {
        source["uid"]: json.loads(source["enumerator"]["offsets"][0])
        for source in json.loads(sources.value_json)["coordinator"]["sources"]
    }
    assert (offsets["files"], offsets["python"], offsets["delta"]["reservoirVersion"]) == ({"logOffset": 1}, {"n": 2}, 1)
    put(folder, "3.json", ("a", 100), ("b", 200))
    spark_session.createDataFrame([("delta", 2)], "key string, time long").write.format("delta").mode("append").save(table)
    numbers.write_text("5")
    written.by_id.clear()
    client = start(3, {"execution.state-recovery.path": savepoint})
    wait_until("the rest", lambda: written.rows() == [("a", 111), ("b", 202)], 120)
    put(folder, "4.json", ("b", 1000))
    wait_until("a new file", lambda: ("b", 1202) in written.rows(), 120)
    wait_until("new rows of the others", lambda: {("delta", 2), ("python", 4)} <= set(others.rows()), 120)
    end(client)
    assert written.rows() == [("a", 111), ("b", 202), ("b", 1202)]
    assert others.rows() == [("delta", 1), ("delta", 2), *(("python", number) for number in range(5))]
    assert "sums: positions of its sources" in names_of_queries(spark_session)


def test_a_look_for_arrivals_takes_no_files_out_of_turn(spark_session: SparkSession, tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path / "files", f"{number}.json", ("a", number))
    reader = spark_session.readStream.schema("key string, time long").option("maxFilesPerTrigger", 1)
    batches: list[tuple[int, bool]] = []
    started: list[StreamingQuery] = []
    waiting = threading.Event()

    def batch(df: DataFrame, batch_id: int) -> None:
        waiting.wait(30)
        arrivals = Arrivals(started[0], spark_session.sparkContext._jvm)
        batches.append((df.count(), arrivals() and arrivals()))

    started.append(reader.json(str(tmp_path / "files")).writeStream.foreachBatch(batch).start())
    waiting.set()
    started[0].processAllAvailable()
    started[0].stop()
    assert batches == [(1, True), (1, True), (1, True), (1, False)]


def test_a_write_that_fails_is_repeated_with_the_same_rows_and_the_same_id(
    make_env: MakeEnvironment, spark_session: SparkSession, tmp_path: Path
) -> None:
    calls: list[tuple[int, str, list[Any]]] = []
    odd = tmp_path / "a {b} é"

    def write(df: DataFrame, checkpoint_id: int, commit: DataFrameCommit) -> None:
        calls.append((checkpoint_id, commit.lineage, sorted(df.collect())))
        if len(calls) == 1:
            raise OSError("the database is away")

    env = make_env(
        2,
        {
            "execution.checkpointing.interval": "60 s", "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1", "restart-strategy.fixed-delay.delay": "1 ms",
            "execution.checkpointing.dir": str(odd), "io.tmp.dirs": str(odd),
        },
    )  # fmt: skip
    odd.mkdir()
    env.from_data_frame(spark_session.range(10)).sink_to(DataFrameSink(write))
    env.execute()
    assert list(tmp_path.iterdir()) == [odd]
    assert calls[0] == calls[1]
    assert len(calls) == 2
    assert [row.id for row in calls[0][2]] == list(range(10))


def test_a_streaming_data_frame_that_keeps_state_is_refused(
    on_spark: StreamExecutionEnvironment, spark_session: SparkSession
) -> None:
    frame = spark_session.readStream.format("rate").load()
    other = spark_session.readStream.format("rate").load().withColumnRenamed("timestamp", "at")
    for stateful, name in (
        (frame.groupBy("value").count(), "Aggregate"),
        (frame.dropDuplicates(["value"]), "Deduplicate"),
        (frame.join(other, "value"), "Join"),
        (frame.limit(5), "GlobalLimit"),
        (frame.withWatermark("timestamp", "1 second"), "withWatermark"),
    ):
        with pytest.raises(UnsupportedError, match=name):
            on_spark.from_data_frame(stateful)


def test_a_streaming_data_frame_that_spark_refuses_is_refused(
    on_spark: StreamExecutionEnvironment, spark_session: SparkSession
) -> None:
    frame, static = spark_session.readStream.format("rate").load(), spark_session.range(2).withColumnRenamed("id", "value")
    for refused, reason in (
        (static.join(frame, "value", "left"), "LeftOuter join"),
        (frame.join(static, "value", "right"), "RightOuter join"),
        (frame.select("value").union(static), "Union between streaming and batch"),
        (static.exceptAll(frame.select("value")), "Except"),
        (frame.orderBy("value"), "Sorting"),
        (frame.selectExpr("row_number() over (order by value) AS n"), "NON_TIME_WINDOW"),
    ):
        with pytest.raises(UnsupportedError, match=reason):
            on_spark.from_data_frame(refused)
    for taken in (frame.join(static, "value", "left"), static.join(frame, "value"), frame.union(frame)):
        on_spark.from_data_frame(taken)


def test_a_column_of_a_streaming_data_frame_may_have_any_name(
    on_spark: StreamExecutionEnvironment, spark_session: SparkSession
) -> None:
    with session_settings(spark_session, {"spark.sql.caseSensitive": "true"}):
        numbers = spark_session.readStream.format("rate").option("rowsPerSecond", 10).load()
        frame = numbers.selectExpr("value AS a", "value + 1 AS A", "value + 2 AS `q``t`", "value + 3 AS `a.b`", "value + 4 AS c1")
        rows = on_spark.from_data_frame(frame).execute_and_collect(limit=3)
    assert [[row[name] - row.a for name in ("a", "A", "q`t", "a.b", "c1")] for row in rows] == [[0, 1, 2, 3, 4]] * 3


def test_a_streaming_data_frame_without_columns_is_refused(
    on_spark: StreamExecutionEnvironment, spark_session: SparkSession
) -> None:
    with pytest.raises(InvalidProgramError, match="has no columns"):
        on_spark.from_data_frame(spark_session.readStream.format("rate").load().select())
