"""A source that is read by the engine, and an engine in this process that reads it, one batch after the other, as Spark does."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from flinkish.common.clock import SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.ids import random_id
from flinkish.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flinkish.datastream.connectors.data_frame import decoder
from flinkish.engine.local.engine import LocalEngine
from flinkish.engine.slots.in_process import run_levels
from flinkish.jobmaster.epochs import EpochLoop, NativePosition
from flinkish.program.operators import SourceConfig
from flinkish.program.sources import NativeSource, SourceReaderContext
from flinkish.runtime.protocol import Frame, TaskProgram, native_edge
from flinkish.runtime.slot import SlotTask

ROWS = Types.ROW_NAMED(["key", "time"], [Types.STRING(), Types.LONG()])


class Batches(NativeSource[Any]):
    """Batches of partitions of rows; the position is the number of batches that were read."""

    why_records = None

    def __init__(self, *batches: Sequence[Sequence[tuple[str, int]]], schema: str = "key, time") -> None:
        self.batches = batches
        self._schema = schema

    @property
    def frame(self) -> Any:
        return self.batches

    @property
    def schema(self) -> str:
        return self._schema

    def create_decoder(self, context: SourceReaderContext, *, by_columns: bool = False) -> Callable[[bytes], Iterable[Any]]:
        return decoder(ROWS, as_tuples=False, by_columns=by_columns)

    def produced_type(self) -> TypeInformation:
        return ROWS


def body(rows: Sequence[Sequence[Any]], row_type: RowTypeInfo = ROWS, schema: pa.Schema | None = None) -> bytes:
    """Return rows as Arrow's stream format."""
    table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], row_type.field_names)
    if schema is not None:
        table = table.cast(schema)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


class NativeEngine(LocalEngine):
    """Reads one batch of each `Batches` in an epoch, partition i in subtask i.

    `starts` notes from where each attempt read.
    """

    def __init__(self, *, spare_epochs: int = 3) -> None:
        super().__init__(Configuration(), clock=SystemClock(), ids=random_id)
        self.starts: list[Mapping[str, int]] = []
        #: Called when nothing new has come for `spare_epochs`.
        self.stop: Callable[[], object] = lambda: None
        self._spare_epochs = spare_epochs

    def run_attempt(self, program: TaskProgram, loop: EpochLoop) -> None:
        plan = program.plan
        vertices = [
            vertex
            for vertex in plan.job_graph.vertices.values()
            if isinstance(vertex.head.operator, SourceConfig) and isinstance(vertex.head.operator.source, NativeSource)
        ]
        starts = {uid: int(start.offsets[0] or 0) for uid, start in loop.native_starts().items()}
        self.starts.append({str(uid): start for uid, start in starts.items()})
        read = {vertex.head.uid: starts.get(vertex.head.uid, 0) for vertex in vertices}
        slots = [SlotTask(program, slot) for slot in range(plan.slots)]
        states: dict[tuple[int, int], bytes] = {}
        spare = self._spare_epochs
        while True:
            frames: list[Frame] = []
            for vertex in vertices:
                operator = vertex.head.operator
                assert isinstance(operator, SourceConfig)
                assert isinstance(operator.source, NativeSource)
                batches = operator.source.frame
                uid = vertex.head.uid
                if read[uid] < len(batches):
                    for partition, rows in enumerate(batches[read[uid]]):
                        slot = plan.slot_of(vertex.id, partition % vertex.parallelism)
                        if rows:
                            frames.append(Frame(slot, 1, native_edge(vertex.id), partition, 0, body(rows)))
                    read[uid] += 1
            if not frames:
                spare -= 1
                loop.native_arrived()
            if spare == 0:
                self.stop()
            loop.native_reads(
                {uid: NativePosition(offsets=(str(count),), files=lambda: {"0/log": b"seen"}) for uid, count in read.items()}
            )
            command = loop.begin_epoch()
            if command is None:
                return
            levels = range(len(plan.levels))
            loop.finish_epoch([result.report for result in run_levels(slots, levels, command, states, frames=frames)])
