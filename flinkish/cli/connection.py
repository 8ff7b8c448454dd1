"""The common parts of all commands that send requests to a server: the server's address, and how errors are printed."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from flinkish.cli.client import RestClient, find_address
from flinkish.common import redaction
from flinkish.common.config_file import load_configuration
from flinkish.common.errors import FlinkishError

#: Exit code of a command that was ended by Ctrl-C; the same as a shell's.
INTERRUPTED = 130
#: Seconds before the first line about an unfinished operation, and between two such lines.
_FIRST_LINE, _LINES = 2.0, 10.0


#: Adds -D.
with_properties = click.option("-D", "properties", multiple=True, metavar="KEY=VALUE", help="Set a configuration key.")
with_timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the operation; it continues if this time is exceeded.",
)


@dataclass(frozen=True, slots=True)
class Connection:
    """A server, and how long to wait for its operations, in seconds."""

    client: RestClient
    timeout: float


def with_server(command: Callable[..., Any]) -> Callable[..., None]:
    """Add the options that identify a server; the command gets a `Connection` as its first argument."""

    @functools.wraps(command)
    def connected(*, jobmanager: str | None, properties: Sequence[str], timeout: float = 0.0, **arguments: Any) -> None:
        with errors_printed():
            command(Connection(connect(jobmanager, properties), timeout), **arguments)

    return server_options(connected)


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add -m and -D."""
    return click.option(
        "-m",
        "--jobmanager",
        metavar="HOST:PORT",
        help="Address of the server. If not given: rest.address and rest.port from conf/config.yaml or -D, else localhost:8081. "
        "If the server needs a token, set the environment variable FLINKISH_REST_TOKEN.",
    )(with_properties(command))


def connect(jobmanager: str | None, properties: Sequence[str]) -> RestClient:
    """Return a client for the server that -m or the configuration names."""
    return RestClient(find_address(jobmanager, load_configuration(properties, environment=os.environ)))


def begin_log(level: int) -> None:
    """Have the log go to standard error, without secrets."""
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", force=True)
    redaction.protect_log()


@contextlib.contextmanager
def errors_printed(level: int = logging.WARNING) -> Iterator[None]:
    """Print errors of flinkish and exit with code 1, or with code 130 at Ctrl-C. `level` is the level of the log."""
    begin_log(level)
    try:
        yield
    except FlinkishError as error:
        # The name of a class of common/errors.py, as others are internal.
        name = next(each.__name__ for each in type(error).__mro__ if each.__module__ == FlinkishError.__module__)
        say(redaction.redact(f"{name}: {error}"))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def say(text: str) -> None:
    """Print an error in red on standard error."""
    click.secho(text, fg="red", err=True)


class Progress:
    """Prints at intervals that an operation has not ended."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = _FIRST_LINE

    def __call__(self, waited: float) -> None:
        """Print a line if it is time for one; `waited` is the time since the start, in seconds."""
        if waited >= self._next:
            click.echo(f"{self._what}: {waited:.0f} s so far ...", err=True)
            self._next = waited + _LINES
