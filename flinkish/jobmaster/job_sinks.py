"""All sinks of one attempt, on the driver: commits what checkpoints cover, and what was prepared without checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

import msgspec

from flinkish.checkpoint.manifest import Committable, Manifest
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.clock import Clock
from flinkish.common.closing import raised_by
from flinkish.jobmaster import program_parts
from flinkish.jobmaster.committers import Committers
from flinkish.jobmaster.program_parts import SinkNode
from flinkish.jobmaster.refused_records import KeptRefusedRecords
from flinkish.jobmaster.setup import JobSetup
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT
from flinkish.runtime import faults
from flinkish.runtime.protocol import EpochReport

_log = logging.getLogger("flinkish.jobmaster")

#: Key in CoordinatorState.extra of the committables that sinks of a job without checkpoints prepared at the end of their input.
_PREPARED = "prepared_at_end_of_input"


class JobSinks:
    """The sinks of an attempt; all methods raise the errors of the committers."""

    def __init__(self, setup: JobSetup, clock: Clock) -> None:
        self._setup = setup
        self._clock = clock
        nodes = [*program_parts.sinks(setup.plan.job_graph), *program_parts.dead_letters(setup.dead_letters)]
        self._committers = Committers(nodes, setup.configuration, self._keep_refused if setup.keeps_dead_letters else None)
        #: Committables that sinks of a job without checkpoints have prepared.
        self._prepared: list[Committable] = []

    def _keep_refused(self, node: SinkNode) -> KeptRefusedRecords:
        setup = self._setup
        assert setup.dead_letters is not None
        return KeptRefusedRecords(node, setup.dead_letters, setup.job_name, setup.configuration, self._clock)

    @property
    def committing(self) -> str | None:
        """A clause about the commit that runs; None = there is none."""
        return self._committers.committing

    def restore(self, restored: StoredCheckpoint) -> None:
        """Commit the committables of the restored checkpoint again."""
        prepared = restored.manifest.coordinator.extra.get(_PREPARED)
        if prepared is not None:
            self._prepared = msgspec.msgpack.decode(prepared, type=list[Committable])
        setup = self._setup
        self._committers.restore(self._without_untrusted(restored), setup.lineage, setup.job_id, trusted=restored.trusted)

    def _without_untrusted(self, restored: StoredCheckpoint) -> Manifest:
        """Return the manifest; if another key signed it, its committables are removed, which is logged in one line."""
        manifest = restored.manifest
        if restored.trusted:
            return manifest
        left = [*manifest.committables, *self._prepared]
        self._prepared = []
        if left:
            _log.warning(
                "Checkpoint %d in %s was signed by another key than ours: %d committables of %s are left alone, neither "
                "committed nor removed.",
                restored.checkpoint_id, restored.root, len(left), ", ".join(sorted({each.operator_uid for each in left})),
            )  # fmt: skip
        return replace(manifest, committables=())

    def take_prepared(self, reports: Iterable[EpochReport]) -> None:
        """Keep what sinks of a job without checkpoints prepared at the end of their input."""
        for report in reports:
            for uid, subtask, committables in report.final_committables:
                self._prepared.extend(Committable(operator_uid=uid, subtask=subtask, data=data) for data in committables)

    def snapshot(self) -> dict[str, bytes]:
        """Return the sinks' part of CoordinatorState.extra."""
        prepared = {_PREPARED: msgspec.msgpack.encode(self._prepared)} if self._prepared else {}
        return {**prepared, **self._committers.snapshot()}

    def commit(self, manifest: Manifest) -> None:
        """Commit the committables of a completed checkpoint."""
        self._committers.commit(manifest.checkpoint_id, manifest.committables, manifest.job_id, manifest.lineage)

    def commit_prepared(self, uncommitted: Iterable[Committable]) -> None:
        """Commit everything at the end of the input of a job without checkpoints.

        `uncommitted`: what writers prepared for a savepoint during the run, and no checkpoint has committed.
        """
        faults.reach(faults.Point.SINKS_TO_COMMIT)
        prepared = [*uncommitted, *self._prepared]
        self._committers.commit(END_OF_INPUT_CHECKPOINT, prepared, self._setup.job_id, self._setup.lineage)
        faults.reach(faults.Point.SINKS_COMMITTED)

    def close(self) -> None:
        """Close the committers, once."""
        self._committers.close()

    def discard(self) -> None:
        """Close the committers of an attempt that is over; errors are logged."""
        if (error := raised_by(self.close)) is not None:
            _log.warning("Closing a committer failed.", exc_info=error)
