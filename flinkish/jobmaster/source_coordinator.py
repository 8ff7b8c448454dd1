"""The driver's side of sources: runs enumerators, and records the splits of each reader with their positions.

The recorded splits and positions are authoritative: readers in the tasks are rebuilt from them when they are lost. All calls come
from the JobMaster's thread (that of begin_epoch and finish_epoch).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from flinkish.checkpoint.manifest import SourceState
from flinkish.common.clock import Clock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, SourceError
from flinkish.common.sizes import rough_size
from flinkish.jobmaster.admission import AdmissionSettings
from flinkish.jobmaster.async_calls import AsyncCalls, Post
from flinkish.jobmaster.native_coordinator import NativeSourceCoordinator
from flinkish.jobmaster.program_parts import SourceNode
from flinkish.program.sources import DriverReader, DriverSource, NativeSource, Source, SourceSplit, SplitEnumerator
from flinkish.runtime.protocol import ReaderCommand, ReaderReport, SplitState

_log = logging.getLogger("flinkish.jobmaster.sources")

#: Longest single wait of the thread that waits for a driver-side reader; the thread can be stopped only between two waits.
_DRIVER_WAIT_MS = 500

#: Number of records that are taken from a driver-side source before their size is known.
_FIRST_POLL = 100

#: The enumerator state of a driver-side source whose input has ended.
_ENDED = msgspec.msgpack.encode({"ended": True})


class SourceCoordinator(Protocol):
    """The operations that the JobMaster needs from each source."""

    node: SourceNode

    def start(self, restored: SourceState | None, *, trusted: bool = True) -> None:
        """Begin an attempt, from a checkpoint if there is one; `trusted` = our key signed it.

        Raises ForeignCheckpointError if the state in the checkpoint is not of this source.
        """
        ...

    def refresh(self) -> None:
        """Check for new input; called before each decision about an epoch."""
        ...

    @property
    def input_ready(self) -> bool:
        """Whether an epoch would read records, or has news for a reader."""
        ...

    @property
    def wants_poll(self) -> bool:
        """Whether a reader that had no records must be polled again."""
        ...

    @property
    def finished(self) -> bool:
        """Whether all readers have ended."""
        ...

    def commands(self, credit: int) -> dict[int, ReaderCommand]:
        """Return the commands of the readers for the epoch that begins, by subtask."""
        ...

    def apply(self, subtask: int, report: ReaderReport) -> None:
        """Record the position of a reader after the epoch."""
        ...

    def after_epoch(self) -> None:
        """Answer the requests of the readers; called once all reports of the epoch are in."""
        ...

    def prepare_snapshot(self) -> None:
        """Learn that the epoch whose command is made ends with a checkpoint."""
        ...

    def snapshot(self, checkpoint_id: int) -> SourceState:
        """Return the source's part of a checkpoint."""
        ...

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Notify the enumerator."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


@dataclass(slots=True)
class _Reader:
    """The coordinator's knowledge about the reader of one subtask."""

    splits: dict[str, SplitState] = field(default_factory=dict)
    no_more_splits: bool = False
    finished: bool = False
    more_available: bool = False
    #: Whether the reader has not yet been told of an assignment or signal.
    news: bool = False
    #: Whether the reader has requested a split and has not got an answer yet.
    waiting: bool = False
    #: Its last watermark in milliseconds; None if it has none, or is idle.
    watermark: int | None = None
    #: Whether the reader stopped because it was ahead of its alignment group.
    held_back: bool = False
    #: The watermark limit from which it reads more of its paused splits; None if none is paused.
    paused_from: int | None = None
    #: Whether the reader may become idle just because time passes.
    awaits_idleness: bool = False
    #: How far it was told that it may read its splits; None if the source has no limits.
    limits: dict[str, int] | None = None

    def waits_for_group(self, max_watermark: int | None) -> bool:
        """Return whether the reader would read nothing with this limit."""
        ahead = max_watermark is not None and self.watermark is not None and self.watermark > max_watermark
        return self.held_back and ahead

    def may_resume(self, max_watermark: int | None) -> bool:
        """Return whether the reader would read paused splits with this limit."""
        return self.paused_from is not None and (max_watermark is None or max_watermark >= self.paused_from)


