"""State of all kinds, read from a savepoint without its program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkish.common import Configuration, Row, Time, Types, WatermarkStrategy
from flinkish.common.errors import ForeignCheckpointError, InvalidArgumentError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.evictors import CountEvictor
from flinkish.datastream.functions import ProcessWindowFunction
from flinkish.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkish.runtime.state.codec import Opaque
from flinkish.state import SavepointReader
from flinkish.testing import JobHarness
from tests.kit.functions import Add
from tests.kit.stateful import LONG, TEXT, Cart, Colour, declare_without_types, parity, savepoint_of, settings_of

NUMBERS = [1, 2, 3, 4]


def configuration(folder: Path) -> Configuration:
    return Configuration.from_dict({key: str(value) for key, value in settings_of(folder).items()})


@pytest.fixture(scope="module")
def reader(folder: Path, savepoint: str) -> SavepointReader:
    return SavepointReader.read(savepoint, configuration(folder))


def rows(table: Any) -> list[Any]:
    return sorted(map(tuple, table), key=repr)


def test_operators_are_listed_with_their_uids_and_parallelism(reader: SavepointReader) -> None:
    found = {each.uid: each for each in reader.operators()}

    assert found["everything"].parallelism == 2
    assert found["everything"].max_parallelism == 128
    assert found["everything"].kind == "a function"
    assert found["numbers"].splits == 1
    assert found["windows"].kind == "a window operator"


def test_states_are_listed_with_their_types_and_sizes(reader: SavepointReader) -> None:
    found = {each.name: each for each in reader.states("everything")}

    assert sorted(found) == ["average", "by-tag", "cart", "expiring", "order", "pair", "seen", "sum", "timers", "total"]
    assert (found["total"].kind, found["total"].entries, found["total"].ttl) == ("value", 2, False)
    assert found["expiring"].ttl
    assert found["by-tag"].types == (Types.STRING(), Types.LONG())
    assert found["by-tag"].key_type == Types.STRING()
    assert found["by-tag"].entries == 4
    assert found["order"].types[0].get_field_names() == ["id", "tags"]  # type: ignore[attr-defined]
    assert all(each.size > 0 for each in found.values())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("total", [("even", 6), ("odd", 4)]),
        ("seen", [("even", [2, 4]), ("odd", [1, 3])]),
        ("by-tag", [("even", "tag2", 2), ("even", "tag4", 4), ("odd", "tag1", 1), ("odd", "tag3", 3)]),
        ("sum", [("even", 6), ("odd", 4)]),
        ("average", [("even", (6, 2)), ("odd", (4, 2))]),
        ("order", [("even", Row(id=4, tags=["even", "x"])), ("odd", Row(id=3, tags=["odd", "x"]))]),
        ("expiring", [("even", 4, 0), ("odd", 3, 0)]),
    ],
)
def test_keyed_state_is_read_as_rows(reader: SavepointReader, name: str, expected: list[Any]) -> None:
    assert rows(reader.read_keyed_state("everything", name)) == expected


def test_rows_have_named_columns(reader: SavepointReader) -> None:
    table = reader.read_keyed_state("everything", "by-tag")

    assert table.type_info.get_field_names() == ["key", "map_key", "value"]
    assert {row.map_key: row.value for row in table}["tag3"] == 3


def test_timers_are_read_with_their_time_domain(reader: SavepointReader) -> None:
    assert rows(reader.read_timers("everything")) == [
        ("even", "event", 1_000_002),
        ("even", "event", 1_000_004),
        ("odd", "event", 1_000_001),
        ("odd", "event", 1_000_003),
    ]


def test_operator_state_is_read_with_its_subtask(reader: SavepointReader) -> None:
    kept = list(reader.read_list_state("operators", "kept"))

    assert sorted(row.value for row in kept) == NUMBERS
    assert {row.subtask for row in kept} <= {0, 1}
    assert sorted(row.value for row in reader.read_union_state("operators", "shared")) == NUMBERS
    assert rows(reader.read_broadcast_state("ruled", "rules")) == [("ab", 2), ("abc", 3)]


def test_open_windows_are_read_however_they_are_stored(reader: SavepointReader) -> None:
    assert rows(reader.read_windows("windows")) == [("even", 0, 10_000, (6, 2)), ("odd", 0, 10_000, (4, 2))]
    assert rows(reader.read_windows("sessions")) == [("even", 2_000, 9_000, 6), ("odd", 1_000, 8_000, 4)]


def test_a_pickled_value_is_opaque_and_says_what_it_needs(reader: SavepointReader) -> None:
    (value, *_) = reader.read_keyed_state("everything", "cart").column("value")
    pair = reader.read_keyed_state("everything", "pair").column("value")

    assert isinstance(value, Opaque)
    assert "tests.kit.stateful.Cart" in value.names
    assert repr(value).startswith("<pickled: tests.kit.stateful.Cart; ")
    assert sorted(total for total, _ in pair) == [4, 6]
    assert all(repr(colour).startswith("<pickled: tests.kit.stateful.Colour") for _, colour in pair)


def test_the_program_unpickles_its_values(folder: Path, savepoint: str) -> None:
    reader = SavepointReader.read(savepoint, configuration(folder), unpickle=True)

    assert rows(reader.read_keyed_state("everything", "cart")) == [("even", Cart("even", 6)), ("odd", Cart("odd", 4))]
    assert rows(reader.read_keyed_state("everything", "pair")) == [("even", (6, Colour.RED)), ("odd", (4, Colour.RED))]


def test_nothing_is_unpickled_that_another_key_has_signed(savepoint: str, tmp_path: Path) -> None:
    with pytest.raises(ForeignCheckpointError, match="another key"):
        SavepointReader.read(savepoint, configuration(tmp_path), unpickle=True)

    assert len(SavepointReader.read(savepoint, configuration(tmp_path)).read_keyed_state("everything", "cart")) == 2


def test_an_arrow_table_has_the_declared_types(reader: SavepointReader) -> None:
    table = reader.read_keyed_state("everything", "order").to_arrow()

    assert table.schema.field("key").type == pa.string()
    assert table.schema.field("value").type == pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    assert sorted(row["value"]["id"] for row in table.to_pylist()) == [3, 4]


def test_an_untyped_column_gets_the_type_of_its_values_or_is_text(reader: SavepointReader) -> None:
    table = reader.read_keyed_state("untyped", "_reduce_state").to_arrow()
    pairs = reader.read_keyed_state("everything", "pair").to_arrow()

    assert table.schema.field("key").type == pa.string()
    assert sorted(table["key"].to_pylist()) == ['[0,"k"]', '[1,"k"]']
    assert table.schema.field("value").type == pa.int64()
    assert pairs.schema.field("value").type == pa.struct([("f0", pa.int64()), ("f1", pa.string())])
    assert all("Colour" in row["value"]["f1"] for row in pairs.to_pylist())


def test_a_data_frame_keeps_python_values(reader: SavepointReader) -> None:
    frame = reader.read_keyed_state("everything", "average").to_pandas()

    assert list(frame.columns) == ["key", "value"]
    assert sorted(frame["value"]) == [(4, 2), (6, 2)]


def test_what_is_not_there_is_named_with_what_is(reader: SavepointReader) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no operator with the uid 'nothing'\n.*everything"):
        reader.states("nothing")
    with pytest.raises(InvalidArgumentError, match=r"no state 'totals' .*\n.*total \(value\)"):
        reader.read_keyed_state("everything", "totals")
    with pytest.raises(InvalidArgumentError, match="no state 'total' of this kind"):
        reader.read_list_state("everything", "total")
    with pytest.raises(InvalidArgumentError, match="no open windows"):
        reader.read_windows("everything")


def test_a_checkpoint_of_an_earlier_version_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare_without_types(monkeypatch)
    reader = SavepointReader.read(savepoint_of(tmp_path, NUMBERS), configuration(tmp_path))

    assert {each.name: each.entries for each in reader.states("everything")}["total"] == 2
    with pytest.raises(ForeignCheckpointError, match=r"'total' of operator everything .* earlier version .*\n.*take a savepoint"):
        reader.read_keyed_state("everything", "total")


def test_a_process_without_the_program_reads_it(folder: Path, savepoint: str) -> None:
    script = (
        "import sys; from flinkish.state import SavepointReader; "
        f"rows = SavepointReader.read({savepoint!r}).read_keyed_state('everything', 'cart'); "
        "print(sorted(row.key for row in rows), 'tests' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=folder, env={"HOME": str(folder)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['even', 'odd'] False\n"


class Collected(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Any) -> Iterator[str]:
        yield f"{key}: {sorted(elements)}"


def windows_of(tmp_path: Path, window: Callable[[Any], Any], numbers: Sequence[int] = (1, 2, 3, 4), **settings: Any) -> list[Any]:
    """Return the windows that a window operator has open after some numbers, one second apart."""

    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number * 1000)
        source = env.from_source(job.source("numbers", LONG), strategy, "numbers").uid("numbers")
        window(source.key_by(parity, TEXT)).uid("windows").sink_to(job.sink("windows"))

    with JobHarness(program, parallelism=2, settings=settings_of(tmp_path, **settings)) as job:
        for number in numbers:
            # One by one, so that the windows of sessions are merged.
            job.source("numbers").emit(number)
            job.settle()
        path = job.savepoint(str(tmp_path))
    return rows(SavepointReader.read(path, configuration(tmp_path)).read_windows("windows"))


def test_merged_windows_are_read_with_the_window_that_they_are_merged_into(tmp_path: Path) -> None:
    sessions = EventTimeSessionWindows.with_gap(Time.seconds(5))

    found = windows_of(tmp_path, lambda keyed: keyed.window(sessions).process(Collected(), TEXT))

    assert found == [("even", 2_000, 9_000, [2, 4]), ("odd", 1_000, 8_000, [1, 3])]


def test_windows_with_an_evictor_are_read_with_the_timestamps_of_records(tmp_path: Path) -> None:
    windows = TumblingEventTimeWindows.of(Time.seconds(10))

    found = windows_of(tmp_path, lambda keyed: keyed.window(windows).evictor(CountEvictor.of(1)).process(Collected(), TEXT))

    records = [(key, start, end, list(map(tuple, contents))) for key, start, end, contents in found]
    assert records == [("even", 0, 10_000, [(2_000, 2), (4_000, 4)]), ("odd", 0, 10_000, [(1_000, 1), (3_000, 3)])]


def test_windows_without_a_time_are_read_by_their_namespace(tmp_path: Path) -> None:
    found = windows_of(tmp_path, lambda keyed: keyed.count_window(3).reduce(Add()))

    assert [(key, value) for key, _, value in found] == [("even", 6), ("odd", 4)]


def test_shared_panes_are_read_as_panes(tmp_path: Path) -> None:
    windows = SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2))

    found = windows_of(
        tmp_path, lambda keyed: keyed.window(windows).reduce(Add()), (8, 10, 11), **{"execution.windows.share-panes": True}
    )

    assert sorted(found) == [("even", 8_000, 10_000, 8), ("even", 10_000, 12_000, 10), ("odd", 10_000, 12_000, 11)]
