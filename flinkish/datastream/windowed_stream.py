"""Windowed streams: the results of `window()` and `window_all()`, to which a function for the windows is applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, overload

from flinkish.common.arguments import instance_of
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.pickling import check_serializable
from flinkish.common.time import AmountOfTime, milliseconds_of
from flinkish.common.typeinfo import TypeInformation, type_of
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.shapes import (
    Aggregates,
    AppliesToAllWindows,
    AppliesToWindows,
    K_co,
    ProcessesAllWindows,
    ProcessesWindows,
    Reduces,
    T_co,
    U,
)
from flinkish.program.operators import WindowConfig
from flinkish.udf.evictors import Evictor
from flinkish.udf.function_wrappers import check_function, check_kind, describe, reduce_function
from flinkish.udf.functions import (
    AggregateFunction,
    AllWindowFunction,
    Function,
    NullByteKeySelector,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkish.udf.output_tag import OutputTag
from flinkish.udf.window import MergingWindowAssigner, Trigger, WindowAssigner

if TYPE_CHECKING:
    from typing import Self

    from flinkish.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["AllWindowedStream", "WindowedStream"]

Assigner = WindowAssigner[Any, Any]
FunctionT = TypeVar("FunctionT", bound=Function)


class _Windowed:
    """Base class of the windows of keyed streams and of whole streams."""

    _apply_kind: ClassVar[type[Function]]
    _process_kind: ClassVar[type[Function]]
    _pass_through: ClassVar[type[Function]]
    _description: ClassVar[str]

    def __init__(self, keyed_stream: KeyedStream, window_assigner: Assigner, method: str) -> None:
        instance_of(
            f"{method}()", window_assigner, WindowAssigner, hint="for example TumblingEventTimeWindows.of(Time.seconds(5))."
        )
        check_serializable(window_assigner, f"the window assigner {type(window_assigner).__name__} of {method}()")
        self._keyed_stream = keyed_stream
        self._window_assigner = window_assigner
        self._allowed_lateness = 0
        self._late_data_output_tag: OutputTag | None = None
        self._window_trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor[Any, Any] | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that this stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Return the type of the records that are put into windows."""
        return self._keyed_stream._record_type

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set when windows fire, in place of the assigner's default trigger."""
        instance_of("trigger()", trigger, Trigger)
        check_serializable(trigger, f"the trigger {type(trigger).__name__}")
        self._window_trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int | AmountOfTime) -> Self:
        """Set how long (int: ms) a window is kept after its end for late records; each of them fires it again.

        Only for event-time windows; 0 by default. A record is late when the watermark has reached the last timestamp of its
        window plus this time.
        """
        lateness = milliseconds_of(time_ms, "time_ms", rule="must be an int (milliseconds)", or_number=True)
        if lateness < 0:
            raise InvalidProgramError(f"allowed_lateness() must not be negative; got {lateness} ms.")
        self._allowed_lateness = lateness
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send late records to a side output; read it by `get_side_output` of the stream of results.

        Without it they are dropped and counted in the metric `numLateRecordsDropped`.

        Differs from Flink: if nobody reads the side output, late records are dropped; PyFlink puts them into the main output.
        """
        self._late_data_output_tag = instance_of("side_output_late_data()", output_tag, OutputTag)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Set the evictor that removes records from windows when they fire; as in Flink's Java API.

        Windows then keep all their records, also for reduce and aggregate.
        """
        instance_of("evictor()", evictor, Evictor)
        check_serializable(evictor, f"the evictor {type(evictor).__name__}")
        self._evictor = evictor
        return self

    def _reduce(self, function: object, window_function: object, output_type: TypeInformation | None) -> DataStream:
        reduce = reduce_function(function, "reduce")
        check_function(function, "reduce")
        input_type = self.get_input_type()
        result_type = input_type if window_function is None and output_type is None else type_of(output_type, "reduce")
        return self._window(self._function(window_function, "reduce"), result_type, function, fold=reduce, fold_type=input_type)

    def _aggregate(
        self,
        function: object,
        window_function: object,
        accumulator_type: TypeInformation | None,
        output_type: TypeInformation | None,
    ) -> DataStream:
        check_kind(function, AggregateFunction, "aggregate")
        return self._window(
            self._function(window_function, "aggregate"),
            type_of(output_type, "aggregate"),
            function,
            fold=function,
            fold_type=type_of(accumulator_type, "aggregate", "accumulator_type"),
        )

    def _function(self, function: object, method: str) -> Function:
        if function is None:
            return self._pass_through()
        if not isinstance(function, (self._apply_kind, self._process_kind)):
            raise InvalidArgumentError(
                f"window_function of {method}() must be a {self._apply_kind.__name__} or {self._process_kind.__name__}; "
                f"got {describe(function)}."
            )
        check_function(function, method, "window_function")
        return function

    def _window(self, function: Function, output_type: TypeInformation, described: object, **fold: Any) -> DataStream:
        trigger = self._window_trigger
        assigner = self._window_assigner
        if trigger is None:
            trigger = assigner.get_default_trigger(self.get_execution_environment())
        config = WindowConfig(
            assigner=assigner,
            trigger=trigger,
            function=function,
            input_type=self.get_input_type(),
            evictor=self._evictor,
            allowed_lateness=self._allowed_lateness,
            late_data_tag=self._late_data_output_tag,
            **fold,
        )
        names = [type(described).__name__]
        if described is not function and not isinstance(function, self._pass_through):
            names.append(type(function).__name__)
        description = f"{self._description}({assigner!r}, {type(trigger).__name__}, {', '.join(names)})"
        return self._keyed_stream._one_input(type(assigner).__name__, config, output_type).set_description(description)


