"""Amounts of time as `datetime.timedelta`: taken wherever PyFlink takes a Time, a Duration or milliseconds, and exactly."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flinkish.common import Configuration, Duration, RestartStrategies, Time, WatermarkStrategy
from flinkish.common.errors import FlinkishError, InvalidArgumentError
from flinkish.common.execution_config import ExecutionConfig
from flinkish.common.time import milliseconds_of
from flinkish.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment
from flinkish.datastream.async_retry_predicates import empty_result_predicate
from flinkish.datastream.checkpoint_config import CheckpointConfig
from flinkish.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat
from flinkish.datastream.evictors import TimeEvictor
from flinkish.datastream.state import StateTtlConfig
from flinkish.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkish.program.transformations import OneInputTransformation
from tests.kit.programs import last
from tests.unit.datastream.helpers import make_env, numbers


class _Lookup(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


class _Gap(SessionWindowTimeGapExtractor):
    def __init__(self, gap: Any) -> None:
        self._gap = gap

    def extract(self, element: Any) -> Any:
        return self._gap


def _env() -> StreamExecutionEnvironment:
    return make_env()


def _operator(stream: object) -> Any:
    transformation = last(stream)
    assert isinstance(transformation, OneInputTransformation)
    return transformation.operator


def _window_of(amount: Any) -> Any:
    env = _env()
    windows = numbers(env).key_by(lambda number: number).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return _operator(windows.allowed_lateness(amount).reduce(lambda one, other: one)).allowed_lateness


def _timeout_of(amount: Any) -> Any:
    return _operator(AsyncDataStream.unordered_wait(numbers(_env()), _Lookup(), amount)).timeout


def _bounds_of(amount: Any) -> Any:
    env = _env()
    keyed = numbers(env).key_by(lambda number: number)
    joined = keyed.interval_join(keyed).between(timedelta(0), amount)
    return joined._upper


def _rolling(amount: Any) -> Any:
    policy = RollingPolicy.default_rolling_policy(1, amount, amount)
    assert policy.rollover_interval == policy.inactivity_interval
    return policy.rollover_interval


def _monitored(amount: Any) -> Any:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data").monitor_continuously(amount)
    return builder._settings.discovery_interval


def _bucket_check(amount: Any) -> Any:
    from flinkish.common import Encoder

    builder = FileSink.for_row_format("/data", Encoder.simple_string_encoder()).with_bucket_check_interval(amount)
    return builder._settings.bucket_check_interval


def _configured(amount: Any) -> Any:
    configuration = Configuration().set_string("execution.checkpointing.interval", "1 s")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.enable_checkpointing(amount)
    return env.get_checkpoint_interval()


def _buffer_timeout(amount: Any) -> Any:
    return _env().set_buffer_timeout(amount).get_buffer_timeout()


def _alignment_of(amount: Any) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("group", amount, amount)
    assert strategy.alignment is not None
    assert strategy.alignment.max_drift_ms == strategy.alignment.update_interval_ms
    return strategy.alignment.max_drift_ms


def _retry_delay(amount: Any) -> Any:
    return AsyncRetryStrategy.fixed_delay(1, amount, empty_result_predicate, None).get_backoff_time_millis(1)


def _disorder_of(amount: Any) -> Any:
    generator: Any = WatermarkStrategy.for_bounded_out_of_orderness(amount).generator_supplier()
    return generator._delay - 1


def _ttl(amount: Any) -> Any:
    return StateTtlConfig.new_builder(amount).build().get_ttl().to_milliseconds()


_PLACES: dict[str, Callable[[Any], Any]] = {
    "tumbling event time": lambda amount: TumblingEventTimeWindows.of(amount)._size,
    "tumbling processing time": lambda amount: TumblingProcessingTimeWindows.of(amount)._size,
    "tumbling offset": lambda amount: TumblingEventTimeWindows.of(timedelta(days=2), amount)._offset,
    "sliding event time": lambda amount: SlidingEventTimeWindows.of(timedelta(days=2), amount)._slide,
    "sliding processing time": lambda amount: SlidingProcessingTimeWindows.of(amount, timedelta(milliseconds=1))._size,
    "event-time session": lambda amount: EventTimeSessionWindows.with_gap(amount)._session_gap,
    "processing-time session": lambda amount: ProcessingTimeSessionWindows.with_gap(amount)._session_gap,
    "dynamic session": lambda amount: EventTimeSessionWindows.with_dynamic_gap(_Gap(amount))._window(None, 0).end,
    "continuous event-time trigger": lambda amount: ContinuousEventTimeTrigger.of(amount).interval,
    "continuous processing-time trigger": lambda amount: ContinuousProcessingTimeTrigger.of(amount).interval,
    "evictor": lambda amount: TimeEvictor.of(amount)._window_size,
    "allowed lateness": _window_of,
    "out of orderness": _disorder_of,
    "idleness": lambda amount: WatermarkStrategy.no_watermarks().with_idleness(amount).idleness_ms,
    "watermark alignment": _alignment_of,
    "time to live": _ttl,
    "async timeout": _timeout_of,
    "retry delay": lambda amount: AsyncRetryStrategy.fixed_delay(1, amount, empty_result_predicate, None).get_backoff_time_millis(
        1
    ),
    "interval join": _bounds_of,
    "checkpoint interval": _configured,
    "checkpoint timeout": lambda amount: CheckpointConfig().set_checkpoint_timeout(amount).get_checkpoint_timeout(),
    "pause": lambda amount: CheckpointConfig().set_min_pause_between_checkpoints(amount).get_min_pause_between_checkpoints(),
    "alignment timeout": lambda amount: (
        CheckpointConfig().set_aligned_checkpoint_timeout(amount).get_aligned_checkpoint_timeout().to_millis()
    ),
    "buffer timeout": _buffer_timeout,
    "watermark interval": lambda amount: ExecutionConfig().set_auto_watermark_interval(amount).get_auto_watermark_interval(),
    "cancellation": lambda amount: ExecutionConfig().set_task_cancellation_timeout(amount).get_task_cancellation_timeout(),
    "restart delay": lambda amount: RestartStrategies.fixed_delay_restart(3, amount)._delay,
    "rolling policy": _rolling,
    "bucket check": _bucket_check,
    "discovery": _monitored,
}


@pytest.mark.parametrize("place", _PLACES)
def test_a_timedelta_is_its_milliseconds(place: str) -> None:
    # In floats this would be 4660.999999999999.
    assert _PLACES[place](timedelta(seconds=4, milliseconds=661)) == 4661


@pytest.mark.parametrize("place", _PLACES)
def test_a_timedelta_with_a_fraction_of_a_millisecond_is_refused(place: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"must be a whole number of milliseconds; got .*microseconds=661500.*\nHint: round it"
    ) as caught:
        _PLACES[place](timedelta(microseconds=4_661_500))
    assert isinstance(caught.value, FlinkishError)


def test_exact_for_a_thousand_years() -> None:
    assert milliseconds_of(timedelta(days=365_000, milliseconds=1), "it") == 365_000 * 86_400_000 + 1
    assert milliseconds_of(timedelta(milliseconds=-1), "it") == -1


@pytest.mark.parametrize("value", [True, 1.5, "5 s", None], ids=str)
def test_what_is_no_amount_of_time_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^it must be an int \(milliseconds\), a Time or a Duration, or a timedelta"):
        milliseconds_of(value, "it", or_number=True)


def test_options_of_a_configuration_take_amounts_of_time() -> None:
    from flinkish.common import options

    for amount in (timedelta(seconds=5), Time.seconds(5), Duration.of_seconds(5)):
        configuration = Configuration().set(options.CHECKPOINTING_INTERVAL, amount)  # type: ignore[arg-type]
        assert configuration.get(options.CHECKPOINTING_INTERVAL) == 5000
