"""Answers about uploaded programs: /jars and the paths below it. Flink's names say jars; here they are scripts and zip files."""

from __future__ import annotations

from flinkish.server.answers.wire import Wire


class JarEntry(Wire, frozen=True, kw_only=True):
    """Flink's JarEntryInfo."""

    name: str
    description: str | None


class JarFile(Wire, frozen=True, kw_only=True):
    """Flink's JarFileInfo; `uploaded` is milliseconds since the epoch."""

    id: str
    name: str
    uploaded: int
    entry: tuple[JarEntry, ...]


class JarList(Wire, frozen=True, kw_only=True):
    """Flink's JarListInfo."""

    address: str
    files: tuple[JarFile, ...]


class JarUploaded(Wire, frozen=True, kw_only=True):
    """Flink's JarUploadResponseBody."""

    filename: str
    status: str


class JarRunRequest(Wire, frozen=True, kw_only=True):
    """Flink's JarRunRequestBody."""

    entryClass: str | None = None
    #: Arguments as one string, quoted as for a shell; an older form of programArgsList.
    programArgs: str | None = None
    programArgsList: tuple[str, ...] | None = None
    parallelism: int | None = None
    jobId: str | None = None
    allowNonRestoredState: bool | None = None
    savepointPath: str | None = None
    flinkConfiguration: dict[str, str] | None = None


class JarRun(Wire, frozen=True, kw_only=True):
    """Flink's JarRunResponseBody."""

    jobid: str
