"""A job in virtual time: a clock that jumps to whatever is waited for, and an engine whose tasks are a few lines.

Everything runs in the test's thread; a job that would wait for ever ends the test at once with an error.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import msgspec

from flinkish.checkpoint.checkpoint_settings import CheckpointSettings
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.clock import ManualClock
from flinkish.common.configuration import Configuration
from flinkish.common.ids import AttemptId, Epoch, OperatorUid
from flinkish.common.job_status import JobStatus
from flinkish.datastream.connectors.base import (
    Boundedness,
    CommitRequest,
    Committer,
    DriverReader,
    DriverSource,
    RestoredCheckpoint,
    Sink,
    SinkWriter,
    SinkWriterContext,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import ChainEdge, JobGraph, JobVertex, VertexId
from flinkish.graph.stream_graph import NodeId, StreamNode
from flinkish.jobmaster.admission import AdmissionSettings
from flinkish.jobmaster.epochs import EpochLoop
from flinkish.jobmaster.job_master import Environment, JobMaster
from flinkish.jobmaster.restart_strategies import NoRestart, RestartConfig
from flinkish.jobmaster.setup import JobSetup
from flinkish.program.operators import OperatorConfig, SinkConfig, SourceConfig
from flinkish.program.sinks import COLLECT
from flinkish.program.transformations import ChainingStrategy
from flinkish.runtime.protocol import (
    Acknowledgement,
    CheckpointPart,
    Decline,
    DriverValues,
    EpochCommand,
    EpochReport,
    ReaderCommand,
    ReaderReport,
    SplitState,
    TaskFailure,
    TaskProgram,
    VertexMetrics,
)

from ..checkpoint.support import LINEAGE, FakeStorage

SOURCE = OperatorUid("numbers")
SINK = OperatorUid("notes")
VERTEX = VertexId(1)
JOB_ID = "0123456789abcdef0123456789abcdef"


class WaitsForEver(AssertionError):
    """The job waits, and nothing will ever happen."""


class JumpingClock(ManualClock):
    """Instead of waiting it jumps: to the next planned action or to the end of the wait."""

    def __init__(self, now: int = 1_000_000) -> None:
        super().__init__(now)
        self._order = itertools.count()
        self._planned: list[tuple[int, int, Callable[[], None]]] = []
        #: How long each wait was meant to last, and when it began.
        self.waits: list[tuple[int, int | None]] = []

    def after(self, milliseconds: int, action: Callable[[], None]) -> None:
        """Plan something that happens from outside, during a wait."""
        heapq.heappush(self._planned, (self._now + milliseconds, next(self._order), action))

    def wait(self, condition: threading.Condition, timeout: int | None) -> None:
        self.waits.append((self._now, timeout))
        end = None if timeout is None else self._now + timeout
        if self._planned and (end is None or self._planned[0][0] <= end):
            due, _, action = heapq.heappop(self._planned)
            self._now = max(self._now, due)
            action()
        elif end is not None:
            self._now = end
        else:
            raise WaitsForEver(f"at {self._now} ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersSplit(SourceSplit):
    position: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSplit(NumbersSplit):
    @property
    def records_left(self) -> int:
        return self.end - self.position


class Numbers(Source[int, NumbersSplit, list[NumbersSplit]]):
    """Hands out ranges, one for each request. `lasting` sources say nothing when they have no more splits.

    Splits of `counted` sources tell how many records are left, and readers get the last split with the news that it is the last.
    """

    def __init__(self, *ranges: tuple[int, int], lasting: bool = False, counted: bool = False) -> None:
        self._split_type = CountedSplit if counted else NumbersSplit
        self.splits = [self._split_type(split_id=str(i), position=a, end=b) for i, (a, b) in enumerate(ranges)]
        self.lasting = lasting
        self.enumerators: list[NumbersEnumerator] = []

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self.lasting else Boundedness.BOUNDED

    @property
    def split_type(self) -> type[NumbersSplit]:
        return self._split_type

    @property
    def enumerator_checkpoint_type(self) -> Any:
        return list[NumbersSplit]

    def create_enumerator(self, context: SplitEnumeratorContext[NumbersSplit]) -> NumbersEnumerator:
        return self.restore_enumerator(context, list(self.splits))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[NumbersSplit], checkpoint: list[NumbersSplit]
    ) -> NumbersEnumerator:
        self.enumerators.append(NumbersEnumerator(context, checkpoint, self.lasting))
        return self.enumerators[-1]

    def create_reader(self, context: SourceReaderContext) -> SourceReader[int, NumbersSplit]:
        raise NotImplementedError


class NumbersEnumerator(SplitEnumerator[NumbersSplit, list[NumbersSplit]]):
    def __init__(self, context: SplitEnumeratorContext[NumbersSplit], splits: list[NumbersSplit], lasting: bool) -> None:
        self.context = context
        self.left = splits
        self.lasting = lasting
        self.requests: list[int] = []
        self.taken_back: list[str] = []
        self.completed: list[int] = []
        self.started = self.closed = False
        self.on_start: Callable[[], None] = lambda: None

    def start(self) -> None:
        self.started = True

    def handle_split_request(self, subtask: int) -> None:
        self.requests.append(subtask)
        if self.left:
            split = self.left.pop(0)
            self.context.assign_split(split, subtask)
            if isinstance(split, CountedSplit) and not self.left:
                for reader in range(self.context.parallelism):
                    self.context.signal_no_more_splits(reader)
        elif not self.lasting:
            self.context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: Sequence[NumbersSplit], subtask: int) -> None:
        assert not self.started, "splits come back before start"
        self.taken_back.extend(split.split_id for split in splits)
        self.left = [*splits, *self.left]

    def snapshot_state(self, checkpoint_id: int) -> list[NumbersSplit]:
        return list(self.left)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.completed.append(checkpoint_id)

    def close(self) -> None:
        self.closed = True


class Line(DriverSource[str]):
    """A driver-side source whose records the test puts in."""

    def __init__(self) -> None:
        self.reader = LineReader()
        self.made = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Line, ()  # for the tasks, which do not read it

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_driver_reader(self, configuration: Configuration) -> DriverReader:
        self.made += 1
        return self.reader


class LineReader:
    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.records: list[str] = []
        self.ended = False
        self.closed = False
        self.error: Exception | None = None

    def put(self, *records: str, end: bool = False) -> None:
        with self.condition:
            self.records.extend(records)
            self.ended = self.ended or end
            self.condition.notify_all()

    def poll(self, limit: int) -> tuple[Sequence[str], bool]:
        with self.condition:
            if self.error is not None:
                raise self.error
            taken, self.records = self.records[:limit], self.records[limit:]
            return taken, self.ended and not self.records

    def wait(self, timeout: int) -> None:
        with self.condition:
            if not self.records and not self.ended and self.error is None:
                self.condition.wait(timeout / 1000)

    def close(self) -> None:
        self.closed = True


class Notes(Sink[int, str]):
    """A two-phase-commit sink that notes what is committed."""

    def __init__(self, *, committing: bool = True) -> None:
        self.committing = committing
        self.commits: list[tuple[int, list[str]]] = []
        self.job_ids: set[str] = set()
        self.lineages: set[str] = set()
        self.restored: list[tuple[int, str, bool]] = []
        self.restored_states: list[bytes | None] = []
        self.state: bytes | None = None
        self.refuse: Exception | None = None
        self.fail: list[Exception] = []
        self.fail_to_close: Exception | None = None
        self.closed = 0

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[int, str]:
        raise NotImplementedError

    def create_committer(self, configuration: Configuration) -> Committer[str] | None:
        return NotesCommitter(self) if self.committing else None

    @property
    def committable_type(self) -> Any:
        return str


class NotesCommitter(Committer[str]):
    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        self.notes.restored.append((checkpoint.checkpoint_id, checkpoint.lineage, checkpoint.own))
        self.notes.restored_states.append(checkpoint.state)
        if self.notes.refuse is not None:
            raise self.notes.refuse

    def snapshot_state(self) -> bytes | None:
        return self.notes.state

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[str]]) -> None:
        if self.notes.fail:
            raise self.notes.fail.pop(0)
        self.notes.commits.append((checkpoint_id, [request.committable for request in requests]))
        self.notes.job_ids |= {request.job_id for request in requests}
        self.notes.lineages |= {request.lineage for request in requests}

    def close(self) -> None:
        self.notes.closed += 1
        if self.notes.fail_to_close is not None:
            raise self.notes.fail_to_close


def node(number: int, uid: str, operator: OperatorConfig, parallelism: int) -> StreamNode:
    return StreamNode(
        id=NodeId(number),
        name=uid.capitalize(),
        description=uid,
        operator=operator,
        uid=OperatorUid(uid),
        parallelism=parallelism,
        max_parallelism=128,
        slot_sharing_group="default",
        chaining_strategy=ChainingStrategy.ALWAYS,
        input_types=(),
        output_type=cast(Any, None),
    )


def make_plan(source: Source[Any, Any, Any] | DriverSource[Any], sink: Sink[Any, Any], parallelism: int = 1) -> ExecutionPlan:
    """One vertex: the source with the sink chained to it."""
    operators = (
        node(1, SOURCE, SourceConfig(source=source, watermarks=None), parallelism),
        node(2, SINK, SinkConfig(sink=sink), parallelism),
    )
    vertex = JobVertex(
        id=VERTEX,
        name="Source: Numbers -> Sink: Notes",
        operators=operators,
        chain_edges=(ChainEdge(source=NodeId(1), target=NodeId(2)),),
        parallelism=parallelism,
        max_parallelism=128,
        slot_sharing_group="default",
    )
    return ExecutionPlan(
        job_graph=JobGraph(job_name="test job", vertices={VERTEX: vertex}, edges=()),
        levels=((VERTEX,),),
        level_of={VERTEX: 0},
        slots=parallelism,
        slot_offsets={"default": 0},
    )


@dataclass
class FakeTasks:
    """What the slots do: read numbers, send them to the driver as results, commit them with each checkpoint."""

    checkpointing: bool
    clock: JumpingClock
    #: Milliseconds that an epoch takes.
    duration: int = 10
    #: Subtasks whose readers say NOTHING_AVAILABLE at the end of their splits instead of finishing them.
    tailing: bool = False
    #: The source is read on the driver.
    from_driver: bool = False
    next_timer: int | None = None
    #: Called with each command before the reports are made; may return other reports, or raise.
    script: Callable[[EpochCommand], list[EpochReport] | None] = lambda command: None
    decline: bool = False
    closes: bool = False
    #: How many records a reader reads in certain epochs, if they are fewer than it may read.
    most: dict[int, int] = field(default_factory=dict)
    #: How many epochs after the barrier the acknowledgements come, unless the barrier waits for them.
    late: int = 0
    commands: list[EpochCommand] = field(default_factory=list)
    #: The commands of last epochs, which are not among the others.
    farewells: list[EpochCommand] = field(default_factory=list)
    _metrics: dict[int, tuple[VertexMetrics, ...]] = field(default_factory=dict)
    _written: dict[int, list[int]] = field(default_factory=dict)
    #: Acknowledgements that are still to come, with the epochs in which they come, by subtask.
    _coming: dict[int, list[tuple[int, Acknowledgement]]] = field(default_factory=dict)

    def begin_attempt(self) -> None:
        self._written = {}
        self.lose_uploads()

    def lose_uploads(self) -> None:
        """What happens when the processes of the tasks are killed."""
        self._coming = {}

    def run(self, command: EpochCommand) -> list[EpochReport]:
        (self.farewells if command.farewell else self.commands).append(command)
        self.clock.advance(0 if command.farewell else self.duration)
        other = self.script(command)
        if other is not None:
            return other
        if command.farewell:
            return [EpochReport(epoch=command.epoch, level=0, slot=slot, metrics=each) for slot, each in self._metrics.items()]
        reports = [self._report(command, uid, subtask, reader) for (uid, subtask), reader in sorted(command.readers.items())]
        self._metrics = {report.slot: report.metrics for report in reports}
        return reports

    def _report(self, command: EpochCommand, uid: OperatorUid, subtask: int, reader: ReaderCommand) -> EpochReport:
        credit = min(reader.credit, self.most.get(command.epoch, reader.credit))
        values, report = self._read(replace(reader, credit=credit), command.drain)
        written = self._written.setdefault(subtask, [])
        written.extend(values)
        acknowledgements: tuple[Acknowledgement, ...] = ()
        declines: tuple[Decline, ...] = ()
        final: tuple[tuple[OperatorUid, int, tuple[bytes, ...]], ...] = ()
        if report.finished and not reader.finished and not self.checkpointing and written:
            final = ((SINK, subtask, tuple(msgspec.msgpack.encode(str(value)) for value in written)),)
            written.clear()
        if command.barrier is not None:
            committables = tuple(msgspec.msgpack.encode(str(value)) for value in written)
            written.clear()
            if self.decline:
                declines = (Decline(checkpoint_id=command.barrier.checkpoint_id, vertex=VERTEX, subtask=subtask, reason="full"),)
            else:
                acknowledgements = (
                    Acknowledgement(
                        checkpoint_id=command.barrier.checkpoint_id,
                        vertex=VERTEX,
                        subtask=subtask,
                        files=(),
                        committables={SINK: committables} if committables else {},
                    ),
                )
        coming = self._coming.setdefault(subtask, [])
        uploading: list[CheckpointPart] = [ack for due, ack in coming if due > command.epoch]
        if command.barrier is not None and not self.decline and self.late and not command.barrier.waits:
            coming.append((command.epoch + self.late, replace(acknowledgements[0], committables={})))
            uploading += acknowledgements
            acknowledgements = ()
        acknowledgements = (*(ack for due, ack in coming if due <= command.epoch), *acknowledgements)
        self._coming[subtask] = [each for each in coming if each[0] > command.epoch]
        sent = DriverValues(operator_uid=SINK, subtask=subtask, destination=COLLECT, values=tuple(values))
        return EpochReport(
            epoch=command.epoch,
            level=0,
            slot=subtask,
            readers={(uid, subtask): report},
            acknowledgements=acknowledgements,
            declines=declines,
            uploading=tuple(uploading),
            final_committables=final,
            driver_values=(sent,) if values else (),
            metrics=(
                VertexMetrics(
                    vertex=VERTEX,
                    subtask=subtask,
                    records_in=report.records,
                    records_out=0,
                    busy_ms=float(self.duration),
                    watermark=0,
                    finished=report.finished,
                    user={"Numbers.seen": report.records},
                ),
            ),
            closes=self.closes,
            next_timer=self.next_timer,
            carry_over=b"carried-%d-%d" % (subtask, command.epoch),
        )

    def _read(self, reader: ReaderCommand, drain: bool) -> tuple[list[Any], ReaderReport]:
        if reader.finished:
            return [], ReaderReport(finished=True)
        values: list[Any] = list(reader.records)
        credit = reader.credit
        left: list[SplitState] = []
        for state in reader.splits:
            split = msgspec.msgpack.decode(state.split, type=NumbersSplit)
            take = min(credit, split.end - split.position)
            values.extend(range(split.position, split.position + take))
            credit -= take
            if split.position + take < split.end or self.tailing:
                moved = replace(split, position=split.position + take)
                left.append(SplitState(split_id=split.split_id, split=msgspec.msgpack.encode(moved), generator=state.generator))
        more = any((split := msgspec.msgpack.decode(state.split, type=NumbersSplit)).position < split.end for state in left)
        ended = reader.end_of_records if self.from_driver else reader.no_more_splits and not left
        finished = drain or ended
        return values, ReaderReport(
            splits=tuple(left),
            records=len(values),
            more_available=more and not finished,
            finished=finished,
            wants_split=not left and not reader.no_more_splits and not finished,
        )


class ScriptedEngine:
    """Runs `FakeTasks`, in the thread of the JobMaster."""

    def __init__(self, tasks: FakeTasks, scratch: Path = Path("/scratch")) -> None:
        self.tasks = tasks
        self.programs: list[TaskProgram] = []
        self.interrupts = 0
        self.closed = False
        #: Raised by the next attempts instead of running them, or at their end.
        self.errors: list[Exception] = []
        self._scratch = scratch

    def run_attempt(self, program: TaskProgram, loop: EpochLoop) -> None:
        self.programs.append(program)
        self.tasks.begin_attempt()
        if self.errors:
            raise self.errors.pop(0)
        while (command := loop.begin_epoch()) is not None:
            loop.finish_epoch(self.tasks.run(command))

    def busy_operators(self) -> Sequence[str]:
        return ()

    def interrupt(self) -> None:
        self.interrupts += 1

    def scratch_root(self) -> Path:
        return self._scratch

    def close(self) -> None:
        self.closed = True


class Job:
    """A JobMaster with everything round it; change the parts before `run`."""

    def __init__(
        self,
        source: Source[Any, Any, Any] | DriverSource[Any],
        sink: Notes | None = None,
        *,
        parallelism: int = 1,
        interval: int | None = None,
        restart: RestartConfig | None = None,
        idle_interval: int | None = None,
        credit: int = 10,
        restored: StoredCheckpoint | None = None,
        storage: FakeStorage | None = None,
        configuration: Configuration | None = None,
        environment: Mapping[str, Any] | None = None,
        **checkpoint_settings: Any,
    ) -> None:
        self.sink = sink or Notes()
        self.clock = JumpingClock()
        self.storage = storage or FakeStorage()
        driver = isinstance(source, DriverSource)
        self.tasks = FakeTasks(checkpointing=interval is not None, clock=self.clock, from_driver=driver)
        self.engine = ScriptedEngine(self.tasks)
        self.printed: list[str] = []
        self.retired = 0
        numbers = itertools.count(1)
        self.setup = JobSetup(
            plan=make_plan(source, self.sink, parallelism),
            configuration=configuration or Configuration(),
            job_id=JOB_ID,
            lineage=LINEAGE,
            job_name="test job",
            checkpoints=CheckpointSettings(interval=interval, **checkpoint_settings),
            restart=restart or NoRestart(),
            admission=AdmissionSettings(target_duration=1_000, max_records=credit, max_bytes=1 << 30),
            poll_interval=100,
            idle_interval=idle_interval,
        )
        self.master = JobMaster(
            self.setup,
            Environment(
                engine=self.engine,
                clock=self.clock,
                ids=lambda: f"{next(numbers):032x}",
                rng=random.Random(7),
                print_lines=self.printed.extend,
                storage=self.storage if interval is not None else None,
                open_storage=lambda: self.storage,
                **{"retire": self._retire, **(environment or {})},
            ),
            restored=restored,
        )

    def _retire(self) -> None:
        self.retired += 1

    def run(self, end: JobStatus | None = None) -> Job:
        """Run the job to its end, which must be the given one."""
        self.master.run()
        assert end in (None, self.master.status), (self.master.status, self.error)
        return self

    @property
    def results(self) -> list[Any]:
        """What the client of execute_and_collect gets."""
        return list(self.master.results)

    @property
    def epochs(self) -> list[EpochCommand]:
        return self.tasks.commands

    @property
    def error(self) -> BaseException | None:
        return self.master.result.exception()

    def on_epoch(self, number: int, action: Callable[[], object], *, attempt: int = 0) -> Job:
        """Do something in the middle of an epoch."""
        former = self.tasks.script

        def script(command: EpochCommand) -> list[EpochReport] | None:
            if (command.attempt_number, command.epoch) == (attempt, number):
                action()
            return former(command)

        self.tasks.script = script
        return self

    def fail_epoch(self, number: int, *, attempt: int = 0, error: Exception | None = None) -> Job:
        """Have a task fail in an epoch."""
        former = self.tasks.script

        def script(command: EpochCommand) -> list[EpochReport] | None:
            if (command.attempt_number, command.epoch) == (attempt, number):
                return [failed_report(command, error or ValueError("bad record"))]
            return former(command)

        self.tasks.script = script
        return self


def failed_report(command: EpochCommand, error: Exception) -> EpochReport:
    failure = TaskFailure(
        vertex=VERTEX,
        subtask=0,
        operator_uid=SINK,
        operator_name="Notes",
        traceback=f"Traceback (most recent call last):\n  in user code\n{type(error).__name__}: {error}\n",
        error=error,
    )
    return EpochReport(epoch=command.epoch, level=0, slot=0, failure=failure)


def command(epoch: int = 0) -> EpochCommand:
    return EpochCommand(attempt_id=AttemptId("a"), attempt_number=0, epoch=Epoch(epoch), processing_time=0)
