"""A server of S3 for tests: moto, in a process of its own that ends with the test process."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flinkish.common.configuration import Configuration
from tests.kit.waiting import wait_until

ACCESS_KEY, SECRET_KEY = "AKIDOFFLINKISH", "s3cret-of-flinkish"
BUCKET = "bucket"
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class S3Server:
    """A running server with one bucket."""

    port: int

    @property
    def endpoint(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> Mapping[str, str]:
        """The configuration of a job that uses it."""
        return {"s3.endpoint": self.endpoint, "s3.access-key": ACCESS_KEY, "s3.secret-key": SECRET_KEY}

    @property
    def configuration(self) -> Configuration:
        """The same as a Configuration."""
        return Configuration.from_dict(self.settings)


@contextlib.contextmanager
def running() -> Iterator[S3Server]:
    """Run a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = S3Server(free.getsockname()[1])
    # It ends with the tests, however they end.
    end_with_parent = functools.partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, signal.SIGKILL)
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(server.port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: end_with_parent() and None,
    )
    try:
        wait_until("the S3 server answers", lambda: _answers(process, server.port))
        urllib.request.urlopen(urllib.request.Request(f"{server.endpoint}/{BUCKET}", method="PUT")).close()
        yield server
    finally:
        process.kill()
        process.wait(30)


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
