"""The state handles that functions use. Tables create the handles of value state without time-to-live themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partialmethod
from typing import Any, NoReturn

from flinkish.common.conversion import same
from flinkish.common.errors import InvalidArgumentError, StateError, TypeMismatchError
from flinkish.runtime.keys import is_stored_as_given
from flinkish.runtime.state.backend import Convert, ListTable, MapTable, Scope, ValueTable
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.tables import OPERATOR_ADDRESS
from flinkish.runtime.state.ttl import ExpiringLists, ExpiringMaps, ExpiringValues
from flinkish.udf.functions import AggregateFunction, ReduceFunction
from flinkish.udf.state import (
    AggregatingState,
    BroadcastState,
    ListState,
    MapState,
    ReadOnlyBroadcastState,
    ReducingState,
    State,
    ValueState,
)


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


class Fold:
    """How records are folded into an accumulator: by a ReduceFunction or an AggregateFunction.

    `into` (accumulator or None, record) -> accumulator, checked; `add` (record, accumulator) -> accumulator and `merge`
    (accumulator, accumulator) -> accumulator, not checked; `result` of an accumulator. `convert` checks accumulators on their way
    into state, except instances of exactly the class `exact`. `copy` copies a first record that becomes the accumulator. `what`
    is the name of the fold in errors.
    """

    def __init__(
        self,
        function: ReduceFunction | AggregateFunction,
        what: str,
        convert: Convert | None = None,
        *,
        exact: type | None = None,
        copy: Callable[[Any], Any] | None = None,
    ) -> None:
        self.function = function
        self._what = what
        self.convert = convert
        refuse_nothing = self.refuse_nothing
        self.add: Callable[[Any, Any], Any]
        self.merge: Callable[[Any, Any], Any]
        self.result: Callable[[Any], Any]
        if isinstance(function, ReduceFunction):
            reduce = self.merge = function.reduce
            self.add = lambda value, accumulator: reduce(accumulator, value)
            self.result, first = same, copy or same

            def into(accumulator: Any, value: Any) -> Any:
                accumulator = first(value) if accumulator is None else reduce(accumulator, value)
                if accumulator is None:
                    refuse_nothing(value)
                return accumulator if convert is None or accumulator.__class__ is exact else convert(accumulator)

        else:
            create, add = function.create_accumulator, function.add
            self.add = add
            self.merge, self.result = function.merge, function.get_result

            def into(accumulator: Any, value: Any) -> Any:
                accumulator = add(value, create() if accumulator is None else accumulator)
                if accumulator is None:
                    refuse_nothing(value)
                return accumulator if convert is None or accumulator.__class__ is exact else convert(accumulator)

        self.into: Callable[[Any, Any], Any] = into

    def merged(self, accumulator: Any, other: Any) -> Any:
        """Return the accumulator of two, the first of which may be None, checked like that of `into`."""
        result = other if accumulator is None else self.merge(accumulator, other)
        if result is None:
            self.refuse_nothing(other, "merge")
        return result if self.convert is None else self.convert(result)

    def refuse_nothing(self, value: Any, method: str = "add") -> None:
        """Raise an error for a None that `method` returned for a value: with it, all records before this one would be lost.

        There is no error if None is a valid result: a reduce function may return a record that is None, and an aggregate function
        may use None as its empty accumulator.
        """
        if isinstance(self.function, ReduceFunction):
            if value is not None:
                raise InvalidArgumentError(
                    f"reduce of {self._what} must return the combined record; got None",
                    hint="check that each branch returns a value.",
                )
        elif self.function.create_accumulator() is not None:
            raise InvalidArgumentError(
                f"{method} of {self._what} must return the accumulator; got None",
                hint="a function that changes the accumulator must return it, too.",
            )


class OneAddress:
    """The scope of operator state: it belongs to no key."""

    current_key: Any = OPERATOR_ADDRESS
    current_namespace: Any = None

    def address(self) -> Any:
        return OPERATOR_ADDRESS


class TableValueState(ValueState[Any]):
    """Value state with time-to-live."""

    def __init__(self, backend: Scope, table: ExpiringValues, convert: Convert | None) -> None:
        self._backend = backend
        self._table = table
        self._convert = convert

    def value(self) -> Any:
        return self._table.get(self._backend.address())

    def update(self, value: Any) -> None:
        if self._convert is not None:
            value = self._convert(value)
        if value is None:  # an untyped state reads as None either way
            self.clear()
        else:
            self._table.put(self._backend.address(), value)

    def clear(self) -> None:
        self._table.remove(self._backend.address())


class _FoldingState(State):
    """Reducing and aggregating state; the value is an accumulator."""

    __slots__ = ("_backend", "_fold", "_into", "_table")
    _none_clears: bool

    def __init__(self, backend: Scope, table: ValueTable | ExpiringValues, fold: Fold) -> None:
        self._backend = backend
        self._table = table
        self._fold = fold
        self._into = fold.into

    def get(self) -> Any:
        accumulator = self._table.get(self._backend.address())
        return None if accumulator is None else self._fold.result(accumulator)

    def add(self, value: Any) -> None:
        if value is None and self._none_clears:
            self.clear()
            return
        backend, table = self._backend, self._table
        address = backend.current_key if backend.current_namespace is None else backend.address()
        table.put(address, self._into(table.get(address), value))

    def take(self) -> tuple[Any, ...]:
        """Empty the state and return its accumulator, as the only item; nothing if it was empty."""
        value = self._table.get(self._backend.address())
        if value is None:
            return ()
        self.clear()
        return (value,)

    def merge(self, taken: Any) -> None:
        """Add an accumulator that `take` has returned for another namespace."""
        address = self._backend.address()
        self._table.put(address, self._fold.merged(self._table.get(address), taken))

    def clear(self) -> None:
        self._table.remove(self._backend.address())


class TableReducingState(_FoldingState, ReducingState[Any]):
    __slots__ = ()
    _none_clears = False

    def get(self) -> Any:
        return self._table.get(self._backend.address())


class TableAggregatingState(_FoldingState, AggregatingState[Any, Any]):
    __slots__ = ()
    _none_clears = True


class TableListState(ListState[Any]):
    """List state in a table; also used for operator state, whose scope has one fixed address."""

    __slots__ = ("_backend", "_convert", "_table")

    def __init__(self, backend: Scope, table: ListTable | ExpiringLists, convert: Convert | None) -> None:
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
        """Add elements that `take` has returned for another namespace."""
        self.add_all(taken)

    def clear(self) -> None:
        self._table.remove(self._backend.address())


class _Entries:
    """Reads of a map. `what` is its name in errors."""

    def __init__(self, backend: Scope, what: str, table: MapTable | ExpiringMaps) -> None:
        self.what = what
        self.table = table
        self._backend = backend
        self._find = finding(what, table.key_codec)

    def get(self, key: Any) -> Any:
        return self.table.get(self._backend.address(), key if self._find is None else self._find(key))

    def contains(self, key: Any) -> bool:
        return self.table.contains(self._backend.address(), key if self._find is None else self._find(key))

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self.table.entries(self._backend.address())

    def keys(self) -> list[Any]:
        return list(self.table.members(self._backend.address()))

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self.table.has(self._backend.address())


class _ChangeableEntries(_Entries):
    def __init__(self, backend: Scope, what: str, table: MapTable | ExpiringMaps) -> None:
        super().__init__(backend, what, table)
        self._convert_key = storing(what, table.key_codec)
        self._convert = conversion(what, table.codec, nullable=True)

    def put(self, key: Any, value: Any) -> None:
        if self._convert_key is not None:
            key = self._convert_key(key)
        if self._convert is not None:
            value = self._convert(value)
        self.table.put(self._backend.address(), key, value)

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        for key, value in dict_value.items() if isinstance(dict_value, Mapping) else dict_value:
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self.table.remove(self._backend.address(), key if self._find is None else self._find(key))

    def clear(self) -> None:
        self.table.clear(self._backend.address())


class TableMapState(_ChangeableEntries, MapState[Any, Any]):
    """Map state in a table."""


class TableBroadcastState(_ChangeableEntries, BroadcastState[Any, Any]):
    """The map of a subtask for the broadcast stream."""


class ReadOnlyBroadcastStateView(_Entries, ReadOnlyBroadcastState[Any, Any]):
    """The same map for the stream that is not broadcast, which can read but not change it.

    If a subtask could change it because of its own records, the copies of the subtasks would no longer be equal.
    """

    def clear(self) -> None:
        self._refuse("clear()")

    def _refuse(self, method: str, /, *_: Any, **__: Any) -> NoReturn:
        raise StateError(
            f"{self.what}: {method} is not possible here, where it is read-only",
            hint="change broadcast state in process_broadcast_element: there every subtask sees the same elements.",
        )

    put = partialmethod(_refuse, "put()")
    put_all = partialmethod(_refuse, "put_all()")
    remove = partialmethod(_refuse, "remove()")
    __setitem__ = partialmethod(_refuse, "assigning an entry")
    __delitem__ = partialmethod(_refuse, "deleting an entry")
