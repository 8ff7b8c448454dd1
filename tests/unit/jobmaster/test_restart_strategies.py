from __future__ import annotations

import random

import pytest

from flinkish.common.clock import ManualClock
from flinkish.common.configuration import Configuration
from flinkish.jobmaster.restart_strategies import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    GiveUp,
    NoRestart,
    RestartAfter,
    RestartConfig,
    RestartDecision,
    RestartStrategy,
)
from flinkish.jobmaster.setup import restart_config


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def make(config: RestartConfig, clock: ManualClock) -> RestartStrategy:
    return RestartStrategy(config, clock, random.Random(1))


def delay_of(decision: RestartDecision) -> int:
    assert isinstance(decision, RestartAfter)
    return decision.delay


def test_none_gives_up_at_once(clock: ManualClock) -> None:
    assert isinstance(make(NoRestart(), clock).on_failure(), GiveUp)


def test_fixed_delay_restarts_as_often_as_it_says(clock: ManualClock) -> None:
    strategy = make(FixedDelay(attempts=2, delay=500), clock)
    assert [strategy.on_failure(), strategy.on_failure()] == [RestartAfter(delay=500)] * 2
    assert isinstance(strategy.on_failure(), GiveUp)


def test_fixed_delay_with_no_attempts_gives_up_at_once(clock: ManualClock) -> None:
    assert isinstance(make(FixedDelay(attempts=0), clock).on_failure(), GiveUp)


def test_failure_rate_restarts_for_ever_below_its_rate(clock: ManualClock) -> None:
    strategy = make(FailureRate(max_failures_per_interval=2, interval=1_000, delay=10), clock)
    for _ in range(50):
        assert strategy.on_failure() == RestartAfter(delay=10)
        clock.advance(501)


def test_failure_rate_gives_up_at_one_failure_more_than_its_rate(clock: ManualClock) -> None:
    strategy = make(FailureRate(max_failures_per_interval=2, interval=1_000, delay=10), clock)
    for _ in range(2):
        assert strategy.on_failure() == RestartAfter(delay=10)
        clock.advance(400)
    assert isinstance(strategy.on_failure(), GiveUp)


def test_exponential_delay_grows_up_to_its_maximum(clock: ManualClock) -> None:
    strategy = make(ExponentialDelay(initial_backoff=100, max_backoff=500, backoff_multiplier=2.0, jitter_factor=0.0), clock)
    delays = []
    for _ in range(5):
        delays.append(delay_of(strategy.on_failure()))
        clock.advance(delays[-1] + 1)
    assert delays == [100, 200, 400, 500, 500]


def test_exponential_delay_falls_back_after_a_time_without_failures(clock: ManualClock) -> None:
    config = ExponentialDelay(
        initial_backoff=100, max_backoff=5_000, backoff_multiplier=2.0, jitter_factor=0.0, reset_backoff_threshold=10_000
    )
    strategy = make(config, clock)
    for _ in range(3):
        clock.advance(delay_of(strategy.on_failure()) + 1)
    clock.advance(10_000 + 400)
    assert strategy.on_failure() == RestartAfter(delay=100)


def test_failures_during_the_backoff_belong_to_the_one_before(clock: ManualClock) -> None:
    strategy = make(ExponentialDelay(initial_backoff=100, backoff_multiplier=2.0, jitter_factor=0.0, attempts=1), clock)
    assert strategy.on_failure() == RestartAfter(delay=100)
    clock.advance(40)
    assert strategy.on_failure() == RestartAfter(delay=60)


def test_exponential_delay_gives_up_after_the_allowed_attempts(clock: ManualClock) -> None:
    strategy = make(ExponentialDelay(initial_backoff=100, jitter_factor=0.0, attempts=2), clock)
    for _ in range(2):
        clock.advance(delay_of(strategy.on_failure()) + 1)
    assert isinstance(strategy.on_failure(), GiveUp)


def test_jitter_stays_within_its_factor_and_the_bounds(clock: ManualClock) -> None:
    config = ExponentialDelay(initial_backoff=1_000, max_backoff=2_000, backoff_multiplier=2.0, jitter_factor=0.1)
    strategy = make(config, clock)
    delays = []
    for _ in range(100):
        delays.append(delay_of(strategy.on_failure()))
        clock.advance(delays[-1] + 1)
    assert all(1_000 <= delay <= 1_100 for delay in delays[:1])
    assert all(1_800 <= delay <= 2_000 for delay in delays[1:])
    assert len(set(delays)) > 10


@pytest.mark.parametrize(
    ("settings", "checkpointing", "expected"),
    [
        ({}, False, NoRestart()),
        ({}, True, ExponentialDelay()),
        ({"restart-strategy.type": "off"}, True, NoRestart()),
        ({"restart-strategy.type": "fixed-delay"}, False, FixedDelay(attempts=1, delay=1_000)),
        (
            {"restart-strategy": "fixeddelay", "restart-strategy.fixed-delay.attempts": 7},
            False,
            FixedDelay(attempts=7, delay=1_000),
        ),
        (
            {"restart-strategy.type": "failure-rate", "restart-strategy.failure-rate.failure-rate-interval": "5 min"},
            False,
            FailureRate(max_failures_per_interval=1, interval=300_000, delay=1_000),
        ),
        (
            {"restart-strategy.type": "exponential-delay", "restart-strategy.exponential-delay.attempts-before-reset-backoff": 3},
            False,
            ExponentialDelay(attempts=3),
        ),
    ],
)
def test_the_strategy_is_read_from_flinks_keys(settings: dict[str, object], checkpointing: bool, expected: RestartConfig) -> None:
    assert restart_config(Configuration.from_dict(settings), checkpointing=checkpointing) == expected
