"""Keyed state: what functions work with. The hot path: value() and update() are a dict access and little more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, Protocol, TypeVar

from flinkish.common.errors import StateError, TypeMismatchError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flinkish.runtime.key_groups import is_stored_as_given, original_key
from flinkish.runtime.state import tables
from flinkish.runtime.state.codec import SCALARS, Codec
from flinkish.runtime.state.grouped import GroupedLists, MapTable, PaneTable
from flinkish.runtime.state.tables import (
    Address,
    ListTable,
    Namespaced,
    Table,
    TableMeta,
    ValueTable,
    key_of,
    namespace_of,
)
from flinkish.runtime.state.timers import InternalTimerService, TimerTable
from flinkish.runtime.state.ttl import Sweeper, TtlPolicy

StateT = TypeVar("StateT", bound=State)
Convert = Callable[[Any], Any]


class NoKey:
    """The current key where there is none: it cannot be looked up, so that state used there is noticed at no cost."""

    def __init__(self, why: str, hint: str) -> None:
        self._why = why
        self._hint = hint

    def __hash__(self) -> int:
        raise StateError(self._why, hint=self._hint)

    def __repr__(self) -> str:
        return "NO_KEY"


#: Before the first record.
NO_KEY: Any = NoKey(
    "keyed state or a timer was used while no record is processed, so there is no key",
    "use state in process_element and on_timer; in open() only get the handles.",
)


class Tables(Protocol):
    """Where tables come from: one operator's part of a slot's state."""

    uid: str

    def table(self, category: str, name: str, meta: TableMeta, now: Callable[[], int]) -> Table: ...

    def set_sweeper(self, category: str, name: str, sweeper: Sweeper) -> None: ...


class _Scope(Protocol):
    """What a state handle asks for where it is."""

    current_key: Any
    current_namespace: Any

    def address(self) -> Address: ...


class KeyedStateBackend:
    """The keyed state of one operator in one subtask.

    `current_key` and `current_namespace` (None: void) are set by the operator before user code runs; all handles refer to them.
    """

    def __init__(
        self,
        operator: Tables,
        key_type: TypeInformation,
        max_parallelism: int,
        key_groups: range,
        processing_time: Callable[[], int],
    ) -> None:
        self.current_key: Any = NO_KEY
        self.current_namespace: Any = None
        self.key_groups = key_groups
        self._operator = operator
        self._key_type = key_type
        self._max_parallelism = max_parallelism
        self._now = processing_time
        self._states: dict[str, tuple[TableMeta, State]] = {}
        self._tables: dict[str, Table] = {}
        self._timers: dict[str, InternalTimerService] = {}

    def address(self) -> Address:
        """Return what the current key and namespace are stored under."""
        if self.current_namespace is None:
            return self.current_key
        return Namespaced(self.current_key, self.current_namespace)

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the value state of a descriptor; the same object each time."""

        def make(table: ValueTable, policy: TtlPolicy | None) -> ValueState[Any]:
            convert = self._conversion(descriptor, table.codec)
            if table.codec.immutable and policy is None:
                return _FastValueState(self, table, convert)
            if policy is None:
                return _ObjectValueState(self, table, convert)
            return _TtlValueState(_TtlCell(self, table, policy, self._now), convert)

        return self._get(descriptor, tables.VALUE, (descriptor.type_info,), make)

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list state of a descriptor; the same object each time."""

        def make(table: ListTable, policy: TtlPolicy | None) -> ListState[Any]:
            convert = self._conversion(descriptor, table.codec)
            if policy is None:
                return TableListState(self, table, convert)
            return _TtlListState(self, table, convert, policy, self._now)

        return self._get(descriptor, tables.LIST, (descriptor.element_type_info,), make)

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the map state of a descriptor; the same object each time."""

        def make(table: MapTable, policy: TtlPolicy | None) -> MapState[Any, Any]:
            what = self._what(descriptor)
            keys = conversion(what, table.key_codec), finding(what, table.key_codec)
            convert = conversion(what, table.codec, nullable=True)
            if policy is None:
                return _MapState(self, table, keys, convert)
            return _TtlMapState(self, table, keys, convert, policy, self._now)

        return self._get(descriptor, tables.MAP, (descriptor.key_type_info, descriptor.value_type_info), make)

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the reducing state of a descriptor; the same object each time."""

        def make(table: ValueTable, policy: TtlPolicy | None) -> ReducingState[Any]:
            return _ReducingState(
                self._cell(table, policy), self._conversion(descriptor, table.codec), descriptor.get_reduce_function().reduce
            )

        return self._get(descriptor, tables.REDUCING, (descriptor.type_info,), make)

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return the aggregating state of a descriptor; the same object each time."""

        def make(table: ValueTable, policy: TtlPolicy | None) -> AggregatingState[Any, Any]:
            return _AggregatingState(
                self._cell(table, policy), self._conversion(descriptor, table.codec), descriptor.get_agg_function()
            )

        return self._get(descriptor, tables.AGGREGATING, (descriptor.type_info,), make)

    def table_of(self, descriptor: StateDescriptor) -> tuple[Any, Convert | None]:
        """Return what lies behind a state, for operators that fold by themselves.

        That is its table, and what checks values before they are put in; None if anything goes.
        """
        self.get(descriptor)
        table: Any = self._tables[descriptor.get_name()]
        return table, self._conversion(descriptor, table.codec)

    def grouped_table_of(
        self,
        descriptor: ListStateDescriptor | ReducingStateDescriptor | AggregatingStateDescriptor,
        grouped_by: Literal["namespace", "key"],
    ) -> tuple[PaneTable | GroupedLists, Convert | None]:
        """Return a table as `table_of` does, but grouped; for states that have no handle and nothing in the void namespace."""
        if isinstance(descriptor, ListStateDescriptor):
            kind, type_info = tables.LIST, descriptor.element_type_info
        else:
            reducing = isinstance(descriptor, ReducingStateDescriptor)
            kind, type_info = tables.REDUCING if reducing else tables.AGGREGATING, descriptor.type_info
        name = descriptor.get_name()
        meta = TableMeta(
            kind=kind, key_type=self._key_type, types=(type_info,), max_parallelism=self._max_parallelism, grouped_by=grouped_by
        )
        table = self._tables[name] = self._operator.table("keyed", name, meta, self._now)
        assert isinstance(table, (PaneTable, GroupedLists))
        return table, self._conversion(descriptor, table.codec)

    def in_namespace(self) -> NamespacedBackend:
        """Return a view of the same state with a current namespace of its own."""
        return NamespacedBackend(self)

    def timer_service(self, name: str = "timers") -> InternalTimerService:
        """Return the timers of that name; the same object each time."""
        service = self._timers.get(name)
        if service is None:
            meta = TableMeta(kind=tables.TIMERS, key_type=self._key_type, types=(), max_parallelism=self._max_parallelism)
            table = self._operator.table(tables.TIMERS, name, meta, self._now)
            assert isinstance(table, TimerTable)
            service = self._timers[name] = InternalTimerService(table)
        return service

    def keys(self, name: str, namespace: Any = None) -> Iterator[Any]:
        """Return the keys that have something in a state; raises StateError if the state was not asked for yet."""
        table = self._tables.get(name)
        if table is None:
            raise StateError(f"there is no state {name!r}; there are {sorted(self._tables)}")
        for address in table.addresses():
            if namespace_of(address) == namespace:
                yield original_key(key_of(address))

    def keys_and_namespaces(self, name: str) -> list[tuple[Any, Any]]:
        """Return where a state that was asked for has something: keys as in `current_key`, and namespaces."""
        return [(key_of(address), namespace_of(address)) for address in self._tables[name].addresses()]

    def forget(self, *, logged: bool) -> None:
        """Drop all state and timers: those of the one key there is, in batch mode, which is done for good.

        `logged` says whether the key began in an epoch before; else nothing of it needs to be logged.
        """
        for table in self._tables.values():
            table.forget(logged=logged)
        for service in self._timers.values():
            service.forget(logged=logged)

    def get(self, descriptor: StateDescriptor) -> State:
        """Return the state of a descriptor of any kind."""
        match descriptor:
            case ValueStateDescriptor():
                return self.get_state(descriptor)
            case ListStateDescriptor():
                return self.get_list_state(descriptor)
            case MapStateDescriptor():
                return self.get_map_state(descriptor)
            case ReducingStateDescriptor():
                return self.get_reducing_state(descriptor)
            case AggregatingStateDescriptor():
                return self.get_aggregating_state(descriptor)
            case _:
                raise StateError(f"expected the descriptor of a state; got {descriptor!r} of type {type(descriptor).__name__}")

    def apply_to_all_keys(self, descriptor: StateDescriptor, function: Callable[[Any, Any], Any]) -> None:
        """Call a function with (key, state) for each key that has something in a state; the current key is the same after it."""
        state = self.get(descriptor)
        key, namespace = self.current_key, self.current_namespace
        self.current_namespace = None
        try:
            for address in self._tables[descriptor.get_name()].addresses():
                if namespace_of(address) is None:
                    self.current_key = address
                    function(original_key(address), state)
        finally:
            self.current_key, self.current_namespace = key, namespace

    def _cell(self, table: ValueTable, policy: TtlPolicy | None) -> _Cell:
        return _Cell(self, table) if policy is None else _TtlCell(self, table, policy, self._now)

    def _get(
        self,
        descriptor: StateDescriptor,
        kind: str,
        types: tuple[TypeInformation, ...],
        make: Callable[[Any, TtlPolicy | None], StateT],
    ) -> StateT:
        name = descriptor.get_name()
        policy = TtlPolicy.of(descriptor.ttl_config)
        meta = TableMeta(
            kind=kind, key_type=self._key_type, types=types, ttl=policy is not None, max_parallelism=self._max_parallelism
        )
        known = self._states.get(name)
        if known is not None:
            if known[0] != meta:
                raise StateError(
                    f"state {name!r} of operator {self._operator.uid} is asked for as {meta}, but was declared as {known[0]}",
                    hint="give each state of an operator a name of its own.",
                )
            return known[1]  # type: ignore[return-value]
        table = self._operator.table("keyed", name, meta, self._now)
        state = make(table, policy)
        if policy is not None:
            self._operator.set_sweeper("keyed", name, Sweeper(table, policy, self._now))
        self._states[name] = meta, state
        self._tables[name] = table
        return state

    def _conversion(self, descriptor: StateDescriptor, codec: Codec) -> Convert | None:
        return conversion(self._what(descriptor), codec)

    def _what(self, descriptor: StateDescriptor) -> str:
        return f"state {descriptor.get_name()!r} of operator {self._operator.uid}"


