"""State of keyed functions: descriptors, handles and time-to-live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, Self, TypeAlias, TypeVar

from flinkish.common.arguments import instance_of, text_of
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.time import Duration, Time, milliseconds_of
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.udf.function_wrappers import reduce_function as as_reduce_function
from flinkish.udf.functions import AggregateFunction, ReduceFunction

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class OperatorStateStore(ABC):
    """Gives access to state that belongs to a subtask instead of a key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return the broadcast state of that name: a map that should be the same in every subtask.

        After a restore each subtask has its own map again; a new subtask has a copy of another one's.
        """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list of that name; a restore at another parallelism distributes the elements of all lists round-robin."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list of that name; after a restore it holds, in every subtask, the elements of all lists."""

    @abstractmethod
    def get_registered_state_names(self) -> set[str]:
        """Return the names of the lists that have been requested."""

    @abstractmethod
    def get_registered_broadcast_state_names(self) -> set[str]:
        """Return the names of the broadcast states that have been requested."""


class State(ABC):
    """A handle on state; it always refers to the state of the current key."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what is stored under the current key."""


class ValueState(State, Generic[T]):
    """One value for each key."""

    @abstractmethod
    def value(self) -> T | None:
        """Return the value of the current key, None if there is none."""

    @abstractmethod
    def update(self, value: T) -> None:
        """Replace the value of the current key."""


class AppendingState(State, Generic[IN, OUT]):
    """State to which values can be added."""

    @abstractmethod
    def get(self) -> OUT | None:
        """Return the values added, or the value computed from them."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add to the state of the current key."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged with another one, as session windows need."""


class ReducingState(MergingState[T, T]):
    """The values added for each key, reduced to one value; `get` returns None if there is none."""


class AggregatingState(MergingState[IN, OUT]):
    """The values added for each key, aggregated; `get` returns None if there is none, `add(None)` clears."""


class ListState(MergingState[T, Iterable[T]]):
    """A list for each key."""

    @abstractmethod
    def get(self) -> Iterable[T]:
        """Return the elements of the list of the current key; no elements if there is no list."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace the list; an empty one clears it."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add several values."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _ReadableMap(State, Generic[K, V]):
    """A map that can be read; a missing entry gives None instead of a KeyError, with `get` and with []."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of an entry, None if there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether there is such an entry."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return all entries."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return the keys of all entries."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return the values of all entries."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether there are no entries."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _WritableMap(_ReadableMap[K, V]):
    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set one entry."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set several entries: a dict, or pairs.

        Differs from Flink: PyFlink documents the dict but unpacks its keys, so that only pairs work there.
        """

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove one entry; nothing happens if there is none."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_WritableMap[K, V]):
    """A map for each key.

    A missing entry gives None instead of a KeyError, with `get` and with [].
    """


class ReadOnlyBroadcastState(_ReadableMap[K, V]):
    """The map that a broadcast stream fills, as the other stream sees it."""


class BroadcastState(_WritableMap[K, V], ReadOnlyBroadcastState[K, V]):
    """The map that a broadcast stream fills, the same in every subtask."""


class StateDescriptor(ABC):  # noqa: B024 - as in PyFlink: only its subclasses are of use
    """Names a state of an operator and gives its type; checkpoints contain the name.

    Attributes: `name`, `type_info` (of the whole: a ListTypeInfo for list state), `ttl_config` (None: never expires).
    """

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        self.name = text_of(f"The name of a {type(self).__name__}", name)
        self.type_info = type_info
        self.ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Have values expire, as configured."""
        hint = "StateTtlConfig.new_builder(Time.hours(1)).build()."
        self.ttl_config = instance_of(f"ttl_config of state {self.name!r}", ttl_config, StateTtlConfig, hint=hint)

    def _checked(self, type_info: TypeInformation, argument: str, name: str) -> TypeInformation:
        hint = "take one from Types, such as Types.LONG(); Types.PICKLED_BYTE_ARRAY() is for any object."
        return instance_of(f"{argument} of {type(self).__name__}({name!r})", type_info, TypeInformation, hint=hint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Describes state that holds one value for each key."""

    def __init__(self, name: str, value_type_info: TypeInformation) -> None:
        super().__init__(name, self._checked(value_type_info, "value_type_info", name))


class ListStateDescriptor(StateDescriptor):
    """Describes state that holds a list for each key; `element_type_info` is the type of its elements."""

    def __init__(self, name: str, elem_type_info: TypeInformation) -> None:
        self.element_type_info = self._checked(elem_type_info, "elem_type_info", name)
        super().__init__(name, Types.LIST(elem_type_info))


class MapStateDescriptor(StateDescriptor):
    """Describes state that holds a map for each key."""

    def __init__(self, name: str, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self.key_type_info = self._checked(key_type_info, "key_type_info", name)
        self.value_type_info = self._checked(value_type_info, "value_type_info", name)
        super().__init__(name, Types.MAP(key_type_info, value_type_info))


class ReducingStateDescriptor(StateDescriptor):
    """Describes state that reduces the values added to it; `reduce_function` is always a ReduceFunction object."""

    def __init__(
        self, name: str, reduce_function: ReduceFunction | Callable[[Any, Any], Any], type_info: TypeInformation
    ) -> None:
        super().__init__(name, self._checked(type_info, "type_info", name))
        self.reduce_function: ReduceFunction = as_reduce_function(reduce_function, f"ReducingStateDescriptor({name!r})")

    def get_reduce_function(self) -> ReduceFunction:
        """Return the function that reduces."""
        return self.reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes state that aggregates the values added to it; `type_info` is the type of the accumulator."""

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: TypeInformation) -> None:
        super().__init__(name, self._checked(state_type_info, "state_type_info", name))
        self.aggregate_function = instance_of(
            f"agg_function of AggregatingStateDescriptor({name!r})", agg_function, AggregateFunction
        )

    def get_agg_function(self) -> AggregateFunction:
        """Return the function that aggregates."""
        return self.aggregate_function


