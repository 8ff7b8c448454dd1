"""Keyed state on disk: the same results as on the heap, in a folder that goes with the job, through failures of tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.errors import MissingPackageError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.conftest import MakeEnvironment, also_on_spark
from tests.kit.environments import env_of

_KEYS = 50
_LAST = 3_000


class Everything(KeyedProcessFunction):
    """Uses all kinds of keyed state and a timer; fails once, if a file says so."""

    def __init__(self, folder: Path, *, fails: bool) -> None:
        self._folder = folder
        self._fails = fails

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.anything = runtime_context.get_state(ValueStateDescriptor("anything", Types.PICKLED_BYTE_ARRAY()))
        self.last = runtime_context.get_list_state(ListStateDescriptor("last", Types.LONG()))
        self.tens = runtime_context.get_map_state(MapStateDescriptor("tens", Types.LONG(), Types.STRING()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if self._fails and value > _LAST // 2 and not (self._folder / "failed").exists():
            (self._folder / "failed").touch()
            assert list(self._folder.rglob("rocksdb-*/*.log"))
            raise ValueError("as told")
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.anything.update({"key": ctx.get_current_key(), "counts": [count]})
        self.last.add(value)
        self.last.update(list(self.last.get())[-3:])
        self.tens.put(value // 10 % 10, str(value))
        ctx.timer_service().register_event_time_timer(10**12 + ctx.get_current_key())
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), self.count.value(), self.anything.value(), list(self.last.get()), list(self.tens.items())


def results(env: StreamExecutionEnvironment, folder: Path, *, fails: bool = False) -> list[Any]:
    numbers = env.from_source(NumberSequenceSource(1, _LAST), WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(1)
    keyed = numbers.key_by(lambda number: number % _KEYS, key_type=Types.LONG())
    return sorted(keyed.process(Everything(folder, fails=fails)).execute_and_collect())


@also_on_spark("fails", [False, True], True)
def test_state_on_disk_gives_the_results_of_state_on_the_heap(make_env: MakeEnvironment, tmp_path: Path, *, fails: bool) -> None:
    expected = results(make_env(2, {"state.backend.type": "hashmap"}), tmp_path)
    assert len(expected) == _KEYS
    settings = {
        "state.backend.type": "rocksdb",
        "io.tmp.dirs": tmp_path,
        "execution.epoch.max-records": 300,
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.incremental": True,
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }
    assert results(make_env(2, settings), tmp_path, fails=fails) == expected
    assert (tmp_path / "failed").exists() == fails
    assert not list(tmp_path.rglob("rocksdb-*"))


def test_a_missing_package_is_named_before_the_job_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    env = env_of({"state.backend.type": "rocksdb"})
    with pytest.raises(
        MissingPackageError, match=r"state.backend.type: rocksdb needs the package rocksdict(.|\n)*flinkish\[rocksdb\]"
    ):
        results(env, tmp_path)
