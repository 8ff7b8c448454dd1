"""Joins and co-groups of two streams within windows; Flink's DataStream.join and coGroup of the Java API.

As in Flink, both streams are merged to one stream of tagged records, which is keyed and windowed. A trigger, an evictor or an
assigner that reads records gets a Row: (0, record of the first stream, None) or (1, None, record of the second).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.records import check_results
from flinkish.common.time import AmountOfTime
from flinkish.common.typeinfo import RowTypeInfo, TypeInformation, Types, type_of
from flinkish.common.types import Row
from flinkish.datastream.data_stream import DataStream
from flinkish.udf.function_wrappers import check_function, describe, function_behind
from flinkish.udf.function_wrappers import key_selector as as_key_selector
from flinkish.udf.functions import Function, KeySelector, MapFunction, RuntimeContext, WindowFunction

if TYPE_CHECKING:
    from typing import Self

    from flinkish.udf.evictors import Evictor
    from flinkish.udf.output_tag import OutputTag
    from flinkish.udf.window import Trigger, WindowAssigner

__all__ = ["CoGroupFunction", "CoGroupedStreams", "FlatJoinFunction", "JoinFunction", "JoinedStreams", "WithWindow"]

Selector = Callable[[Any], Any]
FunctionT = TypeVar("FunctionT")

#: Tags of the two streams; the record itself is the field at 1 + its tag.
_TAG = 0


class JoinFunction(Function):
    """Joins a pair of records into one record."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Return the record to emit for a pair."""


class FlatJoinFunction(Function):
    """Joins a pair of records into any number of records."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any]:
        """Return, or yield, the records to emit for a pair."""


class CoGroupFunction(Function):
    """Combines the records of two streams with the same key in the same window."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        """Return, or yield, the records to emit; `first` or `second` may be empty."""


class _TwoStreams(Generic[FunctionT]):
    """Two streams to combine; continue with `where`, `equal_to` and `window`."""

    _method: str

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first = first
        self._second = second

    def where(
        self, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> _Where[FunctionT]:
        """Set the key of the first stream; `key_type` is the type of the keys of both streams."""
        selector = as_key_selector(key_selector, "where")
        check_function(key_selector, "where", "key_selector")
        return _Where(self, selector, type_of(key_type, "where", "key_type"))

    def _apply(self, function: Any) -> _PairFunction:
        raise NotImplementedError


class _Where(Generic[FunctionT]):
    """Two streams, with the key of the first."""

    def __init__(self, streams: _TwoStreams[FunctionT], first_selector: Selector, key_type: TypeInformation) -> None:
        self._streams = streams
        self._first_selector = first_selector
        self._key_type = key_type

    def equal_to(self, key_selector: Callable[[Any], Any] | KeySelector) -> _EqualTo[FunctionT]:
        """Set the key of the second stream."""
        selector = as_key_selector(key_selector, "equal_to")
        check_function(key_selector, "equal_to", "key_selector")
        return _EqualTo(self._streams, _TaggedKey(self._first_selector, selector), self._key_type)


class _EqualTo(Generic[FunctionT]):
    """Two streams with their keys."""

    def __init__(self, streams: _TwoStreams[FunctionT], selector: _TaggedKey, key_type: TypeInformation) -> None:
        self._streams = streams
        self._selector = selector
        self._key_type = key_type

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WithWindow[FunctionT]:
        """Set the windows in which records are combined."""
        first, second = self._streams._first, self._streams._second
        record = Types.ROW([Types.INT(), first._record_type, second._record_type])
        tagged = _tagged(first, 0, record).union(_tagged(second, 1, record)).key_by(self._selector, self._key_type)
        return WithWindow(self._streams, tagged.window(window_assigner))


class WithWindow(Generic[FunctionT]):
    """Two streams with keys and windows; `apply` combines them."""

    def __init__(self, streams: _TwoStreams[FunctionT], windows: Any) -> None:
        self._streams = streams
        self._windows = windows

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set when windows fire, in place of the assigner's default trigger."""
        self._windows.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Set the evictor, which removes records from windows when they fire."""
        self._windows.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int | AmountOfTime) -> Self:
        """Set how long (int: ms) a window is kept after its end for late records; each of them fires it again."""
        self._windows.allowed_lateness(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send late records to a side output, as tagged rows; see the description of this module."""
        self._windows.side_output_late_data(output_tag)
        return self

    def apply(self, function: FunctionT | Callable[..., Any], output_type: TypeInformation | None = None) -> DataStream:
        """Emit the results of a function for each key and window; `output_type` is their type (None = they are pickled)."""
        applied = self._streams._apply(function)
        check_function(function, "apply")
        result: DataStream = self._windows.apply(applied, output_type)
        return result.name(self._streams._method)


