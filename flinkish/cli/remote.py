"""Sends a program to a session cluster and follows its job: `flinkish run -m HOST:PORT` and Flink's own `flink run`.

The program is a script, or a zip file with the script and the files that it needs.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import click

from flinkish.cli.client import ENDED, RefusedError, RestClient, UnreachableError
from flinkish.cli.connection import INTERRUPTED, say
from flinkish.cli.tables import duration_text, restarts_text
from flinkish.common import options
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, JobExecutionError, ServerError
from flinkish.common.paths import location

#: How long the start of a program may take, in seconds: the server waits for the job, at most session.driver.start-timeout.
_START_TIMEOUT = 600.0
#: How long to wait for a server that does not answer, in seconds: another Dispatcher takes over within this time.
_PATIENCE = 120.0
_FIRST_GAP, _LONGEST_GAP = 0.05, 2.0
#: A JobManager of Flink answers this to an upload of any other file.
_JARS_ONLY = "Only Jar files are allowed"
#: Settings of the connection, which are not sent as settings of the program.
_OF_CLIENT = ("rest.", "security.ssl.", "security.rest.")


@dataclass(frozen=True, slots=True)
class Program:
    """A file to upload; `module` is the module of a zip file to run as the script, None = run the file itself."""

    file: Path
    module: str | None = None

    @property
    def name(self) -> str:
        """The name under which the file is uploaded; it has only characters that all servers accept."""
        name = re.sub(r"[^A-Za-z0-9._-]", "_", self.file.name)[-100:].lstrip(".-")
        return name if name.endswith((".py", ".zip")) else f"{name or 'program'}.py"


@contextmanager
def packed(script: Path | None, files: Sequence[str], module: str | None = None) -> Iterator[Program]:
    """Yield the program of a script, or of a module in `files`; it exists until the end of the block.

    `files` are Python files, folders and zip files (also wheels), as paths or file: URLs. Raises InvalidProgramError if one of
    them cannot be read, or if two of them have a file of the same name.
    """
    if not files and script is not None:
        yield Program(script, module)
        return
    with tempfile.TemporaryDirectory(prefix="flinkish-run-") as folder:
        if script is not None:
            # A valid module name, so that the server can run the script as a module; it stays recognizable in tracebacks.
            module = re.sub(r"\W", "_", script.stem, flags=re.ASCII)
            module = f"_{module}" if module[:1].isdigit() else module
        name = "program" if module is None else module.partition(".")[0]
        target = Path(folder, f"{name}.zip")
        origins: dict[str, str] = {}
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            own = [] if script is None else [(f"{module}.py", _read(script), str(script))]
            for inside, content, origin in chain(own, *map(_contents, files)):
                if inside in origins:
                    raise InvalidProgramError(
                        f"the program has two files named {inside}: of {origins[inside]} and of {origin}",
                        hint="rename one of them, or leave it out.",
                    )
                origins[inside] = origin
                archive.writestr(inside, content)
        yield Program(target, module)


def _contents(text: str) -> Iterator[tuple[str, bytes, str]]:
    """Yield the files that a Python file, folder or zip file makes importable: name below a folder of sys.path, content, text."""
    place = location(text)
    if not place.is_local:
        raise InvalidArgumentError(f"--py-files: {text}: only files of this machine are sent", hint="give a local path.")
    path = Path(place.file).expanduser()
    if not path.exists():
        raise InvalidArgumentError(f"--py-files: there is no file {text}")
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(path).as_posix(), _read(file), text
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    yield info.filename, archive.read(info), text
    elif path.suffix == ".py":
        yield path.name, _read(path), text
    else:
        raise InvalidArgumentError(f"--py-files: {text} is not a .py file, a folder or a zip file")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidProgramError(f"{path} cannot be read: {error.strerror}") from error


def absolute(savepoint: str) -> str:
    """Return the absolute path of a savepoint, because the server runs in another folder; URLs stay the same."""
    return savepoint if "://" in savepoint or savepoint.startswith("file:") else os.path.abspath(os.path.expanduser(savepoint))


def _body(module: str | None, arguments: Sequence[str], settings: Mapping[str, str], short: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of Flink's request, without the fields that are not set."""
    given = dict(short)
    parallelism = given.pop(options.DEFAULT_PARALLELISM.key, None)
    savepoint = given.pop(options.SAVEPOINT_PATH.key, None)
    unclaimed = given.pop(options.SAVEPOINT_IGNORE_UNCLAIMED_STATE.key, None)
    values = {
        "entryClass": module,
        "programArgsList": list(arguments),
        "parallelism": parallelism and int(parallelism),
        "savepointPath": savepoint and absolute(savepoint),
        "allowNonRestoredState": unclaimed == "true",
        "flinkConfiguration": {key: value for key, value in {**settings, **given}.items() if not key.startswith(_OF_CLIENT)},
    }
    return {key: value for key, value in values.items() if value}