class EnumeratorCoordinator:
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
        self._max_watermark: int | None = None

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

    def refresh(self) -> None:
        """Do nothing: background calls pass their results by `post`."""

    @property
    def input_ready(self) -> bool:
        limit, limits = self._max_watermark, self._limits()
        return any(
            not reader.finished
            and (
                reader.news
                or reader.may_resume(limit)
                or ((reader.more_available or _limits_of(reader, limits) != reader.limits) and not reader.waits_for_group(limit))
            )
            for reader in self._readers
        )

    @property
    def wants_poll(self) -> bool:
        limit, limited = self._max_watermark, self._limits() is not None
        return any(
            not reader.finished
            and ((not limited and (bool(reader.splits) or reader.no_more_splits)) or reader.awaits_idleness)
            and not reader.waits_for_group(limit)
            for reader in self._readers
        )

    def watermarks(self) -> list[int]:
        """Return the watermarks of the readers that have splits to read and are not idle."""
        return [
            reader.watermark for reader in self._readers if reader.watermark is not None and reader.splits and not reader.finished
        ]

    def align(self, max_watermark: int | None) -> None:
        """Set the watermark up to which readers may read, in milliseconds; None = no limit."""
        self._max_watermark = max_watermark

    @property
    def finished(self) -> bool:
        return all(reader.finished for reader in self._readers)

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
                finished=reader.finished,
                max_watermark=self._max_watermark,
                limits=reader.limits,
            )
        return commands

    def _limits(self) -> Mapping[str, int] | None:
        return None if self._enumerator is None else self._enumerator.split_limits()

    def apply(self, subtask: int, report: ReaderReport) -> None:
        reader = self._readers[subtask]
        if reader.finished:
            return
        reader.splits = {state.split_id: state for state in report.splits}
        reader.more_available = report.more_available
        reader.watermark, reader.held_back, reader.paused_from = report.watermark, report.held_back, report.paused_from
        reader.awaits_idleness = report.awaits_idleness
        reader.finished = report.finished
        reader.waiting = reader.waiting or (report.wants_split and not report.finished)

    def after_epoch(self) -> None:
        for subtask, reader in enumerate(self._readers):
            if reader.waiting and not reader.finished and not reader.no_more_splits:
                self._request(subtask, reader)

    def _request(self, subtask: int, reader: _Reader) -> None:
        # One request each time that a reader runs out of splits, because the enumerator remembers waiting readers.
        reader.waiting = False
        assert self._enumerator is not None
        self._enumerator.handle_split_request(subtask)

    def prepare_snapshot(self) -> None:
        """Do nothing: the epoch's reports and the enumerator have all that a checkpoint needs."""

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
    """Return the limits of the splits that a reader has."""
    return None if limits is None else {name: limits[name] for name in reader.splits if name in limits}


