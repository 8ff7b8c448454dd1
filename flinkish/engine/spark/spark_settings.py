"""Spark settings for the session of a job and for flinkish's own session, and checks for unusable ones."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, EngineError
from flinkish.common.paths import location
from flinkish.engine.scratch import temporary_folder

#: A task has four tries also in local mode, so that a lost Python worker does not fail the query.
DEFAULT_MASTER = "local[*,4]"
#: Spark's driver, which in local mode does everything, plans epochs and forwards frames; the quick compiler suffices for that.
#: A job of half a minute takes a fifth less time, epochs do not take longer even after thousands, and the JVM needs 0.3 GB less.
#: With it alone, the JVM has 48 MB for compiled code, and compiles nothing any more when many jobs of a session have filled them.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
#: Settings for executors on other machines.
FOR_EXECUTORS = {
    # The folder in which executors and driver create sockets. Spark's default, java.io.tmpdir, is too long for the address of a
    # socket if the executor is a container of YARN.
    "spark.python.unix.domain.socket.dir": "/tmp",
    # On YARN and Kubernetes, without it, Spark ends an application that has ever lost three executors, or twice as many as it
    # has.
    "spark.executor.failuresValidityInterval": "1h",
}
#: The settings that Spark SQL needs to read and write Delta tables, in addition to the jars.
DELTA_CLASSES = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
#: Settings that name the jars and class paths of a running JVM.
JAR_SETTINGS = ("spark.jars", "spark.driver.extraClassPath")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The settings about Spark in a job's configuration."""

    #: Keys `spark.*`: for a session of our own.
    passed_on: Mapping[str, str] = field(default_factory=dict)
    #: `io.tmp.dirs`: folder for scratch data, which all executors can access under this path.
    scratch_dir: Path | None = None
    #: `pipeline.jars` and `pipeline.classpaths`: paths or URLs.
    jars: tuple[str, ...] = ()
    classpaths: tuple[str, ...] = ()
    #: `task.cancellation.timeout`: maximum duration of close() at the end of a job, in milliseconds; 0 = no limit.
    close_timeout: int = 180_000
    #: `execution.spark.class-archive`: whether a JVM that flinkish starts may read and write an archive.
    class_archive: bool = True

    @classmethod
    def of(cls, configuration: Configuration | None) -> SparkSettings:
        if configuration is None:
            return cls()
        scratch = temporary_folder(configuration)
        jars, classpaths = configuration.get(options.JARS), configuration.get(options.CLASSPATHS)
        keys = sorted(key for key in configuration.key_set() if key.startswith("spark."))
        return cls(
            passed_on={key: configuration.get_string(key, "") for key in keys},
            scratch_dir=Path(scratch) if scratch else None,
            jars=tuple(jars or ()),
            classpaths=tuple(classpaths or ()),
            close_timeout=configuration.get(options.TASK_CANCELLATION_TIMEOUT),
            class_archive=configuration.get(options.SPARK_CLASS_ARCHIVE),
        )

    def share_session(self, other: SparkSettings) -> bool:
        """Tell whether a session that was created for one of the two also suits the other."""
        return (self.passed_on, self.jars, self.classpaths) == (other.passed_on, other.jars, other.classpaths)


def is_local(master: str) -> bool:
    """Tell whether tasks run in the driver's JVM."""
    return master == "local" or master.startswith("local[")


def is_one_machine(master: str) -> bool:
    """Tell whether all tasks run on the driver's machine."""
    return is_local(master) or master.startswith("local-cluster")


def job_settings(slots: int) -> Mapping[str, str]:
    """Return all SQL settings that the query needs. A query clones the session it starts in, so each job has its own session."""
    return {
        # One state partition per slot.
        "spark.sql.shuffle.partitions": str(slots),
        # Chained applyInPandasWithState.
        "spark.sql.streaming.unsupportedOperationCheck": "false",
        "spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "false",
        "spark.sql.streaming.statefulOperator.allowMultiple": "true",
        # A stopped query's last callback returns without an action; the JobMaster checks that all slots reported.
        "spark.sql.streaming.stateStore.commitValidation.enabled": "false",
        # Without native Hadoop, the default manager forks chmod and readlink up to 30 times per batch: 65 ms instead of 8 ms.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        # One small blob per partition, for which the heap map is best; a user's choice of RocksDB is for the user's own queries.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.stateSchemaCheck": "true",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "15s",
        # Spark would warn that snapshots lag behind, after 50 short batches between two rounds of maintenance.
        "spark.sql.streaming.stateStore.coordinatorReportSnapshotUploadLag": "false",
        "spark.sql.streaming.stateStore.forceSnapshotUploadOnLag": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.stopTimeout": "0",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        # A few large rows per batch gain nothing from generated code; looking it up took 30 of 200 ms per epoch.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.sql.execution.arrow.useLargeVarTypes": "false",
        "spark.sql.debug.maxToStringFields": "25",
    }


