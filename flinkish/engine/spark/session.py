"""The Spark session of a job: the user's own if there is one, else one that flinkish creates and stops."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.utils import is_remote

import flinkish
from flinkish.common import notices
from flinkish.common.configuration import Configuration
from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId
from flinkish.engine.scratch import make_folder, remove_orphans
from flinkish.engine.spark import class_archive
from flinkish.engine.spark import settings as spark_settings
from flinkish.engine.spark.class_archive import ClassArchive
from flinkish.engine.spark.java import java_class
from flinkish.engine.spark.package import package_in
from flinkish.engine.spark.property_file import property_file
from flinkish.engine.spark.quiet import quiet_jvm, silence_accumulators, silence_py4j
from flinkish.engine.spark.scratch import make_scratch_folder
from flinkish.engine.spark.settings import SparkSettings
from flinkish.engine.spark.submission import submit_arguments

#: Spark 4 runs on 17 and newer.
_OLDEST_JAVA = 17
_JAVA_HINT = (
    f"install Java {_OLDEST_JAVA} or newer (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`; macOS: `brew install "
    "openjdk@17`), or set JAVA_HOME; execution.engine: local needs no Java."
)

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
_lock = threading.Lock()
#: Number of holders of the session that flinkish created.
_holders = 0
_made: SparkSession | None = None
#: Keeps the JVM quiet from the stop of one session to the start of the next.
_quiet_after_stop = contextlib.ExitStack()
#: Folder for the sockets of that session on one machine, or for the package that it sends to executors.
_socket_folder: Path | None = None
#: Maximum length of the folder's path: the address of a Unix socket has at most 103 bytes, and Spark adds a name of 42.
_LONGEST_SOCKET_FOLDER = 60
#: Folder for sockets if the path of the folder for scratch data is too long, and the prefix of names there.
_SHORT, _SHORT_PREFIX = Path("/tmp"), "flinkish"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSession:
    """A session, and the process of its JVM."""

    session: SparkSession
    jvm: ProcessId
    #: Whether flinkish created it, so that the last holder stops it.
    own: bool
    #: The JVM, if this process started it.
    process: subprocess.Popen[bytes] | None = None

    def answers(self) -> bool:
        """Tell whether the session can be used: its JVM runs and is not about to end."""
        try:
            jsc: Any = self.session.sparkContext._jsc
            return self.jvm.is_alive() and not jsc.sc().isStopped()
        except Exception:
            return False

    def await_end(self, timeout_ms: int) -> int | None:
        """Wait for the end of the JVM and return its exit code, negative for a signal; None if it still runs, or unknown."""
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(timeout_ms / 1000)
        return None

    @property
    def master(self) -> str:
        """The master URL of its context."""
        return str(self.session.sparkContext.master)

    def setting(self, key: str, default: str) -> str:
        """Return a setting of its context; `getConf()` would copy all of them, in 40 ms."""
        return str(self.session.sparkContext._conf.get(key, default))


def hold_session(settings: SparkSettings) -> HeldSession:
    """Return the running session, or create one. Release it with `release_session`.

    Raises EngineError for Spark Connect, without Java, for jars that the running session does not have, and if Spark does not
    start.
    """
    global _holders, _made
    refuse_connect(os.environ)
    silence_py4j()
    with _lock:
        context = _running_context()
        if context is not None:
            spark_settings.check_jars(settings, _jar_settings(context._conf), "a Spark session runs")
        if context is not None and _made is None:
            session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
            return HeldSession(session=session, jvm=_jvm_of(context), own=False, process=_process())
        if context is None:
            notices.tell("Starting Spark ...")
            _made = _make_session(settings)
            _holders = 0
        assert _made is not None
        _holders += 1
        return HeldSession(session=_made, jvm=_jvm_of(_made.sparkContext), own=True, process=_process())


def share_session(configuration: Configuration) -> Callable[[], None]:
    """Hold a session like jobs with this configuration; return the function that releases it. For the table of engines."""
    held = hold_session(SparkSettings.of(configuration))
    return lambda: release_session(held)


def open_session(configuration: Configuration) -> tuple[SparkSession, Callable[[], None]]:
    """Return the session of jobs with this configuration, and the function that gives it back; for sinks on the driver."""
    held = hold_session(SparkSettings.of(configuration))
    return held.session, lambda: release_session(held)


def hold_delta_session(settings: SparkSettings) -> HeldSession:
    """Return a session like `hold_session` whose SQL reads and writes Delta tables; missing jars of Delta are fetched."""
    wanted = dict(spark_settings.DELTA_CLASSES)
    if not delta_jars():
        wanted["spark.jars.packages"] = spark_settings.delta_coordinates()
    return hold_session(replace(settings, passed_on=wanted | dict(settings.passed_on)))


def release_session(held: HeldSession) -> None:
    """Stop the session if flinkish created it and this was its last holder."""
    global _holders, _made
    with _lock:
        if not held.own or held.session is not _made:
            return
        _holders -= 1
        if _holders == 0:
            _made = None
            # Threads of the stopped context keep failing for a while, with stack traces, so stay quiet until the next session.
            _quiet_after_stop.enter_context(quiet_jvm(held.session.sparkContext._jvm))
            with contextlib.suppress(Exception):
                held.session.stop()


def remove_socket_folder() -> None:
    """Remove the folder with the sockets of the session's JVM or its package; called at the end of the process."""
    if _socket_folder is not None:
        shutil.rmtree(_socket_folder, ignore_errors=True)


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


