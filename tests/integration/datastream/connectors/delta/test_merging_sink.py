"""DeltaSink that merges by key, adds columns, merges small files, or writes tables with features of newer protocols."""

from __future__ import annotations

import datetime
import decimal
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from flinkish.common import Instant, Row, RowKind, Types
from flinkish.common.errors import (
    ForeignCheckpointError,
    InvalidArgumentError,
    InvalidProgramError,
    RecordRefusedError,
    SinkError,
)
from flinkish.common.pickling import dumps, loads
from flinkish.common.typeinfo import DecimalTypeInfo
from flinkish.datastream.connectors import DeltaSink, DeltaSource
from flinkish.datastream.connectors.delta import writer as writer_module
from tests.kit.tables import rows_of
from tests.unit.datastream.connectors.fakes import SinkRun, SourceRun

TABLES = Path(__file__).parent / "tables"
PAIR = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])


def insert(k: Any, v: Any) -> Row:
    return Row(k=k, v=v)


def before(k: Any, v: Any) -> Row:
    return Row.of_kind(RowKind.UPDATE_BEFORE, k=k, v=v)


def after(k: Any, v: Any) -> Row:
    return Row.of_kind(RowKind.UPDATE_AFTER, k=k, v=v)


def delete(k: Any, v: Any = None) -> Row:
    return Row.of_kind(RowKind.DELETE, k=k, v=v)


def rows(table: Path) -> list[tuple[Any, ...]]:
    return sorted(rows_of(table))


def staged(table: Path) -> list[Path]:
    return [path for path in (table / "_flinkish").rglob("*") if path.is_file()] if (table / "_flinkish").exists() else []


def upserts(table: Path, **options: Any) -> SinkRun:
    sink = DeltaSink(str(table), upsert_keys=["k"], **options)
    sink.validate(PAIR)
    return SinkRun(sink, PAIR)


def version(table: Path) -> int:
    return DeltaTable(str(table)).version()


# -- merging -------------------------------------------------------------------------------------------------------------------


def test_rows_are_inserted_updated_and_deleted_by_their_kind_in_one_commit(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    run.checkpoint([insert("a", 1), insert("b", 2), insert("c", 3)])
    assert rows(tmp_path) == [("a", 1), ("b", 2), ("c", 3)]
    at = version(tmp_path)
    run.checkpoint([before("a", 1), after("a", 10), delete("b"), insert("d", 4), delete("never there"), before("c", 3)])
    assert rows(tmp_path) == [("a", 10), ("d", 4)]
    assert version(tmp_path) == at + 1
    assert staged(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "codec"), [("snappy", "SNAPPY"), ("zstd", "ZSTD"), ("gzip", "GZIP"), ("lz4", "LZ4"), ("none", "UNCOMPRESSED")]
)
def test_files_that_deltalake_writes_have_the_chosen_compression(tmp_path: Path, name: str, codec: str) -> None:
    def codecs(table: Path) -> set[str]:
        files = [pq.ParquetFile(path.removeprefix("file://")) for path in DeltaTable(str(table)).file_uris()]
        return {file.metadata.row_group(0).column(0).compression for file in files}

    merging = upserts(tmp_path / "merged", compression=name, compact_every=2)
    merging.checkpoint([insert("a", 1)])
    assert codecs(tmp_path / "merged") == {codec}
    merging.checkpoint([insert("b", 1)])  # and the files are merged
    assert len(DeltaTable(str(tmp_path / "merged")).file_uris()) == 1
    assert codecs(tmp_path / "merged") == {codec}
    table = DeltaSink.for_table(str(tmp_path / "mapped")).with_compression(name)
    mapped = table.with_table_properties({"delta.columnMapping.mode": "name"}).build()
    mapped.validate(PAIR)
    SinkRun(mapped, PAIR).checkpoint([insert("a", 1)])
    assert codecs(tmp_path / "mapped") == {codec}


@pytest.mark.parametrize("wrong", [{"delta.appendOnly": True}, ["delta.appendOnly"], {1: "x"}])
def test_table_properties_are_texts(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a dict of texts"):
        DeltaSink.for_table(str(tmp_path)).with_table_properties(wrong).build()


def test_keys_without_a_column_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="at least one column"):
        DeltaSink.for_table(str(tmp_path)).with_upsert_keys()


