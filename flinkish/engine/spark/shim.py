"""The code in Spark's Python workers: takes rows, calls the slot's host, returns rows. No user code runs here.

Spark passes rows between levels, see `SCHEMA` in groups.py. A row for a later level than the running one is passed on; level -1
is for the driver.
"""

from __future__ import annotations

import base64
import gc
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from flinkish.engine.slots.hosts import HostConfig, call
from flinkish.engine.slots.messages import Call, PackedFrames, Reply, pack_columns
from flinkish.engine.spark.groups import Group, OnGroups, to_arrow
from flinkish.engine.spark.jvm import parent_jvm

if TYPE_CHECKING:
    #: A function for mapInArrow.
    _OnBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: Local property with the command of the epoch: "data:<base64>" or "file:<path>".
COMMAND_PROPERTY = "flinkish.command"
#: `level` of a row for the driver.
DRIVER = -1
#: `edge` of a row that only makes sure that the group of a slot is called at a level, even if it has no data.
WAKE = -1
#: `seq` of a row for the driver: an EpochReport, or the text of a defect.
REPORT, DEFECT = 0, 1

#: Maximum bytes of one row for the driver.
_PIECE_BYTES = 4 << 20

#: Bytes of a piece of what a native source gives.
_BATCH_BYTES = 1 << 20


def level_zero(config: HostConfig, levels: int) -> _OnBatches:
    """Return the function for mapInArrow: partition i of the tick source runs level 0 of slot i; the job has `levels` levels."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass  # the tick only shows that there is an epoch
        for packed in _call_level_zero(config, levels, _task_context().partitionId()):
            yield to_arrow(packed)

    return run


def no_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do nothing, as a function for mapInArrow."""
    for _ in batches:
        pass
    yield from ()


def level_above(config: HostConfig, level: int) -> OnGroups:
    """Return the function for applyInPandasWithState: the one group of a partition is its slot."""

    def run(group: Group) -> Iterator[PackedFrames]:
        slot = config.slot_values.index(group.slot_value)
        mine: list[PackedFrames] = []
        for packed in group.frames:
            here = [each == level for each in packed.ints(1)]
            if not all(here):
                yield packed.select([not each for each in here])
            chosen = packed.select([each and edge != WAKE for each, edge in zip(here, packed.ints(2), strict=True)])
            if chosen.rows:
                mine.append(chosen)
        command, command_file = _command(_task_context())
        request = Call(level=level, command=command, command_file=command_file, state=group.state, frames=mine)
        reply = call(config, slot, parent_jvm(), request)
        if reply.error is None:
            group.state = reply.state
        yield from reply.frames
        yield from _driver_rows(group.slot_value, level, reply)

    return OnGroups(run)


def level_zero_in_place(config: HostConfig, levels: int) -> OnGroups:
    """Return the function for applyInPandasWithState that runs level 0; the state of Spark is empty, see query.build."""

    def run(group: Group) -> Iterator[PackedFrames]:
        group.state = b""
        yield from _call_level_zero(config, levels, config.slot_values.index(group.slot_value))

    return OnGroups(run)


def _nothing(group: Group) -> Iterator[PackedFrames]:
    yield from ()


#: A function for applyInPandasWithState that does nothing.
nothing_in_place = OnGroups(_nothing)


def native_reader(config: HostConfig, edge: int, targets: Sequence[int]) -> _OnBatches:
    """Return the function for mapInArrow that sends the rows of a native source to the slots of its subtasks (`targets`).

    No user code runs here. Rows of one partition of Spark stay together and in order: they go to one slot.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition = _task_context().partitionId()
        slot_value = config.slot_values[targets[partition % len(targets)]]
        for seq, body in enumerate(piece for batch in batches for piece in _pieces(batch)):
            yield to_arrow(pack_columns([[slot_value], [1], [edge], [partition], [seq]], [body]))

    return run


def _pieces(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Return a batch in Arrow's stream format, in pieces of about a megabyte."""
    if not batch.num_rows:
        return
    rows = max(1, batch.num_rows * _BATCH_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch.slice(start, rows))
        yield sink.getvalue().to_pybytes()


