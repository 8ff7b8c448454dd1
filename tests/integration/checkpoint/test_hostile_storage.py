"""Attacks by whoever can write to the storage of checkpoints: nothing outside of it is read, changed or deleted."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flinkish.checkpoint import paths
from flinkish.checkpoint.checkpoint_files import Latest, write_latest
from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.checkpoint.history import JobHistory
from flinkish.checkpoint.manifest import CheckpointKind, Committable, SourceState
from flinkish.checkpoint.opening import open_checkpoint
from flinkish.checkpoint.signing import SigningKey
from flinkish.checkpoint.storage import CheckpointLocation
from flinkish.common import Encoder, Row, Types, WatermarkStrategy, safe_files
from flinkish.common.clock import ManualClock
from flinkish.common.errors import (
    CheckpointError,
    ConfigurationError,
    CorruptCheckpointError,
    ForeignCheckpointError,
    JobExecutionError,
    SinkError,
)
from flinkish.common.ids import Generation, OperatorUid
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors._cache import CacheFile, CacheSource, CacheSplit
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from flinkish.datastream.connectors.file_system.compaction import WaitingFiles
from flinkish.datastream.connectors.file_system.parts import FileCommittable, PartFile
from flinkish.datastream.connectors.file_system.splits import FileEnumeratorState, FileSourceSplit
from flinkish.datastream.connectors.file_system.writers import BucketState, InProgressFile
from flinkish.datastream.connectors.hybrid_source import HybridEnumeratorState, HybridSource, HybridSplit
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.jobmaster.ha import ClusterRecord
from flinkish.program.state_kinds import source_kind
from flinkish.runtime.protocol import SplitState
from tests.kit.environments import env_of
from tests.unit.checkpoint.support import JOB, KEY, OTHER_KEY, claimed_storage, make_draft, make_storage, take
from tests.unit.datastream.connectors.fakes import Checkpoint, SinkRun


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Make a folder outside of the storage, with what is dear to its owner."""
    folder = tmp_path / "home"
    (folder / "deep" / "empty").mkdir(parents=True)
    for name in ("letter", "deep/key", "part-0.parquet"):
        (folder / name).write_text("mine")
    return folder


@pytest.fixture
def storage(tmp_path: Path) -> DeltaCheckpointStorage:
    storage = claimed_storage(tmp_path / "storage")
    return storage


