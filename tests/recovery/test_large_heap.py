"""State on the heap that is large enough for a slot host to fold its log by a forked process, while epochs go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.runtime.state.heap.log import LEAST_FORKED
from tests.conftest import MakeEnvironment

pytestmark = pytest.mark.kill

_KEYS = 50
_LAST = 400
_EPOCH = 25
_BYTES = 200_000


class Large(KeyedProcessFunction):
    """Keeps a text for each key, and compares it with the one before; kills its process once, when a fold is in force."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def open(self, runtime_context: RuntimeContext) -> None:
        self._text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))
        self._folds: set[int] = set()

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        assert self._text.value() == (text(value - _KEYS) if value > _KEYS else None)
        self._text.update(text(value))
        if value % _EPOCH == 0:
            self._folds |= {child.pid for child in psutil.Process().children()}
            if len(self._folds) == 2 and not self._marker.exists():
                self._marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        yield len(self._folds)


def text(number: int) -> str:
    return f"{number:10}" * (_BYTES // 10)


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_a_slot_host_folds_its_log_beside_the_epochs_and_goes_on_from_it_when_it_is_killed(
    make_env: MakeEnvironment, tmp_path: Path
) -> None:
    assert _KEYS * _BYTES > LEAST_FORKED
    env = make_env(1, {"execution.epoch.max-records": _EPOCH})
    numbers = env.from_source(NumberSequenceSource(1, _LAST), WatermarkStrategy.no_watermarks(), "numbers")
    folds = list(
        numbers.key_by(lambda n: n % _KEYS, key_type=Types.LONG()).process(Large(tmp_path / "killed")).execute_and_collect()
    )
    assert len(folds) == _LAST
    assert (tmp_path / "killed").exists()
    # In the process that came after the one that was killed.
    assert folds[-1] >= 2
