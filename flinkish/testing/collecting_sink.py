"""A sink that hands everything to the test: at once what is written, and with checkpoints what is committed."""

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
from flinkish.testing.records import StreamRecord, assert_records_equal

__all__ = ["CollectingSink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Records that count once their checkpoint is complete."""

    #: Unique: a commit that is repeated after a crash is recognized by it.
    name: str
    records: bytes


class CollectingSink(Sink[Any, Prepared]):
    """A sink made by `JobHarness.sink`: goes into `sink_to`, and holds for the test what came out.

    Two views: what was written, as a sink without transactions shows it, so that a job that goes back to a checkpoint writes some
    records again; and what was committed by two-phase commit, each record once. Records of one subtask come in its order.
    """

    def __init__(self, name: str, settle: Callable[[], object] = lambda: None) -> None:
        self.name = name
        self._settle = settle
        self._written: list[StreamRecord] = []
        self._committed: list[StreamRecord] = []
        self._known: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        # What was collected stays in the test's process.
        return CollectingSink, (self.name,)

    # -- the test ------------------------------------------------------------------------------------------------------------

    def take_output(self) -> list[StreamRecord]:
        """Return what was written since it was taken last, with event times; what the sources gave is handled first."""
        self._settle()
        written, self._written = self._written, []
        return written

    def take_values(self) -> list[Any]:
        """Return what was written since it was taken last, without event times."""
        return [record.value for record in self.take_output()]

    def committed(self) -> list[StreamRecord]:
        """Return all that has been committed, with event times; what the sources gave is handled first."""
        self._settle()
        return list(self._committed)

    def committed_values(self) -> list[Any]:
        """Return all that has been committed, without event times."""
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

    # -- the job -------------------------------------------------------------------------------------------------------------

    @property
    def destination(self) -> str:
        """Where writers send what they get, for the driver."""
        return f"flinkish.testing:{self.name}"

    def take(self, sent: DriverValues) -> None:
        """Take what a writer sent; called in the job's thread."""
        self._written.extend(StreamRecord(*record) for record in sent.values)

    def commit(self, prepared: Prepared) -> None:
        """Make visible what a writer prepared, unless it is already."""
        if prepared.name not in self._known:
            self._known.add(prepared.name)
            self._committed.extend(StreamRecord(*record) for record in pickling.loads(prepared.records))

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, Prepared]:
        return _Writer(context, self.destination)

    def create_committer(self, configuration: Configuration) -> Committer[Prepared]:
        return _Committer(self)

    @property
    def committable_type(self) -> Any:
        return Prepared


class _Writer(SinkWriter[Any, Prepared]):
    def __init__(self, context: SinkWriterContext, destination: str) -> None:
        self._context = context
        self._destination = destination
        self._state = context.get_list_state(ListStateDescriptor("records", Types.PICKLED_BYTE_ARRAY()))
        self._records: list[tuple[Any, int | None]] = []
        self._sent = 0
        self._prepared: list[Prepared] = []

    def write(self, value: Any, context: WriteContext) -> None:
        self._records.append((value, context.timestamp))

    def end_epoch(self) -> None:
        self._send()
        if self._records:
            self._state.add_all(self._records)
            self._records = []
        self._sent = 0

    def _send(self) -> None:
        if len(self._records) > self._sent:
            self._context.emit_to_driver(self._destination, self._records[self._sent :])
            self._sent = len(self._records)

    def flush(self, end_of_input: bool) -> None:
        self._send()
        records = [*self._state.get(), *self._records]
        if records:
            name = f"{self._context.subtask_index}-{random_id()}"
            self._prepared.append(Prepared(name=name, records=pickling.dumps(records)))
        self._state.clear()
        self._records = []
        self._sent = 0

    def prepare_commit(self) -> Sequence[Prepared]:
        prepared, self._prepared = self._prepared, []
        return prepared


class _Committer(Committer[Prepared]):
    def __init__(self, sink: CollectingSink) -> None:
        self._sink = sink

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[Prepared]]) -> None:
        for request in requests:
            self._sink.commit(request.committable)
