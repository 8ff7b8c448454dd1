"""What travels on a channel, in order: runs of records between control elements."""

from __future__ import annotations

from typing import Any, NamedTuple

from flinkish.runtime.protocol import Barrier


class Records(NamedTuple):
    """A run of records as parallel lists. `timestamps` is None if no record has one, `keys` where the edge is not keyed."""

    values: list[Any]
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


class LatencyMarker(NamedTuple):
    """Carries the wall-clock time in milliseconds at which a source emitted it."""

    marked_time: int
    source: str


class EndOfInput(NamedTuple):
    """Nothing comes after it but barriers."""


Element = Records | Watermark | WatermarkStatus | CheckpointBarrier | LatencyMarker | EndOfInput
