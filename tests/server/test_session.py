"""A session cluster of real processes: its drivers and its Dispatcher are killed, and no record is lost or counted twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.seeds import chosen_seed
from tests.kit.waiting import wait_until
from tests.server.session_cluster import Session, assert_exact, is_alive

_SCRIPT = Path(__file__).with_name("session_job.py")
#: How long it may take until a killed part is back, in seconds: other tests run at the same time.
_BACK = 120.0


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    each = Session(tmp_path)
    try:
        each.start()
        yield each
    finally:
        each.close()


@pytest.mark.kill
def test_a_session_survives_the_death_of_its_parts(session: Session, tmp_path: Path) -> None:
    count = 4_000
    program = session.upload(_SCRIPT)
    job = session.run(program, str(tmp_path), str(count))
    session.await_checkpoints(job)

    # The driver.
    first = session.pid(job)
    os.kill(first, signal.SIGKILL)
    wait_until("another driver", lambda: session.completed(job) >= 1, _BACK, report=session.logs)
    assert session.get(f"/jobs/{job}/checkpoints")["counts"]["restored"] == 1
    assert session.pid(job) != first
    for answer in (session.get("/jobs/overview")["jobs"][0], session.get(f"/jobs/{job}")):
        assert (answer["restarts"]["count"], answer["restarts"]["last-failure"]) == (1, "the job's driver was lost")

    # The Dispatcher: the job goes on meanwhile, and the next one finds it.
    second = session.pid(job)
    session.kill()
    session.start()
    wait_until("the job", lambda: session.ask("GET", f"/jobs/{job}/checkpoints")[0] == 200, _BACK, report=session.logs)
    assert [(each["jid"], each["state"]) for each in session.get("/jobs/overview")["jobs"]] == [(job, "RUNNING")]
    assert session.pid(job) == second

    # Both.
    session.await_checkpoints(job)
    session.kill()
    os.kill(second, signal.SIGKILL)
    session.start()
    wait_until("another driver", lambda: session.completed(job) >= 1, _BACK, report=session.logs)

    # It ends while there is no Dispatcher.
    third = session.pid(job)
    session.kill()
    (tmp_path / "go").touch()
    wait_until("its end", lambda: not is_alive(third), 120, report=session.logs)
    session.start()
    wait_until("its end is known", lambda: session.get(f"/jobs/{job}/status")["status"] == "FINISHED", _BACK, report=session.logs)
    assert session.get("/overview")["jobs-finished"] == 1
    assert session.get(f"/jobs/{job}")["name"] == "session job"
    assert session.get(f"/jobs/{job}")["restarts"]["count"] == 2
    assert session.get(f"/jobs/{job}/checkpoints")["counts"]["restored"] == 1
    assert_exact(tmp_path, count)


@pytest.mark.soak
def test_random_kills_lose_nothing(session: Session, tmp_path: Path) -> None:
    seed = chosen_seed()
    print(f"seed: {seed}")
    rng = random.Random(seed)
    count = 40_000
    program = session.upload(_SCRIPT)
    job = session.run(program, str(tmp_path), str(count))
    for _ in range(12):
        time.sleep(rng.uniform(0.2, 6))
        what = rng.choice(["driver", "dispatcher", "both"])
        print(what)
        if what != "dispatcher" and session.drivers(job):
            os.kill(session.pid(job), signal.SIGKILL)
        if what != "driver":
            session.kill()
            time.sleep(rng.uniform(0, 2))
            session.start()
        # More than one loss within a second makes the pauses grow.
        wait_until("a checkpoint", lambda: session.completed(job) >= 1, 90, report=session.logs)
    (tmp_path / "go").touch()
    wait_until("the end", lambda: session.get(f"/jobs/{job}/status")["status"] == "FINISHED", 120, report=session.logs)
    assert_exact(tmp_path, count)


_ERRORS = {
    "raises.py": ("1 / 0\n", "ZeroDivisionError"),
    "nothing.py": ("print('no job here')\n", "no job here"),
    "exits.py": ("import sys\nsys.exit(3)\n", "ended with exit code 3"),
    "forgets.py": (
        "from flinkish.datastream import StreamExecutionEnvironment\n"
        "StreamExecutionEnvironment.get_execution_environment().from_collection([1]).print()\n",
        "forgets.py: ",
    ),
}

_TWO_JOBS = """
from flinkish.common import Configuration
from flinkish.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.engine": "local"}))
env.from_collection([1, 2]).print()
env.execute("first")
env.from_collection([3]).print()
env.execute("second")
"""


def test_scripts_that_are_wrong_and_jobs_that_are_stopped(session: Session, tmp_path: Path) -> None:
    for name, (text, expected) in _ERRORS.items():
        script = tmp_path / name
        script.write_text(text)
        status, answer = session.ask("POST", f"/jars/{session.upload(script)}/run")
        assert (status, expected in answer["errors"][0]) == (500, True), answer
    assert session.get("/jobs") == {"jobs": []}

    # Of two jobs in one script, the first runs; the script's error is in the log.
    (tmp_path / "two.py").write_text(_TWO_JOBS)
    first = session.run(session.upload(tmp_path / "two.py"))
    wait_until("its end", lambda: session.get(f"/jobs/{first}/status")["status"] == "FINISHED", 120, report=session.logs)
    log = tmp_path / "log" / f"driver-{first}.log"
    wait_until("the error", lambda: "this is its second execute()" in log.read_text(), 120, report=session.logs)
    assert sorted(log.with_suffix(".out").read_text().split()) == ["1", "1>", "2", "2>"]
    assert [(each["name"], each["state"]) for each in session.get("/jobs/overview")["jobs"]] == [("first", "FINISHED")]
    # A Dispatcher on another machine can show it, too.
    (kept,) = (tmp_path / "ha" / "session" / "archive").glob(f"{first}-*.out")
    wait_until("the rest of it", lambda: "second execute()" in kept.with_suffix(".log").read_text(), 120, report=session.logs)
    assert kept.read_text() == log.with_suffix(".out").read_text()

    # A stopped job: the result of the stop can be read, also after its driver has ended, and a job can be started from it.
    program = session.upload(_SCRIPT)
    job = session.run(program, str(tmp_path), "4000")
    session.await_checkpoints(job)
    pid = session.pid(job)
    status, answer = session.ask("POST", f"/jobs/{job}/stop", {"drain": False})
    assert status == 202
    result = f"/jobs/{job}/savepoints/{answer['request-id']}"
    wait_until("the stop", lambda: session.get(result)["status"]["id"] == "COMPLETED", 120, report=session.logs)
    location = session.get(result)["operation"]["location"]
    assert session.get(f"/jobs/{job}/status") == {"status": "FINISHED"}
    wait_until("the end of the driver", lambda: not is_alive(pid), 120, report=session.logs)
    assert session.get(result)["operation"]["location"] == location
    (tmp_path / "go").touch()
    body = {"programArgsList": [str(tmp_path), "4000"], "savepointPath": location, "parallelism": 2}
    status, answer = session.ask("POST", f"/jars/{program}/run", body)
    assert status == 200, (answer, session.logs())
    restored = f"/jobs/{answer['jobid']}/status"
    wait_until("the end", lambda: session.get(restored)["status"] == "FINISHED", 120, report=session.logs)
    assert_exact(tmp_path, 4_000)
    # What it is told to do and with which secrets is on no command line.
    assert session.ask("DELETE", "/cluster")[0] == 200
