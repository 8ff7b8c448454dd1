"""Checkpoints in an object store: claims and commits exclude each other there, and nothing tells the credentials."""

from __future__ import annotations

import hashlib
import io
import itertools
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import obstore
import pytest
from deltalake.exceptions import DeltaError
from obstore.exceptions import AlreadyExistsError, GenericError

from flinkish.checkpoint import checkpoint_files, job_table, paths
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.checkpoint.disposal import dispose
from flinkish.checkpoint.history import JobHistory
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.opening import open_checkpoint
from flinkish.checkpoint.storage import CheckpointDraft, CheckpointLocation, StoredCheckpoint
from flinkish.common.clock import ManualClock
from flinkish.common.configuration import Configuration
from flinkish.common.delta_calls import panics_as_errors
from flinkish.common.errors import CheckpointError, ConfigurationError, MissingPackageError, StaleGenerationError
from flinkish.common.files import store_settings
from flinkish.common.files.object_store import ObjectFiles
from flinkish.common.files.schemes import files_at, root_of
from flinkish.common.ids import CheckpointId, Generation
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.jobmaster.ha import ClusterRecord
from flinkish.runtime.protocol import StateFile
from tests.kit.child import python
from tests.kit.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.unit.checkpoint.support import COUNT, JOB, KEY, LINEAGE, coordinator_state, named_by

_NUMBERS = itertools.count()


_BUCKETS = {"s3": "s3://bucket", "gs": "gs://bucket", "abfss": "abfss://data@mine.dfs.core.windows.net"}
#: Runs a test in each object store; without it only in S3.
in_all_stores = pytest.mark.parametrize("directory", _BUCKETS, indirect=True)


@pytest.fixture
def directory(request: pytest.FixtureRequest) -> str:
    """Return a checkpoint directory of its own."""
    store = getattr(request, "param", "s3")
    request.getfixturevalue("s3" if store == "s3" else "clouds")
    return f"{_BUCKETS[store]}/checkpoints-{next(_NUMBERS)}-{os.getpid()}"


def make(directory: str, *, num_retained: int = 1, delta_log: Any = DeltaLog) -> DeltaCheckpointStorage:
    ids = itertools.count(1)
    return DeltaCheckpointStorage(
        directory,
        JOB,
        lineage=LINEAGE,
        signing_key=KEY,
        clock=ManualClock(1_000),
        ids=lambda: f"{next(ids):032x}"[::-1],
        num_retained=num_retained,
        delta_log=delta_log,
    )


def write(location: CheckpointLocation, name: str, content: bytes) -> StateFile:
    inside = (root_of(location.directory) / name).relative_to(root_of(location.root)).as_posix()
    with files_at(location.root).create(inside) as file:
        file.write(content)
    digest = hashlib.sha256(content).hexdigest()
    return StateFile(path=inside, size=len(content), sha256=digest, rows=1, operator_uids=(COUNT,), key_groups=(0, 127))


def draft(storage: DeltaCheckpointStorage, checkpoint_id: int, target: str | None = None) -> CheckpointDraft:
    location = storage.prepare(CheckpointId(checkpoint_id), target)
    return CheckpointDraft(
        checkpoint_id=CheckpointId(checkpoint_id),
        kind=CheckpointKind.PERIODIC if target is None else CheckpointKind.SAVEPOINT,
        trigger_time=0,
        location=location,
        coordinator=coordinator_state(checkpoint_id),
        files=(write(location, "part-0.parquet", b"%d" % checkpoint_id),),
        committables=(),
    )


def take(storage: DeltaCheckpointStorage, checkpoint_id: int) -> StoredCheckpoint:
    return storage.commit(draft(storage, checkpoint_id))


def files_of(storage: DeltaCheckpointStorage) -> set[str]:
    return {path for path in files_at(storage.root).files_below("") if path.endswith(".parquet") and "_delta_log" not in path}


