"""The results of harnesses: output elements and their comparison, and checkpoints as plain data, without a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from flinkish.common.ids import CheckpointId, OperatorUid
from flinkish.runtime.elements import EndOfInput, Watermark, WatermarkStatus
from flinkish.runtime.protocol import Restore, StateFile
from flinkish.runtime.state.rows import RUNTIME_STATES, SCHEMA

__all__ = ["HarnessSnapshot", "OutputElement", "StateEntry", "StreamRecord", "assert_records_equal"]


class StreamRecord(NamedTuple):
    """A record with its event time in milliseconds; None if it has none."""

    value: Any
    timestamp: int | None = None


#: An output element of a piece of a program.
OutputElement = StreamRecord | Watermark | WatermarkStatus | EndOfInput


def assert_records_equal(actual: Iterable[Any], expected: Iterable[Any], *, ordered: bool = False, what: str = "records") -> None:
    """Raise AssertionError, which lists missing and unexpected records, unless both have the same records.

    The order does not matter unless `ordered`, because subtasks do not wait for one another.

    >>> assert_records_equal([("a", 1), ("b", 2)], [("b", 2), ("a", 1)])
    >>> assert_records_equal(["a", "b", "b"], ["a", "c", "b"], what="words")
    Traceback (most recent call last):
    AssertionError: words are not as expected
      missing: 'c'
      unexpected: 'b'
    """
    unexpected, missing = list(actual), list(expected)
    if unexpected == missing:
        return
    if ordered:
        lines = [f"  got: {unexpected!r}", f"  expected: {missing!r}"]
    else:
        for record in list(unexpected):
            if record in missing:
                missing.remove(record)
                unexpected.remove(record)
        lines = [
            *(f"  missing: {record!r}" for record in missing),
            *(f"  unexpected: {record!r}" for record in unexpected),
        ]
    if lines:
        raise AssertionError("\n".join([f"{what} are not as expected", *lines]))


class StateEntry(NamedTuple):
    """One row of a checkpoint: a value, a map entry, a list of one key, a timer, or an element of operator state."""

    operator_uid: str
    #: Name of the state descriptor; "timers" for timers.
    state_name: str
    #: value, list, map, reducing, aggregating, timer_event, timer_processing, operator_list, operator_union, ...
    kind: str
    #: The value as JSON, or a timer's time; None for values that JSON cannot represent.
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessSnapshot:
    """The state of all operators of a harness, as a checkpoint holds it; picklable."""

    checkpoint_id: CheckpointId
    #: Processing time when it was taken, in milliseconds.
    processing_time: int
    files: tuple[StateFile, ...]
    #: The state files by their path.
    contents: Mapping[str, bytes]
    #: Parallelism of each operator.
    parallelism: Mapping[OperatorUid, int]

    def entries(self) -> tuple[StateEntry, ...]:
        """Return its content without the runtime's own states, for example to assert that state was cleaned up."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = ["operator_uid", "state_name", "state_kind", "value_json"]
        return tuple(
            StateEntry(*(row[name] for name in columns))
            for content in self.contents.values()
            for row in pq.read_table(pa.BufferReader(content), columns=columns).to_pylist()
            if row["state_kind"] != SCHEMA and row["state_name"] not in RUNTIME_STATES
        )

    def unpack(self, root: Path) -> Restore:
        """Write the files below a folder; return the command to restore from them."""
        for path, content in self.contents.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return Restore(
            checkpoint_id=self.checkpoint_id,
            root=str(root),
            files=self.files,
            pickle_allowed=True,
            parallelism=self.parallelism,
        )
