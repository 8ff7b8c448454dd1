"""The archive of Spark's classes: who writes it, who reads it, and where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from flinkish.engine.processes import ProcessId, boot
from flinkish.engine.spark.class_archive import ClassArchive, cache_folder, name_of, usable

SPARK = Path(_find_spark_home())


def _ended() -> ProcessId:
    """Return a process that is over."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = ProcessId.of(process.pid)
    process.communicate(b"\n")
    assert found is not None
    return found


def _me() -> ProcessId:
    found = ProcessId.of(os.getpid())
    assert found is not None
    return found


def _file(options: str) -> Path:
    return Path(options.split('"')[1].partition("=")[2])


def test_the_first_jvm_writes_and_later_ones_read(tmp_path: Path) -> None:
    first = ClassArchive(tmp_path, "a")
    options = first.java_options()
    assert options.startswith('"-XX:ArchiveClassesAtExit=')
    first.written_by(_ended())
    _file(options).write_bytes(b"classes")
    for _ in range(2):
        options = ClassArchive(tmp_path, "a").java_options()
        assert options.startswith('"-XX:SharedArchiveFile=')
        assert _file(options).read_bytes() == b"classes"
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsa"]


def test_while_a_jvm_may_still_write_others_do_without(tmp_path: Path) -> None:
    first = ClassArchive(tmp_path, "a")
    options = first.java_options()
    assert ClassArchive(tmp_path, "a").java_options() == ""  # this process starts the JVM
    first.written_by(_me())
    _file(options).write_bytes(b"half")
    assert ClassArchive(tmp_path, "a").java_options() == ""
    assert _file(options).exists()


def test_jvms_that_write_nothing_are_tried_three_times(tmp_path: Path) -> None:
    for _ in range(3):
        archive = ClassArchive(tmp_path, "a")
        assert "ArchiveClassesAtExit" in archive.java_options()
        archive.written_by(_ended())
    assert ClassArchive(tmp_path, "a").java_options() == ""


def test_an_archive_from_before_the_machine_started_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = ClassArchive(tmp_path, "a")
    unfinished = _file(archive.java_options())
    archive.written_by(_ended())
    unfinished.write_bytes(b"who knows")
    later = boot() + 1e9
    monkeypatch.setattr("flinkish.engine.processes.boot", lambda: later)
    assert "ArchiveClassesAtExit" in ClassArchive(tmp_path, "a").java_options()
    assert not unfinished.exists()


def test_two_archives_are_kept_and_what_a_jvm_may_be_writing(tmp_path: Path) -> None:
    for number in range(5):
        archive = ClassArchive(tmp_path, str(number))
        unfinished = _file(archive.java_options())
        archive.written_by(_me() if number == 0 else _ended())
        unfinished.write_bytes(b"classes")
        os.utime(unfinished, (number, number))
        if number == 3:
            archive.java_options()  # it is finished now
            os.utime(tmp_path / "3.jsa", (number, number))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.json", "0.part", "3.jsa", "4.json", "4.part"]


def test_a_discarded_archive_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "a.jsa").write_bytes(b"damaged")
    archive = ClassArchive(tmp_path, "a")
    assert "SharedArchiveFile" in archive.java_options()
    assert archive.discard()
    assert not archive.discard()
    assert "ArchiveClassesAtExit" in archive.java_options()


def test_a_damaged_note_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"pid": ')
    assert "ArchiveClassesAtExit" in ClassArchive(tmp_path, "a").java_options()


def test_where_nothing_can_be_written_there_is_no_archive(tmp_path: Path) -> None:
    assert ClassArchive(tmp_path / "missing", "a").java_options() == ""


def test_the_folder_is_the_users_own(tmp_path: Path) -> None:
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "flinkish" / "classes"
    assert cache_folder({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "flinkish" / "classes"
    assert (tmp_path / "flinkish" / "classes").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "flinkish" / "classes"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) is None
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) is None
    (tmp_path / "file").write_text("")
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path / "file")}) is None
    assert cache_folder({}) is None


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ("-XX:SharedArchiveFile=mine.jsa", {}),
        ("-Xshare:off", {}),
        ("-javaagent:agent.jar", {}),
        ("", {"SPARK_SUBMIT_OPTS": "-XX:ArchiveClassesAtExit=mine.jsa"}),
        ("", {"JAVA_TOOL_OPTIONS": "-Xshare:auto"}),
        ("", {"SPARK_CONF_DIR": str(SPARK)}),
        ("", {"HADOOP_CONF_DIR": str(SPARK)}),
    ],
)
def test_whoever_shares_classes_otherwise_or_cannot_is_left_alone(
    options: str, environment: dict[str, str], tmp_path: Path
) -> None:
    assert usable("-XX:TieredStopAtLevel=1", {}, tmp_path)
    assert not usable(options, environment, tmp_path)


def test_a_name_stands_for_java_spark_and_class_path(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    jar = tmp_path / "jars" / "spark.jar"
    jar.write_bytes(b"1")
    names = [
        name_of("/java", "17", tmp_path, ""),
        name_of("/java", "21", tmp_path, ""),
        name_of("/java", "17", tmp_path, "a.jar"),
    ]
    jar.write_bytes(b"22")
    names.append(name_of("/java", "17", tmp_path, ""))
    assert len(set(names)) == 4
    assert name_of("/java", "17", tmp_path, "") == names[3]