@in_all_stores
def test_checkpoints_are_kept_fenced_cleaned_and_copied(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_table, "_VERSIONS_PER_SUMMARY", 3)
    storage = make(directory, num_retained=2)
    assert (storage.peek(), storage.claim()) == (None, 1)
    for checkpoint_id in range(1, 8):
        stored = take(storage, checkpoint_id)
        storage.clean_up(())
    assert stored.external_path == f"{directory}/{JOB}/state@7"
    assert storage.latest() == stored
    assert open_checkpoint(stored.external_path, signing_key=KEY) == stored
    assert open_checkpoint(f"{directory}/{JOB}@6", signing_key=KEY).checkpoint_id == 6
    checkpoint_files.verify_files(stored)
    names = files_at(storage.root).names()
    assert [name for name in names if paths.parse_folder(name)] == ["chk-6-g1", "chk-7-g1"]
    assert f"{1:020}.json" not in files_at(storage.root).names("_delta_log")  # cleaned
    late = draft(storage, 8)
    other = make(directory)
    assert (other.claim(), other.last_id) == (2, 8)
    with pytest.raises(StaleGenerationError):
        storage.commit(late)
    kept = other.latest()
    assert kept is not None
    assert kept.manifest == stored.manifest
    exported = other.export_savepoint(stored, other.prepare_export(f"{directory}/savepoints"))
    assert open_checkpoint(exported.external_path, signing_key=KEY).manifest == exported.manifest
    running = other.commit_savepoint(draft(other, 9, f"{directory}/savepoints"))
    checkpoint_files.verify_files(open_checkpoint(running.external_path, signing_key=KEY))
    other.delete_all()
    assert not files_at(other.root).exists("")
    assert make(directory).peek() is None
    assert open_checkpoint(running.external_path, signing_key=KEY).checkpoint_id == 9
    dispose(running.external_path)
    assert not files_at(running.root).exists("")
    assert open_checkpoint(exported.external_path, signing_key=KEY).manifest == exported.manifest


def test_a_savepoint_goes_from_a_folder_into_the_store(directory: str, tmp_path: Path) -> None:
    storage = make(str(tmp_path / "checkpoints"))
    storage.claim()
    stored = take(storage, 1)
    exported = storage.export_savepoint(stored, storage.prepare_export(directory))
    assert str(exported.root).startswith(f"{directory}/savepoint-")
    checkpoint_files.verify_files(open_checkpoint(exported.external_path, signing_key=KEY))


@in_all_stores
@pytest.mark.parametrize(
    "rounds", [pytest.param(3, id="3"), pytest.param(100, id="100", marks=[pytest.mark.soak, pytest.mark.timeout(1_200)])]
)
def test_of_two_drivers_that_claim_and_commit_at_once_exactly_one_writes(directory: str, rounds: int) -> None:
    for number in range(rounds):
        place = f"{directory}/{number}"
        drivers = [make(place), make(place)]
        start = threading.Barrier(2)
        claimed = threading.Barrier(2)
        written: list[Generation] = []
        refused: list[Exception] = []

        def drive(
            driver: DeltaCheckpointStorage,
            checkpoint_id: int,
            start: threading.Barrier = start,
            claimed: threading.Barrier = claimed,
            written: list[Generation] = written,
            refused: list[Exception] = refused,
        ) -> None:
            start.wait(30)
            driver.claim()
            claimed.wait(30)
            try:
                written.append(take(driver, checkpoint_id).manifest.generation)
            except StaleGenerationError as error:
                refused.append(error)

        threads = [threading.Thread(target=drive, args=(driver, each)) for each, driver in enumerate(drivers, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        newest = max(driver.generation for driver in drivers)
        assert len({driver.generation for driver in drivers}) == 2
        assert (written, len(refused)) == ([newest], 1)
        latest = make(place).peek()
        assert latest is not None
        assert latest.manifest.generation == newest


_SCRIPT = """
import sys
from flinkish.common.configuration import Configuration
from flinkish.common.delta_calls import panics_as_errors
from flinkish.common.files import store_settings
from tests.integration.checkpoint.test_s3_storage import make, take
directory, endpoint, access_key, secret_key = sys.argv[1], *sys.stdin.read().split()
settings = {"s3.endpoint": endpoint, "s3.access-key": access_key, "s3.secret-key": secret_key}
store_settings.use(Configuration.from_dict(settings))
storage = make(directory)
storage.claim()
for number in (1, 2, 3):
    take(storage, number)
    storage.clean_up(())
"""


@pytest.mark.kill
@pytest.mark.parametrize(("fault", "last"), [("P9:kill9:nth=2", 1), ("P14:kill9:nth=1", 2)])
def test_the_successor_of_a_killed_driver_finds_the_last_committed_checkpoint(
    directory: str, s3: S3Server, fault: str, last: int
) -> None:
    python("-c", _SCRIPT, directory, given=f"{s3.endpoint} {ACCESS_KEY} {SECRET_KEY}", status=-9, FLINKISH_FAULT=fault)
    storage = make(directory)
    assert storage.claim() == 2
    latest = storage.latest()
    assert latest is not None
    assert latest.checkpoint_id == last
    checkpoint_files.verify_files(latest)
    stored = take(storage, storage.last_id + 1)
    storage.clean_up(())
    assert files_of(storage) == named_by(stored)


# -- puts that fail before or after their effect ----------------------------------------------------------------------------


Put = Callable[..., Any]


def faulty(monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Put], Put]) -> None:
    monkeypatch.setattr(obstore, "put", wrap(obstore.put))


