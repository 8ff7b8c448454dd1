"""Settings of jobs that fail on purpose and are restarted."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def restarting(attempts: int, delay: str | int) -> dict[str, Any]:
    """Return the settings of a job that is restarted this many times, each time after a delay (int: ms)."""
    return {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": attempts,
        "restart-strategy.fixed-delay.delay": delay,
    }


def recovering(folder: Path, records: int, **settings: Any) -> dict[str, Any]:
    """Return the settings of a job that takes many checkpoints below a folder, and is restarted from them three times.

    `records`: maximum number of records of an epoch; `settings`: others, by their keys.
    """
    return {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": folder / "checkpoints",
        "execution.epoch.max-records": records,
        **restarting(3, "10 ms"),
        **settings,
    }
