"""A job that writes into PostgreSQL, killed with -9 in mid commit and at random: each row is there once.

    pytest -m soak tests/recovery/test_databases.py

FLINKISH_SEED chooses what happens in the soak test (printed; the same seed makes the same choices).
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.postgresql import PASSWORD, USER, PostgreSQL
from tests.kit.postgresql import running as running_server
from tests.kit.seeds import chosen_seed
from tests.kit.tables import rows_of
from tests.recovery import database_job
from tests.recovery.processes import fatal, running

pytestmark = pytest.mark.kill

_SEED = chosen_seed()
_CYCLES = 20


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQL]:
    with running_server() as server:
        yield server


def prepared(server: PostgreSQL, folder: Path, numbers: int, files: int) -> list[str]:
    """Make input and an empty table; return the arguments of the job."""
    server.execute("DROP TABLE IF EXISTS counts, flinkish_checkpoints; CREATE TABLE counts (number BIGINT, count BIGINT)")
    (folder / "input").mkdir()
    for index in range(files):
        lines = "".join(f"{number}\n" for number in range(index, numbers, files))
        (folder / "input" / f"{index}.txt").write_text(lines)
    return [f"--output={folder}", f"--url={server.url}?user={USER}&password={PASSWORD}"]


def assert_part(server: PostgreSQL, numbers: int) -> int:
    """What is in the table is a part of what has to come, each row once; return how many rows there are."""
    rows = server.execute("SELECT number, count FROM counts")
    doubled = [row for row, times in Counter(number for number, _ in rows).items() if times > 1]
    assert doubled == []
    for remainder in range(7):
        # Whatever was committed, counts have no gap: state and table are of the same checkpoint.
        counts = sorted(count for number, count in rows if number % 7 == remainder)
        assert counts == list(range(1, len(counts) + 1)), remainder
    assert {number for number, _ in rows} <= set(range(numbers))
    return len(rows)


def count(server: PostgreSQL) -> int:
    return int(server.execute("SELECT count(*) FROM counts")[0][0])


@pytest.mark.parametrize(
    ("on", "committed"),
    [("local", False), ("local", True), pytest.param("spark", False, marks=[pytest.mark.spark, pytest.mark.soak])],
)
def test_a_job_killed_in_mid_commit_writes_each_row_once(
    on: str,
    committed: bool,
    postgresql: PostgreSQL,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
) -> None:
    numbers = 1000 if on == "local" else 400
    arguments = [f"--engine={on}", *prepared(postgresql, tmp_path, numbers, 3)]
    killed = ["--kill-at-commit=2", *(["--committed"] if committed else [])]
    with running(*arguments, *killed, log=tmp_path / "log", script="database_job.py") as job:
        assert job.finish() == -9, job.output()
        job.kill_all()
    assert 0 < assert_part(postgresql, numbers) < numbers
    if on == "local":
        with running(*arguments, "--parallelism=3", log=tmp_path / "log", script="database_job.py") as job:
            job.assert_finished()
            assert PASSWORD not in job.output()
    else:  # in the session of the tests, as a second start of Spark is dear
        request.getfixturevalue("spark_session")
        database_job.main([*arguments, "--parallelism=3"])
        assert PASSWORD not in "".join(capfd.readouterr())
    assert assert_part(postgresql, numbers) == numbers


def dead_letters(folder: Path) -> list[tuple[int, int]]:
    """Return number and checkpoint of each row in the table of dead letters, in order."""
    return sorted(
        (json.loads(text)["number"], checkpoint) for text, checkpoint in rows_of(folder / "dead", "json", "checkpoint_id")
    )


@pytest.mark.parametrize(
    ("on", "committed"),
    [("local", False), ("local", True), pytest.param("spark", False, marks=[pytest.mark.spark, pytest.mark.soak])],
)
def test_a_job_killed_around_a_commit_of_which_dead_letters_are_committed_writes_each_row_to_one_of_both_tables_once(
    on: str, committed: bool, postgresql: PostgreSQL, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    numbers = 1000 if on == "local" else 400
    arguments = [f"--engine={on}", *prepared(postgresql, tmp_path, numbers, 3), "--dead-letters"]
    postgresql.execute("ALTER TABLE counts ADD CHECK (number % 10 <> 7)")

    def written() -> list[int]:
        return sorted(row[0] for row in postgresql.execute("SELECT number FROM counts"))

    killed = ["--kill-at-commit=2", *(["--committed"] if committed else [])]
    with running(*arguments, *killed, log=tmp_path / "log", script="database_job.py") as job:
        assert job.finish() == -9, job.output()
        job.kill_all()
    before = {checkpoint for _, checkpoint in dead_letters(tmp_path)}
    ((last,),) = postgresql.execute("SELECT checkpoint_id FROM flinkish_checkpoints")
    assert (len(before), max(before) == last) == (2, committed)
    if on == "local":
        with running(*arguments, "--parallelism=3", log=tmp_path / "log", script="database_job.py") as job:
            job.assert_finished()
    else:  # in the session of the tests, as a second start of Spark is dear
        request.getfixturevalue("spark_session")
        database_job.main([*arguments, "--parallelism=3"])
    assert [number for number, _ in dead_letters(tmp_path)] == list(range(7, numbers, 10))
    assert written() == [number for number in range(numbers) if number % 10 != 7]


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("on", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_job_killed_at_random_writes_each_row_once(on: str, postgresql: PostgreSQL, tmp_path: Path) -> None:
    print(f"FLINKISH_SEED={_SEED}")
    rng = random.Random(f"{_SEED} {on}")
    # Epochs on Spark are some tens of times as long.
    numbers = 30_000 if on == "local" else 12_000
    arguments = [f"--engine={on}", *prepared(postgresql, tmp_path, numbers, 5), "--pause=0.001"]
    before = 0
    for cycle in range(_CYCLES):
        fault, killed = None, []
        if rng.random() < 0.3:
            fault = fatal(rng, 8)
        elif rng.random() < 0.6:
            killed = [f"--kill-at-commit={rng.randint(1, 12)}", *rng.choice([[], ["--committed"]])]
        options = [*killed, f"--parallelism={rng.randint(1, 4)}"]
        # Most are killed at work, some while they start.
        at_work, patience = rng.random() < 0.8, rng.uniform(0.0, 3.0)
        with running(*arguments, *options, log=tmp_path / f"log {cycle}", fault=fault, script="database_job.py") as job:
            if at_work:
                timeout = 120.0 if on == "local" else 400.0
                job.wait_until("new rows, or its end", lambda: count(postgresql) > before or job.has_ended(), timeout)  # noqa: B023
            status = job.work_for(patience)
            if rng.random() < 0.1:
                postgresql.stop()
                postgresql.start()
            job.kill_all()
        rows = assert_part(postgresql, numbers)
        print(f"cycle {cycle}: {options}, {fault}, {patience:.1f} s, {status}, {rows} rows")
        assert status != 0, "the job ended, choose more numbers"
        assert rows >= before
        before = rows
    with running(*arguments, "--parallelism=2", log=tmp_path / "log", script="database_job.py") as job:
        job.assert_finished(180.0 if on == "local" else 600.0)
    assert assert_part(postgresql, numbers) == numbers