class StateTtlConfig:
    """How long state lives after it was last written (or read), in processing time.

    Example:

        >>> config = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
        >>> config.get_ttl().to_milliseconds()
        3600000
    """

    class UpdateType(Enum):
        """The accesses that renew the time-to-live of a value."""

        #: Nothing: time-to-live is off.
        Disabled = 0
        #: Creating it and every write.
        OnCreateAndWrite = 1
        #: These and every read.
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether an expired value may still be returned."""

        #: As long as it was not cleaned up yet.
        ReturnExpiredIfNotCleanedUp = 0
        #: Never.
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The time domain of the time-to-live."""

        ProcessingTime = 0

    class CleanupStrategies:
        """When expired values are removed, in addition to removal on read.

        flinkish always leaves expired values out of checkpoints. In each epoch it removes those of a part of the state, unless
        `disable_cleanup_in_background` was called. The other settings have no effect; they are kept for programs that read them.
        """

        class Strategies(Enum):
            """The kinds of strategies."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy(ABC):  # noqa: B024 - a marker, as in PyFlink
            """Base of the strategies."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A strategy without settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Check some entries with each access."""

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                """Return how many entries are checked each time."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Return whether each record triggers the cleanup, even if it does not access the state."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Remove expired values when the store compacts its files."""

            def __init__(
                self, query_time_after_num_entries: int, periodic_compaction_time: Duration | timedelta | None = None
            ) -> None:
                self._query_time_after_num_entries = query_time_after_num_entries
                month = Duration.of_days(30)
                period = month if periodic_compaction_time is None else periodic_compaction_time
                self._periodic_compaction_time = Duration.of_millis(
                    milliseconds_of(period, "periodic_compaction_time", kinds=(Duration,))
                )

            def get_query_time_after_num_entries(self) -> int:
                """Return after how many entries the time is read again."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """Return how old a file may get before it is compacted anyway."""
                return self._periodic_compaction_time

        EMPTY_STRATEGY = EmptyCleanupStrategy()

        def __init__(self, strategies: Mapping[Strategies, CleanupStrategy], is_cleanup_in_background: bool) -> None:
            self._strategies = dict(strategies)
            self._is_cleanup_in_background = is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            """Return whether the default cleanup is on."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            """Return whether expired values are left out of checkpoints."""
            return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(self) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            """Return the settings of the incremental cleanup; a default if only the background cleanup is on, else None."""
            strategy = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP)
            if isinstance(strategy, self.IncrementalCleanupStrategy):
                return strategy
            return self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            """Return the settings of the cleanup in compactions; a default if only the background cleanup is on, else None."""
            strategy = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER)
            if isinstance(strategy, self.RocksdbCompactFilterCleanupStrategy):
                return strategy
            return self.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None

    class Builder:
        """Makes a StateTtlConfig; by default writes renew the time-to-live, and expired values are never returned."""

        def __init__(self, ttl: Time | timedelta) -> None:
            self._ttl = _checked_ttl(ttl)
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[_Cleanup.Strategies, _Cleanup.CleanupStrategy] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> Self:
            """Set which accesses renew the time-to-live of a value."""
            self._update_type = instance_of("set_update_type()", update_type, StateTtlConfig.UpdateType)
            return self

        def update_ttl_on_create_and_write(self) -> Self:
            """Have writes renew the time-to-live of a value."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> Self:
            """Have reads and writes renew the time-to-live of a value."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> Self:
            """Set whether expired values may still be returned."""
            self._state_visibility = instance_of("set_state_visibility()", state_visibility, StateTtlConfig.StateVisibility)
            return self

        def return_expired_if_not_cleaned_up(self) -> Self:
            """Return expired values until they are cleaned up."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> Self:
            """Hide expired values."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic) -> Self:
            """Set which time is meant; there is only processing time."""
            self._ttl_time_characteristic = instance_of(
                "set_ttl_time_characteristic()", ttl_time_characteristic, StateTtlConfig.TtlTimeCharacteristic
            )
            return self

        def use_processing_time(self) -> Self:
            """Use processing time."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> Self:
            """Leave expired values out of checkpoints."""
            self._strategies[_Cleanup.Strategies.FULL_STATE_SCAN_SNAPSHOT] = _Cleanup.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> Self:
            """Record a strategy that checks `cleanup_size` entries with each access (or each record); it has no effect."""
            strategy = _Cleanup.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            self._strategies[_Cleanup.Strategies.INCREMENTAL_CLEANUP] = strategy
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | timedelta | None = None
        ) -> Self:
            """Record a strategy that removes expired values when the store compacts its files; it has no effect."""
            strategy = _Cleanup.RocksdbCompactFilterCleanupStrategy(query_time_after_num_entries, periodic_compaction_time)
            self._strategies[_Cleanup.Strategies.ROCKSDB_COMPACTION_FILTER] = strategy
            return self

        def disable_cleanup_in_background(self) -> Self:
            """Turn off the cleanup of a part of the state in each epoch."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time | timedelta) -> Self:
            """Set how long values live."""
            self._ttl = _checked_ttl(ttl)
            return self

        def build(self) -> StateTtlConfig:
            """Return the configuration."""
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                _Cleanup(self._strategies, self._is_cleanup_in_background),
            )

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: Time | timedelta,
        cleanup_strategies: CleanupStrategies,
    ) -> None:
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = _checked_ttl(ttl)
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time | timedelta) -> StateTtlConfig.Builder:
        """Begin a configuration with the time that values live."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Return which accesses renew the time-to-live of a value."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Return whether expired values may still be returned."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Return how long values live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Return which time is meant."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Return whether values expire at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """Return the strategies that remove expired values."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type}, state_visibility={self._state_visibility}, "
            f"ttl_time_characteristic={self._ttl_time_characteristic}, ttl={self._ttl}>"
        )


_Cleanup: TypeAlias = StateTtlConfig.CleanupStrategies


def check_descriptor(descriptor: object, kind: type[StateDescriptor], method: str) -> None:
    """Raise InvalidArgumentError unless a getter of state got a descriptor of its kind."""
    if not isinstance(descriptor, kind):
        types = "Types.STRING(), Types.LONG()" if kind is MapStateDescriptor else "Types.LONG()"
        name = descriptor if isinstance(descriptor, str) else "name"
        raise InvalidArgumentError(
            f"{method}() needs a {kind.__name__}; got {descriptor!r} of type {type(descriptor).__name__}.",
            hint=f"{method}({kind.__name__}({name!r}, {types}))."
            if kind in (ValueStateDescriptor, ListStateDescriptor, MapStateDescriptor)
            else "a descriptor has the state's name and type.",
        )


def _checked_ttl(ttl: Time | timedelta) -> Time:
    hint = "for example Time.hours(1)."
    return Time(milliseconds_of(ttl, "A time-to-live", kinds=(Time,), minimum=1, hint=hint))
