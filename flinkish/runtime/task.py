"""One subtask of a job vertex: a chain of operators between an input gate (or a source) and its output edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flinkish.common import options
from flinkish.common.clock import Clock
from flinkish.common.closing import close_all
from flinkish.common.columns import Columns
from flinkish.common.ids import CheckpointId, OperatorUid
from flinkish.common.typeinfo import Types
from flinkish.graph.job_graph import ChainEdge, JobEdge, JobVertex
from flinkish.graph.runtime_mode import is_batch
from flinkish.graph.stream_graph import NodeId, StreamNode
from flinkish.metrics import MetricGroup, MetricRegistry
from flinkish.program.dead_letters import DEAD_LETTERS_UID
from flinkish.runtime import faults
from flinkish.runtime.channels import EdgeWriter, senders_of
from flinkish.runtime.dead_letters import SubtaskDeadLetters
from flinkish.runtime.elements import Element, Emit, EmitRun, Records
from flinkish.runtime.event_loop import EventLoop
from flinkish.runtime.gate import InputChannel, InputGate
from flinkish.runtime.isolation import SCALARS, isolate
from flinkish.runtime.operators.base import LATE_RECORDS, EpochTime, Operator, OperatorContext, Output
from flinkish.runtime.operators.batch import input_of
from flinkish.runtime.operators.factory import make_operator
from flinkish.runtime.operators.runtime_context import TaskRuntimeContext
from flinkish.runtime.operators.sink import SinkOperator
from flinkish.runtime.operators.source import SourceOperator
from flinkish.runtime.partitioners import edge_writer
from flinkish.runtime.protocol import (
    MIN_WATERMARK,
    Barrier,
    CheckpointPart,
    DriverValues,
    EpochCommand,
    Frame,
    ReaderReport,
    TaskProgram,
    VertexMetrics,
)
from flinkish.runtime.state.level_state import LevelState
from flinkish.runtime.uploads import Uploads
from flinkish.udf.functions import Function
from flinkish.udf.state import ListStateDescriptor

#: Key in the internal table of the task: what sinks prepared at the end of their input.
_PREPARED = "prepared"
_WATERMARK_STATE = ListStateDescriptor("_watermark", Types.LONG())
#: Elements, or bodies of frames with elements, by edge and sending subtask.
Inputs = Mapping[tuple[int, int], Sequence[Element | bytes]]


@dataclass(slots=True)
class TaskReport:
    """A subtask's report about the epoch, which the slot includes in its own report."""

    readers: dict[tuple[OperatorUid, int], ReaderReport] = field(default_factory=dict)
    final_committables: list[tuple[OperatorUid, int, tuple[bytes, ...]]] = field(default_factory=list)
    driver_values: list[DriverValues] = field(default_factory=list)
    released: int = 0
    holds: bool = False


