"""kill -9 of everything at each crash point, for each state backend, with incremental checkpoints in a folder and in
an object store.

Run before a release, by `make proof`: pytest -m soak tests/recovery/test_kill_matrix.py. FLINKISH_SEED chooses when a point is
taken, and at which parallelism the job goes on (printed; the same seed makes the same choices).
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flinkish.runtime import faults
from tests.kit.backends import BACKENDS
from tests.kit.s3_server import S3Server
from tests.kit.seeds import chosen_seed
from tests.recovery import keyed_timers_job
from tests.recovery.processes import running
from tests.recovery.verifier import assert_golden, compare, table_rows

pytestmark = [pytest.mark.soak, pytest.mark.kill, pytest.mark.timeout(0)]

_SEED = chosen_seed()
#: How often a point is passed before the kill. The tasks' points are passed in each epoch of each slot; on Spark, a job has fewer
#: epochs, and each slot counts for itself.
_PASSED = {
    "local": {"P3": (10, 20), "P4": (10, 20), "P6": (10, 20), "P8": (3, 12), "P15": (1, 1)},
    "spark": {"P3": (3, 6), "P4": (3, 6), "P6": (3, 6), "P15": (1, 1)},
}


@pytest.mark.parametrize("point", [str(point) for point in faults.Point])
@pytest.mark.parametrize("storage", ["folder", "s3"])
@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize("on", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_job_killed_at_any_point_goes_on_exactly_where_it_was(
    on: str, backend: str, storage: str, point: str, tmp_path: Path, s3: S3Server
) -> None:
    print(f"FLINKISH_SEED={_SEED}")
    rng = random.Random(f"{_SEED} {on} {backend} {storage} {point}")
    checkpoints = f"s3://bucket/{_SEED}-{on}-{backend}-{point}" if storage == "s3" else f"{tmp_path}/checkpoints"
    settings = {
        **s3.settings,
        "execution.checkpointing.dir": checkpoints,
        "high-availability.cluster-id": "matrix",
        "state.backend.type": backend,
        "execution.checkpointing.incremental": "true",
    }
    command = [f"--engine={on}", f"--output={tmp_path}", *(f"-D{key}={value}" for key, value in settings.items())]
    # A restore is only where a life ended before.
    for place in ["P10", point] if point == "P15" else [point]:
        marker = tmp_path / f"killed at {place}"
        fault = f"{place}:sleep=120000:nth={rng.randint(*_PASSED[on].get(place, (2, 5)))}:once={marker}"
        with running(*command, f"--parallelism={rng.randint(1, 3)}", log=tmp_path / "log", fault=fault) as job:
            job.wait_until(f"fault {fault}", marker.exists)
            job.kill_all()
        findings = compare(table_rows(tmp_path / "table"), keyed_timers_job.expected(), ordered=False)
        assert (findings.duplicated, findings.unexpected) == ((), ())
        assert findings.lost
    with running(*command, f"--parallelism={rng.randint(1, 3)}", log=tmp_path / "log") as job:
        job.assert_finished()
    assert_golden(tmp_path)