def _jar_settings(conf: SparkConf) -> dict[str, str]:
    return {key: str(conf.get(key, "")) for key in spark_settings.JAR_SETTINGS}


def _forget_jvm() -> None:
    global _made
    _made = None
    _quiet_after_stop.close()
    gateway: Any = SparkContext._gateway
    with contextlib.suppress(Exception):
        gateway.shutdown()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _process() -> subprocess.Popen[bytes] | None:
    return getattr(SparkContext._gateway, "proc", None)


def _jvm_of(context: SparkContext) -> ProcessId:
    pid = int(java_class(context._jvm, "java.lang.ProcessHandle").current().pid())
    found = ProcessId.of(pid)
    if found is None:
        raise EngineError(f"The JVM of Spark, process {pid}, is gone.")
    return found


def _make_session(settings: SparkSettings) -> SparkSession:
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
        spark_settings.check_jars(settings, _jar_settings(SparkConf()), "Spark's JVM runs")
    defaults_file = spark_settings.find_spark_defaults()
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
        values.setdefault("spark.python.unix.domain.socket.dir", str(_make_socket_folder()))
    archive = _class_archive(java, values) if java and settings.class_archive else None
    if archive is not None:
        values[_JAVA_OPTIONS] = f"{values.get(_JAVA_OPTIONS, '')} {archive.java_options()}".strip()
    # PySpark needs pandas for the first query; it is imported while the JVM starts. An error shows there.
    threading.Thread(target=_suppressed_import, args=("pandas",), name="flinkish-import", daemon=True).start()
    try:
        session = _start_session(values)
    except Exception as error:
        if archive is None or SparkContext._gateway is not None or not archive.discard():
            raise EngineError(f"Spark did not start with master {values['spark.master']}: {error}") from error
        return _make_session(settings)  # a damaged archive ends a JVM at once
    if archive is not None:
        archive.written_by(_jvm_of(session.sparkContext))
    if not submitted:
        _equip_executors(session.sparkContext, values)
    _quiet_after_stop.close()
    silence_accumulators(session.sparkContext)
    if spark_settings.is_local(values["spark.master"]):
        _omit_checksum_files(session)
    return session


def _suppressed_import(module: str) -> None:
    with contextlib.suppress(Exception):
        importlib.import_module(module)


