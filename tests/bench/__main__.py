"""`make bench`: speed and memory, as ratios measured in one run. `make bench ARGS='--only epoch --only state'` runs some only."""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from flinkish.common import Duration, Types, WatermarkStrategy
from flinkish.datastream import RuntimeExecutionMode
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.engine.spark.session import hold_session, release_session
from flinkish.engine.spark.spark_settings import SparkSettings
from jobs import plain_spark
from tests.bench import (
    backends,
    checkpoints,
    columns,
    columns_of_files,
    data_frames,
    epoch_costs,
    floor,
    guarantees,
    kafka,
    kafka_json,
    keyed_count,
    keys,
    main_job,
    metrics,
    naive,
    peer,
    server,
    slow_engine,
    start,
    stores,
    windows,
)
from tests.bench.keyed_count import CountPerKey, environment
from tests.bench.measure import MemoryPeak, cpu_seconds, epoch_times, median
from tests.bench.phased_source import PhasedSource
from tests.bench.programs import PROGRAMS, seconds
from tests.kit.kafka_broker import own_broker
from tests.kit.results import collect

_MILLION = 1_000_000


class Report:
    """Collects lines of figure, goal and verdict."""

    def __init__(self) -> None:
        self.table = Table(title="flinkish: speed and memory", title_justify="left")
        for column, side in (("what", "left"), ("measured", "right"), ("goal", "right"), ("", "left")):
            self.table.add_column(column, justify=side)  # type: ignore[arg-type]

    def add(self, what: str, measured: str, goal: str = "", met: bool | None = None) -> None:
        self.table.add_row(what, measured, goal, "" if met is None else "met" if met else "[bold]missed[/bold]")
        print(f"  {what}: {measured} {f'(goal {goal})' if goal else ''}", flush=True)

    def section(self) -> None:
        self.table.add_section()


def bench_keyed_count(report: Report, spark: Any, scale: float) -> None:
    """number sequence -> map -> key_by -> ValueState process -> discard, parallelism 2, 100,000 keys."""
    bare, lean = (max(run(int(4 * _MILLION * scale)) for _ in range(2)) for run in (floor.records, floor.columns))
    peak = MemoryPeak()
    peak.start()
    warm, whole = keyed_count.records_per_second("spark", int(2 * _MILLION * scale), int(10 * _MILLION * scale))
    memory = peak.stop()
    local, _ = keyed_count.records_per_second("local", int(_MILLION * scale), int(3 * _MILLION * scale))
    plain = plain_spark.run(naive.records_per_second, int(20_000 * scale))
    report.add("keyed count on Spark, after warm-up", f"{warm:,.0f}/s", "300,000/s", warm >= 300_000)
    report.add("keyed count on Spark, from end to end", f"{whole:,.0f}/s")
    report.add("keyed count on the local engine", f"{local:,.0f}/s")
    report.add("floor: two bare Python processes, a pipe, frames of records with time and key", f"{bare:,.0f}/s")
    report.add("Spark / floor", f"{warm / bare:.2f}", "0.30", warm / bare >= 0.3)
    report.add("the same with two bare columns, values and keys", f"{lean:,.0f}/s")
    report.add("Spark / that", f"{warm / lean:.2f}", "0.30", warm / lean >= 0.3)
    report.add("plain applyInPandasWithState by key", f"{plain:,.0f}/s")
    report.add("Spark / plain", f"{warm / plain:,.0f}", "20", warm / plain >= 20)
    for name, value in memory.items():
        report.add(f"memory while it runs: {name}", f"{value:,.0f} MB")


def bench_data_frames(report: Report, spark: Any, scale: float) -> None:
    """readStream of Parquet files -> map -> key_by -> ValueState process, beside Spark's groupBy().count() over the same."""
    ours, plain = data_frames.rates(spark, int(200_000 * scale))
    report.add("keyed count over a streaming DataFrame", f"{ours:,.0f}/s")
    report.add("Spark's own groupBy().count() in the JVM", f"{plain:,.0f}/s")
    report.add("from_data_frame / that", f"{ours / plain:.2f}")


