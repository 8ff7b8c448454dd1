"""The sending side: partitioners, frames, and what reaches the other end."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from flinkish.common.conversion import converter
from flinkish.common.errors import InvalidProgramError, TypeMismatchError
from flinkish.common.ids import OperatorUid
from flinkish.common.typeinfo import Types
from flinkish.common.types import Row, RowColumns, RowKind
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import EdgeId, JobEdge, JobGraph, JobVertex, VertexId
from flinkish.graph.stream_graph import NodeId, StreamNode
from flinkish.program.operators import OperatorConfig
from flinkish.program.transformations import ChainingStrategy, Partitioner, Partitioning
from flinkish.runtime.channels import EdgeWriter, senders_of, targets_of
from flinkish.runtime.elements import EndOfInput, Records, Watermark, decode
from flinkish.runtime.key_groups import key_group, subtask_of_group
from flinkish.runtime.keys import as_key
from flinkish.runtime.partitioners import edge_writer


def vertex(number: int, parallelism: int) -> JobVertex:
    node = StreamNode(
        id=NodeId(number),
        name=f"v{number}",
        description="",
        operator=OperatorConfig(),
        uid=OperatorUid(f"u{number}"),
        parallelism=parallelism,
        max_parallelism=128,
        slot_sharing_group="default",
        chaining_strategy=ChainingStrategy.ALWAYS,
        input_types=(),
        output_type=Types.PICKLED_BYTE_ARRAY(),
    )
    return JobVertex(
        id=VertexId(number),
        name=node.name,
        operators=(node,),
        chain_edges=(),
        parallelism=parallelism,
        max_parallelism=128,
        slot_sharing_group="default",
    )


def plan(partitioner: Partitioner, senders: int, receivers: int) -> tuple[JobEdge, ExecutionPlan]:
    edge = JobEdge(
        id=EdgeId(0),
        source_vertex=VertexId(1),
        source=NodeId(1),
        target_vertex=VertexId(2),
        input_index=0,
        partitioner=partitioner,
    )
    graph = JobGraph(
        job_name="test",
        vertices={VertexId(1): vertex(1, senders), VertexId(2): vertex(2, receivers)},
        edges=(edge,),
    )
    return edge, ExecutionPlan(
        job_graph=graph,
        levels=((VertexId(1),), (VertexId(2),)),
        level_of={VertexId(1): 0, VertexId(2): 1},
        slots=max(senders, receivers),
        slot_offsets={"default": 0},
    )


def writer(partitioning: Partitioning, receivers: int = 3, senders: int = 1, sender: int = 0, **functions: Any) -> EdgeWriter:
    edge, execution_plan = plan(Partitioner(partitioning=partitioning, **functions), senders, receivers)
    made = edge_writer(edge, execution_plan, sender)
    made.begin_epoch(0)
    return made


def sent(made: EdgeWriter) -> dict[int, list[Any]]:
    """Return the values by slot."""
    found: dict[int, list[Any]] = {}
    frames = made.frames()
    for slot in {frame.slot for frame in frames}:
        for element in decode([frame for frame in frames if frame.slot == slot]):
            if isinstance(element, Records):
                found.setdefault(slot, []).extend(element.values)
    return found


def test_hash_sends_a_record_to_the_subtask_of_its_key_group() -> None:
    made = writer(Partitioning.HASH, key_selector=lambda value: value)
    expected: dict[int, list[int]] = {}
    for value in range(100):
        made.emit(value, None)
        expected.setdefault(subtask_of_group(key_group(value, 128), 128, 3), []).append(value)
    assert sent(made) == expected


def test_hash_sends_the_keys_along() -> None:
    made = writer(Partitioning.HASH, receivers=1, key_selector=lambda value: value[0])
    made.emit(("a", 1), 5)
    (element,) = decode(made.frames())
    assert element == Records([("a", 1)], [5], ["a"])


@pytest.mark.parametrize(
    "rows",
    [
        [Row(a=1, b="x"), Row(a=2, b=None)],
        [Row(1, [2]), Row(3, [4])],
        [Row(a=1), Row(b=1)],
        [Row(a=1), Row.of_kind(RowKind.DELETE, a=1)],
        [Row.of_kind(RowKind.UPDATE_AFTER, a=1)],
        [Row(a=1), None, 5],
        [None, Row(a=1)],
        [Row(), Row()],
    ],
    ids=repr,
)
def test_rows_come_as_they_were_sent(rows: list[Any]) -> None:
    made = writer(Partitioning.GLOBAL)
    for row in rows:
        made.emit(row, None)
    (element,) = decode(made.frames())
    assert element == Records(rows, None, None)
    assert [type(value) for value in element.values] == [type(row) for row in rows]
    kinds = [value.get_row_kind() for value in element.values if isinstance(value, Row)]
    assert kinds == [row.get_row_kind() for row in rows if isinstance(row, Row)]


class Point(NamedTuple):
    x: int
    y: Any


class Nothing(NamedTuple):
    pass


class Tagged(Point):
    """Has attributes of its own."""

    tag: str


class Shifted(NamedTuple):
    """Says itself how it is pickled."""

    x: int

    def __reduce__(self) -> Any:
        return Shifted, (self.x + 1,)


def tagged(x: int, tag: str) -> Tagged:
    made = Tagged(x, None)
    made.tag = tag
    return made


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([Point(1, [2]), Point(3, None)], None),
        ([Point(1, 2), (1, 2), Tagged(1, 2)], None),
        ([(1, 2), Point(1, 2)], None),
        ([Nothing(), Nothing()], None),
        ([tagged(1, "a"), tagged(2, "b")], None),
        ([Shifted(1), Shifted(2)], [Shifted(2), Shifted(3)]),
    ],
    ids=repr,
)
def test_named_tuples_come_as_pickle_brings_them(values: list[Any], expected: list[Any] | None) -> None:
    made = writer(Partitioning.GLOBAL)
    for value in values:
        made.emit(value, 7)
    made.watermark(5)
    records, watermark, *_ = decode(made.frames())
    expected = values if expected is None else expected
    assert isinstance(records, Records)
    assert records == Records(expected, [7] * len(expected), None)
    assert [(type(value), getattr(value, "tag", None)) for value in records.values] == [
        (type(value), getattr(value, "tag", None)) for value in expected
    ]
    assert isinstance(watermark, Watermark)
    assert watermark == Watermark(5)


def test_rows_of_the_same_fields_take_few_bytes() -> None:
    made, bare = writer(Partitioning.GLOBAL), writer(Partitioning.GLOBAL)
    for value in range(1_000):
        made.emit(Row(a=value, b=value), None)
        bare.emit((value, value), None)
    made.frames(), bare.frames()
    assert made.bytes < 1.3 * bare.bytes


SHOPS = Types.ROW_NAMED(["shop", "count", "price"], [Types.STRING(), Types.INT(), Types.DOUBLE()])
OF_SHOPS = [
    Row(shop="a", count=1, price=1.5),
    Row(price=2.5, shop="b", count=2),
    Row("c", 3, 3.5),
    Row(shop="a", count=True, price=4),
    Row(shop="b", count=None, price=None),
    Row.of_kind(RowKind.DELETE, shop="a", count=6, price=6.5),
    Row.of_kind(RowKind.UPDATE_AFTER, "b", 7, 7.5),
    Row(shop="c", count=8, price=8.5),
]


def row_writer(select: Callable[[Row], Any]) -> EdgeWriter:
    made = writer(Partitioning.HASH, receivers=1, key_selector=select)
    made.take_over()
    assert made.convert(SHOPS)
    return made


def received(made: EdgeWriter) -> list[tuple[Any, int | None, Any]]:
    """Return value, timestamp and key of all records."""
    found: list[tuple[Any, int | None, Any]] = []
    for element in decode(made.frames()):
        assert isinstance(element, Records)
        assert element.keys is not None
        found.extend(zip(element.values, element.timestamps or [None] * len(element.values), element.keys, strict=True))
    return found


@pytest.mark.parametrize(
    "select",
    [lambda row: row.shop, lambda row: row["count"], lambda row: row[0], lambda row: [*row]],
    ids=["name", "item", "position", "all"],
)
def test_rows_are_converted_by_the_edge_as_by_the_converter_before_it(select: Callable[[Row], Any]) -> None:
    convert = converter(SHOPS)
    assert convert is not None
    made = row_writer(select)
    plain = writer(Partitioning.HASH, receivers=1, key_selector=select)
    for timestamp, row in enumerate(OF_SHOPS):
        made.emit(copy.copy(row), timestamp if timestamp % 3 else None)
        made.emit(Row(**row.as_dict()) if row.get_field_names() else copy.copy(row), None)
        plain.emit(convert(row), timestamp if timestamp % 3 else None)
        plain.emit(convert(Row(**row.as_dict()) if row.get_field_names() else row), None)
    made.emit_run(map(copy.copy, OF_SHOPS))
    for row in OF_SHOPS:
        plain.emit(convert(row), None)
    made.emit(OF_SHOPS[0], 99)
    plain.emit(convert(OF_SHOPS[0]), 99)
    found, expected = received(made), received(plain)
    assert found == expected
    for (value, _, key), (wanted, _, _) in zip(found, expected, strict=True):
        assert [*map(type, value)] == [*map(type, wanted)]
        assert (value.get_field_names(), value.get_row_kind()) == (["shop", "count", "price"], wanted.get_row_kind())
        assert key == as_key(select(wanted), {})


def test_none_of_a_row_type_goes_by_the_edge_too() -> None:
    made = row_writer(lambda row: row and row.shop)
    for value in (None, OF_SHOPS[0], None):
        made.emit(value, 5)
    assert received(made) == [(None, 5, None), (OF_SHOPS[0], 5, "a"), (None, 5, None)]


@pytest.mark.parametrize(
    "wrong",
    [
        Row(shop="a", count=1),
        Row(shop="a", count="1", price=1.0),
        Row(shop="a", count=2**31, price=1.0),
        Row(a=1, b=2, c=3),
        5,
    ],
)
def test_a_row_of_another_type_is_refused_by_the_edge(wrong: Any) -> None:
    made = row_writer(lambda row: row.shop)
    with pytest.raises(TypeMismatchError, match="does not have its declared type"):
        made.emit(wrong, None)
    with pytest.raises(TypeMismatchError, match="does not have its declared type"):
        made.emit_run([wrong])


def test_a_key_out_of_the_bounds_of_its_field_is_refused_by_the_edge_also_after_others() -> None:
    made = row_writer(lambda row: row["count"])
    for count in (2**31 - 1, -(2**31), 5):
        made.emit(Row(shop="a", count=count, price=1.0), None)
    for wrong in (2**31, -(2**31) - 1, 2**64 + 5):
        with pytest.raises(TypeMismatchError, match="does not have its declared type"):
            made.emit(Row(shop="a", count=wrong, price=1.0), None)
        with pytest.raises(TypeMismatchError, match="does not have its declared type"):
            made.emit_run([Row(shop="a", count=wrong, price=1.0)])


def test_a_row_that_the_function_keeps_does_not_change_what_was_sent() -> None:
    made = row_writer(lambda row: row.shop)
    kept = [Row(shop="a", count=1, price=1.0), Row("a", 2, 2.0), Row.of_kind(RowKind.DELETE, "a", 3, 3.0)]
    for row in kept:
        made.emit(row, None)
        row[1] = 9
    assert [value[1] for value, _, _ in received(made)] == [1, 2, 3]
    assert [row[1] for row in kept] == [9, 9, 9]


def test_rows_of_any_kind_are_cut_into_frames() -> None:
    for kind in (RowKind.INSERT, RowKind.DELETE):
        made = row_writer(lambda row: row.shop)
        for number in range(2_500):
            made.emit(Row.of_kind(kind, shop="a", count=number, price=1.0), None)
        assert made.outflow() > 2_500
        frames = made.frames()
        assert len(frames) > 1
        assert made.records == 2_500
        assert [value[1] for element in decode(frames) for value in element.values] == [*range(2_500)]  # type: ignore[union-attr]


@pytest.mark.parametrize("rows", [False, True])
def test_what_was_emitted_counts_also_behind_a_watermark(rows: bool) -> None:
    made = row_writer(lambda row: row.shop)
    if not rows:
        made = writer(Partitioning.HASH, key_selector=lambda row: row[0])
    for number in range(50):
        if rows:
            made.emit(Row(shop="a", count=number, price=1.0), None)
        else:
            made.emit("a", None)
    before = made.outflow()
    made.watermark(7)
    made.status(True)

    assert before >= 50
    assert made.outflow() == before
    made.frames()
    made.begin_epoch(2)
    made.watermark(8)
    assert made.outflow() == 0


def test_rows_with_fields_that_only_the_converter_can_check_have_no_way_of_their_own() -> None:
    made = writer(Partitioning.HASH, key_selector=lambda row: row[0])
    assert not made.convert(SHOPS)  # it does not own the records
    made.take_over()
    assert not made.convert(Types.ROW([Types.LONG(), Types.LIST(Types.LONG())]))
    assert not made.convert(Types.TUPLE([Types.LONG()]))


@pytest.mark.parametrize("partitioning", [Partitioning.HASH, Partitioning.GLOBAL, Partitioning.FORWARD])
def test_records_are_copied_unless_the_edge_owns_them(partitioning: Partitioning) -> None:
    selector = {"key_selector": lambda value: value[0]} if partitioning is Partitioning.HASH else {}
    for owns in (False, True):
        made = writer(partitioning, receivers=1, **selector)
        if owns:
            made.take_over()
        record = Row(a=1, b=2)
        made.emit(record, None)
        made.emit_run([record])
        record["b"] = 3
        assert sent(made) == {0: [Row(a=1, b=3 if owns else 2)] * 2}


def test_timestamps_are_left_out_where_no_record_has_one() -> None:
    made = writer(Partitioning.GLOBAL)
    made.emit("x", None)
    assert decode(made.frames()) == [Records(["x"], None, None)]


def test_rebalance_deals_in_turn_and_starts_elsewhere_in_each_epoch() -> None:
    made = writer(Partitioning.REBALANCE)
    for value in range(6):
        made.emit(value, None)
    assert sent(made) == {0: [0, 3], 1: [1, 4], 2: [2, 5]}
    made.begin_epoch(1)
    made.emit("next", None)
    assert sent(made) == {1: ["next"]}


def test_shuffle_does_the_same_again_when_an_epoch_is_run_again() -> None:
    made = writer(Partitioning.SHUFFLE)
    tries = []
    for _ in range(2):
        made.begin_epoch(7)
        for value in range(30):
            made.emit(value, None)
        tries.append(sent(made))
    assert tries[0] == tries[1]
    assert len(tries[0]) == 3


def test_broadcast_sends_everything_everywhere() -> None:
    made = writer(Partitioning.BROADCAST)
    made.emit(1, None)
    assert sent(made) == {0: [1], 1: [1], 2: [1]}


def test_a_custom_partitioner_out_of_range_is_refused() -> None:
    made = writer(Partitioning.CUSTOM, key_selector=lambda value: value, function=lambda key, count: 3)
    with pytest.raises(InvalidProgramError, match="from 0 to 2"):
        made.emit(1, None)


def test_control_elements_go_to_every_channel_behind_the_records_before_them() -> None:
    made = writer(Partitioning.GLOBAL, receivers=2)
    made.emit("before", None)
    made.watermark(3)
    made.emit("after", None)
    made.end_of_input()
    frames = made.frames()
    first = decode([frame for frame in frames if frame.slot == 0])
    assert first == [Records(["before"], None, None), Watermark(3), Records(["after"], None, None), EndOfInput()]
    assert decode([frame for frame in frames if frame.slot == 1]) == [Watermark(3), EndOfInput()]


def test_large_runs_are_cut_into_frames_that_a_core_can_cache() -> None:
    made = writer(Partitioning.GLOBAL)
    for value in range(40_000):
        made.emit(f"{value:0200}", None)
    frames = made.frames()
    assert len(frames) > 100
    assert max(len(frame.body) for frame in frames[1:]) < 1.5 * (32 << 10)
    assert sum(len(element.values) for element in decode(frames[::-1]) if isinstance(element, Records)) == 40_000
    assert made.records == 40_000


def test_large_records_get_frames_of_their_own_also_when_small_ones_came_before() -> None:
    made = writer(Partitioning.REBALANCE, receivers=2)
    for size, count in ((100_000, 50), (1, 2_000), (100_000, 1_000)):
        for number in range(count):
            made.emit(f"{number:0{size}}", None)
    large = [len(frame.body) for frame in made.frames() if len(frame.body) > 100_000]
    # At first, and where they begin, as many as are emitted between two looks.
    assert max(large) < 129 * 100_100
    assert sum(size < 101_000 for size in large) > 700
    assert abs(made.outflow() - 105_000_000) < 1_000_000


def test_a_frame_is_cut_also_where_every_record_is_followed_by_a_watermark() -> None:
    made = writer(Partitioning.GLOBAL)
    for value in range(3_000):
        made.emit("x" * 1_000, value)
        made.watermark(value)
    frames = [frame for frame in made.frames() if frame.slot == 0]
    assert max(len(frame.body) for frame in frames[1:]) < 2 * (32 << 10)


@pytest.mark.parametrize(("senders", "receivers"), [(1, 1), (2, 4), (4, 2), (3, 2), (2, 3), (5, 3)])
def test_rescale_connects_every_receiver_and_every_sender(senders: int, receivers: int) -> None:
    edge, execution_plan = plan(Partitioner(partitioning=Partitioning.RESCALE), senders, receivers)
    targets = [list(targets_of(edge, execution_plan, sender)) for sender in range(senders)]
    assert all(targets)
    assert sorted({target for some in targets for target in some}) == list(range(receivers))
    for receiver in range(receivers):
        assert senders_of(edge, execution_plan, receiver) == [i for i, some in enumerate(targets) if receiver in some]


@pytest.mark.parametrize("partitioning", [Partitioning.HASH, Partitioning.GLOBAL])
def test_a_run_goes_the_way_of_its_records(partitioning: Partitioning) -> None:
    """One after the other, with the same order, timestamps and copies of what can change."""
    selector = (lambda value: value[0]) if partitioning is Partitioning.HASH else None
    runs, singles = (writer(partitioning, key_selector=selector) for _ in range(2))
    shared = [0, "reused by the function"]

    def values() -> Iterator[list[Any]]:
        for number in range(3_000):
            shared[0] = number % 50
            yield shared

    runs.emit([7, "before"], 5)
    runs.emit_run(values())
    runs.emit([7, "after"], 6)
    singles.emit([7, "before"], 5)
    for value in values():
        singles.emit(value, None)
    singles.emit([7, "after"], 6)
    assert _content(runs) == _content(singles)


IN_64_BITS = [0, 1, -1, -2, 127, -(2**31), 2**32, 2**61 - 2, 1 - 2**61, 2**61 - 1, 2**61, -(2**61), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize(
    "integers",
    [IN_64_BITS[:9], IN_64_BITS, [*IN_64_BITS, 2**63, -(2**70)], [5, True, 2.5, "a"]],
    ids=["own", "64", "more", "mixed"],
)
def test_a_long_run_of_integers_goes_to_the_subtasks_of_their_key_groups(integers: list[Any]) -> None:
    made = writer(Partitioning.HASH, key_selector=lambda value: value)
    values = [*range(-1_000, 1_000), *integers] * 2
    made.emit_run(values)
    found = sent(made)
    wanted = {slot: [v for v in values if subtask_of_group(key_group(v, 128), 128, 3) == slot] for slot in range(3)}
    assert found == wanted
    assert {slot: [*map(type, those)] for slot, those in found.items()} == {
        slot: [*map(type, those)] for slot, those in wanted.items()
    }


def test_keys_of_a_run_are_as_they_were_when_their_records_came() -> None:
    made = writer(Partitioning.HASH, receivers=1, key_selector=lambda value: value if value[0] % 3 else value[0])
    shared = [0]

    def values() -> Iterator[list[int]]:
        for number in range(3_000):
            shared[0] = number
            yield shared

    made.emit_run(values())
    found = received(made)
    assert [value for value, _, _ in found] == [[number] for number in range(3_000)]
    assert [key for _, _, key in found] == [as_key([number]) if number % 3 else number for number in range(3_000)]


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("records", [10, 3_000])
@pytest.mark.parametrize("name", ["shop", "count", "price"])
def test_rows_that_come_as_columns_arrive_as_rows_that_come_one_by_one(records: int, name: str, arrays: bool) -> None:
    runs, singles = (writer(Partitioning.HASH, key_selector=lambda row: row[name]) for _ in range(2))
    shops = [str(number % 50) for number in range(records)]
    counts: Any = [None if number % 7 == 3 else number - 1_000 for number in range(records)]
    prices: Any = [0.5] * records
    if arrays:
        counts, prices = np.arange(records) - 1_000, np.array(prices)
    rows = RowColumns(SHOPS.field_names, [shops, counts, prices])
    for made in (runs, singles):
        made.take_over()
        assert made.convert(SHOPS)
        made.emit(Row(shop="a", count=1, price=1.0), 5)
    runs.emit_run(rows)
    for row in rows:
        singles.emit(row, None)
    for made in (runs, singles):
        made.emit(Row(shop="a", count=1, price=1.0), 6)
    arrived = _content(runs)
    assert arrived == _content(singles)
    kinds = {tuple(map(type, row)) for of_slot in arrived for row, _ in of_slot}
    assert kinds <= {(str, int, float), (str, type(None), float)}


def test_a_row_of_columns_has_values_of_python() -> None:
    rows = RowColumns(SHOPS.field_names, [["a", "b"], np.array([1, 2]), np.array([0.5, 1.5])])
    assert [rows[1], *rows[1:]] == [Row(shop="b", count=2, price=1.5)] * 2
    assert {tuple(map(type, row)) for row in (rows[1], *rows[1:])} == {(str, int, float)}


def _content(made: EdgeWriter) -> list[list[tuple[Any, Any]]]:
    frames = made.frames()
    found = []
    for slot in range(3):
        records = [element for element in decode([f for f in frames if f.slot == slot]) if isinstance(element, Records)]
        found.append([pair for r in records for pair in zip(r.values, r.timestamps or [None] * len(r.values), strict=True)])
    return found


@pytest.mark.parametrize("size", [900, 1_000, 1_001, 5_000])
def test_a_large_record_goes_in_several_frames_and_comes_as_one(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("flinkish.runtime.elements._PIECE_BYTES", 1_000)
    edge, execution_plan = plan(Partitioner(partitioning=Partitioning.GLOBAL), 1, 1)
    writer = edge_writer(edge, execution_plan, 0)
    writer.begin_epoch(0)
    # Bytes that look like marks, wherever a piece begins.
    values = [b"\x01" * size, b"\x02" * size, b"small"]
    for value in values:
        writer.emit(value, None)
    frames = writer.frames()
    assert all(len(frame.body) <= 1_001 for frame in frames)
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    received = [value for element in decode(frames[::-1]) if isinstance(element, Records) for value in element.values]
    assert received == values


def test_numbers_that_are_equal_are_one_key_whichever_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinkish.runtime.partitioners._LOCATED_KEYS", 2)  # so that each of them is new again and again
    made = writer(Partitioning.HASH, key_selector=lambda value: value)
    values = [1, 1.0, True, -1, -1.0, 2**61, float(2**61), 0.5, "a", b"a", None, -0.0, 0, False, float("nan"), [1], "\ud800"]
    for value in [*values, *reversed(values)]:
        made.emit(value, None)
    made.emit_run(values)
    found = sent(made)
    assert sum(map(len, found.values())) == 3 * len(values)
    for slot, received_there in found.items():
        assert {subtask_of_group(key_group(as_key(value), 128), 128, 3) for value in received_there} == {slot}


@pytest.mark.parametrize(
    ("key_type", "right", "wrong"),
    [
        (Types.INT(), [1, -(2**31), 2**31 - 1, True], [2**31, -(2**31) - 1, 1.5, "1"]),
        (Types.BOOLEAN(), [True, 1], [5]),
        (Types.STRING(), ["a"], [1]),
        (Types.BIG_INT(), [2**70, 1], ["a"]),
    ],
)
def test_a_new_key_that_is_not_of_the_declared_type_is_refused_also_after_others(
    monkeypatch: pytest.MonkeyPatch, key_type: Any, right: list[Any], wrong: list[Any]
) -> None:
    edge, execution_plan = plan(Partitioner(partitioning=Partitioning.HASH, key_selector=lambda value: value), 1, 3)
    target = execution_plan.job_graph.vertices[VertexId(2)]
    node = dataclasses.replace(target.operators[0], key_type=key_type)
    vertices = {**execution_plan.job_graph.vertices, VertexId(2): dataclasses.replace(target, operators=(node,))}
    graph = dataclasses.replace(execution_plan.job_graph, vertices=vertices)
    made = edge_writer(edge, dataclasses.replace(execution_plan, job_graph=graph), 0)
    made.begin_epoch(0)
    for value in right:
        made.emit(value, None)
    for value in wrong:
        with pytest.raises(TypeMismatchError, match="key_by"):
            made.emit(value, None)
        with pytest.raises(TypeMismatchError, match="key_by"):
            made.emit_run([*right, value])
