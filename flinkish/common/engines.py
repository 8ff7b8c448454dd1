"""The table of engines. To add an engine, write a package below `flinkish.engine` and an entry in `ENGINES`.

Options, command line, JobMaster, test kit and fixtures read this table. It is plain data: an entry names the engine's code as
"module:function", and `flinkish.engine.executor` loads it once a program has chosen the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecord:
    """All that the rest of flinkish must know about an engine."""

    #: Value of execution.engine.
    name: str
    #: A noun phrase for what runs a job, used in the description of execution.engine.
    runs_in: str
    #: Milliseconds without an epoch after which the engine's processes start to end by themselves, for which reason an idle job
    #: runs an empty epoch every execution.epoch.idle-interval; None = they never end.
    idle_limit: int | None
    #: Whether tasks run in processes of their own, whose Python may differ from the driver's.
    own_processes: bool
    #: Whether the engine needs Java and accepts jars.
    jvm: bool
    #: Makes the engine: (Configuration, *, clock: Clock, ids: IdSource) -> Engine. It starts nothing before the first attempt.
    factory: str
    #: Function that shows how the engine runs a plan: (ExecutionPlan) -> str; None = there is nothing to show beyond the plan.
    plan: str | None = None
    #: Function that acquires what all jobs of this process share, such as a Spark session: (Configuration) -> (() -> None); the
    #: returned function releases it. Tests call it to start the session once; None = jobs share nothing.
    shared: str | None = None
    #: Its jobs can read and write DataFrames of Spark.
    data_frames: bool = False


_RECORDS = (
    EngineRecord(
        name="local",
        runs_in="this process",
        idle_limit=None,
        own_processes=False,
        jvm=False,
        factory="flinkish.engine.local.engine:LocalEngine",
    ),
    EngineRecord(
        name="spark",
        runs_in="a Spark query",
        idle_limit=60_000,  # Spark ends Python workers after an idle minute; the next epoch would then take 2 s
        own_processes=True,
        jvm=True,
        data_frames=True,
        factory="flinkish.engine.spark.engine:SparkEngine",
        plan="flinkish.engine.spark.session:spark_plan_text",
        shared="flinkish.engine.spark.session:share_session",
    ),
)
#: All engines by name.
ENGINES: Mapping[str, EngineRecord] = MappingProxyType({record.name: record for record in _RECORDS})
#: The engine of a job whose configuration names none.
DEFAULT_ENGINE = "spark"
