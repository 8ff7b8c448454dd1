"""Runs of records as columns of Arrow: what sources, operators and sinks pass on where no record is looked at in Python.

This module imports no Arrow by itself, which takes half a second: jobs without columns do without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkish.common import pickling

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkish.common.column_layout import Layout


@dataclass(slots=True, eq=False, repr=False)
class Columns:
    """A run of records of one declared type, all of kind INSERT and none of them None, as columns.

    `timestamps` are the event times in milliseconds, as an array of int64 in which null means none; None = no record has one.
    `key_fields` are the positions of the columns with the keys, on an edge by key: the values of one, or tuples of several; no
    positions = all records have the key 0. None = this is no edge by key.

    A `combined` run is no run of records: see runtime/operators/window/combining.py.
    """

    layout: Layout
    batch: pa.RecordBatch
    timestamps: pa.Array | None = None
    key_fields: tuple[int, ...] | None = None
    combined: bool = False

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def number_of_records(self) -> int:
        """How many records there are, or were before they were combined: then the column after the keys has the numbers."""
        if not self.combined:
            return len(self)
        import pyarrow.compute as pc

        assert self.key_fields is not None
        return int(pc.sum(self.column(len(self.key_fields))).as_py())

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes of the columns and timestamps."""
        return int(self.batch.nbytes) + (0 if self.timestamps is None else 8 * len(self))

    def column(self, position: int) -> pa.Array:
        return self.batch.column(position)

    def _part(self, choose: Callable[[Any], Any]) -> Columns:
        """Return the columns of some records; `choose` does the same to a batch and to an array."""
        timestamps = None if self.timestamps is None else choose(self.timestamps)
        return replace(self, batch=choose(self.batch), timestamps=timestamps)

    def take(self, places: Any) -> Columns:
        """Return the records at some positions: an array of integers of Arrow or numpy."""
        import pyarrow as pa

        indexes = pa.array(places)
        return self._part(lambda part: part.take(indexes))

    def filter(self, mask: pa.Array) -> Columns:
        """Return the records for which a boolean array is true; null counts as false, as in SQL."""
        return self._part(lambda part: part.filter(mask))

    def slice(self, start: int, length: int) -> Columns:
        return self._part(lambda part: part.slice(start, length))

    def only(self, fields: Collection[int]) -> Columns:
        """Return the same records with the values of some fields only; the others are null, and `UNREAD` in records."""
        import pyarrow as pa

        absent = pa.nulls(len(self))
        arrays = [column if position in fields else absent for position, column in enumerate(self.batch.columns)]
        return replace(self, batch=pa.RecordBatch.from_arrays(arrays, list(self.layout.names)))

    def with_key(self, key_fields: tuple[int, ...] | None) -> Columns:
        return replace(self, key_fields=key_fields)

    def with_times(self, timestamps: pa.Array | None) -> Columns:
        return replace(self, timestamps=timestamps)

    def records(self) -> list[Any]:
        """Return the records as Python objects."""
        return self.layout.records_of(self.batch)

    def times(self) -> list[int | None] | None:
        """Return the timestamps as ints; None if no record has one."""
        return None if self.timestamps is None else self.timestamps.to_pylist()

    def groups(self) -> tuple[Any, list[Any]]:
        """Return the number of each record's key, as an array of numpy, and the different keys by number; on an edge by key."""
        import numpy as np

        if not self.key_fields:
            return np.zeros(len(self), np.int32), [0]
        numbers, values = numbered([self.column(field) for field in self.key_fields])
        lists = [column.to_pylist() for column in values]
        return numbers, lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))

    def keys(self) -> list[Any] | None:
        """Return the keys as Python objects; None on an edge without keys."""
        if not self.key_fields:
            return None if self.key_fields is None else [0] * len(self)
        columns = [self.column(field).to_pylist() for field in self.key_fields]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def key_column(self, arrow: pa.DataType) -> pa.Array:
        """Return the keys as a column of the Arrow type of all keys; on an edge by key."""
        import pyarrow as pa

        if not self.key_fields:
            return pa.array([0] * len(self), arrow)
        columns = [self.column(field) for field in self.key_fields]
        return columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, fields=list(arrow))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the rows of this batch only: Arrow itself would write all of what it is a part of."""
        import pyarrow as pa

        arrays, names = list(self.batch.columns), list(self.batch.schema.names)
        if self.timestamps is not None:
            arrays.append(self.timestamps)
            names.append("")
        whole = pa.RecordBatch.from_arrays(arrays, names)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, whole.schema) as writer:
            writer.write_batch(whole)
        data = sink.getvalue().to_pybytes()
        return _unpickled, (self.layout.encoded, data, self.timestamps is not None, self.key_fields, self.combined)


@functools.lru_cache(maxsize=100)
def _layout(encoded: bytes) -> Layout:
    from flinkish.common.column_layout import needed_layout

    return needed_layout(pickling.loads(encoded), "a run of columns")


def _unpickled(encoded: bytes, data: bytes, timed: bool, key_fields: tuple[int, ...] | None, combined: bool) -> Columns:
    import pyarrow as pa

    (batch,) = pa.ipc.open_stream(data)
    if not timed:
        return Columns(_layout(encoded), batch, None, key_fields, combined)
    last = batch.num_columns - 1
    return Columns(_layout(encoded), batch.select(list(range(last))), batch.column(last), key_fields, combined)


def numbered(columns: Sequence[pa.Array]) -> tuple[Any, list[pa.Array]]:
    """Return the number of each row, as an array of numpy, and the values of each column by number; equal rows have the same."""
    import pyarrow as pa

    first, *others = [column.dictionary_encode() for column in columns]
    # The values of the columns so far, of which each pair has a number below the square of the number of rows.
    numbers, parts = first.indices.to_numpy(), [first.dictionary]
    for each in others:
        size = len(each.dictionary)
        pairs = pa.array(numbers.astype("int64") * size + each.indices.to_numpy()).dictionary_encode()
        numbers, chosen = pairs.indices.to_numpy(), pairs.dictionary.to_numpy()
        parts = [part.take(pa.array(chosen // size)) for part in parts]
        parts.append(each.dictionary.take(pa.array(chosen % size)))
    return numbers, parts


def slices_of(data: bytes, starts: Any, ends: Any) -> pa.Array:
    """Return the bytes from each start to its end: arrays of numpy with the same number of integers of 64 bits.

    Positions must not decrease: a slice begins where the one before it ends, or later.
    """
    import numpy as np
    import pyarrow as pa

    offsets = np.column_stack([starts, ends]).ravel()
    # The bytes between the slices are values, too, which are left out.
    both = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), max(0, len(offsets) - 1), both).take(pa.array(np.arange(0, len(offsets), 2)))


def concat(runs: Sequence[Columns]) -> Columns:
    """Return one run with the records of several of the same type and key fields, all combined or none; at least one."""
    import pyarrow as pa

    if len(runs) == 1:
        return runs[0]
    first = runs[0]
    times = None
    if any(run.timestamps is not None for run in runs):
        times = pa.concat_arrays([pa.nulls(len(run), pa.int64()) if run.timestamps is None else run.timestamps for run in runs])
    return replace(first, batch=pa.concat_batches([run.batch for run in runs]), timestamps=times)
