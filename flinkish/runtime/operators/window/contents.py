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
from flinkish.runtime.state.backend import Convert, ListTable, ValueTable
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.handles import refuse_nothing
from flinkish.runtime.state.keyed import KeyedStateBackend, NamespacedBackend
from flinkish.udf.evictors import TimestampedValue
from flinkish.udf.functions import AggregateFunction, ReduceFunction
from flinkish.udf.state import AggregatingStateDescriptor, ListStateDescriptor, ReducingStateDescriptor


class Contents(ABC):
    """The contents of the current window."""

    scope: NamespacedBackend
    #: Name of the state.
    name: str
    _state: Any

    @abstractmethod
    def add(self, value: Any, timestamp: int | None) -> None:
        """Add a record."""

    @abstractmethod
    def elements(self) -> list[Any] | None:
        """Return the elements for the window function; None if the window is empty."""

    def clear(self) -> None:
        """Drop the contents."""
        self._state.clear()

    def merge(self, target: Namespace, sources: Sequence[Namespace]) -> None:
        """Move the contents of other windows into a window."""
        self.scope.merge(self._state, target, sources)


class Fold:
    """How records are folded into an accumulator: a ReduceFunction or an AggregateFunction.

    `first` value -> accumulator; `add` (value, accumulator) -> accumulator; `merge` (accumulator, accumulator) -> accumulator;
    `result` of an accumulator. `name` is that of the operator.
    """

    def __init__(
        self, function: ReduceFunction | AggregateFunction, fold_type: TypeInformation, name: str, state_name: str = CONTENTS
    ) -> None:
        self.function = function
        self._name = name
        if isinstance(function, ReduceFunction):
            reduce = function.reduce
            self.descriptor: ReducingStateDescriptor | AggregatingStateDescriptor = ReducingStateDescriptor(
                state_name, function, fold_type
            )
            self.first: Callable[[Any], Any] = itself
            self.add: Callable[[Any, Any], Any] = lambda value, accumulator: reduce(accumulator, value)
            self.merge: Callable[[Any, Any], Any] = reduce
            self.result: Callable[[Any], Any] = itself
        else:
            create, add = function.create_accumulator, function.add
            self.descriptor = AggregatingStateDescriptor(state_name, function, fold_type)
            self.first = lambda value: add(value, create())
            self.add = add
            self.merge = function.merge
            self.result = function.get_result

    def refuse_nothing(self, value: Any, method: str = "add") -> None:
        """Raise an error if the function must not have returned None when it added a record, or merged an accumulator."""
        refuse_nothing(repr(self._name), self.function, value, method)

    def copy_first(self, codec: Codec) -> None:
        """Copy the first record if it becomes the accumulator, because the function may change the accumulator."""
        if self.first is itself and not codec.immutable:
            freeze, thaw = codec.freeze, codec.thaw
            self.first = lambda value: thaw(freeze(value))


def itself(value: Any) -> Any:
    return value


class FoldedContents(Contents):
    """One accumulator for each window."""

    name = CONTENTS

    def __init__(self, backend: KeyedStateBackend, fold: Fold) -> None:
        self.scope = backend.in_namespace()
        self.fold = fold
        self._state = self.scope.get(fold.descriptor)
        self.table: ValueTable
        self.convert: Convert | None
        self.table, self.convert = self.scope.table_of(fold.descriptor)
        fold.copy_first(self.table.codec)

    def add(self, value: Any, timestamp: int | None) -> None:
        address = self.scope.address()
        accumulator = self.table.get(address)
        accumulator = self.fold.first(value) if accumulator is None else self.fold.add(value, accumulator)
        if accumulator is None:
            self.fold.refuse_nothing(value)
        self.table.put(address, accumulator if self.convert is None else self.convert(accumulator))

    def elements(self) -> list[Any] | None:
        accumulator = self.table.get(self.scope.address())
        if accumulator is None:
            return None
        result = self.fold.result(accumulator)
        return None if result is None else [result]

    def clear(self) -> None:
        self.table.remove(self.scope.address())


class ListedContents(Contents):
    """All records of each window."""

    name = CONTENTS

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
        """Return the records with their timestamps."""
        return [TimestampedValue(value, timestamp) for timestamp, value in self._state.get()]

    def replace(self, elements: list[TimestampedValue[Any]]) -> None:
        """Set the contents."""
        self._state.update([Row(element.timestamp, element.value) for element in elements])


def contents_of(config: WindowConfig, backend: KeyedStateBackend, name: str) -> Contents:
    """Create the contents class for the windows of an operator, whose name appears in errors."""
    if config.evictor is not None:
        return TimestampedContents(backend, config.input_type)
    if config.fold is not None:
        assert config.fold_type is not None
        return FoldedContents(backend, Fold(config.fold, config.fold_type, name))
    return ListedContents(backend, config.input_type)