def everything_in(folder: Path) -> dict[str, str | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else None for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("name", ["chk-1-g1", "chk-999-g1"])
def test_cleaning_does_not_delete_through_a_link_in_place_of_a_checkpoint_folder(
    storage: DeltaCheckpointStorage, home: Path, name: str
) -> None:
    before = everything_in(home)
    if name == "chk-999-g1":
        (storage.root / name).symlink_to(home)
    take(storage, 1)
    take(storage, 2)
    if name == "chk-1-g1":
        for path in (storage.root / name).iterdir():
            path.unlink()
        (storage.root / name).rmdir()
        (storage.root / name).symlink_to(home)
    storage.clean_up(())
    take(storage, 3)
    storage.clean_up(())
    assert everything_in(home) == before


def test_cleaning_deletes_links_in_a_checkpoint_folder_but_not_what_they_lead_to(
    storage: DeltaCheckpointStorage, home: Path
) -> None:
    before = everything_in(home)
    take(storage, 1)
    folder = storage.root / "chk-1-g1"
    (folder / "home").symlink_to(home)
    (folder / "letter").symlink_to(home / "letter")
    (folder / "inner").mkdir()
    (folder / "inner" / "up").symlink_to("../../../../home")
    take(storage, 2)
    storage.clean_up(())
    assert not folder.exists()
    assert everything_in(home) == before


def test_removing_empty_folders_does_not_follow_a_link(storage: DeltaCheckpointStorage, home: Path) -> None:
    (storage.root / "chk-1-g1").symlink_to(home / "deep")
    (home / "deep" / "key").unlink()
    take(storage, 2)
    storage.clean_up(())
    assert (home / "deep" / "empty").is_dir()


def test_a_discarded_checkpoint_is_not_deleted_through_a_link(storage: DeltaCheckpointStorage, home: Path) -> None:
    before = everything_in(home)
    location = storage.prepare(1, None)  # type: ignore[arg-type]
    os.rmdir(location.directory)
    os.symlink(home, location.directory)
    storage.discard(location)
    files = take(storage, 2).manifest.files
    stolen = CheckpointLocation(directory=location.directory, root=location.root)
    storage.discard_files(stolen, [type(files[0])(**{**_fields(files[0]), "path": "chk-1-g1/part-0.parquet"})])
    assert everything_in(home) == before


def _fields(file: object) -> dict[str, object]:
    return {name: getattr(file, name) for name in file.__slots__}  # type: ignore[attr-defined]


def test_the_marker_of_the_newest_version_is_not_written_through_a_link(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "table"
    root.mkdir()
    for name in ("_latest.json.1.new", "_latest.json.new", "_latest.json"):
        (root / name).symlink_to(home / "letter")
    write_latest(root, Latest(version=3, checkpoint_id=2, generation=1), sync=False)
    assert (home / "letter").read_text() == "mine"
    assert not (root / "_latest.json").is_symlink()


def test_drafts_of_the_marker_that_a_killed_driver_left_behind_are_removed(storage: DeltaCheckpointStorage) -> None:
    take(storage, 1)
    for name in ("_latest.json.1.0123456789abcdef.new", "_latest.json.2.0123456789abcdef.new"):
        (storage.root / name).write_text("{")
    storage.clean_up(())
    assert sorted(path.name for path in storage.root.glob("*.new")) == ["_latest.json.2.0123456789abcdef.new"]


def test_the_marker_of_the_newest_version_is_not_read_through_a_link(storage: DeltaCheckpointStorage) -> None:
    take(storage, 1)
    (storage.root / paths.LATEST).unlink()
    (storage.root / paths.LATEST).symlink_to("/dev/zero")
    with pytest.raises(CorruptCheckpointError, match=paths.LATEST):
        storage.latest()


@pytest.mark.parametrize("which", ["job", "state", "_delta_log"])
@pytest.mark.parametrize("call", ["claim", "open"])
def test_a_link_in_place_of_a_folder_of_the_table_is_refused(tmp_path: Path, which: str, call: str) -> None:
    first = claimed_storage(tmp_path / "storage")
    take(first, 1)
    folder = {"job": first.root.parent, "state": first.root, "_delta_log": first.root / paths.LOG}[which]
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    before = sorted(path.relative_to(elsewhere) for path in elsewhere.rglob("*"))
    if call == "claim":
        with pytest.raises(CorruptCheckpointError, match="is a link"):
            make_storage(tmp_path / "storage").claim()
    elif which == "_delta_log":
        with pytest.raises(CorruptCheckpointError, match="is a link"):
            open_checkpoint(str(first.root), signing_key=KEY)
    first.delete_all()
    assert sorted(path.relative_to(elsewhere) for path in elsewhere.rglob("*")) == before


def test_an_entry_of_the_log_that_is_a_link_is_refused(storage: DeltaCheckpointStorage) -> None:
    take(storage, 1)
    newest = max((storage.root / paths.LOG).glob("*.json"))
    (newest.parent / f"{int(newest.stem) + 1:020}.json").symlink_to("/dev/zero")
    with pytest.raises(CorruptCheckpointError, match="is a link"):
        storage.latest()


def test_delta_s_own_files_are_not_written_through_links(tmp_path: Path, home: Path) -> None:
    storage = claimed_storage(tmp_path / "storage")
    take(storage, 1)
    before = everything_in(home)
    log = storage.root / paths.LOG
    (log / "_last_checkpoint").symlink_to(home / "letter")
    version = int(max(log.glob("*.json")).stem)
    for number in range(version, version + 30):
        (log / f"{number:020}.checkpoint.parquet").symlink_to(home / "letter")
    # the storage may refuse to go on
    with contextlib.suppress(CheckpointError):
        for checkpoint_id in range(2, 30):
            take(storage, checkpoint_id)
            storage.clean_up(())
    assert everything_in(home) == before


@pytest.mark.parametrize("kind", ["state file", "manifest", "pipe"])
def test_files_of_a_checkpoint_are_not_read_through_links_or_from_pipes(storage: DeltaCheckpointStorage, kind: str) -> None:
    stored = take(storage, 1)
    path = storage.root / (stored.manifest_path if kind == "manifest" else stored.manifest.files[0].path)
    copy = storage.root / "copy"
    path.rename(copy)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(copy)
    with pytest.raises(CorruptCheckpointError, match=path.name):
        storage.latest()


def test_the_record_of_a_cluster_id_is_not_written_through_links(tmp_path: Path, home: Path) -> None:
    before = everything_in(home)
    directory = tmp_path / "storage"
    record = ClusterRecord(directory, "orders")
    record.retire(record.job_id())
    (file,) = (directory / "high-availability").iterdir()
    file.with_suffix(f".{os.getpid()}.new").symlink_to(home / "letter")
    record.retire(record.job_id())
    assert everything_in(home) == before
    file.unlink()
    file.symlink_to(home / "letter")
    with pytest.raises(ConfigurationError, match="cluster-id"):
        record.job_id()


def test_no_record_of_a_cluster_id_is_made_in_a_folder_that_is_a_link(tmp_path: Path, home: Path) -> None:
    before = everything_in(home)
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "high-availability").symlink_to(home)
    record = ClusterRecord(tmp_path / "storage", "orders")
    with pytest.raises(ConfigurationError, match="high-availability"):
        record.job_id()
    assert everything_in(home) == before


@pytest.mark.parametrize("where", ["", "_delta_log"])
def test_the_history_is_not_cleaned_through_links(tmp_path: Path, home: Path, where: str) -> None:
    before = everything_in(home)
    clock = ManualClock(1_000)
    history = JobHistory(tmp_path / "storage", JOB, generation=Generation(1), clock=clock, batches_per_compaction=5)
    for batch in range(5):
        if batch == 1:
            (history.root / where / "link").symlink_to(home)
            (history.root / "link.parquet").symlink_to(home / "letter")
        history.note("event")
        history.flush()
    assert everything_in(home) == before
    if not where:
        assert len(list(history.root.glob("*.parquet"))) == 1


def test_the_history_is_not_written_through_a_link(tmp_path: Path, home: Path) -> None:
    before = everything_in(home)
    (tmp_path / "storage" / JOB).mkdir(parents=True)
    (tmp_path / "storage" / JOB / "history").symlink_to(home)
    history = JobHistory(tmp_path / "storage", JOB, generation=Generation(1), clock=ManualClock(1_000))
    history.note("event")
    history.flush()
    assert everything_in(home) == before


ATTACKS: list[tuple[str, Callable[[Path, str], object]]] = [
    ("open_file", safe_files.open_file),
    ("read_file", lambda root, inside: safe_files.read_file(root, inside, limit=10)),
    ("remove_file", safe_files.remove_file),
    ("replace_file", lambda root, inside: safe_files.replace_file(root, inside, b"x", sync=False)),
    ("remove_empty_folders", safe_files.remove_empty_folders),
    ("make_folders", safe_files.make_folders),
]


@pytest.mark.parametrize("inside", ["link/letter", "link/deep/key", "../home/letter", "inner/../link/letter"])
@pytest.mark.parametrize(("name", "operation"), ATTACKS, ids=lambda part: part if isinstance(part, str) else "")
def test_no_operation_below_a_folder_follows_a_link_or_leaves_it(
    tmp_path: Path, home: Path, inside: str, name: str, operation: Callable[[Path, str], object]
) -> None:
    before = everything_in(home)
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "link").symlink_to(home)
    with pytest.raises(OSError, match="ot a "):  # directory, plain relative path
        operation(root, inside)
    assert everything_in(home) == before


