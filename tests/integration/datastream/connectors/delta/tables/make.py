"""Makes the small Delta tables beside this file with Spark, and writes down how Spark reads them.

Run from the root of the repository, with JAVA_HOME set:

    .venv/bin/python tests/integration/datastream/connectors/delta/tables/make.py

`expected.json` holds for each table and version the rows (`rows`), and for tables with a change data feed the changes of each
version (`changes`), all as JSON of Spark.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

HERE = Path(__file__).parent
DV = "'delta.enableDeletionVectors'='true'"
NO_DV = "'delta.enableDeletionVectors'='false'"
CDF = "'delta.enableChangeDataFeed'='true'"

#: By table: its statements; {t} stands for the table.
TABLES: dict[str, list[str]] = {
    "deletion_vectors": [
        f"CREATE TABLE {{t}} (id BIGINT, name STRING) USING delta TBLPROPERTIES ({DV})",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('n', id) FROM range(0, 20, 1, 1)",
        "DELETE FROM {t} WHERE id IN (3, 4, 17)",
        "UPDATE {t} SET name = 'changed' WHERE id = 5",
        "INSERT INTO {t} VALUES (100, 'last')",
    ],
    "change_feed": [
        f"CREATE TABLE {{t}} (id INT, name STRING) USING delta TBLPROPERTIES ({CDF}, {NO_DV})",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE {t} SET name = concat(name, '!') WHERE id >= 2",
        "DELETE FROM {t} WHERE id = 1",
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (2, 'B'), (3, ''), (4, 'd') AS s(id, name)) s ON t.id = s.id "
        "WHEN MATCHED AND s.name = '' THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "OPTIMIZE {t}",
        "DELETE FROM {t}",
    ],
    "change_feed_partitioned": [
        f"CREATE TABLE {{t}} (id INT, day DATE, n DOUBLE) USING delta PARTITIONED BY (day) TBLPROPERTIES ({CDF}, {DV})",
        "INSERT INTO {t} VALUES (1, DATE'2024-01-01', 1.5), (2, DATE'2024-01-01', 2.5), (3, DATE'2024-01-02', 3.5), "
        "(4, NULL, 4.5)",
        "DELETE FROM {t} WHERE id = 1",
        "UPDATE {t} SET day = DATE'2024-01-03' WHERE id = 2",
        "DELETE FROM {t} WHERE day = DATE'2024-01-02'",
        "DELETE FROM {t} WHERE id = 4",
    ],
    "column_mapping": [
        "CREATE TABLE {t} (id INT, old STRING, part STRING, gone INT, deep STRUCT<a: INT, b: STRING>) USING delta "
        f"PARTITIONED BY (part) TBLPROPERTIES ('delta.columnMapping.mode'='name', {NO_DV})",
        "INSERT INTO {t} VALUES (1, 'one', 'x', 7, struct(1, 'b1')), (2, 'two', NULL, 8, struct(2, 'b2'))",
        "ALTER TABLE {t} RENAME COLUMN old TO new",
        "ALTER TABLE {t} DROP COLUMN gone",
        "ALTER TABLE {t} ADD COLUMN later DOUBLE",
        "ALTER TABLE {t} RENAME COLUMN deep.b TO c",
        "INSERT INTO {t} VALUES (3, 'three', 'a b', struct(3, 'b3'), 3.25)",
    ],
    "column_mapping_by_id": [
        f"CREATE TABLE {{t}} (id INT, name STRING) USING delta TBLPROPERTIES ('delta.columnMapping.mode'='id', {CDF}, {DV})",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "ALTER TABLE {t} RENAME COLUMN name TO label",
        "DELETE FROM {t} WHERE id = 2",
        "UPDATE {t} SET label = 'C' WHERE id = 3",
    ],
    "type_widening": [
        "CREATE TABLE {t} (id INT, amount DECIMAL(4, 1)) USING delta "
        f"TBLPROPERTIES ('delta.enableTypeWidening'='true', {NO_DV})",
        "INSERT INTO {t} VALUES (1, 1.5)",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN amount TYPE DECIMAL(10, 2)",
        "INSERT INTO {t} VALUES (3000000000, 12345.67)",
    ],
    "types": [
        "CREATE TABLE {t} (b BOOLEAN, y TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, dec DECIMAL(20, 3), str STRING, "
        "bin BINARY, dt DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, arr ARRAY<INT>, m MAP<STRING, DECIMAL(5, 2)>, "
        f"st STRUCT<x: INT, inner: ARRAY<STRUCT<t: TIMESTAMP>>>) USING delta TBLPROPERTIES ({NO_DV})",
        "INSERT INTO {t} VALUES (true, 1S, 2S, 3, 4L, 1.5F, 2.5D, 12345678901234567.125, 'text', X'00FF', DATE'2024-02-29', "
        "TIMESTAMP'2024-02-29 12:34:56.789012', TIMESTAMP_NTZ'1969-12-31 23:59:59.999999', array(1, NULL), map('k', 1.25), "
        "named_struct('x', 1, 'inner', array(named_struct('t', TIMESTAMP'2000-01-01 00:00:00'))))",
        "INSERT INTO {t} (l) VALUES (NULL)",
    ],
    "rewritten": [
        "CREATE TABLE {t} (id INT) USING delta "
        f"TBLPROPERTIES ('delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='3', {NO_DV})",
        "INSERT INTO {t} VALUES (1)",
        "INSERT INTO {t} VALUES (2)",
        "OPTIMIZE {t}",
        "INSERT INTO {t} VALUES (3)",
    ],
    "variant": [f"CREATE TABLE {{t}} (id INT, v VARIANT) USING delta TBLPROPERTIES ({NO_DV})"],
    "generated": [
        f"CREATE TABLE {{t}} (id INT, doubled INT GENERATED ALWAYS AS (id * 2)) USING delta TBLPROPERTIES ({NO_DV})",
        "INSERT INTO {t} (id) VALUES (1)",
    ],
    "identity": [f"CREATE TABLE {{t}} (id BIGINT GENERATED ALWAYS AS IDENTITY, name STRING) USING delta TBLPROPERTIES ({NO_DV})"],
    "row_tracking": [f"CREATE TABLE {{t}} (id INT) USING delta TBLPROPERTIES ('delta.enableRowTracking'='true', {NO_DV})"],
    "commit_timestamps": [
        f"CREATE TABLE {{t}} (id INT) USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps'='true', {NO_DV})",
        "INSERT INTO {t} VALUES (1)",
    ],
    "clustered": [f"CREATE TABLE {{t}} (id INT) USING delta CLUSTER BY (id) TBLPROPERTIES ({NO_DV})"],
}


def main() -> None:
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.parquet.compression.codec", "snappy")
    )
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    expected: dict[str, Any] = {}
    for name, statements in TABLES.items():
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        for statement in statements:
            spark.sql(statement.replace("{t}", f"delta.`{folder}`"))
        for crc in folder.rglob("*.crc"):
            crc.unlink()
        if name == "variant":
            continue
        newest = spark.sql(f"DESCRIBE HISTORY delta.`{folder}`").agg({"version": "max"}).first()[0]
        rows = {}
        for version in range(newest + 1):
            frame = spark.read.format("delta").option("versionAsOf", version).load(str(folder))
            rows[version] = sorted(frame.toJSON().collect())
        expected[name] = {"rows": rows}
        if any(CDF in statement for statement in statements):
            changes = {}
            for version in range(1, newest + 1):
                reader = spark.read.format("delta").option("readChangeFeed", True)
                frame = reader.option("startingVersion", version).option("endingVersion", version).load(str(folder))
                changes[version] = sorted(frame.drop("_commit_timestamp").toJSON().collect())
            expected[name]["changes"] = changes
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
