"""Arguments and settings that the main functions of the job scripts share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flinkish.datastream import StreamExecutionEnvironment
from tests.kit.environments import env_of


def job_parser(output: Callable[[str], Any] = Path) -> argparse.ArgumentParser:
    """Return a parser of what each job is given: engine, where it writes, parallelism, and settings by -D<key>=<value>."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", required=True)
    parser.add_argument("--output", required=True, type=output)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("-D", dest="settings", action="append", default=[], type=lambda text: text.split("=", 1))
    return parser


def job_environment(
    given: argparse.Namespace, records: int, settings: dict[str, Any] | None = None
) -> StreamExecutionEnvironment:
    """Return an environment with checkpoints every 10 ms below the output, epochs of at most `records` records and no restarts.

    `settings` go before these, and those of the command line before all.
    """
    chosen = {
        "execution.engine": given.engine,
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": f"{given.output}/checkpoints",
        "execution.epoch.max-records": records,
        "restart-strategy.type": "none",
        **(settings or {}),
        **dict(given.settings),
    }
    return env_of(chosen, given.parallelism)