def told_that_it_exists(put: Put) -> Put:
    """A client whose first try succeeded, whose answer was lost, and whose second try was refused."""

    def twice(*arguments: Any, **options: Any) -> Any:
        result = put(*arguments, **options)
        return put(*arguments, **options) if options.get("mode") else result

    return twice


def test_a_repeated_put_recognizes_the_object_that_it_made(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_at(directory)
    files.make_root(sync=True)
    with monkeypatch.context() as patch:
        faulty(patch, told_that_it_exists)
        with pytest.raises(AlreadyExistsError):
            obstore.put(files._client, "probe", b"1", mode="create")  # type: ignore[attr-defined]
        files.make_folder("chk-1")
        with files.create("chk-1/part") as file:
            file.write(b"one")
            file.sync()
            file.write(b" two")
    assert files.read("chk-1/part", limit=10) == b"one two"
    for make_again in (lambda: files.make_folder("chk-1"), lambda: files.create("chk-1/part")):
        with pytest.raises(FileExistsError):
            make_again()


def test_whole_checkpoints_survive_repeated_puts(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty(monkeypatch, told_that_it_exists)
    storage = make(directory)
    storage.claim()
    stored = take(storage, 1)
    assert storage.latest() == stored
    checkpoint_files.verify_files(stored)


@pytest.mark.parametrize("happened", [False, True])
def test_each_put_that_fails_is_an_error_or_harmless_and_the_next_checkpoint_works(
    directory: str, monkeypatch: pytest.MonkeyPatch, happened: bool
) -> None:
    storage = make(directory)
    storage.claim()
    expected = take(storage, 1)
    checkpoint_id = 1
    for nth in itertools.count():
        failed: list[int] = []
        count = itertools.count()

        def failing(put: Put, nth: int = nth, count: Any = count, failed: list[int] = failed) -> Put:
            def fail(*arguments: Any, **options: Any) -> Any:
                if next(count) != nth:
                    return put(*arguments, **options)
                failed.append(nth)
                if happened:
                    put(*arguments, **options)
                raise GenericError("connection reset")

            return fail

        checkpoint_id += 1
        with monkeypatch.context() as patch:
            faulty(patch, failing)
            try:
                expected = take(storage, checkpoint_id)
            except (OSError, CheckpointError):
                assert failed
        assert storage.latest() == expected
        if not failed:
            break
    assert nth >= 5  # folder, state file, manifest, marker of the newest version
    storage.clean_up(())
    assert files_of(storage) == named_by(expected)


def test_a_commit_whose_answer_was_lost_is_recognized(directory: str) -> None:
    lost: list[str] = []

    class Flaky(DeltaLog):
        def replace_files(self, *arguments: Any, **options: Any) -> None:
            super().replace_files(*arguments, **options)
            lost.append("answer")
            raise DeltaError("connection reset")

    storage = make(directory, delta_log=Flaky)
    storage.claim()
    stored = take(storage, 1)
    assert lost
    assert make(directory).peek() == stored


# -- what is large, what is elsewhere ----------------------------------------------------------------------------------------


def test_a_large_file_is_sent_in_parts_and_read_in_ranges(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinkish.common.files.object_store._PART", 5 << 20)
    monkeypatch.setattr("flinkish.common.files.object_store._READ", 1 << 20)
    files = files_at(directory)
    files.make_root(sync=True)
    content = random.Random(1).randbytes((5 << 20) + 100)
    with files.create("part") as file:
        for start in range(0, len(content), 1 << 20):
            file.write(memoryview(content)[start : start + (1 << 20)])
    with files.open("part") as stream:
        assert hashlib.sha256(stream.read()).digest() == hashlib.sha256(content).digest()
        stream.seek(-10, io.SEEK_END)
        assert stream.read() == content[-10:]
    with files.create("other") as file:
        file.write(content)
        files.remove("other")
    assert not files.exists("other")
    assert isinstance(files, ObjectFiles)
    files.put("new/folder/whole", io.BytesIO(content))
    (size, _), (found, written) = files.describe("new/folder/whole"), files.read_with_time("new/folder/whole")
    assert (found, size) == (content, len(content))
    assert abs(written / 1000 - time.time()) < 60


def test_what_another_one_has_written_is_not_overwritten(directory: str) -> None:
    files = files_at(directory)
    files.make_root(sync=True)
    file = files.create("part")
    file.write(b"mine")
    files.replace("part", b"theirs", sync=True)
    with pytest.raises(OSError, match="somebody else"):
        file.close()
    assert files.read("part", limit=10) == b"theirs"


def test_the_record_of_a_cluster_id_and_the_history_are_in_the_store(directory: str) -> None:
    record = ClusterRecord(root_of(directory), "cluster")
    first = record.job_id()
    record.retire(first)
    assert ClusterRecord(root_of(directory), "cluster").job_id() not in ("", first)
    history = JobHistory(directory, JOB, generation=Generation(1), clock=ManualClock(1))
    history.note("attempt failed", "why")
    history.flush()
    assert "_delta_log" in files_at(history.root).names()


@pytest.mark.parametrize("text", ["s3://", "s3:/a", "s3://bucket/a/../b", "s3://bucket/a%20b", "s3://bucket/a b", "s3a://b/#"])
def test_a_place_that_is_read_in_different_ways_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"expected s3a?://bucket/path"):
        paths.table_root(text, key="execution.checkpointing.dir")


def test_names_of_the_same_store_are_one_place() -> None:
    for text in ("s3://bucket/a", "s3a://bucket/a/", "s3p://bucket/a"):
        assert str(paths.durable_root(text, key="high-availability.storageDir")) == "s3://bucket/a"


def test_other_stores_are_refused_by_name() -> None:
    for text in ("hdfs://host/a", "oss://bucket/a", "ftp://me:hush@host/a"):
        with pytest.raises(ConfigurationError, match=r"in folders and in s3:// \(extra s3\), gs:// .*, not at") as error:
            paths.durable_root(text, key="execution.checkpointing.dir")
        assert "hush" not in str(error.value)


def test_a_missing_client_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingPackageError, match=r"s3://bucket/a/.*/state needs the package obstore[^$]*flinkish\[s3\]"):
        make("s3://bucket/a")


def test_a_bucket_that_does_not_exist_is_named(s3: S3Server) -> None:
    with pytest.raises(CheckpointError, match=r"s3://no-bucket.*(NoSuchBucket|bucket does not exist)"):
        make("s3://no-bucket/a").claim()


# -- credentials -------------------------------------------------------------------------------------------------------------


def test_credentials_in_a_url_are_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match=r"s3://\*\*\*@bucket/a") as error:
        paths.table_root("s3://AKID:hush@bucket/a", key="execution.checkpointing.dir")
    assert "hush" not in str(error.value)