def own_session_settings(*layers: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session that flinkish creates: flinkish's own, overridden by the layers; the last layer wins.

    The layers are conf/spark-defaults.conf, the job's `spark.*` keys, and the settings given to spark-submit.
    """
    ours = {
        "spark.master": DEFAULT_MASTER,
        "spark.app.name": "flinkish",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": QUICK_COMPILER,
        # Saves 33 ms per mapInArrow, and 20-30 ms per level.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.streaming.ui.enabled": "false",
        "spark.sql.streaming.ui.retainedProgressUpdates": "2",
        "spark.sql.streaming.ui.retainedQueries": "2",
    }
    result = dict(ours)
    for layer in layers:
        result |= layer
    if is_one_machine(result["spark.master"]):
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} | result
    return FOR_EXECUTORS | result


def with_jars(settings: Mapping[str, str], wanted: SparkSettings) -> dict[str, str]:
    """Return the settings with the job's jars, which Spark sends to its executors, and class paths, which are on all machines."""
    result = dict(settings)
    if wanted.jars:
        result["spark.jars"] = ",".join(filter(None, [settings.get("spark.jars", ""), *wanted.jars]))
    paths = [local_path(url) for url in wanted.classpaths]
    for key in ("spark.driver.extraClassPath", "spark.executor.extraClassPath"):
        if paths:
            result[key] = os.pathsep.join(filter(None, [settings.get(key, ""), *paths]))
    return result


def check_jars(wanted: SparkSettings, present: Mapping[str, str], what_runs: str) -> None:
    """Refuse jars and class paths that the running JVM does not have, because they can only be given when it is started.

    Raises EngineError.
    """
    jars = {local_path(url) for url in present.get("spark.jars", "").split(",")}
    paths = set(present.get("spark.driver.extraClassPath", "").split(os.pathsep))
    missing = {
        options.JARS.key: [url for url in wanted.jars if local_path(url) not in jars],
        options.CLASSPATHS.key: [url for url in wanted.classpaths if local_path(url) not in paths],
    }
    for key, urls in missing.items():
        if urls:
            raise EngineError(
                f"{key} names {', '.join(urls)}, but {what_runs} already, without.",
                hint="give them when it is started: spark.jars or spark.driver.extraClassPath of that session; --jars or "
                "--driver-class-path of spark-submit.",
            )


def local_path(url: str) -> str:
    """Return the path in a file URL; other values are returned unchanged."""
    place = location(url)
    return place.file if place.is_local else url


def with_delta(settings: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    """Return the settings with Delta's jars, or without Delta if there are none.

    The engine commits through deltalake and needs no jars; they are for Spark SQL in the same session. A class name without its
    jar would fail the first query that looks up a table.
    """
    result = dict(settings)
    named = {key for key, value in settings.items() if value.startswith(("io.delta.", "org.apache.spark.sql.delta."))}
    if not named or "delta" in settings.get("spark.jars.packages", "") or "delta" in settings.get("spark.jars", ""):
        return result
    if not jars:
        return {key: value for key, value in settings.items() if key not in named}
    result["spark.jars"] = ",".join(filter(None, [settings.get("spark.jars", ""), *map(str, jars)]))
    return result


def delta_coordinates() -> str:
    """Return the Maven coordinates of Delta for the installed versions of Spark and delta-spark."""
    spark = ".".join(metadata.version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_2.13:{metadata.version('delta-spark')}"


def cached_delta_jars(home: Path, spark_jars: Path) -> list[Path]:
    """Return the jars that Delta needs in addition to Spark's own, from Ivy's cache, where `spark.jars.packages` puts them.

    Empty if Delta is missing. Jars that Spark has anyway (Hadoop, Parquet: 70 MB) are omitted, as each session copies its jars.
    """
    folders = [path for path in sorted(home.glob(".ivy2*/jars"), reverse=True) if any(path.glob("io.delta_delta-spark_*.jar"))]
    if not folders:
        return []
    present = {_artifact(path.name) for path in spark_jars.glob("*.jar")}
    return sorted(path for path in folders[0].glob("*.jar") if _artifact(path.name.partition("_")[2]) not in present)


def _artifact(name: str) -> str:
    return re.sub(r"-\d[\w.-]*\.jar$", "", name)


def read_spark_defaults(path: Path) -> dict[str, str]:
    """Read a file in the form of spark-defaults.conf: key and value separated by white space or `=`, `#` for comments."""
    settings = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        setting = re.fullmatch(r"(spark\.[^ \t=:]*)[ \t=:]++\s*(\S.*)", text)
        if setting is None:
            raise ConfigurationError(f"{path} line {number}: expected `spark.<key> <value>`; got {text!r}.")
        settings[setting[1]] = setting[2]
    return settings


def project_file(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return a file of the project, such as spark-defaults.conf, in FLINKISH_CONF_DIR or else ./conf; None if there is none."""
    path = Path(environment.get("FLINKISH_CONF_DIR") or "conf") / name
    return path if path.is_file() else None
