"""Decides whether and when a failed job restarts, by Flink's four strategies (its classes *RestartBackoffTimeStrategy)."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import assert_never

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


class RestartStrategy:
    """Decides after each failure, by a configuration and the failures so far; it does not wait or restart anything itself."""

    def __init__(self, config: RestartConfig, clock: Clock, rng: random.Random) -> None:
        """Begin without failures; `rng` is for the jitter of exponential delays."""
        self._config = config
        self._clock = clock
        self._random = rng
        #: Times of the last failures, for a failure rate.
        self._failures: deque[int] = deque(maxlen=config.max_failures_per_interval + 1 if isinstance(config, FailureRate) else 0)
        self._backoff = config.initial_backoff if isinstance(config, ExponentialDelay) else 0
        #: The number of failures, with an exponential delay since its last reset.
        self._restarts = 0
        #: When the last decided restart is due, with an exponential delay.
        self._next_restart: int | None = None

    def on_failure(self) -> RestartDecision:
        """Count a failure that happens now, and decide."""
        now = self._clock.monotonic()
        self._failures.append(now)
        match self._config:
            case NoRestart():
                return GiveUp(reason="restart-strategy.type is none, or nothing is checkpointed and no strategy is set")
            case FixedDelay(attempts=attempts, delay=delay):
                self._restarts += 1
                if self._restarts > attempts:
                    return GiveUp(reason=f"all {attempts} attempts of restart-strategy.fixed-delay.attempts are used")
                return RestartAfter(delay=delay)
            case FailureRate(max_failures_per_interval=limit, interval=interval, delay=delay):
                if len(self._failures) > limit and now - self._failures[0] <= interval:
                    return GiveUp(reason=f"more than {limit} failures happened within {interval} ms")
                return RestartAfter(delay=delay)
            case ExponentialDelay() as config:
                return self._exponential(config, now)
            case unexpected:
                assert_never(unexpected)

    def _exponential(self, config: ExponentialDelay, now: int) -> RestartDecision:
        if self._next_restart is not None and now <= self._next_restart:
            # Another failure while the restart is pending belongs to the failure that caused the restart.
            return RestartAfter(delay=self._next_restart - now)
        if self._next_restart is None or now - self._next_restart >= config.reset_backoff_threshold + self._backoff:
            self._backoff = config.initial_backoff
            self._restarts = 1
        else:
            self._backoff = min(config.max_backoff, int(self._backoff * config.backoff_multiplier))
            self._restarts += 1
        if config.attempts is not None and self._restarts > config.attempts:
            return GiveUp(
                reason=f"all {config.attempts} of restart-strategy.exponential-delay.attempts-before-reset-backoff are used"
            )
        delay, spread = self._backoff, int(self._backoff * config.jitter_factor)
        if spread:
            jittered = delay + self._random.randint(-spread, spread)
            delay = max(config.initial_backoff, min(config.max_backoff, jittered))
        self._next_restart = now + delay
        return RestartAfter(delay=delay)
