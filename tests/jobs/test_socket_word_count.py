"""socket_word_count.py against a server of the test's own."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import socket_word_count as job

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.socket import SocketSource
from tests.jobs.conftest import JOBS
from tests.kit.child import python

TEXT = "To be, or not to be: that is the question.\nBe (not) be!\n\n  ... \nTo"
#: How often each word is there; each of its occurrences gives a new count.
COUNTS = {"to": 3, "be": 4, "or": 1, "not": 2, "that": 1, "is": 1, "the": 1, "question": 1}
EXPECTED = sorted((word, n) for word, total in COUNTS.items() for n in range(1, total + 1))


@contextmanager
def server(text: str) -> Iterator[int]:
    """Send a text in small pieces to whoever connects first, then close; yields the port."""
    with socket.create_server(("localhost", 0)) as listening:
        listening.settimeout(120)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                for start in range(0, len(text), 7):
                    connection.sendall(text[start : start + 7].encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)
        assert not thread.is_alive()


def test_words_are_cut_at_blanks_in_lower_case_without_punctuation() -> None:
    assert list(job.words("  It's (very) GOOD, e.g. - or?")) == [
        ("it's", 1), ("very", 1), ("good", 1), ("e.g", 1), ("-", 1), ("or", 1),
    ]  # fmt: skip
    assert list(job.words(" ... !")) == []


def test_lines_from_a_socket_are_counted_until_it_is_closed(env: StreamExecutionEnvironment) -> None:
    with server(TEXT) as port:
        source = SocketSource("localhost", port)
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "Socket", Types.STRING())
        with job.count(lines).execute_and_collect() as results:
            assert sorted(map(tuple, results)) == EXPECTED


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return python(JOBS / "socket_word_count.py", "--engine", "local", *arguments, status=None)


def test_the_program_prints_each_new_count() -> None:
    with server(TEXT) as port:
        result = run("--port", str(port))
    assert (result.returncode, result.stderr) == (0, "")
    # With more than one subtask each line says which one printed it: 2> (be,1)
    printed = [line.rpartition("> ")[2].strip("()").split(",") for line in result.stdout.splitlines()]
    assert Counter(word for word, _ in printed) == COUNTS
    assert sorted((word, int(count)) for word, count in printed) == EXPECTED


def test_without_a_server_it_ends_with_one_line() -> None:
    with socket.create_server(("localhost", 0)) as listening:
        free = listening.getsockname()[1]
    result = run("--port", str(free))
    assert result.returncode == 1
    assert len(result.stderr.strip().splitlines()) == 1
    assert f"cannot connect to localhost:{free}" in result.stderr


@pytest.mark.parametrize(
    ("port", "what", "code"), [("0", "at least 1", 2), ("http", "whole number", 2), ("70000", "from 1 to 65535", 1)]
)
def test_a_port_that_is_none_is_refused_in_one_line(port: str, what: str, code: int) -> None:
    result = run("--port", port)
    assert result.returncode == code
    assert len(result.stderr.strip().splitlines()) == 1
    assert what in result.stderr
