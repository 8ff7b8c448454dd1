"""Operators under test: a piece of a program between inputs that the test pushes into and outputs that it reads.

The piece is built by the fluent API, laid out by `flinkish.graph` and run by `flinkish.runtime`'s slots, all as in a job. Only
what is around it differs: instead of sources the test makes the frames that lead into it, and what leaves it goes to the test
instead of to sinks. Each push is an epoch of its own, unless several are put into `with harness.epoch():`.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from flinkish.common import pickling
from flinkish.common.clock import ManualClock
from flinkish.common.errors import CheckpointError, InvalidArgumentError, JobExecutionError
from flinkish.common.ids import AttemptId, CheckpointId, Epoch, random_id
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.output_tag import OutputTag
from flinkish.graph.job_graph import EdgeId
from flinkish.runtime.channels import decode, edge_writer
from flinkish.runtime.elements import CheckpointBarrier, EndOfInput, LatencyMarker, Records, Watermark, WatermarkStatus
from flinkish.runtime.protocol import Barrier, EpochCommand, EpochReport, Frame, TaskFailure, TaskProgram
from flinkish.runtime.slot import SlotTask
from flinkish.testing.piece import Input, Piece
from flinkish.testing.snapshots import HarnessSnapshot

__all__ = ["OneInputHarness", "OutputElement", "StreamRecord", "TwoInputHarness"]


class StreamRecord(NamedTuple):
    """A record with its event time in milliseconds; None if it has none."""

    value: Any
    timestamp: int | None = None


#: What comes out of the piece, in order.
OutputElement = StreamRecord | Watermark | WatermarkStatus | EndOfInput


class _Harness:
    """What harnesses have in common."""

    def __init__(
        self,
        build: Callable[..., DataStream],
        input_types: Sequence[TypeInformation | None],
        side_outputs: Iterable[OutputTag],
        parallelism: int,
        max_parallelism: int,
        settings: Mapping[str, Any] | None,
        snapshot: HarnessSnapshot | None,
    ) -> None:
        tags = tuple(side_outputs)
        piece = Piece(build, input_types, tags, parallelism, max_parallelism, settings or {})
        self.parallelism = parallelism
        self._piece = piece
        self._tags = tags
        self._folder = Path(tempfile.mkdtemp(prefix="flinkish-harness-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._processing_time = 0 if snapshot is None else snapshot.processing_time
        self._checkpoint_id = 0 if snapshot is None else int(snapshot.checkpoint_id)
        self._restore = None if snapshot is None else snapshot.unpack(self._folder / "restored")
        self._epoch = 0
        self._grouping = False
        self._failed = False
        self._outputs: dict[str | None, deque[OutputElement]] = {None: deque()} | {tag.tag_id: deque() for tag in tags}
        self._blobs: dict[tuple[int, int], bytes] = {}
        self._inputs = [
            Input([edge_writer(edge, piece.plan, 0) for edge in edges], type_info)
            for edges, type_info in zip(piece.input_edges, input_types, strict=True)
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
            job_name="harness",
            attempt_id=self._attempt_id,
            scratch=self._folder / "scratch",
        )
        clock = ManualClock()
        # Each subtask has function objects of its own, as it has on a cluster.
        return [SlotTask(own, slot, clock=clock) for slot, own in enumerate(pickling.copies(program, self._piece.plan.slots))]

    # -- life ----------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(Exception):
                self.close()

    def close(self) -> None:
        """Close the user functions and remove the temporary folder. Raises what close() of a function raises."""
        slots, self._slots = self._slots, []
        try:
            for slot in slots:
                slot.close()
        finally:
            self._finalizer()

    def lose_heap(self) -> None:
        """Throw away all objects of the tasks, as when their processes die; the next push rebuilds them from the change log."""
        for slot in self._slots:
            with suppress(Exception):
                slot.close()
        self._slots = self._make_slots()

    # -- time ----------------------------------------------------------------------------------------------------------------

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
        """Put all that is pushed within the `with` into one epoch: it is handled when that ends.

        Records are handled in the order in which they were pushed, but of several inputs the one with the lower watermark first.
        """
        if self._grouping:
            raise InvalidArgumentError("epochs cannot be nested")
        self._grouping = True
        try:
            yield
        finally:
            self._grouping = False
        self._run()

    def _pushed(self) -> None:
        if not self._grouping:
            self._run()

    # -- outputs -------------------------------------------------------------------------------------------------------------

    def take_output(self, tag: OutputTag | None = None) -> list[StreamRecord]:
        """Return the records of the main output, or of a side output, since they were taken last; with event times.

        Records of one subtask come in its order, those of several subtasks after one another.
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

    # -- checkpoints ---------------------------------------------------------------------------------------------------------

    def snapshot(self) -> HarnessSnapshot:
        """Take a checkpoint of all operators; they go on."""
        if self._grouping:
            raise InvalidArgumentError("a checkpoint cannot be taken while an epoch is put together", hint="take it after it.")
        self._checkpoint_id += 1
        root = self._folder / "checkpoints"
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
        """Tell the operators that a checkpoint is complete."""
        self._run(completed=(CheckpointId(checkpoint_id),))

    # -- epochs --------------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        for given in self._inputs:
            for writer in given.writers:
                writer.begin_epoch(self._epoch)

    def _run(self, barrier: Barrier | None = None, completed: tuple[CheckpointId, ...] = ()) -> list[EpochReport]:
        """Run the levels of one epoch on what was pushed, as the local engine does."""
        if not self._slots:
            raise InvalidArgumentError("the harness is closed")
        if self._failed:
            raise InvalidArgumentError("the operator has failed before", hint="go on with restored(), from a snapshot.")
        command = EpochCommand(
            attempt_id=self._attempt_id,
            attempt_number=0,
            epoch=Epoch(self._epoch),
            processing_time=self._processing_time,
            barrier=barrier,
            completed_checkpoints=completed,
            restore=self._restore if self._epoch == 0 else None,
        )
        waiting: list[list[Frame]] = [[] for _ in self._slots]
        for given in self._inputs:
            for writer in given.writers:
                if barrier is not None:
                    writer.barrier(barrier)
                for frame in writer.frames():
                    waiting[frame.slot].append(frame)
        self._epoch += 1
        self._begin()
        reports: list[EpochReport] = []
        leaving: dict[tuple[EdgeId, int], list[Frame]] = {}
        for level in self._piece.levels:
            arriving: list[list[Frame]] = [[] for _ in self._slots]
            for index, slot in enumerate(self._slots):
                result = slot.run_level(level, command, self._blobs.get((level, index)), waiting[index])
                if result.report.failure is not None:
                    self._failed = True
                    raise _error(result.report.failure)
                self._blobs[level, index] = result.state
                reports.append(result.report)
                for frame in result.frames:
                    edge = EdgeId(frame.edge)
                    if edge in self._piece.output_edges:
                        leaving.setdefault((edge, frame.channel), []).append(frame)
                    else:
                        arriving[frame.slot].append(frame)
            waiting = arriving
        for (edge, _), frames in sorted(leaving.items()):
            self._outputs[self._piece.output_edges[edge]].extend(_elements(frames))
        return reports


