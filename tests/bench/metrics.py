"""The keyed count with all metrics on: reporters, a scrape each second, latencies; beside the same without any."""

from __future__ import annotations

import math
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from flinkish.common import Configuration
from flinkish.common.clock import SystemClock
from flinkish.metrics.reporters.reporter_settings import ReporterKind, reporter_settings
from flinkish.server.reporting import Reporters
from tests.bench import keyed_count

_REPORTERS = {
    "metrics.reporter.prom.factory.class": ReporterKind.PROMETHEUS.value,
    "metrics.reporter.prom.port": "0",
    "metrics.reporter.log.factory.class": ReporterKind.LOG.value,
    "metrics.reporter.log.interval": "1 s",
}
_LATENCY = {"metrics.latency.interval": "100 ms"}


def least_seconds(engine: str, records: int, rounds: int) -> tuple[float, float, int]:
    """Return the least time of the job without and with all metrics, run in turn, and the bytes of the largest scrape."""
    off = on = math.inf
    sizes = [0]
    for _ in range(rounds):
        off = min(off, keyed_count.seconds(engine, records))
        with _everything_on(sizes):
            on = min(on, keyed_count.seconds(engine, records, _LATENCY))
    return off, on, max(sizes)


def least_processor_seconds(records: int, rounds: int) -> tuple[float, float]:
    """Return the same of the local engine as processor time of this process, which does not depend on the machine's load."""
    off = on = math.inf
    for _ in range(rounds):
        started = time.process_time()
        keyed_count.seconds("local", records)
        off = min(off, time.process_time() - started)
        with _everything_on([]):
            started = time.process_time()  # without the start of the reporters, which happens once
            keyed_count.seconds("local", records, _LATENCY)
            on = min(on, time.process_time() - started)
    return off, on


@contextmanager
def _everything_on(sizes: list[int]) -> Iterator[None]:
    configuration = Configuration.from_dict(_REPORTERS)
    reporters = Reporters(reporter_settings(configuration), configuration, SystemClock())
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(1):
            with urllib.request.urlopen(f"http://127.0.0.1:{reporters.ports['prom']}/metrics", timeout=30) as answer:
                sizes.append(len(answer.read()))

    scraper = threading.Thread(target=scrape)
    scraper.start()
    try:
        yield
    finally:
        over.set()
        scraper.join()
        reporters.close()
