"""Broadcast state: one map for each subtask, and a read-only view of it for the other stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from flinkish.common.errors import StateError
from flinkish.runtime.state.backend import MapTable
from flinkish.runtime.state.handles import conversion, finding, storing
from flinkish.runtime.state.tables import OPERATOR_ADDRESS
from flinkish.udf.state import BroadcastState, ReadOnlyBroadcastState


class _ReadableState(ReadOnlyBroadcastState[Any, Any]):
    """Reads of the map. `what` is its name in errors."""

    __slots__ = ("_find", "table", "what")

    def __init__(self, what: str, table: MapTable) -> None:
        self.what = what
        self.table = table
        self._find = finding(what, table.key_codec)

    def get(self, key: Any) -> Any:
        return self.table.get(OPERATOR_ADDRESS, key if self._find is None else self._find(key))

    def contains(self, key: Any) -> bool:
        return self.table.contains(OPERATOR_ADDRESS, key if self._find is None else self._find(key))

    def items(self) -> list[tuple[Any, Any]]:
        return self.table.entries(OPERATOR_ADDRESS)

    def keys(self) -> list[Any]:
        return self.table.members(OPERATOR_ADDRESS)

    def values(self) -> list[Any]:
        return [value for _, value in self.table.entries(OPERATOR_ADDRESS)]

    def is_empty(self) -> bool:
        return not self.table.has(OPERATOR_ADDRESS)


class ReadOnlyBroadcastStateView(_ReadableState):
    """The same map for the side that is not broadcast, which can read but not change it.

    If a subtask could change it because of its own records, the copies of the subtasks would no longer be equal.
    """

    __slots__ = ()

    def put(self, key: Any, value: Any) -> None:
        self._refuse("put()")

    def put_all(self, dict_value: Any) -> None:
        self._refuse("put_all()")

    def remove(self, key: Any) -> None:
        self._refuse("remove()")

    def clear(self) -> None:
        self._refuse("clear()")

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse("assigning an entry")

    def __delitem__(self, key: Any) -> None:
        self._refuse("deleting an entry")

    def _refuse(self, what: str) -> NoReturn:
        raise StateError(
            f"{self.what}: {what} is not possible here, where it is read-only",
            hint="change broadcast state in process_broadcast_element: there every subtask sees the same elements.",
        )


class TableBroadcastState(_ReadableState, BroadcastState[Any, Any]):
    """The map for the broadcast side."""

    __slots__ = ("_convert", "_convert_key")

    def __init__(self, what: str, table: MapTable) -> None:
        super().__init__(what, table)
        self._convert_key = storing(what, table.key_codec)
        self._convert = conversion(what, table.codec, nullable=True)

    def put(self, key: Any, value: Any) -> None:
        if self._convert_key is not None:
            key = self._convert_key(key)
        if self._convert is not None:
            value = self._convert(value)
        self.table.put(OPERATOR_ADDRESS, key, value)

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        for key, value in dict_value.items() if isinstance(dict_value, Mapping) else dict_value:
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self.table.remove(OPERATOR_ADDRESS, key if self._find is None else self._find(key))

    def clear(self) -> None:
        self.table.clear(OPERATOR_ADDRESS)