class WindowedStream(_Windowed, Generic[T_co, K_co]):
    """The records of each key, grouped into windows.

    Example:

        >>> from flinkish.common import Time, Types
        >>> from flinkish.datastream import StreamExecutionEnvironment
        >>> from flinkish.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> pairs = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))
        >>> windows = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.seconds(5)))
        >>> windows.reduce(lambda a, b: (a[0], a[1] + b[1])).get_name()
        'TumblingEventTimeWindows'
    """

    _apply_kind = WindowFunction
    _process_kind = ProcessWindowFunction
    _pass_through = PassThroughWindowFunction
    _description = "Window"

    def __init__(self, keyed_stream: KeyedStream[T_co, K_co], window_assigner: Assigner) -> None:
        super().__init__(keyed_stream, window_assigner, "window")

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | Reduces[T_co],
        window_function: None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[T_co]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | Reduces[T_co],
        window_function: AppliesToWindows[T_co, K_co, U] | ProcessesWindows[T_co, K_co, U],
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]: ...

    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | Reduces[T_co],
        window_function: AppliesToWindows[T_co, K_co, U] | ProcessesWindows[T_co, K_co, U] | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Combine each window's records in the order of arrival; emit the result, or the results of a window function.

        With `execution.windows.share-panes` the function must be associative and commutative: sliding windows then share panes.

        Example:

            >>> numbers = env.from_collection([1, 2, 3, 4]).key_by(lambda number: number % 2)
            >>> windows = numbers.count_window(2)
            >>> windows.reduce(lambda one, other: one + other).execute_and_collect(limit=9)
            [4, 6]
        """
        return self._reduce(reduce_function, window_function, output_type)

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T_co, U],
        window_function: None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T_co, Any],
        window_function: AppliesToWindows[Any, K_co, U] | ProcessesWindows[Any, K_co, U],
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]: ...

    def aggregate(
        self,
        aggregate_function: Aggregates[T_co, Any],
        window_function: AppliesToWindows[Any, K_co, U] | ProcessesWindows[Any, K_co, U] | None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Aggregate each window's records in the order of arrival; emit the result, or the results of a window function.

        Session windows need `merge`. So do sliding windows with `execution.windows.share-panes`, which then share panes.

        Example:

            >>> class Average(AggregateFunction):
            ...     def create_accumulator(self):
            ...         return 0, 0
            ...     def add(self, value, accumulator):
            ...         return accumulator[0] + value, accumulator[1] + 1
            ...     def get_result(self, accumulator):
            ...         return accumulator[0] / accumulator[1]
            ...     def merge(self, one, other):
            ...         return one[0] + other[0], one[1] + other[1]
            >>> numbers = env.from_collection([1, 2, 3, 4]).key_by(lambda number: number % 2)
            >>> windows = numbers.count_window(2)
            >>> windows.aggregate(Average(), output_type=Types.DOUBLE()).execute_and_collect(limit=9)
            [2.0, 3.0]
        """
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(
        self, window_function: AppliesToWindows[T_co, K_co, U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Call a WindowFunction with all records of each window, and emit its results.

        Example:

            >>> class Collect(WindowFunction):
            ...     def apply(self, key, window, inputs):
            ...         yield key, list(inputs)
            >>> numbers = env.from_collection([1, 2, 3, 4]).key_by(lambda number: number % 2)
            >>> windows = numbers.count_window(2)
            >>> windows.apply(Collect()).execute_and_collect(limit=9)
            [(1, [1, 3]), (0, [2, 4])]
        """
        check_kind(window_function, WindowFunction, "apply", hint="a ProcessWindowFunction goes to process().")
        return self._window(cast(Function, window_function), type_of(output_type, "apply"), window_function)

    def process(
        self, process_window_function: ProcessesWindows[T_co, K_co, U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Call a ProcessWindowFunction with all records of each window, and emit its results.

        Example:

            >>> class Collect(ProcessWindowFunction):
            ...     def process(self, key, context, elements):
            ...         yield key, list(elements)
            >>> numbers = env.from_collection([1, 2, 3, 4]).key_by(lambda number: number % 2)
            >>> windows = numbers.count_window(2)
            >>> windows.process(Collect()).execute_and_collect(limit=9)
            [(1, [1, 3]), (0, [2, 4])]
        """
        check_kind(process_window_function, ProcessWindowFunction, "process", hint="a WindowFunction goes to apply().")
        return self._window(cast(Function, process_window_function), type_of(output_type, "process"), process_window_function)


class AllWindowedStream(_Windowed, Generic[T_co]):
    """The records of a whole stream, grouped into windows; one subtask does all the work."""

    _apply_kind = AllWindowFunction
    _process_kind = ProcessAllWindowFunction
    _pass_through = PassThroughAllWindowFunction
    _description = "AllWindow"

    def __init__(self, data_stream: DataStream[T_co], window_assigner: Assigner) -> None:
        super().__init__(data_stream.key_by(NullByteKeySelector()), window_assigner, "window_all")

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set when windows fire; a merging assigner needs a trigger that can merge."""
        if isinstance(self._window_assigner, MergingWindowAssigner) and isinstance(trigger, Trigger) and not trigger.can_merge():
            raise InvalidArgumentError(
                f"{self._window_assigner!r} merges windows and cannot be used with a {type(trigger).__name__}, which does not "
                "support merging.",
                hint="implement can_merge and on_merge.",
            )
        return super().trigger(trigger)

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | Reduces[T_co],
        window_function: None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[T_co]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | Reduces[T_co],
        window_function: AppliesToAllWindows[T_co, U] | ProcessesAllWindows[T_co, U],
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]: ...

    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | Reduces[T_co],
        window_function: AppliesToAllWindows[T_co, U] | ProcessesAllWindows[T_co, U] | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Combine each window's records in the order of arrival; emit the result, or the results of a window function.

        With `execution.windows.share-panes` the function must be associative and commutative: sliding windows then share panes.

        Example:

            >>> windows = env.from_collection([1, 2, 3, 4]).window_all(CountTumblingWindowAssigner(2))
            >>> windows.reduce(lambda one, other: one + other).execute_and_collect(limit=9)
            [3, 7]
        """
        return self._reduce(reduce_function, window_function, output_type)

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T_co, U],
        window_function: None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T_co, Any],
        window_function: AppliesToAllWindows[Any, U] | ProcessesAllWindows[Any, U],
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]: ...

    def aggregate(
        self,
        aggregate_function: Aggregates[T_co, Any],
        window_function: AppliesToAllWindows[Any, U] | ProcessesAllWindows[Any, U] | None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Aggregate each window's records in the order of arrival; emit the result, or the results of a window function.

        Example:

            >>> class Average(AggregateFunction):
            ...     def create_accumulator(self):
            ...         return 0, 0
            ...     def add(self, value, accumulator):
            ...         return accumulator[0] + value, accumulator[1] + 1
            ...     def get_result(self, accumulator):
            ...         return accumulator[0] / accumulator[1]
            ...     def merge(self, one, other):
            ...         return one[0] + other[0], one[1] + other[1]
            >>> windows = env.from_collection([1, 2, 3, 4]).window_all(CountTumblingWindowAssigner(2))
            >>> windows.aggregate(Average(), output_type=Types.DOUBLE()).execute_and_collect(limit=9)
            [1.5, 3.5]
        """
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(self, window_function: AppliesToAllWindows[T_co, U], output_type: TypeInformation | None = None) -> DataStream[U]:
        """Call an AllWindowFunction with all records of each window, and emit its results.

        Example:

            >>> class Collect(AllWindowFunction):
            ...     def apply(self, window, inputs):
            ...         yield list(inputs)
            >>> windows = env.from_collection([1, 2, 3, 4]).window_all(CountTumblingWindowAssigner(2))
            >>> windows.apply(Collect()).execute_and_collect(limit=9)
            [[1, 2], [3, 4]]
        """
        check_kind(window_function, AllWindowFunction, "apply", hint="a ProcessAllWindowFunction goes to process().")
        return self._window(cast(Function, window_function), type_of(output_type, "apply"), window_function)

    def process(
        self, process_window_function: ProcessesAllWindows[T_co, U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Call a ProcessAllWindowFunction with all records of each window, and emit its results.

        Example:

            >>> class Collect(ProcessAllWindowFunction):
            ...     def process(self, context, elements):
            ...         yield list(elements)
            >>> windows = env.from_collection([1, 2, 3, 4]).window_all(CountTumblingWindowAssigner(2))
            >>> windows.process(Collect()).execute_and_collect(limit=9)
            [[1, 2], [3, 4]]
        """
        check_kind(process_window_function, ProcessAllWindowFunction, "process", hint="an AllWindowFunction goes to apply().")
        return self._window(cast(Function, process_window_function), type_of(output_type, "process"), process_window_function)
