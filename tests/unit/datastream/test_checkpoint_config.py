"""CheckpointConfig, checkpoint storage and state backends: defaults, ranges, and the configuration keys behind them."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import Configuration, Duration
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, UnsupportedError
from flinkish.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    CheckpointStorage,
    CustomCheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    PredefinedOptions,
)


def test_defaults_are_those_of_flink() -> None:
    config = CheckpointConfig()

    assert not config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == -1
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.get_checkpoint_timeout() == 600_000
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.get_tolerable_checkpoint_failure_number() == 0
    assert config.is_fail_on_checkpointing_errors()
    assert config.get_externalized_checkpoint_retention() is ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
    assert not config.is_externalized_checkpoints_enabled()
    assert not config.is_unaligned_checkpoints_enabled()
    assert not config.is_force_unaligned_checkpoints()
    assert config.get_aligned_checkpoint_timeout() == config.get_alignment_timeout() == Duration.of_millis(0)


def test_the_mode_is_exactly_once_as_soon_as_checkpoints_are_made() -> None:
    config = CheckpointConfig().set_checkpoint_interval(500)

    assert config.is_checkpointing_enabled()
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE


def test_settings_are_read_back_and_stand_in_the_configuration() -> None:
    configuration = Configuration()
    config = CheckpointConfig(configuration)

    returned = (
        config.set_checkpoint_interval(1000)
        .set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
        .set_checkpoint_timeout(60_000)
        .set_min_pause_between_checkpoints(50)
        .set_max_concurrent_checkpoints(2)
        .set_tolerable_checkpoint_failure_number(3)
        .set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
        .set_aligned_checkpoint_timeout(Duration.of_seconds(5))
        .set_force_unaligned_checkpoints()
    )

    assert returned is config
    again = CheckpointConfig(configuration)
    assert again.get_checkpoint_interval() == 1000
    assert again.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert again.get_checkpoint_timeout() == 60_000
    assert again.get_min_pause_between_checkpoints() == 50
    assert again.get_max_concurrent_checkpoints() == 2
    assert again.get_tolerable_checkpoint_failure_number() == 3
    assert again.is_externalized_checkpoints_enabled()
    assert again.get_alignment_timeout() == Duration.of_seconds(5)
    assert again.is_force_unaligned_checkpoints()
    assert configuration.to_dict()["execution.checkpointing.mode"] == "AT_LEAST_ONCE"
    assert configuration.to_dict()["execution.checkpointing.interval"] == "1000"


def test_keys_are_read_whatever_their_form() -> None:
    config = CheckpointConfig(Configuration.from_dict({"execution.checkpointing.interval": "10 s"}))

    assert config.get_checkpoint_interval() == 10_000


def test_failing_on_errors_is_a_number_of_tolerable_failures() -> None:
    config = CheckpointConfig().set_fail_on_checkpointing_errors(False)

    assert config.get_tolerable_checkpoint_failure_number() == 2**31 - 1
    assert not config.is_fail_on_checkpointing_errors()
    assert config.set_fail_on_checkpointing_errors(True).get_tolerable_checkpoint_failure_number() == 0


def test_unaligned_checkpoints_are_for_exactly_once_only() -> None:
    config = CheckpointConfig().enable_unaligned_checkpoints()

    assert config.is_unaligned_checkpoints_enabled()
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    config.enable_unaligned_checkpoints(True).set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert not config.is_unaligned_checkpoints_enabled()


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("set_checkpoint_interval", 9),
        ("set_checkpoint_interval", 0),
        ("set_checkpoint_timeout", 5),
        ("set_min_pause_between_checkpoints", -1),
        ("set_max_concurrent_checkpoints", 0),
        ("set_tolerable_checkpoint_failure_number", -1),
    ],
)
def test_numbers_out_of_range_are_refused(method: str, value: int) -> None:
    with pytest.raises(InvalidProgramError, match=f"got {value}"):
        getattr(CheckpointConfig(), method)(value)


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("set_checkpoint_interval", "10 s"),
        ("set_checkpointing_mode", "EXACTLY_ONCE"),
        ("set_externalized_checkpoint_retention", 1),
        ("set_alignment_timeout", 5),
        ("enable_unaligned_checkpoints", "yes"),
        ("set_checkpoint_storage", "file:///tmp"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(method: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a"):
        getattr(CheckpointConfig(), method)(value)


# Storage.


def test_checkpoint_folders_are_shown_as_flink_shows_them() -> None:
    storage = FileSystemCheckpointStorage("file:///state/x/")

    assert storage.get_checkpoint_path() == "file:/state/x"
    assert storage.get_savepoint_path() is None
    assert (storage.get_min_file_size_threshold(), storage.get_write_buffer_size()) == (20480, 4096)
    assert FileSystemCheckpointStorage("s3://bucket/a", 100, 5).get_checkpoint_path() == "s3://bucket/a"
    assert FileSystemCheckpointStorage("/state/x/").get_checkpoint_path() == "/state/x"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("file:///data//x//y/", "file:/data/x/y"),
        ("file:////data/x", "file:/data/x"),
        ("file:///data/./a/../x", "file:/data/x"),
        ("file:///a#b", "file:/a#b"),
        ("file:///a?b=c", "file:/a?b=c"),
        ("file:///a%20b", "file:/a%20b"),
        ("file://localhost/data/x", "file://localhost/data/x"),
        ("hdfs://host:80/a//b/", "hdfs://host:80/a/b"),
        ("hdfs://host/a/../b", "hdfs://host/b"),
        ("s3://bucket/a//b/", "s3://bucket/a/b"),
    ],
)
def test_paths_of_checkpoints_have_flink_s_normal_form(path: str, shown: str) -> None:
    """As PyFlink 2.3.0 shows each."""
    assert FileSystemCheckpointStorage(path).get_checkpoint_path() == shown
    assert JobManagerCheckpointStorage(path).get_checkpoint_path() == shown


@pytest.mark.parametrize("path", ["file:///", "/", "file:relative", "relative", ""])
def test_paths_that_flink_refuses_for_checkpoints_are_refused(path: str) -> None:
    with pytest.raises(InvalidProgramError, match="checkpoint_path must"):
        FileSystemCheckpointStorage(path)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("file:///data//x/", "/data/x"),
        ("file:///data/a/../x", "/data/x"),
        ("file:///a#b", "/a#b"),
        ("/data//x/", "/data/x"),
        ("/data/a/../x/.", "/data/a/../x/."),
        ("/", "/"),
    ],
)
def test_folders_of_rocksdb_are_shown_as_flink_shows_them(path: str, shown: str) -> None:
    """As PyFlink 2.3.0 shows each."""
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(path)

    assert backend.get_db_storage_paths() == [shown]


def test_a_folder_of_rocksdb_must_be_local() -> None:
    with pytest.raises(InvalidProgramError, match=r"got 's3://bucket/a'"):
        EmbeddedRocksDBStateBackend().set_db_storage_paths("s3://bucket/a")


def test_the_storage_of_the_job_manager_needs_no_folder() -> None:
    assert JobManagerCheckpointStorage().get_checkpoint_path() is None
    assert JobManagerCheckpointStorage("file:///a", 5).get_checkpoint_path() == "file:/a"
    assert JobManagerCheckpointStorage().get_max_state_size() == JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE == 5 << 20
    assert str(JobManagerCheckpointStorage()).endswith("maxStateSize: 5242880)")


@pytest.mark.parametrize(
    "arguments", [(), ("relative/x",), ("file:///x", 2 << 20), ("file:///x", -2), ("file:///x", 1, -2)], ids=str
)
def test_a_storage_that_cannot_be_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidProgramError):
        FileSystemCheckpointStorage(*arguments)


def test_a_storage_object_sets_the_configuration_keys() -> None:
    configuration = Configuration()

    CheckpointConfig(configuration).set_checkpoint_storage(FileSystemCheckpointStorage("file:///data/x"))
    assert configuration.to_dict()["execution.checkpointing.dir"] == "file:/data/x"

    CheckpointConfig(configuration).set_checkpoint_storage_dir("file:///data/y")
    assert configuration.to_dict()["execution.checkpointing.dir"] == "file:/data/y"


def test_storages_and_backends_in_java_are_refused() -> None:
    for kind in (CustomCheckpointStorage, CustomStateBackend):
        with pytest.raises(UnsupportedError, match="no Java user code"):
            kind(object())

    class Own(CheckpointStorage):
        pass

    with pytest.raises(UnsupportedError, match="of type Own is not known here"):
        CheckpointConfig().set_checkpoint_storage(Own())


# State backends.


def test_the_settings_of_the_rocksdb_backend_are_kept() -> None:
    backend = EmbeddedRocksDBStateBackend(True)

    assert backend.is_incremental_checkpoints_enabled()
    assert (backend.get_db_storage_paths(), backend.get_options()) == ([], None)
    assert backend.get_predefined_options() is PredefinedOptions.DEFAULT
    assert backend.get_number_of_transfer_threads() == 4
    backend.set_db_storage_paths("/a", "file:///b")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_number_of_transfer_threads(8)
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert backend.get_number_of_transfer_threads() == 8
    backend.set_db_storage_paths()
    assert backend.get_db_storage_paths() == []


def test_settings_of_the_rocksdb_backend_that_cannot_be_are_refused() -> None:
    backend = EmbeddedRocksDBStateBackend()

    with pytest.raises(InvalidArgumentError, match="must be None, True or False; got 'x'"):
        EmbeddedRocksDBStateBackend("x")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="must be absolute"):
        backend.set_db_storage_paths("relative")
    with pytest.raises(InvalidProgramError, match="at least 1; got 0"):
        backend.set_number_of_transfer_threads(0)
    with pytest.raises(InvalidArgumentError, match="must be a PredefinedOptions"):
        backend.set_predefined_options("DEFAULT")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="no Java user code"):
        backend.set_options("org.example.Options")


def test_backends_have_a_readable_form() -> None:
    assert str(HashMapStateBackend()) == "HashMapStateBackend"
    assert str(EmbeddedRocksDBStateBackend()).startswith("EmbeddedRocksDBStateBackend")
