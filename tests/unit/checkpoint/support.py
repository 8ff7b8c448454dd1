"""Builders and fakes for the tests of checkpoints."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Sequence
from pathlib import Path, PurePath
from typing import Any, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.checkpoint.delta_log import STATE_SCHEMA, DeltaLog
from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.checkpoint.failure_manager import FailureReason
from flinkish.checkpoint.manifest import CheckpointKind, Committable, CoordinatorState, Manifest, OperatorShape, SourceState
from flinkish.checkpoint.pending import Subtask
from flinkish.checkpoint.signing import SigningKey
from flinkish.checkpoint.statistics import CheckpointRecord, CheckpointStatus
from flinkish.checkpoint.storage import CheckpointDraft, CheckpointLocation, StoredCheckpoint
from flinkish.common.clock import ManualClock
from flinkish.common.errors import CheckpointError
from flinkish.common.ids import CheckpointId, Generation, LineageId, OperatorUid
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.protocol import Acknowledgement, SplitState, StateFile

KEY = SigningKey(b"k" * 32)
OTHER_KEY = SigningKey(b"o" * 32)
JOB = "0123456789abcdef0123456789abcdef"
LINEAGE = LineageId("11110000111100001111000011110000")
COUNT = OperatorUid("count")
SINK = OperatorUid("sink")
SOURCE = OperatorUid("source")
A, B = Subtask(VertexId(1), 0), Subtask(VertexId(2), 0)


def coordinator_state(position: int = 0) -> CoordinatorState:
    split = SplitState(
        split_id="numbers-0", split=msgspec.msgpack.encode({"split_id": "numbers-0", "next": position}), generator={"max": 7}
    )
    return CoordinatorState(
        job_name="test job",
        sources=(SourceState(uid=SOURCE, enumerator=msgspec.msgpack.encode([1, 2]), splits=(split,)),),
        operators=(
            OperatorShape(uid=SOURCE, name="Source: numbers", parallelism=1, max_parallelism=128, kind=""),
            OperatorShape(uid=COUNT, name="count", parallelism=2, max_parallelism=128, kind=""),
            OperatorShape(uid=SINK, name="Sink: table", parallelism=1, max_parallelism=128, kind=""),
        ),
        attempt_id="attempt-1",
        extra={"note": msgspec.msgpack.encode("plain")},
    )


def write_state(location: CheckpointLocation, name: str, rows: int = 10, checkpoint_id: int = 1) -> StateFile:
    """Write a state file as a task does and describe it."""
    file = Path(location.directory) / f"{name}.parquet"
    table = pa.Table.from_pylist(
        [
            {
                "operator_uid": COUNT,
                "state_name": "counts",
                "state_kind": "value",
                "key_group": row % 128,
                "key": b"%d" % row,
                "value": b"%d" % (row * row),
                "value_json": str(row * row),
                "checkpoint_id": checkpoint_id,
            }
            for row in range(rows)
        ],
        schema=STATE_SCHEMA,
    )
    pq.write_table(table, file)
    content = file.read_bytes()
    return StateFile(
        path=file.relative_to(location.root).as_posix(),
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        rows=rows,
        operator_uids=(COUNT,),
        key_groups=(0, 127),
    )


def make_storage(
    directory: Path,
    *,
    job_id: str = JOB,
    lineage: LineageId = LINEAGE,
    num_retained: int = 1,
    key: SigningKey = KEY,
    delta_log: type[DeltaLog] = DeltaLog,
    clock: ManualClock | None = None,
) -> DeltaCheckpointStorage:
    numbers = itertools.count(1)
    return DeltaCheckpointStorage(
        directory,
        job_id,
        lineage=lineage,
        signing_key=key,
        clock=clock or ManualClock(1_000),
        ids=lambda: f"{next(numbers):032x}"[::-1],
        num_retained=num_retained,
        durable=False,
        delta_log=delta_log,
    )


def claimed_storage(directory: Path, **arguments: Any) -> DeltaCheckpointStorage:
    """Return the storage of a driver that has taken the job over."""
    storage = make_storage(directory, **arguments)
    storage.claim()
    return storage


def make_draft(
    storage: DeltaCheckpointStorage,
    checkpoint_id: int,
    *,
    kind: CheckpointKind = CheckpointKind.PERIODIC,
    target: str | None = None,
    files: int = 2,
    rows: int = 10,
) -> CheckpointDraft:
    """Prepare a checkpoint and write its state files."""
    location = storage.prepare(CheckpointId(checkpoint_id), target)
    return CheckpointDraft(
        checkpoint_id=CheckpointId(checkpoint_id),
        kind=kind,
        trigger_time=500,
        location=location,
        coordinator=coordinator_state(position=checkpoint_id * 100),
        files=tuple(write_state(location, f"part-{number}", rows, checkpoint_id) for number in range(files)),
        committables=(Committable(operator_uid=SINK, subtask=0, data=b"\xa4file"),),
    )


def take(storage: DeltaCheckpointStorage, checkpoint_id: int, **options: int) -> StoredCheckpoint:
    """Take a whole checkpoint."""
    return storage.commit(make_draft(storage, checkpoint_id, **options))


def files_of(root: Path) -> set[str]:
    """All files of a table but the log, relative."""
    return {
        path.relative_to(root).as_posix() for path in root.rglob("*.parquet") if path.is_file() and "_delta_log" not in path.parts
    }


def named_by(checkpoint: StoredCheckpoint) -> set[str]:
    return {checkpoint.manifest_path, *(file.path for file in checkpoint.manifest.files)}


def ack(
    checkpoint_id: int, subtask: Subtask, *, files: tuple[StateFile, ...] = (), committables: Sequence[bytes] = ()
) -> Acknowledgement:
    return Acknowledgement(
        checkpoint_id=CheckpointId(checkpoint_id),
        vertex=subtask.vertex,
        subtask=subtask.subtask,
        files=files,
        committables={SINK: tuple(committables)} if committables else {},
    )


class FakeStorage:
    """Keeps checkpoints in memory and notes every call; `fail` holds the errors of the next calls by name of the method."""

    def __init__(self) -> None:
        self.stored: list[StoredCheckpoint] = []
        self.savepoints: list[StoredCheckpoint] = []
        self.exported: list[tuple[int, str]] = []
        self.discarded: list[str] = []
        self.discarded_files: list[str] = []
        self.cleaned: list[tuple[int, ...]] = []
        self.deleted_all = 0
        self.drafts: list[CheckpointDraft] = []
        self.fail: dict[str, BaseException] = {}
        self._last_id = CheckpointId(0)

    def _reach(self, call: str) -> None:
        error = self.fail.pop(call, None)
        if error is not None:
            raise error

    def peek(self) -> StoredCheckpoint | None:
        return self.latest()

    def claim(self) -> Generation:
        return Generation(1)

    @property
    def generation(self) -> Generation:
        return Generation(1)

    @property
    def lineage(self) -> LineageId:
        return LINEAGE

    def check_generation(self) -> None:
        self._reach("check_generation")

    @property
    def last_id(self) -> CheckpointId:
        return self._last_id

    def latest(self) -> StoredCheckpoint | None:
        return self.stored[-1] if self.stored else None

    def retained(self) -> Sequence[StoredCheckpoint]:
        return self.stored[-1:]

    def prepare(self, checkpoint_id: CheckpointId, savepoint_target: str | None) -> CheckpointLocation:
        self._reach("prepare")
        root = savepoint_target or "/checkpoints"
        base = self.stored[-1].checkpoint_id if self.stored else None
        return CheckpointLocation(directory=f"{root}/chk-{checkpoint_id}-g1", root=root, base=base)

    def _store(self, draft: CheckpointDraft) -> StoredCheckpoint:
        self.drafts.append(draft)
        manifest = Manifest(
            job_id=JOB,
            lineage=LINEAGE,
            generation=Generation(1),
            checkpoint_id=draft.checkpoint_id,
            kind=draft.kind,
            trigger_time=draft.trigger_time,
            completion_time=0,
            coordinator=draft.coordinator,
            committables=draft.committables,
            files=draft.files,
        )
        return StoredCheckpoint(manifest=manifest, root=Path(draft.location.root), version=1, manifest_path="m", trusted=True)

    def commit(self, draft: CheckpointDraft) -> StoredCheckpoint:
        self._reach("commit")
        self.stored.append(self._store(draft))
        return self.stored[-1]

    def commit_savepoint(self, draft: CheckpointDraft) -> StoredCheckpoint:
        self._reach("commit_savepoint")
        self.savepoints.append(self._store(draft))
        return self.savepoints[-1]

    def prepare_export(self, target: str) -> str:
        self._reach("prepare_export")
        return target

    def export_savepoint(self, checkpoint: StoredCheckpoint, folder: str) -> StoredCheckpoint:
        self._reach("export_savepoint")
        self.exported.append((checkpoint.checkpoint_id, folder))
        return checkpoint

    def discard(self, location: CheckpointLocation) -> None:
        self.discarded.append(location.directory)

    def discard_files(self, location: CheckpointLocation, files: Collection[StateFile]) -> None:
        self.discarded_files.extend(file.path for file in files)

    def clean_up(self, in_use: Collection[CheckpointId]) -> None:
        self.cleaned.append(tuple(in_use))

    def delete_all(self) -> None:
        self.deleted_all += 1


def reason_of(record: CheckpointRecord) -> FailureReason:
    return next(reason for reason in FailureReason if (record.failure or "").startswith(reason.sentence))


class Listener:
    """Notes what the coordinator says to the job and to its history."""

    def __init__(self) -> None:
        self.completed: list[StoredCheckpoint] = []
        self.aborted: list[tuple[int, FailureReason]] = []
        self.failures: list[CheckpointError] = []
        self.failed_stops: list[int] = []
        self.wake_ups = 0
        self.commit_error: Exception | None = None

    @property
    def completed_ids(self) -> list[int]:
        return [checkpoint.checkpoint_id for checkpoint in self.completed]

    def checkpoint_completed(self, checkpoint: StoredCheckpoint) -> None:
        self.completed.append(checkpoint)
        if self.commit_error is not None:
            error, self.commit_error = self.commit_error, None
            raise error

    def stop_failed(self, checkpoint: StoredCheckpoint) -> str:
        self.failed_stops.append(checkpoint.checkpoint_id)
        return "the listener's words"

    def checkpoint_ended(self, record: CheckpointRecord) -> None:
        if record.status is CheckpointStatus.FAILED:
            self.aborted.append((record.checkpoint_id, reason_of(record)))

    def fail_job(self, error: CheckpointError) -> None:
        self.failures.append(error)

    def wake_up(self) -> None:
        self.wake_ups += 1


def flaky_log(before: dict[str, Exception], after: dict[str, Exception]) -> type[DeltaLog]:
    """Make a kind of log whose next call of a method fails before, or after, it took effect; errors are used up."""

    class FlakyLog(DeltaLog):
        def replace_files(self, *arguments: object, **options: object) -> None:
            _raise(before, "replace_files")
            super().replace_files(*arguments, **options)  # type: ignore[arg-type]
            _raise(after, "replace_files")

        def note_transaction(self, *arguments: object, **options: object) -> None:
            _raise(before, "note_transaction")
            super().note_transaction(*arguments, **options)  # type: ignore[arg-type]
            _raise(after, "note_transaction")

        @classmethod
        def open(cls, root: PurePath, version: int | None = None) -> Self | None:
            _raise(before, "open")
            return super().open(root, version)

        @staticmethod
        def create(*arguments: object, **options: object) -> None:
            _raise(before, "create")
            DeltaLog.create(*arguments, **options)  # type: ignore[arg-type]
            _raise(after, "create")

    return FlakyLog


def _raise(errors: dict[str, Exception], call: str) -> None:
    if call in errors:
        raise errors.pop(call)
