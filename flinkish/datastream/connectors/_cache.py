"""The records of a cached stream in files: written by the job that computes them, read by later jobs of the program.

Each subtask writes its records with their timestamps to files of its own, one for each epoch with records. The list of valid
files is kept in operator state and committed at the end of the job. A later job reads each subtask's files in order.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from flinkish.common import pickling
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.connectors._sequences import FixedSplitsEnumerator, FixedSplitsSource, SequentialReader
from flinkish.program.sinks import CommitRequest, Committer, Sink, SinkWriter, SinkWriterContext, WriteContext
from flinkish.program.sources import Boundedness, ReaderOutput, SourceReaderContext, SourceSplit
from flinkish.udf.state import ListStateDescriptor

_LIST: Final = "files.json"
#: Number of records in a block, which is pickled as a whole.
_BLOCK_RECORDS: Final = 1_000
_FILES: Final = ListStateDescriptor("files", Types.TUPLE([Types.STRING(), Types.LONG()]))


@dataclass(frozen=True, slots=True)
class CacheFile:
    """A file of blocks in the cache's folder."""

    subtask: int
    name: str
    size: int


def committed_files(folder: Path) -> tuple[CacheFile, ...] | None:
    """Return the files of a cache in the order of writing; None if one was changed, or the list is not complete."""
    try:
        files = tuple(CacheFile(*fields) for fields in json.loads((folder / _LIST).read_text(encoding="utf-8")))
        intact = all((folder / file.name).stat().st_size == file.size for file in files)
    except OSError:
        return None
    return files if intact else None


@dataclass(frozen=True)
class CacheSink(Sink[Any, CacheFile]):
    """Fills a cache, which is complete when the job has ended."""

    committable_type = CacheFile

    folder: str

    def create_writer(self, context: SinkWriterContext) -> _CacheWriter:
        return _CacheWriter(Path(self.folder), context)

    def create_committer(self, configuration: Configuration) -> _CacheCommitter:
        return _CacheCommitter(Path(self.folder))


class _CacheWriter(SinkWriter[Any, CacheFile]):
    def __init__(self, folder: Path, context: SinkWriterContext) -> None:
        self._folder = folder
        self._subtask = context.subtask_index
        self._files = context.get_list_state(_FILES)
        self._file: IO[bytes] | None = None
        self._name = ""
        self._values: list[Any] = []
        self._timestamps: list[int | None] = []

    def write(self, value: Any, context: WriteContext) -> None:
        self._values.append(value)
        self._timestamps.append(context.timestamp)
        if len(self._values) >= _BLOCK_RECORDS:
            self._write_block()

    def _write_block(self) -> None:
        if self._file is None:
            # Each attempt of an epoch uses a new name: only the files listed by a successful attempt are ever read.
            descriptor, self._name = tempfile.mkstemp(prefix=f"{self._subtask}-", dir=self._folder)
            self._file = os.fdopen(descriptor, "wb")
        # By value, as the job that reads the file may not know the classes of the job script.
        block = pickling.dumps_by_value((self._values, self._timestamps))
        self._file.write(len(block).to_bytes(8, "little") + block)
        self._values, self._timestamps = [], []

    def end_epoch(self) -> None:
        if self._values:
            self._write_block()
        if self._file is not None:
            file, self._file = self._file, None
            size = file.tell()
            file.close()
            self._files.add((os.path.basename(self._name), size))

    def flush(self, end_of_input: bool) -> None:
        self.end_epoch()

    def prepare_commit(self) -> Sequence[CacheFile]:
        files = [CacheFile(self._subtask, name, size) for name, size in self._files.get()]
        self._files.clear()
        return files

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _CacheCommitter(Committer[CacheFile]):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[CacheFile]]) -> None:
        files = [dataclasses.astuple(request.committable) for request in requests]
        temporary = self._folder / f"{_LIST}.new"
        temporary.write_text(json.dumps(files), encoding="utf-8")
        os.replace(temporary, self._folder / _LIST)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSplit(SourceSplit):
    """The files of one subtask, with the position up to which they were read: file, start of the block, record within it."""

    files: tuple[str, ...]
    file: int = 0
    offset: int = 0
    record: int = 0


class _CacheEnumerator(FixedSplitsEnumerator[CacheSplit]):
    """Assigns all splits at the start: subtask i reads the files that subtask i wrote."""

    def start(self) -> None:
        while self._splits:
            split = self._splits.popleft()
            self._context.assign_split(split, int(split.split_id) % self._context.parallelism)
        for subtask in range(self._context.parallelism):
            self._context.signal_no_more_splits(subtask)


@dataclass(frozen=True)
class CacheSource(FixedSplitsSource[Any, CacheSplit]):
    """Reads a cache."""

    boundedness = Boundedness.BOUNDED
    split_type = CacheSplit
    enumerator = _CacheEnumerator

    folder: str
    files: tuple[CacheFile, ...]
    record_type: TypeInformation

    def produced_type(self) -> TypeInformation:
        return self.record_type

    def splits(self, parallelism: int) -> list[CacheSplit]:
        by_subtask: dict[int, list[str]] = {}
        for file in self.files:
            by_subtask.setdefault(file.subtask, []).append(file.name)
        return [CacheSplit(split_id=str(subtask), files=tuple(names)) for subtask, names in sorted(by_subtask.items())]

    def check_restored(self, splits: Sequence[CacheSplit], checkpoint: tuple[CacheSplit, ...] | None, *, trusted: bool) -> None:
        """Raise ForeignCheckpointError unless the splits belong to this cache, because the content of files is unpickled."""
        own = {file.name for file in self.files}
        foreign = {name for split in (*splits, *(checkpoint or ())) for name in split.files} - own
        if foreign:
            raise ForeignCheckpointError(
                f"the checkpoint was made while other files of the cached stream were read, such as {min(foreign)!r}",
                hint="a cache ends with the process that made it; start without the checkpoint.",
            )
        if not trusted:
            # a position may be forged, too: data in the middle of a block would be unpickled
            raise ForeignCheckpointError(
                "a position in a cached stream is not taken from a checkpoint that another key has signed",
                hint="give the source another uid, so that it starts from the beginning, and set "
                "execution.state-recovery.ignore-unclaimed-state.",
            )

    def create_reader(self, context: SourceReaderContext) -> _CacheReader:
        return _CacheReader(Path(self.folder))


class _CacheReader(SequentialReader[Any, CacheSplit]):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        #: The current block: values, timestamps, and the start of the next block.
        self._block: tuple[list[Any], list[int | None], int] | None = None

    def _read(self, split: CacheSplit, output: ReaderOutput[Any]) -> None:
        if split.file == len(split.files):
            self._finish(split, output)
            return
        if self._block is None:
            self._block = self._next_block(split)
        if self._block is None:
            self._update(dataclasses.replace(split, file=split.file + 1, offset=0))
            return
        values, timestamps, end = self._block
        last = min(len(values), split.record + max(1, output.credit))
        output.select_split(split.split_id)
        for index in range(split.record, last):
            output.collect(values[index], timestamps[index])
        if last == len(values):
            self._block = None
            self._update(dataclasses.replace(split, offset=end, record=0))
        else:
            self._update(dataclasses.replace(split, record=last))

    def _next_block(self, split: CacheSplit) -> tuple[list[Any], list[int | None], int] | None:
        with (self._folder / split.files[split.file]).open("rb") as file:
            file.seek(split.offset)
            length = file.read(8)
            if not length:
                return None
            values, timestamps = pickling.loads(file.read(int.from_bytes(length, "little")))
            return values, timestamps, file.tell()
