"""Attempts on Spark: exact results, errors, ends, what is left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from flinkish.common.clock import SystemClock
from flinkish.common.errors import EngineError
from flinkish.engine.slots import hosts
from flinkish.engine.spark import query
from flinkish.engine.spark.engine import SparkEngine
from flinkish.engine.spark.log_suppression import scheduler_is_idle, suppress_jvm_logs
from flinkish.engine.spark.query import Rows, slot_values, spark_hash
from flinkish.engine.spark.scratch import url_in_jvm
from flinkish.engine.spark.session import spark_plan_text
from flinkish.runtime.protocol import EpochCommand, TaskProgram
from tests.kit.waiting import wait_until
from tests.spark.toy import ToyLoop, ToySettings, expected_counts, toy_program

pytestmark = pytest.mark.spark

WaitFor = Callable[[str, Callable[[], bool]], None]


def _left(program: TaskProgram) -> list[str]:
    """What there still is of an attempt."""
    active = [f"query {query.name}" for query in SparkSession.active().streams.active]
    folders = [str(path) for path in (program.scratch, *hosts._folders(program.attempt_id)) if path.exists()]
    return active + folders


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_results_are_exact_and_nothing_is_left(engine: SparkEngine, levels: int) -> None:
    program = toy_program(engine.scratch_root(), levels=levels)
    loop = ToyLoop(4)
    engine.run_attempt(program, loop)
    for level in range(1, levels):
        assert loop.counts(level) == expected_counts(4)
    assert [sorted((report.level, report.slot) for report in reports) for reports in loop.reports] == [
        [(level, slot) for level in range(levels) for slot in range(2)]
    ] * 4
    assert _left(program) == []


def test_the_jvm_leaves_the_permissions_of_scratch_files_alone(engine: SparkEngine, tmp_path: Path) -> None:
    engine.run_attempt(toy_program(engine.scratch_root()), ToyLoop(1))
    context: Any = SparkContext._active_spark_context
    path = context._jvm.org.apache.hadoop.fs.Path(url_in_jvm(context, tmp_path / "folder") + "/file")
    system = path.getFileSystem(context._jsc.hadoopConfiguration())
    system.getConf().set("fs.permissions.umask-mode", "077")
    try:
        system.create(path).close()
    finally:
        system.getConf().unset("fs.permissions.umask-mode")
    (tmp_path / "file").touch()
    assert (tmp_path / "folder" / "file").stat().st_mode == (tmp_path / "file").stat().st_mode


def test_slots_keep_their_process_from_epoch_to_epoch_and_level_to_level(engine: SparkEngine) -> None:
    loop = ToyLoop(4)
    engine.run_attempt(toy_program(engine.scratch_root(), levels=3), loop)
    assert [len(pids) for pids in loop.pids().values()] == [1, 1]


def test_both_calls_of_the_loop_come_from_the_thread_of_run_attempt(engine: SparkEngine) -> None:
    loop = ToyLoop(2)
    engine.run_attempt(toy_program(engine.scratch_root()), loop)
    assert loop.threads == {threading.current_thread().name}


@pytest.mark.parametrize("slots", [1, 3])
def test_any_number_of_slots_runs(engine: SparkEngine, slots: int) -> None:
    loop = ToyLoop(2)
    engine.run_attempt(toy_program(engine.scratch_root(), slots=slots), loop)
    assert loop.counts() == expected_counts(2, slots=slots)


def test_a_large_command_goes_by_file_and_the_file_is_removed(engine: SparkEngine) -> None:
    program = toy_program(engine.scratch_root())
    left: list[int] = []
    loop = ToyLoop(3, before=lambda _: left.append(len(list(program.scratch.glob("command-*")))), ballast=b"x" * 1_000_000)
    engine.run_attempt(program, loop)
    assert loop.counts() == expected_counts(3)
    assert left == [0, 0, 0]


def test_an_action_that_is_run_twice_counts_once(engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = query._collect

    def collect_twice(rows: DataFrame, description: str) -> Rows:
        collect(rows, description)
        return collect(rows, description)

    monkeypatch.setattr(query, "_collect", collect_twice)
    loop = ToyLoop(4)
    engine.run_attempt(toy_program(engine.scratch_root(), levels=3), loop)
    assert loop.counts(1) == loop.counts(2) == expected_counts(4)


def test_the_jvm_is_kept_quiet_and_then_has_its_levels_back(shared_session: SparkEngine) -> None:
    jvm = SparkSession.active().sparkContext._jvm
    get_logger = jvm.org.apache.logging.log4j.LogManager.getLogger
    loggers = [get_logger(f"org.apache.{name}") for name in ("spark.Any", "spark.scheduler.TaskSetManager", "hadoop.Any")]
    before = [logger.getLevel().name() for logger in loggers]
    with suppress_jvm_logs(jvm):
        assert [logger.getLevel().name() for logger in loggers] == ["OFF"] * 3
    assert [logger.getLevel().name() for logger in loggers] == before


def test_an_idle_scheduler_has_handled_all_that_it_was_sent(shared_session: SparkEngine) -> None:
    context = SparkSession.active().sparkContext
    jvm = context._jvm
    scheduler = context._jsc.sc().dagScheduler()
    # The scheduler handles this job, which has many tasks, for a while, and only then the message that cancels it.
    job = context._jsc.parallelize(jvm.java.util.ArrayList(), 20_000).countAsync()
    context.cancelAllJobs()
    wait_until("the scheduler is idle", lambda: scheduler_is_idle(context))
    assert scheduler.activeJobs().isEmpty()
    assert job.isDone()


def test_a_second_attempt_begins_anew(engine: SparkEngine) -> None:
    for _ in range(2):
        loop = ToyLoop(2)
        engine.run_attempt(toy_program(engine.scratch_root()), loop)
        assert loop.counts() == expected_counts(2)
    # What Spark's UI shows for its jobs, newest first.
    jobs = SparkSession.active().sparkContext._jsc.sc().statusStore().jobsList(None)
    described = [jobs.apply(index).description() for index in range(2)]
    assert [text.get() for text in described if text.isDefined()] == [f"toy: epoch {epoch} of attempt 0" for epoch in (1, 0)]


def test_two_engines_run_side_by_side(engine: SparkEngine) -> None:
    other = SparkEngine(task=engine._task)
    loops = [ToyLoop(4), ToyLoop(4)]
    programs = [toy_program(engine.scratch_root()), toy_program(other.scratch_root(), slots=1)]
    threads = [
        threading.Thread(target=run.run_attempt, args=(program, loop))
        for run, program, loop in zip((engine, other), programs, loops, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    other.close()
    assert loops[0].counts() == expected_counts(4)
    assert loops[1].counts() == expected_counts(4, slots=1)


def test_a_loop_without_epochs_ends_at_once(engine: SparkEngine) -> None:
    program = toy_program(engine.scratch_root())
    engine.run_attempt(program, ToyLoop(0))
    assert _left(program) == []


def test_an_error_of_the_loop_ends_the_attempt(engine: SparkEngine) -> None:
    def fail(epoch: int) -> None:
        if epoch == 1:
            raise KeyError("the loop fails")

    program = toy_program(engine.scratch_root())
    with pytest.raises(KeyError, match="the loop fails"):
        engine.run_attempt(program, ToyLoop(3, before=fail))
    assert _left(program) == []


def test_a_defect_in_a_slot_host_is_an_engine_error_with_its_traceback(engine: SparkEngine) -> None:
    program = toy_program(engine.scratch_root(), settings=ToySettings(fail_in_constructor=True))
    with pytest.raises(EngineError, match=r"(?s)within flinkish itself.*ValueError: the toy was told to fail"):
        engine.run_attempt(program, ToyLoop(1))
    assert _left(program) == []


def test_an_interrupt_ends_a_running_action_within_ten_seconds(engine: SparkEngine, tmp_path: Path) -> None:
    entered, closed = tmp_path / "entered", tmp_path / "closed"

    def hang(slot: int, level: int, command: EpochCommand) -> None:
        if (slot, level, command.epoch) == (0, 1, 2):
            entered.touch()
            threading.Event().wait(120)

    settings = ToySettings(hook=hang, on_close=lambda slot: (closed.with_suffix(f".{slot}")).touch())
    program = toy_program(engine.scratch_root(), settings=settings)
    loop = ToyLoop(10)
    attempt = threading.Thread(target=engine.run_attempt, args=(program, loop))
    attempt.start()
    wait_until("the hanging call", entered.exists)
    clock = SystemClock()
    began = clock.monotonic()
    engine.interrupt()
    attempt.join(60)
    took = clock.monotonic() - began
    assert not attempt.is_alive()
    # Ten seconds on a machine that does nothing else; the call hangs for 120.
    assert took < 40_000
    assert len(loop.reports) == 2
    assert _left(program) == []
    assert closed.with_suffix(".0").exists()
    assert closed.with_suffix(".1").exists()


def test_an_interrupt_between_epochs_ends_the_attempt(engine: SparkEngine) -> None:
    program = toy_program(engine.scratch_root())
    loop = ToyLoop(10, before=lambda epoch: engine.interrupt() if epoch == 2 else None)
    engine.run_attempt(program, loop)
    assert len(loop.reports) == 2
    assert _left(program) == []


def test_an_interrupt_without_an_attempt_does_not_reach_the_next_one(engine: SparkEngine) -> None:
    engine.interrupt()
    loop = ToyLoop(1)
    engine.run_attempt(toy_program(engine.scratch_root()), loop)
    assert len(loop.reports) == 1


def test_the_settings_of_the_users_session_are_left_alone(engine: SparkEngine) -> None:
    session = SparkSession.active()
    before = session.conf.get("spark.sql.shuffle.partitions")
    engine.run_attempt(toy_program(engine.scratch_root()), ToyLoop(1))
    assert session.conf.get("spark.sql.shuffle.partitions") == before


def test_close_removes_the_scratch_root(shared_session: SparkEngine) -> None:
    engine = SparkEngine()
    root = engine.scratch_root()
    assert root.stat().st_mode & 0o777 == 0o700
    engine.close()
    assert not root.exists()


def test_scratch_of_killed_processes_is_removed_by_the_next(shared_session: SparkEngine) -> None:
    mine = shared_session.scratch_root()
    name = mine.name.split("-")
    name[3] = "999999999"
    orphan = mine.parent / "-".join(name)
    orphan.mkdir()
    engine = SparkEngine()
    engine.scratch_root()
    engine.close()
    assert not orphan.exists()
    assert mine.exists()


def test_spark_hashes_slot_values_as_we_do(shared_session: SparkEngine) -> None:
    session = SparkSession.active()
    values = [*slot_values(16), -1, 2**31 - 1, -(2**31)]
    frame = session.createDataFrame([(value,) for value in values], "slot int").selectExpr("slot", "hash(slot) AS hash")
    assert {row["slot"]: row["hash"] for row in frame.collect()} == {value: spark_hash(value) for value in values}


def test_the_plan_keeps_a_projection_after_each_stateful_operator(shared_session: SparkEngine, tmp_path: Path) -> None:
    program = toy_program(tmp_path, levels=4)
    text = spark_plan_text(program.plan)
    physical = text[text.index("== Physical Plan ==") :]
    nodes = [line.split("- ")[-1].split(" (")[0].lstrip("* ") for line in physical.splitlines() if "- " in line and "(" in line]
    stateful = [index for index, node in enumerate(nodes) if "FlatMapGroupsInPandasWithState" in node]
    assert len(stateful) == 3
    assert all("Project" in nodes[index - 1] for index in stateful[1:])
