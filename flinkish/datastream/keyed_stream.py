"""Streams by key: their operators have state and timers for each key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, overload

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import INTERNAL
from flinkish.common.arguments import check, int_of
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.kinds import kind_of
from flinkish.common.time import Duration, Time, milliseconds_of
from flinkish.common.typeinfo import RowTypeInfo, TypeInformation, Types, type_of
from flinkish.common.types import Row
from flinkish.datastream.data_stream import DataStream, Opens
from flinkish.datastream.shapes import K, K_co, KeyedProcesses, Reduces, SelectsKeys, T_co, U
from flinkish.program import operators
from flinkish.program.transformations import Partitioner, TransformationId
from flinkish.udf.aggregates import ORDERED, Aggregate, FieldAggregates
from flinkish.udf.deduplication import FirstOfKey
from flinkish.udf.function_wrappers import check_function, check_kind, function_behind, reduce_function
from flinkish.udf.functions import KeyedProcessFunction, MapFunction
from flinkish.udf.rolling import Aggregation, aggregating_function
from flinkish.udf.top_n import TopN
from flinkish.udf.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner

if TYPE_CHECKING:
    from flinkish.datastream.closeable_iterator import CloseableIterator
    from flinkish.datastream.interval_join import IntervalJoin
    from flinkish.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkish.datastream.windowed_stream import WindowedStream
    from flinkish.udf.window import WindowAssigner

__all__ = ["KeyedStream"]


class KeyedStream(DataStream[T_co], Generic[T_co, K_co]):
    """A stream whose records with the same key go to the same subtask; its operators have state and timers for each key.

    Functions get the records themselves. `get_type()` is the type of a row of key and record, as in PyFlink, and so are the
    records of `execute_and_collect`.

    Differs from Flink: `print` honours its identifier, `sink_to` writes the records without their keys, and
    `execute_and_collect` shows a key without type as it is, not as pickled bytes.
    """

    AccumulateType = AbsentMember(INTERNAL)

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        transformation_id: TransformationId,
        origin: DataStream,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation,
    ) -> None:
        super().__init__(environment, transformation_id)
        self._origin = origin
        self._key_selector = key_selector
        self._key_type = key_type

    def get_type(self) -> TypeInformation:
        """Return the type of a row of key and record.

        Example:

            >>> env.from_collection(["a"], Types.STRING()).key_by(len, Types.INT()).get_type()
            RowTypeInfo(f0: Integer, f1: String)
        """
        return Types.ROW_NAMED(["f0", "f1"], [self._key_type, self._record_type])

    def _key_fields(self) -> dict[str, Any]:
        return {"key_selector": self._key_selector, "key_type": self._key_type}

    def process(  # type: ignore[override]  # as in PyFlink: another kind of function than without keys
        self, func: KeyedProcesses[T_co, U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Handle each record with a KeyedProcessFunction, which has state and timers of the record's key.

        Example:

            >>> class Count(KeyedProcessFunction):
            ...     def open(self, runtime_context):
            ...         self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
            ...     def process_element(self, value, ctx):
            ...         self.count.update((self.count.value() or 0) + 1)
            ...         yield ctx.get_current_key(), self.count.value()
            >>> env.from_collection(["a", "b", "a"]).key_by(lambda word: word).process(Count()).execute_and_collect(limit=9)
            [('a', 1), ('b', 1), ('a', 2)]
        """
        check_kind(func, KeyedProcessFunction, "process", hint="on a KeyedStream it is a KeyedProcessFunction.")
        return self._one_input(
            "KEYED PROCESS",
            operators.KeyedProcessConfig(function=cast(KeyedProcessFunction, func)),
            type_of(output_type, "process"),
        )

    def reduce(self, func: Callable[[T_co, T_co], T_co] | Reduces[T_co]) -> DataStream[T_co]:
        """Combine the records of each key, and emit the current value with each record; in BATCH mode only the last value.

        Example:

            >>> words = env.from_collection(["an", "apple", "bee"])
            >>> words.key_by(lambda word: word[0]).reduce(lambda one, other: one + other).execute_and_collect(limit=9)
            ['an', 'anapple', 'bee']
        """
        function = reduce_function(func, "reduce")
        check_function(func, "reduce")
        return self._one_input("Reduce", operators.ReduceConfig(function=function), self._record_type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T_co]:
        """Add up a field (position, or name in rows) of each key's records; the other fields are those of the first.

        Example:

            >>> records = env.from_collection([("a", 2, "x"), ("a", 1, "y"), ("a", 3, "z")])
            >>> records.key_by(lambda record: record[0]).sum(1).execute_and_collect(limit=9)
            [('a', 2, 'x'), ('a', 3, 'x'), ('a', 6, 'x')]
        """
        return self._aggregate(Aggregation.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream[T_co]:
        """Keep the least value of a field of each key's records; the other fields are those of the first.

        Example:

            >>> records = env.from_collection([("a", 2, "x"), ("a", 1, "y"), ("a", 3, "z")])
            >>> records.key_by(lambda record: record[0]).min(1).execute_and_collect(limit=9)
            [('a', 2, 'x'), ('a', 1, 'x'), ('a', 1, 'x')]
        """
        return self._aggregate(Aggregation.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream[T_co]:
        """Keep the greatest value of a field of each key's records; the other fields are those of the first.

        Example:

            >>> records = env.from_collection([("a", 2, "x"), ("a", 1, "y"), ("a", 3, "z")])
            >>> records.key_by(lambda record: record[0]).max(1).execute_and_collect(limit=9)
            [('a', 2, 'x'), ('a', 2, 'x'), ('a', 3, 'x')]
        """
        return self._aggregate(Aggregation.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T_co]:
        """Keep each key's record with the least value of a field; among equals the first.

        Example:

            >>> records = env.from_collection([("a", 2, "x"), ("a", 1, "y"), ("a", 3, "z")])
            >>> records.key_by(lambda record: record[0]).min_by(1).execute_and_collect(limit=9)
            [('a', 2, 'x'), ('a', 1, 'y'), ('a', 1, 'y')]
        """
        return self._aggregate(Aggregation.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T_co]:
        """Keep each key's record with the greatest value of a field; among equals the first.

        Example:

            >>> records = env.from_collection([("a", 2, "x"), ("a", 1, "y"), ("a", 3, "z")])
            >>> records.key_by(lambda record: record[0]).max_by(1).execute_and_collect(limit=9)
            [('a', 2, 'x'), ('a', 2, 'x'), ('a', 3, 'z')]
        """
        return self._aggregate(Aggregation.MAX_BY, position_to_max_by)

    def aggregate(self, *, per: Literal["record", "epoch"] = "record", **aggregates: Aggregate) -> DataStream[Row]:
        """Keep aggregates of each key's records, and emit a row of their current values.

        There is a result for each record or, with `per="epoch"`, one for each key that had records in an epoch (a micro-batch),
        with the event time of the last of them; how records fall into epochs is not defined. In BATCH mode only the last values
        are emitted. The records must have a declared type. See flinkish.datastream.aggregates for what can be computed.

        Example:

            >>> from flinkish.datastream import aggregates
            >>> sales = env.from_collection([("a", 2), ("b", 1), ("a", 3)], Types.TUPLE([Types.STRING(), Types.LONG()]))
            >>> sales.key_by(0).aggregate(name=aggregates.key(), total=aggregates.sum(1)).execute_and_collect(limit=9)
            [Row(name='a', total=2), Row(name='b', total=1), Row(name='a', total=5)]
        """
        check(per in ("record", "epoch"), f"per must be 'record' or 'epoch'; got {per!r}.")
        function = FieldAggregates(aggregates, self._record_type, self._key_type)
        check(not function.uses_window, "window_start() and window_end() are for windows; call window() before aggregate().")
        config = operators.AggregateConfig(function=function, per_epoch=per == "epoch")
        return self._one_input("Aggregate", config, function.output_type)

    def _aggregate(self, aggregation: Aggregation, position: int | str) -> DataStream:
        function = aggregating_function(aggregation, position, self._record_type)
        return self._one_input("Reduce", operators.ReduceConfig(function=function), self._record_type)

    def deduplicate(self, ttl: Time | Duration | None = None) -> DataStream[T_co]:
        """Keep the first record of each key, in the order of arrival; drop the others.

        The keys are state for ever or, with `ttl`, until that much processing time has passed since the first record; then the
        next record counts as the first one again. PyFlink has no such method. It works on columns, except with `ttl`.

        Example:

            >>> orders = env.from_collection([("a", 1), ("b", 2), ("a", 3)], Types.TUPLE([Types.STRING(), Types.LONG()]))
            >>> orders.key_by(0).deduplicate().execute_and_collect(limit=9)
            [('a', 1), ('b', 2)]
        """
        millis = None if ttl is None else milliseconds_of(ttl, "the ttl of deduplicate()", minimum=1)
        config = operators.DeduplicateConfig(function=FirstOfKey(millis))
        return self._one_input("Deduplicate", config, self._record_type)

    def top_n(self, n: int, field: str, *, ascending: bool = False) -> DataStream[Row]:
        """Keep the `n` records of each key with the greatest values of a field or, with `ascending`, with the least.

        The results are changes, as those of Flink SQL's `ROW_NUMBER() OVER (PARTITION BY key ORDER BY field) <= n` without the
        number itself. A record that becomes one of the `n` is emitted; before it the record that it displaces, of kind DELETE.
        Both have the event time of the new record. In BATCH mode only the records in the end are emitted, in order. Among equals,
        the earlier record comes first. None is less than all other values, NaN is greater than all.

        Records must be rows of a declared type, all of kind INSERT; others fail the job. The `n` records are state for ever. They
        are read and written together, so `n` should be small. PyFlink has no such method. It works on columns, but its results
        are records; operators on columns refuse those of kind DELETE.

        Raises InvalidArgumentError if `n` is less than 1, and InvalidProgramError if there is no such field or its values have no
        order.

        Example:

            >>> row_type = Types.ROW_NAMED(["item", "price"], [Types.STRING(), Types.LONG()])
            >>> bids = env.from_collection([Row("car", 5), Row("car", 7), Row("car", 6)], row_type)
            >>> [(str(bid.get_row_kind()), bid.price) for bid in bids.key_by("item").top_n(1, "price").execute_and_collect()]
            [('+I', 5), ('-D', 5), ('+I', 7)]
        """
        int_of("the n of top_n()", n, minimum=1)
        record_type = self._record_type
        check(
            isinstance(record_type, RowTypeInfo),
            f"top_n() needs records that are rows, because its results have kinds; these are {record_type!r}.",
            hint="map() them to rows, and give the type of the rows as output_type.",
        )
        assert isinstance(record_type, RowTypeInfo)
        names = record_type.get_field_names()
        known = isinstance(field, str) and field in names
        check(known, f"top_n(): there is no field {field!r}; the records have {names}.")
        field_type = record_type.field_types[names.index(field)]
        check(kind_of(field_type) in ORDERED, f"top_n(): values of the field {field!r}, of type {field_type!r}, have no order.")
        config = operators.TopNConfig(function=TopN(n, field, record_type, ascending=ascending))
        return self._one_input("Top N", config, record_type)

    def interval_join(self, other_stream: KeyedStream[U, Any]) -> IntervalJoin[T_co, U]:
        """Join the records of this stream with those of another one that have the same key and are close in event time.

        Example:

            >>> class Pair(ProcessJoinFunction):
            ...     def process_element(self, left, right, ctx):
            ...         yield left[1], right[1]
            >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
            >>> orders = env.from_collection([("a", 1000)]).assign_timestamps_and_watermarks(by_time)
            >>> payments = env.from_collection([("a", 2000)]).assign_timestamps_and_watermarks(by_time)
            >>> keyed = orders.key_by(lambda order: order[0]), payments.key_by(lambda payment: payment[0])
            >>> joined = keyed[0].interval_join(keyed[1]).between(Time.seconds(0), Time.seconds(5))
            >>> joined.process(Pair()).execute_and_collect(limit=9)
            [(1000, 2000)]
        """
        from flinkish.datastream.interval_join import IntervalJoin

        self._check_other(other_stream, "interval_join")
        if not isinstance(other_stream, KeyedStream):
            raise InvalidArgumentError(
                "interval_join() needs a KeyedStream; got a stream without keys.", hint="call key_by() on it."
            )
        return IntervalJoin(self, other_stream)

    def key_by(
        self,
        key_selector: Callable[[T_co], K] | SelectsKeys[T_co, K] | int | str | Sequence[int | str],
        key_type: TypeInformation[K] | None = None,
    ) -> KeyedStream[T_co, K]:
        """Key the original stream by another selector; keys do not nest.

        Example:

            >>> words = env.from_collection(["an", "at"]).key_by(len).key_by(lambda word: word[1])
            >>> words.reduce(lambda one, other: one + other).execute_and_collect(limit=9)
            ['an', 'at']
        """
        return self._origin.key_by(key_selector, key_type)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream[T_co, K_co]:
        """Group the records of each key into windows.

        Example:

            >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
            >>> events = env.from_collection([("a", 1000), ("a", 2000), ("a", 7000)]).assign_timestamps_and_watermarks(by_time)
            >>> windows = events.key_by(lambda event: event[0]).window(TumblingEventTimeWindows.of(Time.seconds(5)))
            >>> windows.reduce(lambda one, other: (one[0], one[1] + other[1])).execute_and_collect(limit=9)
            [('a', 3000), ('a', 7000)]
        """
        from flinkish.datastream.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T_co, K_co]:
        """Group the records of each key into windows of `size` records; with `slide`, a new window begins every `slide` records.

        Only full windows fire.

        Example:

            >>> numbers = env.from_collection([1, 2, 3, 4, 5]).key_by(lambda number: number % 2)
            >>> numbers.count_window(2).reduce(lambda one, other: one + other).execute_and_collect(limit=9)
            [4, 6]
        """
        from flinkish.datastream.windowed_stream import WindowedStream

        if slide == 0:
            return WindowedStream(self, CountTumblingWindowAssigner(size))
        return WindowedStream(self, CountSlidingWindowAssigner(size, slide))

    if TYPE_CHECKING:
        # The records are rows of key and record.
        @overload  # type: ignore[override]
        def execute_and_collect(self, job_execution_name: str | None = None, limit: None = None) -> CloseableIterator[Row]: ...

        @overload
        def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Row]: ...

        @overload
        def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Row]: ...

        def execute_and_collect(
            self, job_execution_name: str | None = None, limit: int | None = None
        ) -> CloseableIterator[Row] | list[Row]: ...

    def _collected(self) -> None:
        to_row = operators.MapConfig(function=_KeyAndRecord(self._key_selector))
        rows = self._one_input("Map", to_row, self.get_type(), keyed=False)
        # One subtask, chained to the sink: keeps the order of the records.
        rows.set_parallelism(1)._collected()

    def broadcast(self, *args: Any) -> Any:
        """Refuse, like all methods that would change the partitioning."""
        return super().broadcast(*args)

    def _partition(self, partitioner: Partitioner, name: str) -> DataStream:
        raise InvalidProgramError(
            f"{name} cannot change the partitioning of a KeyedStream: the key decides which subtask gets a record.",
            hint="call it on the stream before key_by().",
        )


class _KeyAndRecord(Opens, MapFunction):
    def __init__(self, key_selector: Callable[[Any], Any]) -> None:
        self._opened = (function_behind(key_selector),)
        self._key_selector = key_selector

    def map(self, value: Any) -> Row:
        return Row(f0=self._key_selector(value), f1=value)
