"""Dead letters of one subtask: rows of records that would be lost, on their way to the table of the job.

The rows wait in state, or in files that no commit names yet, until the next checkpoint; its committables name them. So they are
not part of what a checkpoint stores of an operator: a job may be restored with the option on or off, and at any parallelism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import msgspec

from flinkish.common import options, pickling
from flinkish.common.errors import FlinkishError, SinkError
from flinkish.common.ids import OperatorUid
from flinkish.common.time import Instant
from flinkish.common.types import Row, RowKind
from flinkish.graph.stream_graph import StreamNode
from flinkish.metrics import Counter, MetricGroup
from flinkish.program.dead_letters import (
    DEAD_LETTERS_METRIC,
    DEAD_LETTERS_UID,
    DROPPED,
    LATE,
    RAW_OF_SOURCE,
    RAW_PICKLED,
    REFUSED,
    ROW_TYPE,
    UNDECODABLE,
    BadRecord,
    DeadLetters,
)
from flinkish.program.operators import IntervalJoinConfig, SourceConfig, WindowConfig
from flinkish.program.sinks import SinkWriter, WriteContext
from flinkish.runtime.operators.base import OperatorContext
from flinkish.runtime.operators.sink import WriterContext
from flinkish.runtime.protocol import MIN_WATERMARK, TaskProgram
from flinkish.runtime.state.codec import to_json
from flinkish.runtime.state.level_state import OperatorState

#: Rows with more than about this many bytes go to a file before the checkpoint, so that they fill neither memory nor state.
_FILE_BYTES: Final = 16 << 20
#: About how many bytes a row takes in addition to the record itself.
_ROW_BYTES: Final = 500
#: Maximum number of characters of a value that has no JSON form.
_SHOWN: Final = 2_000
#: Operators that may drop records, so that their metric is there from the start.
_MAY_DROP = (SourceConfig, WindowConfig, IntervalJoinConfig)

#: Sends values to the driver: operator, destination, values, and the watermark before them.
ToDriver = Callable[[OperatorUid, str, list[Any], int | None], None]


class SubtaskDeadLetters:
    """Keeps the dead letters of a chain of operators if the job has a table for them, else notes that there were some."""

    def __init__(self, program: TaskProgram, subtask: int, to_driver: ToDriver) -> None:
        self.job = program.job_name, program.job_id
        self.subtask = subtask
        self.to_driver = to_driver
        self._sink = program.dead_letters
        self._writer: SinkWriter[Any, Any] | None = None
        self._context = WriteContext(timestamp=None, watermark=MIN_WATERMARK)
        self._now: Callable[[], int]
        self._checkpoint_id: int | None = None
        self._dropped_at: Instant | None = None
        #: Bytes of the rows of this epoch, and of all rows that wait to be written to a file.
        self._epoch_bytes = 0
        self._waiting_bytes = 0

    def open(self, head: OperatorContext, state: OperatorState, metrics: MetricGroup) -> None:
        """Create the writer if the job has a table; `head` is the context of the subtask's first operator."""
        self._now = head.time.now
        if self._sink is not None:
            node = replace(head.node, uid=DEAD_LETTERS_UID, input_types=(ROW_TYPE,))
            with _named_errors():
                self._writer = self._sink.create_writer(WriterContext(replace(head, node=node, state=state, metrics=metrics)))

    def of(self, node: StreamNode, metrics: MetricGroup) -> DeadLetters:
        """Return what takes the dead letters of one operator; `metrics` is its group."""
        return _Dropped(self, node) if self._sink is None else _Kept(self, node, metrics)

    def write(self, row: tuple[Any, ...], size: int) -> None:
        """Write the columns up to `watermark`, and those from `message_key` to `json`, of a row with about `size` bytes."""
        assert self._writer is not None
        if self._dropped_at is None:
            self._dropped_at = Instant.of_epoch_milli(self._now())
        self._epoch_bytes += size + _ROW_BYTES
        self._writer.write((*row[:12], self._dropped_at, *row[12:], self._checkpoint_id), self._context)

    def begin_epoch(self, checkpoint_id: int | None) -> None:
        """Begin an epoch; `checkpoint_id` is the checkpoint that covers its records, None if the job takes none."""
        self._checkpoint_id = checkpoint_id
        self._dropped_at = None
        self._epoch_bytes = 0

    def buffered_bytes(self) -> int:
        """Return about how many bytes of this epoch are in memory; if they are many, the sources pause."""
        return self._epoch_bytes

    def end_epoch(self) -> None:
        """Put the rows of the epoch into state, or into files if they are many."""
        if self._writer is None or not self._epoch_bytes:
            return
        self._waiting_bytes += self._epoch_bytes
        with _named_errors():
            if self._waiting_bytes >= _FILE_BYTES:
                self._writer.flush(False)
                self._waiting_bytes = 0
            self._writer.end_epoch()

    def prepare_commit(self, *, end_of_input: bool) -> tuple[bytes, ...]:
        """Return the encoded committables of all rows so far, which a checkpoint, or the end of the job, commits."""
        if self._writer is None:
            return ()
        with _named_errors():
            self._writer.flush(end_of_input)
            self._waiting_bytes = self._epoch_bytes = 0
            return tuple(msgspec.msgpack.encode(committable) for committable in self._writer.prepare_commit())


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except FlinkishError as error:
        raise SinkError(f"the dead letters ({options.DEAD_LETTERS_DIR.key}) cannot be written: {error}") from error


