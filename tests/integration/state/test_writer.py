"""Savepoints that are written from nothing, or as changed copies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from flinkish.common import Configuration, Row, Types
from flinkish.common.errors import CheckpointError, ConfigurationError, InvalidArgumentError, TypeMismatchError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkish.state import (
    REMOVE,
    KeyedStateBootstrapFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
    StateBootstrapFunction,
    diff_savepoints,
)
from tests.integration.state.test_reader import configuration, rows
from tests.kit.s3_server import S3Server
from tests.kit.stateful import LONG, RULES, TEXT, Cart


@pytest.fixture
def change(folder: Path, savepoint: str, tmp_path: Path) -> Callable[..., SavepointReader]:
    """Write a changed copy of the savepoint and read it."""

    def write(make: Callable[[SavepointWriter], Any], *, unpickle: bool = False) -> SavepointReader:
        writer = SavepointWriter.from_existing_savepoint(savepoint, configuration(folder), unpickle=unpickle)
        make(writer)
        return SavepointReader.read(writer.write(str(tmp_path / "new")), configuration(folder), unpickle=unpickle)

    return write


def test_a_copy_without_changes_is_equal_and_signed(folder: Path, savepoint: str, change: Callable[..., SavepointReader]) -> None:
    old, new = SavepointReader.read(savepoint, configuration(folder)), change(lambda writer: None)

    assert new.checkpoint.trusted
    assert all(diff.is_same for diff in diff_savepoints(old, new))
    assert new.checkpoint.manifest.coordinator == old.checkpoint.manifest.coordinator
    assert new.checkpoint.manifest.committables == old.checkpoint.manifest.committables
    before, after = (
        pa.concat_tables([_files(reader)]).drop_columns(["checkpoint_id"]).sort_by([(name, "ascending") for name in _SORTED])
        for reader in (old, new)
    )
    assert before.equals(after)


_SORTED = ["operator_uid", "state_name", "state_kind", "key_json", "user_key_json", "value_json"]


def _files(reader: SavepointReader) -> pa.Table:
    import pyarrow.parquet as pq

    checkpoint = reader.checkpoint
    return pa.concat_tables([pq.read_table(f"{checkpoint.root}/{file.path}") for file in checkpoint.manifest.files])


def test_values_are_changed_by_a_function(change: Callable[..., SavepointReader]) -> None:
    new = change(lambda writer: writer.transform_state("everything", "total", lambda row: row.value * 10 + len(row.key)))

    assert rows(new.read_keyed_state("everything", "total")) == [("even", 64), ("odd", 43)]
    assert rows(new.read_keyed_state("everything", "sum")) == [("even", 6), ("odd", 4)]


@pytest.mark.parametrize(
    ("name", "function", "expected"),
    [
        ("seen", lambda row: [*row.value, 100], [("even", [2, 4, 100]), ("odd", [1, 3, 100])]),
        ("by-tag", lambda row: row.value if row.key == "odd" else REMOVE, [("odd", "tag1", 1), ("odd", "tag3", 3)]),
        ("average", lambda row: (0, row.value[1]), [("even", (0, 2)), ("odd", (0, 2))]),
        ("order", lambda row: Row(id=row.value.id, tags=[]), [("even", Row(id=4, tags=[])), ("odd", Row(id=3, tags=[]))]),
        ("expiring", lambda row: row.value + 1, [("even", 5, 0), ("odd", 4, 0)]),
    ],
)
def test_state_of_each_kind_is_changed(
    change: Callable[..., SavepointReader], name: str, function: Callable[[Any], Any], expected: list[Any]
) -> None:
    new = change(lambda writer: writer.transform_state("everything", name, function))

    assert rows(new.read_keyed_state("everything", name)) == expected


def test_operator_state_is_changed_in_all_its_copies(change: Callable[..., SavepointReader]) -> None:
    def make(writer: SavepointWriter) -> None:
        writer.transform_state("operators", "kept", lambda row: row.value + 10)
        writer.transform_state("ruled", "rules", lambda row: REMOVE if row.map_key == "ab" else 7)

    new = change(make)

    assert sorted(row.value for row in new.read_list_state("operators", "kept")) == [11, 12, 13, 14]
    stored = _files(new).to_pylist()
    rules = [row["value_json"] for row in stored if row["operator_uid"] == "ruled" and row["state_kind"] == "operator_broadcast"]
    assert rules == ["7", "7"]


def test_the_readable_form_follows_the_value(change: Callable[..., SavepointReader]) -> None:
    new = change(lambda writer: writer.transform_state("everything", "seen", lambda row: [5]))

    shown = [row["value_json"] for row in _files(new).to_pylist() if row["state_name"] == "seen" and row["state_kind"] == "list"]
    assert shown == ["[5]", "[5]"]


def test_pickled_values_are_changed_by_a_program_that_has_their_classes(change: Callable[..., SavepointReader]) -> None:
    def replace(row: Any) -> Cart:
        return Cart(row.value.owner.upper(), 0)

    new = change(lambda writer: writer.transform_state("everything", "cart", replace), unpickle=True)

    assert rows(new.read_keyed_state("everything", "cart")) == [("even", Cart("EVEN", 0)), ("odd", Cart("ODD", 0))]


def test_a_value_of_another_type_is_refused_and_nothing_is_left(change: Callable[..., SavepointReader], tmp_path: Path) -> None:
    with pytest.raises(TypeMismatchError, match=r"state 'total' of operator everything.*'many'"):
        change(lambda writer: writer.transform_state("everything", "total", lambda row: "many"))

    assert not (tmp_path / "new").exists()


def test_a_function_that_forgets_to_return_the_value_is_refused(change: Callable[..., SavepointReader]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"state 'seen' .* returned None for Row\(key='.*\n.*REMOVE"):
        change(lambda writer: writer.transform_state("everything", "seen", lambda row: row.value.append(1)))


def test_keys_are_deleted_with_their_timers(change: Callable[..., SavepointReader]) -> None:
    new = change(lambda writer: writer.delete_keys("everything", ["odd"]))

    assert {row.key for each in new.states("everything") for row in new.read_state("everything", each.name)} == {"even"}
    assert len(new.read_timers("everything")) == 2
    assert rows(new.read_windows("windows"))[1][0] == "odd"


def test_a_key_to_delete_that_is_not_there_is_refused(change: Callable[..., SavepointReader], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="operator everything has no state and no timer of the key 'odds'"):
        change(lambda writer: writer.delete_keys("everything", ["odd", "odds"]))

    assert not (tmp_path / "new").exists()


def test_keys_are_deleted_by_a_function(change: Callable[..., SavepointReader]) -> None:
    new = change(lambda writer: writer.delete_keys("untyped", lambda key: key[0] == 1))

    assert [row.key for row in new.read_keyed_state("untyped", "_reduce_state")] == [(0, "k")]


def test_an_operator_is_removed_with_all_that_it_has(change: Callable[..., SavepointReader]) -> None:
    def make(writer: SavepointWriter) -> None:
        writer.remove_operator("everything").remove_operator("numbers").remove_operator("everything-sink")

    new = change(make)
    manifest = new.checkpoint.manifest

    assert not {"everything", "numbers", "everything-sink"} & {each.uid for each in new.operators()}
    assert "everything" not in {uid for file in manifest.files for uid in file.operator_uids}
    assert {source.uid for source in manifest.coordinator.sources} == {"rules"}
    assert "everything-sink" not in {each.operator_uid for each in manifest.committables}


def test_an_operator_gets_another_uid(change: Callable[..., SavepointReader]) -> None:
    def make(writer: SavepointWriter) -> None:
        writer.change_operator_identifier("everything", "all").change_operator_identifier("numbers", "counts")

    new = change(make)

    assert rows(new.read_keyed_state("all", "total")) == [("even", 6), ("odd", 4)]
    assert {"all", "counts"} <= {each.uid for each in new.operators()}
    assert {source.uid for source in new.checkpoint.manifest.coordinator.sources} == {"rules", "counts"}


def test_another_max_parallelism_moves_keys_to_other_key_groups(change: Callable[..., SavepointReader]) -> None:
    new = change(lambda writer: writer.change_max_parallelism("everything", 7))

    assert {each.uid: each.max_parallelism for each in new.operators()}["everything"] == 7
    assert rows(new.read_keyed_state("everything", "total")) == [("even", 6), ("odd", 4)]
    groups = {row["key_group"] for row in _files(new).to_pylist() if row["operator_uid"] == "everything" and row["key"]}
    assert groups <= set(range(7))


def test_what_cannot_be_changed_is_refused_at_once(folder: Path, savepoint: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(savepoint, configuration(folder))

    with pytest.raises(InvalidArgumentError, match="no operator with the uid 'nothing'"):
        writer.remove_operator("nothing")
    with pytest.raises(InvalidArgumentError, match=r"no state 'totals' with values\n.*total"):
        writer.transform_state("everything", "totals", lambda row: row.value)
    with pytest.raises(InvalidArgumentError, match="'windows' already"):
        writer.change_operator_identifier("everything", "windows")
    with pytest.raises(InvalidArgumentError, match="from 1 to 32768"):
        writer.change_max_parallelism("everything", 0)
    with pytest.raises(InvalidArgumentError, match=r"maximum parallelism .* from 1 to 32768"):
        SavepointWriter.new_savepoint(max_parallelism=0)
    with pytest.raises(InvalidArgumentError, match="'everything' already"):
        writer.with_operator("everything", OperatorTransformation.bootstrap_with([]).transform(Lists()))
    with pytest.raises(InvalidArgumentError, match="no operators that could be changed"):
        SavepointWriter.new_savepoint(configuration=configuration(folder)).remove_operator("x")
    with pytest.raises(ConfigurationError, match="such a folder already"):
        writer.write(str(tmp_path))


def test_pickled_rows_of_another_key_do_not_become_trusted(savepoint: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(savepoint, configuration(tmp_path))
    reader = SavepointReader.read(writer.write(str(tmp_path / "new")), configuration(tmp_path), unpickle=True)

    assert rows(reader.read_keyed_state("everything", "total")) == [("even", 6), ("odd", 4)]
    with pytest.raises(CheckpointError, match="pickled"):
        reader.read_keyed_state("everything", "cart")


# -- from data -----------------------------------------------------------------------------------------------------------------


class Accounts(KeyedStateBootstrapFunction):
    def open(self, store: Any) -> None:
        self.total = store.get_state(ValueStateDescriptor("total", LONG))
        self.tags = store.get_map_state(MapStateDescriptor("tags", TEXT, LONG))
        self.seen = store.get_list_state(ListStateDescriptor("seen", LONG))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update(value.amount)
        self.tags.put(ctx.get_current_key(), value.amount)
        self.seen.add(value.amount)
        self.seen.add(0)
        ctx.timer_service().register_event_time_timer(value.amount)
        ctx.timer_service().register_processing_time_timer(value.amount + 1)


class Lists(StateBootstrapFunction):
    def open(self, store: Any) -> None:
        self.kept = store.get_list_state(ListStateDescriptor("kept", LONG))
        self.shared = store.get_union_list_state(ListStateDescriptor("shared", LONG))
        self.rules = store.get_broadcast_state(RULES)

    def process_element(self, value: Any) -> None:
        self.kept.add(value)
        self.shared.add(-value)
        self.rules.put(str(value), value)


AMOUNTS = {"name": ["a", "b"], "amount": [3, 5]}


def _stream() -> Any:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.engine": "local"}))
    types = Types.ROW_NAMED(["name", "amount"], [TEXT, LONG])
    return env.from_collection([Row(name="a", amount=3), Row(name="b", amount=5)], types)


@pytest.mark.parametrize(
    "data",
    [
        lambda: pd.DataFrame(AMOUNTS),
        lambda: pa.table(AMOUNTS),
        lambda: [Row(name="a", amount=3), Row(name="b", amount=5)],
        _stream,
    ],
    ids=["pandas", "arrow", "rows", "stream"],
)
def test_keyed_state_is_made_from_data(tmp_path: Path, data: Callable[[], Any]) -> None:
    accounts = OperatorTransformation.bootstrap_with(data()).key_by("name", TEXT).transform(Accounts())
    writer = SavepointWriter.new_savepoint(16, configuration(tmp_path)).with_operator("accounts", accounts, name="Accounts")

    reader = SavepointReader.read(writer.write(str(tmp_path / "new")), configuration(tmp_path))

    assert [(each.uid, each.name, each.max_parallelism) for each in reader.operators()] == [("accounts", "Accounts", 16)]
    assert rows(reader.read_keyed_state("accounts", "total")) == [("a", 3), ("b", 5)]
    assert rows(reader.read_keyed_state("accounts", "tags")) == [("a", "a", 3), ("b", "b", 5)]
    assert rows(reader.read_keyed_state("accounts", "seen")) == [("a", [3, 0]), ("b", [5, 0])]
    assert rows(reader.read_timers("accounts")) == [
        ("a", "event", 3),
        ("a", "processing", 4),
        ("b", "event", 5),
        ("b", "processing", 6),
    ]


def test_operator_state_is_made_from_data(tmp_path: Path) -> None:
    lists = OperatorTransformation.bootstrap_with([1, 2]).transform(Lists())
    path = (
        SavepointWriter.new_savepoint(configuration=configuration(tmp_path))
        .with_operator("lists", lists)
        .write(str(tmp_path / "new"))
    )

    reader = SavepointReader.read(path, configuration(tmp_path))

    assert rows(reader.read_list_state("lists", "kept")) == [(0, 1), (0, 2)]
    assert rows(reader.read_union_state("lists", "shared")) == [(0, -1), (0, -2)]
    assert rows(reader.read_broadcast_state("lists", "rules")) == [("1", 1), ("2", 2)]


def test_frames_keep_times_and_missing_values(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Look(StateBootstrapFunction):
        def process_element(self, value: Any) -> None:
            seen.append(value)

    frame = pd.DataFrame({"at": pd.to_datetime(["2026-01-02T03:04:05.000006", None]), "n": [1.5, None]})
    operator = OperatorTransformation.bootstrap_with(frame).transform(Look())
    SavepointWriter.new_savepoint(configuration=configuration(tmp_path)).with_operator("x", operator).write(str(tmp_path / "new"))

    assert [type(row.at).__name__ for row in seen] == ["datetime", "NoneType"]
    assert [row.n for row in seen] == [1.5, None]


def test_other_data_is_refused(tmp_path: Path) -> None:
    writer = SavepointWriter.new_savepoint(configuration=configuration(tmp_path))
    writer.with_operator("x", OperatorTransformation.bootstrap_with(7).transform(Lists()))

    with pytest.raises(InvalidArgumentError, match="got int"):
        writer.write(str(tmp_path / "new"))


def test_savepoints_are_read_and_written_in_object_stores(s3: S3Server, folder: Path, savepoint: str) -> None:
    settings = Configuration.from_dict({**configuration(folder).to_dict(), **s3.settings})
    place = f"s3://bucket/copies-{os.getpid()}"

    first = SavepointWriter.from_existing_savepoint(savepoint, settings).write(f"{place}/first")
    writer = SavepointWriter.from_existing_savepoint(first, settings).delete_keys("everything", ["odd"])
    reader = SavepointReader.read(writer.write(f"{place}/second"), settings)

    assert rows(reader.read_keyed_state("everything", "total")) == [("even", 6)]
    with pytest.raises(ConfigurationError, match="such a folder already"):
        SavepointWriter.from_existing_savepoint(first, settings).write(f"{place}/second")
