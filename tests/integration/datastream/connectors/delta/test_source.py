"""DeltaSource: what it makes of tables that Spark wrote, and how it follows one that changes."""

from __future__ import annotations

import datetime
import decimal
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from flinkish.common import Instant, Row, RowKind, Types
from flinkish.common.errors import (
    ForeignCheckpointError,
    InvalidArgumentError,
    InvalidProgramError,
    SourceChangedError,
    SourceError,
)
from flinkish.common.typeinfo import DecimalTypeInfo
from flinkish.datastream.connectors import DeltaSource
from flinkish.datastream.connectors.base import Boundedness, InputStatus
from flinkish.datastream.connectors.delta import enumerator as enumerator_module
from tests.unit.datastream.connectors.fakes import FakeEnumeratorContext, FakeOutput, FakeReaderContext, SourceRun, stored

#: Tables made by Spark, with what Spark reads in them; see make.py there.
TABLES = Path(__file__).parent / "tables"
EXPECTED = json.loads((TABLES / "expected.json").read_text())
KINDS = {
    "insert": RowKind.INSERT,
    "update_preimage": RowKind.UPDATE_BEFORE,
    "update_postimage": RowKind.UPDATE_AFTER,
    "delete": RowKind.DELETE,
}


def bounded(table: Path | str) -> Any:
    return DeltaSource.for_bounded_row_data(str(table))


def continuous(table: Path | str) -> Any:
    return DeltaSource.for_continuous_row_data(str(table))


def as_spark_shows(row: Row) -> str:
    """Return a row as Spark's toJSON does."""
    plain = {name: value for name, value in row.as_dict(True).items() if value is not None}
    return json.dumps(plain, separators=(",", ":"), default=_number_or_text, ensure_ascii=False)


def _number_or_text(value: Any) -> Any:
    return float(value) if isinstance(value, decimal.Decimal) else str(value)


def write(table: Path, *ids: int, **options: Any) -> None:
    write_deltalake(str(table), pa.table({"id": pa.array(ids, pa.int64())}), mode="append", **options)


def ids(rows: Sequence[Row]) -> list[int]:
    return [row.id for row in rows]


# -- tables of Spark -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("table", [name for name in EXPECTED if name != "types"])
def test_every_version_of_a_table_is_read_as_spark_reads_it(table: str) -> None:
    for version, rows in EXPECTED[table]["rows"].items():
        source = bounded(TABLES / table).version_as_of(int(version)).build()
        found = [as_spark_shows(row) for row in SourceRun(source, credit=3, restart_readers=True).values()]
        wanted = [json.dumps(json.loads(row), separators=(",", ":"), ensure_ascii=False) for row in rows]
        assert sorted(found) == sorted(wanted), version


@pytest.mark.usefixtures("both_ways")
def test_all_types_are_mapped() -> None:
    source = bounded(TABLES / "types").build()
    first, second = SourceRun(source).values()
    assert first == Row(
        b=True, y=1, s=2, i=3, l=4, f=1.5, d=2.5, dec=decimal.Decimal("12345678901234567.125"), str="text", bin=b"\x00\xff",
        dt=datetime.date(2024, 2, 29), ts=Instant(1709210096, 789012000), ntz=datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        arr=[1, None], m={"k": decimal.Decimal("1.25")}, st=Row(x=1, inner=[Row(t=Instant(946684800, 0))]),
    )  # fmt: skip
    assert set(second) == {None}
    produced = source.produced_type()
    assert produced.field_types[4:9] == (
        Types.LONG(), Types.FLOAT(), Types.DOUBLE(), DecimalTypeInfo(20, 3), Types.STRING(),
    )  # fmt: skip
    assert produced.field_types[10:13] == (Types.SQL_DATE(), Types.INSTANT(), Types.SQL_TIMESTAMP())


@pytest.mark.usefixtures("both_ways")
def test_columns_are_chosen_and_read_as_a_wider_type() -> None:
    table = TABLES / "types"
    chosen = bounded(table).column_names("str", "i").build()
    assert SourceRun(chosen).values()[0] == Row(str="text", i=3)
    row_type = Types.ROW_NAMED(["ts", "i"], [Types.SQL_TIMESTAMP(), Types.LONG()])
    wider = bounded(table).row_type(row_type).build()
    assert wider.produced_type() == row_type
    assert SourceRun(wider).values()[0] == Row(ts=datetime.datetime(2024, 2, 29, 12, 34, 56, 789012), i=3)
    with pytest.raises(InvalidProgramError, match=r"column 'str' of .* is string, which cannot be read as "):
        bounded(table).row_type(Types.ROW_NAMED(["str"], [Types.INT()])).build()
    with pytest.raises(InvalidProgramError, match=r"has no columns \['nope'\]; it has \['b', "):
        bounded(table).column_names("nope").build()


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("table", [name for name in EXPECTED if "changes" in EXPECTED[name]])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_change_feed_of_each_version_is_that_of_spark(table: str, parallelism: int) -> None:
    renamed = table == "column_mapping_by_id"
    for version, changes in EXPECTED[table]["changes"].items():
        source = bounded(TABLES / table).read_change_feed().starting_version(int(version)).ending_version(int(version)).build()
        run = SourceRun(source, parallelism=parallelism, credit=2, restart_readers=True)
        found = sorted((str(row.get_row_kind()), as_spark_shows(row)) for row in run.values())
        wanted = []
        for change in map(json.loads, changes):
            del change["_commit_version"]
            kind = KINDS[change.pop("_change_type")]
            if renamed and "name" in change:  # the source reads all versions with the schema of today
                change["label"] = change.pop("name")
            wanted.append((str(kind), json.dumps(change, separators=(",", ":"))))
        assert found == sorted(wanted), version


