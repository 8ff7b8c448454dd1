"""The Spark side of `env.explain()`."""

from __future__ import annotations

from typing import Any

from flinkish.common.ids import random_id
from flinkish.engine.slots import hosts
from flinkish.engine.spark.partitioning import slot_values
from flinkish.engine.spark.query import build
from flinkish.engine.spark.session import hold_session, job_session, release_session
from flinkish.engine.spark.spark_settings import SparkSettings
from flinkish.graph.execution_plan import ExecutionPlan


def spark_plan_text(plan: ExecutionPlan) -> str:
    """Return Spark's plans of the query that runs an execution plan, without running it.

    Uses the running Spark session, or a temporary one. Raises EngineError like `hold_session`.
    """
    held = hold_session(SparkSettings())
    try:
        config = hosts.HostConfig(attempt_id=random_id(), key="", program_file="", task="", slot_values=slot_values(plan.slots))
        rows = build(job_session(held, plan.slots), config, len(plan.levels))
        jvm: Any = held.session.sparkContext._jvm
        text: str = jvm.PythonSQLUtils.explainString(rows._jdf.queryExecution(), "formatted")
        return text
    finally:
        release_session(held)
