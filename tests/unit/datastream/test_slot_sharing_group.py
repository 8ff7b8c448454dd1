"""SlotSharingGroup and MemorySize."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.datastream import MemorySize, SlotSharingGroup


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (2048, "2 kb"), (5 << 20, "5 mb"), ((5 << 20) + 3, "5242883 bytes")]
)
def test_memory_sizes_are_shown_in_the_largest_unit_that_fits(size: int, text: str) -> None:
    assert str(MemorySize(bytes_size=size)) == text


def test_memory_sizes_are_given_in_all_units_rounded_down() -> None:
    size = MemorySize(bytes_size=(3 << 40) + 1)

    assert size.get_bytes() == (3 << 40) + 1
    assert (size.get_kibi_bytes(), size.get_mebi_bytes()) == (3 << 30, 3 << 20)
    assert (size.get_gibi_bytes(), size.get_tebi_bytes()) == (3 << 10, 3)


def test_memory_sizes_are_compared_by_their_bytes() -> None:
    small, large = MemorySize(bytes_size=1024), MemorySize.of_mebi_bytes(1)

    assert small < large
    assert small <= MemorySize(bytes_size=1024) == small
    assert hash(small) == hash(MemorySize(bytes_size=1024))
    assert not large <= small
    with pytest.raises(InvalidArgumentError, match="must be a MemorySize; got 3"):
        small < 3  # type: ignore[operator]  # noqa: B015


@pytest.mark.parametrize("size", [None, "1 mb", True])
def test_a_memory_size_must_be_a_number(size: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="bytes_size must be an int"):
        MemorySize(bytes_size=size)


def test_a_memory_size_must_not_be_negative() -> None:
    with pytest.raises(InvalidProgramError, match="got -1"):
        MemorySize(bytes_size=-1)


def test_a_group_may_have_a_name_only() -> None:
    group = SlotSharingGroup.builder("g").build()

    assert group.get_name() == "g"
    assert (group.get_cpu_cores(), group.get_managed_memory(), group.get_task_heap_memory()) == (None, None, None)
    assert group.get_external_resources() == {}


def test_a_group_with_cores_and_heap_memory_has_nothing_of_the_rest() -> None:
    group = SlotSharingGroup.builder("g").set_cpu_cores(1).set_task_heap_memory_mb(10).set_external_resource("gpu", 1).build()

    assert (group.get_cpu_cores(), group.get_task_heap_memory()) == (1.0, MemorySize.of_mebi_bytes(10))
    assert group.get_task_off_heap_memory() == group.get_managed_memory() == MemorySize(bytes_size=0)
    assert group.get_external_resources() == {"gpu": 1.0}


def test_groups_are_equal_if_all_is() -> None:
    def build(memory: int) -> SlotSharingGroup:
        builder = SlotSharingGroup.builder("g").set_cpu_cores(1.0).set_task_heap_memory_mb(10)
        return builder.set_managed_memory_mb(memory).set_task_off_heap_memory_mb(1).build()

    assert build(1) == build(1)
    assert hash(build(1)) == hash(build(1))
    assert build(1) != build(2)


@pytest.mark.parametrize(
    "build",
    [
        lambda builder: builder.set_cpu_cores(1.0).build(),
        lambda builder: builder.set_task_heap_memory_mb(1).build(),
        lambda builder: builder.set_managed_memory_mb(1).build(),
        lambda builder: builder.set_external_resource("gpu", 1).build(),
        lambda builder: builder.set_cpu_cores(0.0),
        lambda builder: builder.set_task_heap_memory_mb(0),
    ],
)
def test_a_group_needs_both_cores_and_heap_memory_or_no_resources(build: Any) -> None:
    with pytest.raises(InvalidProgramError):
        build(SlotSharingGroup.builder("g"))
