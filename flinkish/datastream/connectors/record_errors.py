"""RecordErrorPolicy: how a source handles records that it cannot read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from flinkish.common.errors import InvalidArgumentError, SourceError
from flinkish.common.typeinfo import BasicType, BasicTypeInfo, PickledBytesTypeInfo, TypeInformation, Types
from flinkish.common.types import Row
from flinkish.datastream.output_tag import OutputTag
from flinkish.program.sources import SideOutputRecord

if TYPE_CHECKING:
    from flinkish.metrics import Counter, MetricGroup

__all__ = ["RECORD_ERRORS_METRIC", "RECORD_ERROR_TYPE", "RecordErrorPolicy", "RecordErrors", "SideOutputRecord"]

#: Name of the metric that counts records that could not be read; Flink's name.
RECORD_ERRORS_METRIC: Final = "numRecordsInErrors"

#: Type of the rows for a side output: the file, the line number (from 1; for Parquet files the row), the reason, and the record
#: as text (bytes that are no text as \xNN).
RECORD_ERROR_TYPE: Final[TypeInformation] = Types.ROW_NAMED(
    ["path", "line", "reason", "record"], [Types.STRING(), Types.LONG(), Types.STRING(), Types.STRING()]
)

#: Maximum number of characters of a bad record in an error.
_SHOWN = 200


class _Action(Enum):
    FAIL = "fail"
    SKIP = "skip"
    SIDE_OUTPUT = "side output"


@dataclass(frozen=True, slots=True)
class RecordErrorPolicy:
    """Fail the job (the default), skip the record, or send it to a side output; a metric counts the last two.

    >>> RecordErrorPolicy.skip()
    RecordErrorPolicy(skip)
    """

    action: _Action
    tag: OutputTag | None = None

    @staticmethod
    def fail() -> RecordErrorPolicy:
        """Return the policy that fails the job with an error that names file, line and reason."""
        return RecordErrorPolicy(_Action.FAIL)

    @staticmethod
    def skip() -> RecordErrorPolicy:
        """Return the policy that skips and counts the record."""
        return RecordErrorPolicy(_Action.SKIP)

    @staticmethod
    def side_output(tag: OutputTag) -> RecordErrorPolicy:
        """Return the policy that sends a description of the record to a side output, and counts it.

        A tag of type STRING gets one line of text; a tag of RECORD_ERROR_TYPE, or without a type, gets a Row of
        RECORD_ERROR_TYPE. Raises InvalidArgumentError for other tags.
        """
        if not isinstance(tag, OutputTag):
            raise InvalidArgumentError(
                f"side_output() takes an OutputTag; got {tag!r}", hint='for example OutputTag("bad lines").'
            )
        if not (
            _is_string(tag.type_info) or isinstance(tag.type_info, PickledBytesTypeInfo) or tag.type_info == RECORD_ERROR_TYPE
        ):
            raise InvalidArgumentError(
                f"the tag {tag!r} cannot take records that could not be read; it must be of type {Types.STRING()!r} "
                f"or {RECORD_ERROR_TYPE!r}",
                hint="OutputTag('bad', Types.STRING()), or RECORD_ERROR_TYPE of flinkish.datastream.connectors.record_errors.",
            )
        return RecordErrorPolicy(_Action.SIDE_OUTPUT, tag)

    def __repr__(self) -> str:
        return f"RecordErrorPolicy({self.action.value}{'' if self.tag is None else f': {self.tag.tag_id}'})"


class RecordErrors:
    """Applies a policy in a reader."""

    def __init__(self, policy: RecordErrorPolicy, metric_group: MetricGroup) -> None:
        self._policy = policy
        self._counter: Counter | None = None if policy.action is _Action.FAIL else metric_group.counter(RECORD_ERRORS_METRIC)

    def handle(self, *, path: str, line: int, reason: str, record: str | bytes, unit: str = "line") -> SideOutputRecord | None:
        """Return the value to emit instead of the record, None for none; raise SourceError if the policy is to fail."""
        text = record.decode("utf-8", "backslashreplace") if isinstance(record, bytes) else _printable(record)
        if self._counter is None:
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
            raise SourceError(
                f"{path}, {unit} {line}: {reason}; got {shown!r}",
                hint="RecordErrorPolicy.skip() or .side_output(tag) lets the job go on without such records.",
            )
        self._counter.inc()
        tag = self._policy.tag
        if tag is None:
            return None
        if _is_string(tag.type_info):
            return SideOutputRecord(tag, f"{path}, {unit} {line}: {reason}: {text}")
        return SideOutputRecord(tag, Row(path=path, line=line, reason=reason, record=text))


def _is_string(type_info: TypeInformation) -> bool:
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type is BasicType.STRING


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
