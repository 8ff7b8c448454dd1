"""Broadcast streams, which fill state that every subtask of another stream's operator reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, cast

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.pickling import check_serializable
from flinkish.common.typeinfo import TypeInformation, type_of
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.shapes import BroadcastProcesses, T2_co, T_co, U
from flinkish.program import operators
from flinkish.program.transformations import BroadcastStateTransformation
from flinkish.udf.function_wrappers import check_kind, describe
from flinkish.udf.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flinkish.udf.state import MapStateDescriptor

__all__ = ["BroadcastConnectedStream", "BroadcastStream"]


class BroadcastStream(Generic[T_co]):
    """A stream that is sent to all subtasks, with the states that it fills; made by `DataStream.broadcast`.

    Attributes: `input_stream`, `broadcast_state_descriptors` (a list).
    """

    def __init__(self, input_stream: DataStream[T_co], broadcast_state_descriptors: list[MapStateDescriptor]) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(_checked(broadcast_state_descriptors))


def _checked(descriptors: Iterable[object]) -> tuple[MapStateDescriptor, ...]:
    by_name: dict[str, MapStateDescriptor] = {}
    for descriptor in descriptors:
        if not isinstance(descriptor, MapStateDescriptor):
            raise InvalidArgumentError(
                f"broadcast() needs a MapStateDescriptor for each state; got {descriptor!r} of type {type(descriptor).__name__}.",
                hint='MapStateDescriptor("rules", Types.STRING(), Types.LONG()).',
            )
        if descriptor.get_name() in by_name:
            raise InvalidProgramError(
                f"broadcast() got two states with the name {descriptor.get_name()!r}.", hint="give each a name of its own."
            )
        by_name[descriptor.get_name()] = descriptor
    if not by_name:
        raise InvalidArgumentError("a BroadcastStream needs at least one MapStateDescriptor; got none.")
    return tuple(by_name.values())


class BroadcastConnectedStream(Generic[T_co, T2_co]):
    """A stream, keyed or not, connected to a broadcast stream; made by `DataStream.connect`.

    Records and broadcast elements are processed in no particular order. In batch mode all broadcast elements come first.

    Example:

        >>> from flinkish.common import Types
        >>> from flinkish.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
        >>> from flinkish.datastream.state import MapStateDescriptor
        >>> names = MapStateDescriptor("names", Types.STRING(), Types.STRING())
        >>> class Spell(BroadcastProcessFunction):
        ...     def process_element(self, code, ctx):
        ...         yield ctx.get_broadcast_state(names).get(code)
        ...     def process_broadcast_element(self, pair, ctx):
        ...         ctx.get_broadcast_state(names).put(*pair)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> airports = env.from_collection([("JFK", "Kennedy")]).broadcast(names)
        >>> env.from_collection(["JFK"]).connect(airports).process(Spell(), Types.STRING()).get_name()
        'Co-Process-Broadcast'
    """

    def __init__(
        self,
        non_broadcast_stream: DataStream[T_co],
        broadcast_stream: BroadcastStream[T2_co],
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors

    def process(self, func: BroadcastProcesses[T_co, T2_co, U], output_type: TypeInformation | None = None) -> DataStream[U]:
        """Process the records of both streams with a function.

        The function must be a KeyedBroadcastProcessFunction if the non-broadcast stream is keyed, otherwise a
        BroadcastProcessFunction. `output_type` is the type of the results; None = they are pickled. Raises InvalidArgumentError
        for any other function.
        """
        stream = self.non_broadcast_stream
        result_type = type_of(output_type, "process")
        descriptors = _checked(self.broadcast_state_descriptors)
        check_serializable(descriptors, "the state descriptors of broadcast()")
        if isinstance(stream, KeyedStream):
            if isinstance(func, BroadcastProcessFunction):
                raise InvalidArgumentError(
                    f"process() got the BroadcastProcessFunction {describe(func)}, but the stream is keyed.",
                    hint="on a KeyedStream it is a KeyedBroadcastProcessFunction.",
                )
            check_kind(func, KeyedBroadcastProcessFunction, "process")
            keyed = operators.KeyedBroadcastProcessConfig(
                function=cast(KeyedBroadcastProcessFunction, func), state_descriptors=descriptors
            )
            return self._add("Keyed-Co-Process-Broadcast", keyed, result_type, stream._key_fields())
        if isinstance(func, KeyedBroadcastProcessFunction):
            raise InvalidArgumentError(
                f"process() got the KeyedBroadcastProcessFunction {describe(func)}, but the stream is not keyed.",
                hint="call key_by() on it before connect().",
            )
        check_kind(func, BroadcastProcessFunction, "process")
        operator = operators.BroadcastProcessConfig(function=cast(BroadcastProcessFunction, func), state_descriptors=descriptors)
        return self._add("Co-Process-Broadcast", operator, result_type, {})

    def _add(
        self, name: str, operator: operators.OperatorConfig, output_type: TypeInformation, key_fields: dict[str, Any]
    ) -> DataStream:
        stream = self.non_broadcast_stream
        identifier = stream._environment._builder.add(
            BroadcastStateTransformation,
            name=name,
            output_type=output_type,
            regular_input=stream._id,
            broadcast_input=self.broadcast_stream.input_stream._id,
            operator=operator,
            **key_fields,
        )
        return DataStream(stream._environment, identifier)