def test_keys_of_flink_and_hadoop_name_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    try:
        for access, secret, endpoint in (
            ("s3.access-key", "s3.secret-key", "s3.endpoint"),
            ("s3.access.key", "s3.secret.key", "fs.s3a.endpoint"),
            ("fs.s3a.access.key", "fs.s3a.secret.key", "s3.endpoint"),
        ):
            given = {access: "AKID", secret: "hush", endpoint: "http://minio:9000"}
            store_settings.use(Configuration.from_dict(given))
            assert store_settings.storage_options("s3://bucket") == {
                "aws_conditional_put": "etag",
                "aws_access_key_id": "AKID",
                "aws_secret_access_key": "hush",
                "aws_endpoint": "http://minio:9000",
                "aws_allow_http": "true",
                "aws_region": "us-east-1",
            }
        store_settings.use(Configuration.from_dict({**given, "s3.path.style.access": "false", "s3.region": "eu-west-1"}))
        found = store_settings.storage_options("s3://bucket")
        assert (found["aws_endpoint"], found["aws_region"]) == ("http://bucket.minio:9000", "eu-west-1")
        assert found == store_settings.storage_options("s3a://bucket/a/table") == files_at("s3p://bucket").delta_options
    finally:
        store_settings.use(Configuration())


@pytest.mark.parametrize(
    "given",
    [
        {"s3.access-key": "AKID"},
        {"s3.secret-key": "hush"},
        {"s3.session-token": "hush"},
        {"s3.endpoint": "http://me:hush@minio"},
    ],
)
def test_settings_that_cannot_be_meant_are_refused_without_showing_them(given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"s3\.") as error:
        store_settings.use(Configuration.from_dict(given))
    assert "hush" not in str(error.value)


