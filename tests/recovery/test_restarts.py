"""Jobs whose user code fails: restart strategies end to end, and exact results whatever it was that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.common.errors import JobCancelledError, JobExecutionError
from flinkish.common.job_status import JobStatus
from tests.conftest import MakeEnvironment, locally
from tests.kit.restarts import restarting
from tests.kit.waiting import wait_until
from tests.recovery import failing_job, keyed_timers_job
from tests.recovery.conftest import Start
from tests.recovery.failing_job import DeliberateError
from tests.recovery.verifier import assert_golden, compare, table_rows

_EVERYWHERE = [
    "open",
    "process_element",
    "process_element, after its output",
    "on_timer",
    "timestamp assigner",
    "reader",
    "start of the enumerator",
    "restore of the enumerator",
    "split request",
    "snapshot of the enumerator",
    "notice to the enumerator",
    "writer",
    "flush of the writer",
    "committer",
    "committer, half-way",
    "committer, after it",
]
#: Where processes lie between; what runs on the driver only is the same on both engines.
_ON_SPARK = ["open", "process_element", "on_timer", "reader", "flush of the writer", "committer, half-way"]
_RESTARTS = restarting(len(_EVERYWHERE), "1 ms")


def test_a_job_that_fails_once_at_each_place_loses_and_repeats_nothing(
    make_job_env: MakeEnvironment, engine: str, tmp_path: Path
) -> None:
    places = _EVERYWHERE if engine == "local" else _ON_SPARK
    env = make_job_env(2, _RESTARTS)
    faults = failing_job.build(env, tmp_path, [*places, "close"])
    client: Any = env.execute_async("failing")
    client.get_job_execution_result().result(250)
    assert faults.happened() == {*places, "close"}
    # Two slots may fail in one epoch; an error of close() is logged, as it comes when the attempt is over anyway.
    assert len(places) // 2 <= client.figures().restarts <= len(places)
    assert_golden(tmp_path)


@pytest.mark.parametrize(
    ("settings", "attempts", "why"),
    [
        ({"restart-strategy.type": "none"}, 1, "restart-strategy.type is none"),
        (
            restarting(2, "1 ms"),
            3,
            "all 2 attempts",
        ),
        (
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": 3,
                "restart-strategy.failure-rate.failure-rate-interval": "5 min",
                "restart-strategy.failure-rate.delay": "1 ms",
            },
            4,
            "more than 3 failures",
        ),
        (
            {
                "restart-strategy.type": "exponential-delay",
                "restart-strategy.exponential-delay.initial-backoff": "1 ms",
                "restart-strategy.exponential-delay.max-backoff": "20 ms",
                "restart-strategy.exponential-delay.attempts-before-reset-backoff": 2,
            },
            3,
            "all 2 of",
        ),
    ],
    ids=["none", "fixed-delay", "failure-rate", "exponential-delay"],
)
@locally
def test_a_job_that_fails_again_and_again_is_given_up_as_its_strategy_says(
    make_job_env: MakeEnvironment, settings: dict[str, Any], attempts: int, why: str, tmp_path: Path
) -> None:
    env = make_job_env(2, settings)
    faults = failing_job.build(env, tmp_path, ["process_element"], always=True)
    with pytest.raises(JobExecutionError, match=rf"operator 'count' \(uid count\)(?s:.*){why}") as error:
        env.execute("failing")
    assert isinstance(error.value.__cause__, DeliberateError)
    assert "failing_job.py" in str(error.value)
    assert faults.count("process_element") == attempts
    # What checkpoints had covered by then is visible, and nothing else.
    findings = compare(table_rows(tmp_path / "table"), keyed_timers_job.expected(), ordered=False)
    assert (findings.duplicated, findings.unexpected) == ((), ())
    assert findings.lost


@pytest.mark.parametrize("place", ["committer", "start of the enumerator", "snapshot of the enumerator"])
@locally
def test_what_fails_on_the_driver_is_named_and_restarted_as_well(
    make_job_env: MakeEnvironment, place: str, tmp_path: Path
) -> None:
    settings = {**_RESTARTS, "restart-strategy.fixed-delay.attempts": 2}
    env = make_job_env(2, settings)
    faults = failing_job.build(env, tmp_path, [place], always=True)
    with pytest.raises(JobExecutionError, match=rf"at {place}") as error:
        env.execute("failing")
    assert ("folder" if place == "committer" else "numbers") in str(error.value)
    assert faults.count(place) == 3


@locally
def test_with_checkpoints_a_failing_job_restarts_by_default(make_env: MakeEnvironment, tmp_path: Path) -> None:
    settings = {"execution.checkpointing.interval": "10 ms", "execution.epoch.max-records": 50}
    env = make_env(2, {**settings, "restart-strategy.exponential-delay.initial-backoff": "1 ms"})
    faults = failing_job.build(env, tmp_path, ["process_element", "on_timer"])
    env.execute("failing")
    assert faults.happened() == {"process_element", "on_timer"}
    assert_golden(tmp_path)


@locally
def test_without_checkpoints_a_restarted_job_begins_anew_and_commits_once_at_its_end(
    make_env: MakeEnvironment, tmp_path: Path
) -> None:
    env = make_env(2, {**_RESTARTS, "execution.epoch.max-records": 50})
    faults = failing_job.build(env, tmp_path, ["process_element", "on_timer", "committer"])
    env.execute("failing")
    assert faults.happened() == {"process_element", "on_timer", "committer"}
    assert_golden(tmp_path)


def test_a_job_that_waits_for_its_restart_is_cancelled_at_once(start: Start, tmp_path: Path) -> None:
    settings = restarting(100, "1 h")
    client = start(settings, build=lambda env, output: failing_job.build(env, output, ["process_element"]))
    wait_until("the job has failed", lambda: client.get_job_status().result() is JobStatus.RESTARTING, 120)
    client.cancel().result(120)
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(120)
