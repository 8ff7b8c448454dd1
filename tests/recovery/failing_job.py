"""The job of the recovery tests with user code that fails, once at each of the places given; a marker file notes each failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkish.common import Duration, Types, WatermarkStrategy
from flinkish.common.configuration import Configuration
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.base import (
    CommitRequest,
    Committer,
    ReaderOutput,
    SinkWriter,
    SinkWriterContext,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
    WriteContext,
)
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from tests.recovery.folder_sink import FolderCommitter, FolderSink, FolderWriter, Pending
from tests.recovery.keyed_timers_job import KEYS, OUTPUT, RECORDS, CountWithTimers, Tenth


class DeliberateError(RuntimeError):
    """What the user code here raises."""


@dataclass(frozen=True)
class Faults:
    """Where user code is to fail, each place once in the whole life of the job, whatever process runs it; `always`: each time."""

    folder: Path
    places: frozenset[str]
    always: bool = False

    def happened(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} if self.folder.exists() else set()

    def reach(self, place: str, condition: bool = True) -> None:
        marker = self.folder / place
        if condition and place in self.places and (self.always or not marker.exists()):
            self.folder.mkdir(parents=True, exist_ok=True)
            with marker.open("a", encoding="utf-8") as file:
                file.write("x")
            raise DeliberateError(f"at {place}")

    def count(self, place: str) -> int:
        """Return how often a place has failed."""
        marker = self.folder / place
        return len(marker.read_text(encoding="utf-8")) if marker.exists() else 0


class FailingCount(CountWithTimers):
    def __init__(self, faults: Faults) -> None:
        super().__init__(pause=0.001)
        self.faults = faults

    def open(self, runtime_context: RuntimeContext) -> None:
        self.faults.reach("open", runtime_context.get_attempt_number() > 0)
        super().open(runtime_context)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        self.faults.reach("process_element", value == 200)
        yield from super().process_element(value, ctx)
        self.faults.reach("process_element, after its output", value == 300)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield from super().on_timer(timestamp, ctx)
        self.faults.reach("on_timer", timestamp > 15_000)

    def close(self) -> None:
        self.faults.reach("close")


class FailingTimestamps(Tenth):
    def __init__(self, faults: Faults) -> None:
        self.faults = faults

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        self.faults.reach("timestamp assigner", value == 600)
        return super().extract_timestamp(value, record_timestamp)


class FailingSource(NumberSequenceSource):
    def __init__(self, faults: Faults) -> None:
        super().__init__(0, RECORDS - 1)
        object.__setattr__(self, "faults", faults)

    def create_enumerator(self, context: SplitEnumeratorContext[Any]) -> SplitEnumerator[Any, Any]:
        return FailingEnumerator(super().create_enumerator(context), self.faults)

    def restore_enumerator(self, context: SplitEnumeratorContext[Any], checkpoint: Any) -> SplitEnumerator[Any, Any]:
        self.faults.reach("restore of the enumerator")
        return FailingEnumerator(super().restore_enumerator(context, checkpoint), self.faults)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any, Any]:
        return FailingReader(super().create_reader(context), self.faults)


class FailingEnumerator(SplitEnumerator[Any, Any]):
    def __init__(self, enumerator: SplitEnumerator[Any, Any], faults: Faults) -> None:
        self.enumerator = enumerator
        self.faults = faults

    def start(self) -> None:
        self.faults.reach("start of the enumerator")
        self.enumerator.start()

    def handle_split_request(self, subtask: int) -> None:
        self.faults.reach("split request")
        self.enumerator.handle_split_request(subtask)

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        self.enumerator.add_splits_back(splits, subtask)

    def snapshot_state(self, checkpoint_id: int) -> Any:
        self.faults.reach("snapshot of the enumerator", checkpoint_id >= 4)
        return self.enumerator.snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.faults.reach("notice to the enumerator", checkpoint_id >= 5)

    def close(self) -> None:
        self.enumerator.close()


class FailingReader(SourceReader[Any, Any]):
    def __init__(self, reader: SourceReader[Any, Any], faults: Faults) -> None:
        self.reader = reader
        self.faults = faults

    def add_splits(self, splits: Sequence[Any]) -> None:
        self.reader.add_splits(splits)

    def notify_no_more_splits(self) -> None:
        self.reader.notify_no_more_splits()

    def poll_next(self, output: ReaderOutput[Any]) -> Any:
        status = self.reader.poll_next(output)
        self.faults.reach("reader", any(250 <= split.next_number < 400 for split in self.reader.snapshot_state()))
        return status

    def snapshot_state(self) -> Sequence[Any]:
        return self.reader.snapshot_state()


class FailingSink(FolderSink):
    def __init__(self, folder: Path, faults: Faults) -> None:
        super().__init__(folder)
        self.faults = faults

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, Pending]:
        return FailingWriter(self.folder, context, self.faults)

    def create_committer(self, configuration: Configuration) -> Committer[Pending]:
        return FailingCommitter(self.folder, self.faults)


class FailingWriter(FolderWriter):
    def __init__(self, folder: Path, context: SinkWriterContext, faults: Faults) -> None:
        super().__init__(folder, context)
        self.faults = faults

    def write(self, value: Any, context: WriteContext) -> None:
        super().write(value, context)
        self.faults.reach("writer", value[1] == 50)

    def flush(self, end_of_input: bool) -> None:
        super().flush(end_of_input)
        self.faults.reach("flush of the writer", (self._folder.parent / "committed").exists())


class FailingCommitter(FolderCommitter):
    def __init__(self, folder: Path, faults: Faults) -> None:
        super().__init__(folder)
        self.faults = faults

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[Pending]]) -> None:
        self.faults.reach("committer", checkpoint_id >= 2)
        super().commit(checkpoint_id, requests[:1])
        self.faults.reach("committer, half-way", checkpoint_id >= 2 and len(requests) > 1)
        super().commit(checkpoint_id, requests)
        self.faults.reach("committer, after it", checkpoint_id >= 3)


def build(env: StreamExecutionEnvironment, output: Path, places: Iterable[str], *, always: bool = False) -> Faults:
    """Add the job to an environment; what is returned tells which failures happened."""
    faults = Faults(output / "faults", frozenset(places), always)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    strategy = strategy.with_timestamp_assigner(FailingTimestamps(faults))
    numbers = env.from_source(FailingSource(faults), strategy, "numbers").uid("numbers")
    keyed = numbers.key_by(lambda value: value % KEYS, key_type=Types.LONG())
    counts = keyed.process(FailingCount(faults), OUTPUT).name("count").uid("count")
    counts.sink_to(DeltaSink.for_table(str(output / "table")).build()).uid("table")
    counts.sink_to(FailingSink(output / "folder", faults)).name("folder").uid("folder")
    return faults
