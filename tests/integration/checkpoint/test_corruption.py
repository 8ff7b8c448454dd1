"""Damaged checkpoints: each file flipped, truncated, emptied, removed, swapped. Always a named error, never an older state."""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from flinkish.checkpoint import checkpoint_files, paths
from flinkish.checkpoint import manifest as manifests
from flinkish.checkpoint.checkpoint_files import Latest, manifest_rows
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.manifest import Manifest
from flinkish.checkpoint.opening import open_checkpoint
from flinkish.checkpoint.signing import SigningKey
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.errors import CorruptCheckpointError, ForeignCheckpointError
from tests.unit.checkpoint.support import JOB, KEY, OTHER_KEY, claimed_storage, make_storage, take

DAMAGE: dict[str, Callable[[Path, random.Random], None]] = {}


def damage(function: Callable[[Path, random.Random], None]) -> Callable[[Path, random.Random], None]:
    DAMAGE[function.__name__] = function
    return function


@damage
def flip(file: Path, rng: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


@damage
def truncate(file: Path, rng: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: rng.randrange(1, len(content))])


@damage
def empty(file: Path, _: random.Random) -> None:
    file.write_bytes(b"")


@damage
def remove(file: Path, _: random.Random) -> None:
    file.unlink()


@damage
def extend(file: Path, _: random.Random) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


