"""Stand-ins for what the runtime gives to sources and sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import msgspec
import pyarrow as pa

from flinkish.common import pickling
from flinkish.common.column_layout import Layout, layout_of
from flinkish.common.configuration import Configuration
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.connectors.base import (
    CommitRequest,
    Committer,
    InputStatus,
    RestoredCheckpoint,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    WriteContext,
)
from flinkish.datastream.state import ListStateDescriptor
from flinkish.program.refused_records import RefusedRecord, refusal


class FakeCounter:
    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        self.count += n

    def get_count(self) -> int:
        return self.count


class FakeMetricGroup:
    def __init__(self) -> None:
        self.counters: dict[str, FakeCounter] = {}
        self.gauges: dict[str, Callable[[], int | float]] = {}

    def counter(self, name: str) -> FakeCounter:
        return self.counters.setdefault(name, FakeCounter())

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        self.gauges[name] = obj

    def add_group(self, name: str, extra: str | None = None) -> FakeMetricGroup:
        return self


class NoDeadLetters:
    """The dead letters of a job that keeps none."""

    on = False

    def dropped(self, kind: str) -> None:
        pass


@dataclass
class FakeReaderContext:
    now: int = 0
    subtask_index: int = 0
    parallelism: int = 1
    configuration: Configuration = field(default_factory=Configuration)
    metric_group: FakeMetricGroup = field(default_factory=FakeMetricGroup)
    dead_letters: Any = field(default_factory=NoDeadLetters)

    def processing_time(self) -> int:
        return self.now


class FakeOutput:
    """Collects (split, value) pairs; `credit` goes down as in the runtime."""

    def __init__(self, credit: int, layout: Layout | None = None) -> None:
        self.credit = credit
        self.wants_columns = layout is not None
        #: Number of records that came as columns.
        self.from_columns = 0
        self._layout = layout
        self.values: list[Any] = []
        self.by_split: dict[str, list[Any]] = {}
        self.finished: list[str] = []
        self._split = ""

    def collect(self, value: Any, timestamp: int | None = None) -> None:
        self.credit -= 1
        self.values.append(value)
        self.by_split.setdefault(self._split, []).append(value)

    def collect_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.collect(value)

    def collect_columns(self, batch: pa.RecordBatch, times: Callable[[], pa.Array] | None = None) -> None:
        assert self._layout is not None
        assert batch.schema.equals(self._layout.schema)
        self.from_columns += batch.num_rows
        self.collect_all(self._layout.records_of(batch))

    def select_split(self, split_id: str) -> None:
        self._split = split_id

    def split_finished(self, split_id: str) -> None:
        self.finished.append(split_id)

    def emit_watermark(self, timestamp: int) -> None:
        raise NotImplementedError

    def mark_idle(self) -> None:
        raise NotImplementedError

    def mark_active(self) -> None:
        raise NotImplementedError


class FakeEnumeratorContext:
    def __init__(self, parallelism: int = 1) -> None:
        self.parallelism = parallelism
        self.configuration = Configuration()
        self.assigned: dict[int, list[Any]] = {}
        self.no_more: set[int] = set()
        #: Whether each reader has unfinished splits.
        self.reading: dict[int, bool] = {}
        self.calls: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None], int | None]] = []

    def assign_split(self, split: Any, subtask: int) -> None:
        self.assigned.setdefault(subtask, []).append(split)
        self.reading[subtask] = True

    def assigned_splits(self) -> list[Any]:
        return [split for splits in self.assigned.values() for split in splits]

    def signal_no_more_splits(self, subtask: int) -> None:
        self.no_more.add(subtask)

    def is_reading(self, subtask: int) -> bool:
        return self.reading.get(subtask, False)

    def call_async(
        self, work: Callable[[], Any], handler: Callable[..., None], *, initial_delay: int = 0, period: int | None = None
    ) -> None:
        self.calls.append((work, handler, period))

    def run_calls(self) -> None:
        """Run what is due once."""
        for work, handler, _ in list(self.calls):
            try:
                result = work()
            except Exception as error:
                handler(None, error)
            else:
                handler(result, None)


def stored(value: Any, type_: Any) -> Any:
    """Return what a value is after a stay in a checkpoint."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type_)


