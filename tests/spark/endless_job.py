"""A script for the tests of ends: an endless toy job that SIGTERM and Ctrl-C end, as the JobMaster does it.

Arguments: marker file, "busy" (level 1 hangs in user code) or "idle" (parked between epochs), number of epochs before that.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from flinkish.engine.spark.engine import SparkEngine
from flinkish.runtime.protocol import EpochCommand
from tests.spark.toy import TOY, ToyLoop, ToySettings, toy_program


def main() -> None:
    marker, kind, epochs = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)

    def hang(slot: int, level: int, command: EpochCommand) -> None:
        if level == 1 and command.epoch == epochs:
            marker.touch()
            threading.Event().wait(300)

    def park(epoch: int) -> None:
        if stop.is_set():
            loop.epochs = len(loop.reports)
        elif epoch == epochs:
            marker.touch()
            stop.wait()

    engine = SparkEngine(task=TOY)
    loop = ToyLoop(1_000_000)
    if kind == "idle":
        loop.before = park
    program = toy_program(engine.scratch_root(), settings=ToySettings(hook=hang if kind == "busy" else None))

    def run() -> None:
        engine.run_attempt(program, loop)

    attempt = threading.Thread(target=run)
    attempt.start()
    while attempt.is_alive() and not stop.is_set():
        stop.wait(0.1)
    engine.interrupt()
    attempt.join()
    engine.close()
    print("ended")


if __name__ == "__main__":
    main()
