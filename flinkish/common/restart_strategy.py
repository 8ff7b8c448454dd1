"""RestartStrategies: how a failed job is restarted, as objects; Flink 2.x uses configuration keys (restart-strategy.*)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta

from flinkish.common import options
from flinkish.common.arguments import int_of
from flinkish.common.configuration import Configuration
from flinkish.common.time import AmountOfTime, milliseconds_of


class RestartStrategyConfiguration(ABC):
    """Base of all strategies."""

    @abstractmethod
    def get_description(self) -> str:
        """Return the strategy in words."""

    @abstractmethod
    def to_configuration(self) -> Configuration:
        """Return a configuration with the keys of this strategy."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self).__name__, *vars(self).values()))


class RestartStrategies:
    """Factory of strategies. Times are milliseconds (int), or a Time, Duration or timedelta.

    >>> RestartStrategies.fixed_delay_restart(3, 10_000).get_restart_attempts()
    3
    """

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The first failure fails the job."""

        def get_description(self) -> str:
            return "Restart deactivated."

        def to_configuration(self) -> Configuration:
            return Configuration().set(options.RESTART_STRATEGY, "none")

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """At most `restart_attempts` restarts, each after the same pause."""

        def __init__(self, restart_attempts: int, delay_between_attempts_interval: int | AmountOfTime) -> None:
            self._attempts = int_of("restart_attempts", restart_attempts, minimum=0)
            self._delay = milliseconds_of(delay_between_attempts_interval, "delay_between_attempts_interval", or_number=True)

        def get_restart_attempts(self) -> int:
            """Return the maximum number of restarts."""
            return self._attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the pause before each restart, as it was given."""
            return timedelta(milliseconds=self._delay)

        def get_description(self) -> str:
            return f"Restart with fixed delay ({self._delay} ms). #{self._attempts} restart attempts."

        def to_configuration(self) -> Configuration:
            return (
                Configuration()
                .set(options.RESTART_STRATEGY, "fixed-delay")
                .set(options.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, self._attempts)
                .set(options.RESTART_STRATEGY_FIXED_DELAY_DELAY, self._delay)
            )

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts until an interval has more than `max_failure_rate` failures."""

        def __init__(
            self, max_failure_rate: int, failure_interval: int | AmountOfTime, delay_between_attempts_interval: int | AmountOfTime
        ) -> None:
            self._rate = int_of("max_failure_rate", max_failure_rate, minimum=1)
            self._interval = milliseconds_of(failure_interval, "failure_interval", or_number=True)
            self._delay = milliseconds_of(delay_between_attempts_interval, "delay_between_attempts_interval", or_number=True)

        def get_max_failure_rate(self) -> int:
            """Return the maximum number of failures in one interval."""
            return self._rate

        def get_failure_interval(self) -> timedelta:
            """Return the length of the interval."""
            return timedelta(milliseconds=self._interval)

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the pause before each restart."""
            return timedelta(milliseconds=self._delay)

        def get_description(self) -> str:
            return (
                f"Failure rate restart with maximum of {self._rate} failures within interval {self._interval} ms"
                f" and fixed delay {self._delay} ms."
            )

        def to_configuration(self) -> Configuration:
            return (
                Configuration()
                .set(options.RESTART_STRATEGY, "failure-rate")
                .set(options.RESTART_STRATEGY_FAILURE_RATE_MAX_FAILURES_PER_INTERVAL, self._rate)
                .set(options.RESTART_STRATEGY_FAILURE_RATE_FAILURE_RATE_INTERVAL, self._interval)
                .set(options.RESTART_STRATEGY_FAILURE_RATE_DELAY, self._delay)
            )

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The strategy that the configuration sets, such as in conf/config.yaml."""

        def get_description(self) -> str:
            return "Cluster level default restart strategy"

        def to_configuration(self) -> Configuration:
            return Configuration()

    @staticmethod
    def no_restart() -> RestartStrategies.NoRestartStrategyConfiguration:
        """Return the strategy that never restarts."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategies.FallbackRestartStrategyConfiguration:
        """Return the strategy that uses the settings of the configuration."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | AmountOfTime
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Return a strategy of at most `restart_attempts` restarts, each after a pause of `delay_between_attempts` (int: ms)."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | AmountOfTime, delay_interval: int | AmountOfTime
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Return a strategy that fails the job when `failure_interval` (int: ms) has more than `failure_rate` failures.

        The job restarts after a pause of `delay_interval` (int: ms).
        """
        return RestartStrategies.FailureRateRestartStrategyConfiguration(failure_rate, failure_interval, delay_interval)
