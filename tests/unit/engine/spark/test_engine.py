"""What an attempt does with what comes from its query; tests/spark/test_engine.py runs queries."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flinkish.common import pickling
from flinkish.common.clock import SystemClock
from flinkish.common.ids import Epoch
from flinkish.engine.spark import shim
from flinkish.engine.spark.engine import _Attempt
from flinkish.engine.spark.query import Ready, Rows
from flinkish.runtime.protocol import EpochReport
from tests.spark.toy import ToyLoop, toy_program


def test_the_last_epoch_is_not_followed_by_another_micro_batch(tmp_path: Path) -> None:
    held: Any = SimpleNamespace(master="local[2]")
    loop = ToyLoop(1)
    program = toy_program(tmp_path, levels=1)
    attempt = _Attempt(held, program, loop, key="", task="", clock=SystemClock(), close_timeout=0)
    reports = [pickling.dumps(EpochReport(epoch=Epoch(0), level=0, slot=slot)) for slot in range(2)]
    attempt._turnstile.events.put(Ready())
    attempt._turnstile.events.put(Rows([(0, shim.REPORT, report) for report in reports]))
    attempt._run_epochs()
    assert len(loop.reports) == 1
