"""What from_collection takes, and what it refuses."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flinkish.common import Row, Types
from flinkish.common.errors import InvalidArgumentError, TypeMismatchError
from flinkish.common.typeinfo import ExternalTypeInfo, TypeInformation
from flinkish.datastream.connectors.collection import CollectionSource
from tests.unit.datastream.connectors.fakes import SourceRun

FRAME = pd.DataFrame({"name": ["a", None], "count": [1, 2], "share": [0.5, float("nan")]})
NAMED = Types.ROW_NAMED(["count", "name"], [Types.INT(), Types.STRING()])


def values(collection: Any, type_info: TypeInformation | None = None) -> list[Any]:
    return SourceRun(CollectionSource(collection, type_info)).values()


@pytest.mark.parametrize(
    ("collection", "hint"),
    [
        ("abc", r"\[value\]"),
        (b"abc", r"\[value\]"),
        (bytearray(b"abc"), r"\[value\]"),
        ({"a": 1}, "items"),
        (Row(1, "a"), r"\[value\]"),
        (pa.table({"a": [1]}), "to_pylist"),
        (itertools.count(), "SourceFunction"),
        ((number for number in [1, 2]), r"list\(value\)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_collection_of_records_is_refused_with_what_to_write(collection: Any, hint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=hint):
        CollectionSource(collection)


@pytest.mark.parametrize(
    "collection", [[1, 2], (1, 2), range(1, 3), {1: "a", 2: "b"}.keys(), np.array([1, 2]), pd.Series([1, 2])]
)
def test_any_other_iterable_is_a_collection(collection: Any) -> None:
    assert values(collection, Types.INT()) == [1, 2]


def test_a_set_has_the_same_order_in_each_process() -> None:
    words = {"b", "c", "a", "e", "d", "f"}
    assert values(words) == sorted(words)
    assert values(frozenset({1, "a", (2,)})) == ["a", (2,), 1]


@pytest.mark.parametrize(("number", "type_info"), [(3_000_000_000, Types.INT()), (300, Types.BYTE()), (2**63, Types.LONG())])
def test_a_number_that_is_out_of_the_types_range_is_refused(number: int, type_info: TypeInformation) -> None:
    with pytest.raises(TypeMismatchError, match=f"got {number} of type int"):
        CollectionSource([number], type_info)


def test_a_frame_without_a_type_is_its_rows_with_the_names_of_its_columns() -> None:
    first, second = values(FRAME)
    assert first == Row(name="a", count=1, share=0.5)
    assert list(map(type, first)) == [str, int, float]
    assert second[:2] == [None, 2]
    assert second["share"] != second["share"]  # NaN in a column of floats is a value


def test_a_frame_gives_rows_by_the_names_of_their_fields() -> None:
    assert values(FRAME, NAMED) == [Row(count=1, name="a"), Row(count=2, name=None)]
    assert values(FRAME, ExternalTypeInfo(NAMED)) == values(FRAME, NAMED)


def test_a_frame_gives_tuples_and_rows_without_names_by_position() -> None:
    frame = FRAME[["count", "share"]].head(1)
    assert values(frame, Types.TUPLE([Types.INT(), Types.DOUBLE()])) == [(1, 0.5)]
    assert values(frame, Types.ROW([Types.INT(), Types.DOUBLE()])) == [Row(f0=1, f1=0.5)]
    assert values(pd.DataFrame([[1, "a"]])) == [Row(1, "a")]


def test_the_times_of_a_frame_are_pythons() -> None:
    times = pd.to_datetime(pd.Series(["2021-01-09 12:00:00.5", None]))
    frame = pd.DataFrame({"time": times, "length": [pd.Timedelta(seconds=1), pd.NaT], "many": pd.array([1, None], dtype="Int64")})
    moment = datetime.datetime(2021, 1, 9, 12, 0, 0, 500_000)
    assert values(frame) == [
        Row(time=moment, length=datetime.timedelta(seconds=1), many=1),
        Row(time=None, length=None, many=None),
    ]
    assert type(values(frame)[0][0]) is datetime.datetime
    assert values(frame[["time"]], Types.ROW([Types.SQL_TIMESTAMP()])) == [Row(f0=moment), Row(f0=None)]


@pytest.mark.parametrize("dtype", ["Float64", "Float32", "float64[pyarrow]"])
def test_a_missing_value_of_pandas_own_floats_is_none(dtype: str) -> None:
    frame = pd.DataFrame({"x": pd.array([1.5, None], dtype=dtype)})
    assert values(frame) == values(frame, Types.ROW_NAMED(["x"], [Types.DOUBLE()])) == [Row(x=1.5), Row(x=None)]


@pytest.mark.parametrize(
    ("frame", "type_info", "message"),
    [
        (FRAME, Types.ROW_NAMED(["name", "kind"], [Types.STRING(), Types.INT()]), r"no columns \['kind'\]"),
        (FRAME, Types.ROW([Types.STRING(), Types.INT()]), "3 columns"),
        (FRAME, Types.TUPLE([Types.STRING(), Types.INT()]), "3 columns"),
        (FRAME, Types.STRING(), "ROW or TUPLE"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "same name"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), Types.ROW_NAMED(["a"], [Types.INT()]), "several columns"),
    ],
)
def test_a_frame_that_does_not_fit_its_type_is_refused(frame: Any, type_info: TypeInformation | None, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        CollectionSource(frame, type_info)


def test_a_missing_number_in_a_column_of_floats_is_refused_as_a_whole_number() -> None:
    with pytest.raises(TypeMismatchError, match="nan"):
        CollectionSource(pd.DataFrame({"a": [1, None]}), Types.ROW([Types.INT()]))
