"""The state handles that functions use. Tables create the handles of value state without time-to-live themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flinkish.common.errors import InvalidArgumentError, TypeMismatchError
from flinkish.runtime.keys import is_stored_as_given
from flinkish.runtime.state.backend import Convert, ListTable, MapTable, Scope, ValueTable
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.tables import Address
from flinkish.runtime.state.ttl import TtlPolicy
from flinkish.udf.functions import AggregateFunction, ReduceFunction
from flinkish.udf.state import AggregatingState, ListState, MapState, ReducingState, State, ValueState


def conversion(what: str, codec: Codec, *, nullable: bool = False) -> Convert | None:
    """Return a function that checks and converts values on their way into state; None if all values are accepted unchanged."""
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
    """Return a function from a map's key to the stored form of the key; None if they are always equal."""
    return None if is_stored_as_given(key_codec.type_info) else conversion(what, key_codec)


def storing(what: str, key_codec: Codec) -> Convert | None:
    """Return a function from a map's key to the key that is stored; None if keys are stored as given.

    It refuses a key that its type would round, if `finding` does not convert: no look-up would find the rounded key.
    """
    convert = conversion(what, key_codec)
    if convert is None or not is_stored_as_given(key_codec.type_info):
        return convert

    def exact(key: Any) -> Any:
        converted = convert(key)
        if converted is not key and converted != key:
            raise TypeMismatchError(
                f"{what} holds keys of type {key_codec.type_info!r}; got {key!r}, which this type would change to {converted!r}",
                hint="round the key before, or declare the type that keys have.",
            )
        return converted

    return exact


def refuse_nothing(what: str, function: ReduceFunction | AggregateFunction, value: Any, method: str = "add") -> None:
    """Raise an error if a function has combined an accumulator and a record to None: all records before would be lost.

    A reduce function may return a record that is None, and an aggregate function an accumulator that it also begins with.
    """
    if isinstance(function, ReduceFunction):
        if value is not None:
            raise InvalidArgumentError(
                f"reduce of {what} must return the combined record; got None", hint="check that each branch returns a value."
            )
    elif function.create_accumulator() is not None:
        raise InvalidArgumentError(
            f"{method} of {what} must return the accumulator; got None",
            hint="a function that changes the accumulator must return it, too.",
        )


class Cell:
    """One value for the current key; the base of value, reducing and aggregating state."""

    __slots__ = ("_backend", "_table")

    def __init__(self, backend: Scope, table: ValueTable) -> None:
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


class TtlCell(Cell):
    __slots__ = ("_now", "_policy")

    def __init__(self, backend: Scope, table: ValueTable, policy: TtlPolicy, now: Callable[[], int]) -> None:
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


class TtlValueState(ValueState[Any]):
    __slots__ = ("_cell", "_convert")

    def __init__(self, cell: Cell, convert: Convert | None) -> None:
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


class _FoldingState(State):
    """The parts that reducing and aggregating state have in common; the value is an accumulator."""

    __slots__ = ("_cell", "_convert", "_function", "_what")

    def __init__(self, cell: Cell, convert: Convert | None, function: Any, what: str) -> None:
        self._cell = cell
        self._convert = convert
        self._function = function
        self._what = what

    def take(self) -> tuple[Any, ...]:
        """Empty the state and return its accumulator, as the only item; nothing if it was empty."""
        value = self._cell.get()
        if value is None:
            return ()
        self._cell.clear()
        return (value,)

    def clear(self) -> None:
        self._cell.clear()


class CellReducingState(_FoldingState, ReducingState[Any]):
    __slots__ = ("_reduce",)

    def __init__(self, cell: Cell, convert: Convert | None, function: ReduceFunction, what: str) -> None:
        super().__init__(cell, convert, function, what)
        self._reduce = function.reduce

    def get(self) -> Any:
        return self._cell.get()

    def add(self, value: Any) -> None:
        reduced = self._cell.get()
        result = value if reduced is None else self._reduce(reduced, value)
        if result is None:
            refuse_nothing(self._what, self._function, value)
        self._cell.put(result if self._convert is None else self._convert(result))

    def merge(self, taken: Any) -> None:
        """Add what `take` has returned for another namespace."""
        self.add(taken)


class CellAggregatingState(_FoldingState, AggregatingState[Any, Any]):
    __slots__ = ()

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
        if accumulator is None:
            refuse_nothing(self._what, self._function, value)
        self._cell.put(accumulator if self._convert is None else self._convert(accumulator))

    def merge(self, taken: Any) -> None:
        """Add what `take` has returned for another namespace."""
        accumulator = self._cell.get()
        result = taken if accumulator is None else self._function.merge(accumulator, taken)
        if result is None:
            refuse_nothing(self._what, self._function, taken, "merge")
        self._cell.put(result if self._convert is None else self._convert(result))


class TableListState(ListState[Any]):
    """List state in a table; also used for operator state, whose scope has one fixed address."""

    __slots__ = ("_backend", "_convert", "_table")

    def __init__(self, backend: Scope, table: ListTable, convert: Convert | None) -> None:
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
        """Add what `take` has returned for another namespace."""
        self.add_all(taken)

    def clear(self) -> None:
        self._table.remove(self._backend.address())


class TtlListState(TableListState):
    """List state in which each element has a time stamp."""

    __slots__ = ("_now", "_policy")

    def __init__(
        self, backend: Scope, table: ListTable, convert: Convert | None, policy: TtlPolicy, now: Callable[[], int]
    ) -> None:
        super().__init__(backend, table, convert)
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

    def update(self, values: Iterable[Any]) -> None:
        self._table.replace(self._backend.address(), [self._stamped(value) for value in values])


class TableMapState(MapState[Any, Any]):
    """Map state in a table; `keys` has the conversions of a key before an entry is put, and before one is looked up."""

    __slots__ = ("_backend", "_convert", "_convert_key", "_find", "_table")

    def __init__(
        self, backend: Scope, table: MapTable, keys: tuple[Convert | None, Convert | None], convert: Convert | None
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
        return self._table.members(self._backend.address())

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self._table.has(self._backend.address())

    def clear(self) -> None:
        self._table.clear(self._backend.address())


class TtlMapState(TableMapState):
    __slots__ = ("_now", "_policy")

    def __init__(
        self,
        backend: Scope,
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
        """Apply the policy to a read of an entry; return whether the entry is visible."""
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