class NamespacedBackend(KeyedStateBackend):
    """The state of a backend's current key in a namespace: `current_namespace`, which its owner sets; never void.

    Handles got here and handles got from the backend, or from another view, can be used side by side.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend
        super().__init__(backend._operator, backend._key_type, backend._max_parallelism, backend.key_groups, backend._now)
        self._tables = backend._tables
        self.current_namespace = ""

    @property
    def current_key(self) -> Any:
        """The key of the backend."""
        return self._backend.current_key

    @current_key.setter
    def current_key(self, key: Any) -> None:
        assert key is NO_KEY, "the key is set on the backend"

    def address(self) -> Address:
        return Namespaced(self._backend.current_key, self.current_namespace)

    def merge(self, state: Any, target: Any, sources: Iterable[Any]) -> None:
        """Move what a list, reducing or aggregating state has in some namespaces into another one.

        Raises StateError for other state, which cannot be merged.
        """
        if not isinstance(state, (TableListState, _TtlListState, _ReducingState, _AggregatingState)):
            raise StateError(
                f"{type(state).__name__.lstrip('_')} cannot be merged",
                hint="use list, reducing or aggregating state in a trigger for windows that are merged.",
            )
        for source in sources:
            self.current_namespace = source
            taken = state.take()
            self.current_namespace = target
            if taken:
                state.merge(taken[0])
        self.current_namespace = target


def conversion(what: str, codec: Codec, *, nullable: bool = False) -> Convert | None:
    """Return what checks and converts values on their way into state; None if anything goes."""
    convert = codec.convert
    if convert is None:
        return None

    def checked(value: Any) -> Any:
        if value is None:
            if nullable:
                return None
            raise TypeMismatchError(f"{what} holds values of type {codec.type_info!r}; got None", hint="clear() empties state.")
        try:
            return convert(value)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"{what}: {error}") from error

    return checked


def finding(what: str, key_codec: Codec) -> Convert | None:
    """Return what makes of a key of a map the one that it is stored as; None if that is equal to it anyway."""
    return None if is_stored_as_given(key_codec.type_info) else conversion(what, key_codec)


class _FastValueState(ValueState[Any]):
    """Value state of values that cannot change, without time-to-live."""

    __slots__ = ("_backend", "_convert", "_data", "_dirty", "_exact", "_table")

    def __init__(self, backend: _Scope, table: ValueTable, convert: Convert | None) -> None:
        self._backend = backend
        self._table = table
        self._data = table.data
        self._dirty = table.dirty
        self._exact = table.codec.exact
        self._convert: Convert = convert or (lambda value: value)

    def value(self) -> Any:
        backend = self._backend
        return self._data.get(backend.current_key if backend.current_namespace is None else backend.address())

    def update(self, value: Any) -> None:
        if value.__class__ is not self._exact:
            value = self._convert(value)
        backend = self._backend
        address = backend.current_key if backend.current_namespace is None else backend.address()
        self._data[address] = value
        self._dirty[address] = None

    def clear(self) -> None:
        self._table.remove(self._backend.address())


class _Cell:
    """One value for the current key: what value, reducing and aggregating state are made of."""

    __slots__ = ("_backend", "_table")

    def __init__(self, backend: _Scope, table: ValueTable) -> None:
        self._backend = backend
        self._table = table

    def get(self) -> Any:
        backend = self._backend
        return self._table.get(backend.current_key if backend.current_namespace is None else backend.address())

    def put(self, value: Any) -> None:
        backend = self._backend
        self._table.put(backend.current_key if backend.current_namespace is None else backend.address(), value)

    def clear(self) -> None:
        self._table.remove(self._backend.address())


class _TtlCell(_Cell):
    __slots__ = ("_now", "_policy")

    def __init__(self, backend: _Scope, table: ValueTable, policy: TtlPolicy, now: Callable[[], int]) -> None:
        super().__init__(backend, table)
        self._policy = policy
        self._now = now

    def get(self) -> Any:
        address = self._backend.address()
        stamped = self._table.get(address)
        if stamped is None:
            return None
        stamp, value = stamped
        now = self._now()
        if self._policy.is_expired(stamp, now):
            self._table.remove(address)
            return None if self._policy.hide_expired else value
        if self._policy.renew_on_read and stamp != now:
            self._table.put(address, (now, value))
        return value

    def put(self, value: Any) -> None:
        self._table.put(self._backend.address(), (self._now(), value))


class _ObjectValueState(ValueState[Any]):
    """Value state of values that can change or have no declared type, without time-to-live; see ValueTable.get and put."""

    __slots__ = ("_backend", "_convert", "_data", "_dirty", "_hot", "_table", "_untyped")

    def __init__(self, backend: _Scope, table: ValueTable, convert: Convert | None) -> None:
        self._backend = backend
        self._table = table
        self._data = table.data
        self._dirty = table.dirty
        self._hot = table.hot
        self._untyped = table.codec.untyped
        self._convert = convert

    def value(self) -> Any:
        backend = self._backend
        address = backend.current_key if backend.current_namespace is None else backend.address()
        if self._hot:
            value = self._hot.get(address)
            if value is not None:
                return value
        frozen = self._data.get(address)
        return frozen if frozen.__class__ is not bytes else self._table.get(address)

    def update(self, value: Any) -> None:
        if self._convert is not None:
            value = self._convert(value)
        if value is None:  # an untyped state reads as None either way
            self.clear()
            return
        backend = self._backend
        address = backend.current_key if backend.current_namespace is None else backend.address()
        if self._untyped and value.__class__ in SCALARS:
            if self._hot:
                self._hot.pop(address, None)
            self._data[address] = value
            self._dirty[address] = None
        else:
            self._hot[address] = value

    def clear(self) -> None:
        self._table.remove(self._backend.address())


class _TtlValueState(ValueState[Any]):
    __slots__ = ("_cell", "_convert")

    def __init__(self, cell: _Cell, convert: Convert | None) -> None:
        self._cell = cell
        self._convert = convert

    def value(self) -> Any:
        return self._cell.get()

    def update(self, value: Any) -> None:
        if self._convert is not None:
            value = self._convert(value)
        if value is None:  # an untyped state reads as None either way
            self._cell.clear()
        else:
            self._cell.put(value)

    def clear(self) -> None:
        self._cell.clear()


class _ReducingState(ReducingState[Any]):
    __slots__ = ("_cell", "_convert", "_reduce")

    def __init__(self, cell: _Cell, convert: Convert | None, reduce: Callable[[Any, Any], Any]) -> None:
        self._cell = cell
        self._convert = convert
        self._reduce = reduce

    def get(self) -> Any:
        return self._cell.get()

    def add(self, value: Any) -> None:
        reduced = self._cell.get()
        result = value if reduced is None else self._reduce(reduced, value)
        self._cell.put(result if self._convert is None else self._convert(result))

    def take(self) -> tuple[Any, ...]:
        """Empty the state and return what was in it, as the only item; nothing if it was empty."""
        return _take(self._cell)

    def merge(self, taken: Any) -> None:
        """Put in what `take` gave elsewhere."""
        self.add(taken)

    def clear(self) -> None:
        self._cell.clear()


class _AggregatingState(AggregatingState[Any, Any]):
    __slots__ = ("_cell", "_convert", "_function")

    def __init__(self, cell: _Cell, convert: Convert | None, function: Any) -> None:
        self._cell = cell
        self._convert = convert
        self._function = function

    def get(self) -> Any:
        accumulator = self._cell.get()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        if value is None:
            self._cell.clear()
            return
        accumulator = self._cell.get()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        accumulator = self._function.add(value, accumulator)
        self._cell.put(accumulator if self._convert is None else self._convert(accumulator))

    def take(self) -> tuple[Any, ...]:
        """Empty the state and return its accumulator, as the only item; nothing if it was empty."""
        return _take(self._cell)

    def merge(self, taken: Any) -> None:
        """Put in what `take` gave elsewhere."""
        accumulator = self._cell.get()
        result = taken if accumulator is None else self._function.merge(accumulator, taken)
        self._cell.put(result if self._convert is None else self._convert(result))

    def clear(self) -> None:
        self._cell.clear()


def _take(cell: _Cell) -> tuple[Any, ...]:
    value = cell.get()
    if value is None:
        return ()
    cell.clear()
    return (value,)


class TableListState(ListState[Any]):
    """List state over a table; also operator state, whose scope has one fixed address."""

    __slots__ = ("_backend", "_convert", "_table")

    def __init__(self, backend: _Scope, table: ListTable, convert: Convert | None) -> None:
        self._backend = backend
        self._table = table
        self._convert = convert

    def get(self) -> list[Any]:
        return self._table.get(self._backend.address())

    def add(self, value: Any) -> None:
        if self._convert is not None:
            value = self._convert(value)
        self._table.append(self._backend.address(), value)

    def add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.add(value)

    def update(self, values: Iterable[Any]) -> None:
        convert = self._convert
        self._table.replace(self._backend.address(), values if convert is None else [convert(value) for value in values])

    def take(self) -> tuple[Any, ...]:
        """Empty the state and return its elements, as the only item; nothing if it was empty."""
        values = self.get()
        self.clear()
        return (values,) if values else ()

    def merge(self, taken: Any) -> None:
        """Put in what `take` gave elsewhere."""
        self.add_all(taken)

    def clear(self) -> None:
        self._table.remove(self._backend.address())


class _TtlListState(ListState[Any]):
    __slots__ = ("_backend", "_convert", "_now", "_policy", "_table")

    def __init__(
        self, backend: _Scope, table: ListTable, convert: Convert | None, policy: TtlPolicy, now: Callable[[], int]
    ) -> None:
        self._backend = backend
        self._table = table
        self._convert = convert
        self._policy = policy
        self._now = now

    def _stamped(self, value: Any) -> tuple[int, Any]:
        return self._now(), value if self._convert is None else self._convert(value)

    def get(self) -> list[Any]:
        address, now, policy = self._backend.address(), self._now(), self._policy
        stamped = self._table.get(address)
        alive = [(stamp, value) for stamp, value in stamped if not policy.is_expired(stamp, now)]
        if policy.renew_on_read and any(stamp != now for stamp, _ in alive):
            self._table.replace(address, [(now, value) for _, value in alive])
        elif len(alive) < len(stamped):
            self._table.replace(address, alive)
        return [value for _, value in (alive if policy.hide_expired else stamped)]

    def add(self, value: Any) -> None:
        self._table.append(self._backend.address(), self._stamped(value))

    def add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.add(value)

    def update(self, values: Iterable[Any]) -> None:
        self._table.replace(self._backend.address(), [self._stamped(value) for value in values])

    def take(self) -> tuple[Any, ...]:
        """Empty the state and return its elements, as the only item; nothing if it was empty."""
        values = self.get()
        self.clear()
        return (values,) if values else ()

    def merge(self, taken: Any) -> None:
        """Put in what `take` gave elsewhere."""
        self.add_all(taken)

    def clear(self) -> None:
        self._table.remove(self._backend.address())


class _MapState(MapState[Any, Any]):
    """`keys`: what is done with a key before an entry is put, and before one is looked up."""

    __slots__ = ("_backend", "_convert", "_convert_key", "_find", "_table")

    def __init__(
        self, backend: _Scope, table: MapTable, keys: tuple[Convert | None, Convert | None], convert: Convert | None
    ) -> None:
        self._backend = backend
        self._table = table
        self._convert_key, self._find = keys
        self._convert = convert

    def get(self, key: Any) -> Any:
        return self._table.get(self._backend.address(), key if self._find is None else self._find(key))

    def put(self, key: Any, value: Any) -> None:
        if self._convert_key is not None:
            key = self._convert_key(key)
        if self._convert is not None:
            value = self._convert(value)
        self._table.put(self._backend.address(), key, value)

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        for key, value in dict_value.items() if isinstance(dict_value, Mapping) else dict_value:
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._table.remove(self._backend.address(), key if self._find is None else self._find(key))

    def contains(self, key: Any) -> bool:
        return self._table.contains(self._backend.address(), key if self._find is None else self._find(key))

    def items(self) -> list[tuple[Any, Any]]:
        return self._table.entries(self._backend.address())

    def keys(self) -> list[Any]:
        return self._table.keys(self._backend.address())

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return self._backend.address() not in self._table.data

    def clear(self) -> None:
        self._table.clear(self._backend.address())


class _TtlMapState(_MapState):
    __slots__ = ("_now", "_policy")

    def __init__(
        self,
        backend: _Scope,
        table: MapTable,
        keys: tuple[Convert | None, Convert | None],
        convert: Convert | None,
        policy: TtlPolicy,
        now: Callable[[], int],
    ) -> None:
        super().__init__(backend, table, keys, convert)
        self._policy = policy
        self._now = now

    def put(self, key: Any, value: Any) -> None:
        if self._convert_key is not None:
            key = self._convert_key(key)
        if self._convert is not None:
            value = self._convert(value)
        self._table.put(self._backend.address(), key, (self._now(), value))

    def _seen(self, address: Address, key: Any, stamped: tuple[int, Any], now: int) -> bool:
        """Account for a read of an entry; return whether it may be seen."""
        stamp, value = stamped
        if self._policy.is_expired(stamp, now):
            self._table.remove(address, key)
            return not self._policy.hide_expired
        if self._policy.renew_on_read and stamp != now:
            self._table.put(address, key, (now, value))
        return True

    def get(self, key: Any) -> Any:
        address = self._backend.address()
        if self._find is not None:
            key = self._find(key)
        stamped = self._table.get(address, key)
        return stamped[1] if stamped is not None and self._seen(address, key, stamped, self._now()) else None

    def contains(self, key: Any) -> bool:
        address = self._backend.address()
        if self._find is not None:
            key = self._find(key)
        stamped = self._table.get(address, key)
        return stamped is not None and self._seen(address, key, stamped, self._now())

    def items(self) -> list[tuple[Any, Any]]:
        address, now = self._backend.address(), self._now()
        return [(key, stamped[1]) for key, stamped in self._table.entries(address) if self._seen(address, key, stamped, now)]

    def keys(self) -> list[Any]:
        return [key for key, _ in self.items()]

    def is_empty(self) -> bool:
        return not self.items()
