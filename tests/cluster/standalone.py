"""Spark's standalone master and workers as processes of their own, which share nothing but the machine."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pyspark

from tests.kit.child import FLINKISH, living
from tests.kit.waiting import wait_until

_ROOT = Path(__file__).resolve().parents[2]
#: In the environment of all processes of a cluster, so that all are found, whatever session they are in.
MARK = "FLINKISH_TEST_CLUSTER"
#: They live for a minute; the archive of classes is that of all tests (tests/conftest.py).
SMALL_JVM = (
    f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -XX:SharedArchiveFile={sys.prefix}/classes.jsa -Xlog:disable"
)
TIMEOUT = 240.0


#: Runs a command with a /dev/shm and a /tmp of its own, in which there are only the folders before the first `--`.
_ALONE = """
set -e
mount -t tmpfs none /mnt
mkdir -p -m 1777 /mnt/tmp /mnt/dev/shm
while [ "$1" != -- ]; do mkdir -p "/mnt$1"; mount --bind "$1" "/mnt$1"; shift; done
mount --rbind /mnt/tmp /tmp
mount --rbind /mnt/dev/shm /dev/shm
shift
exec "$@"
"""


@functools.cache
def _alone(*shared: Path) -> tuple[str, ...]:
    """Return what to put before a command so that it sees no temporary files of others; empty if the kernel does not allow that.

    Containers need a privilege for it. `shared` are folders that it sees nevertheless, also if they are below /tmp or /dev/shm.
    """
    kept = [str(folder) for folder in shared if folder.is_relative_to("/tmp") or folder.is_relative_to("/dev/shm")]
    start = ("unshare", "--mount", "--", "sh", "-c", _ALONE, "sh", *kept, "--")
    try:
        works = subprocess.run([*start, "true"], capture_output=True, timeout=60, check=False).returncode == 0
    except OSError:
        works = False
    return start if works else ()


class Machine:
    """A place for processes, with home, working and temporary folders of its own.

    Where the kernel allows it, its /tmp and /dev/shm are its own, too, as are those of a machine.
    """

    def __init__(self, name: str, folder: Path, mark: str, shared: Sequence[Path]) -> None:
        self.name = name
        self.folder = folder / name
        for part in ("home", "tmp", "cwd", "local"):
            (self.folder / part).mkdir(parents=True)
        self._mark = mark
        self._alone = _alone(_ROOT, Path(sys.prefix), folder, *shared)
        self.processes: list[subprocess.Popen[bytes]] = []

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of its processes: nothing of that of the tests but the paths of Java and Spark."""
        java = os.environ.get("JAVA_HOME")
        return {
            **({"JAVA_HOME": java} if java else {}),
            MARK: self._mark,
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": str(self.folder / "home"),
            "TMPDIR": "/tmp" if self._alone else str(self.folder / "tmp"),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "128m",
            # The port of the REST server is fixed; other clusters may run.
            "SPARK_DAEMON_JAVA_OPTS": f"{SMALL_JVM} -Dspark.master.rest.enabled=false",
            "SPARK_NO_DAEMONIZE": "1",
            **more,
        }

    def start(self, command: Sequence[str], log: str = "log", **environment: str) -> subprocess.Popen[bytes]:
        """Start a process in the machine's working folder; its output is appended to a file."""
        with (self.folder / log).open("ab") as output:
            process = subprocess.Popen(
                [*self._alone, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder / "cwd",
                env=self.environment(**environment),
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def output(self, log: str = "log") -> str:
        """Return what its processes have printed."""
        file = self.folder / log
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


class Worker:
    """A worker of the cluster, on a machine and an address of its own."""

    def __init__(self, machine: Machine, process: subprocess.Popen[bytes]) -> None:
        self.machine = machine
        self.process = process

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of the executors that it has started."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.name() == "java" and Path(process.cwd()).is_relative_to(self.machine.folder / "cwd" / "apps"):
                    found.append(process)
        return found

    def kill(self) -> None:
        """Kill its JVM, and not its executors."""
        self.process.kill()
        self.process.wait(30)


class Cluster:
    """A master with workers."""

    def __init__(self, folder: Path, shared: Sequence[Path]) -> None:
        """Start nothing yet; all that is started has its folders below `folder`, and can read and write those in `shared`."""
        self.folder = folder
        self._shared = shared
        self._name = folder.name
        self.workers: list[Worker] = []
        self.machines: list[Machine] = []
        self.url = ""
        self.master = self.machine("master")
        self._spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")

    def start(self) -> None:
        """Start the master."""
        name = "org.apache.spark.deploy.master.Master"
        self.master.start([self._spark_class, name, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"])
        wait_until("the master runs", lambda: self._url() is not None, TIMEOUT, report=self.report)
        self.url = self._url() or ""

    def _url(self) -> str | None:
        found = re.search(r"Starting Spark master at (spark://\S+)", self.master.output())
        return found[1] if found else None

    def machine(self, name: str) -> Machine:
        """Add a machine."""
        machine = Machine(name, self.folder, self._name, self._shared)
        self.machines.append(machine)
        return machine

    def add_worker(self, cores: int = 2) -> Worker:
        """Start one more worker, on an address of its own."""
        number = sum(machine.name.startswith("worker") for machine in self.machines) + 1
        machine = self.machine(f"worker{number}")
        name = "org.apache.spark.deploy.worker.Worker"
        command = [self._spark_class, name, "--host", f"127.0.0.{number + 1}", "--port", "0", "--webui-port", "0"]
        command += ["--cores", str(cores), "--memory", "2g", "--work-dir", str(machine.folder / "cwd" / "apps"), self.url]
        worker = Worker(machine, machine.start(command))
        self.workers.append(worker)
        return worker

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of all executors."""
        return [executor for worker in self.workers for executor in worker.executors()]

    def members(self) -> list[psutil.Process]:
        """Return all living processes of the cluster and its jobs."""
        return living(MARK, self._name)

    def report(self) -> str:
        """Return the ends of all logs."""
        logs = [*self.folder.glob("*/log*"), *self.folder.glob("*/cwd/apps/*/*/stderr")]
        logs.sort(key=lambda log: (log.name == "log", "driver" in str(log)))
        return "".join(f"\n== {log}\n{_without_info(log)[-6_000:]}" for log in logs)

    def close(self) -> None:
        """Kill all processes and remove all folders."""

        def none_left() -> bool:
            for process in self.members():
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
            return not self.members()

        wait_until("the cluster's processes end", none_left, 120)
        for machine in self.machines:
            for process in machine.processes:
                process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)


def _without_info(log: Path) -> str:
    return "\n".join(line for line in log.read_text(errors="replace").splitlines() if " INFO " not in line)


class Job:
    """A script that is run on a cluster by `flinkish run` or `flinkish submit`, on a machine of its own."""

    def __init__(
        self,
        cluster: Cluster,
        script: Path,
        *arguments: str,
        settings: Mapping[str, str],
        options: Sequence[str] = (),
        python: str | None = None,
        **environment: str,
    ) -> None:
        """Start nothing yet; `settings` are those of flinkish and of Spark, `python` is the interpreter of the executors."""
        self._cluster = cluster
        self._machine = cluster.machine(f"driver{sum(1 for _ in cluster.folder.glob('driver*')) + 1}")
        self._settings = {
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.executor.extraJavaOptions": SMALL_JVM,
            "spark.driver.extraJavaOptions": SMALL_JVM,
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            **settings,
        }
        self._options = ["--master", cluster.url, *options]
        self._script = [str(script), *arguments]
        self._environment = {
            "PYTHONPATH": str(_ROOT),
            "PYSPARK_PYTHON": python or sys.executable,
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        self._runs = 0

    def start(self, verb: str, *options: str, **settings: str) -> None:
        """Start the driver by a command, `run` or `submit`, also after it was killed; options and settings are further ones."""
        self._runs += 1
        self._log = f"log{self._runs}"
        command = [sys.executable, *FLINKISH, verb, *self._options, *options]
        for key, value in {**self._settings, **settings}.items():
            of_spark_submit = verb == "submit" and key.startswith("spark.")
            command += ["--conf" if of_spark_submit else "-D", f"{key}={value}"]
        self.process = self._machine.start([*command, *self._script], self._log, **self._environment)

    def output(self) -> str:
        """Return what the driver has printed since it was started last."""
        return self._machine.output(self._log)

    def report(self) -> str:
        """Return all that may explain a failure."""
        return self._cluster.report()

    def wait_until(self, what: str, condition: object, timeout: float = TIMEOUT) -> None:
        """Wait for a condition while the driver runs."""
        assert callable(condition)
        wait_until(what, condition, timeout, ended=lambda: self.process.poll() is not None, report=self.report)

    def kill(self) -> None:
        """Kill the driver: Python, its JVM, and spark-submit."""
        for process in [*psutil.Process(self.process.pid).children(recursive=True), psutil.Process(self.process.pid)]:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.process.wait(30)

    def assert_finished(self, timeout: float = TIMEOUT) -> None:
        """The driver ends with success."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended within {timeout:.0f} s{self.report()}") from None
        assert code == 0, self.report()


@contextlib.contextmanager
def running(*shared: Path, workers: int = 2, cores: int = 2) -> Iterator[Cluster]:
    """Run a cluster whose machines share folders of the tests."""
    # The addresses of Unix sockets are short.
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="fc-", dir="/tmp")), shared)
    try:
        cluster.start()
        for _ in range(workers):
            cluster.add_worker(cores)
        yield cluster
    finally:
        cluster.close()
