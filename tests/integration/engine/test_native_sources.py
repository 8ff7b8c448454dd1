"""Sources that the engine reads: whole jobs, on an engine of this process that brings batches as Spark does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from flinkish.common import Duration, Row, Time, Types, WatermarkStrategy
from flinkish.common.engines import ENGINES
from flinkish.common.errors import ForeignCheckpointError, JobCancelledError, JobExecutionError, UnsupportedError
from flinkish.datastream import DataStream, ProcessFunction, StreamExecutionEnvironment
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, RecordErrors
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.engine import launcher, support
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.program.sources import SourceReaderContext
from tests.kit.environments import env_of
from tests.kit.native import ROWS, Batches, NativeEngine
from tests.kit.programs import program_of

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def _clear(monkeypatch: pytest.MonkeyPatch) -> None:
    SEEN.clear()
    # NativeEngine takes the place of the local engine.
    able = replace(ENGINES["local"], data_frames=True)
    monkeypatch.setattr(support, "ENGINES", {**ENGINES, "local": able})


class Note(ProcessFunction):
    """Notes records with their time and the watermark at which they came."""

    def process_element(self, value: Row, ctx: ProcessFunction.Context) -> None:
        SEEN.append((value.key, value.time, ctx.timer_service().current_watermark()))


def note(value: Any) -> Any:
    SEEN.append(value)
    return value


def strategy(*, late_by: int = 0) -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(late_by)).with_timestamp_assigner(
        lambda value, _: int(value.time)
    )


def start(
    build: Callable[[StreamExecutionEnvironment], object],
    engine: NativeEngine,
    *,
    parallelism: int = 2,
    settings: dict[str, str] | None = None,
    end: Callable[[EmbeddedJobClient], object] = lambda client: client.cancel(),
) -> EmbeddedJobClient:
    env = env_of({"restart-strategy.type": "none", **(settings or {})}, parallelism)
    build(env)
    holder: list[EmbeddedJobClient] = []
    engine.stop = lambda: end(holder[0])
    program = program_of(env, "native")
    holder.append(launcher.start(program, launcher.Surroundings(make_engine=lambda *_: engine)))
    return holder[0]


def run(build: Callable[[StreamExecutionEnvironment], object], **arguments: Any) -> None:
    """Run until nothing comes any more."""
    client = start(build, NativeEngine(), **arguments)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(120)


def rows(env: StreamExecutionEnvironment, source: Batches, strategy: WatermarkStrategy | None = None) -> DataStream[Any]:
    return env.from_source(source, strategy or WatermarkStrategy.no_watermarks(), "rows").uid("rows")


def test_each_row_arrives_once_and_in_the_order_of_its_partition() -> None:
    source = Batches([[("a", 1), ("a", 2)], [("b", 3)], [("c", 4), ("c", 5)]], [[], [("d", 6)]])
    run(lambda env: rows(env, source).map(note))
    assert sorted((row.key, row.time) for row in SEEN) == [("a", 1), ("a", 2), ("b", 3), ("c", 4), ("c", 5), ("d", 6)]
    assert [row.time for row in SEEN if row.key == "a"] == [1, 2]


def seen_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    SEEN.append(batch.num_rows)
    return batch


def test_rows_stay_columns_with_their_times_and_watermarks() -> None:
    source = Batches([[("a", 10), ("b", 20)], [("c", 500)]], [[("late", 30), ("d", 1000)], []])
    by_field = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100)).with_timestamp_assigner("time")
    run(lambda env: rows(env, source, by_field).map_batches(seen_batch, ROWS).process(Note()))
    assert sorted(count for count in SEEN if isinstance(count, int)) == [1, 2, 2]
    notes = {each[0]: each[1:] for each in SEEN if not isinstance(each, int)}
    assert {key: time for key, (time, _) in notes.items()} == {"a": 10, "b": 20, "c": 500, "late": 30, "d": 1000}
    assert notes["a"][1] < 0
    assert notes["late"][1] == notes["d"][1] == 500 - 100 - 1


class Picky(Batches):
    """Has tasks that cannot decode negative times."""

    def create_decoder(self, context: SourceReaderContext, *, by_columns: bool = False) -> Callable[[bytes], Iterable[Any]]:
        decode, errors = super().create_decoder(context), RecordErrors(RecordErrorPolicy.fail(), context)

        def picky(body: bytes) -> Iterable[Any]:
            for row in decode(body):
                bad = row.time < 0
                yield errors.handle(path="rows", line=None, reason="negative", record=row.key) if bad else row

        return picky


def test_rows_that_cannot_be_decoded_are_dead_letters(tmp_path: Path) -> None:
    source = Picky([[("a", 1), ("b", -1)], [("c", 3)]], [[], [("d", -4)]])
    settings = {"pipeline.dead-letters.dir": str(tmp_path / "dead"), "execution.checkpointing.interval": "1 h"}
    client = start(
        lambda env: rows(env, source).map(note),
        NativeEngine(),
        settings=settings,
        end=lambda client: client.stop_with_savepoint(False, str(tmp_path)),
    )
    client.get_job_execution_result().result(120)
    assert sorted(row.key for row in SEEN) == ["a", "c"]
    found = DeltaTable(tmp_path / "dead").to_pyarrow_table().select(["operator_uid", "json"]).to_pylist()
    assert sorted(map(str, found)) == [str({"operator_uid": "rows", "json": f'"{key}"'}) for key in "bd"]


def test_a_watermark_follows_the_latest_row_of_all_subtasks_one_epoch_later() -> None:
    source = Batches([[("a", 10)], [("b", 500)]], [[("c", 400)], [("d", 1000)]], [[("e", 700)], [("f", 1001)]])
    run(lambda env: rows(env, source, strategy(late_by=100)).process(Note()))
    watermarks = {key: watermark for key, _, watermark in SEEN}
    assert watermarks["a"] == watermarks["b"] < 0
    assert watermarks["c"] == watermarks["d"] == 500 - 100 - 1
    assert watermarks["e"] == watermarks["f"] == 1000 - 100 - 1


def test_windows_fire_where_all_rows_come_to_one_subtask() -> None:
    source = Batches([[("a", 10), ("a", 20)]], [[("a", 1100)]], [[("a", 2500)]])
    run(
        lambda env: (
            rows(env, source, strategy())
            .key_by(lambda row: row.key, key_type=Types.STRING())
            .window(TumblingEventTimeWindows.of(Time.seconds(1)))
            .reduce(lambda a, b: Row(key=a.key, time=a.time + b.time))
            .map(note)
        ),
        parallelism=3,
    )
    assert [row.time for row in SEEN] == [30, 1100]


def test_an_idle_source_does_not_hold_back_another_one() -> None:
    quiet, busy = Batches([[("q", 5)]]), Batches(*[[[("b", 1000 * i)]] for i in range(1, 40)])

    def build(env: StreamExecutionEnvironment) -> None:
        idle = strategy().with_idleness(Duration.of_millis(1))
        first = env.from_source(quiet, idle, "quiet")
        second = env.from_source(busy, strategy(), "busy")
        first.union(second).rebalance().process(Note())

    run(build)
    assert max(watermark for _, _, watermark in SEEN) > 5


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_goes_on_from_a_savepoint_at_another_parallelism(tmp_path: Path, parallelism: int) -> None:
    first = Batches([[("a", 1)], [("b", 2)]], [[("a", 10)]])

    def build(source: Batches) -> Callable[[StreamExecutionEnvironment], object]:
        return lambda env: (
            rows(env, source, strategy())
            .key_by(lambda row: row.key, key_type=Types.STRING())
            .reduce(lambda a, b: Row(key=a.key, time=a.time + b.time))
            .uid("sum")
            .map(note)
        )

    def stop(client: EmbeddedJobClient) -> object:
        return client.stop_with_savepoint(False, str(tmp_path))

    client = start(build(first), NativeEngine(), end=stop)
    client.get_job_execution_result().result(120)
    [savepoint] = tmp_path.iterdir()
    SEEN.clear()
    engine = NativeEngine()
    settings = {"execution.state-recovery.path": str(savepoint)}
    more = Batches(*first.batches, [[("a", 100)], [("b", 200)]])
    client = start(build(more), engine, parallelism=parallelism, settings=settings)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(120)
    assert sorted((row.key, row.time) for row in SEEN) == [("a", 111), ("b", 202)]
    [starts] = engine.starts
    assert next(iter(starts.values())) >= 2

    changed = start(build(Batches(*more.batches, schema="key, time, place")), NativeEngine(), settings=settings)
    with pytest.raises(JobExecutionError, match="has the columns key, time, place; in the checkpoint it had key, time") as caught:
        changed.get_job_execution_result().result(120)
    assert isinstance(caught.value.__cause__, ForeignCheckpointError)


def test_alignment_of_watermarks_is_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    aligned = strategy().with_watermark_alignment("group", Duration.of_seconds(1))
    with pytest.raises(UnsupportedError, match="can be held back"):
        env.from_source(Batches(), aligned, "rows")
