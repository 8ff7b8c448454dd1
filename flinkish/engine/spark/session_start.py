"""Starts a Spark session of flinkish, and its JVM unless one runs: settings, log configuration, class archive, executors."""

from __future__ import annotations

import contextlib
import importlib
import os
import shlex
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import flinkish
from flinkish.common.closing import raised_by
from flinkish.common.errors import EngineError
from flinkish.engine.spark import class_archive, spark_settings
from flinkish.engine.spark.class_archive import ClassArchive
from flinkish.engine.spark.installation import Java, check_java, delta_jars, spark_home
from flinkish.engine.spark.jvm import jvm_of
from flinkish.engine.spark.log_suppression import silence_accumulators
from flinkish.engine.spark.package import package_in
from flinkish.engine.spark.scratch import socket_folder
from flinkish.engine.spark.spark_settings import SparkSettings
from flinkish.engine.spark.submission import property_file, submit_arguments

#: The log configuration of a driver's JVM if there is no other.
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = error
logger.resolve.name = org.apache.spark.sql.execution.streaming
logger.resolve.level = error
"""

#: PySpark passes the content of this variable to spark-submit when it starts a JVM.
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def make_session(settings: SparkSettings) -> SparkSession:
    """Create a session, in a new JVM unless there is one. Raises EngineError without Java, and if Spark does not start."""
    submitted: dict[str, str] = {}
    java: Java | None = None
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit: its JVM already runs and has the settings that it was given.
        SparkContext._ensure_initialized()
        submitted = dict(SparkConf().getAll())
        spark_settings.check_jars(settings, submitted, "the JVM of spark-submit runs")
    elif SparkContext._gateway is None:
        java = check_java(os.environ)
    else:
        spark_settings.check_jars(settings, jar_settings(SparkConf()), "Spark's JVM runs")
    defaults_file = spark_settings.project_file("spark-defaults.conf")
    defaults = spark_settings.read_spark_defaults(defaults_file) if defaults_file and not submitted else {}
    values = spark_settings.own_session_settings(defaults, settings.passed_on, submitted)
    if not submitted:
        values = spark_settings.with_delta(spark_settings.with_jars(values, settings), delta_jars())
    if spark_settings.is_one_machine(values["spark.master"]):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # Workers and slot hosts import flinkish, which may be on the path of this process only.
        root = str(Path(flinkish.__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        values.setdefault("spark.executorEnv.PYTHONPATH", path)
        values.setdefault("spark.python.unix.domain.socket.dir", str(socket_folder()))
    archive = _class_archive(java, values) if java and settings.class_archive else None
    if archive is not None:
        values[_JAVA_OPTIONS] = f"{values.get(_JAVA_OPTIONS, '')} {archive.java_options()}".strip()
    # PySpark needs pandas for the first query; it is imported while the JVM starts. An error shows there.
    threading.Thread(target=raised_by, args=(importlib.import_module, "pandas"), name="flinkish-import", daemon=True).start()
    try:
        session = _start_session(values)
    except Exception as error:
        if archive is None or SparkContext._gateway is not None or not archive.discard():
            raise EngineError(f"Spark did not start with master {values['spark.master']}: {error}") from error
        return make_session(settings)  # a damaged archive ends a JVM at once
    if archive is not None:
        archive.written_by(jvm_of(session.sparkContext))
    if not submitted:
        _equip_executors(session.sparkContext, values)
    silence_accumulators(session.sparkContext)
    if spark_settings.is_local(values["spark.master"]):
        # Saves two forks per batch: this JVM writes no .crc files to local disks.
        jvm, jsc = cast("Any", session.sparkContext._jvm), cast("Any", session.sparkContext._jsc)
        jvm.org.apache.hadoop.fs.FileSystem.getLocal(jsc.hadoopConfiguration()).setWriteChecksum(False)
    return session


def _equip_executors(context: Any, values: Mapping[str, str]) -> None:
    """Do for the executors what spark-submit would have done: name their Python, and send flinkish to other machines."""
    if "spark.pyspark.python" in values:
        # Spark itself reads this setting in spark-submit only; it goes before PYSPARK_PYTHON there, too.
        context.pythonExec = values["spark.pyspark.python"]
    if not spark_settings.is_one_machine(values["spark.master"]):
        # Executors fetch the file whenever they start, so it exists until this process ends.
        context.addPyFile(str(package_in(socket_folder())))


def _start_session(values: dict[str, str]) -> SparkSession:
    with _log_configuration(values):
        if SparkContext._gateway is None:
            _start_jvm(values)
        builder = SparkSession.builder
        for key, value in values.items():
            builder.config(key, value)
        try:
            return builder.getOrCreate()
        finally:
            # The builder is shared with the user's later sessions in this process.
            with contextlib.suppress(AttributeError):
                cast("Any", builder)._options = {}


def _start_jvm(values: Mapping[str, str]) -> None:
    """Start the JVM with the settings in a file: PySpark itself would put all of them on a command line.

    Settings in PYSPARK_SUBMIT_ARGS override them there, as with PySpark; they are passed in the file, too.
    """
    before = os.environ.get(_SUBMIT_ARGUMENTS)
    settings, others = submit_arguments(shlex.split(before or "pyspark-shell"), values)
    with property_file(settings) as file:
        os.environ[_SUBMIT_ARGUMENTS] = shlex.join(["--properties-file", str(file), *others])
        try:
            SparkContext._ensure_initialized()
        finally:
            if before is None:
                del os.environ[_SUBMIT_ARGUMENTS]
            else:
                os.environ[_SUBMIT_ARGUMENTS] = before


def jar_settings(conf: SparkConf) -> dict[str, str]:
    return {key: str(conf.get(key, "")) for key in spark_settings.JAR_SETTINGS}


def log_configuration(folder: Path) -> Path:
    """Return the project's conf/log4j2.properties, else flinkish's own file, which is created in the folder."""
    path = spark_settings.project_file("log4j2.properties")
    if path is None:
        path = folder / "log4j2.properties"
        path.write_text(_LOG4J, encoding="utf-8")
    return path.resolve()


@contextlib.contextmanager
def _log_configuration(values: dict[str, str]) -> Iterator[None]:
    """Set the log configuration of a new JVM: conf/log4j2.properties, else flinkish's own, which exists while the JVM starts."""
    options = values.get(_JAVA_OPTIONS, "")
    if SparkContext._gateway is not None or "log4j2.configurationFile" in options or "SPARK_CONF_DIR" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="flinkish-log4j-") as folder:
        path = log_configuration(Path(folder))
        values[_JAVA_OPTIONS] = f"{options} -Dlog4j2.configurationFile={path.as_uri()}".strip()
        yield


def _class_archive(java: Java, values: Mapping[str, str]) -> ClassArchive | None:
    """Return the archive of classes for a JVM that is started with these settings; None if it starts without one."""
    home = spark_home()
    if not class_archive.usable(values.get(_JAVA_OPTIONS, ""), os.environ, home):
        return None
    folder = class_archive.cache_folder(os.environ)
    if folder is None:
        return None
    class_path = values.get("spark.driver.extraClassPath", "")
    try:
        return ClassArchive(folder, class_archive.name_of(java.path, java.version_text, home, class_path))
    except OSError:
        return None
