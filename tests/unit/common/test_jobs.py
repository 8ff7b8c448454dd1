"""What programs get to know of their jobs, and the settings they run with."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from datetime import timedelta
from typing import Any

import pytest

from flinkish.common import (
    CompletableFuture,
    Configuration,
    ExecutionConfig,
    InputDependencyConstraint,
    JobExecutionResult,
    JobID,
    JobStatus,
    RestartStrategies,
    options,
)
from flinkish.common.errors import ConfigurationError, InvalidArgumentError, UnsupportedError
from flinkish.common.execution_config import default_parallelism
from flinkish.common.io import InputFormat


def test_a_result_prints_as_flinks() -> None:
    result = JobExecutionResult(JobID("ab" * 16), 1234, {"records": 5})
    assert str(JobExecutionResult(JobID("ab" * 16), 1234)).splitlines() == [
        "Program execution finished",
        f"Job with JobID {'ab' * 16} has finished.",
        "Job Runtime: 1234 ms",
    ]
    assert "- records: 5" in str(result)
    assert (result.get_net_runtime(), result.get_job_id()) == (1234, JobID("ab" * 16))
    assert (result.get_accumulator_result("records"), result.get_accumulator_result("x")) == (5, None)
    assert result.get_all_accumulator_results() == {"records": 5}


def test_terminal_states_are_those_from_which_nobody_goes_on() -> None:
    assert {status for status in JobStatus if status.is_globally_terminal_state()} == {
        JobStatus.FAILED,
        JobStatus.CANCELED,
        JobStatus.FINISHED,
    }
    assert JobStatus.SUSPENDED.is_terminal_state()
    assert not JobStatus.RUNNING.is_terminal_state()
    assert [constraint.name for constraint in InputDependencyConstraint] == ["ANY", "ALL"]


def test_a_future_waits_for_its_result() -> None:
    future: CompletableFuture[int] = CompletableFuture()
    assert not future.done()
    assert future.exception() is None
    assert str(future) == "CompletableFuture[not completed]"
    thread = threading.Thread(target=future.set_result, args=(5,))
    thread.start()
    assert future.result(timeout=120) == 5
    thread.join()
    assert str(future) == "CompletableFuture[completed normally]"


def test_only_the_first_completion_of_a_future_counts() -> None:
    future: CompletableFuture[int] = CompletableFuture()
    assert future.set_exception(ValueError("first"))
    assert not future.set_result(1)
    assert not future.set_exception(ValueError("third"))
    assert not future.cancel()
    assert str(future.exception()) == "first"
    with pytest.raises(ValueError, match="first"):
        future.result()


def test_a_cancelled_future_raises() -> None:
    future: CompletableFuture[int] = CompletableFuture()
    assert future.cancel()
    assert future.cancelled()
    assert not future.set_result(1)
    assert isinstance(future.exception(), CancelledError)
    with pytest.raises(CancelledError):
        future.result()


def test_callbacks_of_a_future_run_once_it_is_completed() -> None:
    seen: list[int] = []
    CompletableFuture.completed(5).add_done_callback(lambda future: seen.append(future.result()))
    assert seen == [5]
    with pytest.raises(TimeoutError):
        CompletableFuture[int]().result(timeout=0)
    with pytest.raises(KeyError):
        CompletableFuture.failed(KeyError("x")).result()


def test_settings_have_flinks_defaults() -> None:
    config = ExecutionConfig()
    assert config.get_auto_watermark_interval() == 200
    assert config.get_parallelism() == default_parallelism() >= 1
    assert config.get_max_parallelism() == -1
    assert config.get_latency_tracking_interval() == 0
    assert (config.get_task_cancellation_interval(), config.get_task_cancellation_timeout()) == (30_000, 180_000)
    assert config.is_closure_cleaner_enabled()
    assert config.has_auto_generated_uids_enabled()
    assert config.get_global_job_parameters() == {}
    switches = [
        config.is_object_reuse_enabled(),
        config.is_force_kryo_enabled(),
        config.is_force_avro_enabled(),
        config.has_generic_types_disabled(),
        config.is_use_snapshot_compression(),
    ]
    assert switches == [False] * 5
    assert config.get_default_kryo_serializer_classes() == {}
    assert config.get_registered_kryo_types() == config.get_registered_pojo_types() == []


def test_settings_are_set_one_after_another_and_kept_in_the_configuration() -> None:
    configuration = Configuration()
    config = (
        ExecutionConfig(configuration)
        .set_parallelism(4)
        .set_max_parallelism(64)
        .set_auto_watermark_interval(0)
        .set_latency_tracking_interval(5)
        .set_task_cancellation_interval(1)
        .set_task_cancellation_timeout(2)
        .set_global_job_parameters({"n": 5, "flag": True})
        .set_use_snapshot_compression(True)
        .enable_object_reuse()
        .enable_force_avro()
        .enable_force_kryo()
        .disable_generic_types()
        .disable_auto_generated_uids()
        .disable_closure_cleaner()
    )
    assert configuration.get(options.DEFAULT_PARALLELISM) == config.get_parallelism() == 4
    assert config.get_global_job_parameters() == {"n": "5", "flag": "true"}
    assert config.to_configuration() is configuration
    assert config == ExecutionConfig(Configuration(configuration))
    assert hash(config) == hash(ExecutionConfig(Configuration(configuration)))
    config.disable_object_reuse().disable_force_avro().disable_force_kryo().enable_generic_types()
    config.enable_auto_generated_uids().enable_closure_cleaner()
    assert config.set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN).get_parallelism() == 4
    assert config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT).get_parallelism() == default_parallelism()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda config: config.set_parallelism(0),
        lambda config: config.set_parallelism("4"),
        lambda config: config.set_max_parallelism(40_000),
        lambda config: config.set_auto_watermark_interval(-1),
        lambda config: config.set_global_job_parameters("x"),
    ],
)
def test_wrong_settings_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        wrong(ExecutionConfig())


def test_a_restart_strategy_says_the_same_as_its_keys() -> None:
    fixed = RestartStrategies.fixed_delay_restart(3, timedelta(seconds=10))
    assert (fixed.get_restart_attempts(), fixed.get_delay_between_attempts_interval()) == (3, timedelta(seconds=10))
    configuration = fixed.to_configuration()
    assert configuration.get(options.RESTART_STRATEGY) == "fixed-delay"
    assert configuration.get(options.RESTART_STRATEGY_FIXED_DELAY_DELAY) == 10_000

    rate = RestartStrategies.failure_rate_restart(2, 60_000, 500)
    assert (rate.get_max_failure_rate(), rate.get_failure_interval()) == (2, timedelta(minutes=1))
    assert rate.get_delay_between_attempts_interval() == timedelta(milliseconds=500)
    assert rate.to_configuration().get(options.RESTART_STRATEGY_FAILURE_RATE_MAX_FAILURES_PER_INTERVAL) == 2

    assert RestartStrategies.no_restart().to_configuration().get(options.RESTART_STRATEGY) == "none"
    assert RestartStrategies.fall_back_restart().to_configuration().key_set() == set()
    assert RestartStrategies.no_restart() == RestartStrategies.no_restart() != RestartStrategies.fall_back_restart()
    assert hash(fixed) == hash(RestartStrategies.fixed_delay_restart(3, 10_000))
    for strategy in (fixed, rate, RestartStrategies.no_restart(), RestartStrategies.fall_back_restart()):
        assert strategy.get_description()


def test_a_restart_strategy_of_wrong_numbers_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="milliseconds"):
        RestartStrategies.fixed_delay_restart(3, "10 s")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="at least 0"):
        RestartStrategies.fixed_delay_restart(-1, 5)
    with pytest.raises(ConfigurationError, match=r"fixed-delay\.delay"):
        RestartStrategies.fixed_delay_restart(1, -5).to_configuration()


def test_java_input_formats_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="FileSource"):
        InputFormat(object())
