"""What must hold in every world, whatever happens. Numbers are those of the design: I1 to I12.

What counts is what the storage holds: a checkpoint is complete when an entry of the log lists it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flinkish.checkpoint import checkpoint_files, paths
from flinkish.checkpoint import manifest as manifests
from flinkish.checkpoint.fencing import Transaction
from flinkish.checkpoint.manifest import Manifest
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.files.schemes import files_at
from flinkish.common.ids import CheckpointId
from tests.simulation.model import Content, content_after
from tests.simulation.store import SimulatedFiles, Version, decode_version
from tests.simulation.tasks import read_plain
from tests.unit.checkpoint.support import JOB

if TYPE_CHECKING:
    from tests.simulation.world import World


class Violation(AssertionError):
    """An invariant does not hold."""


def position_of(manifest: Manifest) -> int:
    """Return the position of the input in a checkpoint."""
    return int.from_bytes(manifest.coordinator.extra["position"], "big")


@dataclass(slots=True)
class DriverRecord:
    """What a driver process has been seen to do."""

    #: The ids whose barriers had been sent by the time it took over.
    before: frozenset[int] = frozenset()
    triggered: list[int] = field(default_factory=list)
    completed: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    told_completed: list[int] = field(default_factory=list)
    told_aborted: list[int] = field(default_factory=list)
    #: Folders of checkpoints whose commit may or may not have happened, as far as it knows.
    unknown: set[str] = field(default_factory=set)


class Invariants:
    """Watches a world. A violation is recorded, as code under test might swallow an exception, and raised by `check`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.violations: list[str] = []
        #: The newest version of the job's table, and its generation.
        self.version = -1
        self.generation = 0
        #: The completed checkpoints by id, in order. A job must be restored from the last one.
        self.completed: dict[int, Manifest] = {}
        #: The paths of files that the retained checkpoints need, with their content.
        self.needed: dict[str, bytes] = {}
        self.triggered: set[int] = set()
        self.drivers: dict[int, DriverRecord] = {}
        #: Records that the sink shows, and the checkpoints it has committed.
        self.visible: list[int] = []
        self.sink_commits: set[tuple[str, int]] = set()
        self.savepoints: list[StoredCheckpoint] = []
        #: The job has ended and its table is deleted: a driver that starts now starts another job, which is not watched.
        self.ended = False

    def violated(self, text: str) -> None:
        if not self.ended:
            self.violations.append(text)

    def require(self, holds: bool, text: str) -> None:
        if not holds:
            self.violated(text)

    def check(self) -> None:
        """Raise the first violation, if there was one; called after each step."""
        entries = self._world.store.entries
        for path, content in self.needed.items():
            if entries.get(path) != content:
                self.violated(f"I8/I10: {path} of a retained checkpoint is {'changed' if path in entries else 'gone'}")
        if self.violations:
            raise Violation("; ".join(self.violations))

    # -- the storage ---------------------------------------------------------------------------------------------------------

    def logged(self, path: str) -> None:
        """A log entry was created."""
        root = path.partition(f"/{paths.LOG}/")[0]
        if root != self._world.root:
            return
        version = decode_version(self._world.store.entries[path] or b"")
        if version.number <= self.version:
            return  # a zombie made an entry again that was cleaned up; nobody reads it
        self.version = version.number
        transaction = Transaction.of(version.transactions.get(JOB))
        self.require(
            transaction.generation >= self.generation,
            f"I9: generation {transaction.generation} has committed version {version.number} after {self.generation} took over",
        )
        self.generation = max(self.generation, transaction.generation)
        self._take_version(version)

    def _take_version(self, version: Version) -> None:
        listed = [path for path in version.files if paths.parse_manifest(path) is not None]
        if not listed:
            return
        root, entries = self._world.root, self._world.store.entries
        manifest = self._manifest(f"{root}/{listed[0]}")
        if manifest.checkpoint_id in self.completed:
            return  # a claim: the version has the same files
        self.require(
            manifest.checkpoint_id > max(self.completed, default=0),
            f"I7: checkpoint {manifest.checkpoint_id} completed after {max(self.completed, default=0)}",
        )
        self.completed[manifest.checkpoint_id] = manifest
        needed = [listed[0]]
        for reference in manifest.previous:
            needed.append(reference.manifest_path)
            path = f"{root}/{reference.manifest_path}"
            if path in entries:
                needed.extend(file.path for file in self._manifest(path).files)
        for file in manifest.files:
            content = entries.get(f"{root}/{file.path}") or b""
            self.require(
                hashlib.sha256(content).hexdigest() == file.sha256,
                f"I8: checkpoint {manifest.checkpoint_id} completed with {file.path}, which is not what was acknowledged",
            )
            needed.append(file.path)
        self.needed = {f"{root}/{path}": entries.get(f"{root}/{path}") or b"" for path in needed}
        self._check_content(manifest)

    def _manifest(self, path: str) -> Manifest:
        data, _ = checkpoint_files._unpack(self._world.store.entries[path] or b"", where=path)
        return manifests.decode(data, where=path)

    def _check_content(self, manifest: Manifest) -> None:
        if self._world.backend is not None:
            return  # compared when it is restored
        files = SimulatedFiles(self._world.store, self._world.table)
        if all(f"{files.root}/{file.path}" in files.store.entries for file in manifest.files):
            self.same(read_plain(files, manifest.files), position_of(manifest), f"checkpoint {manifest.checkpoint_id}")

    def same(self, content: Content, position: int, what: str) -> None:
        """State must be that after exactly the records before a position."""
        expected = content_after(position)
        self.require(content == expected, f"I4: {what} at position {position}: expected {expected}; got {content}")

    def removed(self, path: str, driver: int | None) -> None:
        """A file or folder was removed, by a driver or a task."""
        self.require(path not in self.needed, f"I10: {path} was deleted while a retained checkpoint names it")
        # A successor has read the table, so it knows.
        unknown = self.drivers[driver].unknown if driver in self.drivers else ()
        self.require(
            not any(path.startswith(folder) for folder in unknown),
            f"I12: driver {driver} deleted {path} while it did not know whether its checkpoint had completed",
        )

    # -- drivers -------------------------------------------------------------------------------------------------------------

    def claims(self, driver: int) -> None:
        """A driver process is about to take over."""
        self.drivers[driver] = DriverRecord(before=frozenset(self.triggered))

    def trigger(self, driver: int, checkpoint_id: int) -> None:
        """A barrier is about to be sent."""
        record = self.drivers[driver]
        earlier = max((*record.before, *record.triggered, 0))
        self.require(checkpoint_id > earlier, f"I7: driver {driver} begins checkpoint {checkpoint_id} after {earlier}")
        record.triggered.append(checkpoint_id)
        self.triggered.add(checkpoint_id)

    def complete(self, driver: int, stored: StoredCheckpoint) -> None:
        """A driver is told that a recovery point has completed."""
        record = self.drivers[driver]
        checkpoint_id = stored.checkpoint_id
        self.require(
            self.completed.get(checkpoint_id) == stored.manifest,
            f"I8: driver {driver} takes checkpoint {checkpoint_id} for completed, the table has never listed it",
        )
        self.require(
            checkpoint_id > max(record.completed, default=0),
            f"I11: driver {driver}: checkpoint {checkpoint_id} completed after {record.completed}",
        )
        self.require(checkpoint_id not in record.aborted, f"I11: aborted checkpoint {checkpoint_id} completed")
        record.completed.append(checkpoint_id)
        record.unknown.clear()

    def abort(self, driver: int, checkpoint_id: int, *, unknown: str | None) -> None:
        """A driver is told that a checkpoint has ended without completing; `unknown`: its folder, if it may have happened."""
        record = self.drivers[driver]
        self.require(checkpoint_id not in record.aborted, f"I11: checkpoint {checkpoint_id} was aborted twice")
        self.require(checkpoint_id not in record.completed, f"I11: completed checkpoint {checkpoint_id} was aborted")
        record.aborted.append(checkpoint_id)
        if unknown is not None:
            record.unknown.add(f"{self._world.root}/{unknown}/")

    def notify(self, driver: int, completed: Collection[CheckpointId], aborted: Collection[CheckpointId]) -> None:
        """Tasks are notified with the next command."""
        record = self.drivers[driver]
        for checkpoint_id in completed:
            self.require(checkpoint_id in record.completed, f"I11: tasks learn that {checkpoint_id} completed: it has not")
            self.require(checkpoint_id not in record.told_completed, f"I11: tasks learn twice that {checkpoint_id} completed")
            record.told_completed.append(checkpoint_id)
        for checkpoint_id in aborted:
            self.require(checkpoint_id in record.aborted, f"I11: tasks learn that {checkpoint_id} was aborted: it was not")
            self.require(checkpoint_id not in record.told_aborted, f"I11: tasks learn twice that {checkpoint_id} was aborted")
            record.told_aborted.append(checkpoint_id)

    def limits(self, driver: int, running: Sequence[int], limit: int) -> None:
        """A periodic checkpoint has begun while others were in progress."""
        self.require(len(running) <= limit, f"driver {driver}: {running} are in progress, at most {limit} may be")

    def restored(self, driver: int, checkpoint_id: int) -> None:
        """An attempt starts from a checkpoint (0: from nothing), while no other driver does anything."""
        newest = max(self.completed, default=0)
        self.require(checkpoint_id == newest, f"I8: driver {driver} starts from checkpoint {checkpoint_id}, {newest} completed")

    # -- the sink ------------------------------------------------------------------------------------------------------------

    def commit(self, manifest: Manifest, records: Sequence[int]) -> None:
        """A sink commits what a checkpoint has prepared; it knows what it has committed by lineage and checkpoint id."""
        checkpoint_id = manifest.checkpoint_id
        self.require(
            self.completed.get(checkpoint_id) == manifest,
            f"I9: results of checkpoint {checkpoint_id} of generation {manifest.generation} appear, which has not completed",
        )
        if (manifest.lineage, checkpoint_id) in self.sink_commits:
            return
        self.sink_commits.add((manifest.lineage, checkpoint_id))
        twice = set(records) & set(self.visible)
        self.require(not twice, f"I2: the records {sorted(twice)} appear again with checkpoint {checkpoint_id}")
        self.visible.extend(records)

    # -- the end -------------------------------------------------------------------------------------------------------------

    def nothing_is_lost(self, position: int) -> None:
        """All results up to a position have become visible."""
        wanted = set(range(position))
        self.require(
            set(self.visible) == wanted,
            f"I1: records {sorted(wanted - set(self.visible))} are lost, {sorted(set(self.visible) - wanted)} are unexpected",
        )

    def nothing_is_left(self) -> None:
        """After two clean-ups the table has only what its retained checkpoints need."""
        root, entries = self._world.root, self._world.store.entries
        left = [
            path
            for path in self._world.store.below(root)
            if entries[path] is not None and f"/{paths.LOG}/" not in path and path not in self.needed
        ]
        self.require(left == [f"{root}/{paths.LATEST}"], f"I10: after two clean-ups {left} are left")

    def nothing_appears_again(self) -> None:
        """A table that was deleted with its job stays away."""
        for path in (self._world.root, f"{self._world.root}/{paths.LOG}"):
            if path in self._world.store.entries:
                self.violations.append(f"I9: {path} is there again after the end of the job")

    def savepoints_restore(self) -> None:
        """Every savepoint that was reported as done has exactly its state, in files of its own."""
        for stored in self.savepoints:
            files = files_at(stored.root)
            assert isinstance(files, SimulatedFiles)
            missing = [file.path for file in stored.manifest.files if f"{files.root}/{file.path}" not in files.store.entries]
            self.require(not missing, f"savepoint {stored.root}: {missing} are missing")
            if self._world.backend is None and not missing:
                self.same(read_plain(files, stored.manifest.files), position_of(stored.manifest), str(stored.root))
