"""Records as columns, and back."""

from __future__ import annotations

import datetime
import decimal
import math
import pickle
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flinkish.common import Instant, Row, RowKind, Types
from flinkish.common.column_layout import Layout, frame_of, layout_of
from flinkish.common.columns import Columns, concat
from flinkish.common.errors import InvalidProgramError, TypeMismatchError
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.common.typeinfo import DecimalTypeInfo, TypeInformation

DECIMAL = decimal.Decimal("-1.000000000000000001")
#: For each type, values with its extremes.
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "BYTE": (Types.BYTE(), [-128, 127, 0]),
    "SHORT": (Types.SHORT(), [-(2**15), 2**15 - 1]),
    "INT": (Types.INT(), [-(2**31), 2**31 - 1]),
    "LONG": (Types.LONG(), [LONG_MIN, LONG_MAX, 2**53 + 1]),
    "FLOAT": (Types.FLOAT(), [0.5, -0.0, math.inf, math.nan]),
    "DOUBLE": (Types.DOUBLE(), [0.1, -0.0, -math.inf, math.nan, 5e-324, 1.7976931348623157e308]),
    "BOOLEAN": (Types.BOOLEAN(), [True, False]),
    "STRING": (Types.STRING(), ["", "ä\0", "🙂"]),
    "CHAR": (Types.CHAR(), ["x", "🙂"]),
    "BIG_INT": (Types.BIG_INT(), [10**37, -1]),
    "BIG_DEC": (Types.BIG_DEC(), [DECIMAL, decimal.Decimal("1e19").quantize(DECIMAL, context=decimal.Context(40))]),
    "SQL_DATE": (Types.SQL_DATE(), [datetime.date.min, datetime.date.max]),
    "SQL_TIME": (Types.SQL_TIME(), [datetime.time.min, datetime.time.max]),
    "SQL_TIMESTAMP": (Types.SQL_TIMESTAMP(), [datetime.datetime.min, datetime.datetime.max, datetime.datetime(1969, 12, 31, 23)]),
    "INSTANT": (Types.INSTANT(), [Instant(0, 1000), Instant(-1, 999_999_000)]),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\0\xff"]),
    "PRIMITIVE_ARRAY": (Types.PRIMITIVE_ARRAY(Types.LONG()), [[], [LONG_MIN, LONG_MAX]]),
    "LIST": (Types.LIST(Types.STRING()), [[], ["a", None]]),
    "MAP": (Types.MAP(Types.STRING(), Types.LONG()), [{}, {"a": 1, "b": None}]),
    "TUPLE": (Types.TUPLE([Types.LONG(), Types.LIST(Types.INSTANT())]), [(1, []), (2, [Instant(1, 0)])]),
    "ROW": (Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.DOUBLE()]), [Row(a=1, b=None), Row(a=None, b=math.nan)]),
}
ALL = Types.ROW_NAMED(list(VALUES), [type_info for type_info, _ in VALUES.values()])


def exactly(records: Any) -> list[str]:
    return list(map(repr, records))


@pytest.mark.parametrize("name", VALUES)
def test_records_of_each_type_are_the_same_after_they_were_columns(name: str) -> None:
    type_info, values = VALUES[name]
    row_type = Types.ROW_NAMED(["x", "n"], [type_info, Types.LONG()])
    rows = [Row(x=value, n=number) for number, value in enumerate([*values, None])]
    pairs = [(value, number) for number, value in enumerate(values)]
    for layout, records in (
        (Layout(type_info), values),
        (Layout(row_type), rows),
        (Layout(Types.TUPLE([type_info, Types.LONG()])), pairs),
    ):
        columns = layout.columns_of(records, None)
        assert exactly(columns.records()) == exactly(records)
        assert exactly(pickle.loads(pickle.dumps(columns)).records()) == exactly(records)
        checked = layout.checked(columns.batch, "f")
        assert checked.schema == layout.schema
        assert exactly(layout.records_of(checked)) == exactly(records)


def test_a_row_with_values_by_position_or_by_names_in_another_order() -> None:
    layout = Layout(Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()]))
    assert layout.columns_of([Row(1, "x")], None).records() == [Row(a=1, b="x")]


@pytest.mark.parametrize("type_info", [Types.PICKLED_BYTE_ARRAY(), Types.LIST(Types.PICKLED_BYTE_ARRAY())])
def test_what_arrow_has_no_type_for_has_no_layout(type_info: Any) -> None:
    assert layout_of(type_info) is None


