"""The settings of the checkpoint coordinator; they are checked when they are created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from flinkish.common import options
from flinkish.common.errors import ConfigurationError

if TYPE_CHECKING:
    from flinkish.common.configuration import Configuration

#: Flink refuses shorter intervals and timeouts, which usually come from a wrong unit.
MINIMAL_DURATION_MS = 10


class CheckpointingMode(Enum):
    """The guarantee for state after a restart."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class Retention(Enum):
    """Whether a job's checkpoints are kept when it ends; Flink's ExternalizedCheckpointRetention."""

    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"


class JobEnd(Enum):
    """How a job ended for good."""

    FINISHED = "finished"
    CANCELED = "canceled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """How and when to take checkpoints; durations are in milliseconds. Names and defaults are those of Flink's options."""

    #: execution.checkpointing.interval; None = no periodic checkpoints, but savepoints are possible.
    interval: int | None = None
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    timeout: int = 600_000
    #: Time that must pass after a completion before the next periodic checkpoint; implies at most one at a time.
    min_pause: int = 0
    max_concurrent: int = 1
    #: execution.checkpointing.asynchronous: whether slots may write state files after the epoch of the barrier.
    asynchronous: bool = True
    #: execution.checkpointing.incremental: whether checkpoints may contain files of earlier ones.
    incremental: bool = False
    #: How many checkpoints in a row may fail; -1 = no limit.
    tolerable_failures: int = 0
    retention: Retention = Retention.NO_EXTERNALIZED_CHECKPOINTS
    num_retained: int = 1
    savepoint_directory: str | None = None
    #: Maximum number of waiting requests; if there are more, the least important is dropped.
    max_queued: int = 1_000
    #: web.checkpoints.history: how many past checkpoints are kept in memory, for people.
    history: int = 10

    def __post_init__(self) -> None:
        _check("execution.checkpointing.interval", self.interval, MINIMAL_DURATION_MS, optional=True)
        _check("execution.checkpointing.timeout", self.timeout, MINIMAL_DURATION_MS)
        _check("execution.checkpointing.min-pause", self.min_pause, 0)
        _check("execution.checkpointing.max-concurrent-checkpoints", self.max_concurrent, 1)
        _check("execution.checkpointing.tolerable-failed-checkpoints", self.tolerable_failures, -1)
        _check("execution.checkpointing.num-retained", self.num_retained, 1)

    @staticmethod
    def from_configuration(configuration: Configuration) -> CheckpointSettings:
        """Read the execution.checkpointing options; an interval below 1 ms means no periodic checkpoints, as in Flink."""
        interval = configuration.get(options.CHECKPOINTING_INTERVAL)
        return CheckpointSettings(
            interval=interval if interval is not None and interval >= 1 else None,
            mode=CheckpointingMode(configuration.get(options.CHECKPOINTING_CONSISTENCY_MODE)),
            timeout=configuration.get(options.CHECKPOINTING_TIMEOUT),
            min_pause=configuration.get(options.MIN_PAUSE_BETWEEN_CHECKPOINTS),
            max_concurrent=configuration.get(options.MAX_CONCURRENT_CHECKPOINTS),
            asynchronous=configuration.get(options.ASYNCHRONOUS_CHECKPOINTS),
            incremental=configuration.get(options.INCREMENTAL_CHECKPOINTS),
            tolerable_failures=configuration.get(options.TOLERABLE_FAILURE_NUMBER),
            retention=Retention(configuration.get(options.EXTERNALIZED_CHECKPOINT_RETENTION)),
            num_retained=configuration.get(options.MAX_RETAINED_CHECKPOINTS),
            savepoint_directory=configuration.get(options.SAVEPOINT_DIRECTORY),
            history=configuration.get(options.WEB_CHECKPOINTS_HISTORY),
        )

    @property
    def effective_interval(self) -> int | None:
        """The interval, but at least the minimum pause between two checkpoints."""
        return None if self.interval is None else max(self.interval, self.min_pause)

    @property
    def effective_max_concurrent(self) -> int:
        """The maximum of concurrent checkpoints; 1 if there is a minimum pause, which has precedence as in Flink."""
        return 1 if self.min_pause > 0 else self.max_concurrent


def _check(key: str, value: int | None, least: int, *, optional: bool = False) -> None:
    if (value is None and optional) or (isinstance(value, int) and value >= least):
        return
    raise ConfigurationError(f"{key} = {value!r}: expected a number of at least {least}", hint="durations are in milliseconds.")


#: For each retention, the ends after which a job's checkpoints are deleted. Source: Flink's CheckpointProperties. A savepoint is
#: never deleted, and a killed driver deletes nothing.
_DELETED_AFTER: Mapping[Retention, frozenset[JobEnd]] = {
    Retention.NO_EXTERNALIZED_CHECKPOINTS: frozenset({JobEnd.FINISHED, JobEnd.CANCELED, JobEnd.FAILED}),
    Retention.DELETE_ON_CANCELLATION: frozenset({JobEnd.FINISHED, JobEnd.CANCELED}),
    Retention.RETAIN_ON_CANCELLATION: frozenset({JobEnd.FINISHED}),
}


def deletes_checkpoints(retention: Retention, end: JobEnd) -> bool:
    """Tell whether the checkpoints of a job are deleted when it ends in this way."""
    return end in _DELETED_AFTER[retention]
