"""Groups of applyInPandasWithState without pandas: what Spark's JVM sends to a Python worker and takes from it, in Arrow.

Spark's own reader makes pandas frames of the rows and of their state, and its writer makes Arrow of such frames: 15 ms of CPU a
task, as a slot has a handful of rows, and 0.3 s to import pandas. No setting replaces the two. So a function of ours puts others
in their place when a worker unpickles it, for that task. The layout is that of ApplyInPandasWithStateSerializer in PySpark 4.2.

Arrays are made of buffers, because pyarrow imports pandas to make one of Python's values.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.serializers import SpecialLengths, write_int
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from flinkish.common import pickling
from flinkish.common.errors import EngineError
from flinkish.engine.slots.messages import PackedFrames, pack_columns

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

COLUMNS = ("slot", "level", "edge", "channel", "seq", "body")
#: Rows between levels. The JVM would have to parse a schema that is a text, for each operator.
SCHEMA = StructType([StructField(name, BinaryType() if name == "body" else IntegerType()) for name in COLUMNS])
#: State of a group: Spark 4.2 does not support an ARRAY or MAP there, and lower-cases field names.
STATE_SCHEMA = StructType([StructField("log", BinaryType())])

_ARROW_SCHEMA = pa.schema([(name, pa.int32()) for name in COLUMNS[:-1]] + [("body", pa.binary())])
# What the JVM takes: in the first value, how many rows and how many states are in the batch; rows; states.
_COUNTS = [pa.field("dataCount", pa.int32()), pa.field("stateCount", pa.int32())]
_ROWS = list(_ARROW_SCHEMA)
_STATES = [
    *(pa.field("properties", pa.string()), pa.field("keyRowAsUnsafe", pa.binary()), pa.field("object", pa.binary())),
    pa.field("oldTimeoutTimestamp", pa.int64()),
]


class Group:
    """The rows of a slot in an epoch, and the state that Spark keeps for it."""

    def __init__(self, sent: dict[str, Any]) -> None:
        """`sent`: what the JVM has sent with the first rows of the group."""
        self._properties = json.loads(sent["properties"])
        self._key: bytes = sent["keyRowAsUnsafe"]
        #: The state as the JVM pickles it: a row of one field.
        self._pickled: bytes | None = sent["object"]
        #: At least the column `slot`.
        self.rows: list[pa.RecordBatch] = []

    @property
    def slot_value(self) -> int:
        return int(self.rows[0].column("slot")[0].as_py())

    @property
    def frames(self) -> list[PackedFrames]:
        return [
            pack_columns([rows.column(name).to_pylist() for name in COLUMNS[:-1]], rows.column("body").to_pylist())
            for rows in self.rows
        ]

    @property
    def state(self) -> bytes | None:
        return bytes(pickling.loads(self._pickled)[0]) if self._pickled else None

    @state.setter
    def state(self, state: bytes) -> None:
        self._pickled = pickling.dumps((state,))
        self._properties.update(defined=True, updated=True, removed=False)

    def to_arrow(self) -> pa.RecordBatch:
        """Return what the JVM is told about the state."""
        properties = json.dumps(self._properties | {"optionalValue": None}).encode()
        kept = pa.nulls(1, pa.binary()) if self._pickled is None else _bytes(pa.binary(), self._pickled)
        timeout = _ints(pa.int64(), array("q", [self._properties["timeoutTimestamp"]]))
        state = [_bytes(pa.string(), properties), _bytes(pa.binary(), self._key), kept, timeout]
        return _answer(0, 1, pa.nulls(1, pa.struct(_ROWS)), pa.StructArray.from_arrays(state, fields=_STATES))


@dataclass
class OnGroups:
    """A function for applyInPandasWithState that is given a group and yields frames; the state follows the last of them."""

    function: Callable[[Group], Iterator[PackedFrames]]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code.co_name == "read_udfs":
                # Spark's worker calls the two one after the other, with what it reads from and what it writes to.
                serializer = frame.f_locals["ser"]
                serializer.load_stream, serializer.dump_stream = self._keep, self._run

    def __call__(self, key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> NoReturn:
        """Refuse what no task of PySpark 4.2 does, as no rows go through Spark's own reader."""
        raise EngineError(
            "Spark's Python worker reads rows in a way that this version of flinkish does not know",
            hint="install the version of PySpark that flinkish requires.",
        )

    def _keep(self, stream: IO[bytes]) -> Iterator[Any]:
        self._input = stream
        return iter(())

    def _run(self, _: object, stream: IO[bytes]) -> None:
        writer = None
        try:
            for group in read_groups(self._input):
                for batch in self._results(group):
                    if writer is None:  # not before: an error before the first batch is not sent as Arrow
                        write_int(SpecialLengths.START_ARROW_STREAM, stream)  # type: ignore[no-untyped-call]
                        writer = pa.RecordBatchStreamWriter(stream, batch.schema)
                    writer.write_batch(batch)
        finally:
            # The JVM takes what follows for Arrow until the stream ends, also the error that the worker reports.
            if writer is not None:
                writer.close()

    def _results(self, group: Group) -> Iterator[pa.RecordBatch]:
        for packed in self.function(group):
            if not packed.rows:
                continue  # the JVM needs a first row, for the counts
            rows = pa.StructArray.from_arrays(to_arrow(packed).columns, fields=_ROWS)
            yield _answer(packed.rows, 0, rows, pa.nulls(packed.rows, pa.struct(_STATES)))
        yield group.to_arrow()


def read_groups(stream: IO[bytes]) -> Iterator[Group]:
    """Yield the groups that the JVM sends; raises EngineError if the last one is cut off.

    The last column of a batch describes its groups: each has its rows one after the other, perhaps in several batches.
    """
    group: Group | None = None
    for batch in pa.ipc.open_stream(stream):
        for described in batch.column(batch.num_columns - 1):
            sent = described.as_py()
            if sent is None:
                break
            if group is None:
                group = Group(sent)
            group.rows.append(batch.slice(sent["startOffset"], sent["numRows"]))
            if sent["isLastChunk"]:
                yield group
                group = None
    if group is not None:
        raise EngineError("Spark has sent only a part of the rows of a slot")


def to_arrow(packed: PackedFrames) -> pa.RecordBatch:
    """Create a record batch from the buffers, without a copy."""
    ints = [pa.Array.from_buffers(pa.int32(), packed.rows, [None, pa.py_buffer(packed.column(index))]) for index in range(5)]
    body = pa.Array.from_buffers(pa.binary(), packed.rows, [None, pa.py_buffer(packed.offsets), pa.py_buffer(packed.data)])
    return pa.RecordBatch.from_arrays([*ints, body], schema=_ARROW_SCHEMA)


def _answer(rows: int, states: int, data: pa.Array, described: pa.Array) -> pa.RecordBatch:
    counts = [_ints(pa.int32(), array("i", [count]) * len(data)) for count in (rows, states)]
    counted = pa.StructArray.from_arrays(counts, fields=_COUNTS)
    return pa.RecordBatch.from_arrays([counted, data, described], names=["_0", "_1", "_2"])


def _ints(kind: pa.DataType, values: array[int]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _bytes(kind: pa.DataType, value: bytes) -> pa.Array:
    """Return an array of one value."""
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(array("i", [0, len(value)])), pa.py_buffer(value)])
