"""Two streams that one operator reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, cast

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.typeinfo import TypeInformation, type_of
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.shapes import CoFlatMaps, CoMaps, CoProcesses, K, SelectsKeys, T2_co, T_co, U
from flinkish.program import operators
from flinkish.program.transformations import TwoInputTransformation
from flinkish.udf.function_wrappers import check_function, check_kind, describe
from flinkish.udf.functions import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction

__all__ = ["ConnectedStreams"]


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
            if first._key_type != second._key_type:
                raise InvalidProgramError(
                    f"the keys of connected streams must be of one type; got {first._key_type!r} and {second._key_type!r}.",
                    hint="give the same key_type to both key_by().",
                )
            fields = {
                "first_key_selector": first._key_selector,
                "second_key_selector": second._key_selector,
                "key_type": first._key_type,
            }
        environment = first.get_execution_environment()
        identifier = environment._builder.add(
            TwoInputTransformation,
            name=name,
            output_type=output_type,
            first_input=first._id,
            second_input=second._id,
            operator=operator,
            **fields,
        )
        return DataStream(environment, identifier)