def encode_command(command: bytes) -> str:
    """Return the value of COMMAND_PROPERTY that contains a command."""
    return "data:" + base64.b64encode(command).decode()


def encode_command_file(path: str) -> str:
    return "file:" + path


def decode_command(value: str) -> tuple[bytes, str | None]:
    """Return the command, or empty bytes and the file that contains it."""
    kind, _, text = value.partition(":")
    return (base64.b64decode(text), None) if kind == "data" else (b"", text)


def _call_level_zero(config: HostConfig, levels: int, slot: int) -> Iterator[PackedFrames]:
    command, command_file = _command(_task_context())
    reply = call(config, slot, parent_jvm(), Call(level=0, command=command, command_file=command_file))
    slot_value = config.slot_values[slot]
    yield from (*reply.frames, *_wake_rows(slot_value, levels), *_driver_rows(slot_value, 0, reply))


def _prepare_worker() -> None:
    """Prepare this Python worker in its first task, so that it is quick between two tasks, and quiet at its end.

    Between two tasks Spark's worker runs a full garbage collection, which took 43 ms with the modules of pandas, Arrow and
    PySpark, and which the task of the next level waits for. Frozen objects are left out.

    Spark closes the connection of a worker after 60 s without a task and when it stops. The worker then tries to report the end
    of its input as an error; over a Unix socket that fails at once, and its daemon prints the traceback. The daemon also prints
    one if the connection ends during a task, such as when Ctrl-C stops the job: nobody reads what the worker has left to send.
    """
    worker: Any = sys.modules.get("pyspark.worker")
    if worker is None or getattr(worker.handle_worker_exception, "flinkish", False):
        return
    gc.freeze()
    report, run_task = worker.handle_worker_exception, worker.main

    def handle(error: BaseException, outfile: IO[bytes], *args: Any, **kwargs: Any) -> None:
        between_tasks = [frame.name for frame in traceback.extract_tb(error.__traceback__)] == ["main", "read_int"]
        if between_tasks and isinstance(error, (EOFError, ConnectionError)):
            os._exit(0)
        report(error, outfile, *args, **kwargs)
        _flush_or_end(outfile)

    def main(infile: IO[bytes], outfile: IO[bytes]) -> None:
        run_task(infile, outfile)
        _flush_or_end(outfile)

    handle.flinkish = True  # type: ignore[attr-defined]
    worker.handle_worker_exception, worker.main = handle, main


def _flush_or_end(outfile: IO[bytes]) -> None:
    """Send what a worker has written, or end it if Spark has closed the connection."""
    try:
        outfile.flush()
    except ConnectionError:
        os._exit(1)


def _task_context() -> TaskContext:
    _prepare_worker()
    context = TaskContext.get()
    assert context is not None, "runs in a Spark task"
    return context


def _command(context: TaskContext) -> tuple[bytes, str | None]:
    value = context.getLocalProperty(COMMAND_PROPERTY)
    assert value is not None, f"foreachBatch sets {COMMAND_PROPERTY}"
    return decode_command(value)


def _wake_rows(slot_value: int, levels: int) -> Iterator[PackedFrames]:
    """Return rows that make Spark call this slot at every later level."""
    deeper = range(1, levels)
    if deeper:
        rows = len(deeper)
        yield pack_columns([[slot_value] * rows, deeper, [WAKE] * rows, [0] * rows, [0] * rows], [b""] * rows)


def _driver_rows(slot_value: int, level: int, reply: Reply) -> Iterator[PackedFrames]:
    """Return the rows for the driver: a report, which may contain records, in pieces that are numbered by `channel`."""
    kind, body = (REPORT, reply.report) if reply.error is None else (DEFECT, reply.error.encode())
    for piece, start in enumerate(range(0, max(1, len(body)), _PIECE_BYTES)):
        yield pack_columns([[slot_value], [DRIVER], [level], [piece], [kind]], [body[start : start + _PIECE_BYTES]])
