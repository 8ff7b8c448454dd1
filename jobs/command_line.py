"""Code that the job scripts share: command-line arguments for how a job runs, and one-line errors instead of stack traces."""

from __future__ import annotations

import argparse
import contextlib
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from flinkish.common import Configuration, options
from flinkish.common.errors import FlinkishError, JobExecutionError
from flinkish.datastream import StreamExecutionEnvironment

#: These jobs are small: more subtasks would only make them slower.
_PARALLELISM = 2


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


class ArgumentParser(OneLineParser):
    """A parser that has the arguments common to all jobs."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description)
        self.add_argument("--engine", choices=["spark", "local"], help="default: execution.engine of the configuration, or spark")
        self.add_argument(
            "--parallelism",
            type=positive,
            metavar="N",
            help=f"default: parallelism.default of the configuration, or {_PARALLELISM}",
        )
        self.add_argument(
            "-D",
            dest="properties",
            action="append",
            default=[],
            type=_property,
            metavar="KEY=VALUE",
            help="set a configuration key",
        )


def positive(text: str) -> int:
    """Read an argument that must be a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def brokers(text: str) -> str:
    """Read an argument that must be addresses of Kafka brokers, separated by commas."""
    for address in text.split(","):
        host, colon, port = address.rpartition(":")
        if not host or not colon or not port.isdecimal() or not 1 <= int(port) <= 65_535:
            raise argparse.ArgumentTypeError(f"{address!r} is not of the form HOST:PORT, such as localhost:9092")
    return text


def topic(text: str) -> str:
    """Read an argument that must be a name that Kafka allows for a topic."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", text) or text in (".", ".."):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of a topic: letters, digits, '.', '_' and '-'")
    return text


def _property(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key.strip(), value


def environment(arguments: argparse.Namespace) -> StreamExecutionEnvironment:
    """Return an environment configured by conf/config.yaml and the arguments; raises ConfigurationError."""
    configuration = Configuration()
    for key, value in arguments.properties:
        # The environment reads -Dkey=value itself, but not the form with a space after -D.
        if f"-D{key}={value}" not in sys.argv:
            configuration.put(key, value, "the command line")
    if arguments.engine:
        configuration.set(options.ENGINE, arguments.engine)
    if arguments.parallelism:
        configuration.set(options.DEFAULT_PARALLELISM, arguments.parallelism)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    if not env.get_config().to_configuration().contains(options.DEFAULT_PARALLELISM):
        env.set_parallelism(_PARALLELISM)
    return env


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """End the program with the message of a flinkish error, or quietly after Ctrl-C.

    Other errors are bugs and keep their stack traces.
    """
    logging.basicConfig(format="%(message)s", handlers=[_handler()])
    try:
        yield
    except JobExecutionError as error:
        # The message of an error in a source or sink is sufficient; a bug in a user function needs its stack trace.
        fail(_without_trace(str(error)) if isinstance(error.__cause__, FlinkishError) else str(error))
    except FlinkishError as error:
        fail(str(error))
    except KeyboardInterrupt:
        # The job has been stopped by now.
        raise SystemExit(130) from None


def _handler() -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setFormatter(_WithoutTrace())
    return handler


class _WithoutTrace(logging.Formatter):
    """Logs one line for each failure that the job recovers from; the failure that ends the job is shown in full."""

    def format(self, record: logging.LogRecord) -> str:
        return _without_trace(record.getMessage())


def _without_trace(text: str) -> str:
    """Remove stack traces, and the line that made the operator, from a message; one that had either becomes a single line."""
    before, trace, after = text.partition("\nTraceback (most recent call last):\n")
    if not trace and "\nOperator made in " not in text:
        return text
    last = after.rstrip().rpartition("\n")[2]
    lines = [line for line in before.split("\n") if line.strip() and not line.startswith(("Operator made in ", "No record: "))]
    return "; ".join([*lines, last] if last.startswith("It ") else lines)


def fail(text: str) -> NoReturn:
    """End the program with a message on standard error, and code 1."""
    sys.exit(f"{Path(sys.argv[0]).name}: {text}")
