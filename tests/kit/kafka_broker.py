"""A real Kafka broker (KRaft, broker and controller in one JVM), for tests.

One is shared by all test processes of a run (`shared_broker`). A guard process stands between the tests and the broker's JVM:
this module, run as a script. It ends the JVM when the process that it watches has ended in any way, and the kernel ends the JVM
when the guard is killed.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.kit.jars import fetch, jar_folder
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until

_ROOT = Path(__file__).resolve().parents[2]
JARS = jar_folder("kafka", "4.3.1")
_PR_SET_PDEATHSIG = 1
_TIMEOUT = 60.0
#: How long a confirmed transaction may take to become visible, in seconds; one that stays open is waited for as long.
_VISIBLE_WITHIN = 1.0

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={protocol}://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name={protocol}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
num.partitions=4
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.backoff.ms=200
log.retention.ms=-1
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
"""
_SECURE = """
ssl.keystore.location={folder}/broker.p12
ssl.keystore.type=PKCS12
ssl.keystore.password=inner-secret
ssl.truststore.location={folder}/ca.pem
ssl.truststore.type=PEM
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username="broker" password="inner" user_broker="inner" user_tester="right";
"""


def _java(program: str) -> str:
    """Return the path of a program of the Java in use."""
    return str(Path(os.environ["JAVA_HOME"], "bin", program)) if os.environ.get("JAVA_HOME") else program


class Broker:
    """A broker with its data in a folder."""

    def __init__(self, folder: Path, port: int, *, secure: bool = False) -> None:
        self.folder = folder
        self.port = port
        #: Whether it uses TLS and requires a password.
        self.secure = secure
        self._guard: int | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def client(self) -> dict[str, str]:
        """The properties with which a client connects to it."""
        reach = {"bootstrap.servers": self.address}
        if self.secure:
            reach |= {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.folder / "ca.pem")}
            reach |= {"sasl.mechanism": "PLAIN", "sasl.username": "tester", "sasl.password": "right"}
        return reach

    @staticmethod
    def make(folder: Path, *, secure: bool = False, port: int | None = None) -> Broker:
        """Prepare the folder of a new broker; it listens on a free port unless one is given."""
        fetch("kafka", JARS)
        folder.mkdir(parents=True)
        port, controller = port or free_port(), free_port()
        protocol = "SASL_SSL" if secure else "PLAINTEXT"
        text = _PROPERTIES.format(port=port, controller=controller, folder=folder, protocol=protocol)
        if secure:
            text += _SECURE.format(folder=folder)
            _make_certificate(folder)
        (folder / "server.properties").write_text(text)
        return Broker(folder, port, secure=secure)

    def start(self, watched: int) -> None:
        """Start it, again after `kill`; it ends when the process `watched` does."""
        command = [sys.executable, "-m", __name__, str(self.folder), str(watched)]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        log = str(self.folder / "guard.log")
        files = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        files += [(os.POSIX_SPAWN_OPEN, number, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for number in (1, 2)]
        # Not a Popen, which warns when a process outlives it: the broker of a test run outlives the test process that starts it.
        self._guard = os.posix_spawn(sys.executable, command, environment, file_actions=files, setsid=True)
        wait_until(
            "the Kafka broker",
            self._serves,
            _TIMEOUT,
            ended=lambda: bool(os.waitpid(self._guard, os.WNOHANG)[0]),
            report=lambda: f":\n{self.log()[-3000:]}",
        )

    def _serves(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def log(self) -> str:
        """Return what it logged."""
        return (self.folder / "broker.log").read_text(errors="replace")

    def runs(self) -> bool:
        """Return whether the process that was started runs."""
        return _alive(int((self.folder / "pid").read_text()))

    def kill(self) -> None:
        """End it as a crash would; its data stays."""
        pid = int((self.folder / "pid").read_text())
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        assert self._guard is not None
        os.waitpid(self._guard, 0)

    # -- what tests do with it -------------------------------------------------------------------------------------------

    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.client)

    def create_topic(self, partitions: int = 2, name: str | None = None, **settings: str) -> str:
        """Make a topic with a name of its own."""
        from confluent_kafka.admin import NewTopic

        name = name or f"t-{uuid.uuid4().hex[:12]}"
        admin = self.admin()
        config = {key.replace("_", "."): value for key, value in settings.items()}
        for future in admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
            future.result(120)

        def is_there() -> bool:
            found = admin.list_topics(name, timeout=60).topics[name]
            return not found.error and len(found.partitions) >= partitions

        wait_until(f"topic {name}", is_there, 120)
        return name

    def delete_topic(self, name: str) -> None:
        admin = self.admin()
        for future in admin.delete_topics([name]).values():
            future.result(120)

    def produce(self, topic: str, messages: Sequence[Any], *, transaction: str | None = None, commit: bool = True) -> None:
        """Write messages: values (text), round robin over the partitions, or dicts of the arguments of `produce`."""
        from confluent_kafka import Producer

        settings = {**self.client, "linger.ms": 1}
        producer = Producer(settings if transaction is None else {**settings, "transactional.id": transaction})
        partitions = len(producer.list_topics(topic, timeout=60).topics[topic].partitions)
        if transaction is not None:
            producer.init_transactions(30)
            producer.begin_transaction()
        errors: list[Any] = []

        def report(error: Any, message: Any) -> None:
            if error is not None:
                errors.append(error)

        for index, message in enumerate(messages):
            arguments = message if isinstance(message, dict) else {"value": message, "partition": index % partitions}
            producer.produce(topic, **arguments, on_delivery=report)
        producer.flush(30)
        assert not errors
        if transaction is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)(30)

    def consumer(self, *, committed: bool = True) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                **self.client,
                "group.id": "reader",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.wait.max.ms": 10,
            }
        )

    def read(self, topic: str, *, committed: bool = True) -> list[Any]:
        """Return all messages of a topic, by partition, in their order.

        A broker confirms a transaction before readers of committed messages see it, so they wait a moment for open transactions.
        """
        from confluent_kafka import KafkaError, TopicPartition

        consumer = self.consumer(committed=committed)
        try:
            partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            open_, found, hidden = set(partitions), [], set()
            began = time.monotonic()
            deadline = began + 120
            while open_ or (hidden and time.monotonic() < began + _VISIBLE_WITHIN):
                assert time.monotonic() < deadline, "the topic was not read to its end"
                for message in consumer.consume(10_000, 0.02):
                    if message.error() is None:
                        found.append(message)
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        number = message.partition()
                        open_.discard(number)
                        _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)
                        (hidden.add if message.offset() < end else hidden.discard)(number)
                    else:
                        raise AssertionError(message.error())
        finally:
            consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    def values(self, topic: str, *, committed: bool = True) -> list[str]:
        """Return the values of all messages of a topic as text."""
        return [message.value().decode() for message in self.read(topic, committed=committed)]


