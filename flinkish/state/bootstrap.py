"""Makes the state of an operator from data: each record is passed to a function, which writes state by the usual handles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from flinkish.common.conversion import converter, same
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import Row, rows_of
from flinkish.runtime.keys import as_key, original_key
from flinkish.runtime.operators.runtime_context import SubtaskStateStore
from flinkish.runtime.operators.timestamps import timer_time
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.runtime.state.level_state import OperatorState
from flinkish.udf.functions import KeyedStateStore
from flinkish.udf.state import OperatorStateStore


class BootstrapTimerService:
    """Registers timers of the current key."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend

    def register_event_time_timer(self, timestamp: int) -> None:
        """Register a timer in event time (milliseconds)."""
        timers = self._backend.timers().event_time
        timers.register(timer_time(timestamp, "register_event_time_timer"), self._backend.current_key)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a timer in processing time (milliseconds)."""
        timers = self._backend.timers().processing_time
        timers.register(timer_time(timestamp, "register_processing_time_timer"), self._backend.current_key)


class KeyedStateBootstrapFunction(ABC):
    """Writes keyed state and timers, record by record. Give states the names and types that the program declares."""

    class Context:
        """The key of a record, and its timers."""

        def __init__(self, backend: KeyedStateBackend) -> None:
            self._backend = backend
            self._timer_service = BootstrapTimerService(backend)

        def get_current_key(self) -> Any:
            """Return the key of the record."""
            return original_key(self._backend.current_key)

        def timer_service(self) -> BootstrapTimerService:
            """Return the service that registers timers of the current key."""
            return self._timer_service

    def open(self, store: KeyedStateStore) -> None:  # noqa: B027 - a function may get its states later
        """Get the handles of states."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedStateBootstrapFunction.Context) -> None:
        """Write the state of a record's key."""


class StateBootstrapFunction(ABC):
    """Writes operator state: lists, union lists and broadcast state."""

    def open(self, store: OperatorStateStore) -> None:  # noqa: B027 - a function may get its states later
        """Get the handles of states."""

    @abstractmethod
    def process_element(self, value: Any) -> None:
        """Write the state of a record."""


class BootstrapTransformation:
    """The state of an operator, made from data when a savepoint is written. `OperatorTransformation` makes it."""

    def __init__(self, fill: Callable[[OperatorState, int, Callable[[], int]], None]) -> None:
        #: Fills the state of an operator, with its max parallelism and the processing time.
        self.fill = fill


class OperatorTransformation:
    """Makes the state of operators, with the names of Flink's State Processor API.

    >>> from flinkish.common import Types
    >>> from flinkish.datastream.state import ValueStateDescriptor
    >>> class Counts(KeyedStateBootstrapFunction):
    ...     def open(self, store):
    ...         self.count = store.get_state(ValueStateDescriptor("count", Types.LONG()))
    ...     def process_element(self, value, ctx):
    ...         self.count.update(value[1])
    >>> transformation = OperatorTransformation.bootstrap_with([("a", 1)]).key_by(lambda pair: pair[0], Types.STRING())
    >>> operator = transformation.transform(Counts())
    """

    @staticmethod
    def bootstrap_with(data: Any) -> OneInputOperatorTransformation:
        """Begin with records: an iterable, a stream, or a DataFrame of pandas or Spark or an Arrow table, whose records are rows.

        A stream is run as a job when the savepoint is written, and must end. Missing values of pandas (NaN) are None.
        """
        return OneInputOperatorTransformation(data)


class OneInputOperatorTransformation:
    """Records from which state is made."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def key_by(
        self, key_selector: Callable[[Any], Any] | str, key_type: TypeInformation | None = None
    ) -> KeyedOperatorTransformation:
        """Give each record a key, of the type that the program gives to `key_by`; a text is the name of a column."""
        select = (lambda row: row[key_selector]) if isinstance(key_selector, str) else key_selector
        return KeyedOperatorTransformation(self._data, select, key_type or Types.PICKLED_BYTE_ARRAY())

    def transform(self, function: StateBootstrapFunction) -> BootstrapTransformation:
        """Make operator state by a function. The savepoint has it for one subtask; a restore distributes it."""

        def fill(state: OperatorState, max_parallelism: int, now: Callable[[], int]) -> None:
            function.open(SubtaskStateStore(state))
            for record in _records(self._data):
                function.process_element(record)

        return BootstrapTransformation(fill)


class KeyedOperatorTransformation:
    """Records with keys, from which state is made."""

    def __init__(self, data: Any, select: Callable[[Any], Any], key_type: TypeInformation) -> None:
        self._data = data
        self._select = select
        self._key_type = key_type

    def transform(self, function: KeyedStateBootstrapFunction) -> BootstrapTransformation:
        """Make keyed state and timers by a function."""

        def fill(state: OperatorState, max_parallelism: int, now: Callable[[], int]) -> None:
            backend = KeyedStateBackend(state, self._key_type, max_parallelism, now)
            context = KeyedStateBootstrapFunction.Context(backend)
            function.open(backend)
            convert = converter(self._key_type) or same
            for record in _records(self._data):
                backend.current_key = as_key(convert(self._select(record)))
                function.process_element(record, context)

        return BootstrapTransformation(fill)


def _records(data: Any) -> Iterator[Any]:
    """Return the records of a stream, DataFrame, Arrow table or iterable."""
    if hasattr(data, "execute_and_collect"):
        with data.execute_and_collect("bootstrap") as results:
            yield from results
        return
    if hasattr(data, "toArrow"):
        data = data.toArrow()
    elif hasattr(data, "iterrows"):
        data = pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, pa.Table):
        yield from _rows(data)
    elif isinstance(data, Iterable):
        yield from data
    else:
        raise InvalidArgumentError(
            f"bootstrap_with() takes an iterable, a stream, a DataFrame or an Arrow table; got {type(data).__name__}"
        )


def _rows(table: pa.Table) -> Iterator[Row]:
    names = tuple(table.column_names)
    for position, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            # Python's datetime has microseconds; with nanoseconds, Arrow would make Timestamps of pandas.
            table = table.set_column(position, field.name, table[position].cast(pa.timestamp("us", field.type.tz)))
    for batch in table.to_batches(max_chunksize=1 << 14):
        yield from rows_of(names, [column.to_pylist() for column in batch.columns])