def test_positions_of_fields() -> None:
    rows, pairs = Layout(Types.ROW_NAMED(["a", "b"], [Types.LONG()] * 2)), Layout(Types.TUPLE([Types.LONG()] * 2))
    assert [rows.position(field) for field in ("a", "b", "c", 0, 1, 2)] == [0, 1, None, 0, 1, None]
    assert [pairs.position(field) for field in (0, 1, 2, "f0")] == [0, 1, None, None]
    assert pairs.names == ("f0", "f1")
    assert Layout(Types.LONG()).names == ("value",)


@pytest.mark.parametrize("record", [None, Row.of_kind(RowKind.UPDATE_AFTER, 1)])
def test_only_inserted_records_are_columns(record: Any) -> None:
    with pytest.raises(TypeMismatchError, match="columns hold only records that exist, of kind INSERT"):
        Layout(Types.ROW_NAMED(["a"], [Types.LONG()])).columns_of([record], None)


def test_texts_that_arrow_cannot_hold_are_refused() -> None:
    with pytest.raises(TypeMismatchError, match=r"column 'value' is String, stored as string; got '\\ud800'"):
        Layout(Types.STRING()).columns_of(["\ud800"], None)


def test_a_time_finer_than_microseconds_or_after_the_year_9999_is_refused() -> None:
    for layout, record in (
        (Layout(Types.INSTANT()), Instant(1, 1)),
        (Layout(Types.ROW_NAMED(["at"], [Types.INSTANT()])), Row(at=Instant(1, 1))),
        (Layout(Types.INSTANT()), Instant(253_402_300_800, 0)),
    ):
        with pytest.raises(TypeMismatchError, match=r"column '(at|value)' of type Instant would change Instant.*microseconds of"):
            layout.columns_of([record], None)


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.LIST(Types.INSTANT()), [None, Instant(1, 1)]),
        (Types.MAP(Types.STRING(), Types.INSTANT()), {"a": Instant(253_402_300_800, 0)}),
        (Types.ROW_NAMED(["x"], [Types.LONG()]), Row.of_kind(RowKind.DELETE, 5)),
        (Types.LIST(Types.ROW_NAMED(["x"], [Types.LONG()])), [Row.of_kind(RowKind.UPDATE_AFTER, 5)]),
        (Types.TUPLE([Types.LONG(), Types.INSTANT()]), (1, Instant(1, 1))),
        (DecimalTypeInfo(4, 2), decimal.Decimal("1.235")),
        (Types.LIST(DecimalTypeInfo(4, 2)), [decimal.Decimal("1.235")]),
    ],
)
def test_a_value_that_a_column_would_change_is_refused(type_info: TypeInformation, value: Any) -> None:
    layout = Layout(Types.ROW_NAMED(["at"], [type_info]))
    assert layout.columns_of([Row(at=None)], None).records() == [Row(at=None)]
    with pytest.raises(TypeMismatchError, match=r"column 'at' of type .* would change"):
        layout.columns_of([Row(at=value)], None)


NUMBERS = Layout(Types.ROW_NAMED(["byte", "int", "long", "float"], [Types.BYTE(), Types.INT(), Types.LONG(), Types.FLOAT()]))


@pytest.mark.parametrize(
    "expression",
    [
        pc.field("long") * 1.5,
        pc.field("int") > 100.0,
        (pc.field("long") * 2) / 0.5,
        pc.if_else(pc.field("float") > 0.5, pc.field("long"), 0.5),
    ],
)
def test_integers_are_not_computed_as_floats_of_32_bits(expression: pc.Expression) -> None:
    with pytest.raises(InvalidProgramError, match=r"computes the expression .* with 32-bit floats[\s\S]*cast\("):
        NUMBERS.type_of({"x": expression})


def test_small_integers_are_not_computed_as_floats_of_32_bits() -> None:
    with pytest.raises(InvalidProgramError, match=r"computes the expression .* with 32-bit floats"):
        Layout(Types.ROW_NAMED(["short"], [Types.SHORT()])).type_of({"x": pc.field("short") / 3.0})


@pytest.mark.parametrize(
    "expression",
    [
        pc.field("long").cast("float64") * 1.5,
        pc.field("long") * 1.1,
        pc.field("float") * 1.5,
        pc.field("long").cast("float32"),
        pc.field("int") * 1_000_000,
    ],
)
def test_other_numbers_are_computed(expression: pc.Expression) -> None:
    assert len(NUMBERS.type_of({"x": expression}).field_types) == 1


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "shift_left", "shift_right"])
def test_functions_that_wrap_are_refused(name: str) -> None:
    with pytest.raises(InvalidProgramError, match=rf"calls {name}\(\), whose results wrap[\s\S]*{name}_checked"):
        NUMBERS.type_of({"x": pc.coalesce(getattr(pc, name)(pc.field("long"), 1), 0)})
    assert NUMBERS.type_of({"x": getattr(pc, f"{name}_checked")(pc.field("long"), 1)}).field_types == (Types.LONG(),)


