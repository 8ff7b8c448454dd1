"""What the clients of a server cost a running job: the processor time of the server's thread.

The clients are a process of their own. On a machine of few cores it takes time from the job, too, so the rate of the job with and
without clients is only printed beside the cost.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import psutil

from flinkish.common import Configuration, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from tests.bench.functions import add_one, key_of
from tests.bench.keyed_count import CountPerKey
from tests.bench.measure import cpu_seconds

#: A page asks for all that it shows each 3 s, Flink's web.refresh-interval.
CLIENTS, INTERVAL = 50, 3.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Figures of one run with clients and of one without."""

    requests: int
    #: Processor seconds of the server's thread, and of all processes of the job with it.
    server: float
    whole: float
    #: Records a second.
    with_clients: float
    without: float


def measure(engine: str, seconds: float) -> Cost:
    """Run the keyed count without end; look at it for some seconds without clients, then with them."""
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.engine": engine, "rest.bind-port": "18000-18999"})
    )
    env.set_parallelism(2)
    numbers = env.from_source(NumberSequenceSource(0, 10**15), WatermarkStrategy.no_watermarks(), "numbers")
    counted = numbers.map(add_one, Types.LONG()).key_by(key_of, key_type=Types.LONG()).process(CountPerKey(), Types.LONG())
    counted.sink_to(DiscardingSink())
    client = env.execute_async("keyed count with clients")
    try:
        port = _port()
        job = str(client.get_job_id())
        _wait_for_records(port, job)
        threading.Event().wait(5)  # the credit grows
        without = _rate(port, job, seconds)
        clients = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.server", str(port), job, str(seconds + 1)], stdout=subprocess.PIPE, text=True
        )
        try:
            server, whole = _server_seconds(), cpu_seconds()
            with_clients = _rate(port, job, seconds)
            server, whole = _server_seconds() - server, cpu_seconds() - whole
        finally:
            answered = int(clients.communicate()[0] or 0)
        return Cost(answered, server, whole, with_clients, without)
    finally:
        client.cancel().result(120)


def _port() -> int:
    """Return the port of this process's server."""
    ports = (each.laddr.port for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN)
    return next(port for port in ports if 18_000 <= port < 19_000)


def _server_seconds() -> float:
    """Return the processor time of the server's thread."""
    ident = next(thread.native_id for thread in threading.enumerate() if thread.name == "flinkish-rest")
    return next(each.user_time + each.system_time for each in psutil.Process().threads() if each.id == ident)


def _records(port: int, job: str) -> int:
    vertices = _ask(http.client.HTTPConnection("127.0.0.1", port, timeout=30), f"/jobs/{job}")["vertices"]
    return int(max(vertex["metrics"]["write-records"] for vertex in vertices))


def _wait_for_records(port: int, job: str) -> None:
    deadline = time.monotonic() + 120
    while not _records(port, job):
        if time.monotonic() > deadline:
            raise TimeoutError("the job does not begin")
        threading.Event().wait(0.2)


def _rate(port: int, job: str, seconds: float) -> float:
    before, begun = _records(port, job), time.perf_counter()
    threading.Event().wait(seconds)
    return (_records(port, job) - before) / (time.perf_counter() - begun)


def _ask(connection: http.client.HTTPConnection, path: str) -> Any:
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {body[:200]!r}")
    return json.loads(body)


def _poll(port: int, job: str, delay: float, end: float, answered: list[int]) -> None:
    """Ask for what the page of a running job shows."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    rates = "backPressuredTimeMsPerSecond,busyTimeMsPerSecond,numRecordsInPerSecond"
    time.sleep(delay)
    while time.monotonic() < end:
        begun = time.monotonic()
        _ask(connection, "/jobs/overview")
        vertices = [vertex["id"] for vertex in _ask(connection, f"/jobs/{job}")["vertices"]]
        for vertex in vertices:
            _ask(connection, f"/jobs/{job}/vertices/{vertex}/subtasks/metrics?get={rates}")
            _ask(connection, f"/jobs/{job}/vertices/{vertex}/watermarks")
        answered.append(2 + 2 * len(vertices))
        time.sleep(max(0.0, INTERVAL - (time.monotonic() - begun)))


def main(port: int, job: str, seconds: float) -> None:
    """Be the clients; print the number of answers."""
    answered: list[int] = []
    end = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_poll, args=(port, job, INTERVAL * number / CLIENTS, end, answered)) for number in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(answered))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
