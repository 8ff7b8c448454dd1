"""Savepoints read and written as data, on both engines."""

from __future__ import annotations

from pathlib import Path

from flinkish.common import Configuration
from flinkish.state import SavepointReader
from tests.kit.stateful import savepoint_of, settings_of


def reader_of(path: str, folder: Path) -> SavepointReader:
    return SavepointReader.read(path, Configuration.from_dict({key: str(value) for key, value in settings_of(folder).items()}))


def test_state_of_a_savepoint_is_read_without_the_program(engine: str, tmp_path: Path) -> None:
    reader = reader_of(savepoint_of(tmp_path, [1, 2, 3, 4], engine=engine), tmp_path)

    assert sorted(map(tuple, reader.read_keyed_state("everything", "total"))) == [("even", 6), ("odd", 4)]
    assert sorted(map(tuple, reader.read_windows("sessions"))) == [("even", 2_000, 9_000, 6), ("odd", 1_000, 8_000, 4)]
    assert sorted(row.value for row in reader.read_list_state("operators", "kept")) == [1, 2, 3, 4]
    assert len(reader.read_timers("everything")) == 4
