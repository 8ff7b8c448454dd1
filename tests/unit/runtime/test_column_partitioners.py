"""Records sent as columns reach the channels that they would reach one by one."""

from __future__ import annotations

import dataclasses
import operator
from collections import defaultdict
from typing import Any

import pytest

from flinkish.common import Row, Types
from flinkish.common.column_layout import Layout
from flinkish.common.columns import Columns
from flinkish.common.errors import TypeMismatchError
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.program.transformations import Partitioner, Partitioning
from flinkish.runtime.channels import EdgeWriter
from flinkish.runtime.elements import Records, decode
from flinkish.runtime.partitioners import edge_writer
from flinkish.udf.function_wrappers import key_selector
from flinkish.udf.functions import NullByteKeySelector
from tests.unit.runtime.test_channels import plan

KEYS: dict[str, tuple[Any, list[Any]]] = {
    "LONG": (Types.LONG(), [0, -1, 1, LONG_MIN, LONG_MAX, *range(-50, 50), *(n << 40 for n in range(-20, 20))]),
    "INT": (Types.INT(), [0, -1, -(2**31), 2**31 - 1, *range(100)]),
    "SHORT": (Types.SHORT(), [-(2**15), 2**15 - 1, *range(-50, 50)]),
    "BYTE": (Types.BYTE(), list(range(-128, 128))),
    "BOOLEAN": (Types.BOOLEAN(), [True, False]),
    "STRING": (Types.STRING(), ["", "ä", "🙂", "a\0b", "-1", *map(str, range(100))]),
    "with null": (Types.STRING(), ["a", None, "b"]),
    "DOUBLE": (Types.DOUBLE(), [0.5, -0.0, 1.0, float("inf")]),
}
FORMS = {
    "row by name": (lambda key: Types.ROW_NAMED(["n", "key"], [Types.LONG(), key]), operator.itemgetter("key"), Row),
    "row by lambda": (lambda key: Types.ROW_NAMED(["n", "key"], [Types.LONG(), key]), lambda row: row.key, Row),
    "row by call": (lambda key: Types.ROW_NAMED(["n", "key"], [Types.LONG(), key]), lambda row: getattr(row, "key"), Row),  # noqa: B009
    "tuple": (lambda key: Types.TUPLE([Types.LONG(), key]), operator.itemgetter(1), lambda *values: values),
}


def writer(partitioning: Partitioning, receivers: int, *, key_type: Any = None, select: Any = None) -> EdgeWriter:
    partitioner = Partitioner(partitioning=partitioning, key_selector=select)
    edge, execution_plan = plan(partitioner, 1, receivers)
    graph = execution_plan.job_graph
    target = graph.vertices[edge.target_vertex]
    node = dataclasses.replace(target.operators[0], key_type=key_type)
    vertices = {**graph.vertices, edge.target_vertex: dataclasses.replace(target, operators=(node,))}
    made = edge_writer(edge, dataclasses.replace(execution_plan, job_graph=dataclasses.replace(graph, vertices=vertices)), 0)
    made.begin_epoch(5)
    return made


def received(made: EdgeWriter) -> tuple[dict[int, list[Any]], int]:
    """Return the records with their times and keys by slot, and how many came as columns."""
    found, columns = defaultdict(list), 0
    frames = made.frames()
    for slot in sorted({frame.slot for frame in frames}):
        for element in decode([frame for frame in frames if frame.slot == slot]):
            if isinstance(element, Columns):
                columns += len(element)
                parts = element.records(), element.times(), element.keys()
            else:
                assert isinstance(element, Records)
                parts = element.values, element.timestamps, element.keys
            values, times, keys = parts
            absent = [None] * len(values)
            found[slot] += zip(map(repr, values), times or absent, map(repr, keys or absent), strict=True)
    return found, columns


