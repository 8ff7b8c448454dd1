"""All sources of one attempt, on the driver: calls their coordinators, and names the source whose call failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from flinkish.checkpoint.manifest import SourceState
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.clock import Clock
from flinkish.common.closing import Unwinding, raised_by
from flinkish.common.errors import SourceError
from flinkish.common.ids import CheckpointId, OperatorUid
from flinkish.jobmaster import failures, program_parts
from flinkish.jobmaster.driver_coordinator import DriverSourceCoordinator
from flinkish.jobmaster.enumerator_coordinator import EnumeratorCoordinator
from flinkish.jobmaster.epochs import NativePosition
from flinkish.jobmaster.failures import JobFailure
from flinkish.jobmaster.native_coordinator import NativeSourceCoordinator
from flinkish.jobmaster.program_parts import SourceNode
from flinkish.jobmaster.setup import JobSetup
from flinkish.jobmaster.source_coordinator import SourceCoordinator
from flinkish.jobmaster.wakeup import Wakeup
from flinkish.program.sources import DriverSource, NativeSource
from flinkish.runtime.protocol import EpochReport, ReaderCommand

_log = logging.getLogger("flinkish.jobmaster")


class JobSources:
    """The sources of an attempt. Methods that return a JobFailure return the first one, or None.

    Most methods are those of SourceCoordinator, or of EpochLoop for sources that the engine reads, for all sources at once.
    """

    def __init__(self, setup: JobSetup, clock: Clock, wakeup: Wakeup) -> None:
        self._wakeup = wakeup
        self._sources: dict[OperatorUid, SourceCoordinator] = {
            node.uid: _coordinator(node, setup, clock, wakeup) for node in program_parts.sources(setup.plan.job_graph)
        }

    def start(self, restored: StoredCheckpoint | None) -> JobFailure | None:
        states = {} if restored is None else {state.uid: state for state in restored.manifest.coordinator.sources}
        trusted = restored is None or restored.trusted
        return self._each(lambda source: source.start(states.get(source.node.uid), trusted=trusted), "starting {label}")

    def run_posted(self) -> JobFailure | None:
        """Run the handlers of finished `call_async` work."""
        for call in self._wakeup.take_posted():
            if (error := raised_by(call)) is not None:
                return failures.from_error(error, "a handler that a source's enumerator gave to call_async")
        return None

    def refresh(self) -> JobFailure | None:
        """Check for new input."""
        return self._each(lambda source: source.refresh(), "reading {label} on the driver")

    @property
    def input_ready(self) -> bool:
        return any(source.input_ready for source in self._sources.values())

    @property
    def wants_poll(self) -> bool:
        return any(source.wants_poll for source in self._sources.values())

    def end_within(self, credit: int) -> bool:
        """Whether the input of all sources is known to end in an epoch in which each reader may read `credit` records."""
        return all(source.ends_within(credit) for source in self._sources.values())

    def commands(self, credit: int) -> dict[tuple[OperatorUid, int], ReaderCommand]:
        """Return the commands of all readers for the epoch that begins."""
        return {
            (uid, subtask): command
            for uid, source in self._sources.items()
            for subtask, command in source.commands(credit).items()
        }

    def prepare_snapshot(self) -> None:
        for source in self._sources.values():
            source.prepare_snapshot()

    def apply(self, reports: Iterable[EpochReport]) -> None:
        """Record the positions of all readers."""
        for report in reports:
            for (uid, subtask), reader in report.readers.items():
                self._sources[uid].apply(subtask, reader)
        align(self._sources.values())

    def after_epoch(self) -> JobFailure | None:
        """Answer the requests of the readers."""
        return self._each(lambda source: source.after_epoch(), "the enumerator of {label}")

    def snapshot(self, checkpoint_id: CheckpointId) -> tuple[SourceState, ...]:
        """Return the sources' parts of a checkpoint. Raises SourceError if the snapshot of an enumerator fails."""
        states: list[SourceState] = []
        for source in self._sources.values():
            try:
                states.append(source.snapshot(checkpoint_id))
            except Unwinding:
                raise
            except BaseException as error:
                raise SourceError(f"{source.node.label}: the snapshot of its enumerator failed: {error!r}") from error
        return tuple(states)

    def checkpoint_completed(self, checkpoint_id: CheckpointId) -> None:
        """Notify the enumerators. Raises SourceError if one of them fails."""
        for source in self._sources.values():
            if (error := raised_by(source.checkpoint_completed, checkpoint_id)) is not None:
                raise SourceError(
                    f"{source.node.label}: notify_checkpoint_complete of its enumerator failed: {error!r}"
                ) from error

    def native_starts(self) -> Mapping[OperatorUid, NativePosition]:
        return {uid: start for uid, source in self._native().items() if (start := source.start_position) is not None}

    def native_reads(self, positions: Mapping[OperatorUid, NativePosition]) -> None:
        for uid, source in self._native().items():
            source.reads(positions[uid])

    def close(self) -> None:
        """Release all resources; errors are logged."""
        self._wakeup.take_posted()
        for source in self._sources.values():
            if (error := raised_by(source.close)) is not None:
                _log.warning("Closing %s failed.", source.node.label, exc_info=error)

    def _native(self) -> Mapping[OperatorUid, NativeSourceCoordinator]:
        return {uid: source for uid, source in self._sources.items() if isinstance(source, NativeSourceCoordinator)}

    def _each(self, call: Callable[[SourceCoordinator], None], where: str) -> JobFailure | None:
        for source in self._sources.values():
            if (error := raised_by(call, source)) is not None:
                return failures.from_error(error, where.format(label=source.node.label))
        return None


def align(sources: Iterable[SourceCoordinator]) -> None:
    """Set the limit of each source in a watermark alignment group: the least watermark of the group plus its maximum drift.

    So no source of a group runs ahead of the slowest one by more than its drift (FLIP-182). The limits are sent with the next
    command; within an epoch a reader stops by itself at its limit. Readers that are idle, have ended, have nothing to read or
    have no watermark yet are ignored. If this applies to all readers of a group, there is no limit.
    """
    groups: dict[str, list[tuple[EnumeratorCoordinator, int]]] = {}
    for source in sources:
        if isinstance(source, EnumeratorCoordinator) and (alignment := source.node.alignment) is not None:
            groups.setdefault(alignment.group, []).append((source, alignment.max_drift_ms))
    for members in groups.values():
        least = min((watermark for source, _ in members for watermark in source.watermarks()), default=None)
        for source, drift in members:
            source.max_watermark = None if least is None else least + drift


def _coordinator(node: SourceNode, setup: JobSetup, clock: Clock, wakeup: Wakeup) -> SourceCoordinator:
    if isinstance(node.source, NativeSource):
        return NativeSourceCoordinator(node)
    if isinstance(node.source, DriverSource):
        return DriverSourceCoordinator(node, setup.configuration, clock, wakeup.post, setup.admission)
    return EnumeratorCoordinator(node, setup.configuration, clock, wakeup.post, setup.job_id)
