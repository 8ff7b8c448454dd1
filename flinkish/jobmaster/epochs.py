"""The seam between the JobMaster and the engines: who says what an epoch does, and who runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from flinkish.runtime.protocol import EpochCommand, EpochReport, TaskProgram


class EpochLoop(Protocol):
    """The JobMaster, as an engine sees it. Both calls come from one thread, in turn."""

    def begin_epoch(self) -> EpochCommand | None:
        """Block until there is something to do and return it; None: end the attempt, without another action."""
        ...

    def finish_epoch(self, reports: Sequence[EpochReport]) -> None:
        """Take the reports of all (level, slot) of the epoch begun last."""
        ...


class Engine(Protocol):
    """Runs epochs: the local engine in this process, the Spark engine as one streaming query."""

    def run_attempt(self, program: TaskProgram, loop: EpochLoop) -> None:
        """Run epochs until the loop ends.

        Raises EngineError if what it runs on is lost beyond what it repairs by itself; errors of user code come as
        `EpochReport.failure` instead. Leaves nothing behind: no query, process or folder of the attempt.
        """
        ...

    def interrupt(self) -> None:
        """Make an epoch that is running now end soon, by an error of `run_attempt` or early; called by another thread."""
        ...

    def scratch_root(self) -> Path:
        """Return the folder below which attempts get their scratch folders."""
        ...

    def close(self) -> None:
        """Release what is held beyond attempts, such as a Spark session that the engine made itself."""
        ...
