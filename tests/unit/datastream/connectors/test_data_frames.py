"""DataFrames in and out, as far as they need no Spark: types, values, what is refused."""

from __future__ import annotations

import datetime
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkish.common import Configuration, Instant, Row, Types, WatermarkStrategy
from flinkish.common.column_layout import Layout
from flinkish.common.errors import (
    AbsentMemberError,
    ForeignCheckpointError,
    InvalidArgumentError,
    SourceError,
    UnsupportedError,
)
from flinkish.common.typeinfo import DecimalTypeInfo, TypeInformation
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors import DataFrameSink, _arrow_files, data_frame_sink
from flinkish.datastream.connectors._spark_types import SIMPLE, ddl_of, in_any_session, row_type_of
from flinkish.datastream.connectors.data_frame import BoundedDataFrameSource, data_frame_source, decoder
from flinkish.program.row_folders import keep_rows, remove_rows
from tests.kit.environments import env_of
from tests.kit.native import Batches, body
from tests.kit.own_process import set_temporary_folder
from tests.unit.datastream.connectors.fakes import SinkRun, SourceRun


def struct(**types: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": part, "nullable": True, "metadata": {}} for name, part in types.items()]
    return {"type": "struct", "fields": fields}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


class Schema:
    def __init__(self, json: dict[str, Any]) -> None:
        self.fields = json["fields"]
        self._json = json

    def jsonValue(self) -> dict[str, Any]:
        return self._json


class DataFrame:
    """Looks like a DataFrame that is not streaming."""

    isStreaming = False

    def __init__(self, **types: Any) -> None:
        self.schema = Schema(struct(**types))


DataFrame.__module__ = "pyspark.sql.dataframe"


class TestTypes:
    @pytest.mark.parametrize("name", SIMPLE)
    def test_a_simple_type_is_the_same_there_and_back(self, name: str) -> None:
        ours, ddl = SIMPLE[name]
        row_type = row_type_of(struct(column=name))
        assert row_type.field_types == (ours(),)
        assert ddl_of(row_type, "the sink") == f"`column` {ddl}"

    def test_decimals_keep_precision_and_scale(self) -> None:
        row_type = row_type_of(struct(price="decimal(10,2)"))
        [price] = row_type.field_types
        assert isinstance(price, DecimalTypeInfo)
        assert (price.precision, price.scale) == (10, 2)
        assert ddl_of(row_type, "the sink") == "`price` DECIMAL(10, 2)"

    def test_nested_types_are_the_same_there_and_back(self) -> None:
        row_type = row_type_of(struct(a=array(struct(x="integer")), m=mapping("string", array("timestamp"))))
        assert row_type == Types.ROW_NAMED(
            ["a", "m"],
            [Types.LIST(Types.ROW_NAMED(["x"], [Types.INT()])), Types.MAP(Types.STRING(), Types.LIST(Types.INSTANT()))],
        )
        assert ddl_of(row_type, "the sink") == "`a` ARRAY<STRUCT<`x`: INT>>, `m` MAP<STRING, ARRAY<TIMESTAMP>>"

    def test_rows_can_be_keys_of_maps(self) -> None:
        assert row_type_of(struct(m=mapping(struct(x="integer"), "string"))) == Types.ROW_NAMED(
            ["m"], [Types.MAP(Types.ROW_NAMED(["x"], [Types.INT()]), Types.STRING())]
        )

    @pytest.mark.parametrize(
        ("spark", "path", "shown"),
        [
            ("void", "c", "void"),
            ("variant", "c", "variant"),
            ("interval day to second", "c", "interval day to second"),
            (array("void"), "c.element", "void"),
            (struct(x=mapping("string", "variant")), "c.x.value", "variant"),
            ({"type": "udt", "class": "x"}, "c", "udt"),
            (struct(m=mapping(array("long"), "long")), "c.m", "map with keys that Python's dict cannot hold"),
        ],
    )
    def test_a_type_without_counterpart_is_named_with_its_column(self, spark: Any, path: str, shown: str) -> None:
        with pytest.raises(UnsupportedError, match=f"column '{path}' of the DataFrame has Spark's type {shown}"):
            row_type_of(struct(good="long", c=spark))

    def test_two_columns_of_one_name_are_refused(self) -> None:
        schema = struct(a="long")
        schema["fields"] *= 2
        with pytest.raises(UnsupportedError, match="several columns named 'a'"):
            row_type_of(schema)

    @pytest.mark.parametrize("part", [Types.SQL_TIME(), Types.PICKLED_BYTE_ARRAY()])
    def test_a_type_that_spark_does_not_have_is_named_with_its_column(self, part: TypeInformation) -> None:
        with pytest.raises(UnsupportedError, match="DataFrameSink: column 'c'"):
            DataFrameSink(print).validate(Types.ROW_NAMED(["c"], [part]))

    def test_names_of_columns_are_quoted(self) -> None:
        assert ddl_of(Types.ROW_NAMED(["a `b`"], [Types.INT()]), "the sink") == "`a ``b``` INT"

    def test_a_timestamp_is_a_point_in_time_in_any_session(self) -> None:
        row_type = Types.ROW_NAMED(["TIMESTAMP", "a `TIMESTAMP"], [Types.LIST(Types.INSTANT()), Types.SQL_TIMESTAMP()])
        ddl = in_any_session(ddl_of(row_type, "the sink"))
        assert ddl == "`TIMESTAMP` ARRAY<TIMESTAMP_LTZ>, `a ``TIMESTAMP` TIMESTAMP_NTZ"


class TestValues:
    def test_columns_of_arrow_become_rows(self) -> None:
        row_type = row_type_of(
            struct(
                n="long", d="decimal(10,2)", t="timestamp", z="timestamp_ntz", day="date", raw="binary", a=array("integer"),
                m=mapping("string", "long"), s=struct(x="string"),
            )
        )  # fmt: skip
        noon = datetime.datetime(2024, 1, 1, 12)
        values = [
            (1, Decimal("1.50"), noon.replace(tzinfo=datetime.UTC), noon, noon.date(), b"ab", [1, 2], [("k", 7)], {"x": "q"}),
            (None,) * 9,
        ]
        schema = pa.schema(
            [
                ("n", pa.int64()), ("d", pa.decimal128(10, 2)), ("t", pa.timestamp("us", "Europe/Rome")),
                ("z", pa.timestamp("us")), ("day", pa.date32()), ("raw", pa.binary()), ("a", pa.list_(pa.int32())),
                ("m", pa.map_(pa.string(), pa.int64())), ("s", pa.struct([("x", pa.string())])),
            ]
        )  # fmt: skip
        arrays = [pa.array(column, field.type) for column, field in zip(zip(*values, strict=True), schema, strict=True)]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        first, second = decoder(row_type, as_tuples=False)(sink.getvalue().to_pybytes())
        assert first == Row(
            n=1, d=Decimal("1.50"), t=Instant(int(noon.replace(tzinfo=datetime.UTC).timestamp()), 0), z=noon, day=noon.date(),
            raw=b"ab", a=[1, 2], m={"k": 7}, s=Row(x="q"),
        )  # fmt: skip
        assert list(second) == [None] * 9
        (batch,) = decoder(row_type, as_tuples=False, by_columns=True)(sink.getvalue().to_pybytes())
        assert batch.schema == Layout(row_type).schema
        assert Layout(row_type).records_of(batch) == [first, second]

    def test_records_may_be_tuples(self) -> None:
        row_type = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
        assert list(decoder(row_type, as_tuples=True)(body([(1, "x"), (2, None)], row_type))) == [(1, "x"), (2, None)]
        (batch,) = decoder(row_type, as_tuples=True, by_columns=True)(body([(1, "x"), (2, None)], row_type))
        assert batch.schema == Layout(Types.TUPLE([Types.LONG(), Types.STRING()])).schema

    def test_a_time_that_python_does_not_have_is_an_error_with_the_columns_name(self) -> None:
        row_type = Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()])
        data = body([(10**17 * 9,)], row_type, pa.schema([("at", pa.timestamp("us"))]))
        with pytest.raises(SourceError, match="column 'at' of the DataFrame holds a value"):
            list(decoder(row_type, as_tuples=False)(data))
        with pytest.raises(SourceError, match="column 'at' of the DataFrame holds a value"):
            list(decoder(row_type, as_tuples=False, by_columns=True)(data))


