"""A checkpoint to start from that is missing, foreign or damaged is refused by name, and nothing of it is restored."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.errors import (
    CheckpointError,
    ConfigurationError,
    CorruptCheckpointError,
    ForeignCheckpointError,
    JobExecutionError,
)
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from tests.conftest import MakeEnvironment
from tests.kit.environments import env_of

PATH = "execution.state-recovery.path"


class Add(KeyedProcessFunction):
    """Adds up fractions or numbers per key, in a state of some type."""

    def __init__(self, state_type: TypeInformation, step: Any, name: str) -> None:
        self.name = name
        self.state_type = state_type
        self.step = step

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor(self.name, self.state_type))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        self.sum.update((self.sum.value() or 0) + self.step)
        yield self.sum.value()


def sums(
    env: StreamExecutionEnvironment,
    *,
    uid: str = "sums",
    state_type: TypeInformation | None = None,
    max_parallelism: int = 128,
    step: Any = 1,
    name: str = "sum",
) -> Any:
    source = DataGeneratorSource(lambda index: index, None, records_per_second=500)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    keyed = numbers.key_by(lambda number: number % 2, key_type=Types.LONG())
    return keyed.process(Add(state_type or Types.LONG(), step, name)).uid(uid).set_max_parallelism(max_parallelism)


def local_env(settings: dict[str, Any] | None = None) -> StreamExecutionEnvironment:
    return env_of(settings, 2)


def save(folder: Path, settings: dict[str, Any] | None = None, **program: Any) -> Path:
    """Run the job on the local engine until both keys have passed 20, and stop it with a savepoint."""
    env = local_env({"execution.checkpointing.dir": folder / "checkpoints", **(settings or {})})
    with sums(env, **program).execute_and_collect() as results:
        for _ in range(50):
            results.next()
        return Path(results.client.stop_with_savepoint(False, str(folder / "savepoints")).result())


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("saved"))


def first_result(env: StreamExecutionEnvironment, **program: Any) -> Any:
    (result,) = sums(env, **program).execute_and_collect(limit=1)
    return result


def test_a_savepoint_of_one_engine_is_continued_by_the_other(make_env: MakeEnvironment, savepoint: Path) -> None:
    assert first_result(make_env(settings={PATH: savepoint})) > 20


def the_file(savepoint: Path, pattern: str) -> Path:
    return sorted(savepoint.rglob(pattern))[0]


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


def replace_by_another(file: Path) -> None:
    """Swap two state files, whose sizes may be equal."""
    (other,) = (path for path in file.parent.glob("state-*.parquet") if path != file)
    first, second = file.read_bytes(), other.read_bytes()
    file.write_bytes(second)
    other.write_bytes(first)


DAMAGES: list[tuple[str, Callable[[Path], None]]] = [
    ("state-*.parquet", truncate),
    ("state-*.parquet", empty),
    ("state-*.parquet", flip_a_bit),
    ("state-*.parquet", replace_by_another),
    ("state-*.parquet", Path.unlink),
    ("manifest-*.parquet", truncate),
    ("manifest-*.parquet", flip_a_bit),
    ("manifest-*.parquet", Path.unlink),
    ("*.json", truncate),
    ("*.json", empty),
    ("*.json", Path.unlink),
]


@pytest.mark.parametrize(("pattern", "damage"), DAMAGES, ids=lambda part: getattr(part, "__name__", part))
def test_a_damaged_file_is_found_before_anything_is_restored(
    savepoint: Path, tmp_path: Path, pattern: str, damage: Callable[[Path], None]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(savepoint, copy)
    damage(the_file(copy, pattern))
    with pytest.raises((CorruptCheckpointError, JobExecutionError)) as error:
        first_result(local_env({PATH: copy, "restart-strategy.type": "fixed-delay"}))
    if isinstance(error.value, JobExecutionError):
        # found by the tasks, which read the file: no restart would help
        assert isinstance(error.value.__cause__, CorruptCheckpointError)
        assert "starting again would meet the same" in str(error.value)
    text = str(error.value)
    # what and where
    # Damage in the log is found only by reading the whole log.
    assert (str(copy) if pattern == "*.json" else the_file(savepoint, pattern).name) in text
    # the original savepoint was not changed, so a job can still start from it
    assert first_result(local_env({PATH: savepoint})) > 20


def test_a_flipped_bit_is_found_by_the_tasks_of_both_engines(make_env: MakeEnvironment, savepoint: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(savepoint, copy)
    file = the_file(copy, "state-*.parquet")
    flip_a_bit(file)
    with pytest.raises(JobExecutionError, match="the tasks of level 1, subtask 1/2: CorruptCheckpointError") as error:
        first_result(make_env(settings={PATH: copy}))
    assert file.name in str(error.value)
    assert "nothing was restored" in str(error.value)


def test_a_path_without_a_checkpoint_is_refused_by_name(savepoint: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path / "table"), pa.table({"a": [1]}))
    found: list[tuple[str, type[CheckpointError], str]] = [
        ("nowhere", ForeignCheckpointError, "no such folder"),
        ("empty", ForeignCheckpointError, "not a checkpoint or savepoint"),
        ("file", ForeignCheckpointError, "not a checkpoint or savepoint"),
        ("table", ForeignCheckpointError, "not those of a state table"),
    ]
    for name, kind, text in found:
        with pytest.raises(kind, match=text) as error:
            first_result(local_env({PATH: tmp_path / name}))
        assert str(tmp_path / name) in str(error.value)
    with pytest.raises(ForeignCheckpointError, match="checkpoint 77 is not retained there, these are: \\[1\\]"):
        first_result(local_env({PATH: f"{savepoint}@77"}))
    with pytest.raises(ConfigurationError, match="not at hdfs://host"):
        first_result(local_env({PATH: "hdfs://host/checkpoints"}))


def test_a_checkpoint_of_another_program_is_refused(savepoint: Path) -> None:
    with pytest.raises(ForeignCheckpointError, match="operators that the program does not have: sums \\(KEYED PROCESS\\)"):
        first_result(local_env({PATH: savepoint}), uid="other")
    # unless it may be left behind
    assert first_result(local_env({PATH: savepoint, "execution.state-recovery.ignore-unclaimed-state": True}), uid="other") == 1
    with pytest.raises(ForeignCheckpointError, match="has max parallelism 64, its keyed state was written with 128"):
        first_result(local_env({PATH: savepoint}), max_parallelism=64)
    with pytest.raises(JobExecutionError, match=r"state 'sum' of operator sums cannot be restored.* Long .*declared as.* Double"):
        first_result(local_env({PATH: savepoint}), state_type=Types.DOUBLE())


def test_pickled_values_are_read_only_under_our_own_signature(tmp_path: Path) -> None:
    program = {"state_type": Types.PICKLED_BYTE_ARRAY(), "step": Fraction(1, 2)}
    saved = save(tmp_path, **program)
    assert first_result(local_env({PATH: saved}), **program) > 10
    theirs = {PATH: saved, "security.checkpoint.hmac-key-file": tmp_path / "another.key"}
    with pytest.raises(ForeignCheckpointError, match="signed by another key than ours"):
        first_result(local_env(theirs), **program)
    with pytest.raises((CheckpointError, JobExecutionError), match="pickle") as error:
        first_result(local_env({**theirs, "execution.state-recovery.allow-untrusted": True}), **program)
    assert "checkpoint" in str(error.value)


class Malice(Fraction):
    """A number whose pickle leaves a file when it is loaded."""

    mark = ""

    def __add__(self, other: Any) -> Malice:
        return self

    def __radd__(self, other: Any) -> Malice:
        return self

    def __reduce__(self) -> Any:
        return detonate, (self.mark,)


def detonate(mark: str) -> Malice:
    Path(mark).touch()
    return Malice(1)


def test_code_in_a_strangers_savepoint_does_not_run_after_a_checkpoint_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "the code ran"
    monkeypatch.setattr(Malice, "mark", str(mark))
    malicious = {"state_type": Types.PICKLED_BYTE_ARRAY(), "step": Malice(1)}
    theirs = save(tmp_path / "theirs", {"security.checkpoint.hmac-key-file": tmp_path / "their.key"}, **malicious)
    mark.unlink(missing_ok=True)
    ours = {"security.checkpoint.hmac-key-file": tmp_path / "our.key"}
    # A program with the same operators, which does not use that state; its checkpoint is signed by our key.
    allowed = {**ours, PATH: theirs, "execution.state-recovery.allow-untrusted": True}
    signed = save(tmp_path / "ours", allowed, name="another sum")
    asking = {"state_type": Types.PICKLED_BYTE_ARRAY(), "step": Fraction(1)}
    with pytest.raises(JobExecutionError, match=r"state 'sum' of operator sums: a value is pickled.*must not be unpickled"):
        first_result(local_env({**ours, PATH: signed}), **asking)
    assert not mark.exists()
    # what our own program has pickled since is read
    assert first_result(local_env({**ours, PATH: signed}), name="another sum") > 20