class JoinedStreams(_TwoStreams[JoinFunction | FlatJoinFunction]):
    """Two streams whose records are paired by key and window; made by `DataStream.join`.

    Records without a partner are dropped. A plain callable is used as a JoinFunction, which returns one record for each pair.

    Example:

        >>> from flinkish.common import Time, Types
        >>> from flinkish.datastream import StreamExecutionEnvironment
        >>> from flinkish.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))
        >>> payments = env.from_collection([("a", 2)], Types.TUPLE([Types.STRING(), Types.LONG()]))
        >>> joined = orders.join(payments).where(lambda order: order[0]).equal_to(lambda payment: payment[0])
        >>> windows = joined.window(TumblingEventTimeWindows.of(Time.seconds(5)))
        >>> windows.apply(lambda order, payment: (order, payment)).get_name()
        'Join'
    """

    _method = "Join"

    def _apply(self, function: Any) -> _PairFunction:
        if isinstance(function, FlatJoinFunction):
            return _FlatJoin(function, function.join)
        if isinstance(function, JoinFunction):
            return _Join(function, function.join)
        return _Join(None, _plain_function(function, "a JoinFunction, a FlatJoinFunction"))


class CoGroupedStreams(_TwoStreams[CoGroupFunction]):
    """Two streams whose records are grouped by key and window; made by `DataStream.co_group`.

    The function also gets records without a partner, so it can implement outer joins. A plain callable is used as a
    CoGroupFunction.
    """

    _method = "CoGroup"

    def _apply(self, function: Any) -> _PairFunction:
        if isinstance(function, CoGroupFunction):
            return _CoGroup(function, function.co_group)
        return _CoGroup(None, _plain_function(function, "a CoGroupFunction"))


class _TaggedKey(KeySelector):
    def __init__(self, first: Selector, second: Selector) -> None:
        self._selectors = first, second

    def open(self, runtime_context: RuntimeContext) -> None:
        for selector in self._selectors:
            function = function_behind(selector)
            if function is not None:
                function.open(runtime_context)

    def close(self) -> None:
        for selector in self._selectors:
            function = function_behind(selector)
            if function is not None:
                function.close()

    def get_key(self, value: Any) -> Any:
        tag = value[_TAG]
        return self._selectors[tag](value[1 + tag])


class _Tag(MapFunction):
    def __init__(self, tag: int) -> None:
        self._tag = tag

    def map(self, value: Any) -> Any:
        return Row(0, value, None) if self._tag == 0 else Row(1, None, value)


def _tagged(stream: DataStream, tag: int, record: RowTypeInfo) -> DataStream:
    tagged = stream.map(_Tag(tag), record).name(f"Tag {tag + 1}")
    # As in Flink, tagging leaves the records of the stream in their order.
    stream._environment._builder.replace(tagged._id, beside_input=True)
    return tagged


class _PairFunction(WindowFunction[Any, Any, Any, Any]):
    """Separates the tagged records of a window by stream; `function` is opened and closed, and `call` is called."""

    def __init__(self, function: Function | None, call: Callable[..., Any]) -> None:
        self._function = function
        self._call = call

    def open(self, runtime_context: RuntimeContext) -> None:
        if self._function is not None:
            self._function.open(runtime_context)

    def close(self) -> None:
        if self._function is not None:
            self._function.close()

    @staticmethod
    def _split(inputs: Iterable[Any]) -> tuple[list[Any], list[Any]]:
        sides: tuple[list[Any], list[Any]] = ([], [])
        for tagged in inputs:
            tag = tagged[_TAG]
            sides[tag].append(tagged[1 + tag])
        return sides


class _Join(_PairFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        first, second = self._split(inputs)
        call = self._call
        return (call(one, other) for one in first for other in second)


class _FlatJoin(_PairFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        first, second = self._split(inputs)
        call = self._call

        def results(one: Any, other: Any) -> Iterable[Any]:
            found: Iterable[Any] = call(one, other)
            if found.__class__ is not list:
                check_results(found, "the FlatJoinFunction must return an iterable of results")
            return found

        return (result for one in first for other in second for result in results(one, other))


class _CoGroup(_PairFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        results: Iterable[Any] = self._call(*self._split(inputs))
        if results.__class__ is tuple:
            check_results(results, "the CoGroupFunction must return an iterable of results")
        return results


def _plain_function(function: Any, kinds: str) -> Callable[..., Any]:
    if isinstance(function, (Function, type)) or not callable(function):
        raise InvalidArgumentError(f"apply() needs {kinds} or a callable; got {describe(function)}.")
    result: Callable[..., Any] = function
    return result
