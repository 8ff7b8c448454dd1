"""State descriptors, time-to-live and output tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from flinkish.common import Duration, Time, Types
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.pickling import dumps, loads
from flinkish.datastream import OutputTag, ReduceFunction
from flinkish.datastream.state import (
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests.kit.functions import Mean


def test_descriptors_have_the_type_of_the_whole_and_of_the_parts() -> None:
    value = ValueStateDescriptor("v", Types.INT())
    listed = ListStateDescriptor("l", elem_type_info=Types.INT())
    mapped = MapStateDescriptor("m", key_type_info=Types.STRING(), value_type_info=Types.INT())

    assert (value.get_name(), value.type_info, value.ttl_config) == ("v", Types.INT(), None)
    assert (listed.type_info, listed.element_type_info) == (Types.LIST(Types.INT()), Types.INT())
    assert mapped.type_info == Types.MAP(Types.STRING(), Types.INT())
    assert (mapped.key_type_info, mapped.value_type_info) == (Types.STRING(), Types.INT())


def test_a_reducing_descriptor_takes_a_callable() -> None:
    descriptor = ReducingStateDescriptor("r", lambda a, b: a + b, Types.INT())

    assert isinstance(descriptor.get_reduce_function(), ReduceFunction)
    assert descriptor.reduce_function.reduce(1, 2) == 3


def test_an_aggregating_descriptor_needs_an_aggregate_function() -> None:
    function = Mean()

    assert AggregatingStateDescriptor("a", function, Types.PICKLED_BYTE_ARRAY()).get_agg_function() is function
    with pytest.raises(TypeError, match="must be an AggregateFunction"):
        AggregatingStateDescriptor("a", lambda a: a, Types.INT())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ValueStateDescriptor("", Types.INT()),
        lambda: ValueStateDescriptor(None, Types.INT()),  # type: ignore[arg-type]
        lambda: ValueStateDescriptor("v", int),  # type: ignore[arg-type]
        lambda: ListStateDescriptor("l", None),  # type: ignore[arg-type]
        lambda: MapStateDescriptor("m", Types.INT(), Types.INT),  # type: ignore[arg-type]
        lambda: ReducingStateDescriptor("r", 3, Types.INT()),  # type: ignore[arg-type]
        lambda: ValueStateDescriptor("v", Types.INT()).enable_time_to_live(5),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_of_descriptors_are_type_errors(make: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        make()


def test_descriptors_pickle() -> None:
    descriptor = loads(dumps(MapStateDescriptor("m", Types.STRING(), Types.INT())))

    assert (descriptor.name, descriptor.key_type_info) == ("m", Types.STRING())


def test_time_to_live_has_the_defaults_of_flink() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()

    assert config.is_enabled()
    assert config.get_ttl().to_milliseconds() == 1000
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    strategies = config.get_cleanup_strategies()
    assert strategies.is_cleanup_in_background()
    assert not strategies.in_full_snapshot()
    incremental = strategies.get_incremental_cleanup_strategy()
    assert incremental is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (5, False)
    compaction = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert compaction is not None
    assert compaction.get_query_time_after_num_entries() == 1000
    assert compaction.get_periodic_compaction_time() == Duration.of_days(30)


def test_time_to_live_settings_are_read_back() -> None:
    config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_ttl(Time.minutes(1))
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(500, Duration.of_hours(1))
        .disable_cleanup_in_background()
        .build()
    )
    descriptor = ValueStateDescriptor("v", Types.INT())
    descriptor.enable_time_to_live(config)

    assert descriptor.ttl_config is config
    assert config.get_ttl().to_milliseconds() == 60_000
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    strategies = config.get_cleanup_strategies()
    assert not strategies.is_cleanup_in_background()
    assert strategies.in_full_snapshot()
    incremental = strategies.get_incremental_cleanup_strategy()
    compaction = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert incremental is not None
    assert compaction is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (10, True)
    assert compaction.get_periodic_compaction_time() == Duration.of_hours(1)


def test_without_background_cleanup_there_are_no_default_strategies() -> None:
    strategies = StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background().build().get_cleanup_strategies()

    assert strategies.get_incremental_cleanup_strategy() is None
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy() is None


def test_time_to_live_can_be_switched_off() -> None:
    assert (
        not StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(StateTtlConfig.UpdateType.Disabled).build().is_enabled()
    )


@pytest.mark.parametrize("ttl", [Duration.of_seconds(1), 1000, Time.milliseconds(0)], ids=str)
def test_a_time_to_live_must_be_a_time_longer_than_zero(ttl: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="A time-to-live must be"):
        StateTtlConfig.new_builder(ttl)


class _Map(MapState[str, int]):
    def __init__(self) -> None:
        self._entries: dict[str, int] = {}

    def get(self, key: str) -> int | None:
        return self._entries.get(key)

    def put(self, key: str, value: int) -> None:
        self._entries[key] = value

    def put_all(self, dict_value: Mapping[str, int] | Iterable[tuple[str, int]]) -> None:
        self._entries.update(dict_value)

    def remove(self, key: str) -> None:
        self._entries.pop(key, None)

    def contains(self, key: str) -> bool:
        return key in self._entries

    def items(self) -> Iterable[tuple[str, int]]:
        return self._entries.items()

    def keys(self) -> Iterator[str]:
        return iter(self._entries)

    def values(self) -> Iterable[int]:
        return self._entries.values()

    def is_empty(self) -> bool:
        return not self._entries

    def clear(self) -> None:
        self._entries.clear()


def test_map_state_is_used_like_a_dict() -> None:
    state = _Map()

    state["a"] = 1
    state["b"] = 2
    del state["b"]

    assert (state["a"], state["b"], "a" in state, "b" in state, list(state)) == (1, None, True, False, ["a"])


def test_list_state_is_iterable() -> None:
    class Fixed(ListState[int]):
        def get(self) -> Iterable[int]:
            return [1, 2]

        def add(self, value: int) -> None: ...

        def add_all(self, values: list[int]) -> None: ...

        def update(self, values: list[int]) -> None: ...

        def clear(self) -> None: ...

    assert list(Fixed()) == [1, 2]


# Output tags.


def test_output_tags_are_told_apart_by_their_ids() -> None:
    assert OutputTag("a", Types.INT()) == OutputTag("a")
    assert OutputTag("a") != OutputTag("b")
    assert {OutputTag("a"): 1}[OutputTag("a", Types.STRING())] == 1


def test_the_type_of_an_output_tag_is_any_object_a_row_or_what_is_given() -> None:
    assert OutputTag("a").type_info == Types.PICKLED_BYTE_ARRAY()
    assert OutputTag("a", [Types.INT()]).type_info == Types.ROW([Types.INT()])
    assert OutputTag("a", Types.INT()).type_info == Types.INT()


def test_output_tags_pickle() -> None:
    tag = loads(dumps(OutputTag("a", Types.INT())))

    assert (tag, tag.type_info) == (OutputTag("a"), Types.INT())


@pytest.mark.parametrize("tag_id", ["", None])
def test_an_output_tag_needs_an_id(tag_id: Any) -> None:
    with pytest.raises(ValueError, match="needs an id"):
        OutputTag(tag_id)


@pytest.mark.parametrize("arguments", [(3,), ("a", int), ("a", "INT")], ids=str)
def test_wrong_arguments_of_output_tags_are_type_errors(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        OutputTag(*arguments)
