"""The stored contents of a window: one accumulator, or all records.

All classes refer to the window that the operator has set as the current namespace.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import Row
from flinkish.program.operators import WindowConfig
from flinkish.runtime.operators.window.namespaces import Namespace
from flinkish.runtime.operators.window.restored import CONTENTS, TIMESTAMPED_CONTENTS
from flinkish.runtime.state.backend import ListTable, ValueTable
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.handles import Fold
from flinkish.runtime.state.keyed import KeyedStateBackend, NamespacedBackend
from flinkish.udf.evictors import TimestampedValue
from flinkish.udf.functions import AggregateFunction, ReduceFunction
from flinkish.udf.state import AggregatingStateDescriptor, ListStateDescriptor, ReducingStateDescriptor

FoldDescriptor = ReducingStateDescriptor | AggregatingStateDescriptor


class Contents(ABC):
    """The contents of the current window."""

    scope: NamespacedBackend
    #: Name of the state.
    name = CONTENTS
    _state: Any

    @abstractmethod
    def add(self, value: Any, timestamp: int | None) -> None:
        """Add a record."""

    @abstractmethod
    def elements(self) -> list[Any] | None:
        """Return the elements for the window function; None if the window is empty."""

    def clear(self) -> None:
        self._state.clear()

    def merge(self, target: Namespace, sources: Sequence[Namespace]) -> None:
        """Move the contents of other windows into a window."""
        self.scope.merge(self._state, target, sources)


def fold_state(function: ReduceFunction | AggregateFunction, fold_type: TypeInformation, name: str = CONTENTS) -> FoldDescriptor:
    """Return the descriptor of the state that holds the accumulators of a function."""
    if isinstance(function, ReduceFunction):
        return ReducingStateDescriptor(name, function, fold_type)
    return AggregatingStateDescriptor(name, function, fold_type)


def copying(codec: Codec) -> Callable[[Any], Any] | None:
    """Return a function that copies records before they become accumulators, which may be changed; None if they are immutable."""
    freeze, thaw = codec.freeze, codec.thaw
    return None if codec.immutable else lambda value: thaw(freeze(value))


class FoldedContents(Contents):
    """One accumulator for each window."""

    def __init__(self, backend: KeyedStateBackend, config: WindowConfig, what: str) -> None:
        assert config.fold is not None
        assert config.fold_type is not None
        self.scope = backend.in_namespace()
        descriptor = fold_state(config.fold, config.fold_type)
        self._state = self.scope.get(descriptor)
        self.table: ValueTable
        self.table, convert = self.scope.table_of(descriptor)
        self._fold = Fold(config.fold, what, convert, copy=copying(self.table.codec))

    def add(self, value: Any, timestamp: int | None) -> None:
        address = self.scope.address()
        self.table.put(address, self._fold.into(self.table.get(address), value))

    def elements(self) -> list[Any] | None:
        accumulator = self.table.get(self.scope.address())
        result = None if accumulator is None else self._fold.result(accumulator)
        return None if result is None else [result]


class ListedContents(Contents):
    """All records of each window."""

    def __init__(self, backend: KeyedStateBackend, input_type: TypeInformation) -> None:
        self.scope = backend.in_namespace()
        descriptor = ListStateDescriptor(CONTENTS, input_type)
        self._state = self.scope.get_list_state(descriptor)
        self.table: ListTable = self.scope.table_of(descriptor)[0]

    def add(self, value: Any, timestamp: int | None) -> None:
        # The operator before this one has checked the type.
        self.table.append(self.scope.address(), value)

    def elements(self) -> list[Any] | None:
        return list(self._state.get()) or None


class TimestampedContents(Contents):
    """All records of each window with their timestamps, for evictors."""

    name = TIMESTAMPED_CONTENTS

    def __init__(self, backend: KeyedStateBackend, input_type: TypeInformation) -> None:
        self.scope = backend.in_namespace()
        # Rows are used because tuples cannot contain None, and both timestamp and record may be None.
        pairs = Types.ROW([Types.LONG(), input_type])
        self._state = self.scope.get_list_state(ListStateDescriptor(TIMESTAMPED_CONTENTS, pairs))

    def add(self, value: Any, timestamp: int | None) -> None:
        self._state.add(Row(timestamp, value))

    def elements(self) -> list[Any] | None:
        return [value for _, value in self._state.get()] or None

    def timestamped(self) -> list[TimestampedValue[Any]]:
        return [TimestampedValue(value, timestamp) for timestamp, value in self._state.get()]

    def replace(self, elements: list[TimestampedValue[Any]]) -> None:
        self._state.update([Row(element.timestamp, element.value) for element in elements])


def contents_of(config: WindowConfig, backend: KeyedStateBackend, what: str) -> Contents:
    """Create the contents class for the windows of an operator; `what` is its name in errors."""
    if config.evictor is not None:
        return TimestampedContents(backend, config.input_type)
    if config.fold is not None:
        return FoldedContents(backend, config, what)
    return ListedContents(backend, config.input_type)
