"""Two streams that one operator reads; every subtask reads all records of a broadcast stream, which fill state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, cast

from flinkish.common.arguments import check, instance_of
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.pickling import check_serializable
from flinkish.common.typeinfo import TypeInformation, type_of
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.shapes import BroadcastProcesses, CoFlatMaps, CoMaps, CoProcesses, K, SelectsKeys, T2_co, T_co, U
from flinkish.program import operators
from flinkish.program.transformations import TwoInputTransformation
from flinkish.udf.function_wrappers import check_function, check_kind, describe
from flinkish.udf.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from flinkish.udf.state import MapStateDescriptor

__all__ = ["BroadcastConnectedStream", "BroadcastStream", "ConnectedStreams"]


class ConnectedStreams(Generic[T_co, T2_co]):
    """Two streams that one operator reads; with state and timers for each key if both are keyed.

    The records of the two come in no particular order.
    """

    def __init__(self, stream1: DataStream[T_co], stream2: DataStream[T2_co]) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: Callable[[T_co], K] | SelectsKeys[T_co, K],
        key_selector2: Callable[[T2_co], K] | SelectsKeys[T2_co, K],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[T_co, T2_co]:
        """Key both streams: records with the same key, of either stream, reach the same subtask.

        Example:

            >>> class Greet(KeyedCoProcessFunction):
            ...     def open(self, runtime_context):
            ...         self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
            ...     def process_element1(self, value, ctx):
            ...         self.name.update(value[1])
            ...     def process_element2(self, value, ctx):
            ...         yield f"Hello {self.name.value()}"
            >>> names, visits = env.from_collection([(1, "Ada")]), env.from_collection([(1,)])
            >>> keyed = names.connect(visits).key_by(lambda name: name[0], lambda visit: visit[0], Types.INT())
            >>> keyed.process(Greet(), Types.STRING()).execute_and_collect(limit=9)
            ['Hello Ada']
        """
        return ConnectedStreams(self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type))

    def map(self, func: CoMaps[T_co, T2_co, U], output_type: TypeInformation | None = None) -> DataStream[U]:
        """Make at most one record of each; None emits nothing.

        Example:

            >>> class Name(CoMapFunction):
            ...     def map1(self, value):
            ...         return f"number {value}"
            ...     def map2(self, value):
            ...         return None
            >>> env.from_collection([1]).connect(env.from_collection(["a"])).map(Name()).execute_and_collect(limit=9)
            ['number 1']
        """
        check_kind(func, CoMapFunction, "map")
        return self._two_input("Co-Map", operators.CoMapConfig(function=cast(CoMapFunction, func)), type_of(output_type, "map"))

    def flat_map(self, func: CoFlatMaps[T_co, T2_co, U], output_type: TypeInformation | None = None) -> DataStream[U]:
        """Make none, one or many records of each.

        Example:

            >>> class Split(CoFlatMapFunction):
            ...     def flat_map1(self, value):
            ...         yield from range(value)
            ...     def flat_map2(self, value):
            ...         yield from value
            >>> env.from_collection([2]).connect(env.from_collection(["ab"])).flat_map(Split()).execute_and_collect(limit=9)
            [0, 1, 'a', 'b']
        """
        check_kind(func, CoFlatMapFunction, "flat_map")
        return self._two_input(
            "Co-Flat Map", operators.CoFlatMapConfig(function=cast(CoFlatMapFunction, func)), type_of(output_type, "flat_map")
        )

    def process(self, func: CoProcesses[T_co, T2_co, U], output_type: TypeInformation | None = None) -> DataStream[U]:
        """Handle each record with a CoProcessFunction, or a KeyedCoProcessFunction if both streams are keyed.

        Example:

            >>> class Tag(CoProcessFunction):
            ...     def process_element1(self, value, ctx):
            ...         yield "left", value
            ...     def process_element2(self, value, ctx):
            ...         yield "right", value
            >>> env.from_collection([1]).connect(env.from_collection([2])).process(Tag()).execute_and_collect(limit=9)
            [('left', 1), ('right', 2)]
        """
        result_type = type_of(output_type, "process")
        if isinstance(func, KeyedCoProcessFunction):
            if not self._is_keyed_stream():
                raise InvalidArgumentError(
                    f"process() with the KeyedCoProcessFunction {describe(func)} needs both streams keyed.",
                    hint="call key_by(selector1, selector2) on the connected streams first.",
                )
            check_function(func, "process")
            return self._two_input("Keyed Co-Process", operators.KeyedCoProcessConfig(function=func), result_type)
        check_kind(func, CoProcessFunction, "process", hint="or a KeyedCoProcessFunction if both streams are keyed.")
        name = "Keyed Co-Process" if self._is_keyed_stream() else "Co-Process"
        return self._two_input(name, operators.CoProcessConfig(function=cast(CoProcessFunction, func)), result_type)

    def _is_keyed_stream(self) -> bool:
        return isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream)

    def _two_input(self, name: str, operator: operators.OperatorConfig, output_type: TypeInformation) -> DataStream:
        fields: dict[str, Any] = {}
        first, second = self.stream1, self.stream2
        if isinstance(first, KeyedStream) and isinstance(second, KeyedStream):
            check(
                first._key_type == second._key_type,
                f"the keys of connected streams must be of one type; got {first._key_type!r} and {second._key_type!r}.",
                hint="give the same key_type to both key_by().",
            )
            fields = {
                "first_key_selector": first._key_selector,
                "second_key_selector": second._key_selector,
                "key_type": first._key_type,
            }
        return first._add(
            TwoInputTransformation,
            name=name,
            output_type=output_type,
            first_input=first._id,
            second_input=second._id,
            operator=operator,
            **fields,
        )


class BroadcastStream(Generic[T_co]):
    """A stream that is sent to all subtasks, with the states that it fills; made by `DataStream.broadcast`.

    Attributes: `input_stream`, `broadcast_state_descriptors` (a list).
    """

    def __init__(self, input_stream: DataStream[T_co], broadcast_state_descriptors: list[MapStateDescriptor]) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(_checked(broadcast_state_descriptors))


def _checked(descriptors: Iterable[object]) -> tuple[MapStateDescriptor, ...]:
    by_name: dict[str, MapStateDescriptor] = {}
    for each in descriptors:
        hint = 'MapStateDescriptor("rules", Types.STRING(), Types.LONG()).'
        descriptor = instance_of("each state of broadcast()", each, MapStateDescriptor, hint=hint)
        name = descriptor.get_name()
        check(name not in by_name, f"broadcast() got two states with the name {name!r}.", hint="give each a name of its own.")
        by_name[name] = descriptor
    if not by_name:
        raise InvalidArgumentError("a BroadcastStream needs at least one MapStateDescriptor; got none.")
    return tuple(by_name.values())


@dataclass(eq=False, repr=False)
class BroadcastConnectedStream(Generic[T_co, T2_co]):
    """A stream, keyed or not, connected to a broadcast stream; made by `DataStream.connect`.

    Records and broadcast elements are processed in no particular order. In batch mode all broadcast elements come first.

    Example:

        >>> names = MapStateDescriptor("names", Types.STRING(), Types.STRING())
        >>> class Spell(BroadcastProcessFunction):
        ...     def process_element(self, code, ctx):
        ...         yield ctx.get_broadcast_state(names).get(code)
        ...     def process_broadcast_element(self, pair, ctx):
        ...         ctx.get_broadcast_state(names).put(*pair)
        >>> airports = env.from_collection([("JFK", "Kennedy")]).broadcast(names)
        >>> env.from_collection(["JFK"]).connect(airports).process(Spell(), Types.STRING()).get_name()
        'Co-Process-Broadcast'
    """

    non_broadcast_stream: DataStream[T_co]
    broadcast_stream: BroadcastStream[T2_co]
    broadcast_state_descriptors: list[MapStateDescriptor]

    def process(self, func: BroadcastProcesses[T_co, T2_co, U], output_type: TypeInformation | None = None) -> DataStream[U]:
        """Process the records of both streams with a function.

        The function must be a KeyedBroadcastProcessFunction if the non-broadcast stream is keyed, otherwise a
        BroadcastProcessFunction. `output_type` is the type of the results; None = they are pickled. Raises InvalidArgumentError
        for any other function.
        """
        stream = self.non_broadcast_stream
        descriptors = _checked(self.broadcast_state_descriptors)
        check_serializable(descriptors, "the state descriptors of broadcast()")
        kind: type[Function]
        config: Any
        keys: dict[str, Any] = {}
        if isinstance(stream, KeyedStream):
            kind, config = KeyedBroadcastProcessFunction, operators.KeyedBroadcastProcessConfig
            name = "Keyed-Co-Process-Broadcast"
            hint = "the stream is keyed, so the function must be a KeyedBroadcastProcessFunction."
            keys = {"first_key_selector": stream._key_selector, "key_type": stream._key_type}
        else:
            kind, config = BroadcastProcessFunction, operators.BroadcastProcessConfig
            name = "Co-Process-Broadcast"
            hint = "the stream is not keyed; call key_by() on it before connect() to use a KeyedBroadcastProcessFunction."
        check_kind(func, kind, "process", hint=hint)
        return stream._add(
            TwoInputTransformation,
            name=name,
            output_type=type_of(output_type, "process"),
            first_input=stream._id,
            second_input=self.broadcast_stream.input_stream._id,
            operator=config(function=func, state_descriptors=descriptors),
            **keys,
        )
