"""The base of the operator harnesses: runs a piece of a program, planned and run as in a job, between inputs and outputs.

Each push is a separate epoch, unless several are combined by `with harness.epoch():`.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict

from flinkish.common import pickling
from flinkish.common.clock import ManualClock
from flinkish.common.columns import Columns
from flinkish.common.errors import CheckpointError, InvalidArgumentError, JobExecutionError
from flinkish.common.ids import AttemptId, CheckpointId, Epoch, LineageId, random_id
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.output_tag import OutputTag
from flinkish.engine.slots.in_process import run_levels
from flinkish.graph.job_graph import EdgeId
from flinkish.runtime.elements import CheckpointBarrier, Records, decode
from flinkish.runtime.partitioners import edge_writer
from flinkish.runtime.protocol import Barrier, EpochCommand, EpochReport, Frame, TaskFailure, TaskProgram
from flinkish.runtime.slot import SlotTask
from flinkish.testing import steps
from flinkish.testing.piece import Input, Piece
from flinkish.testing.results import HarnessSnapshot, OutputElement, StreamRecord

__all__ = ["PieceHarness"]


class HarnessOptions(TypedDict, total=False):
    """Options of the operator harnesses."""

    #: Side outputs to read, in addition to the main output.
    side_outputs: Iterable[OutputTag]
    #: Parallelism of the operators.
    parallelism: int
    #: Number of key groups.
    max_parallelism: int
    #: Configuration keys and values.
    settings: Mapping[str, Any] | None
    #: The checkpoint to start from.
    snapshot: HarnessSnapshot | None


class PieceHarness:
    """The base class of the operator harnesses."""

    def __init__(
        self,
        build: Callable[..., DataStream],
        input_types: Sequence[TypeInformation | None],
        *,
        side_outputs: Iterable[OutputTag] = (),
        parallelism: int = 1,
        max_parallelism: int = 128,
        settings: Mapping[str, Any] | None = None,
        snapshot: HarnessSnapshot | None = None,
    ) -> None:
        self._build = build
        self._types = input_types
        self._tags = tuple(side_outputs)
        self._max_parallelism = max_parallelism
        self._settings = dict(settings or {})
        self._start(parallelism, snapshot)

    def _start(self, parallelism: int, snapshot: HarnessSnapshot | None) -> None:
        """Start with new objects, from a checkpoint if there is one."""
        piece = Piece(self._build, self._types, self._tags, parallelism, self._max_parallelism, self._settings)
        self.parallelism = parallelism
        self._piece = piece
        self._folder = Path(tempfile.mkdtemp(prefix="flinkish-harness-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._processing_time = 0 if snapshot is None else snapshot.processing_time
        self._checkpoint_id = 0 if snapshot is None else int(snapshot.checkpoint_id)
        self._restore = None if snapshot is None else snapshot.unpack(self._folder / "restored")
        self._epoch = 0
        self._grouping = False
        self._failed = False
        self._outputs: dict[str | None, deque[OutputElement]] = {None: deque()} | {tag.tag_id: deque() for tag in self._tags}
        self._states: dict[tuple[int, int], bytes] = {}
        self._inputs = [
            Input([edge_writer(edge, piece.plan, 0) for edge in edges], type_info)
            for edges, type_info in zip(piece.input_edges, self._types, strict=True)
        ]
        self._attempt_id = AttemptId(f"harness-{random_id()}")
        self._slots = self._make_slots()
        self._begin()
        try:
            self._run()
        except BaseException:
            with suppress(Exception):
                self.close()
            raise

    def _make_slots(self) -> list[SlotTask]:
        program = TaskProgram(
            plan=self._piece.plan,
            configuration=self._piece.configuration,
            job_id="harness",
            lineage=LineageId("harness"),
            job_name="harness",
            attempt_id=self._attempt_id,
            scratch=self._folder / "scratch",
        )
        clock = ManualClock()
        # Each subtask has its own function objects, as on a cluster.
        return [SlotTask(own, slot, clock=clock) for slot, own in enumerate(pickling.copies(program, self._piece.plan.slots))]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(Exception):
                self.close()

    def close(self) -> None:
        """Close the user functions and remove the temporary folder. Raises the error of a function's close()."""
        slots, self._slots = self._slots, []
        try:
            for slot in slots:
                slot.close()
        finally:
            self._finalizer()

    def lose_heap(self) -> None:
        """Discard all objects of the tasks, as if their processes died; the next push rebuilds them from the change log."""
        for slot in self._slots:
            with suppress(Exception):
                slot.close()
        self._slots = self._make_slots()

    def restored(self, snapshot: HarnessSnapshot, *, parallelism: int | None = None) -> Self:
        """Return a harness of the same piece that starts from a checkpoint, at this or another parallelism."""
        harness = copy.copy(self)
        harness._start(self.parallelism if parallelism is None else parallelism, snapshot)
        return harness

    def restart(self, *, parallelism: int | None = None) -> None:
        """Take a checkpoint, close all functions and continue from it with new ones, at this or another parallelism.

        Output that has not been taken is kept.
        """
        snapshot = self.snapshot()
        outputs = self._outputs
        self.close()
        self._start(self.parallelism if parallelism is None else parallelism, snapshot)
        for name, elements in self._outputs.items():
            elements.extendleft(reversed(outputs[name]))

    @property
    def processing_time(self) -> int:
        """Processing time in milliseconds; 0 at first."""
        return self._processing_time

    def set_processing_time(self, time: int) -> None:
        """Move processing time forward, to milliseconds; timers that are due fire."""
        if time < self._processing_time:
            raise InvalidArgumentError(f"processing time cannot go back from {self._processing_time} to {time}")
        if self._grouping:
            raise InvalidArgumentError("processing time stands still within an epoch", hint="set it before or after it.")
        self._processing_time = time
        self._run()

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """Combine all pushes within the `with` block into one epoch, which runs at the end of the block.

        Records are processed in the order in which they were pushed, but the input with the lower watermark comes first.
        """
        if self._grouping:
            raise InvalidArgumentError("epochs cannot be nested")
        self._grouping = True
        try:
            yield
        finally:
            self._grouping = False
        self._run()

    def _push(self, step: steps.InputStep, *indexes: int) -> None:
        """Push something into some of the inputs, in one epoch."""
        for index in indexes:
            self._inputs[index].do(step)
        self._pushed()

    def _pushed(self) -> None:
        if not self._grouping:
            self._run()

    def take_output(self, tag: OutputTag | None = None) -> list[StreamRecord]:
        """Return the records of the main output, or of a side output, since the last call, with event times.

        Records of one subtask are in its order; those of several subtasks follow one another.
        """
        return [element for element in self.take_elements(tag) if isinstance(element, StreamRecord)]

    def take_values(self, tag: OutputTag | None = None) -> list[Any]:
        """Return the records like `take_output`, without event times."""
        return [record.value for record in self.take_output(tag)]

    def take_elements(self, tag: OutputTag | None = None) -> list[OutputElement]:
        """Return records, watermarks, idleness and end like `take_output`, in order."""
        name = None if tag is None else tag.tag_id
        if name not in self._outputs:
            raise InvalidArgumentError(
                f"side output {name!r} is not read", hint="name it when the harness is made: side_outputs=[tag]."
            )
        elements = list(self._outputs[name])
        self._outputs[name].clear()
        return elements

    def snapshot(self) -> HarnessSnapshot:
        """Take a checkpoint of all operators, which then continue."""
        if self._grouping:
            raise InvalidArgumentError("a checkpoint cannot be taken while an epoch is put together", hint="take it after it.")
        self._checkpoint_id += 1
        root = self._folder / "checkpoints"
        root.mkdir(exist_ok=True)
        barrier = Barrier(
            checkpoint_id=CheckpointId(self._checkpoint_id),
            timestamp=self._processing_time,
            directory=str(root / "files"),
            root=str(root),
        )
        reports = self._run(barrier)
        for report in reports:
            for decline in report.declines:
                raise CheckpointError(f"checkpoint {barrier.checkpoint_id} was declined: {decline.reason}")
        acknowledgements = [ack for report in reports for ack in report.acknowledgements]
        missing = self._piece.subtasks - {(ack.vertex, ack.subtask) for ack in acknowledgements}
        if missing:
            raise CheckpointError(f"checkpoint {barrier.checkpoint_id} was not acknowledged by {sorted(missing)}")
        files = tuple(file for ack in acknowledgements for file in ack.files)
        contents = {file.path: (root / file.path).read_bytes() for file in files}
        shutil.rmtree(root, ignore_errors=True)
        return HarnessSnapshot(
            checkpoint_id=barrier.checkpoint_id,
            processing_time=self._processing_time,
            files=files,
            contents=contents,
            parallelism=self._piece.parallelism,
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the operators of a completed checkpoint."""
        self._run(completed=(CheckpointId(checkpoint_id),))

    def play(self, script: Iterable[steps.Step], sources: Sequence[str] | None = None) -> None:
        """Play the steps in order.

        `sources` are the names by which the steps call the inputs, in their order; with one input any name will do. Raises
        InvalidArgumentError for a step that only whole jobs know.
        """
        for step in script:
            match step:
                case steps.Settle():
                    self._pushed()
                case steps.Advance(milliseconds=milliseconds):
                    self.set_processing_time(self._processing_time + milliseconds)
                case steps.TakeCheckpoint():
                    self.notify_checkpoint_complete(int(self.snapshot().checkpoint_id))
                case steps.Restart(parallelism=parallelism):
                    self.restart(parallelism=parallelism)
                case steps.LoseHeap():
                    self.lose_heap()
                case steps.Pause() | steps.Fail() | steps.Crash():
                    text = f"{step!r} is a step for a JobHarness"
                    raise InvalidArgumentError(text, hint="an operator has no source and no driver.")
                case _:
                    self._push(step, self._input_of(step, sources))

    def _input_of(self, step: steps.InputStep, sources: Sequence[str] | None) -> int:
        if step.split:
            raise InvalidArgumentError(f"{step!r}: the input of an operator has no splits")
        if len(self._inputs) == 1:
            return 0
        if sources is None or step.source not in sources:
            raise InvalidArgumentError(
                f"{step!r}: which input is {step.source!r}?", hint='name the inputs in their order: sources=["left", "right"].'
            )
        return sources.index(step.source)

    def _begin(self) -> None:
        for given in self._inputs:
            for writer in given.writers:
                writer.begin_epoch(self._epoch)

    def _run(self, barrier: Barrier | None = None, completed: tuple[CheckpointId, ...] = ()) -> list[EpochReport]:
        """Run the levels of one epoch on the pushed elements, as the local engine does."""
        if not self._slots:
            raise InvalidArgumentError("the harness is closed")
        if self._failed:
            raise InvalidArgumentError("the operator has failed before", hint="go on with restored(), from a snapshot.")
        command = EpochCommand(
            attempt_id=self._attempt_id,
            attempt_number=0,
            epoch=Epoch(self._epoch),
            processing_time=self._processing_time,
            steady_time=self._processing_time,
            barrier=barrier,
            completed_checkpoints=completed,
            restore=self._restore if self._epoch == 0 else None,
        )
        given_frames: list[Frame] = []
        for given in self._inputs:
            for writer in given.writers:
                if barrier is not None:
                    writer.barrier(barrier)
                given_frames.extend(writer.frames())
        self._epoch += 1
        self._begin()
        leaving_edges = self._piece.output_edges
        results = run_levels(self._slots, self._piece.levels, command, self._states, frames=given_frames, leaving=leaving_edges)
        reports: list[EpochReport] = []
        leaving: dict[tuple[EdgeId, int], list[Frame]] = {}
        for result in results:
            if result.report.failure is not None:
                self._failed = True
                raise _error(result.report.failure)
            reports.append(result.report)
            for frame in result.frames:
                if EdgeId(frame.edge) in self._piece.output_edges:
                    leaving.setdefault((EdgeId(frame.edge), frame.channel), []).append(frame)
        for (edge, _), frames in sorted(leaving.items()):
            self._outputs[self._piece.output_edges[edge]].extend(_elements(frames))
        return reports


def _elements(frames: Sequence[Frame]) -> Iterator[OutputElement]:
    for element in decode(frames):
        match element:
            case Records(values, timestamps, _):
                yield from map(StreamRecord, values, timestamps if timestamps is not None else [None] * len(values))
            case Columns():
                yield from map(StreamRecord, element.records(), element.times() or [None] * len(element))
            case CheckpointBarrier():
                pass
            case _:
                yield element


def _error(failure: TaskFailure) -> BaseException:
    """Return the operator's exception, or an error with its traceback if the exception could not be pickled."""
    if failure.error is not None:
        return failure.error
    return JobExecutionError(f"operator {failure.operator_name!r} failed:\n{failure.traceback}")
