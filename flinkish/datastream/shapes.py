"""Type variables and protocols of functions, by which type checkers derive the types of streams.

`DataStream[T]` is a stream of records of type T; `DataStream` alone is a stream of any records. Type checkers derive the type of
an operator's results from the annotations of the function's methods, so subclasses of MapFunction and so on need no type
parameters. Nothing in this module has an effect at run time.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    # Type checkers support this import without the package, and with it the defaults of PEP 696.
    from typing_extensions import TypeVar

    from flinkish.udf.functions import KeyedProcessFunction, ProcessFunction, ProcessJoinFunction
    from flinkish.udf.output_tag import OutputTag

    #: Types of the records of a stream, of the records of a second stream, and of the keys of a keyed stream.
    T_co = TypeVar("T_co", covariant=True, default=Any)
    T2_co = TypeVar("T2_co", covariant=True, default=Any)
    K_co = TypeVar("K_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)
    T2_co = TypeVar("T2_co", covariant=True)
    K_co = TypeVar("K_co", covariant=True)

#: Types of the records of another stream given to a method, and of an operator's results.
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
K = TypeVar("K")
TupleT = TypeVar("TupleT", bound=tuple[Any, ...])

_In = TypeVar("_In", contravariant=True)
_In2 = TypeVar("_In2", contravariant=True)
_Key = TypeVar("_Key", contravariant=True)
_Out = TypeVar("_Out", covariant=True)

if TYPE_CHECKING:
    #: The results of process functions: records, and pairs for side outputs, which are no records of the stream.
    Emitted: TypeAlias = Iterable[_Out | tuple[OutputTag, Any]] | None


class DataFrame(Protocol):
    """A pandas DataFrame, which iterates over its columns, not its rows."""

    @property
    def itertuples(self) -> Any:
        """The method that iterates over its rows."""


class Maps(Protocol[_In, _Out]):  # a MapFunction
    def map(self, value: _In, /) -> _Out: ...


class FlatMaps(Protocol[_In, _Out]):  # a FlatMapFunction
    def flat_map(self, value: _In, /) -> Iterable[_Out]: ...


class Expression(Protocol):
    """An expression of pyarrow.compute, which has no types for a type checker."""

    def is_valid(self) -> Any: ...


class Filters(Protocol[_In]):  # a FilterFunction
    def filter(self, value: _In, /) -> bool: ...


class SelectsKeys(Protocol[_In, _Out]):  # a KeySelector
    def get_key(self, value: _In, /) -> _Out: ...


class Reduces(Protocol[U]):  # a ReduceFunction
    def reduce(self, value1: U, value2: U, /) -> U: ...


class Aggregates(Protocol[_In, _Out]):  # an AggregateFunction, whatever its accumulator is
    def add(self, value: _In, accumulator: Any, /) -> Any: ...

    def get_result(self, accumulator: Any, /) -> _Out: ...


class Processes(Protocol[_In, _Out]):  # a ProcessFunction
    def process_element(self, value: _In, ctx: ProcessFunction.Context, /) -> Emitted[_Out]: ...


class KeyedProcesses(Protocol[_In, _Out]):  # a KeyedProcessFunction
    def process_element(self, value: _In, ctx: KeyedProcessFunction.Context, /) -> Emitted[_Out]: ...


class CoMaps(Protocol[_In, _In2, _Out]):  # a CoMapFunction
    def map1(self, value: _In, /) -> _Out | None: ...

    def map2(self, value: _In2, /) -> _Out | None: ...


class CoFlatMaps(Protocol[_In, _In2, _Out]):  # a CoFlatMapFunction
    def flat_map1(self, value: _In, /) -> Iterable[_Out] | None: ...

    def flat_map2(self, value: _In2, /) -> Iterable[_Out] | None: ...


class CoProcesses(Protocol[_In, _In2, _Out]):  # a CoProcessFunction or KeyedCoProcessFunction
    def process_element1(self, value: _In, ctx: Any, /) -> Emitted[_Out]: ...

    def process_element2(self, value: _In2, ctx: Any, /) -> Emitted[_Out]: ...


class BroadcastProcesses(Protocol[_In, _In2, _Out]):  # a BroadcastProcessFunction or KeyedBroadcastProcessFunction
    def process_element(self, value: _In, ctx: Any, /) -> Emitted[_Out]: ...

    def process_broadcast_element(self, value: _In2, ctx: Any, /) -> Emitted[_Out]: ...


class Joins(Protocol[_In, _In2, _Out]):  # a ProcessJoinFunction
    def process_element(self, left: _In, right: _In2, ctx: ProcessJoinFunction.Context, /) -> Emitted[_Out]: ...


class Invokes(Protocol[_In, _Out]):  # an AsyncFunction
    def async_invoke(self, value: _In, /) -> Coroutine[Any, Any, Iterable[_Out]]: ...


class AppliesToWindows(Protocol[_In, _Key, _Out]):  # a WindowFunction
    def apply(self, key: _Key, window: Any, inputs: Iterable[_In], /) -> Iterable[_Out]: ...


class ProcessesWindows(Protocol[_In, _Key, _Out]):  # a ProcessWindowFunction
    def process(self, key: _Key, context: Any, elements: Iterable[_In], /) -> Emitted[_Out]: ...


class AppliesToAllWindows(Protocol[_In, _Out]):  # an AllWindowFunction
    def apply(self, window: Any, inputs: Iterable[_In], /) -> Iterable[_Out]: ...


class ProcessesAllWindows(Protocol[_In, _Out]):  # a ProcessAllWindowFunction
    def process(self, context: Any, elements: Iterable[_In], /) -> Emitted[_Out]: ...


#: What `reduce` and `aggregate` of windows may be given; without keys it must be one of the last two.
WindowFunctions: TypeAlias = (
    AppliesToWindows[U, K, V] | ProcessesWindows[U, K, V] | AppliesToAllWindows[U, V] | ProcessesAllWindows[U, V]
)
