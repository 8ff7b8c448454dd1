"""DataFrames of Spark into savepoints, and state of savepoints into DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flinkish.common import Configuration
from flinkish.state import OperatorTransformation, SavepointReader, SavepointWriter
from tests.integration.state.test_writer import Accounts
from tests.kit.stateful import TEXT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_data_frame_becomes_state_and_state_a_data_frame(spark_session: SparkSession, tmp_path: Path) -> None:
    configuration = Configuration.from_dict({"security.checkpoint.hmac-key-file": str(tmp_path / "key")})
    frame = spark_session.createDataFrame([("a", 3), ("b", 5)], "name string, amount bigint")
    accounts = OperatorTransformation.bootstrap_with(frame).key_by("name", TEXT).transform(Accounts())
    path = (
        SavepointWriter.new_savepoint(configuration=configuration)
        .with_operator("accounts", accounts)
        .write(str(tmp_path / "new"))
    )

    state = SavepointReader.read(path, configuration).read_keyed_state("accounts", "total")
    found = spark_session.createDataFrame(state.to_arrow()).orderBy("key").collect()

    assert [tuple(row) for row in found] == [("a", 3), ("b", 5)]
