"""The Spark session of a job: the user's own if there is one, else one that flinkish creates and keeps for further jobs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.utils import is_remote

from flinkish.common import notices
from flinkish.common.configuration import Configuration
from flinkish.common.errors import EngineError
from flinkish.common.ids import random_id
from flinkish.engine.processes import ProcessId
from flinkish.engine.slots.hosts import HostConfig
from flinkish.engine.spark import parking, spark_settings
from flinkish.engine.spark.installation import delta_jars
from flinkish.engine.spark.jvm import jvm_of
from flinkish.engine.spark.log_suppression import silence_py4j
from flinkish.engine.spark.query import build, slot_values
from flinkish.engine.spark.session_start import jar_settings, make_session
from flinkish.engine.spark.spark_settings import SparkSettings
from flinkish.graph.execution_plan import ExecutionPlan

#: PySpark's, so that a session which the program makes at the same time neither stops nor meets the one that a job is given.
_lock = SparkSession.Builder._lock
#: Number of holders of the session that flinkish created.
_holders = 0
_made: SparkSession | None = None
#: With what it was created.
_settings = SparkSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSession:
    """A session, and the process of its JVM."""

    session: SparkSession
    jvm: ProcessId
    #: Whether flinkish created it, so that the last holder parks or stops it.
    own: bool
    #: The JVM, if this process started it.
    process: subprocess.Popen[bytes] | None = None

    def answers(self) -> bool:
        """Tell whether the session can be used: its JVM runs and is not about to end."""
        return self.jvm.is_alive() and parking.works(self.session)

    def await_end(self, timeout_ms: int) -> int | None:
        """Wait for the end of the JVM and return its exit code, negative for a signal; None if it still runs, or unknown."""
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(timeout_ms / 1000)
        return None

    @property
    def master(self) -> str:
        return str(self.session.sparkContext.master)

    def setting(self, key: str, default: str) -> str:
        """Return a setting of its context; `getConf()` would copy all of them, in 40 ms."""
        return str(self.session.sparkContext._conf.get(key, default))


def hold_session(settings: SparkSettings) -> HeldSession:
    """Return the running session, or create one. Release it with `release_session`.

    Raises EngineError for Spark Connect, without Java, for jars that the running session does not have, and if Spark does not
    start.
    """
    global _holders, _made, _settings
    refuse_connect(os.environ)
    silence_py4j()
    with _lock:
        parked = parking.unpark()
        if parked is not None and settings.share_session(_settings):
            _made = parked
        elif parked is not None:
            parking.stop(parked)
        context = _running_context()
        if context is not None:
            spark_settings.check_jars(settings, jar_settings(context._conf), "a Spark session runs")
        if context is not None and _made is None:
            session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
            return HeldSession(session=session, jvm=jvm_of(context), own=False, process=_process())
        if context is None:
            notices.tell("Starting Spark ...")
            _made, _settings = make_session(settings), settings
            _holders = 0
        assert _made is not None
        _holders += 1
        return HeldSession(session=_made, jvm=jvm_of(_made.sparkContext), own=True, process=_process())


def share_session(configuration: Configuration) -> Callable[[], None]:
    """Hold a session like jobs with this configuration; return the function that releases it. For the table of engines."""
    return partial(release_session, hold_session(SparkSettings.of(configuration)))


def open_session(configuration: Configuration) -> tuple[SparkSession, Callable[[], None]]:
    """Return the session of jobs with this configuration, and the function that gives it back; for sinks on the driver."""
    held = hold_session(SparkSettings.of(configuration))
    # What the program does to it, such as settings and views, is not for the next job.
    session = held.session.newSession() if held.own else held.session
    return session, partial(release_session, held)


def hold_delta_session(settings: SparkSettings) -> HeldSession:
    """Return a session like `hold_session` whose SQL reads and writes Delta tables; missing jars of Delta are fetched."""
    wanted = dict(spark_settings.DELTA_CLASSES)
    if not delta_jars():
        wanted["spark.jars.packages"] = spark_settings.delta_coordinates()
    return hold_session(replace(settings, passed_on=wanted | dict(settings.passed_on)))


def release_session(held: HeldSession) -> None:
    """Park the session if flinkish created it and this was its last holder; stop it if it has machines of a cluster."""
    global _holders, _made
    with _lock:
        if not held.own or held.session is not _made:
            return
        _holders -= 1
        if _holders == 0:
            _made = None
            keeps = held.answers() and spark_settings.is_one_machine(held.master)
            (parking.park if keeps else parking.stop)(held.session)


def refuse_connect(environment: Mapping[str, str]) -> None:
    """Raise EngineError if this process uses Spark Connect."""
    mode = environment.get("SPARK_API_MODE", "").lower()
    if is_remote() or "SPARK_REMOTE" in environment or mode == "connect":
        raise EngineError(
            "This process uses Spark Connect; flinkish needs classic PySpark: commands to tasks travel in local properties "
            "of the SparkContext, and the driver of the job runs in foreachBatch.",
            hint="unset SPARK_REMOTE, SPARK_API_MODE and SPARK_CONNECT_MODE_ENABLED, and make the session with .master(...), not "
            ".remote(...).",
        )


def job_session(held: HeldSession, slots: int, like: SparkSession | None = None) -> SparkSession:
    """Return a new session of the same context with every SQL setting of a job.

    `like`: the session of a DataFrame of the job, whose other settings (such as its time zone) decide what the DataFrame means.
    """
    if like is None:
        session = held.session.newSession()
        # A few large rows in each task: generating and looking up code for them took a tenth of the JVM's time.
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    else:
        jsession: Any = like._jsparkSession
        session = SparkSession(like.sparkContext, jsession.cloneSession())
    for key, value in spark_settings.job_settings(slots).items():
        session.conf.set(key, value)
    return session


def list_query(session: SparkSession, query: StreamingQuery) -> Callable[[], None]:
    """Make `session.streams` know a query that runs in another session; return the function to call when the query has ended.

    Spark lists a query only in the session that it was started in, and a job's query has a session of its own for its settings.
    So the query is put into the private table of the user's session, without its lock, which Python cannot hold: it would have to
    meet the microsecond in which that session starts or ends a query of its own.
    """
    jsession: Any = session._jsparkSession
    manager, jquery = jsession.streams(), query._jsq
    table = manager.getClass().getDeclaredField("activeQueries")
    table.setAccessible(True)
    table.get(manager).put(jquery.id(), jquery)

    def ended() -> None:
        # As Spark does for a query of that session: off the list, and awaitAnyTermination() returns.
        with contextlib.suppress(Exception):
            manager.notifyQueryTermination(jquery)

    return ended


def spark_plan_text(plan: ExecutionPlan) -> str:
    """Return Spark's plans of the query that runs an execution plan, without running it.

    Uses the running Spark session, or one like that of a job. Raises EngineError like `hold_session`. For the table of engines.
    """
    held = hold_session(SparkSettings())
    try:
        config = HostConfig(attempt_id=random_id(), key="", program_file="", task="", slot_values=slot_values(plan.slots))
        rows = build(job_session(held, plan.slots), config, len(plan.levels))
        jvm: Any = held.session.sparkContext._jvm
        text: str = jvm.PythonSQLUtils.explainString(rows._jdf.queryExecution(), "formatted")
        return text
    finally:
        release_session(held)


@contextlib.contextmanager
def workers_like_driver(context: Any) -> Iterator[None]:
    """Have functions that are given to Spark meanwhile run in this process's Python, unless another one was chosen.

    Spark's own choice is the first `python3` on the PATH, which is not that of a virtual environment that is not activated. In a
    session that flinkish makes PYSPARK_PYTHON is set; this is for sessions of the program.
    """
    chosen = "PYSPARK_PYTHON" in os.environ or context._conf.get("spark.pyspark.python") is not None
    if chosen or not spark_settings.is_one_machine(str(context.master)):
        yield
        return
    before = context.pythonExec
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


def _running_context() -> SparkContext | None:
    """Return the context of this process if it works; drop one whose JVM is gone."""
    context = SparkContext._active_spark_context
    gateway = SparkContext._gateway
    if gateway is not None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        process = getattr(gateway, "proc", None)
        if process is not None and process.poll() is not None:
            _forget_jvm()
            return None
    return context if context is not None and context._jsc is not None else None


def _forget_jvm() -> None:
    global _made
    _made = None
    parking.end_quiet()
    gateway: Any = SparkContext._gateway
    with contextlib.suppress(Exception):
        gateway.shutdown()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _process() -> subprocess.Popen[bytes] | None:
    return getattr(SparkContext._gateway, "proc", None)
