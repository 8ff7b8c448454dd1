"""An archive of the Java classes that Spark loads (class data sharing): with it a session and the first job start a third sooner.

The first JVM that flinkish starts with a version of Java and Spark writes it when it ends; the program has ended by then, and the
JVM continues for some seconds. Later JVMs read it. A JVM that has no matching archive, or no folder for one, starts without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from flinkish.common import disk
from flinkish.engine.processes import ProcessId, this_process

#: Maximum number of archives (for different versions of Java and Spark) to keep; 170 MB each.
_KEPT = 2
#: Maximum number of tries to write an archive: a killed JVM writes none, and some JVMs cannot.
_TRIES = 3
#: Settings of the JVM about class data sharing, or with which archives are impossible.
_OWN_WAYS = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare", "-XX:DumpLoadedClassList", "-javaagent", "-agentlib")
_JAVA_OPTIONS = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
#: Without this option, a JVM prints to stdout that an archive does not match.
_QUIET = "-Xlog:disable"


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder for archives, creating it if necessary; None if there is none that only this user can write to."""
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "")) / ".cache")
    if not os.path.isabs(base):
        return None
    folder = Path(base) / "flinkish" / "classes"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    # A user who can write an archive can run code in the JVM.
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return folder if own and os.access(folder, os.W_OK) else None


def usable(options: str, environment: Mapping[str, str], spark_home: Path) -> bool:
    """Tell whether the JVM can use an archive: its settings have none of their own, and its class path has only jars."""
    given = [options, *(environment.get(name, "") for name in _JAVA_OPTIONS)]
    if any(way in text for way in _OWN_WAYS for text in given):
        return False
    # Java does not support archives for class paths with non-empty folders.
    folders = [environment.get("SPARK_CONF_DIR") or str(spark_home / "conf")]
    folders += [path for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH") if (path := environment.get(name))]
    return not any(_has_something(folder) for folder in folders)


def _has_something(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def name_of(java: str, version: str, spark_home: Path, class_path: str) -> str:
    """Return the name of an archive, which depends on everything that must be equal for it to match."""
    jars = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in os.scandir(spark_home / "jars"))
    parts = [os.path.realpath(java), version, str(spark_home), class_path, jars]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class _Try:
    """A note about the process that writes an archive, and the number of tries; kept until the archive exists."""

    writer: ProcessId
    tries: int


class ClassArchive:
    """The archive of one name in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._archive = folder / f"{name}.jsa"
        self._unfinished = folder / f"{name}.part"
        self._note = folder / f"{name}.json"
        self._writes = False

    def java_options(self) -> str:
        """Return the options of a JVM that reads or writes the archive; "" if it is to do neither."""
        try:
            if self._archive.exists() or self._take_over():
                os.utime(self._archive)
                return f'"-XX:SharedArchiveFile={self._archive}" {_QUIET}'
            before = self._read_note()
            if before is not None and (before.writer.is_alive() or before.tries >= _TRIES):
                return ""
            self._unfinished.unlink(missing_ok=True)
            self._remove_old()
            self._write_note(this_process(), (before.tries if before else 0) + 1)
        except OSError:
            return ""
        self._writes = True
        return f'"-XX:ArchiveClassesAtExit={self._unfinished}" {_QUIET}'

    def written_by(self, jvm: ProcessId) -> None:
        """Record the JVM that was started with `java_options`, because its archive is not used until it has ended."""
        before = self._read_note()
        if self._writes and before is not None:
            with contextlib.suppress(OSError):
                self._write_note(jvm, before.tries)

    def discard(self) -> bool:
        """Remove the archive, because a JVM failed to start with it; return whether there was one."""
        try:
            self._archive.unlink()
        except OSError:
            return False
        return True

    def _take_over(self) -> bool:
        """Rename a finished archive to its final name, and return whether there is one.

        Java writes the header last, and ignores an archive without a header, so a JVM that was killed while writing does no harm.
        After a power failure, any part of the file may be missing, and a JVM would crash; so it is written again.
        """
        before = self._read_note()
        if before is None or before.writer.is_alive() or not before.writer.started_since_boot() or not self._unfinished.exists():
            return False
        disk.sync(self._unfinished)
        self._unfinished.rename(self._archive)
        self._note.unlink(missing_ok=True)
        return True

    def _remove_old(self) -> None:
        """Make room for one more archive: keep those that were used last, and those that a JVM may be writing."""
        others = [path for path in self._folder.iterdir() if path.suffix in (".jsa", ".part")]
        others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for old in others[_KEPT - 1 :]:
            note = self._read_note(old.with_suffix(".json"))
            if note is None or not note.writer.is_alive():
                old.unlink(missing_ok=True)
                old.with_suffix(".json").unlink(missing_ok=True)

    def _read_note(self, note: Path | None = None) -> _Try | None:
        try:
            return msgspec.json.decode((note or self._note).read_bytes(), type=_Try)
        except (OSError, msgspec.MsgspecError):
            return None

    def _write_note(self, writer: ProcessId, tries: int) -> None:
        new = self._note.with_suffix(f".{os.getpid()}")
        new.write_bytes(msgspec.json.encode(_Try(writer, tries)))
        new.rename(self._note)
