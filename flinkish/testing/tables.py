"""Compares the output of sinks by chispa; its errors show the cells that differ.

    assert_delta_table_equal(path, [("JFK", 2013, 1.5), ("EWR", 2014, None)], "origin string, year int, delay double")
    assert_files_equal(folder, [("to be",), ("or not",)], format="text")

The tables and files are read by Spark, in the active session or the given one; for tables it must have Delta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.requirements import need
from flinkish.program.driver_objects import session_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Have Spark read and sort small tables with one task; its defaults are for large ones: 50 and 200 tasks.
_FEW_TASKS = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}

__all__ = ["assert_delta_table_equal", "assert_files_equal", "assert_tables_equal"]


def assert_delta_table_equal(
    path: str | Path,
    expected: DataFrame | Sequence[Any],
    schema: str | StructType | None = None,
    *,
    version: int | None = None,
    spark: SparkSession | None = None,
    **how: Any,
) -> None:
    """Raise chispa's error unless a Delta table, or a version of it, holds the expected rows; `how`: see `assert_tables_equal`.

    `expected` is a DataFrame, or tuples, dicts or Rows; `schema` is their schema, by default the table's.
    """
    session = _session(spark)
    reader = session.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    with session_settings(session, _FEW_TASKS):
        _compare(session, reader.load(str(path)), expected, schema, how)


def assert_files_equal(
    folder: str | Path,
    expected: DataFrame | Sequence[Any],
    schema: str | StructType | None = None,
    *,
    format: str,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    **how: Any,
) -> None:
    """Raise chispa's error unless the finished files of a FileSink hold the expected rows; `how`: see `assert_tables_equal`.

    `format` ("text", "csv", "json", "parquet") and `options` are passed to Spark's reader. Buckets are read, too; files in
    progress are not. CSV and JSON are read by the schema given.
    """
    session = _session(spark)
    reader = session.read.format(format).options(**{"recursiveFileLookup": "true", **(options or {})})
    if schema is not None and format != "parquet":
        reader = reader.schema(schema)
    with session_settings(session, _FEW_TASKS):
        _compare(session, reader.load(str(folder)), expected, schema, how)


def assert_tables_equal(
    actual: DataFrame,
    expected: DataFrame,
    *,
    ignore_row_order: bool = True,
    ignore_column_order: bool = True,
    ignore_nullable: bool = True,
    precision: float | None = None,
) -> None:
    """Raise chispa's DataFramesNotEqualError or SchemasNotEqualError unless both hold the same rows.

    With a `precision`, floating point numbers may differ by at most that amount.
    """
    comparing = need("chispa", "comparing tables", "testing")
    if ignore_row_order and any("map<" in kind for _, kind in (*actual.dtypes, *expected.dtypes)):
        # Spark neither sorts nor hashes maps, which is how chispa would bring rows into order.
        actual, expected, ignore_row_order = _sorted(actual), _sorted(expected), False
    ignored = {
        "ignore_row_order": ignore_row_order,
        "ignore_column_order": ignore_column_order,
        "ignore_nullable": ignore_nullable,
        "allow_nan_equality": True,
    }
    if precision is None:
        comparing.assert_df_equality(actual, expected, **ignored)
    else:
        comparing.assert_approx_df_equality(actual, expected, precision, **ignored)


def _sorted(table: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    return table.sort(functions.to_json(functions.struct(*sorted(table.columns))))


def _compare(
    session: SparkSession,
    actual: DataFrame,
    expected: DataFrame | Sequence[Any],
    schema: str | StructType | None,
    how: Mapping[str, Any],
) -> None:
    from pyspark.sql import DataFrame as AnyDataFrame

    if not isinstance(expected, AnyDataFrame):
        expected = session.createDataFrame([_plain(row) for row in expected], schema or actual.schema)
    assert_tables_equal(actual, expected, **how)


def _plain(row: Any) -> Any:
    """Convert a row for Spark, because flinkish's Rows are not tuples."""
    from flinkish.common import Row

    return row.as_dict() if isinstance(row, Row) and row.get_field_names() else tuple(row) if isinstance(row, Row) else row


def _session(spark: SparkSession | None) -> SparkSession:
    need("chispa", "comparing tables", "testing")
    if spark is not None:
        return spark
    from pyspark.sql import SparkSession as AnySession

    active = AnySession.getActiveSession()
    if active is None:
        raise InvalidArgumentError(
            "tables are compared by Spark, and this process has no Spark session",
            hint="use the fixture flinkish_spark, or pass spark=session.",
        )
    return active