def test_a_program_is_built_with_the_settings_of_its_environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = StreamExecutionEnvironment(Configuration.from_dict({"s3.endpoint": "http://a", "s3.access-key": "AKID"}))
    assert store_settings.storage_options("s3://bucket")["aws_endpoint"] == s3.endpoint  # not complete yet
    environment.configure(Configuration.from_dict({"s3.secret-key": "hush"}))
    assert store_settings.storage_options("s3://bucket")["aws_endpoint"] == "http://a"
    StreamExecutionEnvironment(Configuration())
    assert store_settings.storage_options("s3://bucket")["aws_endpoint"] == "http://a"
    monkeypatch.setattr(store_settings, "_in_use", lambda: True)
    StreamExecutionEnvironment(s3.configuration)
    assert store_settings.storage_options("s3://bucket")["aws_endpoint"] == "http://a"  # jobs run with it


def test_jobs_of_one_process_cannot_have_different_settings(s3: S3Server) -> None:
    store_settings.use(Configuration(), alone=False)
    store_settings.use(s3.configuration, alone=False)
    with pytest.raises(ConfigurationError, match="another job in this process"):
        store_settings.use(Configuration.from_dict({"s3.endpoint": "http://minio"}), alone=False)
    assert store_settings.storage_options("s3://bucket")["aws_endpoint"] == s3.endpoint


def test_credentials_are_in_no_table_error_log_or_printed_form(
    directory: str, s3: S3Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    storage = make(directory)
    storage.claim()
    take(storage, 1)
    files = files_at(storage.root)
    content = b"".join(files.read(path, limit=1 << 20) for path in files.files_below(""))
    shown = [content.decode("latin-1"), str(s3.configuration), repr(s3.configuration), repr(store_settings._current)]

    def answer(*_: Any, **__: Any) -> Any:
        raise GenericError(f"403 {SECRET_KEY} <Error><Code>SignatureDoesNotMatch</Code><Key>{ACCESS_KEY}</Key>")

    with monkeypatch.context() as patch:
        patch.setattr(obstore, "put", answer)
        with pytest.raises(OSError, match="SignatureDoesNotMatch") as error:
            files.make_folder("chk-9")
        shown.append(repr(error.value))

    class Refused(DeltaLog):
        @classmethod
        @panics_as_errors()
        def open(cls, root: Any, version: int | None = None) -> Self | None:
            raise DeltaError(f"403 for {ACCESS_KEY}")

    with pytest.raises(CheckpointError, match=r"403 for \*\*\*") as refused:
        make(directory, delta_log=Refused).peek()
    shown += [str(refused.value), str(refused.value.__cause__), caplog.text]
    for text in shown:
        assert SECRET_KEY not in text
        assert ACCESS_KEY not in text
