"""What travels on a channel, in order: runs of records between control elements."""

from __future__ import annotations

from typing import Any, NamedTuple

from flinkish.common.types import Row, RowKind, rows_of
from flinkish.runtime.protocol import Barrier


class Records(NamedTuple):
    """A run of records as parallel lists. `timestamps` is None if no record has one, `keys` where the edge is not keyed."""

    values: list[Any]
    timestamps: list[int | None] | None
    keys: list[Any] | None


class PackedRows(NamedTuple):
    """A run of rows of kind INSERT with the same fields, as it is pickled: row by row takes more than twice the time."""

    fields: tuple[Any, ...] | None
    values: list[list[Any]]
    timestamps: list[int | None] | None
    keys: list[Any] | None


class Watermark(NamedTuple):
    """No record with a timestamp up to this one (milliseconds) is to be expected any more on this channel."""

    timestamp: int


class WatermarkStatus(NamedTuple):
    """Whether the channel is idle and thus left out of the watermark."""

    idle: bool


class CheckpointBarrier(NamedTuple):
    """Separates what belongs to a checkpoint from what comes after it."""

    barrier: Barrier


class EndOfInput(NamedTuple):
    """Nothing comes after it but barriers."""


def pack(records: Records) -> Records | PackedRows:
    """Return what is pickled for a run."""
    values = records.values
    if values[0].__class__ is not Row:
        return records
    fields = values[0]._fields
    packed = [row._values for row in values if row.__class__ is Row and row._row_kind is RowKind.INSERT and row._fields == fields]
    return PackedRows(fields, packed, records.timestamps, records.keys) if len(packed) == len(values) else records


def unpack(packed: PackedRows) -> Records:
    """Return the run as it was."""
    return Records(rows_of(packed.fields, packed.values), packed.timestamps, packed.keys)


Element = Records | Watermark | WatermarkStatus | CheckpointBarrier | EndOfInput