def bench_keys(report: Report, spark: Any, scale: float) -> None:
    """The keyed count with 100,000 and with a million keys, over numbers and over a DataFrame, from end to end."""
    records = int(4 * _MILLION * scale)
    for many in (100_000, _MILLION):
        local, on_spark = (keys.of_numbers(engine, records, many) for engine in ("local", "spark"))
        rows, bare = keys.of_rows(spark, records, many), plain_spark.run(keys.handed_over, records, many)
        report.add(f"number sequence, {many:,} keys, local engine", f"{local:,.0f}/s")
        report.add(f"number sequence, {many:,} keys, Spark", f"{on_spark:,.0f}/s")
        report.add(f"from_data_frame, {many:,} keys, Spark", f"{rows:,.0f}/s")
        report.add("the same rows by mapInPandas into functions that do nothing", f"{bare:,.0f}/s")
        report.add("from_data_frame / that", f"{rows / bare:.2f}")


def bench_sum(report: Report, spark: Any, scale: float) -> None:
    """sum(1) and a process function that does the same, in turn, on the local engine."""
    records = int(_MILLION * scale)
    rounds = [[keys.summed(records, by_sum=by_sum) for by_sum in (True, False)] for _ in range(5)]
    by_sum, process = (max(rates) for rates in zip(*rounds, strict=True))
    report.add("sum(1)", f"{by_sum:,.0f}/s")
    report.add("the same in a process function", f"{process:,.0f}/s")
    report.add("sum(1) / process function, median of the rounds", f"{statistics.median(a / b for a, b in rounds):.2f}")


def bench_slow(report: Report, spark: Any, scale: float) -> None:
    """A DataFrame whose rows take half a millisecond each, in epochs and as a batch: the cost of many epochs."""
    records = int(50_000 * scale)
    modes = (RuntimeExecutionMode.BATCH, RuntimeExecutionMode.STREAMING)
    batch, epochs = (keys.slowly(spark, records, mode) for mode in modes)
    report.add("rows of half a millisecond, BATCH", f"{batch:,.0f}/s")
    report.add("rows of half a millisecond, STREAMING", f"{epochs:,.0f}/s")
    report.add("STREAMING / BATCH", f"{epochs / batch:.2f}")


def bench_shapes(report: Report, spark: Any, scale: float) -> None:
    """The keyed count over longs, tuples and named rows."""
    records = int(4 * _MILLION * scale)
    took: dict[str, list[float]] = {shape: [] for shape in keyed_count.SHAPES}
    for _ in range(9):  # in turn, so that a slow minute of the machine slows all of them
        for shape, rounds in took.items():
            rounds.append(keyed_count.seconds("spark", records, shape=shape))
    for shape, rounds in took.items():
        report.add(f"keyed count over {shape} on Spark, from end to end", f"{records / min(rounds):,.0f}/s")
    # Single rounds scatter by a tenth.
    ratio = statistics.median(tuples / rows for tuples, rows in zip(took["tuples"], took["rows"], strict=True))
    report.add("rows / tuples, median of the rounds", f"{ratio:.2f}", "0.80", ratio >= 0.8)


