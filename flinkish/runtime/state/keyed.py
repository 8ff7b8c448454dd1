"""The keyed state of an operator: its tables, the handles that functions get, the current key and namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, TypeVar, cast, overload

from flinkish.common.errors import StateError
from flinkish.common.typeinfo import TypeInformation
from flinkish.runtime.keys import original_key
from flinkish.runtime.state import tables
from flinkish.runtime.state.backend import Convert, GroupedLists, ListTable, MapTable, PaneTable, Table, TimerTable, ValueTable
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.handles import (
    Cell,
    CellAggregatingState,
    CellReducingState,
    TableListState,
    TableMapState,
    TtlCell,
    TtlListState,
    TtlMapState,
    TtlValueState,
    conversion,
    finding,
    storing,
)
from flinkish.runtime.state.tables import (
    Address,
    Namespaced,
    TableMeta,
    key_of,
    namespace_of,
)
from flinkish.runtime.state.timers import InternalTimerService
from flinkish.runtime.state.ttl import Sweeper, TtlPolicy
from flinkish.udf.functions import KeyedStateStore
from flinkish.udf.state import (
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
    check_descriptor,
)

StateT = TypeVar("StateT", bound=State)


class NoKey:
    """The current key while there is none: it raises an error when it is hashed, so that a wrong use of state costs no check."""

    def __init__(self, why: str, hint: str) -> None:
        self._why = why
        self._hint = hint

    def __hash__(self) -> int:
        raise StateError(self._why, hint=self._hint)

    def __repr__(self) -> str:
        return "NO_KEY"


#: The current key before the first record.
NO_KEY: Any = NoKey(
    "keyed state or a timer was used while no record is processed, so there is no key",
    "use state in process_element and on_timer; in open() only get the handles.",
)


class Tables(Protocol):
    """One operator's part of a slot's state, which provides the tables."""

    uid: str

    def table(self, category: str, name: str, meta: TableMeta, now: Callable[[], int]) -> Table: ...

    def set_sweeper(self, category: str, name: str, sweeper: Sweeper) -> None: ...


class KeyedStateBackend(KeyedStateStore):
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
        self._timers: InternalTimerService | None = None

    def address(self) -> Address:
        """Return the address of the current key and namespace."""
        if self.current_namespace is None:
            return self.current_key
        return Namespaced(self.current_key, self.current_namespace)

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the value state of a descriptor; the same object each time."""
        check_descriptor(descriptor, ValueStateDescriptor, "get_state")

        def make(table: ValueTable, policy: TtlPolicy | None) -> ValueState[Any]:
            convert = self._conversion(descriptor, table.codec)
            if policy is None:
                return table.value_state(self, convert)
            return TtlValueState(TtlCell(self, table, policy, self._now), convert)

        return self._get(descriptor, tables.VALUE, (descriptor.type_info,), make)

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list state of a descriptor; the same object each time."""
        check_descriptor(descriptor, ListStateDescriptor, "get_list_state")

        def make(table: ListTable, policy: TtlPolicy | None) -> ListState[Any]:
            convert = self._conversion(descriptor, table.codec)
            if policy is None:
                return TableListState(self, table, convert)
            return TtlListState(self, table, convert, policy, self._now)

        return self._get(descriptor, tables.LIST, (descriptor.element_type_info,), make)

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the map state of a descriptor; the same object each time."""
        check_descriptor(descriptor, MapStateDescriptor, "get_map_state")

        def make(table: MapTable, policy: TtlPolicy | None) -> MapState[Any, Any]:
            what = self._what(descriptor)
            keys = storing(what, table.key_codec), finding(what, table.key_codec)
            convert = conversion(what, table.codec, nullable=True)
            if policy is None:
                return TableMapState(self, table, keys, convert)
            return TtlMapState(self, table, keys, convert, policy, self._now)

        return self._get(descriptor, tables.MAP, (descriptor.key_type_info, descriptor.value_type_info), make)

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the reducing state of a descriptor; the same object each time."""
        check_descriptor(descriptor, ReducingStateDescriptor, "get_reducing_state")

        def make(table: ValueTable, policy: TtlPolicy | None) -> ReducingState[Any]:
            function, what = descriptor.get_reduce_function(), self._what(descriptor)
            return CellReducingState(self._cell(table, policy), conversion(what, table.codec), function, what)

        return self._get(descriptor, tables.REDUCING, (descriptor.type_info,), make)

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return the aggregating state of a descriptor; the same object each time."""
        check_descriptor(descriptor, AggregatingStateDescriptor, "get_aggregating_state")

        def make(table: ValueTable, policy: TtlPolicy | None) -> AggregatingState[Any, Any]:
            function, what = descriptor.get_agg_function(), self._what(descriptor)
            return CellAggregatingState(self._cell(table, policy), conversion(what, table.codec), function, what)

        return self._get(descriptor, tables.AGGREGATING, (descriptor.type_info,), make)

    def table_of(self, descriptor: StateDescriptor) -> tuple[Any, Convert | None]:
        """Return the table of a state and the function that converts values, for operators that fold records themselves.

        The function is None if all values are accepted unchanged.
        """
        self.get(descriptor)
        table: Any = self._tables[descriptor.get_name()]
        return table, self._conversion(descriptor, table.codec)

    @overload
    def grouped_table_of(
        self, descriptor: ListStateDescriptor, grouped_by: Literal["namespace", "key"]
    ) -> tuple[GroupedLists, Convert | None]: ...

    @overload
    def grouped_table_of(
        self, descriptor: ReducingStateDescriptor | AggregatingStateDescriptor, grouped_by: Literal["namespace", "key"]
    ) -> tuple[PaneTable, Convert | None]: ...

    def grouped_table_of(
        self,
        descriptor: ListStateDescriptor | ReducingStateDescriptor | AggregatingStateDescriptor,
        grouped_by: Literal["namespace", "key"],
    ) -> tuple[PaneTable | GroupedLists, Convert | None]:
        """Return a grouped table, otherwise like `table_of`; for states without handles and without the void namespace."""
        if isinstance(descriptor, ListStateDescriptor):
            kind, type_info = tables.LIST, descriptor.element_type_info
        else:
            reducing = isinstance(descriptor, ReducingStateDescriptor)
            kind, type_info = tables.REDUCING if reducing else tables.AGGREGATING, descriptor.type_info
        name = descriptor.get_name()
        meta = TableMeta(
            kind=kind, key_type=self._key_type, types=(type_info,), max_parallelism=self._max_parallelism, grouped_by=grouped_by
        )
        table: Any = self._operator.table("keyed", name, meta, self._now)
        self._tables[name] = table
        return table, self._conversion(descriptor, table.codec)

    def in_namespace(self) -> NamespacedBackend:
        """Return a view of the same state that has its own current namespace."""
        return NamespacedBackend(self)

    def timer_service(self) -> InternalTimerService:
        """Return the timers of the operator; the same object each time."""
        if self._timers is None:
            meta = TableMeta(kind=tables.TIMERS, key_type=self._key_type, types=(), max_parallelism=self._max_parallelism)
            table = self._operator.table(tables.TIMERS, "timers", meta, self._now)
            self._timers = InternalTimerService(cast(TimerTable, table))
        return self._timers

    def keys_and_namespaces(self, name: str) -> list[tuple[Any, Any]]:
        """Return the keys (as in `current_key`) and namespaces for which a requested state has values."""
        return [(key_of(address), namespace_of(address)) for address in self._tables[name].addresses()]

    def forget(self, *, logged: bool) -> None:
        """Drop all state and timers in batch mode, where they belong to a single key that has ended.

        `logged` says whether the key began in an earlier epoch; otherwise nothing needs to be logged.
        """
        for table in self._tables.values():
            table.forget(logged=logged)
        if self._timers is not None:
            self._timers.forget(logged=logged)

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

    def _cell(self, table: ValueTable, policy: TtlPolicy | None) -> Cell:
        return Cell(self, table) if policy is None else TtlCell(self, table, policy, self._now)

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
        table: Any = self._operator.table("keyed", name, meta, self._now)
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
        """Move the values of a list, reducing or aggregating state from some namespaces into another one."""
        for source in sources:
            self.current_namespace = source
            taken = state.take()
            self.current_namespace = target
            if taken:
                state.merge(taken[0])
        self.current_namespace = target
