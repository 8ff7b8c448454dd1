"""The streaming query of a job: its plan, the callback that passes each micro-batch to the attempt, and the slots' partitions."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout

from flinkish.engine.slots.hosts import HostConfig
from flinkish.engine.spark import shim
from flinkish.engine.spark.groups import COLUMNS, SCHEMA, STATE_SCHEMA, OnGroups
from flinkish.engine.spark.native import NativeInput
from flinkish.runtime.protocol import EpochCommand

#: Pauses between two checks for input of native sources: they double from the first to the longest one.
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.05, 1.0
#: A command above this size is sent as a file, because a property of 20 MB takes 0.3 s.
_LARGEST_PROPERTY = 256 << 10
_MASK = 0xFFFFFFFF
#: Spark's seed of `hash()` and of hash partitioning.
_SEED = 42


def build(
    session: SparkSession,
    config: HostConfig,
    levels: int,
    inputs: Sequence[NativeInput] = (),
    *,
    in_place: bool = False,
    idle: bool = False,
) -> DataFrame:
    """Return the streaming rows: level 0 on a tick source with one row per slot, then a stateful operator per level.

    The rows of native inputs are united with those for level 1. With `idle` the slots do nothing, so their state is empty.
    With `in_place` level 0 is a stateful operator, too: Spark prefers the executor that a partition of such an operator ran on
    before, but gives the partitions of a source to any executor, in each epoch to another one. That costs a shuffle of the ticks,
    and saves that readers are closed and opened again all the time.

    After each operator there is a projection of the slot column that the optimizer does not remove, because the operator returns
    columnar rows, which Spark 4.2 cannot shuffle directly (ClassCastException).
    """
    slots = len(config.slot_values)
    ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", slots).option("numPartitions", slots).load()
    if in_place:
        # The values of a batch are consecutive.
        values = ", ".join(map(str, config.slot_values))
        placed = ticks.selectExpr(f"element_at(array({values}), cast(value % {slots} as int) + 1) AS slot")
        function = shim.nothing_in_place if idle else shim.level_zero_in_place(config, levels)
        rows = _stateful(placed, function)
    else:
        rows = ticks.mapInArrow(shim.no_rows if idle else shim.level_zero(config, levels), SCHEMA)
    for native in inputs:
        # mapInArrow looks up the columns by name, which fails for names with backticks, and for `a` beside `A`.
        plain = native.frame.toDF(*[f"c{index}" for index in range(len(native.frame.columns))])
        rows = rows.union(plain.mapInArrow(shim.native_reader(config, native.edge, native.targets), SCHEMA))
    for level in range(1, levels):
        rows = _stateful(rows, shim.level_above(config, level))
    return rows


def _stateful(rows: DataFrame, function: OnGroups) -> DataFrame:
    result = rows.groupBy("slot").applyInPandasWithState(function, SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.NoTimeout)
    return result.selectExpr("slot & 2147483647 AS slot", *COLUMNS[1:])


@dataclass(frozen=True, slots=True)
class Ready:
    """A micro-batch waits for a command in foreachBatch."""

    batch_id: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that slots sent to the driver: level, kind (`shim.REPORT` or `shim.DEFECT`) and body of each."""

    rows: list[tuple[int, int, bytes]]


@dataclass(frozen=True, slots=True)
class ActionFailed:
    """The action ended with an error; the callback waits, to be released without another action."""

    error: Exception


#: The work that a waiting micro-batch is given: command, description.
_Order = tuple[bytes, str]
Event = Ready | Rows | ActionFailed


