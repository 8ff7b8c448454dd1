"""The local engine: all slots in this process, level by level, in order. Needs no Java and is deterministic."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from flinkish.common import pickling
from flinkish.common.clock import Clock
from flinkish.common.closing import close_all, raised_by
from flinkish.common.configuration import Configuration
from flinkish.common.ids import IdSource
from flinkish.engine import dependencies
from flinkish.engine.scratch import DiskFolder, temporary_folder
from flinkish.engine.slots.in_process import run_levels
from flinkish.jobmaster.epochs import EpochLoop
from flinkish.runtime.failing import working
from flinkish.runtime.protocol import TaskProgram
from flinkish.runtime.slot import SlotTask

_log = logging.getLogger("flinkish.engine.local")


class LocalEngine:
    """Runs the same slots as the Spark engine, one after the other; its only setting is io.tmp.dirs."""

    def __init__(self, configuration: Configuration, *, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids
        self._scratch = DiskFolder(temporary_folder(configuration), "flinkish-local")
        self._interrupted = threading.Event()
        #: The thread that runs the attempt.
        self._thread: int | None = None

    def scratch_root(self) -> Path:
        """Return a folder of this engine; the first call creates it, which may raise EngineError."""
        return self._scratch.path()

    def run_attempt(self, program: TaskProgram, loop: EpochLoop) -> None:
        self._thread = threading.get_ident()
        plan = program.plan
        program.scratch.mkdir(parents=True, exist_ok=True)
        folder = dependencies.stage(program.dependencies, program.scratch, copy=False)
        # Each slot has its own function objects, as on a cluster.
        programs = pickling.copies(program, plan.slots)
        interrupted = self._interrupted
        slots = [
            SlotTask(own, slot, clock=self._clock, ids=self._ids, interrupted=interrupted) for slot, own in enumerate(programs)
        ]
        levels = range(len(plan.levels))
        states: dict[tuple[int, int], bytes] = {}
        try:
            while (command := loop.begin_epoch()) is not None:
                with dependencies.working_folder(folder):
                    reports = [result.report for result in run_levels(slots, levels, command, states)]
                loop.finish_epoch(reports)
        finally:
            # After a normal end everything is already closed. After a failure or cancellation, errors of close() are only logged.
            try:
                if (error := raised_by(_close, slots, folder)) is not None:
                    _log.warning("Closing a user function of job %s failed.", program.job_name, exc_info=error)
            finally:
                program.remove_folders()

    def busy_operators(self) -> Sequence[str]:
        """Return the name of the operator on the stack of the attempt's thread."""
        operator = working(sys._current_frames().get(self._thread or 0))
        return () if operator is None else (operator.node.name,)

    def interrupt(self) -> None:
        """End the epoch at points where flinkish itself may take long; user code runs in this process and is not stopped."""
        self._interrupted.set()

    def close(self) -> None:
        """Remove the folder."""
        self._scratch.remove()


def _close(slots: list[SlotTask], folder: Path | None) -> None:
    with dependencies.working_folder(folder):
        close_all(slots)
