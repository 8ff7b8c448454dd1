"""Joins and co-groups of two streams within windows; Flink's DataStream.join and coGroup of the Java API.

As in Flink, both streams are merged to one stream of tagged records, which is keyed and windowed. A trigger, an evictor or an
assigner that reads records, and a side output of late ones, get Rows: (0, record of the first stream, None) or
(1, None, record of the second).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.records import check_results
from flinkish.common.typeinfo import RowTypeInfo, TypeInformation, Types, type_of
from flinkish.common.types import Row
from flinkish.datastream.data_stream import DataStream, Opens
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.windowed_stream import Windows
from flinkish.udf.function_wrappers import check_function, describe, function_behind
from flinkish.udf.function_wrappers import key_selector as as_key_selector
from flinkish.udf.functions import Function, KeySelector, MapFunction, WindowFunction
from flinkish.udf.window import WindowAssigner

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


#: Combines the records of two streams in a window by calls of the user's function.
_Combination = Callable[[Callable[..., Any], list[Any], list[Any]], Iterable[Any]]


def _join(call: Callable[..., Any], first: list[Any], second: list[Any]) -> Iterable[Any]:
    return (call(one, other) for one in first for other in second)


def _flat_join(call: Callable[..., Any], first: list[Any], second: list[Any]) -> Iterable[Any]:
    for one in first:
        for other in second:
            results = call(one, other)
            if results.__class__ is not list:
                check_results(results, "the FlatJoinFunction must return an iterable of results")
            yield from results


def _co_group(call: Callable[..., Any], first: list[Any], second: list[Any]) -> Iterable[Any]:
    results: Iterable[Any] = call(first, second)
    if results.__class__ is tuple:
        check_results(results, "the CoGroupFunction must return an iterable of results")
    return results


class _TwoStreams(Generic[FunctionT]):
    """Two streams to combine; continue with `where`, `equal_to` and `window`."""

    _method: ClassVar[str]
    #: The kinds of functions, the method of each, and how its results are combined. A plain callable is one of the last kind.
    _kinds: ClassVar[Sequence[tuple[type[Function], str, _Combination]]]

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first = first
        self._second = second

    def where(
        self, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> _Where[FunctionT]:
        """Set the key of the first stream; `key_type` is the type of the keys of both streams."""
        selector = as_key_selector(key_selector, "where")
        return _Where(self, selector, type_of(key_type, "where", "key_type"))

    def _combine(self, function: Any) -> _Combine:
        for kind, method, combination in self._kinds:
            if isinstance(function, kind):
                return _Combine(combination, getattr(function, method), function)
        if isinstance(function, (Function, type)) or not callable(function):
            kinds = ", ".join(f"a {kind.__name__}" for kind, *_ in self._kinds)
            raise InvalidArgumentError(f"apply() needs {kinds} or a callable; got {describe(function)}.")
        return _Combine(combination, function)


@dataclass(frozen=True)
class _Where(Generic[FunctionT]):
    """Two streams, with the key of the first."""

    _streams: _TwoStreams[FunctionT]
    _first_selector: Selector
    _key_type: TypeInformation

    def equal_to(self, key_selector: Callable[[Any], Any] | KeySelector) -> _EqualTo[FunctionT]:
        """Set the key of the second stream."""
        selector = as_key_selector(key_selector, "equal_to")
        return _EqualTo(self._streams, _TaggedKey(self._first_selector, selector), self._key_type)


@dataclass(frozen=True)
class _EqualTo(Generic[FunctionT]):
    """Two streams with their keys."""

    _streams: _TwoStreams[FunctionT]
    _selector: _TaggedKey
    _key_type: TypeInformation

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WithWindow[FunctionT]:
        """Set the windows in which records are combined."""
        first, second = self._streams._first, self._streams._second
        record = Types.ROW([Types.INT(), first._record_type, second._record_type])
        tagged = _tagged(first, 0, record).union(_tagged(second, 1, record)).key_by(self._selector, self._key_type)
        return WithWindow(self._streams, tagged, window_assigner)


class WithWindow(Windows[Any, Any], Generic[FunctionT]):
    """Two streams with keys and windows; `apply` combines them."""

    def __init__(self, streams: _TwoStreams[FunctionT], tagged: KeyedStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(tagged, window_assigner)
        self._streams = streams

    def apply(self, function: FunctionT | Callable[..., Any], output_type: TypeInformation | None = None) -> DataStream:
        """Emit the results of a function for each key and window; `output_type` is their type (None = they are pickled)."""
        combine = self._streams._combine(function)
        check_function(function, "apply")
        return self._window(combine, type_of(output_type, "apply"), combine).name(self._streams._method)


class JoinedStreams(_TwoStreams[JoinFunction | FlatJoinFunction]):
    """Two streams whose records are paired by key and window; made by `DataStream.join`.

    Records without a partner are dropped. A plain callable is used as a JoinFunction, which returns one record for each pair.

    Example:

        >>> orders = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))
        >>> payments = env.from_collection([("a", 2)], Types.TUPLE([Types.STRING(), Types.LONG()]))
        >>> joined = orders.join(payments).where(lambda order: order[0]).equal_to(lambda payment: payment[0])
        >>> windows = joined.window(TumblingEventTimeWindows.of(Time.seconds(5)))
        >>> windows.apply(lambda order, payment: (order, payment)).get_name()
        'Join'
    """

    _method = "Join"
    _kinds = ((FlatJoinFunction, "join", _flat_join), (JoinFunction, "join", _join))


class CoGroupedStreams(_TwoStreams[CoGroupFunction]):
    """Two streams whose records are grouped by key and window; made by `DataStream.co_group`.

    The function also gets records without a partner, so it can implement outer joins. A plain callable is used as a
    CoGroupFunction.
    """

    _method = "CoGroup"
    _kinds = ((CoGroupFunction, "co_group", _co_group),)


class _TaggedKey(Opens, KeySelector):
    def __init__(self, first: Selector, second: Selector) -> None:
        self._opened = function_behind(first), function_behind(second)
        self._selectors = first, second

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


class _Combine(Opens, WindowFunction[Any, Any, Any, Any]):
    """Separates the tagged records of a window by stream, and combines both lists by calls of the user's function."""

    def __init__(self, combination: _Combination, call: Callable[..., Any], function: Function | None = None) -> None:
        self._opened = (function,)
        self._call = call
        self._combination = combination

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        sides: tuple[list[Any], list[Any]] = ([], [])
        for tagged in inputs:
            tag = tagged[_TAG]
            sides[tag].append(tagged[1 + tag])
        return self._combination(self._call, *sides)
