"""Makes environments without a fixture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkish.common import Configuration
from flinkish.datastream import StreamExecutionEnvironment


def env_of(settings: Mapping[str, Any] | None = None, parallelism: int = 1) -> StreamExecutionEnvironment:
    """Return an environment with settings, on the local engine if they name no other."""
    chosen = {"execution.engine": "local", **(settings or {})}
    configuration = Configuration.from_dict({key: str(value) for key, value in chosen.items()})
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
