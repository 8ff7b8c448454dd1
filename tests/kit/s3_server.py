"""A server of S3 for tests: moto, in a process of its own (this module, run as a script) that ends with the test process."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkish.common.configuration import Configuration
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until

ACCESS_KEY, SECRET_KEY = "AKIDOFFLINKISH", "s3cret-of-flinkish"
BUCKET = "bucket"
_ROOT = Path(__file__).resolve().parents[2]
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
    server = S3Server(free_port())
    # It ends with the tests, however they end.
    end_with_parent = functools.partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, signal.SIGKILL)
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(server.port)],
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
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


def _holding(lock: threading.Lock, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any) -> Any:
        with lock:
            return method(*arguments)

    return call


def _serve(port: int) -> None:
    """Serve S3 alone, over connections that stay open.

    The command `moto_server` looks for the service of each request among all of Amazon's, in the folder of its modules, and
    answers each request over a connection of its own: both together are more than half of its processor time.
    """
    from moto.moto_server.werkzeug_app import create_backend_app
    from moto.s3.responses import S3Response
    from werkzeug.serving import WSGIRequestHandler, run_simple

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"
        #: An answer is several packets: TCP would hold the second one back for 40 ms.
        disable_nagle_algorithm = True

        def log_request(self, *_: Any) -> None:
            pass

    # Each request has a thread. moto looks for the object and then writes it, so of two creations both could find none.
    one_at_a_time = threading.Lock()
    for name in ("put_object", "delete_object"):
        setattr(S3Response, name, _holding(one_at_a_time, getattr(S3Response, name)))
    run_simple("127.0.0.1", port, create_backend_app("s3"), threaded=True, request_handler=Handler)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
