"""The interface between the JobMaster, which commands epochs, and the engines, which run them."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import flinkish
from flinkish.common import pickling
from flinkish.common.errors import EngineError
from flinkish.common.ids import OperatorUid
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.runtime.protocol import EpochCommand, EpochReport, TaskProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class NativePosition:
    """The position of a source that the engine reads, in the form of the engine's own log."""

    #: On Spark, the offset of each streaming source of the DataFrame as JSON, in the order of its plan; None before the first.
    offsets: tuple[str | None, ...]
    #: Returns additional files that the engine needs, by name; it is called only while no epoch runs.
    files: Callable[[], Mapping[str, bytes]]


class EpochLoop(Protocol):
    """The JobMaster, as an engine sees it. Both calls come from one thread, in turn."""

    @property
    def over(self) -> bool:
        """Whether there will be no further epoch, so that an engine that is not ready need not prepare one."""

    def begin_epoch(self) -> EpochCommand | None:
        """Block until there is an epoch to run and return its command; None = end the attempt without another action."""

    def finish_epoch(self, reports: Sequence[EpochReport]) -> None:
        """Process the reports of all (level, slot) of the epoch begun last."""

    # For engines that read sources themselves (NativeSource).

    def native_starts(self) -> Mapping[OperatorUid, NativePosition]:
        """Return the positions from which an attempt reads such sources; a source without one is read from its beginning."""

    def native_reads(self, positions: Mapping[OperatorUid, NativePosition]) -> None:
        """Take the positions up to which the next epoch reads; called before `begin_epoch`, in the same thread."""

    def native_arrived(self) -> None:
        """Take notice that there is more to read, so that the next epoch runs. May be called from any thread."""


class Engine(Protocol):
    """Runs epochs: the local engine in this process, the Spark engine as one streaming query."""

    def run_attempt(self, program: TaskProgram, loop: EpochLoop) -> None:
        """Run epochs until the loop ends.

        Raises EngineError if it has lost resources, such as processes, that it cannot replace by itself. Errors of user code are
        reported as `EpochReport.failure` instead. No query, process or folder of the attempt is left when it returns.
        """

    def busy_operators(self) -> Sequence[str]:
        """Return the names of the operators that the running epoch is in, as far as the engine knows them; from any thread."""

    def interrupt(self) -> None:
        """Make the running epoch end soon, either early or with an error of `run_attempt`; called by another thread."""

    def scratch_root(self) -> Path:
        """Return the folder below which attempts get their scratch folders."""

    def close(self) -> None:
        """Release resources that outlive attempts, such as a Spark session that the engine created itself."""


def check_complete(plan: ExecutionPlan, command: EpochCommand, reports: Sequence[EpochReport]) -> None:
    """Raise EngineError if a report is missing. Spark's own check (of state commits) is off, for a clean stop."""
    expected = {(level, slot) for level in range(len(plan.levels)) for slot in range(plan.slots)}
    got = {(report.level, report.slot) for report in reports if report.epoch == command.epoch}
    if got != expected or len(reports) != len(expected):
        raise EngineError(
            f"epoch {command.epoch} of attempt {command.attempt_number}: {len(reports)} reports came back, expected one of each "
            f"of {len(expected)} (level, slot); missing: {sorted(expected - got)}"
        )
    for report in reports:
        if report.process:
            _check_versions(report)


def _check_versions(report: EpochReport) -> None:
    """Raise if a slot host's versions differ from the driver's, because they exchange pickled objects."""
    minor = ".".join(platform.python_version().split(".")[:2])
    for name, ours in (("python", minor), ("flinkish", flinkish.__version__), ("cloudpickle", pickling.CLOUDPICKLE_VERSION)):
        theirs = report.process.get(name)
        if theirs is not None and theirs != ours and not str(theirs).startswith(f"{ours}."):
            raise EngineError(
                f"slot {report.slot} runs {name} {theirs}, the driver {ours}",
                hint="driver and executors must have the same versions; set PYSPARK_PYTHON, or send one environment to all.",
            )
