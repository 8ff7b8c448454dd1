"""The keyed state of an operator: its tables, the handles that functions get, the current key and namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, cast, overload

from flinkish.common.errors import StateError
from flinkish.common.typeinfo import TypeInformation
from flinkish.runtime.keys import original_key
from flinkish.runtime.state import tables
from flinkish.runtime.state.backend import Convert, GroupedLists, PaneTable, Table, TimerTable
from flinkish.runtime.state.handles import (
    Fold,
    TableAggregatingState,
    TableListState,
    TableMapState,
    TableReducingState,
    TableValueState,
    conversion,
)
from flinkish.runtime.state.tables import Address, Grouping, Namespaced, TableMeta, key_of, namespace_of
from flinkish.runtime.state.ttl import ExpiringLists, ExpiringMaps, ExpiringValues, TtlPolicy
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
    StateTtlConfig,
    ValueState,
    ValueStateDescriptor,
    check_descriptor,
)


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


#: Maximum number of descriptors that are remembered, because a function may make a new one for each record.
_RECENT = 100


class Tables(Protocol):
    """One operator's part of a slot's state, which provides the tables."""

    uid: str

    def table(
        self, category: str, name: str, meta: TableMeta, now: Callable[[], int], policy: TtlPolicy | None = None
    ) -> Table: ...


class KeyedStateBackend(KeyedStateStore):
    """The keyed state of one operator in one subtask.

    `current_key` and `current_namespace` (None: void) are set by the operator before user code runs; all handles refer to them.
    """

    def __init__(
        self,
        operator: Tables,
        key_type: TypeInformation,
        max_parallelism: int,
        processing_time: Callable[[], int],
    ) -> None:
        self.current_key: Any = NO_KEY
        self.current_namespace: Any = None
        self._operator = operator
        self._key_type = key_type
        self._max_parallelism = max_parallelism
        self._now = processing_time
        self._states: dict[str, tuple[TableMeta, State]] = {}
        #: The states of recent descriptors, by the ids of these, because triggers request states for every record.
        self._recent: dict[int, tuple[StateDescriptor, StateTtlConfig | None, State]] = {}
        self._tables: dict[str, Table] = {}
        self._timers: TimerTable | None = None

    def address(self) -> Address:
        """Return the address of the current key and namespace."""
        if self.current_namespace is None:
            return self.current_key
        return Namespaced(self.current_key, self.current_namespace)

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState[Any]:
        check_descriptor(descriptor, ValueStateDescriptor, "get_state")
        return cast("ValueState[Any]", self.get(descriptor))

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        check_descriptor(descriptor, ListStateDescriptor, "get_list_state")
        return cast("ListState[Any]", self.get(descriptor))

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        check_descriptor(descriptor, MapStateDescriptor, "get_map_state")
        return cast("MapState[Any, Any]", self.get(descriptor))

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        check_descriptor(descriptor, ReducingStateDescriptor, "get_reducing_state")
        return cast("ReducingState[Any]", self.get(descriptor))

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        check_descriptor(descriptor, AggregatingStateDescriptor, "get_aggregating_state")
        return cast("AggregatingState[Any, Any]", self.get(descriptor))

    def get(self, descriptor: StateDescriptor) -> Any:
        """Return the state of a descriptor of any kind; the same object each time."""
        recent = self._recent.get(id(descriptor))
        if recent is not None and recent[1] is descriptor.ttl_config:
            return recent[2]
        policy = TtlPolicy.of(getattr(descriptor, "ttl_config", None))
        meta = self._meta(descriptor, ttl=policy is not None)
        name = descriptor.get_name()
        known = self._states.get(name)
        if known is None:
            table: Any = self._operator.table("keyed", name, meta, self._now, policy)
            self._tables[name] = table
            known = self._states[name] = meta, self._handle(descriptor, table, policy)
        elif known[0] != meta:
            raise StateError(
                f"state {name!r} of operator {self._operator.uid} is asked for as {meta}, but was declared as {known[0]}",
                hint="give each state of an operator a name of its own.",
            )
        if len(self._recent) >= _RECENT:
            self._recent.clear()
        self._recent[id(descriptor)] = descriptor, descriptor.ttl_config, known[1]
        return known[1]

    def _handle(self, descriptor: StateDescriptor, table: Any, policy: TtlPolicy | None) -> State:
        what, codec = self._what(descriptor), table.codec
        convert = conversion(what, codec)
        view = table if policy is None else _EXPIRING[table.meta.kind](table, policy, self._now)
        match descriptor:
            case ValueStateDescriptor():
                return TableValueState(self, view, convert) if policy is not None else table.value_state(self, convert)
            case ListStateDescriptor():
                return TableListState(self, view, convert)
            case ReducingStateDescriptor():
                return TableReducingState(self, view, Fold(descriptor.get_reduce_function(), what, convert, exact=codec.exact))
            case AggregatingStateDescriptor():
                return TableAggregatingState(self, view, Fold(descriptor.get_agg_function(), what, convert, exact=codec.exact))
            case _:
                return TableMapState(self, what, view)

    def _meta(self, descriptor: StateDescriptor, *, ttl: bool = False, grouped_by: Grouping = "address") -> TableMeta:
        kind, types = _kind_and_types(descriptor)
        return TableMeta(
            kind=kind,
            key_type=self._key_type,
            types=types,
            ttl=ttl,
            max_parallelism=self._max_parallelism,
            grouped_by=grouped_by,
        )

    def table_of(self, descriptor: StateDescriptor) -> tuple[Any, Convert | None]:
        """Return the table of a state and the function that converts values, for operators that fold records themselves.

        The function is None if all values are accepted unchanged.
        """
        self.get(descriptor)
        table: Any = self._tables[descriptor.get_name()]
        return table, conversion(self._what(descriptor), table.codec)

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
        name = descriptor.get_name()
        table: Any = self._operator.table("keyed", name, self._meta(descriptor, grouped_by=grouped_by), self._now)
        self._tables[name] = table
        return table, conversion(self._what(descriptor), table.codec)

    def in_namespace(self) -> NamespacedBackend:
        """Return a view of the same state that has its own current namespace."""
        return NamespacedBackend(self)

    def timers(self) -> TimerTable:
        """Return the timers of the operator; the same object each time. The address of each is that of its key and namespace."""
        if self._timers is None:
            meta = TableMeta(kind=tables.TIMERS, key_type=self._key_type, types=(), max_parallelism=self._max_parallelism)
            table = self._operator.table(tables.TIMERS, "timers", meta, self._now)
            self._timers = cast(TimerTable, table)
        return self._timers

    def expect(self, keys: Sequence[Any]) -> None:
        """Let tables read the state of keys that are used next, all at once."""
        for table in self._tables.values():
            table.expect(keys)

    def keys_and_namespaces(self, name: str) -> Iterator[tuple[Any, Any]]:
        """Iterate over the keys (as in `current_key`) and namespaces for which a requested state has values."""
        return ((key_of(address), namespace_of(address)) for address in self._tables[name].addresses())

    def forget(self, *, logged: bool) -> None:
        """Drop all state and timers in batch mode, where they belong to a single key that has ended.

        `logged` says whether the key began in an earlier epoch; otherwise nothing needs to be logged.
        """
        for table in self._tables.values():
            table.forget(logged=logged)
        if self._timers is not None:
            self._timers.event_time.forget(logged=logged)
            self._timers.processing_time.forget(logged=logged)

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

    def _what(self, descriptor: StateDescriptor) -> str:
        return f"state {descriptor.get_name()!r} of operator {self._operator.uid}"


#: What stamps and hides the values of a table that has a time-to-live.
_EXPIRING: Mapping[str, Callable[[Any, TtlPolicy, Callable[[], int]], Any]] = {
    tables.VALUE: ExpiringValues,
    tables.REDUCING: ExpiringValues,
    tables.AGGREGATING: ExpiringValues,
    tables.LIST: ExpiringLists,
    tables.MAP: ExpiringMaps,
}


def _kind_and_types(descriptor: StateDescriptor) -> tuple[str, tuple[TypeInformation, ...]]:
    match descriptor:
        case ValueStateDescriptor():
            return tables.VALUE, (descriptor.type_info,)
        case ListStateDescriptor():
            return tables.LIST, (descriptor.element_type_info,)
        case MapStateDescriptor():
            return tables.MAP, (descriptor.key_type_info, descriptor.value_type_info)
        case ReducingStateDescriptor():
            return tables.REDUCING, (descriptor.type_info,)
        case AggregatingStateDescriptor():
            return tables.AGGREGATING, (descriptor.type_info,)
        case _:
            raise StateError(f"expected the descriptor of a state; got {descriptor!r} of type {type(descriptor).__name__}")


class NamespacedBackend(KeyedStateBackend):
    """The state of a backend's current key in a namespace: `current_namespace`, which its owner sets; never void.

    Handles got here and handles got from the backend, or from another view, can be used side by side.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend
        super().__init__(backend._operator, backend._key_type, backend._max_parallelism, backend._now)
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