@pytest.mark.usefixtures("both_ways")
def test_changes_add_up_to_the_table_and_take_back_before_they_add() -> None:
    for table, newest in (("change_feed", 4), ("change_feed_partitioned", 3)):
        source = bounded(TABLES / table).read_change_feed().starting_version(0).ending_version(newest).build()
        rows: dict[int, Row] = {}
        for row in SourceRun(source, parallelism=2).values():
            if row.get_row_kind() in (RowKind.UPDATE_BEFORE, RowKind.DELETE):
                assert as_spark_shows(rows.pop(row.id)) == as_spark_shows(row)
            else:
                assert row.id not in rows
                rows[row.id] = row
        assert sorted(map(as_spark_shows, rows.values())) == sorted(
            json.dumps(json.loads(row), separators=(",", ":")) for row in EXPECTED[table]["rows"][str(newest)]
        )


@pytest.mark.usefixtures("both_ways")
def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the table has features variantType"):
        bounded(TABLES / "variant").build()
    with pytest.raises(SourceError, match="there is no Delta table at"):
        bounded(tmp_path / "nothing").build()
    with pytest.raises(SourceError, match="has no such version yet; the newest is 2"):
        bounded(TABLES / "types").version_as_of(99).build()
    with pytest.raises(SourceChangedError, match=r"version 0 of .*deletion_vectors has no change data feed"):
        SourceRun(bounded(TABLES / "deletion_vectors").read_change_feed().starting_version(0).build()).values()


@pytest.mark.usefixtures("both_ways")
def test_a_damaged_deletion_vector_is_an_error(tmp_path: Path) -> None:
    table = tmp_path / "table"
    shutil.copytree(TABLES / "deletion_vectors", table)
    vectors = list(table.rglob("deletion_vector_*.bin"))
    for vector in vectors:
        data = bytearray(vector.read_bytes())
        data[-6] ^= 1
        vector.write_bytes(data)
    with pytest.raises(SourceError, match=r"a deletion vector of .* is damaged: the checksum"):
        SourceRun(bounded(table).version_as_of(2).build()).values()
    for vector in vectors:
        vector.unlink()
    with pytest.raises(SourceError, match="the list of deleted rows of"):
        SourceRun(bounded(table).version_as_of(2).build()).values()


@pytest.mark.usefixtures("both_ways")
def test_versions_are_found_by_time(tmp_path: Path) -> None:
    table = TABLES / "commit_timestamps"
    infos = [json.loads(path.read_text().splitlines()[0]) for path in sorted((table / "_delta_log").glob("*.json"))]
    times = [info["commitInfo"]["inCommitTimestamp"] for info in infos]
    assert ids(SourceRun(bounded(table).timestamp_as_of(times[1] - 1).build()).values()) == []
    assert ids(SourceRun(bounded(table).timestamp_as_of(times[1]).build()).values()) == [1]
    later = datetime.datetime.fromtimestamp(times[1] / 1000, datetime.UTC) + datetime.timedelta(days=1)
    assert ids(SourceRun(bounded(table).timestamp_as_of(later.isoformat()).build()).values()) == [1]
    assert ids(SourceRun(bounded(table).starting_timestamp(times[0] + 1).build()).values()) == [1]
    with pytest.raises(SourceError, match="has no version as old as"):
        bounded(table).timestamp_as_of(times[0] - 1).build()


@pytest.mark.usefixtures("both_ways")
def test_partitions_are_left_out_by_their_values(tmp_path: Path) -> None:
    def read(*conditions: Any) -> list[int]:
        source = bounded(TABLES / "change_feed_partitioned").version_as_of(1).filter_partitions(*conditions).build()
        return sorted(ids(SourceRun(source).values()))

    first, second = datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)
    assert read(("day", "=", first)) == [1, 2]
    assert read(("day", ">", first)) == [3]
    assert read(("day", "!=", None), ("day", "<=", second)) == [1, 2, 3]
    assert read(("day", "=", None)) == [4]
    assert read(("day", "in", [second])) == [3]
    assert read(("day", "not in", [second])) == [1, 2]
    for condition, problem in [
        (("id", "=", 1), "'id' is no partition column"),
        (("day", "~", first), "takes conditions"),
        (("day", "=", 5.5), "'day' is date; got 5.5 of type float"),
        (("day", "=", datetime.datetime(2024, 1, 1)), "is date; got datetime.datetime"),
        (("day", ">", None), "None has no meaning"),
        (("day", "in", "x"), "takes a list"),
    ]:
        with pytest.raises(InvalidProgramError, match=problem):
            read(condition)