@pytest.mark.parametrize(
    "path", ["/base", "/other/a", "/base/../other/a", "/base/a/../../b", "/base/./a", "base/a", "/basement/a", ""]
)
def test_a_path_that_is_not_written_plainly_below_its_base_leads_outside(path: str) -> None:
    assert safe_files.leads_outside(path, "/base")


def test_a_path_that_leaves_its_base_by_a_link_leads_outside(tmp_path: Path, home: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "link").symlink_to(home)
    (base / "inner").symlink_to(".")
    assert safe_files.leads_outside(base / "link" / "letter", base)
    assert not safe_files.leads_outside(base / "inner" / "new", base)
    assert not safe_files.leads_outside(base / "a" / "new", base)


# What a checkpoint names


def forged_savepoint(
    tmp_path: Path,
    key: SigningKey,
    *,
    committables: Sequence[Committable] = (),
    sources: Sequence[SourceState] = (),
    extra: dict[str, bytes] | None = None,
) -> Path:
    """Make a savepoint without state files, signed by a key."""
    storage = claimed_storage(tmp_path / "forger", key=key)
    draft = make_draft(storage, 1, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "savepoints"), files=0)
    coordinator = dataclasses.replace(draft.coordinator, sources=tuple(sources), operators=(), extra=extra or {})
    draft = dataclasses.replace(draft, coordinator=coordinator, committables=tuple(committables))
    return storage.commit_savepoint(draft).root