class Columns:
    """Whether runs of sources and sinks use columns where these make or take them; tests that hold for both ways set it."""

    by_default: ClassVar[bool] = False


@dataclass
class SourceRun:
    """Reads a source to its end, as the runtime would, in epochs of some records; each epoch may begin with a new reader."""

    source: Source[Any, Any, Any]
    parallelism: int = 1
    credit: int = 10
    restart_readers: bool = False
    #: Whether columns are wanted, if the source makes them.
    by_columns: bool = field(default_factory=lambda: Columns.by_default)
    metric_group: FakeMetricGroup = field(default_factory=FakeMetricGroup)
    epochs: int = 0
    #: Number of records that came as columns.
    from_columns: int = 0
    #: What all readers emitted in each epoch.
    emitted_by_epoch: list[list[Any]] = field(default_factory=list)

    def values(self) -> list[Any]:
        return [value for values in self.by_subtask().values() for value in values]

    def by_subtask(self, most_epochs: int = 10_000) -> dict[int, list[Any]]:
        context = FakeEnumeratorContext(self.parallelism)
        enumerator = self.source.create_enumerator(context)
        enumerator.start()
        emitted: dict[int, list[Any]] = {subtask: [] for subtask in range(self.parallelism)}
        owned: dict[int, list[Any]] = {subtask: [] for subtask in range(self.parallelism)}
        readers: dict[int, SourceReader[Any, Any]] = {}
        try:
            return self._run(most_epochs, context, enumerator, emitted, owned, readers)
        finally:
            for reader in readers.values():
                reader.close()

    def _run(
        self,
        most_epochs: int,
        context: FakeEnumeratorContext,
        enumerator: Any,
        emitted: dict[int, list[Any]],
        owned: dict[int, list[Any]],
        readers: dict[int, SourceReader[Any, Any]],
    ) -> dict[int, list[Any]]:
        # Each subtask has function objects of its own.
        sources = pickling.copies(self.source, self.parallelism)
        produced = self.source.produced_type()
        layout = Layout(produced) if self.by_columns and self.source.why_records is None and produced is not None else None
        told: set[int] = set()
        running = set(range(self.parallelism))
        for _ in range(most_epochs):
            self.epochs += 1
            self.emitted_by_epoch.append([])
            for subtask in sorted(running):
                if not owned[subtask] and subtask not in context.no_more:
                    enumerator.handle_split_request(subtask)
                new = context.assigned.pop(subtask, [])
                reader = readers.get(subtask)
                if reader is None or self.restart_readers:
                    if reader is not None:
                        reader.close()
                    reader = readers[subtask] = sources[subtask].create_reader(self._reader_context(subtask))
                    reader.start()
                    told.discard(subtask)
                    new = [stored(split, self.source.split_type) for split in owned[subtask]] + new
                if new:
                    reader.add_splits(new)
                if subtask in context.no_more and subtask not in told:
                    told.add(subtask)
                    reader.notify_no_more_splits()
                output = FakeOutput(self.credit, layout)
                status = InputStatus.MORE_AVAILABLE
                while output.credit > 0 and status is InputStatus.MORE_AVAILABLE:
                    status = reader.poll_next(output)
                self.from_columns += output.from_columns
                emitted[subtask].extend(output.values)
                self.emitted_by_epoch[-1].extend(output.values)
                owned[subtask] = list(reader.snapshot_state())
                context.reading[subtask] = bool(owned[subtask])
                if status is InputStatus.END_OF_INPUT:
                    reader.close()
                    running.discard(subtask)
            if not running:
                return emitted
        raise AssertionError(f"the source has not ended after {most_epochs} epochs")

    def _reader_context(self, subtask: int) -> Any:
        return FakeReaderContext(subtask_index=subtask, parallelism=self.parallelism, metric_group=self.metric_group)