def test_a_text_that_looks_like_a_function_is_no_function() -> None:
    layout = Layout(Types.ROW_NAMED(["text"], [Types.STRING()]))
    assert layout.type_of({"x": pc.field("text") == 'a "negate(b)" c'}).field_types == (Types.BOOLEAN(),)


def test_expressions_that_are_fields_keep_their_types() -> None:
    found = Layout(ALL).type_of({name: pc.field(name) for name in VALUES} | {"twice": pc.field("INT") * 2})
    assert found == Types.ROW([*ALL.field_types, Types.INT()])
    assert found.get_field_names() == [*VALUES, "twice"]


def numbers(count: int, times: list[int | None] | None = None) -> Columns:
    return Layout(Types.TUPLE([Types.LONG(), Types.STRING()])).columns_of([(n, f"t{n}") for n in range(count)], times)


def test_times_that_are_all_absent_are_none() -> None:
    assert numbers(2, [None, None]).times() is None
    assert numbers(2, [None, LONG_MIN]).times() == [None, LONG_MIN]


def test_parts_keep_times_and_key() -> None:
    columns = numbers(5, [0, 1, None, 3, 4]).with_key((1,))
    for part in (columns.take([4, 2]), columns.slice(1, 3), columns.filter(pa.array([True, None, True, False, True]))):
        assert part.times() == [[0, 1, None, 3, 4][n] for n, _ in part.records()]
        assert part.keys() == [text for _, text in part.records()]
    assert [n for n, _ in columns.take([4, 2]).records()] == [4, 2]


@pytest.mark.parametrize("fields", [(0,), (1,), (1, 0), (0, 1, 2)])
def test_records_of_the_same_key_have_the_same_number(fields: tuple[int, ...]) -> None:
    records = [(n % 3, f"t{n % 5}", n % 2 == 0) for n in range(60)]
    columns = Layout(Types.TUPLE([Types.LONG(), Types.STRING(), Types.BOOLEAN()])).columns_of(records, None).with_key(fields)
    expected = [tuple(record[field] for field in fields) for record in records]
    if len(fields) == 1:
        expected = [key for (key,) in expected]
    numbers_of_keys, keys = columns.groups()
    assert columns.keys() == [keys[number] for number in numbers_of_keys] == expected
    assert len(set(keys)) == len(keys)


def test_a_slice_is_pickled_without_the_rest() -> None:
    whole = numbers(50_000, list(range(50_000))).with_key((0,))
    part = whole.slice(40_000, 2)
    data = pickle.dumps(part)
    assert len(data) < len(pickle.dumps(whole)) / 100
    again = pickle.loads(data)
    assert (again.records(), again.times(), again.keys()) == (
        [(40_000, "t40000"), (40_001, "t40001")],
        [40_000, 40_001],
        [40_000, 40_001],
    )


def test_fields_that_are_not_read_are_shown_as_such() -> None:
    only = pickle.loads(pickle.dumps(numbers(2).with_key((0,)).only({0})))
    assert exactly(only.records()) == ["(0, ...)", "(1, ...)"]
    assert only.keys() == [0, 1]


def test_runs_become_one_with_times_where_some_have_none() -> None:
    joined = concat([numbers(1), numbers(2, [7, None])])
    assert joined.records() == [(0, "t0"), (0, "t0"), (1, "t1")]
    assert joined.times() == [None, 7, None]
    assert concat([numbers(1), numbers(1)]).times() is None


@pytest.mark.parametrize(
    ("type_info", "number"), [(Types.SQL_DATE(), 2_932_897), (Types.SQL_TIMESTAMP(), 253_402_300_800_000_000)]
)
def test_a_time_that_no_record_has_is_refused(type_info: TypeInformation, number: int) -> None:
    layout = Layout(Types.ROW_NAMED(["at"], [type_info]))
    integers = pa.array([number - 1, None, number], pa.int32() if number < 2**31 else pa.int64())
    column = integers.view(layout.schema.field(0).type)
    assert layout.checked(pa.table([column[:2]], ["at"]), "it").num_rows == 2
    with pytest.raises(TypeMismatchError, match=r"it: column 'at' must be .*: a time is outside the years 1 to 9999"):
        layout.checked(pa.table([column], ["at"]), "it")