def _equip_executors(context: Any, values: Mapping[str, str]) -> None:
    """Do for the executors what spark-submit would have done: name their Python, and send flinkish to other machines."""
    if "spark.pyspark.python" in values:
        # Spark itself reads this setting in spark-submit only; it goes before PYSPARK_PYTHON there, too.
        context.pythonExec = values["spark.pyspark.python"]
    if not spark_settings.is_one_machine(values["spark.master"]):
        # Executors fetch the file whenever they start, so it exists until this process ends.
        context.addPyFile(str(package_in(_make_socket_folder())))


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
            _clear(builder)


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


def delta_jars() -> list[Path]:
    """Return Delta's jars from Ivy's cache; empty if they are missing."""
    # Java, and so Ivy, takes the home folder from the user database, not from HOME.
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    return spark_settings.cached_delta_jars(home, spark_home() / "jars")


def _make_socket_folder() -> Path:
    """Create a folder that is removed when this process ends; if it is killed, the next process removes it.

    Spark leaves sockets behind if the driver is killed, and fails with a long path of them.

    A JVM uses the first folder that it was given, so the folder is kept until this process ends.
    """
    global _socket_folder
    if _socket_folder is None:
        folder = make_scratch_folder(None)
        if len(str(folder)) > _LONGEST_SOCKET_FOLDER:
            folder.rmdir()
            remove_orphans(_SHORT, _SHORT_PREFIX)
            folder = make_folder(_SHORT, _SHORT_PREFIX)
        _socket_folder = folder
        atexit.register(remove_socket_folder)
    return _socket_folder


def _clear(builder: Any) -> None:
    """Clear the options, because `SparkSession.builder` is shared with the user's later sessions in this process."""
    with contextlib.suppress(AttributeError):
        builder._options = {}


def log_configuration(folder: Path) -> Path:
    """Return the project's conf/log4j2.properties, else flinkish's own file, which is created in the folder."""
    path = spark_settings.find_log4j()
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


def _omit_checksum_files(session: SparkSession) -> None:
    """Save two forks per batch: this JVM writes no .crc files to local disks."""
    jvm: Any = session.sparkContext._jvm
    jsc: Any = session.sparkContext._jsc
    jvm.org.apache.hadoop.fs.FileSystem.getLocal(jsc.hadoopConfiguration()).setWriteChecksum(False)


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


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that Spark uses."""

    path: str
    #: The output of `java -version`, or the file `release` of its installation.
    version_text: str


def check_java(environment: Mapping[str, str]) -> Java:
    """Return the Java that Spark will use. Raises EngineError, which names the package to install, if it can use none."""
    home = environment.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java", path=environment.get("PATH"))
    if java is None:
        where = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "there is no `java` on the PATH"
        raise EngineError(f"Spark needs Java, but {where}.", hint=_JAVA_HINT)
    text = _release(java) or _ask_version(java)
    version = java_version(text)
    if version is None or version < _OLDEST_JAVA:
        found = "an unknown version" if version is None else f"Java {version}"
        raise EngineError(f"Spark needs Java {_OLDEST_JAVA} or newer, but {java} is {found}.", hint=_JAVA_HINT)
    return Java(path=java, version_text=text)


def _release(java: str) -> str | None:
    """Return the file in which an installation of Java states its version; None if it has none. Asking Java takes 0.1 s."""
    try:
        text = (Path(java).resolve().parent.parent / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return None if java_version(text) is None else text


def _ask_version(java: str) -> str:
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"Spark needs Java, but {java} does not run: {error}", hint=_JAVA_HINT) from error
    return output.stderr + output.stdout


def spark_home() -> Path:
    """Return the folder of the Spark that this process uses: SPARK_HOME, else that of the pyspark package."""
    return Path(_find_spark_home())


def java_version(output: str) -> int | None:
    """Return the major version in the output of `java -version` or in a file `release`; None if there is none."""
    match = re.search(r'(?:version |JAVA_VERSION=)"(?:1\.)?(\d+)', output)
    return int(match.group(1)) if match else None
