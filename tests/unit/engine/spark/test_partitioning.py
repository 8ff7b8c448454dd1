"""Slot values: hash and search."""

from __future__ import annotations

import pytest

from flinkish.engine.spark.query import slot_values, spark_hash


@pytest.mark.parametrize(("value", "expected"), [(0, 933211791), (1, -559580957), (2, 1765031574), (-1, -1604776387)])
def test_hash_is_that_of_spark_sql(value: int, expected: int) -> None:
    assert spark_hash(value) == expected


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 7, 16, 61, 128])
def test_each_slot_has_a_value_of_its_own_that_hashes_to_it(slots: int) -> None:
    values = slot_values(slots)
    assert len(set(values)) == slots
    assert [spark_hash(value) % slots for value in values] == list(range(slots))


def test_values_survive_the_projection_of_the_plan() -> None:
    assert all(value & 2147483647 == value for value in slot_values(128))


def test_no_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1; got 0"):
        slot_values(0)
