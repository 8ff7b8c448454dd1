"""Rows of states are compared by their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from flinkish.common import Row, Types
from flinkish.common.type_data import data_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.runtime.state import rows, tables
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.restore import RestoredRows
from flinkish.state.diff import Change, StateDiff, compare_states

LONG, TEXT = Types.LONG(), Types.STRING()


def restored(
    values: Mapping[Any, Any] | Sequence[Any],
    value_type: TypeInformation,
    *,
    kind: str = tables.VALUE,
    key_type: TypeInformation = LONG,
) -> RestoredRows:
    keyed = kind == tables.VALUE
    declaration = rows.Declaration(
        format=rows.FORMAT,
        kind=kind,
        structure="",
        description=f"{kind} of {value_type!r}",
        ttl=False,
        max_parallelism=128,
        key_type=data_of(LONG) if keyed else None,
        types=(data_of(value_type),),
    )
    keys = [Codec(LONG).encode(key) for key in values] if keyed else [None] * len(values)
    encoded = map(Codec(value_type).encode, values.values() if isinstance(values, Mapping) else values)
    nulls = pa.nulls(len(values), pa.binary())
    table = pa.table(
        {"key": pa.array(keys, pa.binary()), "namespace": nulls, "user_key": nulls, "value": pa.array(encoded, pa.binary())}
    )
    return RestoredRows(declaration, {kind: table})


def compare(old: RestoredRows | None, new: RestoredRows | None) -> StateDiff:
    (diff,) = compare_states("op", "state", old, new)
    return diff


def test_values_are_added_removed_and_changed() -> None:
    diff = compare(restored({1: 10, 2: 20, 3: 30}, LONG), restored({2: 20, 3: 31, 4: 40}, LONG))

    assert (diff.added, diff.removed, diff.changed, diff.same) == (1, 1, 1, 1)
    assert list(diff.changes()) == [
        Change("+", {"key": 4}, None, {"value": 40}),
        Change("-", {"key": 1}, {"value": 10}, None),
        Change("~", {"key": 3}, {"value": 30}, {"value": 31}),
    ]
    assert len(list(diff.changes(limit=2))) == 2


def test_dicts_in_another_order_are_the_same() -> None:
    type_info = Types.MAP(TEXT, LONG)
    diff = compare(
        restored({1: {"a": 1, "b": 2}, 2: {"a": 1}}, type_info), restored({1: {"b": 2, "a": 1}, 2: {"a": 2}}, type_info)
    )

    assert [change.address for change in diff.changes()] == [{"key": 2}]
    assert diff.same == 1


def test_numbers_and_booleans_that_python_takes_for_equal_are_not_the_same_state() -> None:
    untyped = Types.PICKLED_BYTE_ARRAY()

    assert compare(restored({1: 1}, untyped), restored({1: True}, untyped)).changed == 1
    assert compare(restored({1: [1]}, untyped), restored({1: [1]}, untyped)).is_same


def test_values_of_changed_types_are_compared_as_what_they_mean() -> None:
    old, new = Types.ROW_NAMED(["a", "b"], [LONG, LONG]), Types.ROW_NAMED(["a"], [LONG])
    diff = compare(restored({1: Row(a=1, b=2)}, old), restored({1: Row(a=1)}, new))

    assert diff.changed == 1
    assert (diff.old_type, diff.new_type) == (f"value of {old!r}", f"value of {new!r}")
    widened = compare(restored({1: 5, 2: 6}, Types.INT()), restored({1: 5, 2: 7}, LONG))
    assert (widened.same, widened.changed, widened.is_same) == (1, 1, False)


def test_an_element_of_a_list_that_is_there_more_often_is_added() -> None:
    kind = tables.OPERATOR_LIST
    diff = compare(restored(["a", "b", "b", "c"], TEXT, kind=kind), restored(["b", "a", "a", "a"], TEXT, kind=kind))

    assert [(change.sign, change.address["value"]) for change in diff.changes()] == [
        ("+", "a"),
        ("+", "a"),
        ("-", "b"),
        ("-", "c"),
    ]
    assert diff.same == 2


def test_a_state_of_another_kind_is_removed_and_added() -> None:
    diffs = compare_states("op", "state", restored({1: 1}, LONG), restored([1], LONG, kind=tables.OPERATOR_LIST))

    assert [(diff.added, diff.removed) for diff in diffs] == [(0, 1), (1, 0)]
    assert [diff.new_type for diff in diffs] == [None, "operator_list of Long"]
