"""The driver's side of FLIP-27 sources: runs enumerators, and records the splits of each reader with their positions.

The recorded splits and positions are authoritative: readers in the tasks are rebuilt from them when they are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from flinkish.checkpoint.manifest import SourceState
from flinkish.common.clock import Clock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, SourceError
from flinkish.jobmaster.program_parts import SourceNode
from flinkish.jobmaster.source_coordinator import SourceCoordinator
from flinkish.jobmaster.wakeup import AsyncCalls, Post
from flinkish.program.sources import Source, SourceSplit, SplitEnumerator
from flinkish.runtime.protocol import ReaderCommand, ReaderReport, SplitState


@dataclass(slots=True)
class _Reader:
    """The coordinator's knowledge about the reader of one subtask."""

    splits: dict[str, SplitState] = field(default_factory=dict)
    no_more_splits: bool = False
    #: Its status after the last epoch.
    report: ReaderReport = field(default_factory=ReaderReport)
    #: Whether the reader has not yet been told of an assignment or signal.
    news: bool = False
    #: Whether the reader has requested a split and has not got an answer yet.
    waiting: bool = False
    #: How far it was told that it may read its splits; None if the source has no limits.
    limits: dict[str, int] | None = None

    def waits_for_group(self, max_watermark: int | None) -> bool:
        """Return whether the reader would read nothing with this limit."""
        watermark = self.report.watermark
        ahead = max_watermark is not None and watermark is not None and watermark > max_watermark
        return self.report.held_back and ahead

    def may_resume(self, max_watermark: int | None) -> bool:
        """Return whether the reader would read paused splits with this limit."""
        paused_from = self.report.paused_from
        return paused_from is not None and (max_watermark is None or max_watermark >= paused_from)