class FakeListState:
    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def get(self) -> list[Any]:
        return list(self.values)

    def add(self, value: Any) -> None:
        self.values.append(value)

    def add_all(self, values: list[Any]) -> None:
        self.values.extend(values)

    def update(self, values: list[Any]) -> None:
        self.values[:] = values

    def clear(self) -> None:
        self.values.clear()

    def __iter__(self) -> Any:
        return iter(self.values)


States = dict[str, list[Any]]


class FakeWriterContext:
    def __init__(self, run: SinkRun, subtask: int, states: States) -> None:
        self.configuration = run.configuration
        self.job_id = run.job_id
        self.lineage = run.lineage
        self.sink_uid = "sink"
        self.subtask_index = subtask
        self.parallelism = run.parallelism
        self.attempt_id = run.attempt_id
        self.metric_group: Any = FakeMetricGroup()
        self.input_type = run.input_type
        self.states = states
        self.sent: list[tuple[str, list[Any]]] = []
        self._run = run

    def get_list_state(self, descriptor: ListStateDescriptor) -> Any:
        return FakeListState(self.states.setdefault(descriptor.name, []))

    def initialize_function(self, function: Any) -> None:
        raise NotImplementedError

    def processing_time(self) -> int:
        return self._run.now

    def emit_to_driver(self, destination: str, values: Sequence[Any], watermark: int | None = None) -> None:
        self.sent.append((destination, list(values)))

    def put_aside(self, value: Any, reason: str) -> None:
        if not self._run.keeps_dead_letters:
            raise refusal([RefusedRecord(reason=reason, subtask=self.subtask_index, value=value)])
        self._run.put_aside.append((value, reason))


@dataclass
class Checkpoint:
    id: int
    states: list[States]
    requests: list[CommitRequest[Any]]
    lineage: str
    #: That of the committer.
    committer_state: bytes | None = None


