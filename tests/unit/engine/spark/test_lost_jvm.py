"""What is said when the JVM goes away; tests/spark/test_ends.py kills a real one."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from flinkish.common.clock import SystemClock
from flinkish.common.errors import EngineError
from flinkish.engine.spark.engine import _Attempt


class EndingJvm:
    """Counts as alive when it is asked for the first few times, as a process does that has closed its sockets already."""

    pid = 7

    def __init__(self, looks: int) -> None:
        self._looks = looks

    def is_alive(self) -> bool:
        self._looks -= 1
        return self._looks >= 0


def attempt(jvm: EndingJvm, folder: Path, code: int | None = None, kind: type[_Attempt] = _Attempt) -> Any:
    held: Any = SimpleNamespace(jvm=jvm, await_end=lambda timeout: code)
    program: Any = SimpleNamespace(scratch=folder, attempt_id="a" * 32, remove_folders=lambda: None)
    loop: Any = None
    return kind(held, program, loop, key="", task="", clock=SystemClock(), close_timeout=0)


@pytest.mark.parametrize("error", [Py4JError("An error occurred while calling o45.setLocalProperty"), Py4JNetworkError("empty")])
def test_a_broken_connection_is_put_down_to_the_jvm_that_ends_a_moment_later(error: Exception, tmp_path: Path) -> None:
    failure = attempt(EndingJvm(looks=3), tmp_path)._error("Epoch 2 failed on Spark", error)
    assert str(failure) == "Epoch 2 failed on Spark: the JVM of Spark, process 7, is gone."


def test_whatever_asks_an_ending_jvm_the_attempt_ends_with_an_error_of_the_engine(tmp_path: Path) -> None:
    class Lost(_Attempt):
        def _start(self) -> None:
            pass

        def _run_epochs(self) -> None:
            raise Py4JError("An error occurred while calling o9.isActive")

    ending = attempt(EndingJvm(looks=3), tmp_path, kind=Lost)
    with pytest.raises(EngineError, match="Spark did not answer: the JVM of Spark, process 7, is gone"):
        ending.run()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (52, r"process 7, ran out of memory \(java.lang.OutOfMemoryError\) and ended.\nHint: .*spark.driver.memory"),
        (-9, r"process 7, was ended by signal 9.\nHint: .*the machine runs out of memory"),
        (-15, r"process 7, was ended by signal 15.$"),
        (1, r"process 7, has ended with exit code 1.\nHint: .*standard error"),
    ],
)
@pytest.mark.parametrize(
    "error",
    [
        Py4JError("An error occurred while calling o45.setLocalProperty"),
        ConnectionRefusedError(111, "Connection refused"),
        RuntimeError("Job 0 cancelled because SparkContext was shut down"),
    ],
)
def test_a_jvm_that_ends_is_the_reason_whatever_came_of_it(error: Exception, code: int, text: str, tmp_path: Path) -> None:
    failure = attempt(EndingJvm(looks=3), tmp_path, code)._error("Epoch 2 failed on Spark", error)
    assert re.search(text, str(failure)), str(failure)