class EnumeratorCoordinator(SourceCoordinator):
    """Coordinates a FLIP-27 source; is also the context of its enumerator."""

    def __init__(self, node: SourceNode, configuration: Configuration, clock: Clock, post: Post, job_id: str = "") -> None:
        assert isinstance(node.source, Source)
        self.node = node
        #: Part of SplitEnumeratorContext.
        self.parallelism = node.parallelism
        self.configuration = configuration
        self.job_id = job_id
        self._source: Source[Any, Any, Any] = node.source
        self._readers = [_Reader() for _ in range(node.parallelism)]
        self._calls = AsyncCalls(f"{worker_thread(job_id)}{node.name}", clock, post)
        self._enumerator: SplitEnumerator[Any, Any] | None = None
        #: Watermark generators of restored splits, until the splits are handed out again.
        self._generators: dict[str, Any] = {}
        self._unassigned: set[str] = set()
        #: The watermark up to which readers may read, in milliseconds; None = no limit.
        self.max_watermark: int | None = None

    # -- the enumerator's context --------------------------------------------------------------------------------------------

    def assign_split(self, split: SourceSplit, subtask: int) -> None:
        reader = self._reader(subtask)
        if reader.no_more_splits:
            raise SourceError(
                f"{self.node.label}: split {split.split_id!r} was assigned to subtask {subtask} after signal_no_more_splits",
                hint="call signal_no_more_splits only when that subtask will get no further split.",
            )
        self._unassigned.discard(split.split_id)
        generator = self._generators.pop(split.split_id, None)
        reader.splits[split.split_id] = SplitState(
            split_id=split.split_id, split=msgspec.msgpack.encode(split), generator=generator
        )
        reader.news, reader.waiting = True, False

    def signal_no_more_splits(self, subtask: int) -> None:
        reader = self._reader(subtask)
        if not reader.no_more_splits:
            reader.no_more_splits, reader.news, reader.waiting = True, True, False

    def is_reading(self, subtask: int) -> bool:
        return bool(self._reader(subtask).splits)

    def assigned_splits(self) -> list[SourceSplit]:
        return [
            self._decode(state.split, self._source.split_type, f"split {name!r}")
            for reader in self._readers
            for name, state in reader.splits.items()
        ]

    def call_async(
        self,
        work: Callable[[], Any],
        handler: Callable[[Any, BaseException | None], None],
        *,
        initial_delay: int = 0,
        period: int | None = None,
    ) -> None:
        def handle(result: Any, error: BaseException | None) -> None:
            try:
                handler(result, error)
            except SourceError as raised:
                raise type(raised)(f"{self.node.label}: {raised}") from raised
            except Exception as raised:
                raise SourceError(f"{self.node.label}: a handler of call_async failed: {raised!r}") from raised

        self._calls.call(work, handle, initial_delay, period)

    def _reader(self, subtask: int) -> _Reader:
        if not 0 <= subtask < len(self._readers):
            raise SourceError(
                f"{self.node.label}: its enumerator named subtask {subtask}; there are subtasks 0 to {len(self._readers) - 1}"
            )
        return self._readers[subtask]

    # -- the JobMaster's side ------------------------------------------------------------------------------------------------

    def start(self, restored: SourceState | None, *, trusted: bool = True) -> None:
        if restored is None or restored.enumerator is None:
            self._enumerator = self._source.create_enumerator(self)
        else:
            checkpoint = self._decode(restored.enumerator, self._source.enumerator_checkpoint_type, "the enumerator's state")
            splits = [
                self._decode(state.split, self._source.split_type, f"split {state.split_id!r}") for state in restored.splits
            ]
            try:
                self._source.check_restored(splits, checkpoint, trusted=trusted)
            except ForeignCheckpointError as error:
                raise ForeignCheckpointError(f"{self.node.label}: {error}") from error
            self._enumerator = self._source.restore_enumerator(self, checkpoint)
            self._generators = {state.split_id: state.generator for state in restored.splits}
            self._unassigned = {state.split_id for state in restored.splits}
            if splits:
                self._enumerator.add_splits_back(splits, 0)
        self._enumerator.start()
        self._hand_out_restored()
        for subtask, reader in enumerate(self._readers):
            if not reader.splits and not reader.no_more_splits:
                self._request(subtask, reader)

    def _hand_out_restored(self) -> None:
        """Assign the splits that were being read at once, evenly, instead of one after the other.

        All of them must hold back the watermark from the start. If a split had to wait until another one is read to its end, its
        records would be late, although they were not before (this matters if the parallelism is lowered).
        """
        enumerator = self._enumerator
        assert enumerator is not None
        while self._unassigned:
            before = len(self._unassigned)
            for subtask, reader in enumerate(self._readers):
                if self._unassigned and not reader.no_more_splits:
                    enumerator.handle_split_request(subtask)
            if len(self._unassigned) == before:
                return

    @property
    def input_ready(self) -> bool:
        limit, limits = self.max_watermark, self._limits()

        def has_more(reader: _Reader) -> bool:
            more = reader.report.more_available or _limits_of(reader, limits) != reader.limits
            return reader.news or reader.may_resume(limit) or (more and not reader.waits_for_group(limit))

        return any(not reader.report.finished and has_more(reader) for reader in self._readers)

    @property
    def wants_poll(self) -> bool:
        limit, limited = self.max_watermark, self._limits() is not None
        return any(
            not reader.report.finished
            and ((not limited and (bool(reader.splits) or reader.no_more_splits)) or reader.report.awaits_idleness)
            and not reader.waits_for_group(limit)
            for reader in self._readers
        )

    def ends_within(self, credit: int) -> bool:
        if getattr(self._source.split_type, "records_left", None) in (None, SourceSplit.records_left):
            return False
        limits = self._limits()
        running = [reader for reader in self._readers if not reader.report.finished]
        return all(reader.no_more_splits and self._reads_all(reader, credit, limits) for reader in running)

    def _reads_all(self, reader: _Reader, credit: int, limits: Mapping[str, int] | None) -> bool:
        """Tell whether a reader has at most this many records to read, and may read them."""
        for name, state in reader.splits.items():
            left = self._decode(state.split, self._source.split_type, "a split").records_left
            if left is None or left > credit or (limits is not None and name not in limits):
                return False
            credit -= left
        return True

    def watermarks(self) -> list[int]:
        """Return the watermarks of the readers that have splits to read and are not idle."""
        active = (reader.report for reader in self._readers if reader.splits and not reader.report.finished)
        return [report.watermark for report in active if report.watermark is not None]

    def commands(self, credit: int) -> dict[int, ReaderCommand]:
        commands = {}
        limits = self._limits()
        for subtask, reader in enumerate(self._readers):
            reader.news = False
            reader.limits = _limits_of(reader, limits)
            commands[subtask] = ReaderCommand(
                splits=tuple(reader.splits.values()),
                credit=credit,
                no_more_splits=reader.no_more_splits,
                finished=reader.report.finished,
                max_watermark=self.max_watermark,
                limits=reader.limits,
            )
        return commands

    def _limits(self) -> Mapping[str, int] | None:
        return None if self._enumerator is None else self._enumerator.split_limits()

    def apply(self, subtask: int, report: ReaderReport) -> None:
        reader = self._readers[subtask]
        if reader.report.finished:
            return
        reader.report = report
        reader.splits = {state.split_id: state for state in report.splits}
        reader.waiting = reader.waiting or (report.wants_split and not report.finished)

    def after_epoch(self) -> None:
        for subtask, reader in enumerate(self._readers):
            if reader.waiting and not reader.report.finished and not reader.no_more_splits:
                self._request(subtask, reader)

    def _request(self, subtask: int, reader: _Reader) -> None:
        # One request each time that a reader runs out of splits, because the enumerator remembers waiting readers.
        reader.waiting = False
        assert self._enumerator is not None
        self._enumerator.handle_split_request(subtask)

    def snapshot(self, checkpoint_id: int) -> SourceState:
        assert self._enumerator is not None
        return SourceState(
            uid=self.node.uid,
            enumerator=msgspec.msgpack.encode(self._enumerator.snapshot_state(checkpoint_id)),
            splits=tuple(state for reader in self._readers for state in reader.splits.values()),
        )

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        if self._enumerator is not None:
            self._enumerator.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        self._calls.close()
        enumerator, self._enumerator = self._enumerator, None
        if enumerator is not None:
            enumerator.close()

    def _decode(self, data: bytes, wanted: Any, what: str) -> Any:
        try:
            return msgspec.msgpack.decode(data, type=wanted)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise ForeignCheckpointError(
                f"{self.node.label}: {what} in the checkpoint does not fit {wanted!r}: {error}",
                hint="the source's class has changed since then; give the source another uid to read from the beginning.",
            ) from error


def _limits_of(reader: _Reader, limits: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if limits is None else {name: limits[name] for name in reader.splits if name in limits}


def worker_thread(job_id: str) -> str:
    """Return the prefix of the names of the threads that run the `call_async` work of a job's enumerators."""
    return f"flinkish-source-{job_id[:8]}-"