MAP = Types.MAP(Types.STRING(), Types.LONG())


@pytest.mark.parametrize(
    ("type_info", "good", "bad"),
    [
        (MAP, [[("a", 1), ("b", 1)], None, []], [("a", 1), ("a", 2)]),
        (Types.LIST(MAP), [[[("a", 1)], [("a", 1)], None]], [[("a", 1)], [("a", 1), ("a", 2)]]),
        (Types.MAP(Types.LONG(), MAP), [[(1, [("a", 1)]), (2, [("a", 1)])]], [(1, [("a", 1), ("a", 2)])]),
        (Types.ROW_NAMED(["n"], [MAP]), [{"n": [("a", 1)]}, {"n": None}], {"n": [("a", 1), ("a", 2)]}),
    ],
)
def test_a_map_with_two_entries_of_a_key_is_refused(type_info: TypeInformation, good: list[Any], bad: Any) -> None:
    layout = Layout(Types.ROW_NAMED(["m"], [type_info]))
    maps = pa.array([*good, bad], layout.schema.field(0).type)
    assert layout.checked(pa.table([maps[:-1]], ["m"]), "it").num_rows == len(good)
    with pytest.raises(
        TypeMismatchError, match=r"it: column 'm' must be .*: a map has two entries of a key: \[\('a', 1\), \('a', 2\)\]"
    ):
        layout.checked(pa.table([maps], ["m"]), "it")


INNER = Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.STRING()])


@pytest.mark.parametrize(
    ("type_info", "column"),
    [
        (Types.LIST(Types.LONG()), pa.array([["12"]])),
        (Types.LIST(Types.LONG()), pa.array([[True]])),
        (Types.LIST(Types.STRING()), pa.array([[5]])),
        (Types.LIST(Types.FLOAT()), pa.array([[1e300]])),
        (INNER, pa.array([{"a": 1, "b": "s"}])),
        (INNER, pa.array([{"x": 1, "y": "s", "z": 3}])),
        (Types.CHAR(), pa.array(["ab"])),
        (Types.PRIMITIVE_ARRAY(Types.LONG()), pa.array([[1, None]])),
    ],
)
def test_values_within_lists_and_rows_keep_their_meaning(type_info: TypeInformation, column: pa.Array) -> None:
    with pytest.raises(TypeMismatchError, match="it: column 'v' must be"):
        Layout(Types.ROW_NAMED(["v"], [type_info])).checked(pa.table([column], ["v"]), "it")


def test_values_within_lists_and_rows_are_widened() -> None:
    layout = Layout(Types.ROW_NAMED(["v", "w"], [Types.LIST(Types.LONG()), INNER]))
    batch = layout.checked(pa.table([pa.array([[1]], pa.list_(pa.int8())), pa.array([{"y": "s", "x": 1}])], ["v", "w"]), "it")
    assert layout.records_of(batch) == [Row(v=[1], w=Row(x=1, y="s"))]


def test_columns_of_tuples_are_found_by_name_if_they_have_the_names() -> None:
    layout = Layout(Types.TUPLE([Types.LONG(), Types.LONG()]))
    assert layout.records_of(layout.checked(pa.table([[2], [1]], ["f1", "f0"]), "it")) == [(1, 2)]
    assert layout.records_of(layout.checked(pa.table([[2], [1]], ["a", "b"]), "it")) == [(2, 1)]


@pytest.mark.parametrize(
    ("type_info", "values"),
    [
        (Types.LIST(Types.DOUBLE()), [[1.0, math.nan], None]),
        (Types.LIST(Types.LONG()), [[2**60 + 1, None], []]),
        (Types.ROW_NAMED(["x", "y"], [Types.DOUBLE(), Types.LONG()]), [Row(x=math.nan, y=2**60 + 1), Row(x=None, y=None), None]),
        (Types.MAP(Types.STRING(), Types.LONG()), [{"a": 1}, None]),
        (Types.DOUBLE(), [1.5, math.nan, None]),
    ],
)
def test_a_frame_keeps_nested_values(type_info: TypeInformation, values: list[Any]) -> None:
    layout = Layout(Types.ROW_NAMED(["v"], [type_info]))
    frame = frame_of(layout.columns_of([Row(v=value) for value in values], None).batch)
    assert repr([row.v for row in layout.records_of(layout.checked(frame, "it"))]) == repr(values)
    assert repr([row.v for row in layout.records_of(layout.checked(frame.astype(object), "it"))]) == repr(values)
