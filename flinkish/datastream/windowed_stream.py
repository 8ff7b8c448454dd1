"""Windowed streams: the results of `window()` and `window_all()`, to which a function for the windows is applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, Self, cast, overload

from flinkish.common.arguments import check, instance_of
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.pickling import check_serializable
from flinkish.common.time import AmountOfTime, milliseconds_of
from flinkish.common.typeinfo import TypeInformation, type_of
from flinkish.common.types import Row
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
    WindowFunctions,
)
from flinkish.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkish.program.operators import WindowConfig
from flinkish.udf.aggregates import Aggregate, AggregatedAllWindow, AggregatedWindow, FieldAggregates
from flinkish.udf.evictors import Evictor
from flinkish.udf.function_wrappers import check_function, check_kind, describe
from flinkish.udf.function_wrappers import reduce_function as as_reduce_function
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
from flinkish.udf.window.assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner, GlobalWindows

__all__ = ["AllWindowedStream", "WindowedStream"]

Assigner = WindowAssigner[Any, Any]


class Windows(Generic[T_co, K_co]):
    """The windows of a stream, and their settings."""

    _description: ClassVar[str] = "Window"

    def __init__(self, keyed_stream: KeyedStream[T_co, K_co], window_assigner: Assigner, method: str = "window") -> None:
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
        """Set when windows fire, in place of the assigner's default trigger.

        Example:

            >>> numbers = env.from_collection([1, 2, 3, 4]).key_by(lambda number: number % 2)
            >>> windows = numbers.window(GlobalWindows.create()).trigger(CountTrigger.of(2))
            >>> windows.reduce(lambda one, other: one + other).execute_and_collect(limit=9)
            [4, 6]
        """
        instance_of("trigger()", trigger, Trigger)
        check_serializable(trigger, f"the trigger {type(trigger).__name__}")
        self._window_trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int | AmountOfTime) -> Self:
        """Set how long (int: ms) a window is kept after its end for late records; each of them fires it again.

        Only for event-time windows; 0 by default. A record is late when the watermark has reached the last timestamp of its
        window plus this time.

        Example:

            >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record)
            >>> times = env.from_collection([1000, 2000, 7000]).assign_timestamps_and_watermarks(by_time)
            >>> windows = times.window_all(TumblingEventTimeWindows.of(Time.seconds(5))).allowed_lateness(Time.minutes(1))
            >>> windows.reduce(lambda one, other: one + other).execute_and_collect(limit=9)
            [3000, 7000]
        """
        self._allowed_lateness = milliseconds_of(time_ms, "the time of allowed_lateness()", or_number=True, minimum=0)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send late records to a side output; read it by `get_side_output` of the stream of results.

        Without it they are dropped and counted in the metric `numLateRecordsDropped`.

        Differs from Flink: if nobody reads the side output, late records are dropped; PyFlink puts them into the main output.

        Example:

            >>> late = OutputTag("late", Types.LONG())
            >>> windows = env.from_collection([1, 2]).window_all(TumblingProcessingTimeWindows.of(Time.seconds(5)))
            >>> results = windows.side_output_late_data(late).reduce(lambda one, other: one + other)
            >>> results.get_side_output(late).get_type()
            Long
        """
        self._late_data_output_tag = instance_of("side_output_late_data()", output_tag, OutputTag)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Set the evictor that removes records from windows when they fire; as in Flink's Java API.

        Windows then keep all their records, also for reduce and aggregate.

        Example:

            >>> from flinkish.datastream.evictors import CountEvictor
            >>> numbers = env.from_collection([1, 2, 3, 4]).key_by(lambda number: number % 2)
            >>> windows = numbers.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).evictor(CountEvictor.of(1))
            >>> windows.reduce(lambda one, other: one + other).execute_and_collect(limit=9)
            [3, 4]
        """
        instance_of("evictor()", evictor, Evictor)
        check_serializable(evictor, f"the evictor {type(evictor).__name__}")
        self._evictor = evictor
        return self

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
        if described is not function and not isinstance(function, (PassThroughWindowFunction, PassThroughAllWindowFunction)):
            names.append(type(function).__name__)
        description = f"{self._description}({assigner!r}, {type(trigger).__name__}, {', '.join(names)})"
        return self._keyed_stream._one_input(type(assigner).__name__, config, output_type).set_description(description)


class _Windowed(Windows[T_co, K_co]):
    """Base class of the windows of keyed streams and of whole streams, which take other kinds of window functions."""

    _apply_kind: ClassVar[type[Function]]
    _process_kind: ClassVar[type[Function]]
    _pass_through: ClassVar[type[Function]]

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
        window_function: WindowFunctions[T_co, K_co, U],
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]: ...

    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | Reduces[T_co],
        window_function: WindowFunctions[T_co, K_co, U] | None = None,
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
        function = as_reduce_function(reduce_function, "reduce")
        check_function(reduce_function, "reduce")
        input_type = self.get_input_type()
        result_type = input_type if window_function is None and output_type is None else type_of(output_type, "reduce")
        results = self._function(window_function, "reduce")
        return self._window(results, result_type, reduce_function, fold=function, fold_type=input_type)

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
        window_function: WindowFunctions[Any, K_co, U],
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: None = None,
        window_function: None = None,
        accumulator_type: None = None,
        output_type: None = None,
        **aggregates: Aggregate,
    ) -> DataStream[Row]: ...

    def aggregate(
        self,
        aggregate_function: Aggregates[T_co, Any] | None = None,
        window_function: WindowFunctions[Any, K_co, U] | None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
        **aggregates: Aggregate,
    ) -> DataStream[Any]:
        """Aggregate each window's records in the order of arrival; emit the result, or the results of a window function.

        Instead of a function, take named aggregates of fields from flinkish.datastream.aggregates: the result is a row of them.
        The records must have a declared type then.

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
        if aggregates:
            return self._fields(aggregates, aggregate_function, window_function, accumulator_type, output_type)
        check_kind(aggregate_function, AggregateFunction, "aggregate")
        return self._window(
            self._function(window_function, "aggregate"),
            type_of(output_type, "aggregate"),
            aggregate_function,
            fold=aggregate_function,
            fold_type=type_of(accumulator_type, "aggregate", "accumulator_type"),
        )

    def _fields(self, aggregates: dict[str, Aggregate], *others: object) -> DataStream[Row]:
        if any(other is not None for other in others):
            raise InvalidArgumentError(
                "aggregate() takes either a function, with its types, or named aggregates of fields; got both.",
                hint="call it twice, each time on a window() of its own.",
            )
        fold = FieldAggregates(aggregates, self.get_input_type(), self._keyed_stream._key_type)
        timed = not isinstance(self._window_assigner, (GlobalWindows, CountTumblingWindowAssigner, CountSlidingWindowAssigner))
        check(timed or not fold.uses_window, "window_start() and window_end() are for windows of time; these are not.")
        shown = AggregatedAllWindow(fold) if self._process_kind is ProcessAllWindowFunction else AggregatedWindow(fold)
        return self._window(shown, fold.output_type, fold, fold=fold, fold_type=fold.accumulator_type)

    def apply(
        self,
        window_function: AppliesToWindows[T_co, K_co, U] | AppliesToAllWindows[T_co, U],
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]:
        """Call a WindowFunction (AllWindowFunction without keys) with all records of each window, and emit its results.

        Example:

            >>> class Collect(WindowFunction):
            ...     def apply(self, key, window, inputs):
            ...         yield key, list(inputs)
            >>> numbers = env.from_collection([1, 2, 3, 4]).key_by(lambda number: number % 2)
            >>> windows = numbers.count_window(2)
            >>> windows.apply(Collect()).execute_and_collect(limit=9)
            [(1, [1, 3]), (0, [2, 4])]
        """
        check_kind(window_function, self._apply_kind, "apply", hint=f"a {self._process_kind.__name__} goes to process().")
        return self._window(cast(Function, window_function), type_of(output_type, "apply"), window_function)

    def process(
        self,
        process_window_function: ProcessesWindows[T_co, K_co, U] | ProcessesAllWindows[T_co, U],
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]:
        """Call a ProcessWindowFunction (ProcessAllWindowFunction without keys) with all records of each window.

        Example:

            >>> class Collect(ProcessWindowFunction):
            ...     def process(self, key, context, elements):
            ...         yield key, list(elements)
            >>> numbers = env.from_collection([1, 2, 3, 4]).key_by(lambda number: number % 2)
            >>> windows = numbers.count_window(2)
            >>> windows.process(Collect()).execute_and_collect(limit=9)
            [(1, [1, 3]), (0, [2, 4])]
        """
        hint = f"apply() is for a function of type {self._apply_kind.__name__}."
        check_kind(process_window_function, self._process_kind, "process", hint=hint)
        return self._window(cast(Function, process_window_function), type_of(output_type, "process"), process_window_function)

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