class SinkRun:
    """Runs a sink's writers and committer as the runtime would; writers can be lost, epochs run twice, checkpoints restored."""

    #: Number of records that were written as columns.
    from_columns = 0

    def __init__(
        self,
        sink: Sink[Any, Any],
        input_type: TypeInformation | None = None,
        parallelism: int = 1,
        *,
        checkpoints: bool = True,
        configuration: Configuration | None = None,
        by_columns: bool | None = None,
    ) -> None:
        self.sink = sink
        #: Whether records are written as columns, if the sink takes them.
        self.by_columns = Columns.by_default if by_columns is None else by_columns
        interval = {"execution.checkpointing.interval": "1 s"} if checkpoints else {}
        self.configuration = configuration or Configuration.from_dict(interval)
        self.input_type = Types.PICKLED_BYTE_ARRAY() if input_type is None else input_type
        self.parallelism = parallelism
        self.keeps_dead_letters = False
        #: Content and reason of the records that writers have put aside.
        self.put_aside: list[tuple[Any, str]] = []
        self.job_id = "job"
        self.lineage = "lineage"
        self.attempt_id = "attempt-0"
        self.now = 0
        self.next_checkpoint = 1
        self.states: list[States] = [{} for _ in range(parallelism)]
        self.contexts: list[FakeWriterContext] = []
        self.writers: list[SinkWriter[Any, Any]] = []
        self.committer: Committer[Any] | None = sink.create_committer(self.configuration)
        self._open()

    def _open(self) -> None:
        self.contexts = [FakeWriterContext(self, i, self.states[i]) for i in range(self.parallelism)]
        self.writers = [self.sink.create_writer(context) for context in self.contexts]

    def lose_writers(self) -> Self:
        """The processes of the writers are gone; new ones start from the state of the last epoch. The old ones keep theirs."""
        self.states = [{name: list(values) for name, values in states.items()} for states in self.states]
        self._open()
        return self

    def write(self, values: Sequence[Any], timestamp: int | None = None) -> Self:
        for subtask, writer in enumerate(self.writers):
            own = values[subtask :: self.parallelism]
            half = len(own) // 2
            for part in (own[:half], own[half:]):
                if not self._write_columns(writer, part, timestamp):
                    for value in part:
                        writer.write(value, WriteContext(timestamp=timestamp, watermark=-(2**63)))
        return self

    def _write_columns(self, writer: SinkWriter[Any, Any], values: Sequence[Any], timestamp: int | None) -> bool:
        """Write records as a run of columns; return False if they must be records."""
        layout = layout_of(self.input_type) if self.by_columns and self.sink.why_records is None else None
        if layout is None or not values:
            return False
        try:
            columns = layout.columns_of(values, [timestamp] * len(values))
        except Exception:  # no records of the type
            return False
        if not writer.write_columns(columns):
            return False
        self.from_columns += len(values)
        return True

    def end_epoch(self) -> Self:
        for writer in self.writers:
            writer.end_epoch()
        return self

    def epoch(self, values: Sequence[Any], timestamp: int | None = None) -> Self:
        return self.write(values, timestamp).end_epoch()

    def lost_epoch(self, values: Sequence[Any]) -> Self:
        """Run an epoch whose result is thrown away, as its process died after it had done all."""
        before = [{name: list(values) for name, values in states.items()} for states in self.states]
        self.epoch(values)
        self.states = before
        self._open()
        return self

    def after(self, values: Sequence[Any], *, commit: bool = True) -> Self:
        """Take a checkpoint that nobody looks at."""
        self.checkpoint(values, commit=commit)
        return self

    def checkpoint(self, values: Sequence[Any] = (), *, end_of_input: bool = False, commit: bool = True) -> Checkpoint:
        """Run an epoch that ends with a barrier."""
        self.write(values)
        requests = []
        for subtask, writer in enumerate(self.writers):
            writer.flush(end_of_input)
            for committable in writer.prepare_commit():
                committable = stored(committable, self.sink.committable_type)
                requests.append(
                    CommitRequest(
                        committable=committable,
                        job_id=self.job_id,
                        lineage=self.lineage,
                        sink_uid="sink",
                        subtask_index=subtask,
                    )
                )
        checkpoint = Checkpoint(
            self.next_checkpoint,
            [{name: list(values) for name, values in states.items()} for states in self.states],
            requests,
            self.lineage,
            None if self.committer is None else self.committer.snapshot_state(),
        )
        self.next_checkpoint += 1
        self.end_epoch()
        if commit:
            self.commit(checkpoint)
        return checkpoint

    def commit(self, checkpoint: Checkpoint) -> None:
        assert self.committer is not None
        self.committer.commit(checkpoint.id, checkpoint.requests)

    def restore(self, checkpoint: Checkpoint, parallelism: int | None = None, *, lineage: str | None = None) -> Self:
        """Start a new attempt from a checkpoint, and commit what it holds again; in another `lineage` if one is given."""
        self.lineage = lineage or self.lineage
        self.attempt_id += "+"
        self.parallelism = self.parallelism if parallelism is None else parallelism
        self.states = [{} for _ in range(self.parallelism)]
        position: dict[str, int] = {}
        for states in checkpoint.states:
            for name, values in states.items():
                for value in values:
                    index = position.get(name, 0)
                    self.states[index % self.parallelism].setdefault(name, []).append(value)
                    position[name] = index + 1
        self.committer = self.restored_committer(checkpoint)
        self.commit(checkpoint)
        self._open()
        return self

    def restored_committer(self, checkpoint: Checkpoint) -> Committer[Any]:
        """Return the committer of another driver that goes on from a checkpoint, before it commits anything."""
        committer = self.sink.create_committer(self.configuration)
        assert committer is not None
        committer.restore(
            RestoredCheckpoint(
                checkpoint_id=checkpoint.id,
                lineage=checkpoint.lineage,
                job_lineage=self.lineage,
                job_id=self.job_id,
                sink_uid="sink",
                state=checkpoint.committer_state,
            )
        )
        return committer