def bench_results(report: Report, spark: Any, scale: float) -> None:
    """The keyed count of tuples and rows with a result for each record, beside two bare processes with tuples, in turn."""
    records = int(6 * _MILLION * scale)
    bare: list[float] = []
    rates: dict[str, list[float]] = {"tuples": [], "rows": []}
    for _ in range(3):
        bare.append(floor.tuples_with_results(records // 2))
        for shape, rounds in rates.items():
            rounds.append(records / keyed_count.seconds_with_results(records, shape))
    report.add("floor: two bare Python processes, a pipe, tuples with a result each", f"{median(bare):,.0f}/s")
    for (shape, rounds), goal in zip(rates.items(), (0.7, 0.5), strict=True):
        ratio = median([rate / limit for rate, limit in zip(rounds, bare, strict=True)])
        report.add(f"{shape} with a result each and checkpoints, from end to end", f"{median(rounds):,.0f}/s")
        report.add(f"{shape} / floor", f"{ratio:.2f}", f"{goal:.2f}", ratio >= goal)


def bench_start(report: Report, spark: Any, scale: float) -> None:
    """The first job of a script, and a further small one, beside plain Spark: the least of three runs each, in turn."""
    found = start.measure()
    plain, ours = found["plain"], found["flinkish"]
    report.add("plain Spark: session and first empty streaming query", f"{plain.first:.1f} s")
    report.add("plain Spark: a further empty streaming query", f"{plain.further:.2f} s")
    report.add("first job", f"{ours.first:.1f} s")
    report.add("first job / plain Spark", f"{ours.first / plain.first:.2f}", "1.00", ours.first <= plain.first)
    report.add("a further small job", f"{ours.further:.2f} s")
    report.add("a further job / plain Spark", f"{ours.further / plain.further:.2f}", "1.50", ours.further <= 1.5 * plain.further)


def bench_metrics(report: Report, spark: Any, scale: float) -> None:
    """The keyed count with Prometheus scraped and the log written each second, and latencies every 100 ms, beside none."""
    off, on = metrics.least_processor_seconds(int(2 * _MILLION * scale), rounds=5)
    report.add("keyed count, local: processor time without metrics / with all", f"{off / on:.3f}", "0.97", off / on >= 0.97)
    off, on, size = metrics.least_seconds("spark", int(6 * _MILLION * scale), rounds=4)
    report.add("keyed count, Spark: speed with all metrics / without", f"{off / on:.3f}", "0.97", off / on >= 0.97)
    report.add("the same: largest scrape", f"{size / 1000:.0f} KB")


def bench_credit(report: Report, spark: Any, scale: float) -> None:
    """The course of the credit: records that each reader may read in an epoch."""
    with epoch_times() as times:
        keyed_count.seconds("spark", int(10 * _MILLION * scale))
    report.add(f"keyed count on Spark, credit over {len(times.credits)} epochs", times.course())
    records = int(2 * _MILLION * scale)
    with tempfile.TemporaryDirectory() as folder:
        slow = slow_engine.run(records, target=1_000, fixed=1_200, interval=500, checkpoints=Path(folder))
    report.add(f"epochs of 1.2 s at least, checkpoints each 500 ms: credit over {len(slow.credits)} epochs", slow.course())
    rate = records / (slow.begun[-1] - slow.begun[0])
    report.add("the same: records", f"{rate:,.0f}/s", "50,000/s", rate >= 50_000)


def bench_epoch(report: Report, spark: Any, scale: float) -> None:
    """The smallest epoch: 100 records, one exchange."""
    with epoch_times() as times:
        env = environment("spark", settings={"execution.epoch.max-records": "50"})
        # The JVM compiles for some hundred epochs.
        keyed_count.build(env, int(100 * 400 * scale))
        env.execute("small epochs")
    took = median(times.durations_ms(int(150 * scale)))
    report.add("smallest epoch, median", f"{took:.0f} ms", "250 ms", took <= 250)


def bench_epoch_costs(report: Report, spark: Any, scale: float) -> None:
    """What an epoch of 100 records costs by slots and by levels: Spark's steps, and processor time by kind of process."""
    shapes = [(slots, 2) for slots in epoch_costs.SLOTS] + [(2, levels) for levels in epoch_costs.LEVELS if levels != 2]
    for slots, levels in shapes:
        cost = epoch_costs.cost(spark, slots, levels)
        parts = (
            ", ".join(f"{name} {took:.0f}" for name, took in sorted(each.items(), key=lambda item: -item[1]) if took >= 1)
            for each in (cost.steps, cost.processor)
        )
        report.add(f"{slots} slots, {levels} levels: epoch", f"{cost.epoch:.0f} ms")
        report.add("    of it, ms", next(parts))
        report.add("    processor time, ms", next(parts))


def bench_main_job(report: Report, spark: Any, scale: float) -> None:
    """Processor time of a flight in the main job, with a checkpoint every 5 s and with one at the end, in turn."""
    often, once = 5_000, 3_600_000
    main_job.microseconds_a_flight(once)  # warms the JVM up
    runs = [
        {interval: main_job.microseconds_a_flight(interval) for interval in order} for order in [(often, once), (once, often)] * 2
    ]
    cost, without = (
        {kind: median([run[interval][kind] for run in runs]) for kind in runs[0][often]} for interval in (often, once)
    )
    for kind, used in cost.items():
        if kind != "slot hosts":
            report.add(f"main job, a flight: {kind}", f"{used:.0f} us")
    report.add("main job, a flight: slot hosts", f"{cost['slot hosts']:.0f} us", "35 us", cost["slot hosts"] <= 35)
    whole, least = sum(cost.values()), sum(without.values())
    report.add("main job, a flight: all processes", f"{whole:.0f} us", "60 us", whole <= 60)
    share = 1 - least / whole
    report.add("main job: of it for a checkpoint every 5 s", f"{share:.1%}", "5 %", share <= 0.05)


def bench_idle(report: Report, spark: Any, scale: float) -> None:
    """A job that waits for files that do not come."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment("spark")
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
        watched = source.monitor_continuously(Duration.of_seconds(5)).build()
        lines = env.from_source(watched, WatermarkStrategy.no_watermarks(), "files")
        lines.key_by(len, key_type=Types.INT()).map(len, Types.INT()).sink_to(DiscardingSink())
        client = env.execute_async("idle")
        threading.Event().wait(15)
        before, started = cpu_seconds(), time.perf_counter()
        threading.Event().wait(max(95 * scale, 10))
        used = (cpu_seconds() - before) / (time.perf_counter() - started)
        client.cancel().result()
    report.add("idle job, of one core", f"{used:.1%}", "3 %", used <= 0.03)


def _state_epoch(fill: int, epochs: int) -> float:
    with epoch_times() as times:
        env = environment("spark", settings={"execution.epoch.poll-interval": "1 ms"})
        source = PhasedSource(fill=fill, small=500, end=fill + 1_000 * epochs)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "phases", Types.LONG())
        keyed = numbers.key_by(lambda value: value % max(fill, 1_000), key_type=Types.LONG())
        keyed.process(CountPerKey(), Types.LONG()).sink_to(DiscardingSink())
        env.execute("state")
    return median(times.durations_ms(epochs * 2 // 3))


def bench_state(report: Report, spark: Any, scale: float) -> None:
    """State of a million keys."""
    epochs = int(45 * scale) + 5
    empty = _state_epoch(0, epochs)
    full = _state_epoch(int(_MILLION * scale), epochs)
    report.add("epoch that touches 1,000 keys, of none stored", f"{empty:.0f} ms")
    report.add("epoch that touches 1,000 keys, of a million stored", f"{full:.0f} ms")
    report.add("full / empty", f"{full / empty:.2f}", "1.50", full / empty <= 1.5)


def bench_backends(report: Report, spark: Any, scale: float) -> None:
    """Random keys of a large state, on the heap and on disk; with --scale 4, the cache is a tenth of the state."""
    many, few, updates = int(5 * _MILLION * scale), 100_000, 200_000
    heap, disk = (backends.epoch_ms(backend, many, updates) for backend in ("hashmap", "rocksdb"))
    report.add(f"updates of {many:,} keys, hashmap", f"{updates / heap * 1000:,.0f}/s")
    report.add(f"updates of {many:,} keys, rocksdb", f"{updates / disk * 1000:,.0f}/s", "150,000/s", updates / disk > 150)
    report.add("rocksdb / hashmap", f"{heap / disk:.2f}")
    small, large = (backends.epoch_ms("rocksdb", keys, 10_000) for keys in (few, many))
    report.add(f"epoch that touches 10,000 keys on disk, of {few:,}", f"{small:.0f} ms")
    report.add(f"epoch that touches 10,000 keys on disk, of {many:,}", f"{large:.0f} ms")
    report.add("large / small", f"{large / small:.2f}", "2.00", large / small <= 2)
    longest, usual = backends.reopening_ms(many)
    what = f"a slot host with half of {many:,} keys on disk is killed: longest epoch"
    report.add(what, f"{longest:.0f} ms, median {usual:.0f}", "2,000 ms", longest <= 2_000)


def bench_large_state(report: Report, spark: Any, scale: float) -> None:
    """Memory of a large state on disk, and what an epoch costs with it; with --scale 5, of 100 million keys."""
    keys, few, updates = int(20 * _MILLION * scale), 100_000, 10_000
    small = backends.epoch_ms("rocksdb", few, updates, "512 mb")
    peak = MemoryPeak()
    peak.start()
    started = time.perf_counter()
    large = backends.epoch_ms("rocksdb", keys, updates, "512 mb")
    most = peak.stop()["slot hosts"]
    report.add(f"resident memory of slot hosts with {keys:,} keys on disk", f"{most:,.0f} MB", "4,096 MB", most <= 4_096)
    report.add("its records/s, with the start of the job", f"{keys / (time.perf_counter() - started):,.0f}")
    report.add(f"epoch that touches {updates:,} keys, / of {few:,} keys", f"{large / small:.2f}", "2.00", large / small <= 2)


def _count_million(records: int, checkpoints: Path | None) -> float:
    settings = {}
    if checkpoints is not None:
        settings = {"execution.checkpointing.interval": "10 s", "execution.checkpointing.dir": str(checkpoints)}
    env = environment("spark", settings=settings)
    numbers = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers")
    keyed = numbers.key_by(lambda value: value % _MILLION, key_type=Types.LONG())
    keyed.process(CountPerKey(), Types.LONG()).sink_to(DiscardingSink())
    started = time.perf_counter()
    env.execute("checkpoints")
    return time.perf_counter() - started


def bench_checkpoints(report: Report, spark: Any, scale: float) -> None:
    """What a checkpoint of a million keys every 10 s costs."""
    records = int(24 * _MILLION * scale)
    without = _count_million(records, None)
    with tempfile.TemporaryDirectory() as folder:
        with_checkpoints = _count_million(records, Path(folder))
    cost = with_checkpoints / without - 1
    report.add("throughput without checkpoints, a million keys", f"{records / without:,.0f}/s")
    report.add("a checkpoint every 10 s costs", f"{cost:.1%}", "15 %", cost <= 0.15)
    for values in checkpoints.VALUES:
        _incremental(report, values, int(_MILLION * scale), int(60 * scale) + 10)


def _incremental(report: Report, values: str, keys: int, epochs: int) -> None:
    """Compare checkpoints each second, full and incremental, and none, of keys of which a hundredth changes."""
    each_second = {"execution.checkpointing.interval": "1 s"}
    incremental = {**each_second, "execution.checkpointing.incremental": "true"}
    # In turn, so that a slow minute of the machine slows all of them.
    runs = [[checkpoints.run(values, keys, epochs, settings) for settings in ({}, incremental, each_second)] for _ in range(2)]
    none, changed, full = (min(each, key=lambda run: run.epoch_ms) for each in zip(*runs, strict=True))
    what = f"{keys:,} keys, {values}: incremental checkpoint"
    size, took = changed.written / full.written, changed.work_ms / full.work_ms
    cost = changed.epoch_ms / none.epoch_ms - 1
    report.add(f"{what} / full one, bytes", f"{size:.3f}", "0.1", size <= 0.1)
    report.add(f"{what} / full one, time of the slowest subtask", f"{took:.2f}", "0.1", took <= 0.1)
    durations = f"{changed.duration_ms:.0f} ms, {full.duration_ms:.0f} ms"
    report.add(f"{what}, full one: from trigger to end, with the epoch of the barrier", durations)
    report.add(f"{what}, stop of a task", f"{changed.sync_ms:.0f} ms")
    report.add(f"{what} each second, longest epoch", f"{changed.longest:.2f} medians", "1.5", changed.longest <= 1.5)
    report.add(f"{what} each second costs", f"{cost:.1%}", "5 %", cost <= 0.05)


def bench_large_checkpoints(report: Report, spark: Any, scale: float) -> None:
    """Ten million keys of which a hundredth changes, an incremental checkpoint every 10 s or none: the best of three runs."""
    keys, epochs = int(10 * _MILLION * scale), int(300 * scale) + 10
    every = {"execution.checkpointing.interval": "10 s", "execution.checkpointing.incremental": "true"}
    # In turn, so that a slow minute of the machine slows both.
    runs = [[checkpoints.run("longs", keys, epochs, settings) for settings in ({}, every)] for _ in range(3)]
    none, changed = (min(each, key=lambda run: run.epoch_ms) for each in zip(*runs, strict=True))
    cost = changed.epoch_ms / none.epoch_ms - 1
    report.add(f"{keys:,} keys: an incremental checkpoint every 10 s costs", f"{cost:.1%}", "5 %", cost <= 0.05)
    without, longest = (", ".join(f"{run.longest:.2f}" for run in each) for each in zip(*runs, strict=True))
    report.add("the longest epoch of each run, in medians", f"{longest}; without checkpoints {without}")


def bench_guarantees(report: Report, spark: Any, scale: float) -> None:
    """The keyed count without a guarantee, with barriers, and with an acknowledgement for each record as in Storm."""
    records = int(10 * _MILLION * scale)
    done = collect(guarantees.acknowledged(environment("local"), 1_000))
    assert sorted(done) == list(range(1_000)), "the acker has not seen all records"
    took = dict.fromkeys(guarantees.GUARANTEES, math.inf)
    for _ in range(2):  # in turn, so that a slow minute of the machine slows all of them
        for guarantee, least in took.items():
            took[guarantee] = min(least, guarantees.seconds("spark", records, guarantee))
    none = took["none"]
    for guarantee, least in took.items():
        report.add(f"keyed count on Spark, guarantee: {guarantee}", f"{records / least:,.0f}/s: {none / least:.2f}")


def bench_stores(report: Report, spark: Any, scale: float) -> None:
    """What a checkpoint costs in S3 (moto, on this machine) beside a folder: one small state file, committed and cleaned."""
    checkpoints = int(30 * scale) + 5
    with tempfile.TemporaryDirectory() as folder:
        local = stores.milliseconds(folder, checkpoints)
    report.add("a checkpoint in a folder", f"{local:.0f} ms")
    report.add("a checkpoint in S3", f"{stores.in_s3(checkpoints):.0f} ms")
    report.add("requests for it", f"{stores.requests(checkpoints):.0f}")


def bench_windows(report: Report, spark: Any, scale: float) -> None:
    """Windows and joins, parallelism 2, 100,000 keys."""
    for name, program in windows.BENCHED.items():
        for way, settings in windows.ways(name).items():
            rate = windows.after_warm_up(program, int(_MILLION * scale), int(6 * _MILLION * scale), settings)
            goal = windows.GOALS.get(way)
            report.add(f"{way} on Spark", f"{rate:,.0f}/s", f"{goal:,}/s" if goal else "", rate >= goal if goal else None)
            local = windows.end_to_end(program, int(2 * _MILLION * scale), settings)
            report.add(f"{way} on the local engine", f"{local:,.0f}/s")


def bench_columns(report: Report, spark: Any, scale: float) -> None:
    """Rows of (long, double, long) with 100,000 keys as columns and as records, beside Spark's own queries on as many rows."""
    for name in columns.PROGRAMS:
        fast = columns.rate(name, int(10 * _MILLION * scale), int(70 * _MILLION * scale), columns=True)
        slow = columns.rate(name, int(_MILLION * scale), int(4 * _MILLION * scale), columns=False)
        goal = columns.GOALS.get(name)
        report.add(f"{name}, columns", f"{fast:,.0f}/s", f"{goal:,}/s" if goal else "", fast >= goal if goal else None)
        report.add(f"{name}, records", f"{slow:,.0f}/s, columns {fast / slow:.1f} times")
        if name in columns.SPARK:
            own = plain_spark.run(columns.spark_rate, name, int(4 * _MILLION * scale))
            times = columns.SPARK_GOALS.get(name, 1)
            text = f"{own:,.0f}/s, columns {fast / own:.1f} times"
            report.add(f"{name}, Spark itself", text, f"{times} times", fast >= times * own)


def bench_files(report: Report, spark: Any, scale: float) -> None:
    """Files -> filter -> select -> Delta or files, a checkpoint every 10 s."""
    rates = columns_of_files.rates("Parquet to Delta", scale)
    for way, rate in rates.items():
        goal = {"columns": 2_000_000}.get(way)
        report.add(f"Parquet to Delta, {way}", f"{rate:,.0f}/s", f"{goal:,}/s" if goal else "", rate >= goal if goal else None)
    ratio = rates["columns"] / rates["Spark itself"]
    report.add("Parquet to Delta, columns against Spark itself", f"{ratio:.1f} times", "1 time", ratio >= 1)
    for job in ("Parquet to Delta by partitions", "CSV to JSON lines", "JSON lines to JSON lines"):
        rates = columns_of_files.rates(job, scale / 4)
        report.add(f"{job}, columns", f"{rates['columns']:,.0f}/s, {rates['columns'] / rates['records']:.1f} times records")


def bench_pyflink(report: Report, spark: Any, scale: float) -> None:
    """The same programs on PyFlink, from end to end, if PYFLINK_PYTHON names its Python; sliding windows go window by window."""
    if peer.python() is None:
        report.add("PyFlink", "PYFLINK_PYTHON not set")
        return
    _compare(report, "count", "process", int(300_000 * scale), 20)
    _compare(report, "count", "thread", int(1_000_000 * scale), 5)
    for name in windows.BENCHED:
        if name in PROGRAMS:
            _compare(report, name, "process", int(windows.PEER_RECORDS[name] * scale), windows.PEER_GOAL)


def bench_kafka_json(report: Report, spark: Any, scale: float) -> None:
    """JSON messages of 150 bytes, 4 partitions, counted by user: the best of two runs.

    There are eight million in windows, so that the shortest run has a checkpoint, and half as many with a result for each.
    """
    with tempfile.TemporaryDirectory() as folder, own_broker(Path(folder) / "broker") as broker:

        def rates(millions: int, *names: str) -> list[float]:
            messages = int(millions * _MILLION * scale)
            topic = kafka.fill(broker, messages, kafka_json.message)
            runs = [[kafka.run_json(broker, name, topic) for name in names] for _ in range(2)]
            return [max(0.0 if took is None else messages / took.seconds for took in each) for each in zip(*runs, strict=True)]

        columns, records, plain = rates(8, "windows", "windows-records", "windows-spark")
        each, each_by_columns = rates(4, "each", "each-columns")
        report.add("windows by key, columns, exactly once", f"{columns:,.0f}/s", "300,000/s", columns >= 300_000)
        report.add("the same, records", f"{records:,.0f}/s")
        report.add("Spark's own, at least once", f"{plain:,.0f}/s")
        report.add("columns / Spark's own", f"{_ratio(columns, plain):.1f}", "3", columns >= 3 * plain > 0)
        report.add("JSON in, keyed count, JSON out for each message, records", f"{each:,.0f}/s", "150,000/s", each >= 150_000)
        report.add("the same, columns", f"{each_by_columns:,.0f}/s")


def bench_kafka(report: Report, spark: Any, scale: float) -> None:
    """A million messages of 100 bytes, 4 partitions: read, copied, counted by key into another topic; the best of two runs.

    Runs of two programs that are compared take turns, so that what else the machine does falls on both.
    """
    messages = int(_MILLION * scale)
    with tempfile.TemporaryDirectory() as folder, own_broker(Path(folder) / "broker") as broker:
        topic = kafka.fill(broker, messages)

        def compared(*programs: Callable[[], kafka.Took | None]) -> list[float]:
            """Return the best rate of each program, and print the processor time that it took."""
            runs = [[program() for program in programs] for _ in range(2)]
            best = [
                min((took for took in each if took is not None), key=lambda took: took.seconds, default=None)
                for each in zip(*runs, strict=True)
            ]
            print("    processor seconds:", *("failed" if took is None else f"{took.cpu:.1f}" for took in best), flush=True)
            return [0.0 if took is None else messages / took.seconds for took in best]

        def program(name: str, **more: Any) -> Callable[[], kafka.Took | None]:
            return lambda: kafka.run(broker, name, topic, **more)

        (alone,) = compared(program("source"))
        report.add("source alone, local engine", f"{alone:,.0f}/s", "400,000/s", alone >= 400_000)
        at_least, exactly = compared(program("copy"), program("copy", guarantee="EXACTLY_ONCE"))
        report.add("copy to another topic, at least once", f"{at_least:,.0f}/s")
        report.add("exactly once / at least once", f"{_ratio(exactly, at_least):.2f}", "0.50", exactly >= 0.5 * at_least)
        local, on_spark = compared(program("count"), program("count", engine="spark"))
        report.add("count by key into another topic, local engine", f"{local:,.0f}/s")
        report.add("the same on Spark, with its start", f"{on_spark:,.0f}/s")
        stream, batch = compared(*(partial(kafka.run_spark, broker, name, topic) for name in ("stream", "batch")))
        report.add("plain Spark, groupBy().count(), a count for each key and batch", f"{stream:,.0f}/s")
        report.add("plain Spark, foreachBatch, each batch by itself", f"{batch:,.0f}/s")
        if kafka.QUIX not in os.environ:
            report.add("Quix Streams", f"{kafka.QUIX} not set")
        else:
            local, theirs = compared(program("count"), partial(kafka.run_quix, broker, topic, messages))
            report.add("the same on Quix Streams", f"{theirs:,.0f}/s")
            report.add("flinkish (local) / Quix Streams", f"{_ratio(local, theirs):.1f}")
        if peer.python() is None or kafka.JAR not in os.environ:
            report.add("PyFlink", f"PYFLINK_PYTHON or {kafka.JAR} not set")
            return
        # A tenth of the messages, of which PyFlink counts some thousand a second; our rate, too, is with the start of the job.
        messages //= 10
        topic = kafka.fill(broker, messages)
        local, theirs = compared(program("count"), program("count", pyflink=True))
        report.add(f"{messages:,} messages, local engine", f"{local:,.0f}/s")
        report.add("the same on PyFlink, process mode", f"{theirs:,.0f}/s")
        report.add("flinkish (local) / PyFlink", f"{_ratio(local, theirs):.1f}", "20", local >= 20 * theirs > 0)


def _ratio(ours: float, theirs: float) -> float:
    """Return how many times as fast ours is; nan if theirs failed."""
    return ours / theirs if theirs else math.nan


def _compare(report: Report, name: str, mode: str, records: int, goal: int) -> None:
    ours = seconds(PROGRAMS[name], records, {"execution.engine": "spark"})
    theirs = peer.seconds(name, records, mode)
    what = f"{name}, {records:,} records: flinkish / PyFlink {mode} mode"
    if theirs is None:
        report.add(what, "PyFlink failed")
    else:
        report.add(what, f"{ours:.1f} s / {theirs:.1f} s: {theirs / ours:.0f}", str(goal), theirs / ours >= goal)


def bench_server(report: Report, spark: Any, scale: float) -> None:
    """What 50 pages that show a running keyed count cost it: each asks for all that it shows every 3 s."""
    cost = server.measure("spark", 30 * scale)
    cores = psutil.cpu_count() or 1
    share = cost.server / (30 * scale) / cores
    report.add("50 pages: requests answered", f"{cost.requests:,}")
    report.add("50 pages: processor time for each", f"{1000 * cost.server / max(cost.requests, 1):.2f} ms")
    report.add(f"50 pages: of the machine's {cores} cores", f"{share:.1%}", "2 %", share <= 0.02)
    ratio = cost.with_clients / cost.without
    report.add("keyed count with / without 50 pages, which run on the same machine", f"{ratio:.2f}")


_BENCHES: dict[str, Callable[[Report, Any, float], None]] = {
    "count": bench_keyed_count,
    "data-frames": bench_data_frames,
    "keys": bench_keys,
    "sum": bench_sum,
    "slow": bench_slow,
    "shapes": bench_shapes,
    "results": bench_results,
    "start": bench_start,
    "metrics": bench_metrics,
    "credit": bench_credit,
    "epoch": bench_epoch,
    "epoch-costs": bench_epoch_costs,
    "main-job": bench_main_job,
    "idle": bench_idle,
    "state": bench_state,
    "backends": bench_backends,
    "large-state": bench_large_state,
    "checkpoints": bench_checkpoints,
    "large-checkpoints": bench_large_checkpoints,
    "guarantees": bench_guarantees,
    "stores": bench_stores,
    "windows": bench_windows,
    "columns": bench_columns,
    "files": bench_files,
    "pyflink": bench_pyflink,
    "kafka": bench_kafka,
    "kafka-json": bench_kafka_json,
    "server": bench_server,
}


def main() -> None:
    """Run the benchmarks in one Spark session and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=list(_BENCHES), help="run this one; may be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of records, for a quick look")
    arguments = parser.parse_args()
    report = Report()
    held = hold_session(SparkSettings.of(None))
    print(f"{psutil.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; figures are of this run only", flush=True)
    try:
        keyed_count.seconds("spark", 100_000)  # warms the JVM up
        for name in arguments.only or _BENCHES:
            print(f"{name}: {(_BENCHES[name].__doc__ or '').strip()}", flush=True)
            _BENCHES[name](report, held.session, arguments.scale)
            report.section()
    finally:
        release_session(held)
    Console().print(report.table)


if __name__ == "__main__":
    main()
