"""Checkpoints that contain files of earlier ones, from the job that takes them to what reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flinkish.common import Configuration, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkish.state import SavepointReader, SavepointWriter, diff_savepoints
from tests.conftest import MakeEnvironment, locally
from tests.kit.waiting import wait_for_checkpoints, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Numbers below are keys of their own; those above come to ten of these keys.
_KEYS = 3_000
_LAST = 300_000


class Remember(KeyedProcessFunction):
    """Counts the numbers of a key; its map has the last three, and its timer is ever later."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.last = runtime_context.get_map_state(MapStateDescriptor("last", Types.LONG(), Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int, list[int]]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.last.put(count, value)
        self.last.remove(count - 3)
        timers = ctx.timer_service()
        timers.delete_event_time_timer(10**12 + count - 1)
        timers.register_event_time_timer(10**12 + count)
        yield ctx.get_current_key(), count, list(self.last.values())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[tuple[int, int, list[int]]]:
        yield ctx.get_current_key(), timestamp - 10**12, []


def key_of(number: int) -> int:
    return number if number < _KEYS else number % 10


def remembered(env: StreamExecutionEnvironment) -> Any:
    numbers = env.from_source(NumberSequenceSource(0, _LAST - 1), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    return numbers.key_by(key_of, Types.LONG()).process(Remember()).uid("remember")


@dataclass
class Taken:
    """A job's folder with its last checkpoints, and what was seen of them."""

    folder: Path
    state_size: int
    checkpointed_size: int
    savepoint: str


@pytest.fixture
def taken(make_env: MakeEnvironment, tmp_path: Path) -> Taken:
    """Run the job until some checkpoints are complete; it is cancelled in the middle."""
    settings = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.incremental": True,
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "execution.checkpointing.savepoint-dir": tmp_path / "savepoints",
        "execution.checkpointing.num-retained": 2,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.epoch.max-records": _KEYS,
    }
    env = make_env(2, settings)
    remembered(env).sink_to(DiscardingSink()).uid("sink")
    client: Any = env.execute_async()
    wait_for_checkpoints(client, 6)
    savepoint = client.trigger_savepoint().result(60)
    wait_for_checkpoints(client, 9)
    client.cancel().result(60)
    done = client.job_master.checkpoints.figures().latest_completed
    return Taken(tmp_path / "checkpoints" / str(client.get_job_id()), done.state_size, done.checkpointed_size, savepoint)


def reader_of(path: Any) -> SavepointReader:
    return SavepointReader.read(str(path), Configuration())


@locally
def test_a_checkpoint_writes_a_part_of_its_state_and_files_that_none_names_are_removed(taken: Taken) -> None:
    assert taken.checkpointed_size < taken.state_size / 2
    newest = reader_of(taken.folder).checkpoint
    assert len({file.checkpoint_id for file in newest.manifest.files}) > 1
    (older,) = newest.manifest.previous
    named = {
        file.path for at in (newest, reader_of(f"{taken.folder}@{older.checkpoint_id}").checkpoint) for file in at.manifest.files
    }
    there = {str(path.relative_to(taken.folder / "state")) for path in taken.folder.rglob("state-*.parquet")}
    assert named == there
    savepoint = reader_of(taken.savepoint).checkpoint
    assert {file.checkpoint_id for file in savepoint.manifest.files} == {savepoint.checkpoint_id}


@locally
def test_a_full_checkpoint_has_files_of_its_own_and_the_next_one_is_based_on_it(
    make_env: MakeEnvironment, tmp_path: Path
) -> None:
    settings = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.incremental": True,
        "execution.checkpointing.dir": tmp_path / "checkpoints",
    }
    env = make_env(2, settings)
    source: Any = DataGeneratorSource(lambda index: index, None, records_per_second=10_000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.key_by(key_of, Types.LONG()).process(Remember()).sink_to(DiscardingSink())
    client: Any = env.execute_async()

    def files_of(**how: bool) -> set[int]:
        """Take a checkpoint; return the checkpoints that its files are of, seen from its own: 0, -1, ... ."""
        taken = client.trigger_checkpoint(**how).result(60)
        newest = reader_of(tmp_path / "checkpoints" / str(client.get_job_id())).checkpoint
        return {file.checkpoint_id - taken for file in newest.manifest.files}

    wait_until("an incremental checkpoint", lambda: len(files_of()) > 1)
    assert files_of(full=True) == {0}
    assert files_of() == {0, -1}
    client.cancel().result(60)


def test_a_job_goes_on_from_it_at_another_parallelism(make_env: MakeEnvironment, taken: Taken, engine: str) -> None:
    # Savepoints of jobs on Spark are gone on from in many tests.
    for path in (taken.folder, taken.savepoint) if engine == "local" else (taken.folder,):
        env = make_env(3, {"execution.state-recovery.path": path})
        with remembered(env).execute_and_collect() as results:
            rows = list(results)
        expected: dict[int, list[int]] = {}
        for number in range(_LAST):
            expected.setdefault(key_of(number), []).append(number)
        assert {key: (count, values) for key, count, values in rows if values} == {
            key: (len(expected[key]), expected[key][-3:]) for key in range(10)
        }
        # The end of the input fires all timers.
        assert sorted((key, count) for key, count, values in rows if not values) == [
            (key, len(numbers)) for key, numbers in sorted(expected.items())
        ]


@locally
def test_what_is_read_of_it_is_its_current_state(taken: Taken, tmp_path: Path) -> None:
    reader = reader_of(taken.folder)
    counts = {row.key: row.value for row in reader.read_keyed_state("remember", "count")}
    assert sorted(counts) == list(range(_KEYS))
    assert {counts[key] for key in range(10, _KEYS)} == {1}
    timers = {row.key: row.timestamp for row in reader.read_timers("remember")}
    assert timers == {key: 10**12 + count for key, count in counts.items()}
    entries: dict[int, list[int]] = {}
    for row in reader.read_keyed_state("remember", "last"):
        entries.setdefault(row.key, []).append(row.map_key)
    assert entries == {key: list(range(max(1, count - 2), count + 1)) for key, count in counts.items()}

    copy = SavepointWriter.from_existing_savepoint(str(taken.folder), Configuration()).write(str(tmp_path / "copy"))
    assert all(diff.is_same for diff in diff_savepoints(reader, reader_of(copy)))


@pytest.mark.spark
@locally
def test_its_current_rows_are_a_data_frame(taken: Taken, spark_session: SparkSession) -> None:
    reader = reader_of(taken.folder)
    rows = reader.rows(spark_session).where("operator_uid = 'remember' AND key_group >= 0").collect()
    by_kind: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        by_kind.setdefault(row.state_kind, []).append((int(row.key_json), int(row.value_json)))
    assert sorted(by_kind["value"]) == sorted((row.key, row.value) for row in reader.read_keyed_state("remember", "count"))
    assert sorted(by_kind["map"]) == sorted((row.key, row.value) for row in reader.read_keyed_state("remember", "last"))
    assert sorted(by_kind["timer_event"]) == sorted((row.key, row.timestamp) for row in reader.read_timers("remember"))
