"""Starting a job from a checkpoint or savepoint of another: at another parallelism, with a changed program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.common.errors import CheckpointError, ForeignCheckpointError, InvalidProgramError, JobExecutionError
from flinkish.common.job_status import JobStatus
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.engine.job_client import EmbeddedJobClient
from tests.conftest import locally
from tests.kit.waiting import wait_for_checkpoints
from tests.recovery import keyed_timers_job
from tests.recovery.conftest import Start
from tests.recovery.folder_sink import FolderSink, committed_rows
from tests.recovery.verifier import Findings, assert_golden, compare, table_rows

_PATH = "execution.state-recovery.path"
_IGNORE = "execution.state-recovery.ignore-unclaimed-state"


def slow(env: StreamExecutionEnvironment, output: Path) -> None:
    """The job, so slow that it can be stopped in the middle."""
    keyed_timers_job.build(env, output, pause=0.003)


def finish(client: EmbeddedJobClient) -> None:
    client.get_job_execution_result().result(120)


# -- savepoints --------------------------------------------------------------------------------------------------------------


def test_a_job_goes_on_from_the_savepoint_it_was_stopped_with(start: Start, tmp_path: Path) -> None:
    stopped = start(build=slow)
    wait_for_checkpoints(stopped)
    path = stopped.stop_with_savepoint(False).result(120)
    finish(stopped)
    assert stopped.get_job_status().result() is JobStatus.FINISHED
    assert Path(path).parent == tmp_path / "savepoints"
    seen = compare(table_rows(tmp_path / "table"), keyed_timers_job.expected(), ordered=False)
    assert seen.lost
    assert seen == Findings(lost=seen.lost)
    # All that the savepoint covers was committed by the job that it stopped.
    assert sorted(committed_rows(tmp_path / "folder")) == sorted(table_rows(tmp_path / "table"))
    again = start({_PATH: path}, parallelism=3)
    finish(again)
    assert again.get_job_id() != stopped.get_job_id()
    assert_golden(tmp_path)


def test_draining_fires_all_timers_and_the_savepoint_holds_what_is_left(start: Start, tmp_path: Path) -> None:
    stopped = start(build=slow)
    wait_for_checkpoints(stopped)
    path = stopped.stop_with_savepoint(True).result(120)
    finish(stopped)
    rows = table_rows(tmp_path / "table")
    reached = {key: max((count for of, count in rows if of == key), default=0) for key in range(keyed_timers_job.KEYS)}
    assert 0 < sum(reached.values()) < keyed_timers_job.RECORDS
    wanted = [(key, count) for key, last in reached.items() for count in range(1, last + 1)]
    wanted += [(key, -count) for key, last in reached.items() for count in range(10, last + 1, 10)]
    assert compare(rows, wanted, ordered=False) == Findings()
    finish(start({_PATH: path}, parallelism=1, build=after_drain))
    assert_golden(tmp_path)


class AfterDrain(keyed_timers_job.CountWithTimers):
    """Input that goes on after a drain comes after the end of time: watermarks and timers begin anew, as in Flink."""

    def check_watermark(self, ctx: KeyedProcessFunction.Context) -> None:
        self.fired.clear()


def after_drain(env: StreamExecutionEnvironment, output: Path) -> None:
    keyed_timers_job.build(env, output, function=AfterDrain())


@locally
def test_a_savepoint_in_passing_belongs_to_the_user_and_what_it_covers_is_committed_by_the_job_started_from_it(
    start: Start, tmp_path: Path
) -> None:
    first = start({"execution.checkpointing.interval": "1 h"}, build=slow)
    path = first.trigger_savepoint(str(tmp_path / "mine")).result(120)
    assert first.get_job_status().result() is JobStatus.RUNNING
    first.cancel().result(120)
    assert table_rows(tmp_path / "table") == []
    finish(start({_PATH: path}, parallelism=3))
    assert_golden(tmp_path)
    # The same savepoint a second time: the table has what came after it already.
    with pytest.raises(JobExecutionError, match=r"ahead of checkpoint 1, which the job starts from"):
        finish(start({_PATH: path}, parallelism=1, output=tmp_path, build=keyed_timers_job.build))
    assert_golden(tmp_path)


@locally
def test_a_savepoint_that_cannot_be_written_harms_neither_the_job_nor_its_checkpoints(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    client = start(build=slow)
    wait_for_checkpoints(client, 1)
    with pytest.raises(CheckpointError, match=r"could not be prepared.*(FileExistsError|NotADirectoryError)"):
        client.trigger_savepoint(str(tmp_path / "file")).result(120)
    wait_for_checkpoints(client, 3)
    finish(client)
    assert_golden(tmp_path)


# -- checkpoints -------------------------------------------------------------------------------------------------------------


@locally
def test_a_job_goes_on_from_a_retained_checkpoint_of_a_cancelled_one(start: Start, tmp_path: Path) -> None:
    cancelled = start(build=slow)
    wait_for_checkpoints(cancelled)
    cancelled.cancel().result(120)
    finish(start({_PATH: tmp_path / "checkpoints" / str(cancelled.get_job_id())}, parallelism=3))
    assert_golden(tmp_path)


@locally
def test_an_older_retained_checkpoint_is_chosen_by_its_id(start: Start, tmp_path: Path) -> None:
    cancelled = start({"execution.checkpointing.num-retained": 5}, build=slow)
    wait_for_checkpoints(cancelled, 8)
    cancelled.cancel().result(120)
    storage = cancelled.job_master.checkpoints.storage
    assert isinstance(storage, DeltaCheckpointStorage)
    retained = sorted(storage.retained(), key=lambda stored: stored.checkpoint_id)
    assert len(retained) == 5
    rest = []
    for stored in (retained[0], retained[-1]):
        output = tmp_path / f"from {stored.checkpoint_id}"
        root = tmp_path / "checkpoints" / str(cancelled.get_job_id())

        def elsewhere(env: StreamExecutionEnvironment, output: Path) -> None:
            keyed_timers_job.build(env, output, sinks="elsewhere")

        finish(start({_PATH: f"{root}@{stored.checkpoint_id}", _IGNORE: "true"}, output=output, build=elsewhere))
        rest.append(set(table_rows(output / "table")))
    assert rest[0] > rest[1] > set()
    for rows in rest:
        for key in range(keyed_timers_job.KEYS):
            counts = sorted(count for of, count in rows if of == key and count > 0)
            assert counts == list(range(counts[0], counts[-1] + 1))
            assert (key, counts[-1] + 1) not in keyed_timers_job.expected()


@locally
def test_a_checkpoint_of_a_job_that_finished_is_gone_and_says_so(start: Start, tmp_path: Path) -> None:
    finished = start()
    finish(finished)
    with pytest.raises(ForeignCheckpointError, match="no Delta table"):
        start({_PATH: tmp_path / "checkpoints" / str(finished.get_job_id())})


# -- changed programs --------------------------------------------------------------------------------------------------------


class Sum(KeyedProcessFunction):
    """Adds up per key, in a state of a given type."""

    def __init__(self, state_type: Any = None) -> None:
        self.state_type = state_type or Types.LONG()

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", self.state_type))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        total = (self.sum.value() or 0) + value
        self.sum.update(total)
        yield Row(ctx.get_current_key(), total)


_ROW = Types.ROW_NAMED(["key", "count"], [Types.LONG(), Types.LONG()])
_LAST = 100_000

Build = Callable[[StreamExecutionEnvironment, Path], None]


def sums(
    *,
    uid: str = "sum",
    state_type: Any = None,
    max_parallelism: int | None = None,
    extra: bool = False,
    last: int = _LAST,
) -> Build:
    """Return a program that adds up numbers; `extra`: with one more keyed operator in front of it."""

    def build(env: StreamExecutionEnvironment, output: Path) -> None:
        numbers = env.from_source(NumberSequenceSource(1, last), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        if extra:
            counted = numbers.key_by(lambda value: value % 5, Types.LONG()).process(Sum(), _ROW).uid("extra")
            numbers = counted.map(lambda row: 1, Types.LONG()).uid("ones")
        total = numbers.key_by(lambda value: 0, Types.LONG()).process(Sum(state_type), _ROW).uid(uid)
        if max_parallelism is not None:
            total.set_max_parallelism(max_parallelism)
        total.sink_to(FolderSink(output / "folder")).uid("folder")

    return build


@pytest.fixture
def savepoint(start: Start) -> str:
    """Return a savepoint of `sums()`, taken in the middle of its input."""
    client = start(build=sums())
    wait_for_checkpoints(client, 2)
    path = client.stop_with_savepoint(False).result(120)
    finish(client)
    return path


def last_sum(output: Path) -> int:
    return max(count for _, count in committed_rows(output / "folder"))


@locally
class TestChangedPrograms:
    """Decided on the driver, before an engine is involved."""

    _FAST = {"execution.epoch.max-records": 100_000}  # noqa: RUF012

    def test_an_added_operator_begins_with_empty_state(self, start: Start, savepoint: str, tmp_path: Path) -> None:
        before, read = last_sum(tmp_path), len(list(committed_rows(tmp_path / "folder")))
        finish(start({_PATH: savepoint, **self._FAST}, build=sums(extra=True)))
        # The sum goes on; what is new adds one for each number that the savepoint had not read.
        assert last_sum(tmp_path) - before == _LAST - read

    @pytest.mark.parametrize(
        ("old", "new", "gone"),
        [(sums(extra=True), sums(), "extra"), (sums(), sums(uid="total"), "sum")],
        ids=["removed", "renamed"],
    )
    def test_state_without_its_operator_is_refused_unless_it_may_be_left_behind(
        self, start: Start, tmp_path: Path, old: Build, new: Build, gone: str
    ) -> None:
        client = start(build=old)
        wait_for_checkpoints(client, 2)
        path = client.stop_with_savepoint(False).result(120)
        finish(client)
        before = list(committed_rows(tmp_path / "folder"))
        with pytest.raises(ForeignCheckpointError, match=rf"operators that the program does not have: {gone}"):
            start({_PATH: path}, build=new)
        assert list(committed_rows(tmp_path / "folder")) == before
        finish(start({_PATH: path, _IGNORE: "true", **self._FAST}, build=new))
        assert len(list(committed_rows(tmp_path / "folder"))) == _LAST

    def test_another_max_parallelism_is_refused(self, start: Start, savepoint: str) -> None:
        with pytest.raises(ForeignCheckpointError, match=r"(?s)max parallelism 64.*128"):
            start({_PATH: savepoint}, build=sums(max_parallelism=64))

    def test_a_max_parallelism_that_was_not_set_is_taken_from_the_savepoint(self, start: Start, tmp_path: Path) -> None:
        client = start(build=sums(max_parallelism=7))
        wait_for_checkpoints(client, 2)
        path = client.stop_with_savepoint(False).result(120)
        finish(client)
        finish(start({_PATH: path, **self._FAST}, build=sums()))
        assert last_sum(tmp_path) == _LAST * (_LAST + 1) // 2

    def test_a_parallelism_above_the_max_parallelism_of_the_state_is_refused(self, start: Start, savepoint: str) -> None:
        with pytest.raises(InvalidProgramError, match="128"):
            start({_PATH: savepoint}, parallelism=129, build=sums())


def test_a_changed_type_of_state_is_refused_with_both_types(start: Start, savepoint: str, tmp_path: Path) -> None:
    before = list(committed_rows(tmp_path / "folder"))
    with pytest.raises(JobExecutionError, match=r"(?s)state 'sum' of operator sum.*type Long.*type String") as error:
        finish(start({_PATH: savepoint, "restart-strategy.type": "fixed-delay"}, build=sums(state_type=Types.STRING())))
    assert isinstance(error.value.__cause__, ForeignCheckpointError)
    assert "would meet the same" in str(error.value)
    assert list(committed_rows(tmp_path / "folder")) == before
