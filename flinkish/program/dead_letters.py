"""Dead letters: records that would be lost, and the rows that a table keeps of them (`pipeline.dead-letters.dir`).

Tasks write the rows through a sink that belongs to the job instead of an operator, and the JobMaster commits them with the
checkpoints. The sink is made by the API (`datastream.connectors.dead_letters`), as the layers below know no connectors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from flinkish.common.configuration import Configuration
from flinkish.common.ids import OperatorUid
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.program.sinks import Sink

#: The uid under which committables of dead letters are stored in checkpoints; part of the transaction's name in the table.
DEAD_LETTERS_UID: Final = OperatorUid("flinkish.dead-letters")
#: Name of the metric of an operator that counts its dead letters.
DEAD_LETTERS_METRIC: Final = "numDeadLetters"
#: Destination on the driver of the names of operators that dropped a record which no table kept.
DROPPED: Final = "dropped"

#: Kinds of dead letters.
UNDECODABLE: Final = "undecodable"
LATE: Final = "late"
REFUSED: Final = "refused"
#: What `raw` holds: the bytes as the source read them, those of a message that a target refused, or a pickled value, if JSON has
#: no form for it that shows all of it.
RAW_OF_SOURCE: Final = "source"
RAW_FOR_TARGET: Final = "target"
RAW_PICKLED: Final = "pickle"

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())

#: The columns of the table. A column may be added, with null for older rows; none may change its meaning or type.
COLUMNS: Final[dict[str, TypeInformation]] = {
    "kind": Types.STRING(),
    "reason": Types.STRING(),
    "job_name": Types.STRING(),
    "job_id": Types.STRING(),
    "operator_uid": Types.STRING(),
    "operator_name": Types.STRING(),
    "subtask": Types.INT(),
    # Where a source read the record: the file or partition, and the number of its line, row, offset or byte there. For a refused
    # message the topic that it was for.
    "source": Types.STRING(),
    "position": Types.LONG(),
    "position_unit": Types.STRING(),
    # In milliseconds since 1970-01-01 UTC, as any 64-bit number can be an event time.
    "event_time": Types.LONG(),
    "watermark": Types.LONG(),
    "dropped_at": Types.INSTANT(),
    "message_key": _BYTES,
    "headers": Types.LIST(Types.ROW_NAMED(["key", "value"], [Types.STRING(), _BYTES])),
    "raw": _BYTES,
    "raw_format": Types.STRING(),
    "json": Types.STRING(),
    # The checkpoint that was to come next when the record was dropped; the one that held a record that a target refused.
    "checkpoint_id": Types.LONG(),
}
ROW_TYPE: Final = Types.ROW_NAMED(list(COLUMNS), list(COLUMNS.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """A record that a source could not decode."""

    reason: str
    #: The file, partition or table that it is in; None if that is not known.
    source: str | None = None
    position: int | None = None
    unit: str | None = None
    #: The bytes as they were read; None if there are none, as in columnar formats.
    raw: bytes | None = None
    #: The record as JSON, where it is not bytes.
    json: str | None = None
    #: Of a Kafka message; `timestamp` is in milliseconds.
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None
    timestamp: int | None = None


class DeadLetterTable(Sink[Any, Any]):
    """The sink of dead letters."""

    @abstractmethod
    def put_aside(
        self,
        rows: Sequence[tuple[Any, ...]],
        *,
        name: str,
        checkpoint_id: int,
        job_id: str,
        lineage: str,
        configuration: Configuration,
    ) -> None:
        """Commit rows now, on the driver; do nothing if those of this name, checkpoint id and lineage were committed before."""


class DeadLetters(Protocol):
    """Takes the records of one operator in one subtask that would be lost."""

    #: Whether they are kept; otherwise the job says once that the operator drops records.
    on: bool

    def undecodable(self, record: BadRecord, watermark: int) -> None:
        """Take a record that the operator, a source, could not decode."""

    def late(self, value: Any, timestamp: int | None, watermark: int, reason: str) -> None:
        """Take a record that came too late; times are in milliseconds."""

    def refused(self, value: Any, timestamp: int | None, watermark: int, reason: str) -> None:
        """Take a record that the operator, a sink, cannot write; times are in milliseconds. Called only if `on`."""

    def dropped(self, kind: str) -> None:
        """Learn that a record of a kind was dropped, as the program wants it or because `on` is False."""
