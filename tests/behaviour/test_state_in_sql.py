"""The statements of the documentation that read checkpoints in SQL, as Spark runs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.engine.job_client import EmbeddedJobClient
from tests.conftest import MakeEnvironment, locally
from tests.kit.functions import CountByKey
from tests.kit.waiting import wait_for_checkpoints
from tests.unit.docs.pages import PAGES_FOLDER, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAGE = PAGES_FOLDER / "checkpoints.md"
#: The job's folder on it.
_FOLDER = "/var/lib/flinkish/checkpoints/2a4cef7b20094307a4b3651d4d303917"


@pytest.mark.spark
@locally
def test_the_statements_of_the_documentation_read_state_and_history(
    make_env: MakeEnvironment, spark_session: SparkSession, tmp_path: Path
) -> None:
    settings = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": tmp_path,
        "execution.checkpointing.num-retained": 1000,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.epoch.max-records": 100,
    }
    env = make_env(2, settings)
    numbers = env.from_source(NumberSequenceSource(1, 10**9), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counts = numbers.key_by(lambda number: "odd" if number % 2 else "even", Types.STRING()).process(CountByKey()).uid("count")
    counts.sink_to(DiscardingSink()).uid("sink")
    client = cast(EmbeddedJobClient, env.execute_async())
    wait_for_checkpoints(client, 5)
    client.cancel().result(120)

    statements = [block.content.replace(_FOLDER, str(tmp_path / str(client.get_job_id()))) for block in blocks(_PAGE, "sql")]
    session = spark_session.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    # Delta reads its log in 50 tasks, unless told otherwise.
    session.conf.set("spark.databricks.delta.snapshotPartitions", "1")
    by_state, as_of, history = [session.sql(statement).collect() for statement in statements]

    assert [tuple(row) for row in by_state] == [("count", "count", "value", 2)]
    assert [row.key for row in as_of] == ['"even"', '"odd"']
    assert all(row["count"] > 0 for row in as_of)
    assert {"checkpoint completed"} <= {row.event for row in history}
    # Another version is another checkpoint.
    later = session.sql(statements[1].replace("VERSION AS OF 3", "VERSION AS OF 5")).collect()
    assert sum(row["count"] for row in later) > sum(row["count"] for row in as_of)