def submit(
    client: RestClient, program: Program, arguments: Sequence[str], settings: Mapping[str, str], short: Mapping[str, str]
) -> str:
    """Upload a program, start it with its arguments and return the id of its job.

    `settings` are sent as settings of the job. So are the options in `short`, by the keys that they are short for, except those
    that are fields of Flink's request: parallelism, savepoint, and whether state may be dropped.

    Raises ServerError if there is no session cluster, InvalidProgramError if the program fails before it starts a job.
    """
    try:
        program_id = str(client.upload("/jars/upload", program.file, program.name)["filename"]).rpartition("/")[2]
    except RefusedError as error:
        if error.status in (404, 405):
            raise ServerError(
                f"the server at {client.address.url} belongs to a running job, not to a session cluster: it takes no programs",
                hint="`flinkish cluster start` starts a session cluster; `flinkish run` without -m needs none.",
            ) from None
        if _JARS_ONLY in error.text:
            raise ServerError(
                f"the server at {client.address.url} is a JobManager of Flink, which cannot run programs of flinkish",
                hint="-m HOST:PORT names a session cluster of flinkish.",
            ) from None
        raise
    try:
        answer = client.post(f"/jars/{program_id}/run", _body(program.module, arguments, settings, short), timeout=_START_TIMEOUT)
    except RefusedError as error:
        missing = "ModuleNotFoundError" in error.text
        hint = "--py-files sends the modules that the script imports." if missing else None
        raise InvalidProgramError(f"the program was not started: {error.text}", hint=hint) from None
    except UnreachableError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise
        raise ServerError(
            f"it is not known whether the program was started: {error}",
            hint="look at `flinkish list` before you start it again: otherwise it may run twice.",
        ) from error
    finally:
        _remove(client, program_id)
    return str(answer["jobid"])


def _remove(client: RestClient, program_id: str) -> None:
    """Remove an uploaded program from the cluster's list; its job keeps the files that it needs."""
    try:
        client.delete(f"/jars/{program_id}")
    except ServerError as error:
        say(f"The uploaded program {program_id} stays in the list of the cluster: {error}")


def follow(
    client: RestClient,
    job_id: str,
    *,
    cancel_on_interrupt: bool,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Wait for the end of a job; return the exit code. Ctrl-C ends only the wait, or with `cancel_on_interrupt` cancels the job.

    Raises JobExecutionError if the job fails, and ServerError if the server does not answer for two minutes.
    """
    try:
        info = _wait(client, job_id, sleep, clock)
    except KeyboardInterrupt:
        if cancel_on_interrupt:
            client.patch(f"/jobs/{job_id}?mode=cancel")
            click.echo(f"\nCancelled job {job_id}.", err=True)
        else:
            click.echo(f"\nThe job goes on. To cancel it: flinkish cancel {job_id} -m {client.address.url}", err=True)
        return INTERRUPTED
    try:
        return _tell_end(client, job_id, info)
    finally:
        if "late-records" in info:
            click.echo(info["late-records"], err=True)


def _tell_end(client: RestClient, job_id: str, info: Mapping[str, Any]) -> int:
    """Print how a job has ended; return the exit code. Raises JobExecutionError if it has failed."""
    if info["state"] == "FAILED":
        raise JobExecutionError(_reason(client, job_id))
    if info["state"] == "CANCELED":
        say(f"Job {job_id} was cancelled.")
        return 1
    click.echo("Program execution finished")
    click.echo(f"Job with JobID {job_id} has finished.")
    click.echo(f"Job Runtime: {duration_text(info['duration'])}")
    return 0


def _wait(client: RestClient, job_id: str, sleep: Callable[[float], None], clock: Callable[[], float]) -> Mapping[str, Any]:
    state, failed, gap, heard = "", 0, _FIRST_GAP, clock()
    while True:
        try:
            info: Mapping[str, Any] = client.get(f"/jobs/{job_id}")
            heard = clock()
        except (UnreachableError, RefusedError) as error:
            # While another Dispatcher takes over or the driver starts again, the answer is 503 or 500.
            if isinstance(error, RefusedError) and error.status < 500:
                raise
            if clock() - heard > _PATIENCE:
                raise ServerError(
                    f"nothing is known of job {job_id} for {_PATIENCE:g} s: {error}",
                    hint="the job may still be running; try `flinkish list -a` when the server answers again.",
                ) from error
            info = {"state": state}
        restarts = info.get("restarts")
        if restarts is not None and restarts["last-failure-time"] != failed and info["state"] not in ENDED:
            failed = restarts["last-failure-time"]
            click.echo(f"Job {job_id}: {restarts_text(restarts)}", err=True)
        if info["state"] != state:
            state = info["state"]
            if state in ENDED:
                return info
            click.echo(f"Job {job_id} is {state}.", err=True)
        sleep(gap)
        gap = min(2 * gap, _LONGEST_GAP)


def _reason(client: RestClient, job_id: str) -> str:
    entries = client.get(f"/jobs/{job_id}/exceptions?maxExceptions=1")["exceptionHistory"]["entries"]
    text = str(entries[0].get("stacktrace") or entries[0].get("exceptionName")) if entries else "the reason is not known"
    return f"job {job_id} has failed: {text.strip()}"
