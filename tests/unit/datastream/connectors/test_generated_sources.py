"""NumberSequenceSource, CollectionSource, DataGeneratorSource, BatchGeneratorSource."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, NotSerializableError, TypeMismatchError
from flinkish.common.time import Instant
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import Row
from flinkish.datastream.connectors.base import Boundedness, InputStatus
from flinkish.datastream.connectors.batch_generator import BatchGeneratorSource
from flinkish.datastream.connectors.collection import CollectionSource, CollectionSplit
from flinkish.datastream.connectors.datagen import DataGeneratorSource, DataGeneratorSplit, GeneratorFunction
from flinkish.datastream.connectors.number_seq import NumberSequenceSource, NumberSequenceSplit
from tests.unit.datastream.connectors.fakes import FakeEnumeratorContext, FakeOutput, FakeReaderContext, SourceRun, stored


@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize("parallelism", [1, 2, 3, 7])
def test_number_sequence_emits_each_number_once_and_in_order_per_reader(parallelism: int, restart_readers: bool) -> None:
    run = SourceRun(NumberSequenceSource(-3, 20), parallelism, credit=4, restart_readers=restart_readers).by_subtask()
    assert sorted(value for values in run.values() for value in values) == list(range(-3, 21))
    assert all(values == sorted(values) for values in run.values())


def test_number_sequence_with_more_readers_than_numbers_ends_on_all() -> None:
    assert SourceRun(NumberSequenceSource(1, 2), parallelism=5).by_subtask() == {0: [1], 1: [2], 2: [], 3: [], 4: []}


def test_number_sequence_reaches_the_largest_long() -> None:
    assert SourceRun(NumberSequenceSource(2**63 - 2, 2**63 - 1)).values() == [2**63 - 2, 2**63 - 1]


@pytest.mark.parametrize(("start", "end"), [("1", 2), (1, True), (1.0, 2)])
def test_number_sequence_refuses_what_is_no_int(start: Any, end: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be an int"):
        NumberSequenceSource(start, end)


def test_number_sequence_refuses_an_empty_range_and_more_than_64_bits() -> None:
    with pytest.raises(InvalidProgramError, match="end must not be less than start"):
        NumberSequenceSource(2, 1)
    with pytest.raises(InvalidProgramError, match="64 bits"):
        NumberSequenceSource(0, 2**63)


def test_number_sequence_stays_within_the_credit() -> None:
    reader = NumberSequenceSource(0, 99).create_reader(FakeReaderContext())
    reader.add_splits([NumberSequenceSplit(split_id="0", next_number=0, end=99)])
    output = FakeOutput(30)
    assert reader.poll_next(output) is InputStatus.MORE_AVAILABLE
    assert output.values == list(range(30))
    assert reader.snapshot_state() == (NumberSequenceSplit(split_id="0", next_number=30, end=99),)


def test_number_sequence_says_the_end_together_with_the_last_records() -> None:
    reader = NumberSequenceSource(0, 2).create_reader(FakeReaderContext())
    reader.add_splits([NumberSequenceSplit(split_id="0", next_number=0, end=2)])
    reader.notify_no_more_splits()
    output = FakeOutput(10)
    assert reader.poll_next(output) is InputStatus.END_OF_INPUT
    assert (output.values, output.finished) == ([0, 1, 2], ["0"])


def test_number_sequence_without_splits_waits_until_it_is_told_that_there_are_no_more() -> None:
    reader = NumberSequenceSource(0, 2).create_reader(FakeReaderContext())
    assert reader.poll_next(FakeOutput(10)) is InputStatus.NOTHING_AVAILABLE
    reader.notify_no_more_splits()
    assert reader.poll_next(FakeOutput(10)) is InputStatus.END_OF_INPUT


def test_splits_of_a_checkpoint_are_handed_out_first_and_in_their_order() -> None:
    source = NumberSequenceSource(0, 29)
    fresh = source.create_enumerator(FakeEnumeratorContext(3))
    checkpoint = stored(fresh.snapshot_state(1), source.enumerator_checkpoint_type)
    context = FakeEnumeratorContext(2)
    restored = source.restore_enumerator(context, checkpoint[1:])
    restored.add_splits_back([NumberSequenceSplit(split_id="0", next_number=4, end=9)], 0)
    restored.start()
    for subtask in (0, 1):
        restored.handle_split_request(subtask)
    assert context.no_more == set()
    restored.handle_split_request(0)
    assert [(s.split_id, s.next_number) for s in context.assigned[0]] == [("0", 4), ("2", 20)]
    assert [(s.split_id, s.next_number) for s in context.assigned[1]] == [("1", 10)]
    # told with the last split, so that a short input ends in the epoch in which it is read
    assert context.no_more == {0, 1}


@pytest.mark.parametrize("restart_readers", [False, True])
def test_collection_is_emitted_in_order_by_one_reader(restart_readers: bool) -> None:
    values = ["a", None, 1, ("b", 2), [3], {"c": 4}]
    run = SourceRun(CollectionSource(values), parallelism=2, credit=2, restart_readers=restart_readers)
    assert run.by_subtask() == {0: values, 1: []}


def test_an_empty_collection_ends_at_once() -> None:
    assert SourceRun(CollectionSource([], Types.STRING())).values() == []


def test_a_typed_collection_is_converted_leniently_when_the_source_is_made() -> None:
    assert SourceRun(CollectionSource([5.0], Types.SHORT())).values() == [5]
    rows = SourceRun(
        CollectionSource([(1, "x"), {"id": 2, "name": "y"}], Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
    )
    assert rows.values() == [Row(id=1, name="x"), Row(id=2, name="y")]
    with pytest.raises(TypeMismatchError):
        CollectionSource(["x"], Types.INT())


def test_elements_that_user_code_changed_are_as_they_were_when_they_are_emitted_again() -> None:
    source = CollectionSource([[1], [2]])
    for _ in range(2):
        reader = source.create_reader(FakeReaderContext())
        reader.add_splits([CollectionSplit(split_id="0", position=0)])
        output = FakeOutput(10)
        reader.poll_next(output)
        assert output.values == [[1], [2]]
        output.values[0].append("changed")


def test_a_collection_must_be_iterable() -> None:
    with pytest.raises(InvalidArgumentError, match="iterable"):
        CollectionSource(5)  # type: ignore[arg-type]


class Squares(GeneratorFunction):
    def open(self, context: Any) -> None:
        self.opened = True

    def map(self, index: int) -> int:
        assert self.opened
        return index * index

    def close(self) -> None:
        self.opened = False


@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize("function", [Squares(), lambda index: index * index])
def test_generator_emits_one_record_for_each_index(function: Any, restart_readers: bool) -> None:
    run = SourceRun(DataGeneratorSource(function, 10), parallelism=3, credit=2, restart_readers=restart_readers)
    assert sorted(run.values()) == [index * index for index in range(10)]


def test_generator_without_a_count_never_ends() -> None:
    source = DataGeneratorSource(lambda index: index)
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert DataGeneratorSource(lambda index: index, 0).boundedness is Boundedness.BOUNDED
    assert SourceRun(DataGeneratorSource(lambda index: index, 0)).values() == []


def endless_readers(parallelism: int, splits: list[DataGeneratorSplit] | None = None) -> list[Any]:
    """Return the readers of an endless source, with the splits of a checkpoint if there is one."""
    source = DataGeneratorSource(lambda index: index)
    context = FakeEnumeratorContext(parallelism)
    enumerator = source.create_enumerator(context) if splits is None else source.restore_enumerator(context, ())
    if splits is not None:
        enumerator.add_splits_back([stored(split, DataGeneratorSplit) for split in splits], 0)
    readers = [source.create_reader(FakeReaderContext()) for _ in range(parallelism)]
    for request in range(max(parallelism, len(splits or ()))):
        enumerator.handle_split_request(request % parallelism)
    for subtask, reader in enumerate(readers):
        reader.add_splits(context.assigned.get(subtask, []))
    return readers


def polled(readers: list[Any], credit: int, times: int) -> list[list[int]]:
    """Poll each reader some times; return what each gave."""
    outputs: list[list[int]] = [[] for _ in readers]
    for _ in range(times):
        for reader, values in zip(readers, outputs, strict=True):
            output = FakeOutput(credit)
            reader.poll_next(output)
            values += output.values
    return outputs


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_readers_of_a_generator_without_a_count_take_turns_from_zero_on(parallelism: int) -> None:
    outputs = polled(endless_readers(parallelism), 4, 5)
    assert sorted(index for values in outputs for index in values) == list(range(20 * parallelism))
    assert all(values == sorted(values) for values in outputs)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_generator_without_a_count_goes_on_exactly_at_another_parallelism(after: int) -> None:
    before = endless_readers(2)
    polled(before, 10, 1)
    restored = endless_readers(after, [split for reader in before for split in reader.snapshot_state()])
    outputs = polled(restored, 5, 2 if after == 1 else 1)
    assert sorted(index for values in outputs for index in values) == list(range(20, 30))


class RateLimited:
    """Readers of a rate-limited source, over all subtasks, with a clock moved by hand."""

    def __init__(self, records_per_second: float, parallelism: int) -> None:
        self.source = DataGeneratorSource(lambda index: index, 10_000, records_per_second)
        context = FakeEnumeratorContext(parallelism)
        enumerator = self.source.create_enumerator(context)
        for subtask in range(parallelism):
            enumerator.handle_split_request(subtask)
        self.splits: list[DataGeneratorSplit] = [split for splits in context.assigned.values() for split in splits]

    def epoch(self, now: int, credit: int = 10_000) -> tuple[list[int], list[InputStatus]]:
        values, statuses, splits = [], [], []
        for split in self.splits:
            reader = self.source.create_reader(FakeReaderContext(now=now))
            reader.add_splits([split])
            output = FakeOutput(credit)
            statuses.append(reader.poll_next(output))
            values.extend(output.values)
            splits.extend(stored(s, DataGeneratorSplit) for s in reader.snapshot_state())
        self.splits = splits
        return values, statuses


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_the_rate_is_kept_over_all_readers(parallelism: int) -> None:
    run = RateLimited(50, parallelism)
    total = sum(len(run.epoch(now)[0]) for now in range(1_000_000, 1_010_001, 100))
    assert abs(total - 500) <= parallelism + 1


def test_the_first_record_comes_at_once_and_those_of_other_readers_in_their_turn() -> None:
    run = RateLimited(0.5, 2)
    counts = [len(run.epoch(now)[0]) for now in range(0, 8_001, 1000)]
    assert counts == [1, 0, 1, 0, 1, 0, 1, 0, 1]


def test_a_pause_is_caught_up_on_for_one_second_only() -> None:
    run = RateLimited(10, 1)
    run.epoch(0)
    values, statuses = run.epoch(3_600_000)
    assert len(values) == 10
    assert statuses == [InputStatus.NOTHING_AVAILABLE]


def test_the_same_epoch_run_again_emits_the_same() -> None:
    run = RateLimited(10, 2)
    run.epoch(0)
    before = list(run.splits)
    first = run.epoch(700)
    run.splits = before
    assert run.epoch(700) == first


def test_credit_holds_a_rate_limited_reader_back_too() -> None:
    run = RateLimited(1000, 1)
    run.epoch(0)
    values, statuses = run.epoch(500, credit=20)
    assert len(values) == 20
    assert statuses == [InputStatus.MORE_AVAILABLE]


def test_a_reader_of_several_rate_limited_splits_reads_all_of_them_with_any_credit() -> None:
    splits = RateLimited(300, 3).splits
    reader = DataGeneratorSource(lambda index: index, 10_000, 300).create_reader(FakeReaderContext(now=0))
    reader.add_splits(splits)
    reader.poll_next(FakeOutput(100))
    clocked = DataGeneratorSource(lambda index: index, 10_000, 300).create_reader(FakeReaderContext(now=1_000))
    clocked.add_splits(reader.snapshot_state())

    short = [FakeOutput(40) for _ in range(8)]
    statuses = [clocked.poll_next(output) for output in short]

    # 100 records a second for each split: the first two polls read different splits, and none waits while records are due.
    assert set(short[0].by_split).isdisjoint(short[1].by_split)
    read = [sum(len(output.by_split.get(split.split_id, ())) for output in short) for split in splits]
    assert max(read) - min(read) <= 1
    assert sum(read) >= 299
    assert statuses == [InputStatus.MORE_AVAILABLE] * 7 + [InputStatus.NOTHING_AVAILABLE]


def test_what_the_generator_cannot_be_is_refused() -> None:
    import threading

    with pytest.raises(InvalidArgumentError, match="generator_function"):
        DataGeneratorSource(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="count"):
        DataGeneratorSource(lambda i: i, "5")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="records_per_second"):
        DataGeneratorSource(lambda i: i, 5, 0)
    lock = threading.Lock()
    with pytest.raises(NotSerializableError, match="lock"):
        DataGeneratorSource(lambda i: lock, 5).validate()


SQUARE = Types.ROW_NAMED(["number", "square"], [Types.LONG(), Types.DOUBLE()])


def squares(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch(
        [pa.array(numbers, pa.int64()), pa.array([n * n for n in numbers], pa.float64())], ["number", "square"]
    )


@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize("parallelism", [1, 2, 3, 25])
def test_batches_have_each_row_once_and_in_order_per_reader(parallelism: int, restart_readers: bool) -> None:
    run = SourceRun(BatchGeneratorSource(squares, 20, SQUARE), parallelism, credit=3, restart_readers=restart_readers)
    by_subtask = run.by_subtask()
    rows = [row for rows in by_subtask.values() for row in rows]
    assert sorted(rows, key=lambda row: row.number) == [Row(number=n, square=float(n * n)) for n in range(20)]
    assert all([row.number for row in rows] == sorted(row.number for row in rows) for rows in by_subtask.values())


def test_batches_are_within_the_credit_and_go_on_where_the_checkpoint_says() -> None:
    calls = []

    def noted(first: int, count: int) -> pa.RecordBatch:
        calls.append((first, count))
        return squares(first, count)

    source = BatchGeneratorSource(noted, 100, SQUARE)
    reader = source.create_reader(FakeReaderContext())
    reader.add_splits(source.splits(1))
    assert reader.poll_next(FakeOutput(30)) is InputStatus.MORE_AVAILABLE
    restored = source.create_reader(FakeReaderContext())
    restored.add_splits([stored(split, DataGeneratorSplit) for split in reader.snapshot_state()])
    restored.notify_no_more_splits()
    assert restored.poll_next(FakeOutput(1_000)) is InputStatus.END_OF_INPUT
    assert calls == [(0, 30), (30, 70)]


def test_batches_keep_the_rate() -> None:
    source = BatchGeneratorSource(squares, 1_000, SQUARE, records_per_second=50)
    splits = source.splits(1)
    counts = []
    for now in (0, 200, 400):
        reader = source.create_reader(FakeReaderContext(now=now))
        reader.add_splits(splits)
        output = FakeOutput(1_000)
        assert reader.poll_next(output) is InputStatus.NOTHING_AVAILABLE
        counts.append(len(output.values))
        splits = [stored(split, DataGeneratorSplit) for split in reader.snapshot_state()]
    assert counts == [1, 10, 10]


def test_batches_stay_columns_where_these_are_wanted() -> None:
    class ColumnsOutput(FakeOutput):
        def collect_columns(self, batch: pa.RecordBatch) -> None:
            self.values.append(batch)

    source = BatchGeneratorSource(squares, 5, SQUARE)
    reader = source.create_reader(FakeReaderContext())
    reader.add_splits(source.splits(1))
    output = ColumnsOutput(100)
    output.wants_columns = True
    reader.poll_next(output)
    assert output.values == [squares(0, 5)]


@pytest.mark.parametrize(
    ("type_info", "column"),
    [
        (Types.PRIMITIVE_ARRAY(Types.LONG()), pa.array([[1, None]])),
        (Types.SQL_DATE(), pa.array([3_000_000], pa.int32()).view(pa.date32())),
        (Types.CHAR(), pa.array(["ab"])),
        (Types.MAP(Types.STRING(), Types.LONG()), pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))),
    ],
)
def test_a_value_that_no_record_has_is_refused(type_info: TypeInformation, column: pa.Array) -> None:
    source = BatchGeneratorSource(lambda first, count: pa.record_batch([column], ["v"]), 1, Types.ROW_NAMED(["v"], [type_info]))
    with pytest.raises(TypeMismatchError, match="returned a value that no record has"):
        SourceRun(source, by_columns=True).values()


def test_rows_of_batches_have_the_values_of_their_types() -> None:
    row_type = Types.ROW_NAMED(["text", "at", "none"], [Types.STRING(), Types.INSTANT(), Types.LONG()])
    columns = [pa.array(["a"]), pa.array([1_500_000], pa.timestamp("us", "UTC")), pa.array([None], pa.int64())]
    source = BatchGeneratorSource(lambda first, count: pa.record_batch(columns, ["text", "at", "none"]), 1, row_type)
    assert SourceRun(source).values() == [Row(text="a", at=Instant(1, 500_000_000), none=None)]


def _swapped(first: int, count: int) -> pa.RecordBatch:
    return squares(first, count).select(["square", "number"])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda first, count: squares(first, count - 1), r"first=0, count=10, must return 10 rows; got 9"),
        (_swapped, r"\(number int64, square double\); got \(square double, number int64\)"),
        (lambda first, count: squares(first, count).select(["number"]), r"got \(number int64\)"),
        (lambda first, count: {"number": [1]}, r"must return a pyarrow.RecordBatch; got an instance of dict"),
        (
            lambda first, count: pa.record_batch({"number": [1.0] * count, "square": [1.0] * count}),
            r"got \(number double, square double\)",
        ),
    ],
)
def test_a_batch_that_is_not_as_declared_fails(function: Any, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        SourceRun(BatchGeneratorSource(function, 10, SQUARE)).values()


def test_what_the_batch_generator_cannot_be_is_refused() -> None:
    import threading

    with pytest.raises(InvalidArgumentError, match="function must be a callable"):
        BatchGeneratorSource(5, 10, SQUARE)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="count"):
        BatchGeneratorSource(squares, None, SQUARE)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="ROW_NAMED"):
        BatchGeneratorSource(squares, 10, Types.LONG())  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="records_per_second"):
        BatchGeneratorSource(squares, 10, SQUARE, 0)
    with pytest.raises(InvalidProgramError, match="type that Arrow has"):
        BatchGeneratorSource(squares, 10, Types.ROW_NAMED(["x"], [Types.PICKLED_BYTE_ARRAY()])).validate()
    lock = threading.Lock()
    with pytest.raises(NotSerializableError, match="lock"):
        BatchGeneratorSource(lambda first, count: lock, 5, SQUARE).validate()