@pytest.mark.parametrize("receivers", [1, 3])
@pytest.mark.parametrize(
    ("form", "key"),
    [(form, key) for form in FORMS for key in KEYS if form != "tuple" or None not in KEYS[key][1]],  # tuples hold no None
)
@pytest.mark.parametrize("typed", [False, True])
def test_each_key_goes_to_the_same_channel(key: str, form: str, receivers: int, typed: bool) -> None:
    key_type, keys = KEYS[key]
    make_type, select, make = FORMS[form]
    layout = Layout(make_type(key_type))
    make = (lambda n, key: Row(n=n, key=key)) if make is Row else make
    records = [make(number, value) for number, value in enumerate(keys * 2)]
    times: list[int | None] = [None if number % 3 == 0 else number for number in range(len(records))]
    one_by_one, columns = (
        writer(Partitioning.HASH, receivers, key_type=key_type if typed else None, select=select) for _ in "ab"
    )
    for record, time in zip(records, times, strict=True):
        one_by_one.emit(record, time)
    columns.emit_columns(layout.columns_of(records, times))
    expected, none = received(one_by_one)
    found, sent_as_columns = received(columns)
    assert found == expected
    assert none == 0
    by_column = form != "row by call" and key not in ("with null", "DOUBLE")
    assert sent_as_columns == (len(records) if by_column else 0)


def test_records_that_all_have_one_key_stay_columns() -> None:
    records = [(number, str(number)) for number in range(50)]
    layout, select = Layout(Types.TUPLE([Types.LONG(), Types.STRING()])), key_selector(NullByteKeySelector(), "key_by")
    one_by_one, columns = (writer(Partitioning.HASH, 3, key_type=Types.PICKLED_BYTE_ARRAY(), select=select) for _ in "ab")
    for record in records:
        one_by_one.emit(record, 7)
    columns.emit_columns(layout.columns_of(records, [7] * len(records)))
    assert (received(one_by_one)[0], len(records)) == received(columns)
    refused = writer(Partitioning.HASH, 3, key_type=Types.STRING(), select=select)
    with pytest.raises(TypeMismatchError, match="must be"):
        refused.emit_columns(layout.columns_of(records, None))


@pytest.mark.parametrize(
    "partitioning", [Partitioning.REBALANCE, Partitioning.RESCALE, Partitioning.BROADCAST, Partitioning.GLOBAL]
)
@pytest.mark.parametrize("receivers", [1, 3])
@pytest.mark.parametrize("sizes", [[1], [2, 1, 4], [100, 7]])
def test_each_record_goes_to_the_same_channel(partitioning: Partitioning, receivers: int, sizes: list[int]) -> None:
    layout = Layout(Types.TUPLE([Types.LONG(), Types.STRING()]))
    one_by_one, columns = writer(partitioning, receivers), writer(partitioning, receivers)
    for size in sizes:
        records = [(number, str(size)) for number in range(size)]
        for record in records:
            one_by_one.emit(record, None)
        columns.emit_columns(layout.columns_of(records, None))
    expected, _ = received(one_by_one)
    found, sent_as_columns = received(columns)
    assert found == expected
    assert sent_as_columns == sum(sizes) * (receivers if partitioning is Partitioning.BROADCAST else 1)


@pytest.mark.parametrize("partitioning", [Partitioning.SHUFFLE, Partitioning.CUSTOM])
def test_other_edges_send_the_same_records_one_by_one(partitioning: Partitioning) -> None:
    records = [(number, str(number)) for number in range(50)]
    found = []
    for as_columns in (True, False):
        partitioner = Partitioner(
            partitioning=partitioning, key_selector=operator.itemgetter(0), function=lambda key, count: key % count
        )
        edge, execution_plan = plan(partitioner, 1, 3)
        made = edge_writer(edge, execution_plan, 0)
        made.begin_epoch(0)
        if as_columns:
            made.emit_columns(Layout(Types.TUPLE([Types.LONG(), Types.STRING()])).columns_of(records, None))
        else:
            for record in records:
                made.emit(record, None)
        found.append(received(made))
    assert found[0] == found[1]


def test_a_forward_edge_passes_columns_and_records_on_in_order() -> None:
    layout = Layout(Types.LONG())
    made = writer(Partitioning.FORWARD, 1)
    made.emit(1, 5)
    made.emit_columns(layout.columns_of([2, 3], [6, None]))
    made.emit_columns(layout.columns_of([4], None))
    made.emit(5, None)
    found, sent_as_columns = received(made)
    assert [record[:2] for record in found[0]] == [("1", 5), ("2", 6), ("3", None), ("4", None), ("5", None)]
    assert sent_as_columns == 3