def file_job(tmp_path: Path, savepoint: Path, **settings: Any) -> StreamExecutionEnvironment:
    """Make a program that copies lines from `in` to `out`, to be started from a savepoint."""
    (tmp_path / "our.key").write_bytes(KEY.secret)
    (tmp_path / "our.key").chmod(0o600)
    paths = {"execution.state-recovery.path": savepoint, "security.checkpoint.hmac-key-file": tmp_path / "our.key"}
    env = env_of({**paths, **settings})
    (tmp_path / "in" / "inner").mkdir(parents=True, exist_ok=True)
    (tmp_path / "in" / "a.txt").write_text("a\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "in")).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("source")
    lines.sink_to(text_sink(tmp_path / "out")).uid("sink")
    return env


def text_sink(path: Path, policy: RollingPolicy | None = None) -> FileSink:
    builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return builder.with_rolling_policy(policy or RollingPolicy.on_checkpoint_rolling_policy()).build()


def committable(path: Path, final: Path, *obsolete: Path) -> Committable:
    part = PartFile(in_progress=str(path), final=str(final))
    data = FileCommittable(part=part, length=4, obsolete=tuple(map(str, obsolete)))
    return Committable(operator_uid=OperatorUid("sink"), subtask=0, data=msgspec.msgpack.encode(data))


def theft(tmp_path: Path, home: Path) -> list[Committable]:
    """Move a file, overwrite one and delete one."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".part-x-0.inprogress.0").write_text("evil")
    return [
        committable(home / "letter", tmp_path / "out" / "part-x-1"),
        committable(tmp_path / "out" / ".part-x-0.inprogress.0", home / "authorized_keys"),
        committable(tmp_path / "out" / ".part-x-0.inprogress.0", tmp_path / "out" / "part-x-0", home / "deep" / "key"),
    ]


def output(tmp_path: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}


def test_a_savepoint_that_another_key_has_signed_is_refused(tmp_path: Path, home: Path) -> None:
    before = everything_in(home)
    savepoint = forged_savepoint(tmp_path, OTHER_KEY, committables=theft(tmp_path, home))
    with pytest.raises(ForeignCheckpointError, match=r"signed by another key than ours \(.*our\.key\)") as error:
        file_job(tmp_path, savepoint).execute()
    assert "execution.state-recovery.allow-untrusted" in str(error.value)
    assert everything_in(home) == before


def test_what_sinks_were_about_to_commit_is_left_alone_where_another_key_has_signed_it(
    tmp_path: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = everything_in(home)
    *committables, last = theft(tmp_path, home)
    extra = {"prepared_at_end_of_input": msgspec.msgpack.encode([last])}
    savepoint = forged_savepoint(tmp_path, OTHER_KEY, committables=committables, extra=extra)
    file_job(tmp_path, savepoint, **{"execution.state-recovery.allow-untrusted": True}).execute()
    assert everything_in(home) == before
    written = output(tmp_path)
    assert written.pop(".part-x-0.inprogress.0") == "evil"
    assert list(written.values()) == ["a\n"]
    (line,) = [record.getMessage() for record in caplog.records if "left alone" in record.getMessage()]
    assert "3 committables of sink are left alone" in line


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("where", ["committables", "prepared"])
def test_a_committable_of_files_elsewhere_is_refused_whoever_signed_it(
    tmp_path: Path, home: Path, which: int, where: str
) -> None:
    before = everything_in(home)
    evil = theft(tmp_path, home)[which]
    if where == "committables":
        savepoint = forged_savepoint(tmp_path, KEY, committables=[evil])
    else:
        savepoint = forged_savepoint(tmp_path, KEY, extra={"prepared_at_end_of_input": msgspec.msgpack.encode([evil])})
    with pytest.raises(JobExecutionError, match="which is not one of this sink") as error:
        file_job(tmp_path, savepoint, **{"restart-strategy.type": "fixed-delay"}).execute()
    assert isinstance(error.value.__cause__, ForeignCheckpointError)
    assert everything_in(home) == before
    assert output(tmp_path)[".part-x-0.inprogress.0"] == "evil"


def source_state(path: str, where: str) -> SourceState:
    split = FileSourceSplit(split_id="0", path=path, offset=0, length=None, file_size=4)
    state = FileEnumeratorState(pending=(split,) if where == "pending" else (), known=())
    splits = (SplitState(split_id="0", split=msgspec.msgpack.encode(split), generator=None),) if where == "reading" else ()
    return SourceState(uid=OperatorUid("source"), enumerator=msgspec.msgpack.encode(state), splits=splits)


@pytest.mark.parametrize("where", ["pending", "reading"])
@pytest.mark.parametrize(
    "path", ["HOME/letter", "IN/../home/letter", "IN/inner/../../home/letter", "IN/.hidden", "IN/_delta_log/x", "IN", "a.txt"]
)
def test_a_split_of_a_file_that_the_source_would_not_find_is_refused(tmp_path: Path, home: Path, path: str, where: str) -> None:
    path = path.replace("HOME", str(home)).replace("IN", str(tmp_path / "in"))
    savepoint = forged_savepoint(tmp_path, KEY, sources=[source_state(path, where)])
    if path == str(tmp_path / "in"):
        return  # a path of the source itself
    with pytest.raises(JobExecutionError, match="a split in the checkpoint is of the file") as error:
        file_job(tmp_path, savepoint).execute()
    assert isinstance(error.value.__cause__, ForeignCheckpointError)


@pytest.mark.parametrize("trusted", [True, False])
def test_a_split_behind_a_link_out_of_the_source_s_folder_is_taken_from_a_checkpoint_of_ours_only(
    tmp_path: Path, home: Path, trusted: bool
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(home)
    savepoint = forged_savepoint(
        tmp_path, KEY if trusted else OTHER_KEY, sources=[source_state(str(tmp_path / "in/link/letter"), "pending")]
    )
    env = file_job(tmp_path, savepoint, **{"execution.state-recovery.allow-untrusted": True})
    if trusted:
        env.execute()
        assert list(output(tmp_path).values()) == ["mine\n"]
    else:
        with pytest.raises(JobExecutionError, match="a split in the checkpoint is of the file"):
            env.execute()


def bucket(tmp_path: Path, home: Path, attack: str) -> BucketState:
    out = tmp_path / "out"
    hidden = PartFile(in_progress=str(out / ".part-x-0.inprogress.0"), final=str(out / "part-x-0"))
    theirs = PartFile(in_progress=str(home / "letter"), final=str(out / "part-x-0"))
    onto = PartFile(in_progress=str(home / ".authorized_keys.inprogress.0"), final=str(home / "authorized_keys"))
    state = BucketState(bucket_id="", uid="x", attempt_id="other", lineage="lineage", counter=1)
    match attack:
        case "bucket elsewhere":
            return dataclasses.replace(state, bucket_id=str(home))
        case "bucket with dots":
            return dataclasses.replace(state, bucket_id="../home")
        case "file to go on with":
            file = InProgressFile(part=theirs, length=4, creation_time=0, last_update_time=0)
            return dataclasses.replace(state, in_progress=file)
        case "final name":
            file = InProgressFile(part=onto, length=0, creation_time=0, last_update_time=0)
            return dataclasses.replace(state, in_progress=file)
        case "pending":
            return dataclasses.replace(state, pending=(FileCommittable(part=theirs, length=4),))
        case "obsolete":
            return dataclasses.replace(state, obsolete=(str(home / "letter"),))
        case "obsolete output":
            return dataclasses.replace(state, obsolete=(hidden.final,))
    raise AssertionError(attack)


BUCKETS = ["bucket elsewhere", "bucket with dots", "file to go on with", "final name", "pending", "obsolete", "obsolete output"]


@pytest.mark.parametrize("lineage", ["lineage", "another"])
@pytest.mark.parametrize("attack", BUCKETS)
def test_the_state_of_a_bucket_that_names_files_elsewhere_is_refused(
    tmp_path: Path, home: Path, attack: str, lineage: str
) -> None:
    (home / ".authorized_keys.inprogress.0").write_text("")
    before = everything_in(home)
    run = SinkRun(text_sink(tmp_path / "out", RollingPolicy.default_rolling_policy()), Types.STRING())
    run.checkpoint(["a"], end_of_input=True)
    written = output(tmp_path)
    states = {"flinkish.file-sink.buckets": [msgspec.msgpack.encode(bucket(tmp_path, home, attack))]}
    with pytest.raises(ForeignCheckpointError, match="which is not one of this sink"):
        run.restore(Checkpoint(1, [states], [], "lineage"), lineage=lineage)
    assert everything_in(home) == before
    assert output(tmp_path) == written


@pytest.mark.parametrize("attack", ["bucket elsewhere", "pending", "obsolete"])
def test_files_elsewhere_do_not_wait_to_be_merged(tmp_path: Path, home: Path, attack: str) -> None:
    before = everything_in(home)
    builder = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()
    sink = builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).build()
    state = bucket(tmp_path, home, attack)
    waiting = WaitingFiles(
        bucket_id=state.bucket_id,
        lineage="lineage",
        files=(*state.pending, FileCommittable(part=None, obsolete=state.obsolete)),
        checkpoints=1,
    )
    states = {"flinkish.file-sink.waiting": [msgspec.msgpack.encode(waiting)]}
    with pytest.raises(ForeignCheckpointError, match="which is not one of this sink"):
        SinkRun(sink).restore(Checkpoint(1, [states], [], "lineage"))
    assert everything_in(home) == before


def test_a_sink_does_not_write_or_read_or_rename_through_links_below_its_path(tmp_path: Path, home: Path) -> None:
    before = everything_in(home)
    out = tmp_path / "out"
    sink = FileSink.for_row_format(str(out), Encoder.simple_string_encoder()).with_bucket_assigner(ByValue()).build()
    run = SinkRun(sink, Types.STRING()).after(["a"])
    (part,) = (out / "a").iterdir()
    # a bucket that is a link
    (out / "b").symlink_to(home)
    with pytest.raises(SinkError, match="is a file or a link"):
        run.write(["b"])
    # a file in progress that is one, to go on with
    checkpoint = run.checkpoint([], commit=False)
    part.rename(part.parent / "kept")
    part.symlink_to(home / "letter")
    with pytest.raises(SinkError, match="cannot go on with"):
        run.restore(checkpoint)
    # and to be finished
    part.unlink()
    (part.parent / "kept").rename(part)
    last = run.restore(checkpoint).checkpoint([], end_of_input=True, commit=False)
    name = next(request.committable.part.in_progress for request in last.requests if request.committable.part)
    os.rename(name, f"{name}-kept")
    os.symlink(home / "letter", name)
    with pytest.raises(SinkError, match="not an ordinary file"):
        run.commit(last)
    # and the folder of those that are not needed any more
    os.rename(f"{name}-kept", name)
    (out / "a").rename(out / "moved")
    (out / "a").symlink_to(home)
    with pytest.raises(SinkError, match="cannot finish"):
        run.commit(last)
    assert everything_in(home) == before


class ByValue(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return str(element)


PAIR = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])


@pytest.mark.parametrize("path", ["/HOME/part-0.parquet", "../home/part-0.parquet", "link/part-0.parquet", "_delta_log/x.json"])
def test_a_delta_table_does_not_get_files_of_elsewhere(tmp_path: Path, home: Path, path: str) -> None:
    run = SinkRun(DeltaSink(str(tmp_path / "table")), PAIR)
    checkpoint = run.checkpoint([Row("a", 1)], commit=False)
    (tmp_path / "table" / "link").symlink_to(home)
    request = checkpoint.requests[0]
    (file,) = request.committable.files
    evil = dataclasses.replace(file, path=path.replace("/HOME", str(home)), size=4)
    forged = dataclasses.replace(request, committable=dataclasses.replace(request.committable, files=(evil,)))
    with pytest.raises(ForeignCheckpointError, match="no data file of the table"):
        run.commit(dataclasses.replace(checkpoint, requests=[forged]))


def test_a_delta_sink_does_not_write_through_a_link_in_place_of_a_partition(tmp_path: Path, home: Path) -> None:
    before = everything_in(home)
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "k=a").symlink_to(home)
    run = SinkRun(DeltaSink(str(tmp_path / "table"), partition_by=["k"]), PAIR)
    with pytest.raises(SinkError, match="DeltaSink cannot write"):
        run.checkpoint([Row("a", 1)])
    assert everything_in(home) == before


def test_a_delta_sink_does_not_write_a_log_that_is_elsewhere(tmp_path: Path, home: Path) -> None:
    SinkRun(DeltaSink(str(tmp_path / "table")), PAIR).checkpoint([Row("a", 1)])
    (tmp_path / "table" / "_delta_log").rename(tmp_path / "moved")
    (tmp_path / "table" / "_delta_log").symlink_to(tmp_path / "moved")
    before = sorted((tmp_path / "moved").iterdir())
    with pytest.raises(SinkError, match="_delta_log is a link"):
        SinkRun(DeltaSink(str(tmp_path / "table")), PAIR).checkpoint([Row("b", 1)])
    assert sorted((tmp_path / "moved").iterdir()) == before


@pytest.mark.parametrize("trusted", [True, False])
def test_files_of_a_cached_stream_are_not_named_by_a_checkpoint(trusted: bool) -> None:
    source = CacheSource("/cache", (CacheFile(0, "0-a", 10),), Types.STRING())
    for name, fits in (("0-a", trusted), ("../../home/letter", False), ("/home/letter", False)):
        split = CacheSplit(split_id="0", files=(name,))
        for splits, checkpoint in (([split], ()), ([], (split,))):
            if fits:
                source.check_restored(splits, checkpoint, trusted=trusted)
            else:
                with pytest.raises(ForeignCheckpointError, match="cached stream"):
                    source.check_restored(splits, checkpoint, trusted=trusted)


def test_a_hybrid_source_has_its_parts_look_at_what_a_checkpoint_names(tmp_path: Path) -> None:
    first = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
    source = HybridSource.builder(NumberSequenceSource(1, 2)).add_source(first).build()
    evil = FileSourceSplit(split_id="0", path="/etc/passwd", offset=0, length=None, file_size=1)
    split = HybridSplit(split_id="1: 0", source=1, split=msgspec.msgpack.encode(evil))
    inner = FileEnumeratorState(pending=(evil,), known=())
    empty = FileEnumeratorState(pending=(), known=())
    for splits, number, enumerator, text in (
        ([split], 1, msgspec.msgpack.encode(empty), "a split in the checkpoint"),
        ([], 1, msgspec.msgpack.encode(inner), "a split in the checkpoint"),
        ([], 7, b"", "source 7 of the HybridSource"),
    ):
        state = HybridEnumeratorState(source=number, enumerator=enumerator, kind=source_kind(first))
        with pytest.raises(ForeignCheckpointError, match=text):
            source.check_restored(splits, state, trusted=True)
