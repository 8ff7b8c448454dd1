"""The elements of a channel, in order: runs of records, with control elements between them; and how operators emit records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from flinkish.common.types import columns_of, rows_of
from flinkish.runtime.protocol import Barrier


class Records(NamedTuple):
    """A run of records as parallel lists. `timestamps` is None if no record has one, `keys` is None if the edge is not keyed."""

    values: list[Any]
    timestamps: list[int | None] | None
    keys: list[Any] | None


class PackedRows(NamedTuple):
    """The pickled form of a run of rows of kind INSERT with the same fields; pickling single rows takes over twice the time."""

    fields: tuple[Any, ...] | None
    #: The values of each field; one field at least.
    columns: Sequence[Sequence[Any]]
    timestamps: list[int | None] | None
    keys: list[Any] | None


class Watermark(NamedTuple):
    """States that no more records with a timestamp up to this one (milliseconds) are expected on this channel."""

    timestamp: int


class WatermarkStatus(NamedTuple):
    """States whether the channel is idle, and so ignored for the watermark."""

    idle: bool


class CheckpointBarrier(NamedTuple):
    """Separates the elements that belong to a checkpoint from later ones."""

    barrier: Barrier


class EndOfInput(NamedTuple):
    """The end of the channel's input; only barriers may follow it."""


def pack(records: Records) -> Records | PackedRows:
    """Return the form of a run that is pickled."""
    found = columns_of(records.values)
    return records if found is None else PackedRows(*found, records.timestamps, records.keys)


def unpack(packed: PackedRows) -> Records:
    """Return the original run."""
    return Records(rows_of(packed.fields, packed.columns), packed.timestamps, packed.keys)


Element = Records | Watermark | WatermarkStatus | CheckpointBarrier | EndOfInput

#: Emits a record with its timestamp.
Emit = Callable[[Any, int | None], None]
#: Emits a run of records without timestamps. The values are created lazily, one after the other: each one passes the chain, and
#: is copied if it is mutable, before the next one is created.
EmitRun = Callable[[Iterable[Any]], None]
