"""A script for the tests of ends: an endless toy job that SIGTERM and Ctrl-C end, as the JobMaster does it.

Arguments: marker file, what it does after its epochs: "idle" (parked between epochs) or "idle again" (idle in its second attempt;
Spark's JVM is killed in the first one), number of epochs before that.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from flinkish.common.errors import EngineError
from flinkish.engine.spark.engine import SparkEngine
from tests.spark.toy import TOY, ToyLoop, expected_counts, toy_program


def main() -> None:
    marker, kind, epochs = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)

    def park(epoch: int) -> None:
        if stop.is_set():
            loop.epochs = len(loop.reports)
        elif epoch == epochs:
            marker.touch()
            stop.wait()

    killed: list[int] = []
    failures: list[str] = []

    def kill(epoch: int) -> None:
        if epoch == epochs:
            held = engine._held
            assert held is not None
            killed.append(held.jvm.pid)
            os.kill(held.jvm.pid, signal.SIGKILL)

    engine = SparkEngine(task=TOY)
    loop = ToyLoop(1_000_000, before=park)

    def run() -> None:
        if kind == "idle again":
            try:
                engine.run_attempt(toy_program(engine.scratch_root()), ToyLoop(epochs + 1, before=kill))
            except EngineError as error:
                failures.append(str(error))
            # Files of Spark's own, which it removes where its JVM is not killed.
            for path in Path(os.environ["TMPDIR"]).iterdir():
                if path.name.startswith("flinkish"):
                    continue
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        engine.run_attempt(toy_program(engine.scratch_root()), loop)

    attempt = threading.Thread(target=run)
    attempt.start()
    while attempt.is_alive() and not stop.is_set():
        stop.wait(0.1)
    engine.interrupt()
    attempt.join()
    engine.close()
    exact = loop.counts() == expected_counts(epochs)
    print(json.dumps({"exact": exact, "killed": killed, "failures": failures}))


if __name__ == "__main__":
    main()
