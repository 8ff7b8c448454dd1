"""What an attempt does with what comes from its query; tests/spark/test_engine.py runs queries."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from flinkish.common import pickling
from flinkish.common.clock import SystemClock
from flinkish.common.ids import Epoch
from flinkish.engine.spark import shim
from flinkish.engine.spark.engine import SparkEngine, _Attempt
from flinkish.engine.spark.query import Ready, Rows
from flinkish.engine.spark.session import HeldSession
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


def _session(sent: list[str], master: str = "spark://a:7077") -> HeldSession:
    session = SimpleNamespace(sparkContext=SimpleNamespace(addArchive=sent.append))
    return cast(HeldSession, SimpleNamespace(master=master, session=session))


def test_executors_on_other_machines_get_the_modules_of_the_program_once_for_each_session(tmp_path: Path) -> None:
    sent: list[str] = []
    engine, first, second = SparkEngine(), _session(sent), _session(sent)
    modules = str(tmp_path / "a job.zip")
    assert [engine._send(held, (), modules) for held in (first, first, second)] == [("flinkish-program",)] * 3
    assert sent == [f"{tmp_path.as_uri()}/a%20job.zip#flinkish-program"] * 2
    assert engine._send(_session(sent), (), None) == ()
    assert engine._send(_session(sent, "local[2]"), (), modules) == ()
    assert len(sent) == 2


def test_executors_that_share_no_folder_get_the_python_files_once_for_each_session(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("NAME = 'sent'")
    sent: list[str] = []
    engine, first, second = SparkEngine(), _session(sent), _session(sent)
    found = [engine._send(held, (str(tmp_path / "module.py"),), None) for held in (first, first, second)]
    assert found[0] == found[1] != found[2]
    assert len(sent) == 2
    for uri, (entry,) in zip(sent, found[1:], strict=True):
        archive, _, name = uri.removeprefix("file://").partition("#")
        assert entry == f"{name}/python-0"
        assert zipfile.ZipFile(archive).namelist() == ["python-0/module.py"]
