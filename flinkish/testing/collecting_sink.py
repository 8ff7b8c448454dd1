"""A sink that passes records to the test: written records at once, and committed records with checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.common import pickling
from flinkish.common.configuration import Configuration
from flinkish.common.ids import random_id
from flinkish.common.typeinfo import Types
from flinkish.datastream.state import ListStateDescriptor
from flinkish.program.sinks import CommitRequest, Committer, Sink, SinkWriter, SinkWriterContext, WriteContext
from flinkish.runtime.protocol import DriverValues
from flinkish.testing.results import StreamRecord, assert_records_equal

__all__ = ["CollectingSink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Records that become committed when their checkpoint is complete."""

    #: A unique name, by which a commit that is repeated after a crash is recognized.
    name: str
    records: bytes


class CollectingSink(Sink[Any, Prepared]):
    """A sink made by `JobHarness.sink`: pass it to `sink_to`; it collects the output for the test.

    It has two views of the output. `take_output` shows what a sink without transactions would write: a job that goes back to a
    checkpoint writes some records again. `committed` shows what a sink with two-phase commit would write: each record once.
    Records of one subtask are in its order.
    """

    committable_type = Prepared

    def __init__(self, name: str, settle: Callable[[], object] = lambda: None) -> None:
        self.name = name
        self._settle = settle
        self._written: list[StreamRecord] = []
        self._committed: list[StreamRecord] = []
        self._known: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        # The collected records stay in the test's process.
        return CollectingSink, (self.name,)

    def take_output(self) -> list[StreamRecord]:
        """Return the records written since the last call, with event times; pending records of sources are processed first."""
        self._settle()
        written, self._written = self._written, []
        return written

    def take_values(self) -> list[Any]:
        """Return the records written since the last call, without event times."""
        return [record.value for record in self.take_output()]

    def committed(self) -> list[StreamRecord]:
        """Return all committed records, with event times; pending records of sources are processed first."""
        self._settle()
        return list(self._committed)

    def committed_values(self) -> list[Any]:
        """Return all committed records, without event times."""
        return [record.value for record in self.committed()]

    def assert_output(self, *values: Any, ordered: bool = False) -> None:
        """Raise AssertionError unless these values, or StreamRecords, were written since outputs were taken last."""
        self._compare(self.take_output(), values, ordered)

    def assert_committed(self, *values: Any, ordered: bool = False) -> None:
        """Raise AssertionError unless these values, or StreamRecords, are all that has been committed."""
        self._compare(self.committed(), values, ordered)

    def _compare(self, records: list[StreamRecord], expected: Sequence[Any], ordered: bool) -> None:
        actual: list[Any] = list(records)
        if not any(isinstance(value, StreamRecord) for value in expected):
            actual = [record.value for record in records]
        assert_records_equal(actual, expected, ordered=ordered, what=f"sink {self.name!r}")

    @property
    def destination(self) -> str:
        """The destination on the driver to which writers send their records."""
        return f"flinkish.testing:{self.name}"

    def take(self, sent: DriverValues) -> None:
        """Take the records that a writer sent; called in the job's thread."""
        self._written.extend(StreamRecord(*record) for record in sent.values)

    def commit(self, prepared: Prepared) -> None:
        """Make a writer's prepared records visible, unless they already are."""
        if prepared.name not in self._known:
            self._known.add(prepared.name)
            self._committed.extend(StreamRecord(*record) for record in pickling.loads(prepared.records))

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, Prepared]:
        return _Writer(context, self.destination)

    def create_committer(self, configuration: Configuration) -> Committer[Prepared]:
        return _Committer(self)


class _Writer(SinkWriter[Any, Prepared]):
    def __init__(self, context: SinkWriterContext, destination: str) -> None:
        self._context = context
        self._destination = destination
        self._state = context.get_list_state(ListStateDescriptor("records", Types.PICKLED_BYTE_ARRAY()))
        self._records: list[tuple[Any, int | None]] = []
        self._prepared: list[Prepared] = []

    def write(self, value: Any, context: WriteContext) -> None:
        self._records.append((value, context.timestamp))

    def end_epoch(self) -> None:
        self._send()
        if self._records:
            self._state.add_all(self._records)
            self._records = []

    def _send(self) -> None:
        if self._records:
            self._context.emit_to_driver(self._destination, self._records)

    def flush(self, end_of_input: bool) -> None:
        self._send()
        records = [*self._state.get(), *self._records]
        if records:
            name = f"{self._context.subtask_index}-{random_id()}"
            self._prepared.append(Prepared(name=name, records=pickling.dumps(records)))
        self._state.clear()
        self._records = []

    def prepare_commit(self) -> Sequence[Prepared]:
        prepared, self._prepared = self._prepared, []
        return prepared


class _Committer(Committer[Prepared]):
    def __init__(self, sink: CollectingSink) -> None:
        self._sink = sink

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[Prepared]]) -> None:
        for request in requests:
            self._sink.commit(request.committable)
