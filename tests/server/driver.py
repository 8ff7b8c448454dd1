"""The driver of a job that serves Flink's REST API, in a process of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kit.child import FLINKISH
from tests.recovery.processes import Job

_STARTS = re.compile(r"REST: http://localhost:(\d+)/(?:.|\n)*Job 'served job' \(([0-9a-f]{32})\) starts")


@contextmanager
def served_job(folder: Path, *options: str) -> Iterator[tuple[Job, str, str]]:
    """Run served_job.py; yield the process, the port of its server, and the id of the job."""
    # The line about the server's address is for people: `flinkish run` prints it, a script that nobody watches does not.
    command = [sys.executable, *FLINKISH, "run", *options, str(Path(__file__).with_name("served_job.py")), str(folder)]
    job = Job(command, folder / "log")
    try:
        job.wait_until("the start", lambda: _STARTS.search(job.output()) is not None)
        (found,) = _STARTS.findall(job.output())
        yield job, *found
    finally:
        job.close()
