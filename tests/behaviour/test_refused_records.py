"""Records that the target of a sink cannot hold: they end the job by name, and with dead letters they alone go aside."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flinkish.common import Row, Types
from flinkish.common.errors import JobExecutionError, TargetRefusedError
from flinkish.datastream.connectors import DeltaSink
from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from flinkish.jobmaster.job_sinks import KeptRefusedRecords
from tests.conftest import MakeEnvironment, locally
from tests.kit.restarts import restarting

TYPE = Types.ROW_NAMED(["id", "name", "price"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
NAN = float("nan")


def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (id BIGINT, name TEXT NOT NULL, price DOUBLE)")
    return path


def ids(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM t ORDER BY id")]


def sink(path: Path, make: Callable[..., JdbcSink] = JdbcSink.exactly_once_sink) -> JdbcSink:
    connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}").build()
    execution = JdbcExecutionOptions.builder().with_batch_size(10).with_max_retries(0).build()
    return make("INSERT INTO t VALUES (?, ?, ?)", TYPE, connection, execution)


def settings(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "high-availability.cluster-id": "orders",
        "execution.epoch.max-records": 40,
        **restarting(1000, "0 s"),
        **more,
    }


def letters(tmp_path: Path) -> list[int]:
    """Return the ids of the rows among the dead letters."""
    return [json.loads(text)["id"] for text in DeltaTable(tmp_path / "dead").to_pyarrow_table()["json"].to_pylist()]


def test_a_poison_checkpoint_is_never_restarted_and_loses_only_what_the_table_refuses(
    make_env: MakeEnvironment, tmp_path: Path
) -> None:
    path = table(tmp_path)

    def run(name_of_71: str | None, more: dict[str, Any]) -> None:
        env = make_env(2, settings(tmp_path, **more))
        numbers = env.from_collection(list(range(200)), Types.LONG()).uid("numbers")
        rows = numbers.map(lambda n: Row(id=n, name=name_of_71 if n == 71 else "x", price=1.0), TYPE).uid("rows")
        rows.sink_to(sink(path)).uid("table")
        env.execute()

    message = r"record: \{'id': 71, 'name': None.*\nHint: set pipeline.dead-letters.dir"
    with pytest.raises(JobExecutionError, match=message) as raised:
        run(None, {})
    assert isinstance(raised.value.__cause__, TargetRefusedError)
    assert "starting again would meet the same" in str(raised.value)
    # The checkpoint holds the row, so a corrected program meets it, too.
    with pytest.raises(JobExecutionError, match="'id': 71"):
        run("corrected", {})
    assert 71 not in ids(path)

    run("corrected", {"pipeline.dead-letters.dir": tmp_path / "dead"})
    assert ids(path) == [n for n in range(200) if n != 71]
    (letter,) = DeltaTable(tmp_path / "dead").to_pyarrow_table().to_pylist()
    assert (letter["kind"], letter["operator_uid"]) == ("refused", "table")
    assert json.loads(letter["json"]) == {"id": 71, "name": None, "price": 1.0}
    assert "NOT NULL" in letter["reason"]


@locally
def test_a_refused_record_is_one_dead_letter_if_the_job_fails_before_the_target_commits(
    make_env: MakeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls, put_aside = table(tmp_path), list[int](), KeptRefusedRecords.put_aside

    def put_aside_and_fail(self: KeptRefusedRecords, checkpoint_id: int, *arguments: Any) -> None:
        put_aside(self, checkpoint_id, *arguments)
        calls.append(checkpoint_id)
        if len(calls) == 1:
            assert (letters(tmp_path), ids(path)) == ([71], list(range(len(ids(path)))))
            raise ConnectionError("the driver ends here")

    monkeypatch.setattr(KeptRefusedRecords, "put_aside", put_aside_and_fail)
    env = make_env(2, settings(tmp_path, **{"pipeline.dead-letters.dir": tmp_path / "dead"}))
    numbers = env.from_collection(list(range(200)), Types.LONG()).uid("numbers")
    rows = numbers.map(lambda n: Row(id=n, name=None if n == 71 else "x", price=1.0), TYPE).uid("rows")
    rows.sink_to(sink(path)).uid("table")
    env.execute()
    assert (letters(tmp_path), ids(path)) == ([71], [n for n in range(200) if n != 71])
    assert calls == [calls[0]] * 2


@locally
def test_a_record_that_a_writer_refuses_is_named_or_a_dead_letter(make_env: MakeEnvironment, tmp_path: Path) -> None:
    path = table(tmp_path)

    def run(more: dict[str, Any]) -> None:
        env = make_env(1, {**settings(tmp_path), "high-availability.cluster-id": f"orders-{len(more)}", **more})
        rows = env.from_collection([Row(id=n, name="x", price=NAN if n == 71 else 1.0) for n in range(200)], TYPE)
        rows.sink_to(sink(path)).uid("table")
        env.execute()

    with pytest.raises(JobExecutionError, match=r"uid table.*\n?.*field 'price' is NaN"):
        run({})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM t")
        connection.commit()
    run({"pipeline.dead-letters.dir": tmp_path / "dead"})
    assert ids(path) == [n for n in range(200) if n != 71]
    (letter,) = DeltaTable(tmp_path / "dead").to_pyarrow_table().to_pylist()
    assert (letter["kind"], letter["raw_format"], letter["operator_uid"]) == ("refused", "pickle", "table")


@locally
def test_a_sink_that_writes_at_least_once_loses_only_what_the_table_refuses(make_env: MakeEnvironment, tmp_path: Path) -> None:
    path = table(tmp_path)

    def run(more: dict[str, Any]) -> None:
        env = make_env(2, {**settings(tmp_path), "high-availability.cluster-id": f"orders-{len(more)}", **more})
        numbers = env.from_collection(list(range(200)), Types.LONG())
        rows = numbers.map(lambda n: Row(id=n, name=None if n in (71, 72, 199) else "x", price=1.0), TYPE)
        rows.sink_to(sink(path, JdbcSink.sink)).uid("table")
        env.execute()

    with pytest.raises(JobExecutionError, match="NOT NULL") as raised:
        run({})
    assert isinstance(raised.value.__cause__, TargetRefusedError)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM t")
        connection.commit()
    run({"pipeline.dead-letters.dir": tmp_path / "dead"})
    assert ids(path) == [n for n in range(200) if n not in (71, 72, 199)]
    letters = DeltaTable(tmp_path / "dead").to_pyarrow_table().to_pylist()
    assert sorted(json.loads(letter["json"])["id"] for letter in letters) == [71, 72, 199]
    assert {(letter["kind"], letter["operator_uid"]) for letter in letters} == {("refused", "table")}


@locally
def test_a_row_without_a_key_is_a_dead_letter_of_a_table_that_is_merged_into(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(1, settings(tmp_path, **{"pipeline.dead-letters.dir": tmp_path / "dead"}))
    rows = env.from_collection([Row(id=None if n == 71 else n, name="x", price=1.0) for n in range(200)], TYPE)
    rows.sink_to(DeltaSink(str(tmp_path / "table"), upsert_keys=["id"])).uid("table")
    env.execute()
    found = DeltaTable(tmp_path / "table").to_pyarrow_table()["id"].to_pylist()
    assert sorted(found) == [n for n in range(200) if n != 71]
    (letter,) = DeltaTable(tmp_path / "dead").to_pyarrow_table().to_pylist()
    assert (letter["kind"], letter["operator_uid"]) == ("refused", "table")
    assert "a row has no key (id)" in letter["reason"]
