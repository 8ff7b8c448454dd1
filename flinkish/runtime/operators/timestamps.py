"""The operator of assign_timestamps_and_watermarks in the middle of a program."""

from __future__ import annotations

import contextlib
import datetime
import functools
import operator
from collections.abc import Callable
from typing import Any

from flinkish.common import options
from flinkish.common.columns import Columns
from flinkish.common.errors import TypeMismatchError
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.common.watermark_strategy import FieldTimestampAssigner, TimestampAssigner
from flinkish.graph.columns import records_only
from flinkish.program.operators import TimestampsAndWatermarksConfig
from flinkish.runtime.operators.base import Operator, OperatorContext
from flinkish.runtime.protocol import MAX_WATERMARK, MIN_WATERMARK, WARNING
from flinkish.runtime.watermarks import CombinedWatermarks

_NEEDED = "milliseconds as an int of 64 bits"
_SECONDS_OF_1980 = 315_532_800
_SECONDS_OF_A_YEAR = 366 * 86_400


def timer_time(value: Any, method: str) -> int:
    """Return the time of a timer as an int, truncated towards zero as in PyFlink.

    Raises TypeMismatchError for other values, and for more than 64 bits: a timer at such a time would wait for ever.
    """
    if value.__class__ is int and LONG_MIN <= value <= LONG_MAX:
        return value
    if not isinstance(value, (str, bytes)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            time = int(value)
            if LONG_MIN <= time <= LONG_MAX:
                return time
    raise TypeMismatchError(
        f"{method}() needs {_NEEDED}; got {value!r} of type {type(value).__name__}",
        hint="for a datetime: to_epoch_milli(value) of flinkish.common.",
    )


def after_all_time(name: str, time: int) -> TypeMismatchError:
    """Return the error for a window or a trigger's timer at a time that no watermark reaches, so that it would never fire."""
    return TypeMismatchError(
        f"{name!r} has a window or a timer that would have to fire at {time}, after the last time that there is ({LONG_MAX}).",
        hint="give records their time in milliseconds since 1970, and filter out those whose time is not known.",
    )


def whole_milliseconds(timestamp: Any, extract: Callable[..., Any], value: Any) -> int:
    """Return the result of a timestamp assigner as an int, for example one of numpy; raises TypeMismatchError for other values.

    A float is refused, as it is probably in seconds; so is a bool.
    """
    if not isinstance(timestamp, bool):
        with contextlib.suppress(TypeError):
            time = operator.index(timestamp)
            if LONG_MIN <= time <= LONG_MAX:
                return time
    name = getattr(extract, "__qualname__", "extract_timestamp")
    shown = repr(value) if len(repr(value)) <= 200 else repr(value)[:200] + "..."
    raise TypeMismatchError(
        f"{name} must return {_NEEDED}; got {timestamp!r} of type {type(timestamp).__name__} for the record {shown}",
        hint="for seconds: round(value * 1000); for a datetime: to_epoch_milli(value) of flinkish.common, which takes one "
        "without a time zone for UTC (its own timestamp() would take it for local time); leave out records without a time before "
        "(filter, side output).",
    )


def extracting(owner: Any, context: OperatorContext, assigner: TimestampAssigner) -> Callable[[Any, int], Any]:
    """Return the assigner's `extract_timestamp`, with a check of the first record, for the attribute `_extract` of `owner`.

    The first call tells the driver if the event time seems to be in seconds, and puts the assigner's own method in the attribute.
    """
    extract = assigner.extract_timestamp

    @functools.wraps(extract)  # errors show its name
    def extract_first(value: Any, record_timestamp: int) -> Any:
        owner._extract = extract
        timestamp = extract(value, record_timestamp)
        if seems_to_be_seconds(timestamp, context.time.now()):
            context.to_driver(context.node.uid, WARNING, [_about_seconds(context, int(timestamp))], None)
        return timestamp

    return extract_first


def _about_seconds(context: OperatorContext, timestamp: int) -> str:
    in_milliseconds, in_seconds = (
        datetime.datetime.fromtimestamp(time, datetime.UTC).date() for time in (timestamp / 1000, timestamp)
    )
    return (
        f"Operator {context.node.name!r} (uid {context.node.uid}) has assigned the event time {timestamp}, which looks like "
        f"seconds: event times are milliseconds since 1970, so this is {in_milliseconds}; in seconds it would be {in_seconds}. "
        "If so, extract_timestamp() must return seconds * 1000."
    )


def seems_to_be_seconds(timestamp: Any, now: int) -> bool:
    """Return whether an event time, as seconds, is between 1980 and a year from `now`, the job's clock in milliseconds.

    As milliseconds, these are days in January 1970. Small times of examples and tests are below.
    """
    return hasattr(timestamp, "__index__") and bool(_SECONDS_OF_1980 <= timestamp <= now // 1000 + _SECONDS_OF_A_YEAR)


def field_times(owner: Any, columns: Columns, assigner: TimestampAssigner | None) -> Columns | None:
    """Return columns with the event times that they have in a field; None if some record has none, or needs a look.

    `owner._extract` looks at the first record of all, and so says if its time seems to be in seconds.
    """
    if assigner is None:
        return columns
    assert isinstance(assigner, FieldTimestampAssigner)
    position = columns.layout.position(assigner.field)
    if position is None or columns.column(position).null_count:
        return None
    if hasattr(owner._extract, "__wrapped__"):
        owner._extract(columns.slice(0, 1).records()[0], MIN_WATERMARK)
    return columns.with_times(columns.column(position).cast("int64"))


def highest(columns: Columns) -> int | None:
    """Return the highest event time of columns: the only one that the generators of watermarks remember that columns may have."""
    if columns.timestamps is None:
        return None
    import pyarrow.compute as pc

    time: int | None = pc.max(columns.timestamps).as_py()
    return time


class TimestampsAndWatermarksOperator(Operator):
    """Assigns event time to records and generates watermarks; watermarks from upstream are ignored, except the final one.

    Punctuated watermarks are emitted at once, periodic ones at the end of each epoch (the interval 0 turns them off).
    """

    passes_through = True

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        config = context.node.operator
        assert isinstance(config, TimestampsAndWatermarksConfig)
        self._strategy = config.strategy
        self._table = context.state.internal("watermarks")
        periodic = context.program.configuration.get(options.AUTO_WATERMARK_INTERVAL) > 0
        self._combined = CombinedWatermarks(config.strategy, periodic, context.program.attempt_id)
        self._split = self._combined.split("", context.time.steady, self._table.get("generator"))

    def open(self) -> None:
        assigner = self._strategy.timestamp_assigner
        self._extract = None if assigner is None else extracting(self, self.context, assigner)
        self._by_columns = records_only(self.node) is None
        self._watched = not self.context.batch and (self._strategy.generates_watermarks or self._strategy.idleness_ms is not None)

    def process(self, value: Any, timestamp: int | None) -> None:
        extract = self._extract
        if extract is not None:
            timestamp = extract(value, MIN_WATERMARK if timestamp is None else timestamp)
            if timestamp.__class__ is not int or not LONG_MIN <= timestamp <= LONG_MAX:
                timestamp = whole_milliseconds(timestamp, extract, value)
        self.emit(value, timestamp)
        if self._watched:
            self._split.event(value, timestamp)
            if self._combined.changed:
                self.advance(*self._combined.take())

    def process_columns(self, columns: Columns, input_index: int = 0) -> None:
        timed = field_times(self, columns, self._strategy.timestamp_assigner) if self._by_columns else None
        if timed is None:
            super().process_columns(columns, input_index)
            return
        self.output.columns(timed)
        if self._watched:
            self._split.event(None, highest(timed))
            if self._combined.changed:
                self.advance(*self._combined.take())

    def watermark(self, timestamp: int) -> None:
        if timestamp == MAX_WATERMARK:
            self.advance(MAX_WATERMARK, None)

    def status(self, idle: bool) -> None:
        """Ignore the upstream status: this operator decides about idleness itself."""

    def before_barrier(self) -> None:
        if self._watched and self.current_watermark != MAX_WATERMARK:
            self._combined.end_epoch(self.context.time.steady)
            self.advance(*self._combined.take())

    def next_timer(self) -> int | None:
        """Request an epoch when the stream becomes idle, because downstream operators may wait for its watermark."""
        timeout = self._strategy.idleness_ms
        if timeout is None or not self._watched or self.current_watermark == MAX_WATERMARK:
            return None
        idle_at = self._split.idle_at(timeout)
        time = self.context.time
        return None if idle_at is None else time.processing_time + max(1, idle_at - time.steady)

    def end_epoch(self) -> None:
        state = self._combined.state_of("")
        if self._table.get("generator") != state:
            self._table["generator"] = state