class Turnstile:
    """The foreachBatch callback. It runs in Spark's stream thread and does only what must be done there.

    For each micro-batch it announces `Ready`, waits for a command, runs ONE action, and announces `Rows`. It never raises an
    exception, because Spark would print it with a thousand lines of traces.
    """

    def __init__(self, command_folder: Path | None) -> None:
        """Create one that puts large commands into a folder; None = there is none that executors can access."""
        #: Tells whether input has arrived, and whom to tell, while a micro-batch waits; set if the query has native inputs.
        self.look: tuple[Callable[[], bool], Callable[[], None]] | None = None
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._folder = command_folder

    def send(self, command: bytes, description: str) -> None:
        """Let the waiting micro-batch run with this command; Spark's UI shows its jobs and stages with the description."""
        self._orders.put((command, description))

    def release(self) -> None:
        """Let the callback return without an action; only allowed when the query is no longer active."""
        self._orders.put(None)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.events.put(Ready(batch_id))
        order = self._order()
        if order is None:
            return
        try:
            self.events.put(self._run(rows, batch_id, order))
        except Exception as error:
            self.events.put(ActionFailed(error))
            while self._orders.get() is not None:
                pass

    def _order(self) -> _Order | None:
        """Wait for an order, and look for input meanwhile: Spark has fixed what this batch reads, so the next one has to run."""
        pause = _FIRST_LOOK_S
        while True:
            try:
                return self._orders.get(timeout=pause)
            except queue.Empty:
                look = self.look
                if look is not None and look[0]():
                    look[1]()
                    return self._orders.get()
                pause = min(2 * pause, _LONGEST_LOOK_S)

    def _run(self, rows: DataFrame, batch_id: int, order: _Order) -> Rows:
        context: Any = rows.sparkSession.sparkContext
        command, description = order
        context.setJobDescription(description)
        if len(command) <= _LARGEST_PROPERTY or self._folder is None:
            context.setLocalProperty(shim.COMMAND_PROPERTY, shim.encode_command(command))
            return _collect(rows, description)
        path = self._folder / f"command-{batch_id}"
        path.write_bytes(command)
        context.setLocalProperty(shim.COMMAND_PROPERTY, shim.encode_command_file(str(path)))
        try:
            return _collect(rows, description)
        finally:
            path.unlink(missing_ok=True)


def describe(job_name: str, command: EpochCommand) -> str:
    """Return what Spark's UI calls the jobs and stages of an epoch."""
    extra = f", checkpoint {command.barrier.checkpoint_id}" if command.barrier is not None else ""
    return (
        f"{job_name}: epoch {command.epoch} of attempt {command.attempt_number}{extra}{', the last' if command.farewell else ''}"
    )


def _collect(rows: DataFrame, description: str) -> Rows:
    pieces: dict[tuple[int, int, int], list[tuple[int, bytes]]] = {}
    # Not collect(): Spark would read the byte code of two of its largest classes in each call, and pickle bytes one by one.
    table = rows.toArrow()
    # toArrow() has removed this property. Without it, Spark walks the stack for each RDD that it makes until the next call.
    rows.sparkSession.sparkContext.setLocalProperty("callSite.short", description)
    for slot, _, level, piece, kind, body in zip(*[column.to_pylist() for column in table.columns], strict=True):
        pieces.setdefault((slot, level, kind), []).append((piece, body))
    return Rows([(level, kind, _joined(parts)) for (_, level, kind), parts in pieces.items()])


def _joined(parts: list[tuple[int, bytes]]) -> bytes:
    return parts[0][1] if len(parts) == 1 else b"".join(body for _, body in sorted(parts))


def slot_values(slots: int) -> tuple[int, ...]:
    """Return for each slot index the smallest int >= 0 that Spark's `pmod(hash(int), slots)` sends to that partition.

    So every slot has its own partition. The values are below 2**31, so the projection `slot & 2147483647` does not change them.
    """
    if slots < 1:
        raise ValueError(f"slots must be at least 1; got {slots}")
    found: dict[int, int] = {}
    value = 0
    while len(found) < slots:
        found.setdefault(spark_hash(value) % slots, value)
        value += 1
    return tuple(found[slot] for slot in range(slots))


def spark_hash(value: int) -> int:
    """Return what Spark SQL's `hash(CAST(value AS INT))` returns: Murmur3 x86 32 bit of the four bytes, as a signed int.

    Source of the rule: Spark's catalyst expression Murmur3Hash; a Spark test compares both.
    """
    k = _rotate((value & _MASK) * 0xCC9E2D51, 15) * 0x1B873593 & _MASK
    h = (_rotate(_SEED ^ k, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4  # length in bytes
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def _rotate(word: int, bits: int) -> int:
    word &= _MASK
    return ((word << bits) | (word >> (32 - bits))) & _MASK
