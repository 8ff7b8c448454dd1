"""The credit of epochs over long runs: with noise, and on a slow engine."""

from __future__ import annotations

import statistics
from pathlib import Path
from statistics import median

import pytest

from tests.bench import slow_engine
from tests.unit.jobmaster.test_admission import ENGINE, TARGET, linear, run


@pytest.mark.parametrize("noise", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("fixed", [ENGINE, 1_200.0])
def test_noise_neither_lets_the_credit_collapse_nor_the_epochs_explode(fixed: float, noise: float) -> None:
    ideal = 1_000 * max(TARGET - fixed, fixed) / 0.01 / max(TARGET, 2 * fixed)
    for seed in range(20):
        settled = run(linear(fixed, 0.01, noise=noise, seed=seed))
        assert settled.per_second > 0.3 * ideal, f"seed {seed}"
        assert median(settled.elapsed(20)) < 3 * max(TARGET, 2 * fixed), f"seed {seed}"


def test_a_job_on_a_slow_engine_with_checkpoints_in_every_epoch_reads_on(tmp_path: Path) -> None:
    # A twentieth of: epochs of 1.2 s at least, a target of a second, checkpoints each 500 ms.
    times = slow_engine.run(200_000, target=50, fixed=60, interval=25, checkpoints=tmp_path)
    # The credit sank to 16 here, for 12,500 epochs. These are real times: on a busy machine a few epochs take less, too.
    assert statistics.median(times.credits) > 200
    assert len(times.credits) < 500