class VertexTask:
    """Runs a vertex in one subtask.

    The order within an epoch is: due processing-time timers; the input, in the gate's order; timers that became due and periodic
    watermarks; the barrier, if there is one; then external effects are made durable. All of this depends only on the state, the
    command and the frames, so a second try gives the same result.
    """

    def __init__(
        self,
        program: TaskProgram,
        vertex: JobVertex,
        subtask: int,
        state: LevelState,
        time: EpochTime,
        clock: Clock,
        uploads: Uploads,
        attempt_number: int,
        *,
        restored: CheckpointId | None,
        rebuilt: bool,
    ) -> None:
        self.vertex = vertex
        self.subtask = subtask
        self.report = TaskReport()
        self._state = state
        self._time = time
        self._clock = clock
        self._uploads = uploads
        self._checkpointing = (program.configuration.get(options.CHECKPOINTING_INTERVAL) or 0) > 0
        self._metrics = MetricRegistry(clock)
        self._event_loop = EventLoop(f"flinkish-async-{vertex.id}-{subtask}")
        self._table = state.operator(vertex.head.uid).internal("task")
        self._records_in = 0
        self._late_records = 0
        self._barrier_taken = False
        #: Bytes that came in over edges in this epoch, which the slot counts.
        self.bytes_in = 0
        #: Approximate bytes that went out over edges that stay in the slot, by edge.
        self.local_bytes: dict[int, int] = {}
        self._batch = is_batch(program.configuration)
        self._finished: bool = self._table.get("finished", False)
        self._dead_letters = SubtaskDeadLetters(program, subtask, self._to_driver)
        plan = program.plan
        graph = plan.job_graph
        self._edges: list[EdgeWriter] = [edge_writer(edge, plan, subtask) for edge in graph.outputs(vertex.id)]
        contexts = (self._operator_context(program, node, attempt_number, restored, rebuilt=rebuilt) for node in vertex.operators)
        self.operators = list(map(make_operator, contexts))
        self.head = self.operators[0]
        for writer in self._edges:
            writer.keeps_all = self.head.context.dead_letters.on
            writer.combines = not self._batch and not writer.keeps_all
        self._dead_letters.open(self.head.context, state.operator(f"{DEAD_LETTERS_UID}/{vertex.id}"), self._metrics.root)
        self._sinks = [operator for operator in self.operators if isinstance(operator, SinkOperator)]
        self._gate = self._make_gate(program)
        self._connect()
        self._input = input_of(self.head)
        self._restore_watermarks()
        #: Key selectors and partitioners that have been opened.
        self._opened: list[Function] = []

    # -- construction --------------------------------------------------------------------------------------------------------

    def _operator_context(
        self, program: TaskProgram, node: StreamNode, attempt_number: int, restored: CheckpointId | None, *, rebuilt: bool
    ) -> OperatorContext:
        vertex = self.vertex
        group: MetricGroup = self._metrics.root
        for name in program.plan.job_graph.metric_scope(node):
            group = group.add_group(name)
        edges: list[ChainEdge | JobEdge] = [*vertex.chain_edges, *(writer.edge for writer in self._edges)]
        tags = {edge.side_output.tag_id: edge.side_output for edge in edges if edge.source == node.id and edge.side_output}
        return OperatorContext(
            program=program,
            vertex=vertex,
            node=node,
            subtask_index=self.subtask,
            attempt_number=attempt_number,
            state=self._state.operator(node.uid),
            time=self._time,
            metrics=group,
            side_outputs=tuple(tags.values()),
            to_driver=self._to_driver,
            dead_letters=self._dead_letters.of(node, group),
            outflow=self._outflow,
            event_loop=self._event_loop,
            restored_checkpoint=restored,
            rebuilt=rebuilt,
            batch=self._batch,
        )

    def _to_driver(self, uid: OperatorUid, destination: str, values: list[Any], watermark: int | None) -> None:
        sent = DriverValues(
            operator_uid=uid, subtask=self.subtask, destination=destination, values=tuple(values), watermark=watermark
        )
        self.report.driver_values.append(sent)

    def _outflow(self) -> int:
        sent = sum(writer.outflow() for writer in self._edges)
        return sent + sum(sink.buffered_bytes() for sink in self._sinks) + self._dead_letters.buffered_bytes()

    def _make_gate(self, program: TaskProgram) -> InputGate | None:
        plan = program.plan
        channels = [
            InputChannel(edge=edge.id, sender=sender, input_index=edge.input_index)
            for edge in plan.job_graph.inputs(self.vertex.id)
            for sender in senders_of(edge, plan, self.subtask)
        ]
        return InputGate(channels, clock=self._clock) if channels else None

    def _connect(self) -> None:
        by_node: dict[NodeId, Operator] = {operator.node.id: operator for operator in self.operators}
        for operator in reversed(self.operators):
            targets: list[tuple[Any, Operator | EdgeWriter]] = [
                (edge.side_output, by_node[edge.target]) for edge in self.vertex.chain_edges if edge.source == operator.node.id
            ]
            targets += [(writer.edge.side_output, writer) for writer in self._edges if writer.edge.source == operator.node.id]
            readers: dict[str | None, list[Operator | EdgeWriter]] = {None: []}
            for tag, target in targets:
                readers.setdefault(tag.tag_id if tag else None, []).append(target)
            main = readers.pop(None)
            converts = False
            if len(main) == 1 and operator.makes_new():
                main[0].take_over()
                converts = isinstance(main[0], EdgeWriter) and main[0].convert(operator.node.output_type)
            side = {tag: [emit for emit, _ in _emits(of_tag)] for tag, of_tag in readers.items() if tag is not None}
            columns = [target.emit_columns if isinstance(target, EdgeWriter) else target.process_columns for target in main]
            takes = any(target.takes_columns() for target in main)
            control = [target for _, target in targets]
            operator.connect(Output(_emits(main), side, control, columns=columns, takes_columns=takes, converts=converts))

    def _restore_watermarks(self) -> None:
        """Continue from the watermarks of the epoch before or, in a restored job, from the least one in the checkpoint."""
        watermarks = self._table.get("watermarks")
        if watermarks is not None:
            for operator, watermark in zip(self.operators, watermarks, strict=True):
                operator.current_watermark = watermark
        else:
            for operator in self.operators:
                kept = list(self._state.operator(operator.node.uid).union_list_state(_WATERMARK_STATE).get())
                operator.current_watermark = min(kept, default=MIN_WATERMARK)
        sent = {operator.node.id: operator.current_watermark for operator in self.operators}
        resting = dict(self._table.get("resting", ()))
        for writer in self._edges:
            writer.passed = sent[writer.edge.source]
            writer.rests_until = resting.get(writer.edge.id, 0)
        for operator in self.operators:
            operator.ended = self._finished
        if self._gate is not None:
            self._gate.load(self._table.get("gate", []), self.head.current_watermark)

    def open(self) -> None:
        """Open the operators, the last of the chain first, as Flink does."""
        for operator in reversed(self.operators):
            operator.open()
        contexts = {operator.node.id: operator.context for operator in self.operators}
        for writer in self._edges:
            for function in writer.functions():
                function.open(TaskRuntimeContext(contexts[writer.edge.source], None))
                self._opened.append(function)

    def close(self) -> None:
        """Close all operators; the first error is raised after all were closed."""
        opened, self._opened = self._opened, []
        close_all([*self.operators, *opened, self._event_loop])

    def closes(self) -> bool:
        """Tell whether an open object defines close()."""
        if any(operator.closes() for operator in self.operators):
            return True
        return any(type(function).close is not Function.close for function in self._opened)

    # -- one epoch -----------------------------------------------------------------------------------------------------------

    def run(self, command: EpochCommand, inputs: Inputs, *, notify: bool) -> None:
        """Run one epoch; `notify` = notify operators of checkpoints."""
        started = self._clock.monotonic()
        self.report = TaskReport()
        self._records_in = 0
        self._barrier_taken = False
        self._dead_letters.begin_epoch(command.next_checkpoint)
        for writer in self._edges:
            writer.begin_epoch(command.epoch)
        if notify:
            self._notify(command)
        if not command.farewell:
            self._process(command, inputs)
            for writer in self._edges:
                writer.settle()
        self._bytes_out = self._outflow()
        self.local_bytes = {writer.edge.id: writer.outflow() for writer in self._edges if writer.local}
        faults.reach(faults.Point.INPUT_HANDLED)
        for operator in self.operators:
            operator.end_epoch()
        self._dead_letters.end_epoch()
        self._remember()
        self._busy = self._clock.monotonic() - started
        self._ended = self._clock.wall_time() - command.processing_time

    def _process(self, command: EpochCommand, inputs: Inputs) -> None:
        for operator in self.operators:
            operator.begin_epoch()
        if self._gate is None:
            self._read(command, inputs)
        else:
            for (edge, sender), elements in inputs.items():
                self._gate.offer(edge, sender, elements)
            self._gate.process(self)
            self._release(command.release)
        if not self._barrier_taken:
            self._before_barrier()

    def _notify(self, command: EpochCommand) -> None:
        for completed in command.completed_checkpoints:
            for operator in self.operators:
                operator.notify_checkpoint_complete(completed)
        for aborted in command.aborted_checkpoints:
            for operator in self.operators:
                operator.notify_checkpoint_aborted(aborted)

    def _read(self, command: EpochCommand, inputs: Inputs) -> None:
        source = self.head
        assert isinstance(source, SourceOperator)
        address = (source.node.uid, self.subtask)
        reader_command = command.readers.get(address)
        if reader_command is not None:
            finished_before = reader_command.finished and self._finished
            if reader_command.finished and not self._finished:
                # The source had finished before the checkpoint, so its end has to be sent again in this attempt.
                source.drain()
            # In the order of Spark's partitions, so that a second try sees the same.
            native = [body for _, bodies in sorted(inputs.items()) for body in bodies if isinstance(body, bytes)]
            report = source.read(reader_command, native)
            if command.drain and not finished_before and not report.finished:
                source.drain()
                report = ReaderReport(splits=report.splits, records=report.records, finished=True)
            self.report.readers[address] = report
            self._records_in = report.records
            if report.finished and not self._finished:
                self._finish()
        if command.barrier is not None:
            self.on_barrier(command.barrier)

    def _before_barrier(self) -> None:
        for operator in self.operators:
            operator.before_barrier()

    def _remember(self) -> None:
        """Log the data that is kept from epoch to epoch, if it has changed."""
        self._put("watermarks", [operator.current_watermark for operator in self.operators])
        self._put("finished", self._finished)
        if resting := [(writer.edge.id, writer.rests_until) for writer in self._edges if writer.rests_until]:
            self._put("resting", resting)
        if self._gate is not None:
            left = self._gate.unaligned()
            assert not left, f"{self.vertex.name}: channels {left} wait for a barrier that did not come on the others"
            self._put("gate", self._gate.dump())

    def _put(self, name: str, value: Any) -> None:
        if self._table.get(name) != value:
            self._table[name] = value

    # -- events of the gate --------------------------------------------------------------------------------------------------

    def on_records(self, input_index: int, records: Records) -> None:
        self._records_in += len(records.values)
        if records.keys is not None:
            self.head.expect(records.keys)
        self._input.process_records(input_index, records)

    def on_columns(self, input_index: int, columns: Columns) -> None:
        self._records_in += columns.number_of_records
        self._input.process_columns(input_index, columns)

    def on_watermark(self, timestamp: int) -> None:
        self._input.watermark(timestamp)

    def on_status(self, idle: bool) -> None:
        self.head.status(idle)

    def on_end_of_input(self, input_index: int) -> None:
        assert self._gate is not None
        self._input.end_of_input(input_index)
        self._end_if_nothing_waits()

    def _release(self, most: int | None) -> None:
        """Release held-back records of a batch that are ready."""
        assert self._gate is not None
        if self._input.holds:
            self.report.released = self._input.release(most, ended=self._gate.ended)
            self.report.holds = self._gate.ended and self._input.holds
            self._end_if_nothing_waits()

    def _end_if_nothing_waits(self) -> None:
        assert self._gate is not None
        if self._gate.ended and not self._input.holds:
            self._input.finish()
            self.head.end_of_input()
            self._finish()

    def _finish(self) -> None:
        self._finished = True
        final = self._committables(end_of_input=True)
        if self._checkpointing:
            # Writers have forgotten them, and the last barrier may come in a later epoch.
            self._table[_PREPARED] = final
        else:
            self.report.final_committables += [(uid, self.subtask, committables) for uid, committables in final.items()]

    def _committables(self, *, end_of_input: bool) -> dict[OperatorUid, tuple[bytes, ...]]:
        """Return what sinks and dead letters are to commit."""
        prepared = {operator.node.uid: operator.prepare_commit() for operator in self.operators}
        prepared[DEAD_LETTERS_UID] = self._dead_letters.prepare_commit(end_of_input=end_of_input)
        return {uid: committables for uid, committables in prepared.items() if committables}

    def on_barrier(self, barrier: Barrier) -> None:
        """Take a snapshot: flush in the order of the chain, freeze the state and begin to write it, pass the barrier on."""
        self._before_barrier()
        self._barrier_taken = True
        started = self._clock.monotonic()
        for operator in self.operators:
            operator.prepare_snapshot()
        for operator in self.operators:
            operator.snapshot_state(barrier)
        before, now = self._table.pop(_PREPARED, {}), self._committables(end_of_input=False)
        committables = {uid: (*before.get(uid, ()), *now.get(uid, ())) for uid in (*before, *now)}
        for operator in self.operators:
            kept = operator.watermark_to_keep()
            watermarks = self._state.operator(operator.node.uid).union_list_state(_WATERMARK_STATE)
            watermarks.update([] if kept is None else [kept])
        uids = [node.uid for node in self.vertex.operators]
        part = CheckpointPart(
            checkpoint_id=barrier.checkpoint_id, vertex=self.vertex.id, subtask=self.subtask, committables=committables
        )
        write = self._state.snapshot(uids, barrier, vertex=self.vertex.id, subtask=self.subtask)
        alignment = 0.0 if self._gate is None else float(self._gate.alignment_ms)
        self._uploads.start(part, write, started=started, alignment_ms=alignment)
        for writer in self._edges:
            writer.barrier(barrier)

    # -- results -------------------------------------------------------------------------------------------------------------

    def frames(self) -> list[Frame]:
        """Return the epoch's frames for other slots and later levels."""
        return [frame for writer in self._edges if not writer.local for frame in writer.frames()]

    def local_elements(self) -> dict[tuple[int, int], list[Element]]:
        """Return the epoch's elements for vertices of this slot and level."""
        return {(writer.edge.id, self.subtask): writer.elements() for writer in self._edges if writer.local}

    def metrics(self) -> VertexMetrics:
        """Return the epoch's figures; call it after `frames`, which counts the records."""
        user = self._metrics.values()
        # A user's gauge may have this name, too, and any value.
        late = sum(count for name, count in user.items() if name.rpartition(".")[2] == LATE_RECORDS and type(count) is int)
        late_before, self._late_records = self._late_records, late
        return VertexMetrics(
            vertex=self.vertex.id,
            subtask=self.subtask,
            records_in=self._records_in,
            records_out=sum(writer.records for writer in self._edges),
            busy_ms=float(self._busy),
            ended_ms=float(self._ended),
            watermark=self.head.current_watermark,
            bytes_out=self._bytes_out,
            bytes_in=self.bytes_in,
            late_records=late - late_before,
            records_written=sum(sink.take_written() for sink in self._sinks),
            watermarks=tuple(operator.current_watermark for operator in self.operators),
            finished=self._finished,
            user=user,
            labelled=self._metrics.labelled(),
        )

    def next_timer(self) -> int | None:
        """Return when the earliest processing-time timer of the chain is due."""
        return min((timer for operator in self.operators if (timer := operator.next_timer()) is not None), default=None)


def _emits(targets: list[Operator | EdgeWriter]) -> list[tuple[Emit, EmitRun]]:
    """Return the functions that pass records to each target; with several targets, records are copied to isolate them.

    Edges and sinks copy by themselves. A run has one target only.
    """
    emits = [
        (target.emit, target.emit_run) if isinstance(target, EdgeWriter) else (target.process, target.process_run)
        for target in targets
    ]
    return [
        (emit if len(targets) == 1 or isinstance(target, EdgeWriter | SinkOperator) else _copying(emit), emit_run)
        for target, (emit, emit_run) in zip(targets, emits, strict=True)
    ]


def _copying(process: Emit) -> Emit:
    def copy_and_process(value: Any, timestamp: int | None) -> None:
        process(value if value.__class__ in SCALARS else isolate(value), timestamp)

    return copy_and_process
