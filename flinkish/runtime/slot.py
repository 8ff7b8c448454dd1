"""A task slot: runs all subtasks with one index, level by level. It does not depend on the engine that calls it."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import platform
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psutil

import flinkish
from flinkish.common import options, pickling, tracebacks
from flinkish.common.clock import Clock, SystemClock
from flinkish.common.closing import Unwinding, close_all, raised_by
from flinkish.common.ids import CheckpointId, IdSource, OperatorUid, random_id
from flinkish.common.process_usage import measure
from flinkish.graph.job_graph import JobVertex
from flinkish.runtime import faults
from flinkish.runtime.elements import Element, in_order
from flinkish.runtime.failing import failing
from flinkish.runtime.operators.base import EpochTime
from flinkish.runtime.protocol import (
    EpochCommand,
    EpochReport,
    Frame,
    LevelResult,
    TaskFailure,
    TaskProgram,
    native_edge,
)
from flinkish.runtime.state.backends import make_backend
from flinkish.runtime.state.level_state import LevelState
from flinkish.runtime.state.rows import RestoreRequest
from flinkish.runtime.task import VertexTask
from flinkish.runtime.uploads import Uploads, UploadThread

_log = logging.getLogger("flinkish.runtime.slot")

#: Number of allocations between two runs of the cyclic garbage collector. With Python's default of 700, joins and sessions, whose
#: state is many small dicts and lists without cycles, spent a third to a half of their time on it.
_GARBAGE_THRESHOLD = 100_000
#: Milliseconds between two measurements of what the process uses; each takes 0.2 to 0.5 ms.
_MEASURE_MS = 1_000


@contextlib.contextmanager
def _rare_garbage_collections() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(max(thresholds[0], _GARBAGE_THRESHOLD) if thresholds[0] else 0, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _restore_requests(vertex: JobVertex, subtask: int) -> Iterator[RestoreRequest]:
    for node in vertex.operators:
        yield RestoreRequest(
            uid=node.uid,
            subtask=subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            keyed=node.key_type is not None,
        )


class _LevelTask:
    """The vertices of one level in one slot, on one heap of state."""

    def __init__(
        self,
        program: TaskProgram,
        slot: int,
        level: int,
        command: EpochCommand,
        blob: bytes | None,
        clock: Clock,
        ids: IdSource,
        interrupted: threading.Event | None,
        uploads: Uploads,
        own_process: bool,
    ) -> None:
        plan = program.plan
        self.uploads = uploads
        self.state = LevelState(
            blob,
            attempt_id=program.attempt_id,
            slot=slot,
            level=level,
            scratch=program.scratch,
            disk=program.disk,
            own_process=own_process,
            ids=ids,
            backend=make_backend(program.configuration, len(plan.levels)),
        )
        self._slot = slot
        self._plan = plan
        self._time = EpochTime(processing_time=command.processing_time, steady=command.steady_time, interrupted=interrupted)
        members = [
            (plan.job_graph.vertices[vertex], subtask)
            for vertex in plan.levels[level]
            if (subtask := plan.subtask_in(vertex, slot)) is not None
        ]
        restored: CheckpointId | None = None
        if command.restore is not None and blob is None:
            restored = command.restore.checkpoint_id
            self.state.restore(command.restore, [request for member in members for request in _restore_requests(*member)])
        self.tasks = [
            VertexTask(
                program,
                vertex,
                subtask,
                self.state,
                self._time,
                clock,
                uploads,
                command.attempt_number,
                restored=restored,
                rebuilt=blob is not None,
            )
            for vertex, subtask in members
        ]

    def open(self) -> None:
        for task in self.tasks:
            task.open()

    def run(self, command: EpochCommand, frames: Sequence[Frame], *, notify: bool) -> tuple[list[Frame], bytes]:
        self._time.processing_time = command.processing_time
        self._time.steady = command.steady_time
        by_channel: defaultdict[tuple[int, int], list[Frame]] = defaultdict(list)
        sizes: defaultdict[int, int] = defaultdict(int)
        out: list[Frame] = []
        for frame in frames:
            by_channel[frame.edge, frame.channel].append(frame)
            sizes[frame.edge] += len(frame.body)
        inputs: dict[tuple[int, int], Sequence[Element | bytes]] = {
            address: in_order(channel_frames) for address, channel_frames in sorted(by_channel.items())
        }
        self.state.begin_epoch()
        self.uploads.begin_epoch(command.aborted_checkpoints)
        for task in self.tasks:
            edges = {native_edge(task.vertex.id), *(edge.id for edge in self._plan.job_graph.inputs(task.vertex.id))}
            task.run(command, {address: elements for address, elements in inputs.items() if address[0] in edges}, notify=notify)
            task.bytes_in = sum(sizes[edge] for edge in edges)
            sizes.update(task.local_bytes)
            inputs.update(task.local_elements())
            out.extend(task.frames())
        blob = self.state.end_epoch(command.epoch)
        self.uploads.end_epoch(waits=command.barrier is not None and command.barrier.waits)
        return out, blob

    def close(self) -> None:
        close_all([*self.tasks, self.uploads, self.state])


class SlotTask:
    """One slot in one attempt: keeps its levels' state and operators from epoch to epoch.

    Its state is a cache: if the given state differs from its own (its last try did not count, or the process is new), it discards
    its own and rebuilds from the given one. The state of level 0 comes with the command.
    """

    def __init__(
        self,
        program: TaskProgram,
        slot: int,
        *,
        clock: Clock | None = None,
        ids: IdSource = random_id,
        interrupted: threading.Event | None = None,
        uploads: UploadThread | None = None,
    ) -> None:
        """`uploads` writes snapshots while later epochs run; None = each epoch writes its own."""
        pickling.use_aliases(program.configuration.get(options.CLASS_ALIASES))
        self._interrupted = interrupted
        self._uploads = uploads
        self._program = program
        self._slot = slot
        self._clock = clock or SystemClock()
        self._ids = ids
        self._levels: dict[int, _LevelTask] = {}
        #: The last epoch in which each level was notified of checkpoints, so that a repeated epoch does not notify it again.
        self._notified: dict[int, int] = {}
        #: Sent with every report, because a report may get lost when a stage is repeated.
        self._process = _this_process()
        self._own = psutil.Process()
        #: When the process was measured last, in monotonic milliseconds.
        self._measured: int | None = None
        #: The result of each level in the last epoch of the job, because its operators can be closed only once.
        self._farewells: dict[int, LevelResult] = {}

    def run_level(self, level: int, command: EpochCommand, state: bytes | None, frames: Sequence[Frame] = ()) -> LevelResult:
        """Run one level for one epoch; `state` is the state from its last result (None at level 0), `frames` is its input.

        Errors of user code, sources and sinks are returned as `report.failure`, with the state unchanged; then the driver ends
        the attempt.
        """
        if level in self._farewells:
            return self._farewells[level]
        if level == 0:
            state = command.carry_over.get(self._slot)
        try:
            with _rare_garbage_collections():
                result = self._run(level, command, state, frames)
        except Unwinding:
            raise
        # Everything that user code raises is a failure, including sys.exit(), KeyboardInterrupt and panics of Rust libraries.
        except BaseException as error:
            failure = self._failure(level, error)
            self._discard(level)
            report = EpochReport(epoch=command.epoch, level=level, slot=self._slot, failure=failure, process=self._introduction())
            return LevelResult(frames=(), state=state or b"", report=report)
        if command.farewell:
            result = self._farewells[level] = self._say_farewell(level, result)
        return result

    def _say_farewell(self, level: int, result: LevelResult) -> LevelResult:
        """Close a level for good, and add the error of a close(), if any, to its result."""
        try:
            error = raised_by(self._levels[level].close)
            if error is None:
                return result
            failure = replace(self._failure(level, error), in_close=True)
            return replace(result, report=replace(result.report, failure=failure))
        finally:
            del self._levels[level]

    def _run(self, level: int, command: EpochCommand, state: bytes | None, frames: Sequence[Frame]) -> LevelResult:
        faults.reach(faults.Point.LEVEL_BEGINS)
        task = self._levels.get(level)
        if task is None or not task.state.matches(state):
            self._discard(level)
            # Level 0 may run on another executor in each epoch, where nobody would know of the upload; its state is small.
            uploads = Uploads(self._uploads if level > 0 else None, self._clock)
            task = _LevelTask(
                self._program,
                self._slot,
                level,
                command,
                state or None,
                self._clock,
                self._ids,
                self._interrupted,
                uploads,
                own_process=self._uploads is not None,
            )
            self._levels[level] = task
            task.open()
        notify = self._notified.get(level, -1) < command.epoch
        self._notified[level] = command.epoch
        out, blob = task.run(command, frames, notify=notify)
        faults.reach(faults.Point.LEVEL_RUN)
        report = self._report(level, command, task, blob)
        return LevelResult(frames=tuple(out), state=blob, report=report)

    def _report(self, level: int, command: EpochCommand, task: _LevelTask, blob: bytes) -> EpochReport:
        reports = [vertex_task.report for vertex_task in task.tasks]
        timers = [timer for vertex_task in task.tasks if (timer := vertex_task.next_timer()) is not None]
        return EpochReport(
            epoch=command.epoch,
            level=level,
            slot=self._slot,
            readers={address: reader for report in reports for address, reader in report.readers.items()},
            acknowledgements=tuple(task.uploads.acknowledgements),
            declines=tuple(task.uploads.declines),
            uploading=task.uploads.uploading,
            final_committables=tuple(final for report in reports for final in report.final_committables),
            driver_values=tuple(values for report in reports for values in report.driver_values),
            metrics=tuple(vertex_task.metrics() for vertex_task in task.tasks),
            released=max((report.released for report in reports), default=0),
            holds=any(report.holds for report in reports),
            closes=any(vertex_task.closes() for vertex_task in task.tasks),
            next_timer=min(timers, default=None),
            carry_over=blob if level == 0 else None,
            process=self._introduction(),
        )

    def _introduction(self) -> Mapping[str, Any]:
        """Return where this process runs, its versions, and what it uses, which is measured once a second."""
        now = self._clock.monotonic()
        if self._measured is None or now - self._measured >= _MEASURE_MS:
            self._measured = now
            with contextlib.suppress(psutil.Error):
                self._process = {**self._process, "usage": measure(self._own)}
        return self._process

    def _failure(self, level: int, error: BaseException) -> TaskFailure:
        task = self._levels.get(level)
        owners = {} if task is None else {operator: owner for owner in task.tasks for operator in owner.operators}
        found = failing(error)
        operator = next(iter(owners), None) if found.operator is None else found.operator
        owner = None if operator is None else owners.get(operator)
        # Level 0 has no vertex where the engine reads all sources.
        first_vertex = next(iter(self._program.plan.levels[level] or self._program.plan.job_graph.vertices))
        return TaskFailure(
            vertex=first_vertex if owner is None else owner.vertex.id,
            subtask=self._slot if owner is None else owner.subtask,
            operator_uid=operator.node.uid if operator is not None else OperatorUid(""),
            operator_name=operator.node.name if operator is not None else f"level {level}",
            traceback=tracebacks.full(error),
            shown=tracebacks.shown(error),
            at=found.at,
            made_at=operator.node.made_at if operator is not None else None,
            error=error if _pickles(error) else None,
        )

    def _discard(self, level: int) -> None:
        """Drop the operators of a level that is rebuilt or has failed; errors of closing them are logged."""
        task = self._levels.pop(level, None)
        if task is not None and (error := raised_by(task.close)) is not None:
            _log.warning("Slot %d, level %d: closing a user function failed.", self._slot, level, exc_info=error)

    def close(self) -> None:
        """Close all open operators; after the last epoch of a job that has ended, there are none.

        Raises the first error that a user's close() raised, after all were closed.
        """
        levels, self._levels = self._levels, {}
        close_all([*levels.values(), *([] if self._uploads is None else [self._uploads])])


def hosted(program: TaskProgram, slot: int) -> SlotTask:
    """Return a slot that has this process to itself."""
    # For the thread that uploads snapshots, as well.
    gc.set_threshold(_GARBAGE_THRESHOLD, *gc.get_threshold()[1:])
    return SlotTask(program, slot, uploads=UploadThread())


def _this_process() -> dict[str, Any]:
    """Return where this process runs, and its versions."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "cpus": os.cpu_count() or 1,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "flinkish": flinkish.__version__,
        "cloudpickle": pickling.CLOUDPICKLE_VERSION,
    }


def _pickles(error: BaseException) -> bool:
    try:
        pickling.loads(pickling.dumps(error))
    except Exception:
        return False
    return True