def _elements(frames: Sequence[Frame]) -> Iterator[OutputElement]:
    for element in decode(frames):
        match element:
            case Records(values, timestamps, _):
                yield from map(StreamRecord, values, timestamps if timestamps is not None else [None] * len(values))
            case CheckpointBarrier() | LatencyMarker():
                pass
            case _:
                yield element


def _error(failure: TaskFailure) -> BaseException:
    """Return what the operator raised, or an error with its traceback where that cannot be pickled."""
    if failure.error is not None:
        return failure.error
    return JobExecutionError(f"operator {failure.operator_name!r} failed:\n{failure.traceback}")


class OneInputHarness(_Harness):
    """Runs a piece of a program with one input.

    `build` gets the input as a stream and returns the stream to be observed: one operator, or any number of them, keyed or not.
    With an `input_type` pushed values are taken as from_collection takes them. Errors of user code are raised by the push;
    after one the harness can only be closed.

    Example:

        >>> from flinkish.common import Types
        >>> from flinkish.datastream import KeyedProcessFunction
        >>> from flinkish.datastream.state import ValueStateDescriptor
        >>> from flinkish.testing import OneInputHarness
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, context):
        ...         self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        ...     def process_element(self, value, ctx):
        ...         self.count.update((self.count.value() or 0) + 1)
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield ctx.get_current_key(), self.count.value()
        >>> harness = OneInputHarness(lambda words: words.key_by(str.lower, Types.STRING()).process(Count()))
        >>> harness.process_element("Be", 10)
        >>> harness.process_element("be", 20)
        >>> snapshot = harness.snapshot()
        >>> harness.process_watermark(110)
        >>> harness.take_output()
        [StreamRecord(value=('be', 2), timestamp=110)]
        >>> harness.close()
        >>> with harness.restored(snapshot, parallelism=3) as restored:
        ...     restored.process_element("BE", 30)
        ...     restored.process_watermark(110)
        ...     restored.take_output()
        [StreamRecord(value=('be', 3), timestamp=110)]
    """

    def __init__(
        self,
        build: Callable[[DataStream], DataStream],
        input_type: TypeInformation | None = None,
        *,
        side_outputs: Iterable[OutputTag] = (),
        parallelism: int = 1,
        max_parallelism: int = 128,
        settings: Mapping[str, Any] | None = None,
        snapshot: HarnessSnapshot | None = None,
    ) -> None:
        self._build = build
        self._input_type = input_type
        self._max_parallelism = max_parallelism
        self._settings = settings
        super().__init__(build, (input_type,), side_outputs, parallelism, max_parallelism, settings, snapshot)

    def restored(self, snapshot: HarnessSnapshot, *, parallelism: int | None = None) -> OneInputHarness:
        """Return a harness of the same piece that starts from a checkpoint, at this or another parallelism."""
        return OneInputHarness(
            self._build,
            self._input_type,
            side_outputs=self._tags,
            parallelism=self.parallelism if parallelism is None else parallelism,
            max_parallelism=self._max_parallelism,
            settings=self._settings,
            snapshot=snapshot,
        )

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Push a record; event time in milliseconds."""
        self._inputs[0].record(value, timestamp)
        self._pushed()

    def process_elements(self, values: Iterable[Any], timestamp: int | None = None) -> None:
        """Push records in one epoch, all with the same event time; a StreamRecord has one of its own."""
        for value in values:
            record = value if isinstance(value, StreamRecord) else StreamRecord(value, timestamp)
            self._inputs[0].record(*record)
        self._pushed()

    def process_watermark(self, timestamp: int) -> None:
        """Push a watermark; milliseconds."""
        self._inputs[0].watermark(timestamp)
        self._pushed()

    def process_status(self, *, idle: bool) -> None:
        """Push that the input is idle, or active again."""
        self._inputs[0].status(idle)
        self._pushed()

    def end_input(self) -> None:
        """End the input, with the greatest watermark before."""
        self._inputs[0].end()
        self._pushed()


class TwoInputHarness(_Harness):
    """Runs a piece of a program with two inputs; see OneInputHarness.

    Example:

        >>> from flinkish.common import Types
        >>> from flinkish.datastream import CoProcessFunction, OutputTag
        >>> from flinkish.testing import TwoInputHarness
        >>> odd = OutputTag("odd", Types.LONG())
        >>> class Switch(CoProcessFunction):
        ...     on = False
        ...     def process_element1(self, value, ctx):
        ...         self.on = value
        ...     def process_element2(self, value, ctx):
        ...         if self.on:
        ...             yield (odd, value) if value % 2 else value
        >>> def build(switch, numbers):
        ...     return switch.connect(numbers).process(Switch())
        >>> with TwoInputHarness(build, side_outputs=[odd]) as harness:
        ...     harness.process_element2(1)
        ...     harness.process_element1(True)
        ...     harness.process_element2(2, 20)
        ...     harness.process_element2(3, 30)
        ...     harness.take_output(), harness.take_output(odd)
        ([StreamRecord(value=2, timestamp=20)], [StreamRecord(value=3, timestamp=30)])
    """

    def __init__(
        self,
        build: Callable[[DataStream, DataStream], DataStream],
        first_type: TypeInformation | None = None,
        second_type: TypeInformation | None = None,
        *,
        side_outputs: Iterable[OutputTag] = (),
        parallelism: int = 1,
        max_parallelism: int = 128,
        settings: Mapping[str, Any] | None = None,
        snapshot: HarnessSnapshot | None = None,
    ) -> None:
        self._build = build
        self._types = first_type, second_type
        self._max_parallelism = max_parallelism
        self._settings = settings
        super().__init__(build, self._types, side_outputs, parallelism, max_parallelism, settings, snapshot)

    def restored(self, snapshot: HarnessSnapshot, *, parallelism: int | None = None) -> TwoInputHarness:
        """Return a harness of the same piece that starts from a checkpoint, at this or another parallelism."""
        return TwoInputHarness(
            self._build,
            *self._types,
            side_outputs=self._tags,
            parallelism=self.parallelism if parallelism is None else parallelism,
            max_parallelism=self._max_parallelism,
            settings=self._settings,
            snapshot=snapshot,
        )

    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Push a record into the first input; event time in milliseconds."""
        self._push_record(0, value, timestamp)

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Push a record into the second input; event time in milliseconds."""
        self._push_record(1, value, timestamp)

    def _push_record(self, index: int, value: Any, timestamp: int | None) -> None:
        self._inputs[index].record(value, timestamp)
        self._pushed()

    def process_watermark1(self, timestamp: int) -> None:
        """Push a watermark into the first input; milliseconds. The operator sees the lower one of both inputs."""
        self._push_watermark(timestamp, 0)

    def process_watermark2(self, timestamp: int) -> None:
        """Push a watermark into the second input; milliseconds. The operator sees the lower one of both inputs."""
        self._push_watermark(timestamp, 1)

    def process_both_watermarks(self, timestamp: int) -> None:
        """Push the same watermark into both inputs; milliseconds."""
        self._push_watermark(timestamp, 0, 1)

    def _push_watermark(self, timestamp: int, *indexes: int) -> None:
        for index in indexes:
            self._inputs[index].watermark(timestamp)
        self._pushed()

    def process_status1(self, *, idle: bool) -> None:
        """Push that the first input is idle, or active again."""
        self._inputs[0].status(idle)
        self._pushed()

    def process_status2(self, *, idle: bool) -> None:
        """Push that the second input is idle, or active again."""
        self._inputs[1].status(idle)
        self._pushed()

    def end_input1(self) -> None:
        """End the first input, with the greatest watermark before."""
        self._inputs[0].end()
        self._pushed()

    def end_input2(self) -> None:
        """End the second input, with the greatest watermark before."""
        self._inputs[1].end()
        self._pushed()

    def end_inputs(self) -> None:
        """End both inputs in one epoch."""
        for given in self._inputs:
            given.end()
        self._pushed()
