"""flinkish plan tells what a start of the program would do."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from flinkish.cli.main import cli
from flinkish.common.errors import CheckpointError, FlinkishError
from tests.kit.environments import env_of
from tests.kit.own_process import keep_process

pytestmark = pytest.mark.usefixtures("same_logging")


@pytest.fixture(autouse=True)
def same_process_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what running a script changes."""
    keep_process(monkeypatch)


_JOB = """
import sys

from flinkish.common import Row, Time, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.functions import KeyedProcessFunction, MapFunction
from flinkish.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

LONG, TEXT = Types.LONG(), Types.STRING()
ORDER = Types.ROW_NAMED(["id", "price"], [LONG, LONG])
AT_ITS_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, timestamp: value)


class Orders(KeyedProcessFunction):
    def __init__(self, change):
        self.change = change

    def open(self, runtime_context):
        change = self.change
        count = TEXT if change == "type" else Types.BIG_INT() if change == "widened" else LONG
        self.count = runtime_context.get_state(ValueStateDescriptor("count", count))
        order = Types.ROW_NAMED(["price", "id"], [LONG, LONG]) if change == "fields" else ORDER
        if change == "field added":
            order = Types.ROW_NAMED(["id", "price", "note"], [LONG, LONG, TEXT])
        self.order = runtime_context.get_state(ValueStateDescriptor("order", order))
        if change == "kind of state":
            self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", LONG, LONG))
        elif change != "state removed":
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", LONG))
        if change == "state added":
            self.more = runtime_context.get_state(ValueStateDescriptor("more", LONG))
        if change == "open fails":
            raise RuntimeError("no database")

    def process_element(self, value, ctx):
        if self.change == "":
            self.count.update((self.count.value() or 0) + 1)
            self.order.update(Row(id=value, price=1))
            self.seen.add(value)
        yield value


class Plain(MapFunction):
    def map(self, value):
        return value


def build(env, change=""):
    strategy = WatermarkStrategy.no_watermarks()
    source = DataGeneratorSource(lambda index: index % 10, type_info=LONG, records_per_second=1000)
    numbers = env.from_source(source, strategy, "numbers", LONG).uid("numbers")
    keyed = numbers.key_by(lambda value: str(value) if change == "key type" else value, TEXT if change == "key type" else LONG)
    if change == "not keyed":
        orders = numbers.map(Plain(), LONG)
    elif change == "kind of operator":
        orders = keyed.reduce(lambda a, b: a)
    else:
        orders = keyed.process(Orders(change), LONG)
    orders = orders.uid("renamed" if change == "uid" else "orders")
    if change == "max parallelism":
        orders = orders.set_max_parallelism(64)
    orders.sink_to(DiscardingSink()).uid("sink")
    windows = TumblingEventTimeWindows.of(Time.seconds(10))
    if change == "windows":
        windows = EventTimeSessionWindows.with_gap(Time.seconds(10))
    stamped = numbers.assign_timestamps_and_watermarks(AT_ITS_TIME).uid("stamped")
    if change != "operator removed":
        keyed_again = stamped.map(Plain(), LONG).uid("plain").key_by(lambda value: value, LONG)
        keyed_again.window(windows).reduce(lambda a, b: a + b).uid("windows").sink_to(DiscardingSink()).uid("windows-sink")
    if change == "operator added":
        keyed.process(Orders(change), LONG).uid("added").sink_to(DiscardingSink()).uid("added-sink")


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, *sys.argv[1:])
    env.execute("orders")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plan")


@pytest.fixture(scope="module")
def script(folder: Path) -> Path:
    path = folder / "orders_job.py"
    path.write_text(_JOB)
    return path


@pytest.fixture(scope="module")
def job(script: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("orders_job", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(job: ModuleType, folder: Path, change: str = "", **settings: str) -> str:
    """Run the job up to a savepoint."""
    env = env_of({"security.checkpoint.hmac-key-file": folder / "key", **settings}, 2)
    job.build(env, change)
    client = env.execute_async("orders")
    try:
        return str(client.stop_with_savepoint(False, str(folder / "savepoints")).result(120))
    except CheckpointError:
        # Why the job has ended.
        client.get_job_execution_result().result(120)
        raise


@pytest.fixture(scope="module")
def savepoint(job: ModuleType, folder: Path) -> str:
    return run(job, folder)


def plan(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        cli, ["plan", "--engine", "local", f"-Dsecurity.checkpoint.hmac-key-file={folder}/key", "-p2", *arguments]
    )


#: Changes, with what becomes of the operator and state that they are about.
CHANGES: list[tuple[str, str, str | None, str]] = [
    ("", "orders", "count", "matches"),
    ("type", "orders", "count", "refused"),
    ("fields", "orders", "order", "refused"),
    ("field added", "orders", "order", "converted"),
    ("widened", "orders", "count", "converted"),
    ("kind of state", "orders", "seen", "refused"),
    ("state removed", "orders", "seen", "kept"),
    ("state added", "orders", "more", "new"),
    ("key type", "orders", "count", "refused"),
    ("not keyed", "orders", None, "refused"),
    ("kind of operator", "orders", None, "refused"),
    ("uid", "orders", None, "refused"),
    ("uid", "renamed", None, "new"),
    ("max parallelism", "orders", None, "refused"),
    ("windows", "windows", None, "refused"),
    ("operator added", "added", None, "new"),
    ("operator removed", "windows", None, "refused"),
    ("operator removed", "plain", None, "absent"),
]


@pytest.mark.parametrize(("change", "uid", "state", "expected"), CHANGES)
def test_what_becomes_of_an_operator_or_state(
    folder: Path, script: Path, savepoint: str, change: str, uid: str, state: str | None, expected: str
) -> None:
    result = plan(folder, "--json", str(script), "--against", savepoint, change)

    answer = json.loads(result.output.splitlines()[-1])
    operators = {each["uid"]: each for each in answer["operators"]}
    states = {each["name"]: each["verdict"] for each in operators.get(uid, {}).get("states", ())}
    found = states.get(state) if state is not None else operators.get(uid, {}).get("verdict", "absent")
    assert found == expected, result.output
    assert result.exit_code == int(answer["refused"])


@pytest.mark.parametrize("change", list(dict.fromkeys(change for change, *_ in CHANGES)))
def test_a_start_is_refused_if_and_only_if_the_plan_says_so(
    job: ModuleType, folder: Path, script: Path, savepoint: str, change: str
) -> None:
    refused = json.loads(plan(folder, "--json", str(script), "--against", savepoint, change).output.splitlines()[-1])["refused"]

    if not refused:
        run(job, folder, change, **{"execution.state-recovery.path": savepoint})
        return
    with pytest.raises(FlinkishError, match=r"ForeignCheckpointError|cannot take over|holds state|max parallelism"):
        run(job, folder, change, **{"execution.state-recovery.path": savepoint})


def test_state_that_may_be_left_behind_is_dropped(folder: Path, script: Path, savepoint: str) -> None:
    result = plan(folder, "-n", str(script), "--against", savepoint, "uid")

    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert ["orders", "dropped"] in [line[:2] for line in lines]
    assert ["orders", "count", "dropped"] in [line[:3] for line in lines]


def test_both_types_are_shown_and_why_it_is_refused(folder: Path, script: Path, savepoint: str) -> None:
    result = plan(folder, str(script), "--against", savepoint, "type")

    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if line.split()[1:3] == ["count", "refused"]]
    assert "value state of type Long with keys of type Long -> value state of type String with keys of type Long" in line
    assert f"The start from {savepoint} would be refused:" in result.output
    assert "- state 'count' of operator orders cannot be restored: it was stored as" in result.output


def test_functions_are_not_opened_if_they_must_not_be(folder: Path, script: Path, savepoint: str) -> None:
    opened = plan(folder, str(script), "--against", savepoint, "open fails")
    closed = plan(folder, "--no-open", str(script), "--against", savepoint, "open fails")

    assert opened.exit_code == 1
    assert "its open() or close() raised RuntimeError: no database" in opened.output
    assert closed.exit_code == 0
    assert ["orders", "count", "not", "compared"] in [line.split()[:4] for line in closed.output.splitlines()]


def test_a_savepoint_must_be_named_and_be_ours(folder: Path, script: Path, savepoint: str, tmp_path: Path) -> None:
    assert "--against PATH is missing" in plan(folder, str(script)).output
    assert "there is no such folder" in plan(folder, str(script), "--against", str(tmp_path / "nothing")).output
    assert "was signed by another key than ours" in plan(tmp_path, str(script), "--against", savepoint).output