def restore(directory: Path) -> StoredCheckpoint | None:
    """Do what a driver that takes over and its tasks do, as far as reading goes."""
    storage = claimed_storage(directory, num_retained=2)
    latest = storage.latest()
    if latest is not None:
        checkpoint_files.verify_files(latest)
    return latest


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job with two retained checkpoints."""
    storage = claimed_storage(tmp_path, num_retained=2)
    for number in (1, 2):
        take(storage, number)
        storage.clean_up(())
    return tmp_path


def root_of(job: Path) -> Path:
    return job / JOB / "state"


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", ["part-0", "part-1", "manifest"])
def test_a_damaged_file_of_the_last_checkpoint_is_named(job: Path, name: str, how: str) -> None:
    (file,) = (root_of(job) / "chk-2-g1").glob(f"{name}*.parquet")
    DAMAGE[how](file, random.Random(1))
    with pytest.raises(CorruptCheckpointError, match=file.name):
        restore(job)


def test_random_damage_to_any_file_never_restores_anything_wrong(job: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    good = restore(job)
    assert good is not None
    files = sorted(file.relative_to(job) for file in job.rglob("*") if file.is_file())
    detected = 0
    for seed in range(150):
        rng = random.Random(seed)
        copy = tmp_path_factory.mktemp("copy") / "job"
        shutil.copytree(job, copy)
        name = rng.choice(files)
        how = rng.choice(sorted(DAMAGE))
        DAMAGE[how](copy / name, rng)
        try:
            restored = restore(copy)
        except (CorruptCheckpointError, ForeignCheckpointError):
            detected += 1
        else:
            # proven harmless: the very same checkpoint came back
            assert restored is not None, (seed, name, how)
            assert restored.manifest == good.manifest, (seed, name, how)
        finally:
            shutil.rmtree(copy)
    assert detected > 75


@pytest.mark.parametrize("name", ["part-0", "part-1"])
def test_state_files_swapped_between_two_checkpoints_are_recognized(job: Path, name: str) -> None:
    one, two = (root_of(job) / f"chk-{number}-g1" / f"{name}.parquet" for number in (1, 2))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    with pytest.raises(CorruptCheckpointError, match=name):
        restore(job)


def test_state_files_swapped_within_a_checkpoint_are_recognized(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    from tests.unit.checkpoint.support import make_draft, write_state

    draft = make_draft(storage, 1, files=1)
    other = write_state(draft.location, "other", rows=10, checkpoint_id=2)
    storage.commit(dataclasses.replace(draft, files=(*draft.files, other)))
    one, two = (storage.root / file.path for file in (draft.files[0], other))
    first, second = one.read_bytes(), two.read_bytes()
    assert first != second
    one.write_bytes(second)
    two.write_bytes(first)
    with pytest.raises(CorruptCheckpointError, match="chk-1-g1"):
        restore(tmp_path)


def test_manifests_swapped_between_two_checkpoints_are_recognized(job: Path) -> None:
    (one,), (two,) = ((root_of(job) / f"chk-{number}-g1").glob("manifest-*") for number in (1, 2))
    two.write_bytes(one.read_bytes())
    with pytest.raises(CorruptCheckpointError, match=r"manifest-"):
        restore(job)


@pytest.mark.parametrize("how", ["truncate", "empty", "remove"])
def test_a_damaged_last_entry_of_the_log_is_no_way_back_to_an_older_checkpoint(job: Path, how: str) -> None:
    last = max((root_of(job) / "_delta_log").glob("*.json"))
    DAMAGE[how](last, random.Random(3))
    with pytest.raises(CorruptCheckpointError):
        restore(job)


@pytest.mark.parametrize("checkpoints", [0, 2])
def test_a_damaged_transaction_in_the_log_is_named(tmp_path: Path, checkpoints: int) -> None:
    storage = claimed_storage(tmp_path)
    for number in range(checkpoints):
        take(storage, number + 1)
    last = max((root_of(tmp_path) / "_delta_log").glob("*.json"))
    last.write_bytes(last.read_bytes().replace(b'"appId"', b'"appIe"'))
    for read in (make_storage(tmp_path).peek, make_storage(tmp_path).claim)[0 if checkpoints else 1 :]:
        with pytest.raises(CorruptCheckpointError, match="its Delta log cannot be read"):
            read()


def test_a_lost_log_is_not_taken_for_a_new_job(job: Path) -> None:
    shutil.rmtree(root_of(job) / "_delta_log")
    with pytest.raises(CorruptCheckpointError, match="_delta_log is missing"):
        restore(job)


def test_an_entry_missing_in_the_middle_of_the_log_is_an_error(job: Path) -> None:
    (root_of(job) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(CorruptCheckpointError):
        restore(job)


@pytest.mark.parametrize("how", ["flip", "truncate", "empty"])
def test_a_damaged_marker_is_named(job: Path, how: str) -> None:
    DAMAGE[how](root_of(job) / paths.LATEST, random.Random(5))
    with pytest.raises(CorruptCheckpointError, match=paths.LATEST):
        restore(job)


def test_a_missing_marker_does_no_harm(job: Path) -> None:
    (root_of(job) / paths.LATEST).unlink()
    restored = restore(job)
    assert restored is not None
    assert restored.checkpoint_id == 2


def test_the_older_checkpoint_is_restored_when_it_is_asked_for(job: Path) -> None:
    (file,) = (root_of(job) / "chk-2-g1").glob("part-0*")
    file.unlink()
    with pytest.raises(CorruptCheckpointError):
        open_checkpoint(str(root_of(job)), signing_key=KEY)
    last = max((root_of(job) / "_delta_log").glob("*.json"))
    last.unlink()
    older = open_checkpoint(f"{root_of(job)}@1", signing_key=KEY)
    checkpoint_files.verify_files(older)
    assert older.checkpoint_id == 1


def test_a_damaged_older_checkpoint_is_found_when_a_driver_takes_over(job: Path) -> None:
    (file,) = (root_of(job) / "chk-1-g1").glob("manifest-*")
    file.write_bytes(b"")
    with pytest.raises(CorruptCheckpointError, match=file.name):
        restore(job)


# -- tampering: files that are whole, but not what they should be ------------------------------------------------------------


def forge(job: Path, change: Callable[[Manifest], Manifest], key: SigningKey = KEY, *, keep_signature: bool = False) -> None:
    """Replace the last checkpoint by a changed one, log entry and all, as somebody with access to the storage could."""
    root = root_of(job)
    log = DeltaLog.open(root)
    assert log is not None
    stored = checkpoint_files.read_checkpoint(root, log, KEY)
    assert stored is not None
    changed = change(stored.manifest)
    content, _ = manifest_rows(changed, key)
    if keep_signature:
        old = pq.read_table(root / stored.manifest_path).to_pylist()
        new = pq.read_table(pa.BufferReader(content)).to_pylist()
        new[1] = old[1]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(new, schema=checkpoint_files.STATE_SCHEMA), sink)
        content = sink.getvalue().to_pybytes()
    folder = paths.folder_name(changed.checkpoint_id, changed.generation)
    path = paths.manifest_name(folder, manifests.sha256(content))
    (root / folder).mkdir(exist_ok=True)
    (root / path).write_bytes(content)
    files = {file.path: (file.size, file.rows) for file in changed.files}
    log.replace_files({**files, path: (len(content), 3)}, JOB, log.transaction(JOB) or 0, {}, time=0)


def test_a_changed_manifest_with_the_old_signature_is_refused(job: Path) -> None:
    forge(job, lambda manifest: dataclasses.replace(manifest, trigger_time=1), keep_signature=True)
    with pytest.raises(CorruptCheckpointError, match="signature"):
        restore(job)


def test_a_manifest_signed_by_somebody_else_is_refused_in_the_own_table_and_elsewhere_not_trusted(job: Path) -> None:
    forge(job, lambda manifest: dataclasses.replace(manifest, trigger_time=1), OTHER_KEY)
    with pytest.raises(ForeignCheckpointError, match="signed by another key than ours"):
        restore(job)
    opened = open_checkpoint(str(job / JOB), signing_key=KEY)
    assert not opened.trusted
    assert not opened.to_restore().pickle_allowed


@pytest.mark.parametrize(
    "path", ["../../secret", "/etc/passwd", "chk-2-g1/../../x", "a\\b", "%2e%2e/x", "file:///etc/passwd", "a\0b", ".", ""]
)
def test_a_manifest_that_names_a_file_outside_of_its_table_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(CorruptCheckpointError, match="not inside"):
        paths.check_inside(tmp_path, path)


def test_a_manifest_that_hides_a_file_of_the_log_is_refused(job: Path) -> None:
    forge(job, lambda manifest: manifest)
    root = root_of(job)
    log = DeltaLog.open(root)
    assert log is not None
    files = {path: (size, 1) for path, size in log.files().items()}
    files.popitem()
    kept = {path: size for path, size in files.items() if "manifest" in path} or files
    log.replace_files({**kept, "extra.parquet": (1, 1)}, JOB, log.transaction(JOB) or 0, {}, time=0)
    with pytest.raises(CorruptCheckpointError):
        restore(job)


def test_a_checkpoint_of_another_job_is_refused(job: Path) -> None:
    shutil.copytree(job / JOB, job / "other-job")
    storage = make_storage(job, job_id="other-job")
    with pytest.raises(CorruptCheckpointError, match=f"job {JOB}"):
        storage.claim()


def test_a_checkpoint_of_a_later_format_is_foreign(job: Path) -> None:
    forge(job, lambda manifest: dataclasses.replace(manifest, format_version=99))
    with pytest.raises(ForeignCheckpointError, match="format 99"):
        restore(job)


def test_a_delta_table_of_somebody_else_is_foreign(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / JOB / "state"), pa.table({"a": [1, 2]}))
    with pytest.raises(ForeignCheckpointError, match="columns"):
        make_storage(tmp_path).claim()


@pytest.mark.parametrize("seed", range(200))
def test_random_bytes_are_no_manifest(seed: int) -> None:
    rng = random.Random(seed)
    data = rng.randbytes(rng.randrange(200))
    with pytest.raises((CorruptCheckpointError, ForeignCheckpointError)):
        manifests.decode(data, where="test")


def test_a_manifest_with_bits_flipped_gives_only_named_errors(job: Path) -> None:
    latest = restore(job)
    assert latest is not None
    data = manifests.encode(latest.manifest)
    for seed in range(500):
        rng = random.Random(seed)
        changed = bytearray(data)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        try:
            manifests.decode(bytes(changed), where="test")
        except (CorruptCheckpointError, ForeignCheckpointError):
            continue


def test_deeply_nested_input_is_refused() -> None:
    with pytest.raises(CorruptCheckpointError):
        manifests.decode(b"\x91" * 100_000, where="test")


def test_the_marker_round_trips(tmp_path: Path) -> None:
    latest = Latest(version=3, checkpoint_id=2, generation=1)
    checkpoint_files.write_latest(tmp_path, latest, sync=False)
    assert checkpoint_files.read_latest(tmp_path) == latest
    assert msgspec.to_builtins(latest) == {"version": 3, "checkpoint_id": 2, "generation": 1}