def test_the_last_row_of_a_key_counts_within_an_epoch_across_epochs_and_across_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = upserts(tmp_path)
    run.epoch([insert("a", 1), insert("b", 1), delete("a"), insert("c", 1), insert("a", 2)])
    monkeypatch.setattr("flinkish.datastream.connectors._row_buffer.BUFFER_ROWS", 1)  # each epoch makes a file
    run.epoch([after("a", 3), delete("b"), insert("d", 1)]).epoch([delete("c"), delete("d"), insert("d", 2)])
    assert len(staged(tmp_path)) == 2
    run.checkpoint([after("a", 4)])
    assert rows(tmp_path) == [("a", 4), ("d", 2)]


def test_rows_of_an_aborted_checkpoint_come_before_those_of_the_next_one(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    run.checkpoint([insert("a", 1)])
    aborted = run.checkpoint([after("a", 2), insert("b", 1)], commit=False)
    later = run.checkpoint([delete("b"), after("a", 3)], commit=False)
    later.requests[:0] = aborted.requests
    later.requests.reverse()
    run.commit(later)
    assert rows(tmp_path) == [("a", 3)]


def test_a_commit_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    first = run.checkpoint([insert("a", 1), insert("b", 1)])
    at = version(tmp_path)
    run.restore(first)
    assert version(tmp_path) == at
    second = run.checkpoint([delete("a"), after("b", 2)], commit=False)
    run.restore(second)
    assert rows(tmp_path) == [("b", 2)]
    # Also one whose MERGE had nothing to do, of which the table would keep no trace.
    third = run.checkpoint([delete("nobody")])
    at = version(tmp_path)
    run.restore(third, 2)
    assert version(tmp_path) == at
    assert rows(tmp_path) == [("b", 2)]
    with pytest.raises(ForeignCheckpointError, match="is ahead of checkpoint"):
        run.restore(second)


def flush(run: SinkRun, values: Sequence[Row]) -> None:
    """Stage rows that no checkpoint names."""
    run.write(values)
    for writer in run.writers:
        writer.flush(False)


def test_staged_files_of_lost_attempts_are_removed_with_the_next_commit(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    first = run.checkpoint([insert("a", 1)])
    flush(run, [insert("lost", 1)])
    assert len(staged(tmp_path)) == 1
    run.restore(first)
    run.checkpoint()  # commits nothing
    assert len(staged(tmp_path)) == 1
    pending = run.checkpoint([insert("b", 1)], commit=False)
    flush(run, [insert("lost", 2)])
    assert len(staged(tmp_path)) == 3
    run.restore(pending)
    assert len(staged(tmp_path)) == 2
    run.checkpoint([insert("c", 1)])
    assert staged(tmp_path) == []
    assert rows(tmp_path) == [("a", 1), ("b", 1), ("c", 1)]


def test_staged_files_that_a_savepoint_names_stay_until_the_table_is_ahead_of_it(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    checkpoint = run.checkpoint([insert("a", 1)])
    savepoint = run.checkpoint([after("a", 2), insert("b", 1)], commit=False)
    run.restore(checkpoint).restore(checkpoint).restore(savepoint, lineage="next")
    assert rows(tmp_path) == [("a", 2), ("b", 1)]
    assert staged(tmp_path) == []


def test_another_driver_that_commits_first_makes_the_merge_run_again_and_its_own_twin_is_recognized(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    run.checkpoint([insert("a", 1)])
    pending = run.checkpoint([after("a", 2)], commit=False)
    twin = SinkRun(run.sink, PAIR)
    twin.committer, twin.states = run.sink.create_committer(run.contexts[0].configuration), run.states
    run.commit(pending)
    twin.commit(pending)
    assert rows(tmp_path) == [("a", 2)]
    write_deltalake(str(tmp_path), pa.table({"k": ["other"], "v": [9]}), mode="append")
    run.checkpoint([after("a", 3), delete("other")])
    assert rows(tmp_path) == [("a", 3)]


def test_a_stale_handle_cannot_merge_a_checkpoint_a_second_time(tmp_path: Path) -> None:
    """What the rule "one transaction for each checkpoint" rests on in deltalake."""
    write_deltalake(str(tmp_path), pa.table({"k": ["a"], "v": [1]}))
    first, second = DeltaTable(str(tmp_path)), DeltaTable(str(tmp_path))

    def merge(table: DeltaTable, k: str) -> None:
        source = pa.table({"k": [k], "v": [2]})
        properties = CommitProperties(app_transactions=[Transaction("job", 7)])
        merger = table.merge(source, "t.k = s.k", source_alias="s", target_alias="t", commit_properties=properties)
        merger.when_matched_update({"v": "s.v"}).when_not_matched_insert({"k": "s.k", "v": "s.v"}).execute()

    merge(first, "x")
    with pytest.raises(Exception, match="concurrent"):
        merge(second, "y")
    assert rows(tmp_path) == [("a", 1), ("x", 2)]


def test_keys_of_several_columns_of_all_types_with_names_of_any_letters(tmp_path: Path) -> None:
    names = ["Id", "day", "at", "amount", "flag", "select", "new value"[:3] + "é"]
    types = [Types.LONG(), Types.SQL_DATE(), Types.INSTANT(), Types.BIG_DEC(), Types.BOOLEAN(), Types.STRING(), Types.DOUBLE()]
    row_type = Types.ROW_NAMED(names, types)
    sink = DeltaSink(str(tmp_path), upsert_keys=names[:6], partition_by=["day"])
    sink.validate(row_type)
    run = SinkRun(sink, row_type)

    def row(value: float, kind: RowKind = RowKind.INSERT, amount: str = "1.0") -> Row:
        at = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
        day = datetime.date(2024, 2, 29)
        values = [1, day, at, decimal.Decimal(amount), True, 'it\'s "x"', value]
        found = Row(**dict(zip(names, values, strict=True)))
        found.set_row_kind(kind)
        return found

    run.checkpoint([row(1.0)])
    run.checkpoint([row(2.0, RowKind.UPDATE_AFTER, "1.00"), row(5.0, amount="2")])
    found = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert sorted(found[names[6]].to_pylist()) == [2.0, 5.0]
    run.checkpoint([row(0.0, RowKind.DELETE), row(0.0, RowKind.DELETE, "2.000")])
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 0


def test_wrong_keys_are_refused(tmp_path: Path) -> None:
    nested = Types.ROW_NAMED(["k", "v"], [Types.LIST(Types.LONG()), Types.DOUBLE()])
    for keys, row_type, problem in [
        (["x"], PAIR, "'x' of upsert_keys is none of the columns"),
        (["k"], nested, "column 'k' of type list.* cannot be one of upsert_keys"),
        (["v"], nested, "column 'v' of type double cannot be one of upsert_keys"),
    ]:
        with pytest.raises(InvalidProgramError, match=problem):
            DeltaSink(str(tmp_path), upsert_keys=keys).validate(row_type)
    with pytest.raises(InvalidArgumentError, match="got both"):
        DeltaSink(str(tmp_path), upsert_keys=["k"], overwrite=True)
    with pytest.raises(InvalidArgumentError, match="must be a list of names"):
        DeltaSink(str(tmp_path), upsert_keys="k")
    with pytest.raises(RecordRefusedError, match=r"a row has no key \(k\)"):
        upserts(tmp_path).write([insert(None, 1)])
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    DeltaTable.create(tmp_path / "log", schema, configuration={"delta.appendOnly": "true"})
    with pytest.raises(SinkError, match=r"cannot merge the rows of .*append-only"):
        DeltaSink(str(tmp_path / "log"), upsert_keys=["k"]).validate(PAIR)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("x" * 254, "is too long for the name of a folder"),
        ("é" * 43, "is too long for the name of a folder"),
        ("__HIVE_DEFAULT_PARTITION__", "deltalake reads as null"),
    ],
    ids=["long", "long in UTF-8", "null's name"],
)
@pytest.mark.parametrize("options", [{"upsert_keys": ["v"]}, {"compact_every": 1}], ids=["merge", "compaction"])
@pytest.mark.usefixtures("both_ways", "small_partitions")
def test_a_writer_refuses_a_text_for_whose_partition_deltalake_has_no_folder(
    value: str, why: str, options: dict[str, Any], tmp_path: Path
) -> None:
    run = SinkRun(DeltaSink(str(tmp_path), partition_by=["k"], **options), PAIR)
    with pytest.raises(RecordRefusedError, match=why):
        run.write([insert(value, 1)])
    # The longest that fit, and null.
    for number, fits in enumerate(["x" * 253, "é" * 42, "a/b=%", None]):
        run.checkpoint([insert(fits, number)])
        run.checkpoint([insert(fits, number + 10)])
    found = DeltaTable(tmp_path).to_pyarrow_table()["k"].to_pylist()
    assert sorted(k or "" for k in found) == sorted(["x" * 253, "é" * 42, "a/b=%", ""] * 2)


def test_a_checkpoint_that_names_other_files_is_refused(tmp_path: Path) -> None:
    run = upserts(tmp_path)
    pending = run.checkpoint([insert("a", 1)], commit=False)
    file = pending.requests[0].committable.files[0]
    for path in ("../elsewhere.parquet", "part-1.parquet", "_flinkish/../../x.parquet"):
        committable = pending.requests[0].committable
        changed = type(file)(**{name: getattr(file, name) for name in file.__dataclass_fields__} | {"path": path})
        forged = type(committable)(
            table=committable.table, schema=committable.schema, files=(changed,), staged=True, order=committable.order
        )
        request = pending.requests[0]
        names = {name: getattr(request, name) for name in request.__dataclass_fields__}
        pending.requests[0] = type(request)(**names | {"committable": forged})
        with pytest.raises(ForeignCheckpointError, match="which is no data file of the table"):
            run.commit(pending)


# -- tables with features of newer protocols -----------------------------------------------------------------------------------


def copy(name: str, tmp_path: Path) -> Path:
    target = tmp_path / name
    shutil.copytree(TABLES / name, target)
    return target


def read(table: Path) -> list[dict[str, Any]]:
    """Return the rows as our own source reads them, which is tested against Spark."""
    found = SourceRun(DeltaSource.for_bounded_row_data(str(table)).build()).values()
    return sorted((row.as_dict(True) for row in found), key=lambda row: row["id"])


def written(table: Path, types: Sequence[Any], names: Sequence[str], *values: Row, **options: Any) -> list[dict[str, Any]]:
    row_type = Types.ROW_NAMED(list(names), list(types))
    sink = DeltaSink(str(table), **options)
    sink.validate(row_type)
    run = SinkRun(sink, row_type)
    run.lineage = f"from version {version(table)}"  # each call is another job
    checkpoint = run.lose_writers().checkpoint(values)
    at = version(table)
    run.restore(checkpoint)
    assert version(table) == at
    assert staged(table) == []
    return read(table)


def test_tables_with_deletion_vectors_and_change_feeds_are_appended_to_and_merged_into(tmp_path: Path) -> None:
    table, types, names = copy("deletion_vectors", tmp_path), [Types.LONG(), Types.STRING()], ["id", "name"]
    found = written(table, types, names, Row(id=200, name="new"))
    assert [row["id"] for row in found] == [0, 1, 2, *range(5, 17), 18, 19, 100, 200]
    found = written(table, types, names, Row(id=3, name="back"), Row(id=0, name="zero"), upsert_keys=["id"])
    assert [row["id"] for row in found] == [0, 1, 2, 3, *range(5, 17), 18, 19, 100, 200]
    assert [row["name"] for row in found if row["id"] in (0, 3)] == ["zero", "back"]
    table = copy("change_feed", tmp_path)
    types = [Types.INT(), Types.STRING()]
    start = version(table)
    written(table, types, names, Row(id=1, name="x"), Row(id=2, name="y"))
    deleted = Row.of_kind(RowKind.DELETE, id=2, name=None)
    assert written(table, types, names, Row(id=1, name="z"), deleted, upsert_keys=["id"]) == [{"id": 1, "name": "z"}]
    source = DeltaSource.for_bounded_row_data(str(table)).read_change_feed().starting_version(start + 1).build()
    changes = [(str(row.get_row_kind()), row.id, row.name) for row in SourceRun(source).values()]
    assert sorted(changes[:2]) == [("+I", 1, "x"), ("+I", 2, "y")]
    assert sorted(changes[2:]) == [("+U", 1, "z"), ("-D", 2, "y"), ("-U", 1, "x")]


def test_tables_with_column_mapping_get_the_names_that_their_files_have(tmp_path: Path) -> None:
    table, types, names = copy("column_mapping_by_id", tmp_path), [Types.INT(), Types.STRING()], ["id", "label"]
    found = written(table, types, names, Row(id=7, label="seven"))
    assert found == [{"id": 1, "label": "a"}, {"id": 3, "label": "C"}, {"id": 7, "label": "seven"}]
    found = written(table, types, names, Row(id=3, label="three"), Row(id=8, label="eight"), upsert_keys=["id"])
    assert [row["label"] for row in found] == ["a", "three", "seven", "eight"]


def test_a_partitioned_table_with_column_mapping_is_appended_to_and_not_merged_into(tmp_path: Path) -> None:
    table = copy("column_mapping", tmp_path)
    names = ["id", "new", "part", "deep", "later"]
    deep = Types.ROW_NAMED(["a", "c"], [Types.INT(), Types.STRING()])
    types = [Types.INT(), Types.STRING(), Types.STRING(), deep, Types.DOUBLE()]
    row = Row(id=4, new="four", part="x", deep=Row(a=4, c="b4"), later=4.5)
    found = written(table, types, names, row, partition_by=["part"])
    assert found[3] == row.as_dict(True)
    assert [row["new"] for row in found] == ["one", "two", "three", "four"]
    with pytest.raises(SinkError, match="is partitioned and has column mapping"):
        DeltaSink(str(table), partition_by=["part"], upsert_keys=["id"]).validate(Types.ROW_NAMED(names, types))
    # Else the job would fail after a commit, and again after each restart.
    with pytest.raises(SinkError, match=r"cannot merge the files of .*column mapping"):
        DeltaSink(str(table), partition_by=["part"], compact_every=5).validate(Types.ROW_NAMED(names, types))


@pytest.mark.parametrize(
    "options", [{"upsert_keys": ["id"]}, {"compact_every": 1}, {"table_properties": {"delta.columnMapping.mode": "name"}}]
)
def test_deltalake_does_not_write_partitions_of_a_decimal_because_it_damages_negative_ones(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    row_type = Types.ROW_NAMED(["id", "amount"], [Types.LONG(), DecimalTypeInfo(9, 2)])
    with pytest.raises(SinkError, match=r"partitioned by the decimal amount, and deltalake, .*damages the log"):
        DeltaSink(str(tmp_path / "table"), partition_by=["amount"], **options).validate(row_type)
    whole = Types.ROW_NAMED(["id", "amount"], [Types.LONG(), DecimalTypeInfo(9, 0)])
    sink = DeltaSink(str(tmp_path / "whole"), partition_by=["amount"], **options)
    run = SinkRun(sink, whole)
    for number in (1, 2):
        sink.validate(whole)
        run.checkpoint([Row(id=number, amount=decimal.Decimal(-2))])
    found = SourceRun(DeltaSource.for_bounded_row_data(str(tmp_path / "whole")).build()).values()
    assert sorted((row.id, row.amount) for row in found) == [(1, decimal.Decimal(-2)), (2, decimal.Decimal(-2))]


@pytest.mark.parametrize(
    ("options", "does"),
    [
        ({"upsert_keys": ["id"]}, "merge rows into"),
        ({"compact_every": 2}, "merge the files of"),
        ({"table_properties": {"delta.columnMapping.mode": "name"}}, "write rows into"),
    ],
)
def test_deltalake_does_not_write_partitions_of_a_timestamp_because_it_leaves_out_the_zone(
    options: dict[str, Any], does: str, tmp_path: Path
) -> None:
    def sink() -> DeltaSink:
        return DeltaSink(str(tmp_path / "table"), partition_by=["at"], **options)

    moments = Types.ROW_NAMED(["id", "at"], [Types.LONG(), Types.SQL_TIMESTAMP()])
    expected = rf"cannot {does} .*table: the table is partitioned by the timestamp at(?s:.*)Hint: partition by a date"
    with pytest.raises(SinkError, match=expected):
        sink().validate(moments)
    schema = Schema([Field("id", PrimitiveType("long")), Field("at", PrimitiveType("timestamp"))])
    mapped = options.get("table_properties", {})
    DeltaTable.create(tmp_path / "table", schema, partition_by=["at"], configuration=mapped)
    with pytest.raises(SinkError, match=expected):
        sink().validate(moments)
    days = Types.ROW_NAMED(["id", "at"], [Types.LONG(), Types.SQL_DATE()])
    if "upsert_keys" not in options:
        DeltaSink(str(tmp_path / "days"), partition_by=["at"], **options).validate(days)


def test_a_table_is_created_with_column_mapping_or_deletion_vectors(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    run = SinkRun(DeltaSink(str(tmp_path / "mapped"), table_properties=mapped), PAIR).after([Row(k="a", v=1)])
    run.restore(run.checkpoint([Row(k="b", v=2)]))
    run = SinkRun(DeltaSink(str(tmp_path / "merged"), table_properties=mapped, upsert_keys=["k"]), PAIR)
    run.checkpoint([insert("a", 1), insert("b", 1)])
    run.checkpoint([after("b", 2)])
    # deltalake gives a table with deletion vectors the feature variantType, which matters only to columns of that type.
    vectors = {"delta.enableDeletionVectors": "true"}
    run = SinkRun(DeltaSink(str(tmp_path / "vectors"), table_properties=vectors, upsert_keys=["k"]), PAIR)
    run.checkpoint([insert("a", 1), insert("b", 1)])
    run.checkpoint([after("b", 2)])
    assert "variantType" in (DeltaTable(tmp_path / "vectors").protocol().reader_features or ())
    for name in ("mapped", "merged", "vectors"):
        found = SourceRun(DeltaSource.for_bounded_row_data(str(tmp_path / name)).build()).values()
        assert sorted(map(tuple, found)) == [("a", 1), ("b", 2)], name
    both = DeltaSink(str(tmp_path / "both"), table_properties=mapped, upsert_keys=["k"], partition_by=["v"])
    with pytest.raises(SinkError, match="is partitioned and has column mapping"):
        both.validate(PAIR)


def test_generated_columns_are_computed_for_rows_that_are_appended(tmp_path: Path) -> None:
    table = copy("generated", tmp_path)
    assert written(table, [Types.INT()], ["id"], Row(id=21)) == [{"id": 1, "doubled": 2}, {"id": 21, "doubled": 42}]
    with pytest.raises(SinkError, match="has generated columns, which an update does not compute again"):
        DeltaSink(str(table), upsert_keys=["id"]).validate(Types.ROW_NAMED(["id"], [Types.INT()]))


@pytest.mark.parametrize(
    ("name", "feature"),
    [
        ("identity", "identity"),
        ("row_tracking", "rowTracking"),
        ("commit_timestamps", "inCommitTimestamp"),
        ("clustered", "clustering"),
        ("type_widening", "typeWidening"),
        ("variant", "variantType"),
    ],
)
def test_other_features_of_writers_are_refused_by_name(name: str, feature: str, tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=rf"{feature}.* asks more of writers"):
        DeltaSink(str(copy(name, tmp_path))).validate(Types.ROW_NAMED(["id"], [Types.INT()]))


# -- columns and sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [[], ["k"]])
def test_columns_that_the_table_lacks_are_added_if_asked_for(keys: list[str], tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"k": ["a"], "old": [1]}))
    wider = Types.ROW_NAMED(["k", "new", "deep"], [Types.STRING(), Types.LONG(), Types.ROW_NAMED(["x"], [Types.INT()])])
    with pytest.raises(SinkError, match="new: missing in the table, long in the rows"):
        DeltaSink(str(tmp_path), upsert_keys=keys).validate(wider)
    sink = DeltaSink(str(tmp_path), upsert_keys=keys, add_columns=True)
    sink.validate(wider)
    assert version(tmp_path) == 0
    run = SinkRun(sink, wider).after([Row(k="b", new=2, deep=Row(x=3))])
    run.checkpoint([Row(k="c", new=None, deep=None)])
    assert version(tmp_path) == 3
    found = sorted(DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist(), key=lambda row: row["k"])
    assert found == [
        {"k": "a", "old": 1, "new": None, "deep": None},
        {"k": "b", "old": None, "new": 2, "deep": {"x": 3}},
        {"k": "c", "old": None, "new": None, "deep": None},
    ]
    other = Types.ROW_NAMED(["k", "old"], [Types.STRING(), Types.STRING()])
    with pytest.raises(SinkError, match="old: long in the table, string in the rows"):
        DeltaSink(str(tmp_path), add_columns=True).validate(other)
    case = Types.ROW_NAMED(["k", "OLD"], [Types.STRING(), Types.LONG()])
    with pytest.raises(SinkError, match="OLD: old in the table, which is the same for Delta"):
        DeltaSink(str(tmp_path), add_columns=True).validate(case)


def test_a_row_that_is_replaced_keeps_no_value_of_a_column_that_the_new_row_lacks(tmp_path: Path) -> None:
    old = {"text": ["x", "y"], "Deep er": [{"n": 1}, {"n": 2}], "parts": [[1], [2]], "at": [datetime.date(2000, 1, 1)] * 2}
    write_deltalake(str(tmp_path), pa.table({"k": ["a", "b"], **old}))
    narrow = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])
    sink = DeltaSink.for_table(str(tmp_path)).with_upsert_keys("k").with_add_columns().build()
    sink.validate(narrow)
    SinkRun(sink, narrow).checkpoint([Row(k="a", v=1), Row(k="c", v=3)])
    found = {row.pop("k"): row for row in DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()}
    assert found == {
        "a": dict.fromkeys(old) | {"v": 1},
        "b": {name: values[1] for name, values in old.items()} | {"v": None},
        "c": dict.fromkeys(old) | {"v": 3},
    }


