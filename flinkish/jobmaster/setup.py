"""The settings with which a JobMaster is started."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from flinkish.checkpoint.checkpoint_settings import CheckpointSettings
from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.engines import ENGINES
from flinkish.common.ids import LineageId
from flinkish.common.limits import INT_MAX
from flinkish.graph.columns import calls_nothing
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.runtime_mode import is_batch
from flinkish.jobmaster.admission import COLUMNS_PROBE_CREDIT, PROBE_CREDIT, AdmissionSettings
from flinkish.jobmaster.latency import Granularity, LatencySettings
from flinkish.jobmaster.restart_strategies import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartConfig
from flinkish.program.dead_letters import DeadLetterTable
from flinkish.runtime.protocol import NO_DEPENDENCIES, Dependencies

_log = logging.getLogger("flinkish.jobmaster")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetup:
    """A job's plan and its settings, which are read from the configuration once. Durations are in milliseconds."""

    plan: ExecutionPlan
    configuration: Configuration
    job_id: str
    lineage: LineageId
    job_name: str
    checkpoints: CheckpointSettings
    restart: RestartConfig
    admission: AdmissionSettings
    poll_interval: int
    #: Longest time between two epochs; None = no limit.
    idle_interval: int | None
    #: Time between two progress lines; None = no lines.
    progress_interval: int | None = None
    #: How latencies are measured; None = they are not.
    latency: LatencySettings | None = None
    #: How many failures are kept in memory, for people.
    exception_history: int = 16
    #: Whether errors show the frames of flinkish, too.
    full_traceback: bool = False
    #: Files that user functions need, and the interpreter that runs them; see TaskProgram.
    dependencies: Dependencies = NO_DEPENDENCIES
    python_executable: str | None = None
    #: Folder on disk that all tasks can access; see TaskProgram.
    disk: Path | None = None
    #: Commits dead letters, even if a checkpoint contains some and the job keeps none now; None in programs of tests.
    dead_letters: DeadLetterTable | None = None

    @property
    def keeps_dead_letters(self) -> bool:
        return self.dead_letters is not None and self.configuration.contains(options.DEAD_LETTERS_DIR)

    @property
    def checkpointing(self) -> bool:
        """Whether checkpoints are taken periodically."""
        return self.checkpoints.interval is not None

    @property
    def results_at_end(self) -> bool:
        """Whether results are handed out only when the job has finished: a batch job that may restart from the beginning."""
        return is_batch(self.configuration) and not isinstance(self.restart, NoRestart)


def job_setup(
    plan: ExecutionPlan,
    configuration: Configuration,
    job_id: str,
    lineage: LineageId,
    dependencies: Dependencies = NO_DEPENDENCIES,
    disk: Path | None = None,
    dead_letters: DeadLetterTable | None = None,
) -> JobSetup:
    """Read all settings of a job. Raises ConfigurationError for a malformed value."""
    checkpoints = CheckpointSettings.from_configuration(configuration)
    engine = ENGINES[configuration.get(options.ENGINE)]
    return JobSetup(
        plan=plan,
        configuration=configuration,
        full_traceback=configuration.get(options.FULL_TRACEBACK),
        job_id=job_id,
        lineage=lineage,
        job_name=plan.job_graph.job_name,
        checkpoints=checkpoints,
        restart=restart_config(configuration, checkpointing=checkpoints.interval is not None),
        admission=AdmissionSettings(
            target_duration=configuration.get(options.EPOCH_TARGET_DURATION),
            max_records=configuration.get(options.EPOCH_MAX_RECORDS),
            max_bytes=configuration.get(options.EPOCH_MAX_BYTES),
            probe=COLUMNS_PROBE_CREDIT if calls_nothing(plan.job_graph, batch=is_batch(configuration)) else PROBE_CREDIT,
        ),
        poll_interval=configuration.get(options.EPOCH_POLL_INTERVAL),
        idle_interval=None if engine.idle_limit is None else configuration.get(options.EPOCH_IDLE_INTERVAL),
        progress_interval=configuration.get(options.PROGRESS_INTERVAL) or None,
        latency=_latency(configuration),
        exception_history=configuration.get(options.WEB_EXCEPTION_HISTORY_SIZE),
        dependencies=dependencies,
        python_executable=configuration.get(options.PYTHON_EXECUTABLE),
        disk=disk,
        dead_letters=dead_letters,
    )


def _latency(configuration: Configuration) -> LatencySettings | None:
    interval = configuration.get(options.LATENCY_INTERVAL)
    if interval <= 0:
        return None
    return LatencySettings(
        interval=interval,
        granularity=Granularity(configuration.get(options.LATENCY_GRANULARITY)),
        history_size=configuration.get(options.LATENCY_HISTORY_SIZE),
    )


def effective_configuration(configuration: Configuration) -> Configuration:
    """Return the configuration that tasks see: it has no checkpoint interval if no checkpoints are taken.

    That is so for an interval below 1 ms, and in batch mode (the mode has already been decided).
    """
    effective = Configuration(configuration)
    interval = effective.get(options.CHECKPOINTING_INTERVAL)
    if interval is not None and (interval < 1 or is_batch(effective)):
        if interval >= 1:
            _log.info("The job runs in batch mode: no checkpoints are taken.")
        for key in (options.CHECKPOINTING_INTERVAL.key, *options.CHECKPOINTING_INTERVAL.fallback_keys):
            effective.remove_config(key)
    return effective


def restart_config(configuration: Configuration, *, checkpointing: bool) -> RestartConfig:
    """Read the restart strategy; the default is exponential-delay with checkpoints, and none without, as in Flink 2."""
    match configuration.get(options.RESTART_STRATEGY) or ("exponential-delay" if checkpointing else "none"):
        case "none":
            return NoRestart()
        case "fixed-delay":
            return FixedDelay(
                attempts=configuration.get(options.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS),
                delay=configuration.get(options.RESTART_STRATEGY_FIXED_DELAY_DELAY),
            )
        case "failure-rate":
            return FailureRate(
                max_failures_per_interval=configuration.get(options.RESTART_STRATEGY_FAILURE_RATE_MAX_FAILURES_PER_INTERVAL),
                interval=configuration.get(options.RESTART_STRATEGY_FAILURE_RATE_FAILURE_RATE_INTERVAL),
                delay=configuration.get(options.RESTART_STRATEGY_FAILURE_RATE_DELAY),
            )
        case "exponential-delay":
            attempts = configuration.get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_ATTEMPTS)
            return ExponentialDelay(
                initial_backoff=configuration.get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_INITIAL_BACKOFF),
                max_backoff=configuration.get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_MAX_BACKOFF),
                backoff_multiplier=configuration.get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER),
                reset_backoff_threshold=configuration.get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD),
                jitter_factor=configuration.get(options.RESTART_STRATEGY_EXPONENTIAL_DELAY_JITTER_FACTOR),
                attempts=None if attempts >= INT_MAX else attempts,  # the default: no limit
            )
        case other:
            raise AssertionError(f"unknown restart strategy {other!r}")
