"""What sinks wrote is compared as Spark reads it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from chispa.dataframe_comparer import DataFramesNotEqualError
from chispa.schema_comparer import SchemasNotEqualError
from pyspark.sql import DataFrame, SparkSession

from flinkish.common import Encoder, Row, RowKind, Types
from flinkish.common.errors import InvalidArgumentError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.file_system import FileSink
from flinkish.testing.tables import assert_delta_table_equal, assert_files_equal, assert_tables_equal

pytestmark = pytest.mark.spark
FLIGHT = Types.ROW_NAMED(["origin", "delay"], [Types.STRING(), Types.DOUBLE()])
SCHEMA = "origin string, delay double"


def test_tables_and_files_of_sinks_are_compared(
    flinkish_local_env: StreamExecutionEnvironment, flinkish_spark: SparkSession, tmp_path: Path
) -> None:
    env, table, files = flinkish_local_env, tmp_path / "table", tmp_path / "files"
    for flight in [("JFK", 1.5), ("EWR", None)]:
        stream = env.from_collection([flight], FLIGHT)
        stream.sink_to(DeltaSink(str(table)))
        lines = stream.map(lambda row: row.origin, Types.STRING())
        lines.sink_to(FileSink.for_row_format(str(files), Encoder.simple_string_encoder()).build())
        env.execute()
    both: list[Any] = [("EWR", None), ("JFK", 1.5)]
    spark = flinkish_spark
    assert_delta_table_equal(table, [{"delay": 1.5, "origin": "JFK"}, Row(origin="EWR", delay=None)], SCHEMA, spark=spark)
    assert_delta_table_equal(table, both[1:], version=1, spark=spark)
    with pytest.raises(DataFramesNotEqualError):
        assert_delta_table_equal(table, both[:1], spark=spark)
    assert_files_equal(files, [("EWR",), ("JFK",)], format="text", spark=spark)
    with pytest.raises(DataFramesNotEqualError):
        assert_files_equal(files, [("JFK",), ("BOS",)], "airport string", format="csv", spark=spark)


def test_spark_reads_what_was_merged_into_tables_with_its_features(
    flinkish_local_env: StreamExecutionEnvironment, flinkish_spark: SparkSession, tmp_path: Path
) -> None:
    env = flinkish_local_env
    made_by_spark = Path(__file__).parents[1] / "integration/datastream/connectors/delta/tables"
    for name, label in [("column_mapping_by_id", "label"), ("deletion_vectors", "name")]:
        table = tmp_path / name
        shutil.copytree(made_by_spark / name, table)
        key = Types.LONG() if name == "deletion_vectors" else Types.INT()
        row_type = Types.ROW_NAMED(["id", label], [key, Types.STRING()])
        rows = [Row.of_kind(RowKind.DELETE, 1, None), Row.of_kind(RowKind.UPDATE_AFTER, 3, "merged"), Row(200, "new")]
        for row in rows:
            row.set_field_names(["id", label])
        env.from_collection(rows, row_type).sink_to(DeltaSink(str(table), upsert_keys=["id"]))
        env.execute()
    assert_delta_table_equal(tmp_path / "column_mapping_by_id", [(3, "merged"), (200, "new")], spark=flinkish_spark)
    wanted: list[Any] = [(n, "changed" if n == 5 else f"n{n}") for n in range(20) if n not in (1, 3, 4, 17)]
    wanted += [(100, "last"), (3, "merged"), (200, "new")]
    assert_delta_table_equal(tmp_path / "deletion_vectors", wanted, spark=flinkish_spark)


def test_what_counts_as_equal(flinkish_spark: SparkSession) -> None:
    def table(rows: list[Any], schema: str = SCHEMA) -> DataFrame:
        return flinkish_spark.createDataFrame(rows, schema).coalesce(1)

    one = table([("JFK", 1.5), ("EWR", None)])
    other = table([(None, "EWR"), (1.6, "JFK")], "delay double, origin string")
    assert_tables_equal(one, other, precision=0.2)
    with pytest.raises(DataFramesNotEqualError):
        assert_tables_equal(one, other)
    with pytest.raises(SchemasNotEqualError):
        assert_tables_equal(one, other, precision=0.2, ignore_column_order=False)
    with pytest.raises(SchemasNotEqualError):
        assert_tables_equal(one, table([("JFK", 1), ("EWR", None)], "origin string, delay int"))
    maps = [({"a": 1}, 1), ({}, 2)]
    assert_tables_equal(table(maps, "m map<string,int>, n int"), table(maps[::-1], "m map<string,int>, n int"))


def test_without_a_session_it_is_said_what_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    with pytest.raises(InvalidArgumentError, match="use the fixture flinkish_spark"):
        assert_delta_table_equal(tmp_path, [])
