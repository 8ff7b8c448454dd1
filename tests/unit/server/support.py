"""A server over jobs of the local engine, and comparisons of its answers with recorded ones of Flink 2.3.0."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinkish.common import Configuration, Types, WatermarkStrategy
from flinkish.common.clock import SystemClock
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.engine.job_list import RUNNING_JOBS
from flinkish.server.endpoint import Endpoint, Limits
from flinkish.server.rest.app import make_app
from flinkish.server.server_settings import ServerSettings, server_settings
from flinkish.server.state import ServerState
from tests.kit.environments import env_of
from tests.kit.http import Asking
from tests.kit.waiting import wait_until

SAMPLES = Path(__file__).parent / "samples"
_ID = re.compile(r"[0-9a-f]{32}")
UNKNOWN = "0" * 32


class Server(Asking):
    """A server on a free port, and requests to it."""

    def __init__(self, limits: Limits | None = None, **changes: Any) -> None:
        settings = server_settings(Configuration.from_dict({"rest.port": "0"}))
        assert isinstance(settings, ServerSettings)
        settings = replace(settings, **changes)
        self._endpoint = Endpoint(settings, limits)
        self.port = self._endpoint.listen()
        self.state = ServerState(settings, SystemClock(), address=f"localhost:{self.port}")
        self.jobs = self.state.jobs
        self._endpoint.serve(make_app(self.state))
        RUNNING_JOBS.subscribe(self.jobs)

    def close(self) -> None:
        RUNNING_JOBS.unsubscribe(self.jobs)
        self._endpoint.close()

    def await_progress(self, job_id: str) -> None:
        """Wait until an endless job has completed a checkpoint, and its second vertex has read records."""
        wait_until("a checkpoint", lambda: self.get(f"/jobs/{job_id}/checkpoints")["latest"]["completed"] is not None)
        wait_until("records", lambda: self.get(f"/jobs/{job_id}")["vertices"][1]["metrics"]["read-records"] > 0)


def make_env(tmp_path: Path, **settings: str) -> StreamExecutionEnvironment:
    configuration = {
        "execution.epoch.target-duration": "20 ms",
        "execution.epoch.max-records": "200",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
        "execution.checkpointing.interval": "100 ms",
        # A checkpoint that a test has seen is still there when the test asks for it.
        "web.checkpoints.history": "10000",
        "security.checkpoint.hmac-key-file": str(tmp_path / "keys" / "key"),
        **settings,
    }
    return env_of(configuration, 2)


def endless_job(env: StreamExecutionEnvironment, name: str = "endless") -> Any:
    """Start a job of two vertices that reads numbers until it is stopped."""
    numbers = env.from_source(NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers")
    pairs = numbers.map(lambda v: (v % 10, v), Types.TUPLE([Types.LONG(), Types.LONG()])).name("to pair").uid("pair")
    counted = pairs.key_by(lambda p: p[0], Types.LONG()).reduce(lambda a, b: (a[0], a[1] + b[1])).name("count").uid("count")
    counted.sink_to(DiscardingSink()).name("out").uid("out")
    return env.execute_async(name)


@contextmanager
def served(limits: Limits | None = None, **changes: Any) -> Iterator[Server]:
    server = Server(limits, **changes)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def served_job(folder: Path) -> Iterator[tuple[Server, str]]:
    """Yield a server and the id of a job that runs, has read records and completed a checkpoint."""
    with served() as server:
        client = endless_job(make_env(folder))
        job_id = str(client.get_job_id())
        server.await_progress(job_id)
        yield server, job_id
        client.cancel().result(120)


def ids_in(server: Server, job_id: str) -> dict[str, str]:
    """Return what stands for the parameters of paths."""
    return {
        "jobid": job_id,
        "vertexid": server.get(f"/jobs/{job_id}")["vertices"][1]["id"],
        "checkpointid": str(server.get(f"/jobs/{job_id}/checkpoints")["latest"]["completed"]["id"]),
        "taskmanagerid": server.get("/taskmanagers")["taskmanagers"][0]["id"],
        "filename": server.get("/jobmanager/logs")["logs"][0]["name"],
    }


def sample(file: str, request: str) -> Any:
    """Return the recorded body of the first request that ends so; ids in the paths do not matter."""
    recorded = json.loads((SAMPLES / f"{file}.json").read_text())
    for key, value in recorded.items():
        if _ID.sub("ID", key) == request or re.sub(r"/\d+(/|$)", r"/N\1", _ID.sub("ID", key)) == request:
            return value.get("body", value)
    raise AssertionError(f"{request} was not recorded in {file}: {list(recorded)}")


def shape(value: Any) -> Any:
    """Return the form of an answer: names of fields and kinds of values; of a list, that of its first element."""
    if isinstance(value, dict):
        return {("ID" if _ID.fullmatch(key) else key): shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def differences(expected: Any, actual: Any, at: str = "") -> list[str]:
    """Return where two forms differ; an empty list and a missing object differ from nothing."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        missing = [f"{at}.{key} is missing" for key in expected.keys() - actual.keys()]
        more = [f"{at}.{key} is not Flink's" for key in actual.keys() - expected.keys()]
        return sorted(missing + more) + [
            text for key in expected.keys() & actual.keys() for text in differences(expected[key], actual[key], f"{at}.{key}")
        ]
    if isinstance(expected, list) and isinstance(actual, list):
        return differences(expected[0], actual[0], f"{at}[0]") if expected and actual else []
    return [] if expected == actual else [f"{at} is {actual!r}, Flink's is {expected!r}"]
