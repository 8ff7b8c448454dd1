"""Fixtures for jobs that run in the process of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.datastream import StreamExecutionEnvironment
from flinkish.engine.job_client import EmbeddedJobClient
from tests.conftest import MakeEnvironment
from tests.recovery import keyed_timers_job

Start = Callable[..., EmbeddedJobClient]


@pytest.fixture
def make_job_env(make_env: MakeEnvironment, engine: str, tmp_path: Path) -> MakeEnvironment:
    """Return a function that makes an environment with incremental checkpoints every 10 ms, small epochs and no restarts."""
    defaults = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.incremental": True,
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "execution.checkpointing.savepoint-dir": tmp_path / "savepoints",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.epoch.max-records": 15 if engine == "local" else 50,
        "restart-strategy.type": "none",
    }

    def make(parallelism: int = 2, settings: dict[str, Any] | None = None) -> StreamExecutionEnvironment:
        return make_env(parallelism, {**defaults, **(settings or {})})

    return make


@pytest.fixture
def start(make_job_env: MakeEnvironment, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts the job of the recovery tests; it writes below `output`. Running ones are cancelled."""
    clients: list[EmbeddedJobClient] = []

    def begin(
        settings: dict[str, Any] | None = None,
        *,
        parallelism: int = 2,
        output: Path = tmp_path,
        build: Callable[[StreamExecutionEnvironment, Path], None] = keyed_timers_job.build,
    ) -> EmbeddedJobClient:
        env = make_job_env(parallelism, settings)
        build(env, output)
        client = env.execute_async("recovery")
        assert isinstance(client, EmbeddedJobClient)
        clients.append(client)
        return client

    yield begin
    for client in clients:
        client.cancel().result(120)