class TestRefusals:
    def test_what_is_no_data_frame_is_refused(self) -> None:
        with pytest.raises(InvalidArgumentError, match=r"needs a DataFrame of Spark; got \[1\]"):
            data_frame_source([1], as_tuples=False)

    def test_a_reader_that_was_not_loaded_is_refused_with_what_is_missing(self) -> None:
        reader = type("DataStreamReader", (), {"__module__": "pyspark.sql.streaming.readwriter", "load": None})
        with pytest.raises(InvalidArgumentError, match=r"of type DataStreamReader\.\nHint: call load\(\) on it"):
            data_frame_source(reader(), as_tuples=False)

    def test_a_data_frame_of_spark_connect_is_refused(self) -> None:
        connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
        with pytest.raises(UnsupportedError, match="Spark Connect"):
            data_frame_source(connect(), as_tuples=False)

    def test_the_local_engine_says_what_to_use_instead(self) -> None:
        env = env_of()
        env.from_data_frame(DataFrame(a="long"), name="flights").print()
        with pytest.raises(UnsupportedError, match=r"(?s)'flights' works with a DataFrame.*engine to spark, or use a source"):
            env.execute()
        env = env_of()
        rows = env.from_collection([Row(a=1)], Types.ROW_NAMED(["a"], [Types.LONG()]))
        rows.sink_to(DataFrameSink(print)).name("out")
        with pytest.raises(UnsupportedError, match=r"(?s)'out' works with a DataFrame.*engine to spark, or use a sink"):
            env.execute()

    def test_an_engine_that_cannot_read_a_native_source_refuses_it(self) -> None:
        env = env_of()
        env.from_source(Batches([[("a", 1)]]), WatermarkStrategy.no_watermarks(), "rows").print()
        with pytest.raises(UnsupportedError, match=r"(?s)'rows' works with a DataFrame.*engine to spark, or use a Source"):
            env.execute()

    def test_names_of_sparks_data_frames_say_what_to_use(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        stream: DataStream[Any] = env.from_collection([1])
        for name in ("writeStream", "foreachBatch", "toDF", "to_data_frame"):
            with pytest.raises(AbsentMemberError, match="DataFrameSink"):
                getattr(stream, name)
        with pytest.raises(AbsentMemberError, match="from_data_frame"):
            _ = env.readStream

    def test_a_function_that_cannot_be_called_so_is_refused(self) -> None:
        with pytest.raises(InvalidArgumentError, match=r"called with \(df, checkpoint_id\)"):
            DataFrameSink(lambda df: None)
        with pytest.raises(InvalidArgumentError, match="needs a function"):
            DataFrameSink("rows")  # type: ignore[arg-type]

    def test_a_schema_of_spark_is_taken(self) -> None:
        sink = DataFrameSink(print, Schema(struct(a="long")))
        sink.validate(Types.PICKLED_BYTE_ARRAY())
        with pytest.raises(InvalidArgumentError, match="schema of DataFrameSink"):
            DataFrameSink(print, "a long")


@pytest.mark.usefixtures("both_ways")
class TestFilesOfABoundedFrame:
    """The files that Spark writes for a DataFrame that is not streaming, without Spark."""

    SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
    #: Number of bytes that are missing at the end of each batch.
    lost = 0

    @pytest.fixture(autouse=True)
    def start(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        set_temporary_folder(monkeypatch, tmp_path)
        monkeypatch.setattr(BoundedDataFrameSource, "_write", lambda _, folder: self.write(folder))

    def write(self, folder: Path) -> None:
        """Write 240 rows in two files of four row groups, of batches of 10 rows."""
        folder.mkdir(parents=True)
        for file in range(2):
            with pq.ParquetWriter(folder / f"part-{file}.parquet", pa.schema([("value", pa.binary())])) as writer:
                for group in range(4):
                    values = [self.batch(120 * file + 30 * group + 10 * batch) for batch in range(3)]
                    writer.write_table(pa.table({"value": pa.array(values, pa.binary())}))

    def batch(self, start: int) -> bytes:
        columns = [pa.array(range(start, start + 10)), pa.array(map(str, range(start, start + 10)))]
        data = pa.RecordBatch.from_arrays(columns, schema=self.SCHEMA).serialize().to_pybytes()
        return data[: len(data) - self.lost]

    @pytest.mark.parametrize("as_tuples", [False, True])
    @pytest.mark.parametrize("credit", [1, 7, 10, 1_000])
    def test_each_row_is_read_once_wherever_readers_begin_again(self, credit: int, as_tuples: bool) -> None:
        source = data_frame_source(DataFrame(n="long", text="string"), as_tuples=as_tuples)
        assert isinstance(source, BoundedDataFrameSource)
        for parallelism in (1, 3):
            values = SourceRun(source, parallelism=parallelism, credit=credit, restart_readers=True).values()
            assert sorted(tuple(value) for value in values) == [(n, str(n)) for n in range(240)]

    def test_readers_share_the_row_groups_of_a_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_arrow_files, "GROUP_BYTES", 100)
        source = data_frame_source(DataFrame(n="long", text="string"), as_tuples=True)
        assert isinstance(source, BoundedDataFrameSource)
        read = SourceRun(source, parallelism=4, credit=7, restart_readers=True).by_subtask()
        assert sorted(value for values in read.values() for value in values) == [(n, str(n)) for n in range(240)]
        assert len([values for values in read.values() if values]) == 4

    def test_a_damaged_file_is_an_error_with_its_name(self) -> None:
        self.lost = 100
        source = data_frame_source(DataFrame(n="long", text="string"), as_tuples=True)
        assert isinstance(source, BoundedDataFrameSource)
        with pytest.raises(SourceError, match=r"part-\d.parquet with rows of a DataFrame is damaged"):
            SourceRun(source).values()


class FakeFrames:
    """Stands for Spark's session and its reader: a DataFrame is the list of its files' rows."""

    @property
    def read(self) -> FakeFrames:
        return self

    def options(self, **options: str) -> FakeFrames:
        return self

    def schema(self, ddl: str) -> FakeFrames:
        return self

    def parquet(self, *urls: str) -> list[Any]:
        return [row["n"] for url in urls for row in pq.read_table(url.removeprefix("file://").removeprefix("file:")).to_pylist()]


@pytest.mark.usefixtures("both_ways")
class TestFilesOfASink:
    """The files of a DataFrameSink are there as long as a checkpoint or a savepoint needs them, and no longer."""

    @pytest.fixture(autouse=True)
    def start(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings = Configuration.from_dict(
            {"execution.checkpointing.dir": str(tmp_path), "execution.checkpointing.num-retained": "2"}
        )
        monkeypatch.setattr(data_frame_sink, "open_session", lambda configuration: (FakeFrames(), lambda: None))
        self.written: list[tuple[int, list[int]]] = []
        self.root = tmp_path
        self.run = self.job()

    def job(self) -> SinkRun:
        sink = DataFrameSink(lambda df, checkpoint_id: self.written.append((checkpoint_id, sorted(df))))
        return SinkRun(sink, Types.ROW_NAMED(["n"], [Types.LONG()]), configuration=self.settings)

    def files(self) -> list[int]:
        """Return the rows of all files."""
        return sorted(row["n"] for path in self.root.rglob("*.parquet") for row in pq.read_table(path).to_pylist())

    def test_files_of_retained_checkpoints_stay(self) -> None:
        for number in range(1, 5):
            self.run.checkpoint([Row(n=number)])
        assert self.files() == [3, 4]
        assert self.written == [(number, [number]) for number in range(1, 5)]

    def test_a_new_attempt_removes_what_no_retained_checkpoint_names(self) -> None:
        checkpoints = [self.run.checkpoint([Row(n=number)]) for number in (1, 2, 3)]
        self.run.checkpoint([Row(n=4)], commit=False)
        self.run.restore(checkpoints[-1])
        assert self.files() == [2, 3]
        # The committed files of the attempt before are known, so they go in their turn.
        self.run.checkpoint([Row(n=5)])
        assert self.files() == [3, 5]
        assert self.written[-2:] == [(3, [3]), (5, [5])]

    def test_a_job_that_starts_from_the_savepoint_of_another_leaves_its_files_alone(self) -> None:
        self.run.checkpoint([Row(n=1)])
        savepoint = self.run.checkpoint([Row(n=2)], commit=False)
        other = self.job()
        other.job_id, other.next_checkpoint = "other", 3
        other.restore(savepoint, lineage="another lineage")
        last = [other.checkpoint([Row(n=number)]) for number in (3, 4, 5)][-1]
        other.restore(last)
        assert self.files() == [1, 2, 4, 5]

    def test_files_that_a_savepoint_may_need_stay(self) -> None:
        checkpoint = self.run.checkpoint([Row(n=1)])
        savepoint = self.run.checkpoint([Row(n=2)], commit=False)
        keep_rows(self.settings, self.run.job_id)
        self.run.restore(checkpoint)
        for number in range(3, 7):
            self.run.checkpoint([Row(n=number)])
        assert self.files() == [1, 2, 5, 6]
        remove_rows(self.settings, self.run.job_id)
        other = self.job()
        other.restore(savepoint, lineage="another lineage")
        assert self.written[-1] == (2, [2])

    def test_rows_that_are_gone_end_the_job(self) -> None:
        checkpoint = self.run.checkpoint([Row(n=1)])
        shutil.rmtree(self.root / "job")
        with pytest.raises(ForeignCheckpointError, match="rows of checkpoint 1 are gone"):
            self.run.restore(checkpoint)
