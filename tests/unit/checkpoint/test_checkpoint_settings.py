"""Settings of checkpoints: Flink's options, checked."""

from __future__ import annotations

import pytest

from flinkish.checkpoint.checkpoint_settings import CheckpointingMode, CheckpointSettings, JobEnd, Retention, deletes_checkpoints
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError


def configuration(values: dict[str, str]) -> Configuration:
    result = Configuration()
    for key, value in values.items():
        result.set_string(key, value)
    return result


def test_the_defaults_are_those_of_flink() -> None:
    assert CheckpointSettings.from_configuration(Configuration()) == CheckpointSettings(
        interval=None,
        mode=CheckpointingMode.EXACTLY_ONCE,
        timeout=600_000,
        min_pause=0,
        max_concurrent=1,
        tolerable_failures=0,
        retention=Retention.NO_EXTERNALIZED_CHECKPOINTS,
        num_retained=1,
        savepoint_directory=None,
    )


def test_all_options_are_read() -> None:
    settings = CheckpointSettings.from_configuration(
        configuration(
            {
                "execution.checkpointing.interval": "10 s",
                "execution.checkpointing.mode": "AT_LEAST_ONCE",
                "execution.checkpointing.timeout": "2 min",
                "execution.checkpointing.min-pause": "500 ms",
                "execution.checkpointing.max-concurrent-checkpoints": "3",
                "execution.checkpointing.asynchronous": "false",
                "execution.checkpointing.tolerable-failed-checkpoints": "4",
                "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
                "execution.checkpointing.num-retained": "5",
                "execution.checkpointing.savepoint-dir": "/savepoints",
            }
        )
    )
    assert settings == CheckpointSettings(
        interval=10_000,
        mode=CheckpointingMode.AT_LEAST_ONCE,
        timeout=120_000,
        min_pause=500,
        max_concurrent=3,
        asynchronous=False,
        tolerable_failures=4,
        retention=Retention.RETAIN_ON_CANCELLATION,
        num_retained=5,
        savepoint_directory="/savepoints",
    )


def test_an_interval_below_a_millisecond_turns_periodic_checkpoints_off() -> None:
    assert CheckpointSettings.from_configuration(configuration({"execution.checkpointing.interval": "0 s"})).interval is None


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"interval": 9}, "interval"),
        ({"timeout": 9}, "timeout"),
        ({"min_pause": -1}, "min-pause"),
        ({"max_concurrent": 0}, "max-concurrent-checkpoints"),
        ({"tolerable_failures": -2}, "tolerable-failed-checkpoints"),
        ({"num_retained": 0}, "num-retained"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_key(values: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"execution.checkpointing.{key}"):
        CheckpointSettings(**values)  # type: ignore[arg-type]


def test_the_interval_is_never_shorter_than_the_pause() -> None:
    assert CheckpointSettings(interval=100, min_pause=500).effective_interval == 500


@pytest.mark.parametrize(
    ("retention", "deleted_after"),
    [
        (Retention.NO_EXTERNALIZED_CHECKPOINTS, {JobEnd.FINISHED, JobEnd.CANCELED, JobEnd.FAILED}),
        (Retention.DELETE_ON_CANCELLATION, {JobEnd.FINISHED, JobEnd.CANCELED}),
        (Retention.RETAIN_ON_CANCELLATION, {JobEnd.FINISHED}),
    ],
)
def test_what_becomes_of_checkpoints_when_the_job_ends(retention: Retention, deleted_after: set[JobEnd]) -> None:
    assert {end for end in JobEnd if deletes_checkpoints(retention, end)} == deleted_after
