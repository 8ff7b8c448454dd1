"""Savepoints read and written as data, on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flinkish.common import Configuration
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.state import (
    KeyedStateBootstrapFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
    StateBootstrapFunction,
)
from flinkish.testing import JobHarness
from tests.kit.stateful import LONG, RULES, TEXT, build, savepoint_of, settings_of


def configuration(folder: Path) -> Configuration:
    return Configuration.from_dict({key: str(value) for key, value in settings_of(folder).items()})


def reader_of(path: str, folder: Path) -> SavepointReader:
    return SavepointReader.read(path, configuration(folder))


def test_state_of_a_savepoint_is_read_without_the_program(engine: str, tmp_path: Path) -> None:
    reader = reader_of(savepoint_of(tmp_path, [1, 2, 3, 4], engine=engine), tmp_path)

    assert sorted(map(tuple, reader.read_keyed_state("everything", "total"))) == [("even", 6), ("odd", 4)]
    assert sorted(map(tuple, reader.read_windows("sessions"))) == [("even", 2_000, 9_000, 6), ("odd", 1_000, 8_000, 4)]
    assert sorted(row.value for row in reader.read_list_state("operators", "kept")) == [1, 2, 3, 4]
    assert len(reader.read_timers("everything")) == 4


def test_a_job_goes_on_from_a_changed_savepoint_at_another_parallelism(engine: str, tmp_path: Path) -> None:
    saved = savepoint_of(tmp_path, [1, 2, 3, 4], engine=engine)
    writer = SavepointWriter.from_existing_savepoint(saved, configuration(tmp_path))
    writer.transform_state("everything", "total", lambda row: row.value * 10)
    writer.delete_keys("sessions", ["odd"])
    writer.transform_state("ruled", "rules", lambda row: 100)
    for operator in reader_of(saved, tmp_path).operators():
        writer.change_max_parallelism(operator.uid, 64)
    path = writer.write(str(tmp_path / "new"))

    settings = settings_of(tmp_path, **{"pipeline.max-parallelism": 64})
    with JobHarness(build, engine=engine, parallelism=3, settings=settings, savepoint=path, max_parallelism=64) as job:
        job.source("numbers").emit_all([5, 6])
        assert sorted(record.value for record in job.sink("everything").take_output()) == ["even=66", "odd=45"]
        assert sorted(record.value for record in job.sink("ruled").take_output()) == [205, 206]
        job.source("numbers").watermark(2_000_000)
        timers = sorted(record.value for record in job.sink("everything").take_output())
        assert timers == [*(f"even@{1_000_000 + n}" for n in (2, 4, 6)), *(f"odd@{1_000_000 + n}" for n in (1, 3, 5))]
        assert sorted(record.value for record in job.sink("sessions").take_output()) == [5, 12]


class Totals(KeyedStateBootstrapFunction):
    def open(self, store: Any) -> None:
        self.total = store.get_state(ValueStateDescriptor("total", LONG))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update(value["total"])
        ctx.register_event_time_timer(9_000)


class Rules(StateBootstrapFunction):
    def open(self, store: Any) -> None:
        self.rules = store.get_broadcast_state(RULES)

    def process_element(self, value: Any) -> None:
        self.rules.put(value, 1_000)


def test_a_job_starts_from_a_savepoint_that_was_made_from_data(engine: str, tmp_path: Path) -> None:
    data = [{"name": "odd", "total": 1000}, {"name": "even", "total": 2000}]
    totals = OperatorTransformation.bootstrap_with(data).key_by(lambda row: row["name"], TEXT).transform(Totals())
    rules = OperatorTransformation.bootstrap_with(["rule"]).transform(Rules())
    writer = SavepointWriter.new_savepoint(configuration=configuration(tmp_path))
    path = writer.with_operator("everything", totals).with_operator("ruled", rules).write(str(tmp_path / "new"))

    with JobHarness(build, engine=engine, parallelism=2, settings=settings_of(tmp_path), savepoint=path) as job:
        job.source("numbers").emit_all([1, 2])
        assert sorted(record.value for record in job.sink("everything").take_output()) == ["even=2002", "odd=1001"]
        assert sorted(record.value for record in job.sink("ruled").take_output()) == [1001, 1002]
        job.source("numbers").watermark(10_000)
        assert sorted(record.value for record in job.sink("everything").take_output()) == ["even@9000", "odd@9000"]