class _Kept(DeadLetters):
    """Makes rows of the dead letters of an operator."""

    def __init__(self, subtask: SubtaskDeadLetters, node: StreamNode, metrics: MetricGroup) -> None:
        self.on = True
        self._subtask = subtask
        self._origin = *subtask.job, str(node.uid), node.name, subtask.subtask
        self._metrics = metrics
        self._counter: Counter | None = None
        if isinstance(node.operator, _MAY_DROP):
            self._counter = metrics.counter(DEAD_LETTERS_METRIC)

    def undecodable(self, record: BadRecord, watermark: int) -> None:
        where = None if record.source is None else storable(record.source), record.position, record.unit
        headers = None
        if record.headers is not None:
            headers = [Row(key=key, value=value) for key, value in record.headers]
        forms = record.raw, None if record.raw is None else RAW_OF_SOURCE, record.json
        self._write(UNDECODABLE, storable(record.reason), where, record.timestamp, watermark, (record.key, headers), forms)

    def late(self, value: Any, timestamp: int | None, watermark: int, reason: str) -> None:
        self._write(LATE, reason, (None, None, None), timestamp, watermark, (None, None), forms_of(value))

    def refused(self, value: Any, timestamp: int | None, watermark: int, reason: str) -> None:
        self._write(REFUSED, storable(reason), (None, None, None), timestamp, watermark, (None, None), forms_of(value))

    def dropped(self, kind: str) -> None:
        """Do nothing: what is dropped here was asked for."""

    def _write(
        self,
        kind: str,
        reason: str,
        where: tuple[Any, ...],
        timestamp: int | None,
        watermark: int,
        key_and_headers: tuple[Any, ...],
        forms: tuple[bytes | None, str | None, str | None],
    ) -> None:
        if self._counter is None:
            self._counter = self._metrics.counter(DEAD_LETTERS_METRIC)
        self._counter.inc()
        times = timestamp, None if watermark == MIN_WATERMARK else watermark
        raw, _, json = forms
        # In the order of COLUMNS.
        row = (kind, reason, *self._origin, *where, *times, *key_and_headers, *forms)
        self._subtask.write(row, len(raw or b"") + len(json or ""))


def forms_of(value: Any) -> tuple[bytes | None, str | None, str | None]:
    """Return the columns `raw`, `raw_format` and `json` of a value."""
    json, raw = to_json(value), None
    if json is None:
        json, raw = to_json(_shown(value)), pickling.dumps(value)
    elif not _says_all(value):
        raw = pickling.dumps(value)
    return raw, None if raw is None else RAW_PICKLED, json


def _says_all(value: Any) -> bool:
    """Return whether the JSON of a value shows all of it. JSON has no NaN, infinity, kinds of rows and parts of milliseconds."""
    match value:
        case float():
            return math.isfinite(value)
        case Instant():
            return value.nanos % 1_000_000 == 0
        case Row():
            return value.get_row_kind() is RowKind.INSERT and all(map(_says_all, value))
        case list() | tuple() | set() | frozenset():
            return all(map(_says_all, value))
        case dict():
            # Keys become texts: 1 and "1" are the same one.
            return len(set(map(type, value))) <= 1 and all(map(_says_all, value)) and all(map(_says_all, value.values()))
        case _:
            return True


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"{type(value).__qualname__}, whose repr() raised {type(error).__name__}"
    return storable(text[:_SHOWN])


def storable(text: str) -> str:
    """Return a text without lone surrogates, which have no UTF-8; a file name or a bad line may have some."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class _Dropped(DeadLetters):
    """Tells the driver, once, that an operator drops records; the driver logs it."""

    def __init__(self, subtask: SubtaskDeadLetters, node: StreamNode) -> None:
        self.on = False
        self._to_driver = subtask.to_driver
        self._uid, self._name = node.uid, node.name
        self._told = False

    def undecodable(self, record: BadRecord, watermark: int) -> None:
        self.dropped(UNDECODABLE)

    def late(self, value: Any, timestamp: int | None, watermark: int, reason: str) -> None:
        self.dropped(LATE)

    def refused(self, value: Any, timestamp: int | None, watermark: int, reason: str) -> None:
        raise AssertionError("without a table, the error of the sink fails the job")

    def dropped(self, kind: str) -> None:
        if not self._told:
            self._told = True
            self._to_driver(self._uid, DROPPED, [(self._name, kind)], None)
