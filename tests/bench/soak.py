"""`make soak`: runs 10,000 small epochs in one job with a checkpoint each second, and compares the first thousand with the last.

Epoch time, the driver's Java heap after a collection and its compiled code, memory of workers and slot hosts, and files in the
scratch folder and of checkpoints must stay bounded. `--epochs N` runs N epochs and compares the first tenth with the last. Each
tenth prints a line; Ctrl-C ends the run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.engine.spark.session import hold_session, release_session
from flinkish.engine.spark.spark_settings import SparkSettings
from tests.bench.keyed_count import CountPerKey, environment
from tests.bench.measure import epoch_times, median, memory_mb
from tests.kit.waiting import completed


def _look(spark: Any, scratch: Path, checkpoints: Path) -> dict[str, float]:
    jvm = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    figures = {"driver's Java heap, MB": (runtime.totalMemory() - runtime.freeMemory()) / 2**20}
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    figures["its compiled code, MB"] = sum(pool.getUsage().getUsed() for pool in pools if "Code" in pool.getName()) / 2**20
    figures.update({f"memory of {name}, MB": value for name, value in memory_mb().items()})
    for name, folder in (("in the scratch folder", scratch), ("of checkpoints", checkpoints)):
        figures[f"files {name}"] = float(sum(1 for path in folder.rglob("*") if path.is_file()))
    return figures


def _memory_folder() -> str | None:
    """Return a folder in memory, as the engine would choose it; None if there is none."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def main() -> None:
    """Run the epochs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10_000)
    arguments = parser.parse_args()
    part = max(arguments.epochs // 10, 1)
    looks: list[dict[str, float]] = []
    held = hold_session(SparkSettings.of(None))
    try:
        with epoch_times() as times, Progress() as progress, tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
            scratch, checkpoints = Path(folder, "scratch"), Path(folder, "checkpoints")
            scratch.mkdir()
            settings = {
                "io.tmp.dirs": str(scratch),
                "execution.checkpointing.dir": str(checkpoints),
                "execution.checkpointing.interval": "1 s",
                "execution.checkpointing.incremental": "true",
                # Of each of the two subtasks.
                "execution.epoch.max-records": "50",
            }
            env = environment("spark", settings=settings)
            # A few more: the last look is at a running job.
            source = NumberSequenceSource(0, 100 * arguments.epochs + 2_000)
            numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
            keyed = numbers.key_by(lambda value: value % 10_000, key_type=Types.LONG())
            keyed.process(CountPerKey(), Types.LONG()).sink_to(DiscardingSink())
            client: Any = env.execute_async("soak")
            result = client.get_job_execution_result()
            bar = progress.add_task("epochs", total=arguments.epochs)
            with suppress(KeyboardInterrupt):
                while not result.done():
                    threading.Event().wait(0.2)
                    done = min(len(times.begun), arguments.epochs)
                    progress.update(bar, completed=done)
                    if done >= part * (len(looks) + 1):
                        durations = times.durations_ms(len(times.begun) - 1)
                        look = _look(held.session, scratch, checkpoints) | {"epoch, median ms": median(durations[-part + 20 :])}
                        looks.append(look)
                        progress.console.print(f"{done:,}: " + ", ".join(f"{key} {value:,.0f}" for key, value in look.items()))
            taken = completed(client)
            if result.done():
                result.result()
            client.cancel().result()
    finally:
        release_session(held)
    if looks:
        _print(part, len(looks) * part, taken, looks[0], looks[-1])


def _print(part: int, epochs: int, taken: int, first: dict[str, float], last: dict[str, float]) -> None:
    table = Table(title=f"{epochs:,} epochs of 100 records, {taken:,} checkpoints", title_justify="left")
    for column, side in (("", "left"), (f"first {part:,}", "right"), (f"last {part:,}", "right"), ("ratio", "right")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]
    for name in sorted(first):
        before, after = first[name], last.get(name, float("nan"))
        table.add_row(name, f"{before:,.0f}", f"{after:,.0f}", f"{after / before:.2f}" if before else "-")
    Console().print(table)


if __name__ == "__main__":
    main()
