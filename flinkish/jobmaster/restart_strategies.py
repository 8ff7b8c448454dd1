"""Decides whether and when a failed job restarts: Flink's four strategies. Each is a decider; its only state is its counts.

Each gets a clock (and a random source for jitter) in its constructor and is told of failures; it does not wait or restart
anything itself. The behaviours are those of Flink's *RestartBackoffTimeStrategy classes.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Protocol, assert_never

from flinkish.common.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRestart:
    """No restart: the first failure ends the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDelay:
    """Up to `attempts` restarts, `delay` milliseconds after each failure."""

    attempts: int = 1
    delay: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """Restarts until more than `max_failures_per_interval` failures happen within `interval` milliseconds."""

    max_failures_per_interval: int = 1
    interval: int = 60_000
    delay: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialDelay:
    """Restarts after a delay that grows with each failure and is reset after a time without failures; times in milliseconds.

    `attempts` is the number of restarts allowed before the backoff is reset; None = no limit.
    """

    initial_backoff: int = 1_000
    max_backoff: int = 60_000
    backoff_multiplier: float = 1.5
    reset_backoff_threshold: int = 3_600_000
    jitter_factor: float = 0.1
    attempts: int | None = None


RestartConfig = NoRestart | FixedDelay | FailureRate | ExponentialDelay


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartAfter:
    """Start a new attempt after `delay` milliseconds."""

    delay: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Let the job fail; `reason` completes a sentence after "because"."""

    reason: str


RestartDecision = RestartAfter | GiveUp


class RestartStrategy(Protocol):
    """Decides whether to restart after a failure."""

    def on_failure(self) -> RestartDecision:
        """Count a failure that happens now, and decide."""
        ...


class _NoRestartStrategy:
    def on_failure(self) -> RestartDecision:
        return GiveUp(reason="restart-strategy.type is none, or nothing is checkpointed and no strategy is set")


class _FixedDelayStrategy:
    def __init__(self, config: FixedDelay) -> None:
        self._config = config
        self._failures = 0

    def on_failure(self) -> RestartDecision:
        self._failures += 1
        if self._failures > self._config.attempts:
            return GiveUp(reason=f"all {self._config.attempts} attempts of restart-strategy.fixed-delay.attempts are used")
        return RestartAfter(delay=self._config.delay)


class _FailureRateStrategy:
    def __init__(self, config: FailureRate, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._failures: deque[int] = deque(maxlen=config.max_failures_per_interval + 1)

    def on_failure(self) -> RestartDecision:
        now = self._clock.monotonic()
        self._failures.append(now)
        limit = self._config.max_failures_per_interval
        if len(self._failures) > limit and now - self._failures[0] <= self._config.interval:
            return GiveUp(reason=f"more than {limit} failures happened within {self._config.interval} ms")
        return RestartAfter(delay=self._config.delay)


class _ExponentialDelayStrategy:
    def __init__(self, config: ExponentialDelay, clock: Clock, rng: random.Random) -> None:
        self._config = config
        self._clock = clock
        self._random = rng
        self._backoff = config.initial_backoff
        self._restarts = 0
        #: When the last decided restart is due.
        self._next_restart: int | None = None

    def on_failure(self) -> RestartDecision:
        config = self._config
        now = self._clock.monotonic()
        if self._next_restart is not None and now <= self._next_restart:
            # Another failure while the restart is pending belongs to the failure that caused the restart.
            return RestartAfter(delay=self._next_restart - now)
        if self._next_restart is None:
            self._restarts = 1
        elif now - self._next_restart >= config.reset_backoff_threshold + self._backoff:
            self._backoff = config.initial_backoff
            self._restarts = 1
        else:
            self._backoff = min(config.max_backoff, int(self._backoff * config.backoff_multiplier))
            self._restarts += 1
        if config.attempts is not None and self._restarts > config.attempts:
            return GiveUp(
                reason=f"all {config.attempts} of restart-strategy.exponential-delay.attempts-before-reset-backoff are used"
            )
        delay = self._with_jitter(self._backoff)
        self._next_restart = now + delay
        return RestartAfter(delay=delay)

    def _with_jitter(self, backoff: int) -> int:
        spread = int(backoff * self._config.jitter_factor)
        if spread == 0:
            return backoff
        jittered = backoff + self._random.randint(-spread, spread)
        return max(self._config.initial_backoff, min(self._config.max_backoff, jittered))


def restart_strategy(config: RestartConfig, clock: Clock, rng: random.Random) -> RestartStrategy:
    """Create the strategy for a configuration."""
    match config:
        case NoRestart():
            return _NoRestartStrategy()
        case FixedDelay():
            return _FixedDelayStrategy(config)
        case FailureRate():
            return _FailureRateStrategy(config, clock)
        case ExponentialDelay():
            return _ExponentialDelayStrategy(config, clock, rng)
        case _:
            assert_never(config)