def test_small_files_are_merged_after_some_commits_without_changing_rows(tmp_path: Path) -> None:
    sink = DeltaSink.for_table(str(tmp_path)).with_compaction(3).build()
    run = SinkRun(sink, PAIR)
    numbers = []
    for number in range(7):
        checkpoint = run.checkpoint([insert("k", number)])
        if number == 4:
            run.restore(checkpoint)  # the count goes on
        numbers.append(len(DeltaTable(str(tmp_path)).file_uris()))
    assert numbers == [1, 2, 1, 2, 3, 1, 2]
    assert rows(tmp_path) == [("k", number) for number in range(7)]
    operations = [entry["operation"] for entry in DeltaTable(str(tmp_path)).history()]
    assert operations.count("OPTIMIZE") == 2
    # A source that follows the table reads each row once.
    source = DeltaSource.for_bounded_row_data(str(tmp_path)).starting_version(0).build()
    assert sorted(row.v for row in SourceRun(source).values()) == list(range(7))
    for wrong in ({"compact_every": 0}, {"target_file_size": "big"}):
        with pytest.raises(InvalidArgumentError, match="must be an int of at least 1"):
            DeltaSink(str(tmp_path), **wrong)


def test_files_of_another_writer_that_deltalake_cannot_merge_do_not_fail_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = SinkRun(DeltaSink(str(tmp_path), partition_by=["k"], compact_every=2), PAIR).after([insert("a", 0)])
    # deltalake has no folder for this partition.
    files = []
    for number in (1, 2):
        pq.write_table(pa.table({"v": pa.array([number], pa.int64())}), tmp_path / f"{number}.parquet")
        size = (tmp_path / f"{number}.parquet").stat().st_size
        files.append(AddAction(f"{number}.parquet", size, {"k": "x" * 300}, 0, True, '{"numRecords":1}'))
    table = DeltaTable(str(tmp_path))
    table.create_write_transaction(files, "append", table.schema(), ["k"])
    for number in (3, 4, 5):
        run.checkpoint([insert("a", number)])
    assert [v for _, v in rows(tmp_path)] == [0, 3, 4, 5, 1, 2]
    # After the second commit and the fourth.
    assert caplog.text.count("cannot merge the files of") == 2


