"""A job killed at random, again and again, with incremental checkpoints, at changing parallelism and with both state backends.

It goes on until it has ended by itself: run before a release, not by default.

    pytest -m soak tests/recovery/test_soak.py

FLINKISH_SEED chooses what happens (printed; the same seed makes the same choices), FLINKISH_SOAK_ROUNDS how many jobs are run.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.backends import BACKENDS
from tests.kit.seeds import chosen_seed
from tests.kit.waiting import wait_until
from tests.recovery import keyed_timers_job
from tests.recovery.folder_sink import committed_rows
from tests.recovery.processes import POINTS, Job, running
from tests.recovery.verifier import assert_golden, compare, table_rows

pytestmark = [pytest.mark.soak, pytest.mark.kill, pytest.mark.timeout(0)]

_SEED = chosen_seed()
_ROUNDS = int(os.environ.get("FLINKISH_SOAK_ROUNDS", "10"))
_RECORDS = {"local": 10_000, "spark": 3_000}
#: Longest time after which a running job is killed, in seconds.
_LONGEST = {"local": 4.0, "spark": 40.0}


def kill_everything(job: Job, rng: random.Random) -> None:
    job.kill_all()


def kill_the_driver(job: Job, rng: random.Random) -> None:
    job.process.send_signal(signal.SIGKILL)
    job.process.wait(20)


def kill_some_process(job: Job, rng: random.Random) -> None:
    members = sorted(job.members(), key=lambda process: process.pid)
    if members:
        rng.choice(members).send_signal(signal.SIGKILL)


def stop_it_politely(job: Job, rng: random.Random) -> None:
    job.process.send_signal(rng.choice([signal.SIGTERM, signal.SIGINT]))
    finish_awake(job, 30)


def finish_awake(job: Job, timeout: float) -> None:
    """Wait for the end of a job that a fault may stop, before this call or during it."""

    def ended() -> bool:
        job.signal_all(signal.SIGCONT)
        return job.has_ended()

    wait_until(f"the end of {job.process.pid}", ended, timeout, report=job.report)


def leave_it_to_its_successor(job: Job, rng: random.Random) -> None:
    """The next one is started while this one works on."""


def freeze_it(job: Job, rng: random.Random) -> None:
    job.signal_all(signal.SIGSTOP)


Action = Callable[[Job, random.Random], None]
_DEADLY: list[Action] = [kill_everything, kill_everything, kill_the_driver, kill_some_process, stop_it_politely]
#: Only while there is so much to do that the job cannot end before the next one has taken it over: that would be a new job then.
_SPARING: list[Action] = [leave_it_to_its_successor, freeze_it]


def assert_nothing_twice(output: Path, records: int) -> None:
    """What is visible is a part of what has to come, each row once."""
    wanted = keyed_timers_job.expected(records)
    for rows in (table_rows(output / "table"), list(committed_rows(output / "folder"))):
        findings = compare(rows, wanted, ordered=False)
        assert (findings.duplicated, findings.unexpected) == ((), ())


@pytest.mark.parametrize("number", range(_ROUNDS))
@pytest.mark.parametrize("on", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_job_killed_at_random_ends_with_every_row_once(on: str, number: int, tmp_path: Path) -> None:
    print(f"FLINKISH_SEED={_SEED}")
    rng = random.Random(f"{_SEED} {on} {number}")
    records = _RECORDS[on]
    left: list[Job] = []
    contexts = []
    tries = 0
    try:
        while True:
            tries += 1
            command = [
                f"--engine={on}",
                f"--output={tmp_path}",
                f"--records={records}",
                f"--parallelism={rng.randint(1, 4)}",
                "--pause=0.002",
                "-Dhigh-availability.cluster-id=soak",
                "-Drestart-strategy.type=fixed-delay",
                "-Dexecution.checkpointing.incremental=true",
                f"-Dstate.backend.type={rng.choice(sorted(BACKENDS))}",
                f"-Dexecution.checkpointing.num-retained={rng.randint(1, 3)}",
            ]
            fault = None
            if rng.random() < 0.5:
                fault = f"{rng.choice(POINTS)}:{rng.choice(['kill9', 'stop', 'raise'])}:nth={rng.randint(1, 8)}"
            deadly, sparing, either = rng.choice(_DEADLY), rng.choice(_SPARING), rng.random()
            patience = rng.uniform(0.5, _LONGEST[on])
            context = running(*command, log=tmp_path / f"log {tries}", fault=fault)
            job = context.__enter__()
            contexts.append(context)
            left.append(job)
            job.work_for(patience)
            begun = len(table_rows(tmp_path / "table")) < len(keyed_timers_job.expected(records)) / 3
            if job.process.poll() == 0:  # now, as it may end while the table is read
                break
            action = sparing if either < 0.3 and begun and on == "local" else deadly
            print(
                f"try {tries}: {' '.join(command[3:])}, {fault}, after {patience:.1f} s {action.__name__}, {job.process.poll()}"
            )
            if job.process.poll() is None:
                action(job, rng)
            codes = [former.process.poll() for former in left]
            assert 0 not in codes, f"an earlier process ended the job, choose more records: {codes}"
            assert_nothing_twice(tmp_path, records)
            # Frozen ones wake when others are at work.
            for former in left[:-1]:
                former.signal_all(signal.SIGCONT)
            assert tries < 200, "the job makes no progress"
        for former in left:
            former.signal_all(signal.SIGCONT)
        for former in left:
            finish_awake(former, 60)
        assert_golden(tmp_path, records)
    finally:
        for context in contexts:
            context.__exit__(None, None, None)
