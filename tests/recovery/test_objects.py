"""Objects in S3 are copied line by line by a job that is killed at random: run by -m soak.

FLINKISH_SEED chooses what happens (printed; the same seed makes the same choices), FLINKISH_SOAK_CYCLES how often it is killed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from flinkish.common.files.object_store import ObjectFiles
from flinkish.common.files.schemes import files_at
from tests.kit.s3_server import S3Server
from tests.kit.seeds import chosen_seed
from tests.recovery.processes import fatal, running

pytestmark = [pytest.mark.soak, pytest.mark.kill, pytest.mark.timeout(0)]

_SEED = chosen_seed()
_CYCLES = int(os.environ.get("FLINKISH_SOAK_CYCLES", "20"))


def written(place: str) -> Counter[str]:
    """Return the visible lines."""
    files = files_at(f"{place}/out")
    visible = [name for name in files.files_below("") if not name.startswith(".")] if files.is_folder() else []
    return Counter(line for name in visible for line in files.read(name, limit=1 << 20).decode().splitlines())


def hidden(place: str) -> list[str]:
    return [name for name in files_at(f"{place}/out").files_below("") if name.startswith(".")]


@pytest.mark.parametrize("on", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_objects_lose_no_line_and_double_none(on: str, tmp_path: Path, s3: S3Server) -> None:
    print(f"FLINKISH_SEED={_SEED}")
    rng = random.Random(f"{_SEED} {on}")
    place = f"s3://bucket/objects-{on}-{_SEED}"
    source = ObjectFiles(files_at(f"{place}/in").root)
    given: Counter[str] = Counter()
    longest = 6.0 if on == "local" else 25.0

    def add() -> None:
        lines = [f"{given.total() + number} {'x' * rng.randrange(60)}" for number in range(rng.randrange(1, 40))]
        source.put(f"{rng.randrange(3)}/{given.total()}.txt", "".join(f"{line}\n" for line in lines).encode())
        given.update(lines)

    for cycle in range(_CYCLES + 1):
        add()
        parallelism = rng.randint(1, 4)
        fault = fatal(rng, 4) if rng.random() < 0.5 and cycle < _CYCLES else None
        command = [f"--engine={on}", f"--output={place}", f"--parallelism={parallelism}"]
        settings = {**s3.settings, "security.checkpoint.hmac-key-file": tmp_path / "key"}
        command += [f"-D{key}={value}" for key, value in settings.items()]
        if cycle == _CYCLES:
            command.append("--records=1000")  # tens of thousands of lines are left on a busy machine
        with running(*command, log=tmp_path / f"out {cycle}", fault=fault, script="object_job.py") as job:
            if cycle == _CYCLES:
                job.wait_until("all lines are written", lambda: written(place) == given, 600)
                break
            patience = rng.uniform(1.0, longest)
            if rng.random() < 0.5 and fault is None:  # a busy machine may take a while to start
                before = written(place).total()
                job.wait_until("the first lines", lambda before=before: written(place).total() > before, 300)
            status = job.work_for(patience, lambda: add() if rng.random() < 0.3 else None)
            print(f"cycle {cycle}: parallelism {parallelism}, {fault}, after {patience:.1f} s, {status}")
            assert status in (None, -9), job.report()
            job.kill_all()
        seen = written(place)
        assert seen <= given, f"doubled or made up: {seen - given}"
    assert written(place) == given
    print(f"{given.total()} lines, {len(hidden(place))} hidden objects")
    assert len(hidden(place)) <= 40  # those of the last attempts, not of all