def test_the_module_of_writers_has_the_column_that_marks_deletions() -> None:
    with pytest.raises(InvalidProgramError, match="is taken by DeltaSink"):
        DeltaSink("/tmp/none").validate(Types.ROW_NAMED([writer_module.DELETED], [Types.BOOLEAN()]))


@pytest.mark.parametrize(
    ("type_info", "keys"),
    [
        (Types.INSTANT(), [Instant(-1, 999_999_000), Instant(-1, 999_999_999)]),
        (Types.SQL_TIMESTAMP(), [datetime.datetime(2021, 1, 1), datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)]),
        (Types.SQL_DATE(), [datetime.date(2021, 1, 1), datetime.datetime(2021, 1, 1, 12)]),
        (DecimalTypeInfo(5, 2), [decimal.Decimal("1.10"), decimal.Decimal("1.101"), decimal.Decimal("1.1")]),
    ],
)
def test_rows_whose_keys_are_stored_as_one_value_come_to_one_writer(tmp_path: Path, type_info: Any, keys: list[Any]) -> None:
    row_type = Types.ROW_NAMED(["k", "v"], [type_info, Types.INT()])
    sink = DeltaSink.for_table(str(tmp_path)).with_upsert_keys("k").with_row_type(row_type).build()
    selected: list[Any] = []
    stream = SimpleNamespace(_record_type=row_type, key_by=selected.append)
    transformer = sink.get_transformer()
    assert transformer is not None
    transformer.apply(stream)
    (key_of,) = loads(dumps(selected))
    assert len({key_of(Row(k=key, v=1)) for key in keys}) == 1
    assert key_of(Row(k=None, v=1)) == (None,)
    assert key_of(Row(k="another", v=1)) == ("another",)
