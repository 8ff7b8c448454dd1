"""Streams and their operations. Each call only records a transformation."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeGuard, cast, overload

from flinkish.common.absent import AbsentMember, add_getattr, declare_absent
from flinkish.common.absent_names import JAVA_OBJECT, NAMES_ON_STREAMS, SPARK_FRAME, SPARK_WRITE
from flinkish.common.arguments import check, instance_of, int_of, text_of
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, UnsupportedError
from flinkish.common.kinds import Kind, field_keys, named_alike, shape_of
from flinkish.common.limits import UPPER_BOUND_MAX_PARALLELISM
from flinkish.common.pickling import check_serializable, own_copy
from flinkish.common.time import AmountOfTime, milliseconds_of
from flinkish.common.typeinfo import TupleTypeInfo, TypeInformation, Types, type_of
from flinkish.common.watermark_strategy import WatermarkStrategy
from flinkish.datastream.closeable_iterator import CloseableIterator
from flinkish.datastream.shapes import Expression, Filters, FlatMaps, K, Maps, Processes, SelectsKeys, T_co, U
from flinkish.datastream.slot_sharing_group import SlotSharingGroup
from flinkish.program import operators
from flinkish.program.program_builder import WITHOUT_OPERATOR
from flinkish.program.sinks import Sink
from flinkish.program.transformations import (
    CacheTransformation,
    ChainingStrategy,
    OneInputTransformation,
    Partitioner,
    Partitioning,
    PartitionTransformation,
    SideOutputTransformation,
    SinkTransformation,
    Transformation,
    TransformationId,
    UnionTransformation,
)
from flinkish.udf.function_wrappers import (
    check_function,
    check_kind,
    check_strategy,
    describe,
    filter_function,
    flat_map_function,
    map_function,
)
from flinkish.udf.function_wrappers import key_selector as as_key_selector
from flinkish.udf.function_wrappers import partitioner as as_partitioner
from flinkish.udf.functions import Function, MapFunction, ProcessFunction, RuntimeContext, SinkFunction
from flinkish.udf.functions import Partitioner as PartitionerFunction
from flinkish.udf.output_tag import OutputTag

if TYPE_CHECKING:
    from typing import Self

    from flinkish.common.execution_config import ExecutionConfig
    from flinkish.common.types import Row
    from flinkish.datastream.cached_stream import CachedDataStream
    from flinkish.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
    from flinkish.datastream.keyed_stream import KeyedStream
    from flinkish.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkish.datastream.window_join import CoGroupedStreams, JoinedStreams
    from flinkish.datastream.windowed_stream import AllWindowedStream
    from flinkish.udf.state import MapStateDescriptor
    from flinkish.udf.window import WindowAssigner

__all__ = ["CloseableIterator", "DataStream", "DataStreamSink"]


class _OperatorSettings:
    """The setters that streams and sinks share: each replaces the transformation by one with a changed field."""

    def __init__(self, environment: StreamExecutionEnvironment, transformation_id: TransformationId) -> None:
        self._environment = environment
        self._id = transformation_id

    @property
    def _transformation(self) -> Transformation:
        return self._environment.transformations[self._id]

    def _operator(self, method: str) -> Transformation:
        """Return the transformation; refuse a stream that is not an operator, which has no settings."""
        return self._transformation

    def _set(self, method: str, **changes: Any) -> Self:
        self._operator(method)
        self._environment._builder.replace(self._id, **changes)
        return self

    def name(self, name: str) -> Self:
        """Set the name of this operator, for logs, metrics and the plan.

        Example:

            >>> env.from_collection([1]).map(str).name("to text").get_name()
            'to text'
        """
        return self._set("name", name=text_of("name", name))

    def uid(self, uid: str) -> Self:
        """Set the id of this operator in checkpoints and savepoints; unique within the job, and the same in every version of it.

        Without one it is derived from the structure of the program, so that state is lost when the structure changes.

        Example:

            >>> sums = env.from_collection([("a", 1)]).key_by(lambda pair: pair[0]).sum(1).uid("sums").name("sums")
        """
        return self._set("uid", uid=text_of("uid", uid))

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set the id of this operator as it is stored in checkpoints: 32 hexadecimal digits, for example from an old log.

        Example:

            >>> texts = env.from_collection([1]).map(str).set_uid_hash("0123456789abcdef" * 2)
        """
        digits = re.fullmatch("[0-9a-fA-F]{32}", text_of("uid_hash", uid_hash))
        check(digits is not None, f"uid_hash must be 32 hexadecimal digits; got {uid_hash!r}.", hint="use uid() for a name.")
        return self._set("set_uid_hash", uid_hash=uid_hash)

    def set_description(self, description: str) -> Self:
        """Set a longer text about this operator, for the plan.

        Example:

            >>> texts = env.from_collection([1]).map(str).set_description("numbers as text, for people")
        """
        return self._set("set_description", description=text_of("description", description, empty=True))

    def set_parallelism(self, parallelism: int) -> Self:
        """Set how many subtasks run this operator; -1 goes back to the environment's.

        Raises InvalidProgramError for less than 1, and for operators that can only run with one subtask, such as from_collection.

        Example:

            >>> texts = env.from_collection(range(100)).map(str).set_parallelism(4)
        """
        number = int_of("parallelism", parallelism)
        check(number == -1 or number >= 1, f"parallelism must be at least 1, or -1 for the environment's; got {number}.")
        if number == 1 or self._operator("set_parallelism").can_be_parallel:
            return self._set("set_parallelism", parallelism=None if number == -1 else number)
        check(
            number == -1,
            f"{self._transformation.name!r} can only run with parallelism 1; got {number}.",
            hint="set the parallelism of the operator that follows; its records are spread over it.",
        )
        return self

    def disable_chaining(self) -> Self:
        """Have this operator run in a task of its own.

        Example:

            >>> slow = env.from_collection(range(100)).map(str).disable_chaining()
        """
        return self._set("disable_chaining", chaining_strategy=ChainingStrategy.NEVER)

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Set the slot sharing group. By default, an operator is in the group of its inputs; sources are in 'default'.

        Example:

            >>> texts = env.from_collection(range(100)).map(str).slot_sharing_group("texts")
        """
        if isinstance(slot_sharing_group, SlotSharingGroup):
            self._environment.register_slot_sharing_group(slot_sharing_group)
            slot_sharing_group = slot_sharing_group.get_name()
        if not isinstance(slot_sharing_group, str) or not slot_sharing_group:
            raise InvalidArgumentError(f"slot_sharing_group must be a name or a SlotSharingGroup; got {slot_sharing_group!r}.")
        return self._set("slot_sharing_group", slot_sharing_group=slot_sharing_group)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._transformation.name!r}: {self._transformation.output_type!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is part of the program and cannot be used inside a function")


class DataStream(_OperatorSettings, Generic[T_co]):
    """A stream of records of one type.

    Functions may be given as objects of the Function classes or as callables. Where `output_type` is left out, the records are
    any Python objects; a list of types stands for a row of these.

    The examples of the methods use `env`, which is `StreamExecutionEnvironment.get_execution_environment()` with parallelism 1,
    and the names of `flinkish.common`, `flinkish.datastream`, and its modules `state`, `window` and `connectors`.

    Example:

        >>> from flinkish.common import Types
        >>> from flinkish.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> words = env.from_collection(["to be", "or not"]).flat_map(str.split, Types.STRING())
        >>> words.get_name(), words.get_type()
        ('FlatMap', String)
    """

    _j_data_stream = AbsentMember(JAVA_OBJECT)
    writeStream = AbsentMember(SPARK_WRITE)
    foreachBatch = AbsentMember(SPARK_WRITE)
    toDF = AbsentMember(SPARK_FRAME)
    to_data_frame = AbsentMember(SPARK_FRAME)

    def _operator(self, method: str) -> Transformation:
        transformation = self._transformation
        if isinstance(transformation, SideOutputTransformation):
            # As in PyFlink a side output can be named and so on: give it an operator that does nothing.
            self._id = self._environment._builder.add(
                OneInputTransformation,
                name="Map",
                output_type=transformation.output_type,
                input=self._id,
                operator=operators.MapConfig(function=_Identity()),
            )
        elif isinstance(transformation, WITHOUT_OPERATOR):
            raise InvalidProgramError(
                f"{method}() needs an operator to work on, but {transformation.name} runs none.",
                hint=f"call {method}() on the operator before or after it.",
            )
        return self._transformation

    def get_name(self) -> str:
        """Return the name of this operator.

        Example:

            >>> env.from_collection([1]).map(str).get_name()
            'Map'
        """
        return self._operator("get_name").name

    def get_type(self) -> TypeInformation:
        """Return the type of the records.

        Example:

            >>> env.from_collection([1], Types.LONG()).get_type()
            Long
        """
        return self._transformation.output_type

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that this stream belongs to.

        Example:

            >>> env.from_collection([1]).get_execution_environment() is env
            True
        """
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the settings of the environment.

        Example:

            >>> env.from_collection([1]).get_execution_config().get_parallelism()
            1
        """
        return self._environment.get_config()

    # Settings of the operator.

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of this operator, 1 to 32768: the upper limit of its parallelism.

        Example:

            >>> texts = env.from_collection([1]).map(str).set_max_parallelism(720)
        """
        number = int_of("max_parallelism", max_parallelism, minimum=1, maximum=UPPER_BOUND_MAX_PARALLELISM)
        if number != 1 and not self._operator("set_max_parallelism").can_be_parallel:
            raise InvalidProgramError(f"the max parallelism of {self._transformation.name!r} must be 1; got {number}.")
        return self._set("set_max_parallelism", max_parallelism=number)

    def force_non_parallel(self) -> Self:
        """Have this operator always run in one subtask.

        Example:

            >>> texts = env.from_collection([1]).map(str).force_non_parallel()
        """
        return self._set("force_non_parallel", parallelism=1, max_parallelism=1, can_be_parallel=False)

    def set_buffer_timeout(self, timeout_millis: int | AmountOfTime) -> Self:
        """Accepted; without effect: records travel with the micro-batch they are read in (int: ms; -1: the environment's).

        Example:

            >>> texts = env.from_collection([1]).map(str).set_buffer_timeout(Time.milliseconds(10))
        """
        milliseconds_of(timeout_millis, "timeout_millis", or_number=True, minimum=-1)
        return self._set("set_buffer_timeout")

    def start_new_chain(self) -> Self:
        """Have this operator begin a new chain, so that it is not chained to the operators before it.

        Example:

            >>> texts = env.from_collection([1]).map(str).start_new_chain()
        """
        return self._set("start_new_chain", chaining_strategy=ChainingStrategy.HEAD)

    # Operators.

    @overload
    def map(self, func: Callable[[T_co], U] | Maps[T_co, U]) -> DataStream[U]: ...

    # A function may return None, no value, whatever the type.
    @overload
    def map(
        self, func: Callable[[T_co], U | None] | Maps[T_co, U | None], output_type: TypeInformation[U] | None
    ) -> DataStream[U]: ...

    def map(self, func: Callable[[T_co], U] | Maps[T_co, U], output_type: TypeInformation[U] | None = None) -> DataStream[U]:
        """Return one record for each record.

        Example:

            >>> env.from_collection([1, 2]).map(lambda number: number * 10, Types.INT()).execute_and_collect(limit=9)
            [10, 20]
        """
        function = map_function(func, "map")
        check_function(func, "map")
        return self._one_input("Map", operators.MapConfig(function=function), type_of(output_type, "map"))

    def flat_map(
        self, func: Callable[[T_co], Iterable[U]] | FlatMaps[T_co, U], output_type: TypeInformation[U] | None = None
    ) -> DataStream[U]:
        """Return none, one or many records for each record; the function returns an iterable or yields records.

        Example:

            >>> env.from_collection(["to be", "or not"]).flat_map(str.split, Types.STRING()).execute_and_collect(limit=9)
            ['to', 'be', 'or', 'not']
        """
        function = flat_map_function(func, "flat_map")
        check_function(func, "flat_map")
        return self._one_input("FlatMap", operators.FlatMapConfig(function=function), type_of(output_type, "flat_map"))

    def map_batches(
        self,
        func: Callable[[Any], Any],
        output_type: TypeInformation[U] | None = None,
        *,
        batch_format: Literal["pyarrow", "pandas"] = "pyarrow",
    ) -> DataStream[U]:
        """Call a function with batches of records: a pyarrow.RecordBatch or a pandas.DataFrame for another one.

        A batch has a column for each field of a row (tuples: f0, f1, ...), otherwise one named `value`. The function returns a
        RecordBatch, a Table or a DataFrame with the columns of `output_type`, which is the type of this stream by default.
        In a DataFrame, None is pandas.NA in columns of numbers and booleans, which then have pandas' nullable types; NaN is NaN.
        How records are batched is not defined, so each result must depend on its own row. If records have event times, there must
        be as many results, in the same order, which then have these times; otherwise the job fails with a TypeMismatchError.
        The records must be of a declared type that Arrow has, too, else InvalidProgramError.

        Example:

            >>> import pyarrow as pa, pyarrow.compute as pc
            >>> def double(batch):
            ...     return pa.record_batch([pc.multiply_checked(batch["value"], 2)], ["value"])
            >>> env.from_collection([1, 2], Types.LONG()).map_batches(double).execute_and_collect(limit=9)
            [2, 4]
        """
        from flinkish.common.column_layout import needed_layout

        check_function(func, "map_batches")
        check(batch_format in ("pyarrow", "pandas"), f"batch_format must be 'pyarrow' or 'pandas'; got {batch_format!r}.")
        result_type = self._record_type if output_type is None else type_of(output_type, "map_batches")
        for of, type_info in (("takes", self._record_type), ("returns", result_type)):
            needed_layout(type_info, f"map_batches() {of} columns, so it")
        config = operators.MapBatchesConfig(function=map_function(func, "map_batches"), pandas=batch_format == "pandas")
        return self._one_input("Map Batches", config, result_type)

    def select(self, *fields: str, **expressions: Expression) -> DataStream[Row]:
        """Keep some fields of rows, and compute others by expressions of pyarrow.compute; the result is a row of these.

        Integers that overflow, and casts that would lose something, fail the job. Functions whose results wrap, such as
        pyarrow.compute.add (in place of + or add_checked), and integers that Arrow would compute as 32-bit floats, are refused.

        Example:

            >>> import pyarrow.compute as pc
            >>> row_type = Types.ROW_NAMED(["name", "price"], [Types.STRING(), Types.LONG()])
            >>> sales = env.from_collection([Row("tea", 3)], row_type)
            >>> sales.select("name", twice=pc.field("price") * 2).execute_and_collect(limit=9)
            [Row(name='tea', twice=6)]
        """
        import pyarrow.compute as pc

        from flinkish.common.column_layout import needed_layout

        layout = needed_layout(self._record_type, "select() works on columns, so it")
        check(layout.is_row, f"select() needs rows with named fields; the records are {self._record_type!r}.")
        unknown = [field for field in fields if field not in layout.names]
        check(not unknown, f"select(): there are no fields {unknown}; the records have {list(layout.names)}.")
        check(bool(fields or expressions), "select() needs at least one field.")
        computed = {**{field: pc.field(field) for field in fields}, **expressions}
        for name, expression in computed.items():
            instance_of(f"select(): {name}", expression, pc.Expression, hint='such as pc.field("price") * 2.')
        config = operators.SelectColumnsConfig(expressions=tuple(computed.values()))
        return self._one_input("Select", config, layout.type_of(computed), keyed=False)

    def filter(self, func: Callable[[T_co], bool] | Filters[T_co] | Expression) -> DataStream[T_co]:
        """Keep the records for which the function returns a true value.

        An expression of pyarrow.compute, such as `pc.field("price") > 100`, does the same by columns: much faster where the
        records are columns already. Fields of tuples are f0, f1, ...; a record without fields is `value`.

        Example:

            >>> env.from_collection([1, 2, 3]).filter(lambda number: number > 1).execute_and_collect(limit=9)
            [2, 3]
        """
        if type(func).__module__.startswith("pyarrow."):
            from flinkish.common.column_layout import needed_layout

            layout = needed_layout(self._record_type, "filter() by an expression works on columns, so it")
            layout.type_of({"condition": func}, Types.BOOLEAN())
            return self._one_input("Filter", operators.FilterColumnsConfig(expression=func), self._record_type)
        function = filter_function(func, "filter")
        check_function(func, "filter")
        return self._one_input("Filter", operators.FilterConfig(function=function), self._record_type)

    def process(self, func: Processes[T_co, U], output_type: TypeInformation | None = None) -> DataStream[U]:
        """Handle each record with a ProcessFunction, which may also emit to side outputs.

        Example:

            >>> negative = OutputTag("negative", Types.INT())
            >>> class Split(ProcessFunction):
            ...     def process_element(self, value, ctx):
            ...         yield (negative, value) if value < 0 else value
            >>> env.from_collection([1, -2, 3]).process(Split(), Types.INT()).execute_and_collect(limit=9)
            [1, 3]
        """
        check_kind(func, ProcessFunction, "process", hint="call key_by() first to use a KeyedProcessFunction.")
        return self._one_input(
            "PROCESS", operators.ProcessConfig(function=cast(ProcessFunction, func)), type_of(output_type, "process")
        )

    def key_by(
        self,
        key_selector: Callable[[T_co], K] | SelectsKeys[T_co, K] | int | str | Sequence[int | str],
        key_type: TypeInformation[K] | None = None,
    ) -> KeyedStream[T_co, K]:
        """Send all records of a key to one subtask; each key then has its own state and timers.

        The key may also be a field: its name in rows, its position in tuples; it then has the field's type. A tuple or list of
        several fields makes keys that are tuples of their values.
        Equal numbers are the same key whatever their type (1, 1.0 and True). Keys need not be hashable.

        Example:

            >>> sales = env.from_collection([("a", 1), ("b", 5), ("a", 2)])
            >>> sales.key_by(lambda sale: sale[0], Types.STRING()).sum(1).execute_and_collect(limit=9)
            [('a', 1), ('b', 5), ('a', 3)]
        """
        from flinkish.datastream.keyed_stream import KeyedStream

        if _is_field(key_selector):
            key_type = key_type or self._field_type(key_selector)
            key_selector = cast("Callable[[T_co], K]", operator.itemgetter(key_selector))
        elif isinstance(key_selector, (tuple, list)) and len(key_selector) > 1 and all(map(_is_field, key_selector)):
            types = [type_info for field in key_selector if (type_info := self._field_type(field)) is not None]
            if key_type is None and len(types) == len(key_selector):
                key_type = cast("TypeInformation[K]", Types.TUPLE(types))
            key_selector = cast("Callable[[T_co], K]", operator.itemgetter(*key_selector))
        selector = as_key_selector(key_selector, "key_by")
        partition = self._partition(Partitioner(partitioning=Partitioning.HASH, key_selector=selector), "key_by()")
        return KeyedStream(partition._environment, partition._id, self, selector, type_of(key_type, "key_by", "key_type"))

    def _field_type(self, field: int | str) -> TypeInformation | None:
        """Return the type of a field; None if the records have no declared type. Raises InvalidProgramError without the field."""
        kind, types = shape_of(self._record_type)
        if kind in (Kind.PICKLED, Kind.OTHER):
            return None
        fields = field_keys(self._record_type)
        check(
            field in fields,
            f"key_by({field!r}): there is no such field; the records are {self._record_type!r}.",
            hint="a field is a name in rows and a position in tuples; or pass a function.",
        )
        return types[fields.index(field)]

    def union(self, *streams: DataStream[U]) -> DataStream[T_co | U]:
        """Merge streams of the same type into one; records of a stream that is given twice come twice.

        Differs from Flink: rows must have the same names of fields, and decimals the same digits, else InvalidProgramError.

        Example:

            >>> env.from_collection([1, 2]).union(env.from_collection([3])).map(str).execute_and_collect(limit=3)
            ['1', '2', '3']
        """
        for stream in streams:
            self._check_other(stream, "union")
            if stream._record_type != self._record_type:
                raise InvalidProgramError(
                    f"union() needs streams of the same type; got {self._record_type!r} and {stream._record_type!r}.",
                    hint="map() the streams to one type, and give it as output_type.",
                )
            if not named_alike(self._record_type, stream._record_type):
                raise InvalidProgramError(
                    f"union() needs the same names of fields, in the same order, and the same digits of decimals; "
                    f"got {self._record_type!r} and {stream._record_type!r}.",
                    hint="give one stream the type of the other one before, with select() or map().",
                )
        inputs = (self._id, *(stream._id for stream in streams))
        return self._add(UnionTransformation, name="union()", output_type=self._record_type, union_inputs=inputs)

    @overload
    def connect(self, ds: DataStream[U]) -> ConnectedStreams[T_co, U]: ...

    @overload
    def connect(self, ds: BroadcastStream[U]) -> BroadcastConnectedStream[T_co, U]: ...

    def connect(self, ds: DataStream[U] | BroadcastStream[U]) -> ConnectedStreams[T_co, U] | BroadcastConnectedStream[T_co, U]:
        """Connect two streams, of any types, so that one operator reads both.

        Example:

            >>> class Name(CoMapFunction):
            ...     def map1(self, value):
            ...         return f"number {value}"
            ...     def map2(self, value):
            ...         return f"word {value}"
            >>> connected = env.from_collection([1]).connect(env.from_collection(["a"]))
            >>> connected.map(Name(), Types.STRING()).execute_and_collect(limit=9)
            ['number 1', 'word a']
        """
        from flinkish.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams

        if isinstance(ds, BroadcastStream):
            self._check_other(ds.input_stream, "connect")
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        self._check_other(ds, "connect")
        return ConnectedStreams(self, ds)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream[T_co]:
        """Group the records of the whole stream into windows; one subtask does all the work.

        Example:

            >>> windows = env.from_collection([1, 2, 3, 4]).window_all(CountTumblingWindowAssigner(2))
            >>> windows.reduce(lambda one, other: one + other).execute_and_collect(limit=9)
            [3, 7]
        """
        from flinkish.datastream.windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Pair records of two streams that have the same key in the same window; as in Flink's Java API.

        Example:

            >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
            >>> orders = env.from_collection([("a", 1000)]).assign_timestamps_and_watermarks(by_time)
            >>> payments = env.from_collection([("a", 2000), ("a", 7000)]).assign_timestamps_and_watermarks(by_time)
            >>> pairs = orders.join(payments).where(lambda order: order[0]).equal_to(lambda payment: payment[0])
            >>> windows = pairs.window(TumblingEventTimeWindows.of(Time.seconds(5)))
            >>> windows.apply(lambda order, payment: (order[1], payment[1])).execute_and_collect(limit=9)
            [(1000, 2000)]
        """
        from flinkish.datastream.window_join import JoinedStreams

        self._check_other(other_stream, "join")
        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """Group the records of two streams that have the same key in the same window; as in Flink's Java API.

        Example:

            >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
            >>> orders = env.from_collection([("a", 1000)]).assign_timestamps_and_watermarks(by_time)
            >>> payments = env.from_collection([("a", 2000), ("a", 7000)]).assign_timestamps_and_watermarks(by_time)
            >>> groups = orders.co_group(payments).where(lambda order: order[0]).equal_to(lambda payment: payment[0])
            >>> windows = groups.window(TumblingEventTimeWindows.of(Time.seconds(5)))
            >>> windows.apply(lambda orders, payments: [(len(list(orders)), len(list(payments)))]).execute_and_collect(limit=9)
            [(1, 1), (0, 1)]
        """
        from flinkish.datastream.window_join import CoGroupedStreams

        self._check_other(other_stream, "co_group")
        return CoGroupedStreams(self, other_stream)

    def project(self, *field_indexes: int) -> DataStream[tuple[Any, ...]]:
        """Keep some fields of tuples, in the given order; the stream must be of type TUPLE.

        Example:

            >>> pairs = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
            >>> pairs.project(1, 0).execute_and_collect(limit=9)
            [(1, 'a')]
        """
        record_type = self._record_type
        if not isinstance(record_type, TupleTypeInfo):
            raise InvalidProgramError(
                f"project() needs a stream of type TUPLE; this one is of type {record_type!r}.",
                hint="use map(), or give a type with Types.TUPLE([...]).",
            )
        fields = record_type.get_field_types()
        check(bool(field_indexes), "project() needs at least one field.")
        for index in field_indexes:
            known = 0 <= int_of("field index", index) < len(fields)
            check(known, f"project({index}): the records have {len(fields)} fields, 0 to {len(fields) - 1}.")
        return self._one_input(
            "Projection",
            operators.MapConfig(function=_Projection(field_indexes), projects=True),
            Types.TUPLE([fields[index] for index in field_indexes]),
            keyed=False,
        )

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream[T_co]:
        """Assign event times to records and generate watermarks from them, replacing existing ones.

        Watermarks are emitted every pipeline.auto-watermark-interval, except by generators that emit with each event.

        Example:

            >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
            >>> events = env.from_collection([("a", 1000), ("b", 500)])
            >>> events.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda event, _: event[1])).get_name()
            'Timestamps/Watermarks'
        """
        check_strategy(watermark_strategy, "assign_timestamps_and_watermarks")
        if watermark_strategy.alignment is not None:
            raise UnsupportedError(
                "assign_timestamps_and_watermarks(): the operators between a source and this call cannot be held back by "
                "with_watermark_alignment() (Flink ignores it here).",
                hint="give the strategy to from_source(), or leave the alignment out.",
            )
        return self._one_input(
            "Timestamps/Watermarks",
            operators.TimestampsAndWatermarksConfig(strategy=watermark_strategy),
            self._record_type,
            keyed=False,
        )

    def get_side_output(self, output_tag: OutputTag) -> DataStream[Any]:
        """Return the stream of the records that this operator emits to a tag.

        Differs from Flink: records for a tag that nobody reads are dropped; PyFlink emits them to the main output.

        Example:

            >>> rest = OutputTag("rest", Types.INT())
            >>> class Even(ProcessFunction):
            ...     def process_element(self, value, ctx):
            ...         yield value if value % 2 == 0 else (rest, value)
            >>> even = env.from_collection([1, 2, 3]).process(Even(), Types.INT())
            >>> even.get_side_output(rest).execute_and_collect(limit=9)
            [1, 3]
        """
        instance_of("get_side_output()", output_tag, OutputTag)
        self._operator("get_side_output")
        tag_id, type_info = output_tag.tag_id, output_tag.type_info
        for other in self._environment._builder.side_outputs(self._id):
            check(
                other.tag != output_tag or other.tag.type_info == type_info,
                f"side output {tag_id!r} is already read with type {other.tag.type_info!r}; got {type_info!r}.",
                hint="use one OutputTag object for all uses.",
            )
        return self._add(
            SideOutputTransformation, name=f"side output {tag_id!r}", output_type=type_info, input=self._id, tag=output_tag
        )

    def cache(self) -> CachedDataStream[T_co]:
        """Keep the records of this stream, when a batch job computes them, for later jobs of this environment.

        The stream must be the result of an operator or a side output; raises InvalidProgramError for others.

        Example:

            >>> _ = env.set_runtime_mode(RuntimeExecutionMode.BATCH)
            >>> squares = env.from_collection([1, 2]).map(lambda number: number * number).cache()
            >>> squares.execute_and_collect(limit=9)
            [1, 4]
            >>> squares.execute_and_collect(limit=9)  # this job reads what the first one has kept
            [1, 4]
        """
        from flinkish.datastream.cached_stream import CachedDataStream, StreamCache

        if isinstance(self._transformation, WITHOUT_OPERATOR) and not isinstance(self._transformation, SideOutputTransformation):
            raise InvalidProgramError(
                f"cache() needs the result of an operator or a side output; {self._transformation.name} runs no operator.",
                hint="call cache() before it, or behind the operator after it.",
            )
        identifier = self._environment._builder.add(
            CacheTransformation, name="cache()", output_type=self._record_type, input=self._id, cache=StreamCache()
        )
        return CachedDataStream(self._environment, identifier)

    # Partitioning.

    def shuffle(self) -> DataStream[T_co]:
        """Send each record to a random subtask of the next operator.

        Example:

            >>> texts = env.from_collection(range(4)).shuffle().map(str).set_parallelism(2)
        """
        return self._partition(Partitioner(partitioning=Partitioning.SHUFFLE), "shuffle()")

    def rebalance(self) -> DataStream[T_co]:
        """Distribute the records round-robin over the next operator's subtasks.

        Example:

            >>> env.from_collection(range(4)).rebalance().map(str).set_parallelism(2).get_name()
            'Map'
        """
        return self._partition(Partitioner(partitioning=Partitioning.REBALANCE), "rebalance()")

    def rescale(self) -> DataStream[T_co]:
        """Distribute each subtask's records round-robin over its own subset of the next operator's subtasks.

        Example:

            >>> texts = env.from_collection(range(4)).rescale().map(str).set_parallelism(2)
        """
        return self._partition(Partitioner(partitioning=Partitioning.RESCALE), "rescale()")

    def forward(self) -> DataStream[T_co]:
        """Send the records to the next operator's subtask of the same index; it must have the same parallelism.

        Example:

            >>> texts = env.from_collection(range(4)).forward().map(str).set_parallelism(1)
        """
        return self._partition(Partitioner(partitioning=Partitioning.FORWARD), "forward()")

    @overload
    def broadcast(self) -> DataStream[T_co]: ...

    @overload
    def broadcast(
        self, broadcast_state_descriptor: MapStateDescriptor, *other_broadcast_state_descriptors: MapStateDescriptor
    ) -> BroadcastStream[T_co]: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream[T_co] | BroadcastStream[T_co]:
        """Send each record to all of the next operator's subtasks.

        With descriptors of broadcast state the result can be passed to another stream's `connect`.

        Example:

            >>> copies = env.from_collection([1, 2]).broadcast().map(str).set_parallelism(2)
            >>> sorted(copies.execute_and_collect(limit=4))
            ['1', '1', '2', '2']
        """
        from flinkish.datastream.connected_streams import BroadcastStream

        partition = self._partition(Partitioner(partitioning=Partitioning.BROADCAST), "broadcast()")
        if broadcast_state_descriptor is None and not other_broadcast_state_descriptors:
            return partition
        # BroadcastStream refuses None, with a message that says which type it must have.
        return BroadcastStream(partition, [broadcast_state_descriptor, *other_broadcast_state_descriptors])  # type: ignore[list-item]

    def partition_custom(
        self,
        partitioner: Callable[[K, int], int] | PartitionerFunction,
        key_selector: Callable[[T_co], K] | SelectsKeys[T_co, K],
    ) -> DataStream[T_co]:
        """Send each record to the subtask that `partitioner` (key, number of subtasks) chooses for its key.

        Example:

            >>> numbers = env.from_collection([1, 2, 3])
            >>> parts = numbers.partition_custom(lambda key, subtasks: key % subtasks, lambda number: number)
            >>> sorted(parts.map(str).set_parallelism(2).execute_and_collect(limit=3))
            ['1', '2', '3']
        """
        function = as_partitioner(partitioner, "partition_custom")
        selector = as_key_selector(key_selector, "partition_custom")
        return self._partition(
            Partitioner(partitioning=Partitioning.CUSTOM, key_selector=selector, function=function), "partition_custom()"
        )

    # Sinks.

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the records on the driver's standard output, as `identifier:subtask> record`; the subtask if several.

        Example:

            >>> _ = env.from_collection([1]).print("number")
            >>> result = env.execute()
            number> 1
        """
        from flinkish.datastream.connectors.print import PrintSink

        if sink_identifier is not None:
            text_of("sink_identifier", sink_identifier, empty=True)
        return self._sink("Print to Std. Out", PrintSink(sink_identifier))

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """Write the records with a SinkFunction (or a Sink).

        Example:

            >>> class Show(SinkFunction):
            ...     def invoke(self, value, context):
            ...         print(value)
            >>> _ = env.from_collection([1, 2]).add_sink(Show())
        """
        from flinkish.datastream.legacy_functions import SinkFunctionSink

        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        check_kind(sink_func, SinkFunction, "add_sink", hint="pass a Sink to sink_to().")
        return self._sink("Unnamed", SinkFunctionSink(own_copy(sink_func, f"the sink function {describe(sink_func)}")))

    def sink_to(self, sink: Sink[Any, Any]) -> DataStreamSink:
        """Write the records into a sink; a sink with `get_transformer()` may change the stream first.

        Example:

            >>> lines = FileSink.for_row_format(tempfile.mkdtemp(), Encoder.simple_string_encoder()).build()
            >>> _ = env.from_collection(["a"], Types.STRING()).sink_to(lines)
            >>> result = env.execute()
        """
        instance_of("sink_to()", sink, Sink, hint="a builder must be finished with build(); a SinkFunction goes to add_sink().")
        transformer = getattr(sink, "get_transformer", lambda: None)()
        stream: DataStream = self if transformer is None else transformer.apply(self)
        check_serializable(sink, f"the sink {type(sink).__name__} of sink_to()")
        sink.validate(stream._record_type)
        return stream._sink("Writer", sink)

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, limit: None = None) -> CloseableIterator[T_co]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T_co]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T_co]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T_co] | list[T_co]:
        """Run the whole program and return the records of this stream.

        Without a limit the result is an iterator, and closing it cancels the job. With one it is a list of at most `limit`
        records, after which the job is cancelled.

        Example:

            >>> with env.from_collection([1, 2]).execute_and_collect() as numbers:
            ...     sum(numbers)
            3
        """
        if limit is not None:
            int_of("limit", limit, minimum=1)
        self._collected()
        iterator = self._environment._execute_and_collect(job_execution_name or "DataStream Collect")
        if limit is None:
            return iterator
        with iterator:
            return list(islice(iterator, limit))

    def collect_as_data_frame(self, spark: Any, job_execution_name: str | None = None) -> Any:
        """Run the whole program and return the records of this stream as a DataFrame of a SparkSession; on any engine.

        The stream must end, and its records be rows or tuples whose type is declared; they pass through this process's memory.
        Raises UnsupportedError, which names the column, for a type that Spark does not have.
        For results that do not end, or are large, use sink_to(DataFrameSink(write)).

        Example, in a process with a SparkSession `spark`::

            pairs = env.from_collection([(1, "a")], Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
            pairs.collect_as_data_frame(spark).show()
        """
        from flinkish.datastream.connectors.data_frame_sink import check_rows, to_data_frame

        record_type = self._record_type
        check_rows(record_type, "collect_as_data_frame()")
        with self.execute_and_collect(job_execution_name) as records:
            return to_data_frame(spark, records, record_type)

    # How it is done.

    @property
    def _record_type(self) -> TypeInformation:
        """The type of the records as functions see them."""
        return self._transformation.output_type

    def _one_input(
        self, name: str, operator: operators.OperatorConfig, output_type: TypeInformation, *, keyed: bool = True
    ) -> DataStream:
        fields = self._key_fields() if keyed else {}
        return self._add(OneInputTransformation, name=name, output_type=output_type, input=self._id, operator=operator, **fields)

    def _add(self, transformation: type[Transformation], **fields: Any) -> DataStream:
        """Add a transformation of this stream to the program, and return the stream of its results."""
        return DataStream(self._environment, self._environment._builder.add(transformation, **fields))

    def _key_fields(self) -> dict[str, Any]:
        return {}

    def _partition(self, partitioner: Partitioner, name: str) -> DataStream:
        return self._add(
            PartitionTransformation, name=name, output_type=self._record_type, input=self._id, partitioner=partitioner
        )

    def _sink(self, name: str, sink: Sink[Any, Any], **fields: Any) -> DataStreamSink:
        identifier = self._environment._builder.add(
            SinkTransformation, name=name, output_type=self._record_type, input=self._id, sink=sink, **fields
        )
        return DataStreamSink(self._environment, identifier)

    def _written_by(self, sink: Sink[Any, Any]) -> DataStream:
        """Write the records into a sink, and return the stream of its committables: the first of two stages."""
        check_serializable(sink, f"the sink {type(sink).__name__} of sink_to()")
        sink.validate(self._record_type)
        operator = operators.SinkWriterConfig(sink=sink)
        return self._one_input("Writer", operator, Types.PICKLED_BYTE_ARRAY(), keyed=False)

    def _collected(self) -> None:
        """Add the sink that brings the records to the driver; where possible, it runs in the task of its input."""
        from flinkish.datastream.connectors.collect import CollectSink

        self._sink("Data stream collect sink", CollectSink(), parallelism=1, beside_input=True)

    def _check_other(self, stream: object, method: str) -> None:
        other = instance_of(f"{method}()", stream, DataStream)
        check(
            other._environment is self._environment,
            f"{method}() needs streams of the same environment; got one of another.",
            hint="call get_execution_environment() once and make all streams from it.",
        )


