"""The driver's side of sources that the engine reads: their positions, and one watermark for each."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flinkish.checkpoint.manifest import SourceState
from flinkish.common.errors import ForeignCheckpointError
from flinkish.jobmaster.epochs import NativePosition
from flinkish.jobmaster.program_parts import SourceNode
from flinkish.jobmaster.source_coordinator import SourceCoordinator
from flinkish.program.sources import NativeSource
from flinkish.runtime.protocol import MIN_WATERMARK, ReaderCommand, ReaderReport


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The state of such a source in a checkpoint."""

    schema: str
    offsets: tuple[str | None, ...]
    files: dict[str, bytes]
    #: The watermark of the whole source, in milliseconds.
    watermark: int | None = None


class NativeSourceCoordinator(SourceCoordinator):
    """Coordinates a source that the engine reads; see NativeSource.

    Its watermark is the highest one that the generators of its subtasks have emitted in earlier epochs. So a strategy's bound is
    relative to the latest record of the whole source, as in Spark's withWatermark.
    """

    def __init__(self, node: SourceNode) -> None:
        assert isinstance(node.source, NativeSource)
        self.node = node
        self._schema = node.source.schema
        #: The last report of each subtask.
        self._subtasks = [ReaderReport()] * node.parallelism
        #: Positions before and after the current or next epoch.
        self._before: tuple[str | None, ...] | None = None
        self._after: NativePosition | None = None
        #: Position from which the attempt reads; None = from the beginning of the source.
        self.start_position: NativePosition | None = None
        self._files: Mapping[str, bytes] = {}
        self._watermark: int | None = None
        #: Watermark and idleness in the last command.
        self._told: tuple[int | None, bool] = (None, False)

    def start(self, restored: SourceState | None, *, trusted: bool = True) -> None:
        if restored is None or restored.enumerator is None:
            return
        try:
            stored = msgspec.msgpack.decode(restored.enumerator, type=_Stored)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise ForeignCheckpointError(
                f"{self.node.label}: the checkpoint holds the position of another kind of source, not of a DataFrame: {error}",
                hint="give the source another uid to read from the beginning.",
            ) from error
        if stored.schema != self._schema:
            raise ForeignCheckpointError(
                f"{self.node.label}: the DataFrame has the columns {self._schema}; in the checkpoint it had {stored.schema}",
                hint="select the columns that it had, or give the source another uid to read from the beginning.",
            )
        if not trusted:
            raise ForeignCheckpointError(
                f"{self.node.label}: a position in Spark's source is not taken from a checkpoint that another key has signed",
                hint="to read from the beginning, give the source another uid, and set "
                "execution.state-recovery.ignore-unclaimed-state.",
            )
        self._watermark = stored.watermark
        self.start_position = NativePosition(offsets=stored.offsets, files=lambda: stored.files)
        self._before = stored.offsets

    def reads(self, position: NativePosition) -> None:
        """Set the position up to which the next epoch reads."""
        self._after = position

    @property
    def input_ready(self) -> bool:
        finished = all(subtask.finished for subtask in self._subtasks)
        brings_records = self._after is not None and self._after.offsets != self._before
        return not finished and (brings_records or self._told != (self._watermark, self._idle))

    @property
    def wants_poll(self) -> bool:
        return any(subtask.awaits_idleness for subtask in self._subtasks)

    @property
    def _idle(self) -> bool:
        return all(subtask.idle for subtask in self._subtasks)

    def commands(self, credit: int) -> dict[int, ReaderCommand]:
        self._told = (self._watermark, self._idle)
        return {
            index: ReaderCommand(
                splits=subtask.splits,
                credit=credit,
                no_more_splits=False,
                finished=subtask.finished,
                watermark=self._watermark,
                idle=self._idle,
            )
            for index, subtask in enumerate(self._subtasks)
        }

    def apply(self, subtask: int, report: ReaderReport) -> None:
        self._subtasks[subtask] = report
        if report.watermark is not None:
            self._watermark = max(self._watermark if self._watermark is not None else MIN_WATERMARK, report.watermark)

    def after_epoch(self) -> None:
        """Make the end of the epoch the new start."""
        if self._after is not None:
            self._before = self._after.offsets

    def prepare_snapshot(self) -> None:
        """Read the engine's files for the epoch that begins and ends with a checkpoint."""
        if self._after is not None:
            self._files = self._after.files()

    def snapshot(self, checkpoint_id: int) -> SourceState:
        assert self._after is not None, "the engine sets the position before each epoch"
        stored = _Stored(schema=self._schema, offsets=self._after.offsets, files=dict(self._files), watermark=self._watermark)
        return SourceState(uid=self.node.uid, enumerator=msgspec.msgpack.encode(stored))
