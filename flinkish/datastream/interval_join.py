"""Joins of keyed streams within an interval of event time; Flink's KeyedStream.intervalJoin of the Java API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, cast

from flinkish.common.arguments import check, instance_of
from flinkish.common.errors import UnsupportedError
from flinkish.common.time import AmountOfTime, milliseconds_of
from flinkish.common.typeinfo import TypeInformation, type_of
from flinkish.datastream.connected_streams import ConnectedStreams
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.shapes import Joins, T2_co, T_co, U
from flinkish.program.operators import IntervalJoinConfig
from flinkish.udf.function_wrappers import check_kind
from flinkish.udf.functions import ProcessJoinFunction
from flinkish.udf.output_tag import OutputTag

__all__ = ["IntervalJoin", "IntervalJoined"]


@dataclass(frozen=True)
class IntervalJoin(Generic[T_co, T2_co]):
    """Two keyed streams to join; `between` sets the interval."""

    _left: KeyedStream[T_co, Any]
    _right: KeyedStream[T2_co, Any]

    def in_event_time(self) -> IntervalJoin[T_co, T2_co]:
        """Join by event time; this is the default."""
        return self

    def in_processing_time(self) -> IntervalJoin[T_co, T2_co]:
        """Raise UnsupportedError: as in Flink, interval joins use event time only."""
        raise UnsupportedError(
            "an interval join in processing time is not supported: its intervals are of event time, as in Flink.",
            hint="connect() the streams and keep the records to join in the state of a KeyedCoProcessFunction.",
        )

    def between(self, lower_bound: AmountOfTime, upper_bound: AmountOfTime) -> IntervalJoined[T_co, T2_co]:
        """Set the interval around a left record's timestamp in which right records are joined with it.

        A pair is joined if left + lower_bound <= right <= left + upper_bound. Both bounds may be negative; they are inclusive
        unless they are made exclusive. Raises InvalidArgumentError unless they are Times, Durations or timedeltas, and
        InvalidProgramError if the lower bound is above the upper bound.
        """
        hint = "for example Time.seconds(5), or Time.milliseconds(-100)."
        lower = milliseconds_of(lower_bound, "lower_bound of between()", hint=hint)
        upper = milliseconds_of(upper_bound, "upper_bound of between()", hint=hint)
        check(
            lower <= upper,
            f"lower_bound of between() must not be above upper_bound; got {lower} ms and {upper} ms.",
            hint="the bounds are relative to the left record: between(Time.minutes(-5), Time.minutes(0)) looks back.",
        )
        return IntervalJoined(self._left, self._right, lower, upper)


@dataclass
class IntervalJoined(Generic[T_co, T2_co]):
    """Two keyed streams to join within an interval; `process` makes the join.

    Example:

        >>> from flinkish.common import Duration, Time, Types
        >>> from flinkish.datastream import OutputTag, StreamExecutionEnvironment
        >>> from flinkish.datastream.functions import ProcessJoinFunction
        >>> class Pair(ProcessJoinFunction):
        ...     def process_element(self, left, right, ctx):
        ...         yield left, right
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders = env.from_collection([("a", 1)]).key_by(lambda order: order[0], Types.STRING())
        >>> payments = env.from_collection([("a", 2)]).key_by(lambda payment: payment[0], Types.STRING())
        >>> joined = orders.interval_join(payments).in_event_time().between(Time.minutes(0), Time.minutes(5))
        >>> late = OutputTag("late orders"), OutputTag("late payments")
        >>> joined = joined.side_output_left_late_data(late[0]).side_output_right_late_data(late[1])
        >>> pairs = joined.lower_bound_exclusive().upper_bound_exclusive().process(Pair())
        >>> late_orders = pairs.get_side_output(late[0])
        >>> pairs.get_name()
        'Interval Join'
    """

    _left: KeyedStream[T_co, Any]
    _right: KeyedStream[T2_co, Any]
    _lower: int
    _upper: int
    _lower_exclusive: bool = False
    _upper_exclusive: bool = False
    _left_late: OutputTag | None = None
    _right_late: OutputTag | None = None

    def lower_bound_exclusive(self) -> IntervalJoined[T_co, T2_co]:
        """Leave out pairs that are exactly the lower bound apart."""
        self._lower_exclusive = True
        return self

    def upper_bound_exclusive(self) -> IntervalJoined[T_co, T2_co]:
        """Leave out pairs that are exactly the upper bound apart."""
        self._upper_exclusive = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined[T_co, T2_co]:
        """Emit late records of the left stream to a side output; without it they are dropped."""
        self._left_late = instance_of("side_output_left_late_data()", output_tag, OutputTag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined[T_co, T2_co]:
        """Emit late records of the right stream to a side output; without it they are dropped."""
        self._right_late = instance_of("side_output_right_late_data()", output_tag, OutputTag)
        return self

    def process(self, process_join_function: Joins[T_co, T2_co, U], output_type: TypeInformation | None = None) -> DataStream[U]:
        """Process each pair with a ProcessJoinFunction; results have the later of the two timestamps.

        `output_type` is the type of the results; None = they are pickled.
        """
        check_kind(process_join_function, ProcessJoinFunction, "process")
        config = IntervalJoinConfig(
            function=cast(ProcessJoinFunction, process_join_function),
            lower_bound=self._lower + self._lower_exclusive,
            upper_bound=self._upper - self._upper_exclusive,
            left_late=self._left_late,
            right_late=self._right_late,
        )
        connected = ConnectedStreams(self._left, self._right)
        return connected._two_input("Interval Join", config, type_of(output_type, "process"))