class WindowedStream(_Windowed[T_co, K_co]):
    """The records of each key, grouped into windows.

    Example:

        >>> pairs = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))
        >>> windows = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.seconds(5)))
        >>> windows.reduce(lambda a, b: (a[0], a[1] + b[1])).get_name()
        'TumblingEventTimeWindows'
    """

    _apply_kind = WindowFunction
    _process_kind = ProcessWindowFunction
    _pass_through = PassThroughWindowFunction


class AllWindowedStream(_Windowed[T_co, Any], Generic[T_co]):
    """The records of a whole stream, grouped into windows; one subtask does all the work.

    Example:

        >>> class Collect(AllWindowFunction):
        ...     def apply(self, window, inputs):
        ...         yield list(inputs)
        >>> class Total(ProcessAllWindowFunction):
        ...     def process(self, context, elements):
        ...         yield sum(elements)
        >>> windows = env.from_collection([1, 2, 3, 4]).window_all(CountTumblingWindowAssigner(2))
        >>> windows.apply(Collect()).execute_and_collect(limit=9)
        [[1, 2], [3, 4]]
        >>> windows.process(Total()).execute_and_collect(limit=9)
        [3, 7]
        >>> windows.reduce(lambda one, other: one + other, Collect()).execute_and_collect(limit=9)
        [[3], [7]]
    """

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
