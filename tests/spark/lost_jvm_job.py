"""A script for the test of lost JVMs: kills one, lets the next one end itself, and runs the job again as a JobMaster would."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import Any

from py4j.protocol import Py4JError

from flinkish.common.errors import EngineError
from flinkish.engine.spark.engine import SparkEngine
from tests.spark.toy import TOY, ToyLoop, expected_counts, toy_program


def main() -> None:
    engine = SparkEngine(task=TOY)
    killed: list[int] = []

    def kill(epoch: int) -> None:
        if epoch == 2 and len(killed) < 2:
            held = engine._held
            assert held is not None
            killed.append(held.jvm.pid)
            if len(killed) == 1:
                os.kill(held.jvm.pid, signal.SIGKILL)
            else:
                # What Spark does at an OutOfMemoryError; nothing answers any more.
                jvm: Any = held.session.sparkContext._jvm
                with contextlib.suppress(Py4JError):
                    jvm.java.lang.Runtime.getRuntime().halt(52)

    failures = []
    while True:
        loop = ToyLoop(4, before=kill)
        try:
            engine.run_attempt(toy_program(engine.scratch_root()), loop)
            break
        except EngineError as error:
            failures.append(str(error))
    engine.close()
    print(json.dumps({"exact": loop.counts() == expected_counts(4), "failures": failures, "killed": killed}))


if __name__ == "__main__":
    main()