declare_absent(DataStream, NAMES_ON_STREAMS)


class DataStreamSink(_OperatorSettings):
    """The end of a stream: the operator of a sink."""

    _j_data_stream_sink = AbsentMember(JAVA_OBJECT)

    def _set(self, method: str, **changes: Any) -> Self:
        # A sink of two stages is an operator that writes and one that commits. State and resources belong to the first.
        first = self._first_stage()
        if first is not None:
            shared = {name: changes[name] for name in ("uid", "parallelism", "slot_sharing_group") if name in changes}
            self._environment._builder.replace(first, **shared)
            if "uid" in changes:
                changes["uid"] += "-compactor"
        return super()._set(method, **changes)

    def _first_stage(self) -> TransformationId | None:
        transformation = self._transformation
        while isinstance(transformation, (SinkTransformation, PartitionTransformation)):
            transformation = self._environment.transformations[transformation.input]
        writes = isinstance(transformation, OneInputTransformation) and isinstance(
            transformation.operator, operators.SinkWriterConfig
        )
        return transformation.id if writes else None


class Opens(Function):
    """A function that opens and closes others; None stands for a plain callable."""

    _opened: Sequence[Function | None]

    def open(self, runtime_context: RuntimeContext) -> None:
        for function in self._opened:
            if function is not None:
                function.open(runtime_context)

    def close(self) -> None:
        for function in self._opened:
            if function is not None:
                function.close()


class _Identity(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class _Projection(MapFunction):
    def __init__(self, fields: tuple[int, ...]) -> None:
        self._fields = fields

    def map(self, value: Any) -> Any:
        return tuple([value[field] for field in self._fields])


def _is_field(given: object) -> TypeGuard[int | str]:
    return isinstance(given, (int, str)) and not isinstance(given, bool)


#: Classes that PyFlink has in this module, with the module that they are in here; those build upon this one.
_ELSEWHERE = {
    "AllWindowedStream": "windowed_stream",
    "BroadcastConnectedStream": "connected_streams",
    "BroadcastStream": "connected_streams",
    "CachedDataStream": "cached_stream",
    "ConnectedStreams": "connected_streams",
    "KeyedStream": "keyed_stream",
    "WindowedStream": "windowed_stream",
}
add_getattr(__name__, {name: f"flinkish.datastream.{module}" for name, module in _ELSEWHERE.items()})