def _make_certificate(folder: Path) -> None:
    """Make a key for a broker (broker.p12), and the certificate by which clients know it (ca.pem)."""
    store = ["-alias", "broker", "-keystore", str(folder / "broker.p12"), "-storetype", "PKCS12", "-storepass", "inner-secret"]
    key = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "30", "-dname", "CN=broker", "-ext", "san=ip:127.0.0.1"]
    for arguments in (["-genkeypair", *key, *store], ["-exportcert", "-rfc", "-file", str(folder / "ca.pem"), *store]):
        command = [_java("keytool"), "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", *arguments]
        subprocess.run(command, check=True, capture_output=True)


@contextmanager
def own_broker(folder: Path, *, secure: bool = False, port: int | None = None) -> Iterator[Broker]:
    """Start a broker that a test may kill."""
    broker = Broker.make(folder, secure=secure, port=port)
    broker.start(os.getpid())
    try:
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def shared_broker(folder: Path, run: int) -> Broker:
    """Return the broker of a test run: started by the test process that comes first, ended with process `run`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = folder / "address.json"
        if note.exists():
            return Broker(folder / "broker", json.loads(note.read_text())["port"])
        broker = Broker.make(folder / "broker")
        broker.start(run)
        # The first use of transactions makes a topic of the broker's, which takes a second.
        broker.produce(broker.create_topic(1), ["first"], transaction="warm-up")
        note.write_text(json.dumps({"port": broker.port}))
        return broker


# -- the guard ---------------------------------------------------------------------------------------------------------------


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _guard(folder: Path, watched: int) -> None:
    options = ["-Xms96m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData"]
    options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Djava.awt.headless=true", "-cp", f"{JARS}/*"]
    config = str(folder / "server.properties")
    with (folder / "broker.log").open("ab") as log:

        def run(*arguments: str) -> subprocess.Popen[bytes]:
            command = [_java("java"), *options, *arguments]
            return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent)

        if not (folder / "data" / "meta.properties").exists():
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A")
            if run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", config).wait() != 0:
                sys.exit(1)
        broker = run("kafka.Kafka", config)
        (folder / "pid").write_text(str(broker.pid))
        while broker.poll() is None and _alive(watched):
            time.sleep(0.2)
        broker.kill()
        broker.wait()
    if not _alive(watched):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _guard(Path(sys.argv[1]), int(sys.argv[2]))
