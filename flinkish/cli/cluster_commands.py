"""`flinkish cluster start` and `flinkish cluster stop`: a session cluster."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep, strftime

import click

from flinkish.cli.client import RefusedError, UnreachableError
from flinkish.cli.connection import Connection, Progress, errors_printed, with_properties, with_server, with_timeout
from flinkish.common.config_file import PROPERTIES_VARIABLE, load_configuration
from flinkish.common.errors import EngineError, ServerError

#: How long a detached Dispatcher may take to answer, in seconds.
_START_PATIENCE = 60.0
#: The Dispatcher prints this, followed by its address, when it answers requests.
_ANSWERS = "Dispatcher: "
#: Maximum number of bytes of the log that are shown if the Dispatcher does not start.
_TAIL = 4_000


@click.group()
def cluster() -> None:
    """Start and stop a session cluster, which runs many jobs."""


@cluster.command()
@click.option("-d", "--detached", is_flag=True, help="Start the cluster in the background, and return when it answers.")
@with_properties
def start(detached: bool, properties: tuple[str, ...]) -> None:
    """Start a session cluster on this machine, on rest.port (8081 if not set).

    \b
    flinkish cluster start                          until Ctrl-C, which leaves the jobs to the next cluster with the same storage
    flinkish cluster start -d -Dhigh-availability.storageDir=/shared/flinkish
    """
    if not detached:
        from flinkish.server.session.__main__ import main

        sys.exit(main([f"-D{each.removeprefix('-D')}" for each in properties]))
    with errors_printed():
        process, address, log = start_detached(properties)
        click.echo(f"The session cluster answers at {address} (process {process}, log {log}).")
        click.echo(f"Run programs there: flinkish run -m {address} JOB.py; stop it: flinkish cluster stop -m {address}")


def start_detached(properties: Sequence[str]) -> tuple[int, str, Path]:
    """Start a Dispatcher in the background; return its process id, its address and its log file.

    Raises EngineError if the Dispatcher ends, or does not answer within 60 s.
    """
    # Late: these import the runtime, which takes longer than most commands.
    from flinkish.server.logs import tail
    from flinkish.server.session.dispatcher_settings import make_private, session_settings

    given = [*shlex.split(os.environ.get(PROPERTIES_VARIABLE, "")), *(each.removeprefix("-D") for each in properties)]
    settings = session_settings(load_configuration(given, environment=os.environ), tuple(properties))
    make_private(settings.logs)
    log = settings.logs / f"dispatcher-{strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    command = [sys.executable, "-m", "flinkish.server.session"]
    # Properties may be secret, and every user of the machine can read command lines.
    environment = {**os.environ, PROPERTIES_VARIABLE: shlex.join(given)}
    deadline = monotonic() + _START_PATIENCE
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(descriptor, "ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        while True:
            for line in log.read_text(errors="replace").splitlines():
                if line.startswith(_ANSWERS):
                    # The Dispatcher outlives this process; without this, Popen would warn that it is still running.
                    process.returncode = 0
                    return process.pid, line.removeprefix(_ANSWERS), log
            if process.poll() is not None:
                words = tail(log, _TAIL).strip() or f"its log {log} is empty: is there space left on that disk?"
                raise EngineError(f"the session cluster ended with exit code {process.returncode}:\n{words}")
            if monotonic() > deadline:
                process.kill()
                process.wait()
                words = tail(log, _TAIL).strip()
                raise EngineError(f"the session cluster did not answer within {_START_PATIENCE:g} s:\n{words}")
            sleep(0.05)
    except KeyboardInterrupt:
        # It has a session of its own, so Ctrl-C has not reached it.
        process.terminate()
        process.wait()
        raise


@cluster.command()
@click.option("--keep-jobs", is_flag=True, help="Let the jobs continue: the next cluster with the same storage finds them.")
@with_timeout
@with_server
def stop(connection: Connection, *, keep_jobs: bool) -> None:
    """Stop a session cluster and cancel its jobs.

    \b
    flinkish cluster stop -m host:8081
    flinkish cluster stop --keep-jobs          before an upgrade of flinkish, for example
    """
    url = connection.client.address.url
    try:
        connection.client.delete(f"/cluster?jobs={'keep' if keep_jobs else 'cancel'}")
    except RefusedError as error:
        if error.status == 404:
            raise ServerError(
                f"the server at {url} belongs to a running job, not to a session cluster", hint="`flinkish cancel` ends the job."
            ) from None
        raise
    begun, progress = monotonic(), Progress(f"The end of the cluster at {url}")
    while (waited := monotonic() - begun) < connection.timeout:
        try:
            connection.client.get("/config")
        except UnreachableError as error:
            # A slow server or name service does not say that the cluster has ended.
            if not isinstance(error.reason, TimeoutError | socket.gaierror):
                click.echo(f"Stopped the session cluster at {url}.")
                return
        except ServerError:  # the Dispatcher answers, but does not lead any more
            pass
        progress(waited)
        sleep(0.1)
    raise ServerError(
        f"the cluster at {url} has not ended after {connection.timeout:g} s", hint="read the log of the Dispatcher."
    )
