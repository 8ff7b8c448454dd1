"""A script for the test with executors of their own: kills one within an epoch and one between two, and prints what came out.

Argument: a folder for its marker files. The tasks need a Python file of the job, which executors get from Spark.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from flinkish.common.errors import EngineError
from flinkish.engine.spark.engine import SparkEngine
from flinkish.engine.spark.jvm import parent_jvm
from flinkish.runtime.protocol import Dependencies, EpochCommand
from tests.spark.toy import TOY, KillOnce, ToyLoop, ToySettings, expected_counts, toy_program

_EPOCHS = 4


def _executor_of(pid: int) -> int:
    """Return the executor's JVM that a slot host belongs to."""
    return next(process.pid for process in psutil.Process(pid).parents() if process.name() == "java")


@dataclass(frozen=True)
class ImportAndKillOnce(KillOnce):
    """Also imports a module that only the job's Python files have."""

    def __call__(self, slot: int, level: int, command: EpochCommand) -> None:
        import module_of_the_job  # type: ignore[import-not-found]

        assert module_of_the_job.NAME == "sent"
        super().__call__(slot, level, command)


def main() -> None:
    module = Path(sys.argv[1], "files", "module_of_the_job.py")
    module.parent.mkdir()
    module.write_text("NAME = 'sent'\n")
    within, between = Path(sys.argv[1], "within"), Path(sys.argv[1], "between")
    # Less memory than a worker of local-cluster has: else an executor is only placed after a minute.
    settings = {"spark.ui.enabled": "false", "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    # Executors live for seconds, as the JVMs of all tests.
    settings["spark.executor.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    SparkSession.builder.master("local-cluster[2,1,1024]").config(map=settings).getOrCreate()
    engine = SparkEngine(task=TOY)
    failures: list[str] = []
    while True:
        loop = ToyLoop(_EPOCHS)

        def kill(epoch: int, loop: ToyLoop = loop) -> None:
            if epoch == 3 and within.exists() and not between.exists():
                between.touch()
                os.kill(_executor_of(loop.reports[-1][0].process["pid"]), signal.SIGKILL)

        loop.before = kill
        hook = ImportAndKillOnce(within, slot=1, level=1, epoch=2, victim=lambda: parent_jvm().pid)
        program = toy_program(engine.scratch_root(), settings=ToySettings(hook=hook))
        program = replace(program, dependencies=Dependencies(python_files=(str(module),)))
        try:
            engine.run_attempt(program, loop)
            break
        except EngineError as error:
            # What a JobMaster does, with a checkpoint of the very beginning.
            failures.append(str(error))
    engine.close()
    exact = loop.counts() == expected_counts(_EPOCHS)
    print(json.dumps({"exact": exact, "failures": failures, "killed": [path.exists() for path in (within, between)]}))


if __name__ == "__main__":
    main()
