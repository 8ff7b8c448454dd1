"""Row and RowKind."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from flinkish.common import Row, RowKind, types
from flinkish.common.types import rows_of


def test_a_row_is_read_by_position_slice_name_and_attribute() -> None:
    row = Row(name="Alice", age=11)
    assert (row[0], row[-1], row[0:2], row["age"], row.name) == ("Alice", 11, ["Alice", 11], 11, "Alice")


def test_positional_and_named_values_cannot_be_mixed() -> None:
    with pytest.raises(ValueError, match="either positional values or named ones"):
        Row(1, a=2)


def test_items_can_be_replaced_but_attributes_cannot_be_set() -> None:
    row = Row(a=1, b=2)
    row["a"] = 10
    row[1] = 20
    assert row == Row(a=10, b=20)
    with pytest.raises(AttributeError):
        row.a = 3
    with pytest.raises(AttributeError):
        row.c = 3


def test_a_name_that_is_no_field_is_an_error() -> None:
    row = Row(a=1)
    with pytest.raises(ValueError, match=r"no field 'b' in a row with the fields \['a'\]"):
        row["b"]
    with pytest.raises(AttributeError, match="no attribute 'b'"):
        _ = row.b
    with pytest.raises(KeyError):
        Row(1)["a"] = 2


def test_a_row_of_names_makes_rows_with_those_names() -> None:
    person = Row("name", "age")
    assert person("Bob", 7) == Row(name="Bob", age=7)
    with pytest.raises(ValueError, match="at most 2 values"):
        person("Bob", 7, 8)


def test_membership_looks_at_names_if_there_are_some_else_at_values() -> None:
    assert "a" in Row(a=1)
    assert 1 not in Row(a=1)
    assert 1 in Row(1)


def test_rows_are_equal_by_kind_and_values_and_named_rows_by_name() -> None:
    assert Row(1, 2) == Row(1, 2)
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert Row(a=1) != Row(1)
    assert Row(a=1) != Row(b=1)
    assert Row.of_kind(RowKind.DELETE, 1) != Row(1)
    assert Row(1) != (1,)


def test_a_row_hashes_as_its_tuple_and_is_not_orderable() -> None:
    assert hash(Row(1, "x")) == hash((1, "x"))
    assert hash(Row(a=1, b="x")) == hash(Row(b="x", a=1)) == hash((1, "x"))
    with pytest.raises(TypeError):
        assert Row(1) < Row(2)  # type: ignore[operator]


def test_as_dict_can_go_into_rows_lists_and_dicts() -> None:
    row = Row(a=Row(b=1), c=[Row(d=2)], e={"f": Row(g=3)})
    assert row.as_dict(recursive=True) == {"a": {"b": 1}, "c": [{"d": 2}], "e": {"f": {"g": 3}}}
    assert row.as_dict()["a"] == Row(b=1)
    with pytest.raises(TypeError, match="no field names"):
        Row(1).as_dict()


def test_fields_are_picked_by_names_and_a_wrong_name_is_told() -> None:
    row = Row(a=1, b=2)
    assert row.get_fields_by_names(["b", "a"]) == [2, 1]
    assert Row(5, 6).get_fields_by_names(["x", "y"]) == [5, 6]
    with pytest.raises(ValueError, match=r"\['c'\] do not exist"):
        row.get_fields_by_names(["a", "c"])


def test_field_names_can_be_set_later() -> None:
    row = Row(1, 2)
    row.set_field_names(["x", "y"])
    assert (row.y, row.get_field_names()) == (2, ["x", "y"])


def test_repr_shows_names_or_positions() -> None:
    assert repr(Row(a=1, b="x")) == "Row(a=1, b='x')"
    assert repr(Row(1, "x")) == "<Row(1, 'x')>"


@pytest.mark.parametrize("row", [Row(1, None), Row(a=1, b=Row(2)), Row.of_kind(RowKind.UPDATE_BEFORE, a=1), Row()])
def test_a_row_survives_pickling_and_copying(row: Row) -> None:
    for twin in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert twin == row
        assert twin.get_row_kind() is row.get_row_kind()


def test_a_copy_does_not_share_its_values() -> None:
    row = Row(a=1)
    copy.copy(row)["a"] = 2
    assert row.a == 1


def test_kinds_print_as_in_flink() -> None:
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_a_field_is_found_by_its_name_in_rows_of_other_fields_too() -> None:
    first, second = Row(dep_delay=1, carrier="UA"), Row(carrier="AA", dep_delay=2)
    for _ in range(2):  # from the second time on a descriptor of the class finds it
        assert (first.dep_delay, first.carrier, second.dep_delay, second.carrier) == (1, "UA", 2, "AA")
    with pytest.raises(AttributeError, match=r"fields \['a'\] has no attribute 'dep_delay'"):
        _ = Row(a=1).dep_delay
    with pytest.raises(AttributeError, match=r"fields \[\] has no attribute 'dep_delay'"):
        _ = Row(1, 2).dep_delay
    assert not hasattr(Row(1), "carrier")
    with pytest.raises(AttributeError, match=r"row\['carrier'\] = "):
        first.carrier = "DL"


def test_fields_are_found_as_attributes_in_whatever_way_the_row_was_made() -> None:
    template = Row("made_by_call")
    renamed = Row(2)
    renamed.set_field_names(["set_later"])
    pickled = pickle.loads(pickle.dumps(Row(came_pickled=3)).replace(b"came_pickled", b"sent_pickled"))
    (received,) = rows_of(("received",), [[4]])
    assert (template(1).made_by_call, renamed.set_later, pickled.sent_pickled, received.received) == (1, 2, 3, 4)
    assert Row(mro=5).mro == 5  # an attribute of the class, none of its rows


def test_fields_are_found_as_attributes_also_behind_the_most_names_with_a_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "_MOST_SEEN", 0)
    monkeypatch.setattr(Row, "__getattr__", None, raising=False)  # so that it is gone after the test
    row = Row(one_too_many=1)
    assert row.one_too_many == 1
    assert pickle.loads(pickle.dumps(row)).one_too_many == 1
    assert copy.deepcopy(row) == row
    with pytest.raises(AttributeError, match=r"fields \['one_too_many'\] has no attribute 'another'"):
        _ = row.another


def test_fields_that_are_no_names_are_found_in_brackets() -> None:
    row = Row([1], None)("x", "y")
    assert (row[[1]], row[None]) == ("x", "y")
    assert pickle.loads(pickle.dumps(row)) == row


@pytest.mark.parametrize("make", [lambda: Row(a=1, b=2), lambda: rows_of(("a", "b"), [[1], [2]])[0]], ids=["made", "received"])
def test_a_row_behaves_the_same_from_its_first_use_on(make: Callable[[], Row]) -> None:
    assert (make()[0], make()[-1], make()[0:2], make()["b"], make().b) == (1, 2, [1, 2], 2, 2)
    assert (len(make()), list(make())) == (2, [1, 2])
    assert (make().get_field_names(), make().get_row_kind()) == (["a", "b"], RowKind.INSERT)
    assert make().get_fields_by_names(["a", "b"]) == [1, 2]
    assert make() == Row(b=2, a=1)
    assert hash(make()) == hash((1, 2))
    assert "b" in make()
    assert repr(make()) == "Row(a=1, b=2)"
    assert make().as_dict() == {"a": 1, "b": 2}
    assert pickle.loads(pickle.dumps(make())) == copy.copy(make()) == copy.deepcopy(make()) == make()
    for key in ("b", 1, slice(1, 2)):
        row = make()
        row[key] = [3] if isinstance(key, slice) else 3
        assert row == Row(a=1, b=3)
    row = make()
    row.set_row_kind(RowKind.DELETE)
    assert (row.get_row_kind(), row.b) == (RowKind.DELETE, 2)
    row = make()
    row.set_field_names(["x", "y"])
    assert (row.y, row.as_dict()) == (2, {"x": 1, "y": 2})


def test_dir_lists_the_fields_of_the_row_and_of_no_other() -> None:
    row = Row(flight_number=1)
    assert row.flight_number == 1
    assert "flight_number" in dir(row)
    assert "as_dict" in dir(row)
    assert "flight_number" not in dir(Row(other_number=1))


def test_fields_with_the_names_of_methods_leave_the_methods_alone() -> None:
    row = Row(as_dict=1, x=2)
    assert row["as_dict"] == 1
    assert row.as_dict() == {"as_dict": 1, "x": 2}