@pytest.mark.usefixtures("both_ways")
def test_a_version_with_other_partition_columns_is_not_read_without_the_filter(tmp_path: Path) -> None:
    rows = pa.table({"day": ["x", "y"], "v": [1, 2]})
    write_deltalake(tmp_path, rows)
    write_deltalake(tmp_path, rows, mode="append")
    write_deltalake(tmp_path, rows, mode="overwrite", schema_mode="overwrite", partition_by=["day"])
    for first in (0, 1):
        source = bounded(tmp_path).starting_version(first).ignore_changes().filter_partitions(("day", "=", "x")).build()
        with pytest.raises(SourceChangedError, match="is not partitioned by 'day'"):
            SourceRun(source).values()
    assert SourceRun(bounded(tmp_path).filter_partitions(("day", "=", "x")).build()).values() == [Row(day="x", v=1)]


@pytest.mark.usefixtures("both_ways")
def test_a_timestamp_partition_is_selected_by_the_type_that_records_have(tmp_path: Path) -> None:
    at = datetime.datetime(2024, 1, 1, 12, 0, 0, 250_000, tzinfo=datetime.UTC)
    write_deltalake(tmp_path, pa.table({"at": [at, at + datetime.timedelta(days=1)], "v": [1, 2]}), partition_by=["at"])
    for value in (at, Instant(1704110400, 250_000_000)):
        found = SourceRun(bounded(tmp_path).filter_partitions(("at", "<=", value)).build()).values()
        assert found == [Row(at=Instant(1704110400, 250_000_000), v=1)]


@pytest.mark.usefixtures("both_ways")
def test_large_files_are_cut_and_each_row_comes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enumerator_module, "_SPLIT_SIZE", 3_000)
    table = tmp_path / "table"
    write(table, *range(5_000))
    (file,) = table.glob("*.parquet")
    data = pq.read_table(file)
    pq.write_table(data, file, row_group_size=500)
    note_size(table, file)
    run = SourceRun(bounded(table).build(), parallelism=3, credit=170, restart_readers=True)
    by_subtask = run.by_subtask()
    assert all(by_subtask.values())
    assert sorted(row.id for rows in by_subtask.values() for row in rows) == list(range(5_000))


def note_size(table: Path, file: Path) -> None:
    """Put the size that the only file of a table has now into the log."""
    rewrite(table, lambda line: line["add"].update(size=file.stat().st_size) if "add" in line else None)