class DriverSourceCoordinator:
    """Coordinates a source that is read on the driver: its records are sent to subtask 0 with the commands."""

    def __init__(
        self, node: SourceNode, configuration: Configuration, clock: Clock, wake_up: Callable[[], None], limit: AdmissionSettings
    ) -> None:
        assert isinstance(node.source, DriverSource)
        self.node = node
        self._source: DriverSource[Any] = node.source
        self._configuration = configuration
        self._limit = limit
        self._waiter = _DriverWaiter(f"flinkish-driver-source-{node.name}", clock, wake_up)
        self._reader: DriverReader | None = None
        self._records: deque[Any] = deque()
        #: Number of records to poll at once: small at first, then adapted to their size.
        self._most = min(_FIRST_POLL, limit.max_records)
        self._ended = False
        self._poll_again = True
        #: By subtask: the state of the watermark generator, as a pseudo-split, and whether the reader knows of the end.
        self._splits: dict[int, tuple[SplitState, ...]] = {}
        self._finished: set[int] = set()
        self._told: set[int] = set()
        #: Subtasks that may become idle just because time passes.
        self._awaiting_idleness: set[int] = set()

    def start(self, restored: SourceState | None, *, trusted: bool = True) -> None:
        if restored is not None:
            self._splits = {0: restored.splits[:1]} if restored.splits else {}
            if restored.enumerator is not None:
                self._ended = True  # it had ended before the checkpoint; reading it again would give other records
                return
        self._reader = self._source.create_driver_reader(self._configuration)
        self._waiter.start(self._reader)

    def refresh(self) -> None:
        """Poll the reader, unless records are still waiting or the waiting thread has seen no new ones."""
        if self._records or self._ended or not (self._poll_again or self._waiter.take_signal()):
            return
        assert self._reader is not None
        records, self._ended = self._reader.poll(self._most)
        self._records.extend(records)
        self._poll_again = len(records) >= self._most and not self._ended
        if records:
            by_bytes = len(records) * self._limit.max_bytes // max(1, sum(map(rough_size, records)))
            self._most = max(1, min(self._limit.max_records, 100 * self._most, by_bytes))
        if not self._poll_again and not self._ended:
            self._waiter.resume()

    @property
    def input_ready(self) -> bool:
        return bool(self._records) or (self._ended and len(self._told) < self.node.parallelism)

    @property
    def wants_poll(self) -> bool:
        return bool(self._awaiting_idleness)

    @property
    def finished(self) -> bool:
        return len(self._finished) == self.node.parallelism

    def commands(self, credit: int) -> dict[int, ReaderCommand]:
        records = tuple(self._take(credit))
        end = self._ended and not self._records
        commands = {}
        for subtask in range(self.node.parallelism):
            if end:
                self._told.add(subtask)
            commands[subtask] = ReaderCommand(
                splits=self._splits.get(subtask, ()),
                credit=credit,
                no_more_splits=True,
                finished=subtask in self._finished,
                records=records if subtask == 0 else (),
                end_of_records=end,
            )
        return commands

    def _take(self, credit: int) -> Iterator[Any]:
        room = self._limit.max_bytes
        while self._records and credit > 0 and room > 0:
            record = self._records.popleft()
            credit -= 1
            room -= rough_size(record)
            yield record

    def apply(self, subtask: int, report: ReaderReport) -> None:
        if report.finished:
            self._finished.add(subtask)
        else:
            self._splits[subtask] = report.splits
        if report.awaits_idleness:
            self._awaiting_idleness.add(subtask)
        else:
            self._awaiting_idleness.discard(subtask)

    def after_epoch(self) -> None:
        """Do nothing: a driver-side reader does not request splits."""

    def prepare_snapshot(self) -> None:
        """Do nothing: there is nothing to prepare."""

    def snapshot(self, checkpoint_id: int) -> SourceState:
        ended = _ENDED if self._ended and not self._records else None
        return SourceState(uid=self.node.uid, enumerator=ended, splits=self._splits.get(0, ()))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Do nothing: a driver-side source can neither be read again nor acknowledge records."""

    def close(self) -> None:
        self._waiter.stop()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


class _DriverWaiter:
    """A daemon thread that waits for a driver-side reader, but never while the coordinator polls that reader."""

    def __init__(self, name: str, clock: Clock, wake_up: Callable[[], None]) -> None:
        self._name = name
        self._clock = clock
        self._wake_up = wake_up
        self._condition = threading.Condition()
        self._waiting = False
        self._signal = False
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self, reader: DriverReader) -> None:
        self._thread = threading.Thread(target=self._run, args=(reader,), name=self._name, daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Start waiting until the reader may have records."""
        with self._condition:
            self._waiting = True
            self._condition.notify_all()

    def take_signal(self) -> bool:
        """Return whether the reader may have records, and reset that signal."""
        with self._condition:
            signal, self._signal = self._signal, False
            return signal

    def stop(self) -> None:
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        if self._thread is not None:
            # The reader must not be closed during a wait. A reader that waits longer than its timeout is not waited for.
            self._thread.join(timeout=4 * _DRIVER_WAIT_MS / 1000)

    def _run(self, reader: DriverReader) -> None:
        while True:
            with self._condition:
                while not self._waiting and not self._stopped:
                    self._condition.wait()
                if self._stopped:
                    return
            started = self._clock.monotonic()
            try:
                reader.wait(_DRIVER_WAIT_MS)
            except BaseException:
                # The poll that follows raises the same error in a thread that can fail the job.
                _log.debug("Waiting for a driver-side reader failed.", exc_info=True)
            else:
                if self._clock.monotonic() - started >= _DRIVER_WAIT_MS:
                    continue
            with self._condition:
                self._waiting = False
                self._signal = True
            self._wake_up()


def worker_thread(job_id: str) -> str:
    """Return the prefix of the names of the threads that run the `call_async` work of a job's enumerators."""
    return f"flinkish-source-{job_id[:8]}-"


def source_coordinator(
    node: SourceNode,
    configuration: Configuration,
    clock: Clock,
    *,
    post: Post,
    wake_up: Callable[[], None],
    limit: AdmissionSettings,
    job_id: str = "",
) -> SourceCoordinator:
    """Create the coordinator of a source; `limit` bounds the records of a driver-side source in one epoch."""
    if isinstance(node.source, NativeSource):
        return NativeSourceCoordinator(node)
    if isinstance(node.source, DriverSource):
        return DriverSourceCoordinator(node, configuration, clock, wake_up, limit)
    return EnumeratorCoordinator(node, configuration, clock, post, job_id)


def states_by_uid(states: Sequence[SourceState]) -> Mapping[str, SourceState]:
    """Return the restored state of each source by its uid."""
    return {state.uid: state for state in states}
