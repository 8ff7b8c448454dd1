"""Streams by key: their operators have state and timers for each key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, cast, overload

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import INTERNAL
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.time import AmountOfTime
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import Row
from flinkish.datastream._support import refused
from flinkish.datastream.aggregations import Aggregation, aggregating_function
from flinkish.datastream.arguments import check_function, check_kind, type_of
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.function_wrappers import function_behind, reduce_function
from flinkish.datastream.functions import (
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from flinkish.datastream.output_tag import OutputTag
from flinkish.datastream.shapes import K, K_co, KeyedProcesses, Reduces, SelectsKeys, T_co, U
from flinkish.datastream.slot_sharing_group import SlotSharingGroup
from flinkish.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from flinkish.program import operators
from flinkish.program.transformations import OneInputTransformation, TransformationId

if TYPE_CHECKING:
    from typing import Self

    from flinkish.datastream.closeable_iterator import CloseableIterator
    from flinkish.datastream.interval_join import IntervalJoin
    from flinkish.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkish.datastream.window import WindowAssigner
    from flinkish.datastream.windowed_stream import WindowedStream

__all__ = ["KeyedStream"]

_NO_PARTITIONING = "A KeyedStream has a partitioning that must not be changed: that by its key."


def _not_on_keyed(what: str) -> str:
    return f"{what} of a KeyedStream cannot be set: key_by() runs no operator."


_ON_RESULT = "call it on the stream before key_by(), or on the result of the operator after it."


class KeyedStream(DataStream[T_co], Generic[T_co, K_co]):
    """A stream whose records with the same key go to the same subtask; its operators have state and timers for each key.

    Functions get the records themselves; `get_type()` is that of a row of key and record, as PyFlink shows it, and so are the
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
        """Return the type of a row of key and record."""
        return Types.ROW_NAMED(["f0", "f1"], [self._key_type, self._record_type])

    def _key_fields(self) -> dict[str, Any]:
        return {"key_selector": self._key_selector, "key_type": self._key_type}

    def process(  # type: ignore[override]  # as in PyFlink: another kind of function than without keys
        self, func: KeyedProcesses[T_co, U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Handle each record with a KeyedProcessFunction, which has state and timers of the record's key."""
        check_kind(func, KeyedProcessFunction, "process", hint="on a KeyedStream it is a KeyedProcessFunction.")
        return self._one_input(
            "KEYED PROCESS",
            operators.KeyedProcessConfig(function=cast(KeyedProcessFunction, func)),
            type_of(output_type, "process"),
        )

    def reduce(self, func: Callable[[T_co, T_co], T_co] | Reduces[T_co]) -> DataStream[T_co]:
        """Combine the records of each key, and emit the current value with each record; in BATCH mode only the last value."""
        function = reduce_function(func, "reduce")
        check_function(func, "reduce")
        return self._one_input("Reduce", operators.ReduceConfig(function=function), self._record_type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T_co]:
        """Add up a field (position, or name in rows) of each key's records; the other fields are those of the first."""
        return self._aggregate(Aggregation.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream[T_co]:
        """Keep the least value of a field of each key's records; the other fields are those of the first."""
        return self._aggregate(Aggregation.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream[T_co]:
        """Keep the greatest value of a field of each key's records; the other fields are those of the first."""
        return self._aggregate(Aggregation.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T_co]:
        """Keep each key's record with the least value of a field; among equals the first."""
        return self._aggregate(Aggregation.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T_co]:
        """Keep each key's record with the greatest value of a field; among equals the first."""
        return self._aggregate(Aggregation.MAX_BY, position_to_max_by)

    def _aggregate(self, aggregation: Aggregation, position: int | str) -> DataStream:
        function = aggregating_function(aggregation, position, self._record_type)
        return self._one_input("Reduce", operators.ReduceConfig(function=function), self._record_type)

    def interval_join(self, other_stream: KeyedStream[U, Any]) -> IntervalJoin[T_co, U]:
        """Join the records of this stream with those of another one that have the same key and are close in event time."""
        from flinkish.datastream.interval_join import IntervalJoin

        self._check_other(other_stream, "interval_join")
        if not isinstance(other_stream, KeyedStream):
            raise InvalidArgumentError(
                "interval_join() needs a KeyedStream; got a stream without keys.", hint="call key_by() on it."
            )
        return IntervalJoin(self, other_stream)

    def key_by(
        self, key_selector: Callable[[T_co], K] | SelectsKeys[T_co, K], key_type: TypeInformation[K] | None = None
    ) -> KeyedStream[T_co, K]:
        """Key the original stream by another selector; keys do not nest."""
        return self._origin.key_by(key_selector, key_type)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream[T_co, K_co]:
        """Group the records of each key into windows."""
        from flinkish.datastream.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T_co, K_co]:
        """Group the records of each key into windows of `size` records; with `slide`, a new window begins every `slide` records.

        Only full windows fire.
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
        rows = self._environment._builder.add(
            OneInputTransformation,
            name="Map",
            output_type=self.get_type(),
            # One subtask, chained to the sink: keeps the order of the records.
            parallelism=1,
            input=self._id,
            operator=operators.MapConfig(function=_KeyAndRecord(self._key_selector)),
        )
        DataStream(self._environment, rows)._collected()

    @refused(_NO_PARTITIONING)
    def shuffle(self) -> DataStream[T_co]: ...  # type: ignore[empty-body]

    @refused(_NO_PARTITIONING)
    def rebalance(self) -> DataStream[T_co]: ...  # type: ignore[empty-body]

    @refused(_NO_PARTITIONING)
    def rescale(self) -> DataStream[T_co]: ...  # type: ignore[empty-body]

    @refused(_NO_PARTITIONING)
    def forward(self) -> DataStream[T_co]: ...  # type: ignore[empty-body]

    @refused(_NO_PARTITIONING)
    def broadcast(self, *args: Any) -> Any: ...

    @refused(_NO_PARTITIONING)
    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream[T_co]: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The name"), see=_ON_RESULT)
    def name(self, name: str) -> Self: ...  # type: ignore[empty-body]

    @refused("A KeyedStream has no name: key_by() runs no operator.", see=_ON_RESULT)
    def get_name(self) -> str: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The uid"), see=_ON_RESULT)
    def uid(self, uid: str) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The uid hash"), see=_ON_RESULT)
    def set_uid_hash(self, uid_hash: str) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The description"), see=_ON_RESULT)
    def set_description(self, description: str) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The parallelism"), see=_ON_RESULT)
    def set_parallelism(self, parallelism: int) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The max parallelism"), see=_ON_RESULT)
    def set_max_parallelism(self, max_parallelism: int) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The parallelism"), see=_ON_RESULT)
    def force_non_parallel(self) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The buffer timeout"), see=_ON_RESULT)
    def set_buffer_timeout(self, timeout_millis: int | AmountOfTime) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The chaining"), see=_ON_RESULT)
    def start_new_chain(self) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The chaining"), see=_ON_RESULT)
    def disable_chaining(self) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_keyed("The slot sharing group"), see=_ON_RESULT)
    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self: ...  # type: ignore[empty-body]

    @refused("A KeyedStream has no side outputs: key_by() runs no operator.", see=_ON_RESULT)
    def get_side_output(self, output_tag: OutputTag) -> DataStream[Any]: ...  # type: ignore[empty-body]

    @refused("A KeyedStream cannot be cached.")
    def cache(self) -> Any: ...


class _KeyAndRecord(MapFunction):
    def __init__(self, key_selector: Callable[[Any], Any]) -> None:
        self._key_selector = key_selector

    def open(self, runtime_context: RuntimeContext) -> None:
        function = function_behind(self._key_selector)
        if function is not None:
            function.open(runtime_context)

    def close(self) -> None:
        function = function_behind(self._key_selector)
        if function is not None:
            function.close()

    def map(self, value: Any) -> Row:
        return Row(f0=self._key_selector(value), f1=value)