def rewrite(table: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the actions of versions 0 and 1 of a table, such as the sizes of files that a test has rewritten."""
    for log in sorted((table / "_delta_log").glob("*.json"))[:2]:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            change(line)
        log.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.usefixtures("both_ways")
def test_deletion_vectors_count_rows_of_the_file_and_not_of_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "table"
    shutil.copytree(TABLES / "deletion_vectors", table)
    sizes = {}
    for file in table.glob("*.parquet"):
        data = pq.read_table(file)
        pq.write_table(data, file, row_group_size=3)
        sizes[file.name] = file.stat().st_size
    for log in (table / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            for kind in ("add", "remove"):
                if kind in line:
                    line[kind]["size"] = sizes[line[kind]["path"]]
        log.write_text("\n".join(map(json.dumps, lines)))
    for split_size in (200, 10**9):
        monkeypatch.setattr(enumerator_module, "_SPLIT_SIZE", split_size)
        for credit in (1, 4):
            for version in (2, 3):
                source = bounded(table).version_as_of(version).build()
                found = SourceRun(source, parallelism=2, credit=credit, restart_readers=True).values()
                assert sorted(map(as_spark_shows, found)) == EXPECTED["deletion_vectors"]["rows"][str(version)]


@pytest.mark.usefixtures("both_ways")
def test_a_deleted_row_whose_value_does_not_fit_its_type_is_left_out(tmp_path: Path) -> None:
    table = tmp_path / "table"
    shutil.copytree(TABLES / "deletion_vectors", table)
    file = max(table.glob("*.parquet"), key=lambda each: each.stat().st_size)
    deleted = (3, 4, 17)
    ids = [n + (2**40 if n in deleted else 0) for n in range(20)]
    pq.write_table(pq.read_table(file).set_column(0, "id", pa.array(ids)), file)
    sizes = {each.name: each.stat().st_size for each in table.glob("*.parquet")}
    for log in (table / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for action in (line[kind] for line in lines for kind in ("add", "remove") if kind in line):
            action["size"] = sizes[action["path"]]
        log.write_text("\n".join(map(json.dumps, lines)))
    source = bounded(table).row_type(Types.ROW_NAMED(["id"], [Types.INT()])).version_as_of
    found = SourceRun(source(2).build(), credit=4, restart_readers=True).values()
    assert sorted(row.id for row in found) == [n for n in range(20) if n not in deleted]
    with pytest.raises(SourceError, match=r"a value in .* does not fit its type"):
        SourceRun(source(1).build()).values()


@pytest.mark.usefixtures("both_ways")
def test_fields_that_were_added_deep_inside_are_null_in_older_files(tmp_path: Path) -> None:
    table = tmp_path / "table"
    inner = pa.struct([("a", pa.int32())])
    schema = pa.schema([("id", pa.int64()), ("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))])

    def row(n: int, *more: Any) -> dict[str, Any]:
        one = None if n % 3 == 0 else {"a": n, **dict(more)}
        return {
            "id": n,
            "s": one,
            "l": None if n % 5 == 0 else [one, {"a": -n, **dict(more)}][: n % 4],
            "m": None if n % 7 == 0 else {"k": one},
        }

    plain = [row(n) for n in range(9_000)]
    columns = {name: [line[name] for line in plain] for name in ("id", "s", "l")}
    maps = [None if line["m"] is None else list(line["m"].items()) for line in plain]
    write_deltalake(str(table), pa.table({**columns, "m": maps}, schema))
    field = {"name": "z", "type": "string", "nullable": True, "metadata": {}}

    def add_field(action: dict[str, Any]) -> None:
        if "metaData" in action:
            found = json.loads(action["metaData"]["schemaString"])
            found["fields"][1]["type"]["fields"].insert(0, field)
            found["fields"][2]["type"]["elementType"]["fields"].append(field)
            found["fields"][3]["type"]["valueType"]["fields"].append(field)
            action["metaData"]["schemaString"] = json.dumps(found)

    rewrite(table, add_field)
    found = SourceRun(bounded(table).build(), credit=700, restart_readers=True).values()
    assert [line.as_dict(True) for line in found] == [row(n, ("z", None)) for n in range(9_000)]


@pytest.mark.usefixtures("both_ways")
def test_partition_values_of_all_types_are_read(tmp_path: Path) -> None:
    table = tmp_path / "table"
    names = ["s", "i", "d", "b", "day", "at", "m"]
    early, late = datetime.datetime(1960, 1, 1), datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)
    values: list[list[Any]] = [
        ["a b/ü%20=", -5, 1.5, True, datetime.date(1969, 12, 31), late, decimal.Decimal("1.50")],
        ["x", 0, -0.25, False, datetime.date(2024, 2, 29), early, decimal.Decimal("20.05")],
        [None] * 7,
    ]
    types = [pa.string(), pa.int32(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"), pa.decimal128(6, 2)]
    data = {name: pa.array([line[n] for line in values], types[n]) for n, name in enumerate(names)}
    write_deltalake(str(table), pa.table({"id": [0, 1, 2], **data}), partition_by=names)
    found = sorted(SourceRun(bounded(table).build()).values(), key=lambda line: line.id)
    for line, wanted in zip(found, values, strict=True):
        at = wanted[5]
        if at is not None:
            micros = (at - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
            wanted = [*wanted[:5], Instant(micros // 1_000_000, micros % 1_000_000 * 1_000), wanted[6]]
        assert list(line)[1:] == wanted
    chosen = bounded(table).filter_partitions(("at", ">", early), ("m", "=", decimal.Decimal("1.5")))
    assert SourceRun(chosen.column_names("s", "m").build()).values() == [Row(s="a b/ü%20=", m=decimal.Decimal("1.50"))]


@pytest.mark.usefixtures("both_ways")
def test_partition_columns_alone_have_as_many_rows_as_the_files(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    data = pa.table({"id": range(9_000), "day": [n // 5_000 for n in range(9_000)]})
    write_deltalake(table, data, partition_by=["day"])
    source = bounded(table).column_names("day").build()
    for restart_readers in (False, True):
        found = SourceRun(source, credit=700, restart_readers=restart_readers).values()
        assert sorted(row.day for row in found) == [0] * 5_000 + [1] * 4_000


# -- following a table ---------------------------------------------------------------------------------------------------------


class Following:
    """A continuous source at work: looks at the log, and has its readers read, when the test says so."""

    def __init__(self, source: DeltaSource, parallelism: int = 2, checkpoint: tuple[Any, list[Any]] | None = None) -> None:
        assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        self.source = source
        self.context = FakeEnumeratorContext(parallelism)
        self.readers: dict[int, Any] = {}
        self.owned: dict[int, list[Any]] = {subtask: [] for subtask in range(parallelism)}
        if checkpoint is None:
            self.enumerator: Any = source.create_enumerator(self.context)
        else:
            state, splits = checkpoint
            source.check_restored(splits, state, trusted=False)
            self.enumerator = source.restore_enumerator(self.context, state)
            self.enumerator.add_splits_back(splits, 0)
        self.enumerator.start()
        for subtask in range(parallelism):
            if subtask not in self.context.no_more:
                self.enumerator.handle_split_request(subtask)

    def look(self) -> None:
        self.context.run_calls()

    def epoch(self, credit: int = 1_000) -> list[Row]:
        rows: list[Row] = []
        dry = []
        for subtask in self.owned:
            reader = self.readers.get(subtask)
            if reader is None:
                reader = self.readers[subtask] = self.source.create_reader(FakeReaderContext(subtask_index=subtask))  # type: ignore[arg-type]
            new = [stored(split, self.source.split_type) for split in self.context.assigned.pop(subtask, [])]
            if new:
                reader.add_splits(new)
            output = FakeOutput(credit)
            status = InputStatus.MORE_AVAILABLE
            while output.credit > 0 and status is InputStatus.MORE_AVAILABLE:
                status = reader.poll_next(output)
            rows += output.values
            self.owned[subtask] = list(reader.snapshot_state())
            self.context.reading[subtask] = bool(self.owned[subtask])
            if status is not InputStatus.MORE_AVAILABLE and subtask not in self.context.no_more:
                dry.append(subtask)
        for subtask in dry:
            self.enumerator.handle_split_request(subtask)
        return rows

    def epochs(self, number: int = 4, credit: int = 1_000) -> list[Row]:
        return [row for _ in range(number) for row in self.epoch(credit)]

    def checkpoint(self) -> tuple[Any, list[Any]]:
        state = stored(self.enumerator.snapshot_state(1), self.source.enumerator_checkpoint_type)
        owned = [split for splits in self.owned.values() for split in splits]
        owned += [split for splits in self.context.assigned.values() for split in splits]
        return state, [stored(split, self.source.split_type) for split in owned]


def test_a_snapshot_is_followed_by_each_later_version_once(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for version in range(4):
        write(table, 10 * version, 10 * version + 1)
    following = Following(continuous(table).version_as_of(1).build())
    assert sorted(ids(following.epochs())) == [0, 1, 10, 11, 20, 21, 30, 31]
    following.look()
    assert following.epochs() == []
    write(table, 40)
    following.look()
    following.look()
    assert ids(following.epochs()) == [40]


def test_a_start_at_a_version_reads_what_it_added_and_later_ones(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, 1)
    write(table, 2)
    latest = Following(continuous(table).starting_version("latest").build())
    second = Following(continuous(table).starting_version(1).build())
    write(table, 3)
    for following, wanted in [(latest, [3]), (second, [2, 3])]:
        following.look()
        assert ids(following.epochs()) == wanted
    with pytest.raises(SourceError, match="has no such version yet; the newest is 2"):
        continuous(table).starting_version(9).build()
    for builder in (continuous(table).version_as_of(3), bounded(table).starting_version(0).ending_version(3)):
        with pytest.raises(SourceError, match="has no such version yet; the newest is 2"):
            builder.build()


def test_the_error_names_the_version_that_does_not_exist_yet() -> None:
    table = TABLES / "types"
    for builder, version in (
        (bounded(table).version_as_of(99), 99),
        (continuous(table).starting_version(9), 9),
        (bounded(table).starting_version(0).ending_version(7), 7),
    ):
        with pytest.raises(SourceError, match=f"should read version {version}, but .*types has no such version"):
            builder.build()


@pytest.mark.parametrize("credit", [1, 3])
@pytest.mark.parametrize("keep_order", [False, True])
def test_a_checkpoint_anywhere_loses_nothing_and_repeats_nothing(credit: int, keep_order: bool, tmp_path: Path) -> None:
    table = tmp_path / "table"
    for version in range(3):
        write(table, *range(10 * version, 10 * version + 4))
    builder = continuous(table).version_as_of(1)
    source = (builder.keep_order() if keep_order else builder).build()
    following, found = Following(source, 3), []
    for number in range(60):
        if number == 8:
            write(table, *range(30, 34))
        following.look()
        found += following.epoch(credit)
        following = Following(source, 1 + number % 4, following.checkpoint())
    assert sorted(ids(found)) == [10 * version + n for version in range(4) for n in range(4)]
    if keep_order:
        assert ids(found)[-8:] == [20, 21, 22, 23, 30, 31, 32, 33]


def assigned_by(source: DeltaSource, checkpoint: tuple[Any, list[Any]] | None = None) -> tuple[tuple[Any, list[Any]], set[int]]:
    """Return a checkpoint after one reader got splits of a bounded source, and the readers that get no more."""
    context = FakeEnumeratorContext()
    enumerator = source.create_enumerator(context) if checkpoint is None else source.restore_enumerator(context, checkpoint[0])
    enumerator.add_splits_back([] if checkpoint is None else checkpoint[1], 0)
    enumerator.start()
    enumerator.handle_split_request(0)
    return (stored(enumerator.snapshot_state(1), source.enumerator_checkpoint_type), context.assigned.get(0, [])), context.no_more


def test_a_bounded_source_that_becomes_continuous_goes_on_with_the_versions_after_its_last_one(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, 1)
    write(table, 2)
    checkpoint, _ = assigned_by(bounded(table).build())
    write(table, 3)
    following = Following(continuous(table).build(), 1, checkpoint)
    following.look()
    assert sorted(ids(following.epochs())) == [1, 2, 3]
    write(table, 4)
    following.look()
    assert ids(following.epochs()) == [4]


def test_a_continuous_source_that_becomes_bounded_ends_with_the_newest_version(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, 1)
    following = Following(continuous(table).build(), 1)
    assert ids(following.epochs()) == [1]
    _, no_more = assigned_by(bounded(table).build(), following.checkpoint())
    assert no_more == {0}
    write(table, 2)
    (state, splits), no_more = assigned_by(bounded(table).build(), following.checkpoint())
    assert ([split.version for split in splits], state.end, no_more) == ([1], 1, {0})


def test_a_restored_source_ends_with_the_ending_version_that_the_program_has_now(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for version in range(4):
        write(table, version)
    checkpoint, _ = assigned_by(bounded(table).starting_version(0).ending_version(1).build())
    (state, splits), _ = assigned_by(bounded(table).starting_version(0).ending_version(2).build(), checkpoint)
    assert ([split.version for split in splits], state.end) == ([0, 1, 2], 2)


def test_the_order_of_versions_is_kept_by_one_reader_that_waits_for_the_snapshot(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for n in range(8):
        write(table, n)
    following = Following(continuous(table).version_as_of(3).keep_order().build(), parallelism=3)
    following.look()
    first = following.epoch(credit=1)
    assert set(ids(first)) <= {0, 1, 2, 3}
    assert len(first) == 3
    found = ids(first) + ids(following.epochs(12, credit=1))
    assert sorted(found[:4]) == [0, 1, 2, 3]
    assert found[4:] == [4, 5, 6, 7]
    assert following.context.no_more == {1, 2}


def test_the_order_is_kept_if_one_reader_had_all_and_several_go_on(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, 0)
    write(table, *range(10, 16))
    write(table, *range(20, 40))
    source = continuous(table).version_as_of(2).keep_order().build()
    for n in (1, 2):
        write(table, 100 * n)
    alone = Following(source, 1)
    _, snapshot = alone.checkpoint()
    alone.epoch()
    state, changes = alone.checkpoint()
    assert [split.snapshot for split in (*snapshot, *changes)] == [True, True, True, False, False]
    several = Following(source, 4, (state, [*snapshot, *changes]))
    found = ids(several.epochs(30, credit=1))
    assert sorted(found[:-2]) == [0, *range(10, 16), *range(20, 40)]
    assert found[-2:] == [100, 200]


def test_rearranged_rows_are_not_read_again(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, 1)
    following = Following(continuous(table).build())
    write(table, 2)
    DeltaTable(str(table)).optimize.compact()
    write(table, 3)
    following.look()
    assert sorted(ids(following.epochs())) == [1, 2, 3]


def delete_all(table: Path) -> None:
    DeltaTable(str(table)).delete()


def delete_some(table: Path) -> None:
    DeltaTable(str(table)).delete("id = 1")


def overwrite(table: Path) -> None:
    write_deltalake(str(table), pa.table({"id": pa.array([7], pa.int64())}), mode="overwrite")


def test_changed_rows_end_a_job_that_reads_what_is_added_unless_it_said_otherwise(tmp_path: Path) -> None:
    cases: list[tuple[Callable[[Path], None], str, dict[str, list[int]]]] = [
        (
            delete_all,
            r"version 1 .*\(DELETE\) deleted rows",
            {"ignore_deletes": [3], "ignore_changes": [3], "skip_change_commits": [3]},
        ),
        (delete_some, r"version 1 .*\(DELETE\) changed or deleted rows", {"ignore_changes": [2, 3], "skip_change_commits": [3]}),
        (overwrite, r"version 1 .*\(WRITE\) changed or deleted rows", {"ignore_changes": [3, 7], "skip_change_commits": [3]}),
    ]
    for number, (change, problem, lenient) in enumerate(cases):
        table = tmp_path / str(number)
        write(table, 1, 2)
        builders = {name: getattr(continuous(table), name)() for name in lenient}
        strict = [Following(continuous(table).build())]
        if "ignore_deletes" not in lenient:
            strict.append(Following(continuous(table).ignore_deletes().build()))
        going_on = {name: Following(builder.build()) for name, builder in builders.items()}
        change(table)
        write(table, 3)
        for following in strict:
            with pytest.raises(SourceChangedError, match=problem):
                following.look()
        for name, following in going_on.items():
            assert sorted(ids(following.epoch())) == [1, 2]
            following.look()
            assert sorted(ids(following.epochs())) == lenient[name], name


def test_deletion_vectors_of_a_version_are_no_new_rows(tmp_path: Path) -> None:
    # Version 2 deletes, version 3 updates, version 4 appends: with vectors, so that no file is rewritten except for row 5.
    following = Following(continuous(TABLES / "deletion_vectors").version_as_of(1).ignore_changes().build())
    rows = [(row.id, row.name) for row in following.epochs()]
    assert sorted(rows) == sorted([*((n, f"n{n}") for n in range(20)), (5, "changed"), (100, "last")])
    with pytest.raises(SourceChangedError, match=r"version 2 .* deleted rows that were read already"):
        Following(continuous(TABLES / "deletion_vectors").version_as_of(1).build())


def test_a_changed_schema_is_named(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, 1)
    everything, chosen = Following(continuous(table).build()), Following(continuous(table).column_names("id").build())
    write_deltalake(str(table), pa.table({"id": pa.array([2], pa.int64()), "name": ["new"]}), mode="append", schema_mode="merge")
    with pytest.raises(SourceChangedError, match=r"the schema of .* changed with version 1: column 'name' was added"):
        everything.look()
    chosen.look()
    assert sorted(ids(chosen.epochs())) == [1, 2]
    # Built again, the source reads the new column, and goes on where it was.
    again = Following(continuous(table).build(), 2, everything.checkpoint())
    again.look()
    assert sorted((row.id, row.name) for row in again.epochs()) == [(1, None), (2, "new")]
    write_deltalake(str(table), pa.table({"id": ["text"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SourceChangedError, match="column 'id' is string now, and was long; column 'name' was dropped"):
        again.look()
    # An older version cannot be read as the schema of today.
    with pytest.raises(SourceChangedError, match="column 'id' was long then, and is string"):
        Following(continuous(table).version_as_of(0).build())


def test_widened_types_and_renamed_columns_of_older_versions_are_read() -> None:
    widened = Following(continuous(TABLES / "type_widening").starting_version(0).build())
    widened.look()
    assert [(row.id, str(row.amount)) for row in widened.epochs()] == [(1, "1.50"), (3000000000, "12345.67")]
    mapped = Following(continuous(TABLES / "column_mapping").starting_version(0).build())
    mapped.look()
    assert sorted((row.id, row.new, row.part, row.deep.c, row.later) for row in mapped.epochs()) == [
        (1, "one", "x", "b1", None), (2, "two", None, "b2", None), (3, "three", "a b", "b3", 3.25),
    ]  # fmt: skip


def test_a_table_that_is_vacuumed_replaced_or_forgets_its_log_is_named(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, 1)
    source = continuous(table).build()
    following = Following(source)
    for file in table.glob("*.parquet"):
        file.unlink()
    with pytest.raises(SourceChangedError, match=r"\.parquet is gone, which version 0 of the table has"):
        following.epoch()
    write(table, 2)
    write(table, 3)
    write(table, 4)
    cleaned = Following(continuous(table).starting_version("latest").build())
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{2:020}.json").unlink()
    behind = Following(continuous(table).starting_version(2).build())
    with pytest.raises(SourceChangedError, match="does not hold version 2 any more; the newest is 3"):
        behind.look()
    checkpoint = cleaned.checkpoint()
    shutil.rmtree(table)
    write(table, 5)
    with pytest.raises(SourceChangedError, match="ends with version 0 now, and version 3 was read already"):
        cleaned.look()
    with pytest.raises(ForeignCheckpointError, match="made with another table than the one that is at"):
        Following(continuous(table).build(), 1, checkpoint)


def test_a_checkpoint_of_other_partitions_or_with_paths_elsewhere_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table"
    data = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["a", "b", "c"]})
    write_deltalake(str(table), data, partition_by=["p"])
    following = Following(continuous(table).build(), 3)
    following.epoch()
    checkpoint = following.checkpoint()
    assert checkpoint[0].version == 1
    half = Following(continuous(table).build(), 3)
    half_done = half.checkpoint()[0]
    other = continuous(table).filter_partitions(("p", "=", "b")).build()
    state = type(half_done)(**{name: getattr(half_done, name) for name in half_done.__dataclass_fields__} | {
        "version": 0, "snapshot": True, "splits_done": 1, "last_split": "p=a/gone.parquet",
    })  # fmt: skip
    with pytest.raises(ForeignCheckpointError, match="are not those that the checkpoint knows"):
        Following(other, 1, (state, []))
    split = half.checkpoint()[1][0]
    for path in ("../secret.parquet", "/etc/passwd"):
        forged = type(split)(**{name: getattr(split, name) for name in split.__dataclass_fields__} | {"path": path})
        with pytest.raises(ForeignCheckpointError, match="is no file of the Delta table"):
            other.check_restored([forged], None, trusted=True)


def test_rows_to_come_are_counted_for_the_metrics(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, *range(100))
    source, context = bounded(table).build(), FakeReaderContext()
    splits = FakeEnumeratorContext()
    source.create_enumerator(splits).start()
    enumerator = source.create_enumerator(splits)
    enumerator.start()
    enumerator.handle_split_request(0)
    reader = source.create_reader(context)  # type: ignore[arg-type]
    pending = context.metric_group.gauges["pendingRecords"]
    assert pending() == 0
    reader.add_splits(splits.assigned[0])
    assert pending() == 100
    reader.poll_next(FakeOutput(30))  # type: ignore[arg-type]
    assert pending() == 70
    reader.close()


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 1)
    for builder, problem in [
        (bounded(tmp_path).version_as_of(0).starting_version(0), "begins in one way; got version_as_of and starting_version"),
        (bounded(tmp_path).read_change_feed(), "needs starting_version"),
        (bounded(tmp_path).starting_version("latest"), "would read nothing"),
        (continuous(tmp_path).starting_version(0).ending_version(1), "is for a bounded DeltaSource"),
        (continuous(tmp_path).read_change_feed().ignore_deletes(), "ignore_deletes has no effect"),
        (bounded(tmp_path).ignore_changes(), "ignore_changes has no effect"),
        (bounded(tmp_path).starting_version(1).ending_version(0), "starts with version 1 of .* and ends with version 0"),
        (bounded(tmp_path).starting_timestamp("2999-01-01").ending_version(0), "would read nothing"),
        (bounded(tmp_path).column_names("id").row_type(Types.ROW_NAMED(["id"], [Types.LONG()])), "got both"),
    ]:
        with pytest.raises(InvalidProgramError, match=problem):
            builder.build()
    for wrong in (
        lambda: bounded(tmp_path).version_as_of(-1),
        lambda: bounded(tmp_path).starting_version("newest"),
        lambda: bounded(tmp_path).timestamp_as_of("yesterday"),
        lambda: bounded(tmp_path).column_names(),
        lambda: bounded(tmp_path).row_type(Types.LONG()),
        lambda: bounded(tmp_path).ignore_deletes("yes"),
        lambda: continuous(tmp_path).update_check_interval_millis("often"),
    ):
        with pytest.raises(InvalidArgumentError):
            wrong()


@pytest.mark.usefixtures("both_ways")
def test_layouts_that_other_writers_choose_for_their_columns_are_read(tmp_path: Path) -> None:
    table = tmp_path / "table"
    plain = pa.schema([("s", pa.string()), ("b", pa.binary()), ("l", pa.list_(pa.string()))])
    write_deltalake(str(table), pa.table({"s": ["x"], "b": [b"\x01"], "l": [["y", None]]}, plain))
    (file,) = table.glob("*.parquet")
    for text, binary, values in [
        (pa.large_string(), pa.large_binary(), pa.large_list(pa.large_string())),
        (pa.string_view(), pa.binary_view(), pa.list_(pa.string_view())),
        (pa.dictionary(pa.int32(), pa.string()), pa.binary(1), pa.list_(pa.string(), 2)),
    ]:
        data = pa.table({"s": ["x"], "b": [b"\x01"], "l": [["y", None]]}, plain)
        pq.write_table(data.cast(pa.schema([("s", text), ("b", binary), ("l", values)])), file)
        note_size(table, file)
        assert SourceRun(bounded(table).build()).values() == [Row(s="x", b=b"\x01", l=["y", None])]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("partitioned", [False, True])
def test_columns_that_a_file_spells_with_other_letters_are_read(tmp_path: Path, partitioned: bool) -> None:
    # As in a table that was made of Parquet files: Delta and Spark ignore case.
    write_deltalake(tmp_path, pa.table({"Id": [1], "Part": ["a"]}), partition_by=["Part"] if partitioned else None)
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('\\"Id\\"', '\\"id\\"').replace('\\"Part\\"', '\\"part\\"'))
    assert SourceRun(bounded(tmp_path).build()).values() == [Row(id=1, part="a")]
    # A column whose name is spelled exactly comes first.
    files = list(tmp_path.rglob("*.parquet"))
    pq.write_table(pa.table({"ID": [2], "id": [3], "Part": ["a"]}), files[0])
    (add,) = [line for line in log.read_text().splitlines() if line.startswith('{"add"')]
    size = str(json.loads(add)["add"]["size"])
    log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{files[0].stat().st_size}'))
    assert SourceRun(bounded(tmp_path).build()).values() == [Row(id=3, part="a")]


@pytest.mark.usefixtures("both_ways")
def test_a_log_that_only_has_a_checkpoint_is_read(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    DeltaTable(tmp_path).create_checkpoint()
    for entry in (tmp_path / "_delta_log").glob("*.json"):
        entry.unlink()
    assert sorted(ids(SourceRun(bounded(tmp_path).build()).values())) == [1, 2]


@pytest.mark.usefixtures("both_ways")
def test_changes_from_before_there_was_a_change_feed_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 1, 2)
    DeltaTable(tmp_path).delete("id = 1")
    for builder in (bounded(tmp_path).starting_version(1), continuous(tmp_path), continuous(tmp_path).version_as_of(0)):
        with pytest.raises(SourceChangedError, match=r"version 1 of .* has no change data feed"):
            builder.read_change_feed().build()
    DeltaTable(tmp_path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    DeltaTable(tmp_path).delete("id = 2")
    with pytest.raises(SourceChangedError, match=r"version 1 of .* has no change data feed"):
        bounded(tmp_path).starting_version(1).read_change_feed().build()
    (row,) = SourceRun(bounded(tmp_path).starting_version(2).read_change_feed().build()).values()
    assert (row.id, row.get_row_kind()) == (2, RowKind.DELETE)
