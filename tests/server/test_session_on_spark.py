"""Drivers of a session that spark-submit starts: one is killed, and its job goes on; no command line shows options of it."""

from __future__ import annotations

import os
import signal
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from flinkish.cli.remote import packed
from tests.kit.command_lines import HAS_KEY, KEY, SECRET, watched
from tests.kit.waiting import wait_until
from tests.server.session_cluster import Session, assert_exact

_CONFIG = f"""
session.driver.launcher: spark-submit
session.driver.spark-submit-options: [--master, 'local[2,4]', --conf, spark.ui.enabled=false, --conf, {KEY}={SECRET}]
session.driver.start-timeout: 5 min
"""
# The job takes the session that the script has opened.
_SCRIPT = f"""{HAS_KEY}
import sys
from tests.server.session_job import main
main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
"""
_MARKS = "print('of a sent module', flush=True)\n\ndef same(value):\n    return value\n"


# Two starts of Spark: half a minute alone, minutes beside other work.
@pytest.mark.spark
@pytest.mark.kill
@pytest.mark.timeout(600)
def test_a_job_that_spark_submit_has_started_goes_on_when_its_driver_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1_500
    for name, text in {"session_marks.py": _MARKS, "job.py": _SCRIPT, "config.yaml": _CONFIG}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("FLINKISH_CONF_DIR", str(tmp_path))
    session = Session(tmp_path)
    with watched() as seen, closing(session):
        session.start()
        with packed(tmp_path / "job.py", [str(tmp_path / "session_marks.py")]) as program:
            job = session.run(session.upload(program.file), str(tmp_path), str(count), "spark", module=program.module)
        session.await_checkpoints(job, 300)
        first = session.pid(job)
        # The driver, its JVM, and what has started that.
        group = os.getpgid(first)
        assert len(_processes(session, group)) >= 3

        os.kill(first, signal.SIGKILL)
        wait_until("another driver", lambda: session.completed(job) >= 1, 300, report=session.logs)
        assert session.get(f"/jobs/{job}/checkpoints")["counts"]["restored"] == 1
        second = session.pid(job)
        assert second != first
        last = os.getpgid(second)
        wait_until("the end of what was started for the first one", lambda: not _processes(session, group), 120)

        (tmp_path / "go").touch()
        wait_until("the end", lambda: session.get(f"/jobs/{job}/status")["status"] == "FINISHED", 300, report=session.logs)
        assert_exact(tmp_path, count)
        wait_until("the end of the second one", lambda: not _processes(session, last), 120)
        # Spark gives its driver one pipe for standard output and error.
        log, output = ((tmp_path / "log" / f"driver-{job}.{kind}").read_text() for kind in ("log", "out"))
        assert "of a sent module" in output
        assert output.count("it has the key: True\nHadoop has it: True\n") == 2
        assert "switched from state RUNNING to FINISHED" in log
        assert "switched from" not in output
    assert seen.found == {}


def _processes(session: Session, group: int) -> list[psutil.Process]:
    found = []
    for process in session.members():
        with suppress(ProcessLookupError):
            if os.getpgid(process.pid) == group:
                found.append(process)
    return found
