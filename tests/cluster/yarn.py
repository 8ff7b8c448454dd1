"""YARN's ResourceManager and NodeManagers as processes of their own, from the jar of Hadoop's mini cluster."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import psutil
import pyspark

from tests.cluster.standalone import MARK, SMALL_JVM, TIMEOUT, Cluster, Machine, Worker
from tests.kit import jars
from tests.kit.waiting import wait_until

_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
#: The client of Hadoop that Spark has, which the servers need, too.
_CLIENT_JARS = sorted(_SPARK_JARS.glob("hadoop-client-*.jar"))
_JARS = jars.jar_folder("yarn", _CLIENT_JARS[0].stem.rpartition("-")[2])
_SERVERS = "org.apache.hadoop.yarn.server"
_LOG4J = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss} %p %c{1}: %m%n
"""


class Yarn(Cluster):
    """A ResourceManager with NodeManagers. Machines share a file system with the client, in which Spark puts a job's files."""

    def __init__(self, folder: Path, shared: Sequence[Path]) -> None:
        self.staging = folder / "staging"
        self.staging.mkdir()
        super().__init__(folder, [*shared, _JARS])
        self.url = "yarn"
        self.client = folder / "client"
        #: Those of a job.
        self.settings = {
            "spark.yarn.jars": f"local:{_SPARK_JARS}/*",
            "spark.yarn.stagingDir": f"file://{self.staging}",
            "spark.yarn.am.memory": "256m",
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        }

    def start(self) -> None:
        """Start the ResourceManager."""
        names = ("", ".scheduler", ".resource-tracker", ".admin", ".webapp")
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in names]
            for free in sockets:
                free.bind(("127.0.0.1", 0))
            addresses = [f"127.0.0.1:{free.getsockname()[1]}" for free in sockets]
        self._addresses = {f"yarn.resourcemanager{name}.address": at for name, at in zip(names, addresses, strict=True)}
        self._web = f"http://{addresses[-1]}"
        self._configure(self.client, {})
        server = self._server(self.master, f"{_SERVERS}.resourcemanager.ResourceManager", {})
        self._wait_until("the ResourceManager runs", lambda: self._nodes_that_run() is not None, [server])

    def add_node(self) -> None:
        """Start one more NodeManager, on an address of its own; it is not waited for."""
        number = len(self.workers) + 1
        machine, host = self.machine(f"node{number}"), f"127.0.0.{number + 1}"
        settings = {
            "yarn.nodemanager.hostname": host,
            "yarn.nodemanager.bind-host": host,
            "yarn.nodemanager.address": f"{host}:0",
            "yarn.nodemanager.localizer.address": f"{host}:0",
            "yarn.nodemanager.webapp.address": f"{host}:0",
            "yarn.nodemanager.local-dirs": str(machine.folder / "local"),
            "yarn.nodemanager.log-dirs": str(machine.folder / "containers"),
            "yarn.nodemanager.user-home-dir": str(machine.folder / "home"),
            "yarn.nodemanager.env-whitelist": f"JAVA_HOME,PATH,LANG,{MARK}",
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        }
        self.workers.append(Worker(machine, self._server(machine, f"{_SERVERS}.nodemanager.NodeManager", settings)))

    def wait_for_nodes(self) -> None:
        """Wait until all NodeManagers have registered."""
        servers = [worker.process for worker in self.workers]
        self._wait_until("all nodes run", lambda: self._nodes_that_run() == len(self.workers), servers)

    def _wait_until(self, what: str, condition: Callable[[], bool], servers: Sequence[subprocess.Popen[bytes]]) -> None:
        """Wait for a condition while servers run."""

        def ended() -> bool:
            return any(server.poll() is not None for server in servers)

        wait_until(what, condition, TIMEOUT, ended=ended, report=self.report)

    def _nodes_that_run(self) -> int | None:
        try:
            with urllib.request.urlopen(f"{self._web}/ws/v1/cluster/nodes?states=RUNNING", timeout=10) as answer:
                found = json.load(answer)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None
        return len((found["nodes"] or {}).get("node", ()))

    def _server(self, machine: Machine, name: str, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
        conf = machine.folder / "conf"
        self._configure(conf, settings)
        (conf / "log4j.properties").write_text(_LOG4J)
        java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
        class_path = os.pathsep.join([str(conf), f"{_JARS}/*", *map(str, _CLIENT_JARS)])
        options = [option for option in SMALL_JVM.split() if "SharedArchive" not in option]
        return machine.start([str(java), "-Xmx256m", *options, "-cp", class_path, name], HADOOP_HOME=str(machine.folder))

    def _configure(self, folder: Path, settings: Mapping[str, str]) -> None:
        folder.mkdir()
        for name, values in {
            "core-site": {"fs.defaultFS": "file:///"},
            "yarn-site": {**self._addresses, "yarn.scheduler.minimum-allocation-mb": "128", **settings},
            "capacity-scheduler": {
                "yarn.scheduler.capacity.root.queues": "default",
                "yarn.scheduler.capacity.root.default.capacity": "100",
                "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
            },
        }.items():
            entries = "\n".join(
                f"<property><name>{key}</name><value>{escape(value)}</value></property>" for key, value in values.items()
            )
            (folder / f"{name}.xml").write_text(f"<configuration>\n{entries}\n</configuration>\n")

    def _jvms(self, main: str) -> list[psutil.Process]:
        found = []
        for process in self.members():
            with contextlib.suppress(psutil.Error):
                if process.name() == "java" and any(part.endswith(main) for part in process.cmdline()):
                    found.append(process)
        return found

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of all executors."""
        return self._jvms(".YarnCoarseGrainedExecutorBackend")

    def drivers(self) -> list[psutil.Process]:
        """Return the JVMs of drivers that YARN has started."""
        return self._jvms(".ApplicationMaster")

    def driver_output(self) -> str:
        """Return what drivers that YARN has started have printed."""
        return "".join(log.read_text(errors="replace") for log in sorted(self.folder.glob("node*/containers/*/*_000001/std*")))

    def report(self) -> str:
        """Return the ends of all logs."""
        containers = "".join(
            f"\n== {log}\n{log.read_text(errors='replace')[-4_000:]}" for log in self.folder.glob("node*/containers/*/*/std*")
        )
        return containers + super().report()


@contextlib.contextmanager
def running(*shared: Path, nodes: int = 2) -> Iterator[Yarn]:
    """Run YARN on machines that share folders of the tests; raises MissingJarsError."""
    jars.fetch("yarn", _JARS)
    cluster = Yarn(Path(tempfile.mkdtemp(prefix="fy-", dir="/tmp")), shared)
    try:
        cluster.start()
        for _ in range(nodes):
            cluster.add_node()
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.close()
