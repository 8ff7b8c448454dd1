"""A job script whose source, sink and records are classes of its own, so of `__main__`; started by test_main_classes.py.

Arguments: engine, folder. The first job fails once behind a completed checkpoint and must go on from there; a second one follows
in the same process.
"""

from __future__ import annotations

import enum
import functools
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.configuration import Configuration
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.base import (
    Boundedness,
    CommitRequest,
    Committer,
    InputStatus,
    ReaderOutput,
    Sink,
    SinkWriter,
    SinkWriterContext,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
    WriteContext,
)
from flinkish.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor

KEYS = 3


class Parity(enum.Enum):
    EVEN = 0
    ODD = 1


class Position(NamedTuple):
    next: int


class Note(TypedDict):
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers(SourceSplit):
    position: Position
    parity: Parity
    note: Note


@dataclass(frozen=True)
class Waiting:
    splits: list[Numbers]


@dataclass(frozen=True)
class Written:
    values: list[int]
    parity: Parity


@dataclass
class Reading:
    number: int
    parity: Parity


class NumberSource(Source[Reading, Numbers, Waiting]):
    """Two splits, the even and the odd numbers, read until the folder says that it is enough."""

    split_type = Numbers
    enumerator_checkpoint_type = Waiting
    boundedness = Boundedness.BOUNDED

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_enumerator(self, context: SplitEnumeratorContext[Numbers]) -> Enumerator:
        self.client = threading.Lock()
        note: Note = {"text": "made"}
        splits = [Numbers(split_id=parity.name, position=Position(parity.value), parity=parity, note=note) for parity in Parity]
        return Enumerator(context, splits)

    def restore_enumerator(self, context: SplitEnumeratorContext[Numbers], checkpoint: Waiting) -> Enumerator:
        return Enumerator(context, checkpoint.splits)

    def create_reader(self, context: SourceReaderContext) -> Reader:
        return Reader(self.folder)


class Enumerator(SplitEnumerator[Numbers, Waiting]):
    def __init__(self, context: SplitEnumeratorContext[Numbers], splits: list[Numbers]) -> None:
        self.context = context
        self.splits = list(splits)

    def handle_split_request(self, subtask: int) -> None:
        if self.splits:
            self.context.assign_split(self.splits.pop(0), subtask)
        else:
            self.context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: Sequence[Numbers], subtask: int) -> None:
        self.splits += splits

    def snapshot_state(self, checkpoint_id: int) -> Waiting:
        return Waiting(self.splits)


class Reader(SourceReader[Reading, Numbers]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.splits: list[Numbers] = []
        self.no_more = False

    def add_splits(self, splits: Sequence[Numbers]) -> None:
        self.splits += splits

    def notify_no_more_splits(self) -> None:
        self.no_more = True

    def poll_next(self, output: ReaderOutput[Reading]) -> InputStatus:
        if not self.splits:
            return InputStatus.END_OF_INPUT if self.no_more else InputStatus.NOTHING_AVAILABLE
        split = self.splits[0]
        number = split.position.next
        output.select_split(split.split_id)
        output.collect(Reading(number, split.parity))
        self.splits[0] = replace(split, position=Position(number + 2))
        if (self.folder / "enough").exists():
            del self.splits[0]
            output.split_finished(split.split_id)
            return InputStatus.MORE_AVAILABLE
        return InputStatus.NOTHING_AVAILABLE

    def snapshot_state(self) -> Sequence[Numbers]:
        return list(self.splits)


class FileOfNumbers(Sink[Any, Written]):
    committable_type = Written

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_writer(self, context: SinkWriterContext) -> Writer:
        return Writer()

    def create_committer(self, configuration: Configuration) -> Appender:
        self.client = threading.Lock()
        return Appender(self.folder)


class Writer(SinkWriter[Any, Written]):
    def __init__(self) -> None:
        self.values: dict[Parity, list[int]] = {parity: [] for parity in Parity}

    def write(self, value: Any, context: WriteContext) -> None:
        self.values[value.parity].append(value.number)

    def prepare_commit(self) -> Sequence[Written]:
        prepared = [Written(values, parity) for parity, values in self.values.items() if values]
        self.values = {parity: [] for parity in Parity}
        return prepared


class Appender(Committer[Written]):
    """One file a checkpoint, so that a repeated commit changes nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[Written]]) -> None:
        assert all(request.committable.parity.__class__ is Parity for request in requests)
        numbers = [number for request in requests for number in request.committable.values]
        if numbers:
            (self.folder / f"committed-{checkpoint_id}").write_text("\n".join(map(str, numbers)), encoding="utf-8")


@functools.lru_cache(maxsize=100)
def remainder(number: int) -> int:
    return number % KEYS


@functools.singledispatch
def number_of(value: Any) -> int:
    raise TypeError(value)


@number_of.register
def _(value: Reading) -> int:
    return value.number


class Half:
    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    @functools.cached_property
    def of_it(self) -> float:
        return self.reading.number / 2


class FailOnceCommitted(MapFunction):
    """Fails once something is committed, and says that it is enough when it runs again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def map(self, value: Reading) -> Reading:
        if any(self.folder.glob("committed-*")):
            if not (self.folder / "failed").exists():
                (self.folder / "failed").touch()
                raise RuntimeError("once")
            (self.folder / "enough").touch()
        assert Half(value).of_it * 2 == number_of(value)
        return value


class Count(KeyedProcessFunction):
    """Passes on what comes; its state is an object of a class of the script."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Reading, ctx: KeyedProcessFunction.Context) -> Iterator[Reading]:
        last = self.last.value()
        assert last is None or (type(last) is Reading and remainder(last.number) == ctx.get_current_key())
        self.last.update(value)
        yield value


def run(engine: str, folder: Path) -> None:
    folder.mkdir()
    settings = {
        "execution.engine": engine,
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.interval": "20 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "security.checkpoint.hmac-key-file": str(folder.parent / "key"),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(2)
    numbers = env.from_source(NumberSource(folder), WatermarkStrategy.no_watermarks(), "numbers")
    counted = numbers.map(FailOnceCommitted(folder)).key_by(lambda value: remainder(value.number)).process(Count())
    counted.sink_to(FileOfNumbers(folder))
    env.execute("classes of the script")
    assert (folder / "failed").exists(), "the job did not fail"
    committed = [int(line) for path in folder.glob("committed-*") for line in path.read_text(encoding="utf-8").split()]
    for parity in Parity:
        mine = sorted(number for number in committed if number % 2 == parity.value)
        assert mine == list(range(parity.value, parity.value + 2 * len(mine), 2)), mine
        assert mine


if __name__ == "__main__":
    for job in ("first", "second"):
        run(sys.argv[1], Path(sys.argv[2]) / job)
    print("exact")
