"""The table of engines. A further engine is a package below `flinkish.engine` and an entry in `ENGINES`.

Options, command line, JobMaster, test kit and fixtures read this table, which is plain data: code of an engine is named as
"module:function" and loaded by `flinkish.engine.loader` when a program has chosen that engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecord:
    """What the rest of flinkish must know of an engine."""

    #: Value of execution.engine.
    name: str
    #: What runs a job, for the description of execution.engine.
    runs_in: str
    #: Milliseconds without an epoch after which a part of what the engine runs on ends by itself, so that an idle job runs an
    #: empty epoch every execution.epoch.idle-interval; None: nothing ends.
    idle_limit: int | None
    #: Tasks run in processes of their own, whose Python may be another one than the driver's.
    own_processes: bool
    #: It needs Java, and takes jars.
    jvm: bool
    #: Makes the engine: (Configuration, Clock, IdSource) -> Engine. Nothing is started before the first attempt.
    factory: str
    #: Shows what the engine makes of a plan: (ExecutionPlan) -> str; None: nothing beyond the plan itself.
    plan: str | None = None
    #: Holds what all jobs of this process share, such as a Spark session: (Configuration) -> (() -> None), which gives it back.
    #: Tests call it to have it started once; None: nothing is shared.
    shared: str | None = None


_RECORDS = (
    EngineRecord(
        name="local",
        runs_in="this process",
        idle_limit=None,
        own_processes=False,
        jvm=False,
        factory="flinkish.engine.local.engine:make_engine",
    ),
    EngineRecord(
        name="spark",
        runs_in="a Spark query",
        idle_limit=60_000,  # Spark ends Python workers that were idle for a minute: the next epoch would take 2 s
        own_processes=True,
        jvm=True,
        factory="flinkish.engine.spark.engine:make_engine",
        plan="flinkish.engine.spark.explain:spark_plan_text",
        shared="flinkish.engine.spark.session:share_session",
    ),
)
#: All engines by name.
ENGINES: Mapping[str, EngineRecord] = MappingProxyType({record.name: record for record in _RECORDS})
#: What runs a job whose configuration names no engine.
DEFAULT_ENGINE = "spark"
