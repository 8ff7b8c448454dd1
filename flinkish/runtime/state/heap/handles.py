"""Handles of value state for tables on the heap. The hot path: value() and update() are little more than a dict access."""

from __future__ import annotations

from typing import Any, Protocol

from flinkish.runtime.state.backend import Convert, Scope
from flinkish.runtime.state.codec import KEPT_AS_THEY_ARE, Codec
from flinkish.runtime.state.tables import Address, Frozen
from flinkish.udf.state import ValueState


class Values(Protocol):
    """The part of a value table that the handles use."""

    codec: Codec
    data: dict[Address, Frozen]
    hot: dict[Address, Any]
    dirty: dict[Address, None]

    def get(self, address: Address) -> Any: ...

    def remove(self, address: Address) -> None: ...


class FastValueState(ValueState[Any]):
    """Value state of immutable values, without time-to-live."""

    __slots__ = ("_backend", "_convert", "_data", "_dirty", "_exact", "_table")

    def __init__(self, backend: Scope, table: Values, convert: Convert | None) -> None:
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


class ObjectValueState(ValueState[Any]):
    """Value state of mutable or untyped values, without time-to-live; see ValueTable.get and put."""

    __slots__ = ("_backend", "_convert", "_data", "_dirty", "_hot", "_table", "_untyped")

    def __init__(self, backend: Scope, table: Values, convert: Convert | None) -> None:
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
        if self._untyped and value.__class__ in KEPT_AS_THEY_ARE:
            if self._hot:
                self._hot.pop(address, None)
            self._data[address] = value
            self._dirty[address] = None
        else:
            self._hot[address] = value

    def clear(self) -> None:
        self._table.remove(self._backend.address())
