"""RecordErrorPolicy: how a source handles records that it cannot read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from flinkish.common import options
from flinkish.common.arguments import instance_of
from flinkish.common.errors import InvalidArgumentError, SourceError
from flinkish.common.text import shortened
from flinkish.common.typeinfo import BasicType, BasicTypeInfo, PickledBytesTypeInfo, TypeInformation, Types
from flinkish.common.types import Row
from flinkish.metrics import Counter
from flinkish.program.dead_letters import UNDECODABLE, BadRecord
from flinkish.program.sources import SideOutputRecord, SourceReaderContext
from flinkish.udf.output_tag import OutputTag

__all__ = ["RECORD_ERRORS_METRIC", "RECORD_ERROR_TYPE", "RecordErrorPolicy", "RecordErrors", "SideOutputRecord"]

#: Name of the metric that counts records that could not be read; Flink's name.
RECORD_ERRORS_METRIC: Final = "numRecordsInErrors"

#: Type of the rows for a side output: the file, the line number (from 1; for Parquet files the row), the reason, and the record
#: as text (bytes that are no text as \xNN).
RECORD_ERROR_TYPE: Final[TypeInformation] = Types.ROW_NAMED(
    ["path", "line", "reason", "record"], [Types.STRING(), Types.LONG(), Types.STRING(), Types.STRING()]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The parts of a message other than its value; `timestamp` is in milliseconds."""

    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None
    timestamp: int | None = None


_NO_MESSAGE: Final = Message()


@dataclass(frozen=True, slots=True)
class RecordErrorPolicy:
    """Fail the job (the default), skip the record, or send it to a side output; a metric counts the last two.

    >>> RecordErrorPolicy.skip()
    RecordErrorPolicy(skip)
    """

    action: Literal["fail", "skip", "side output"]
    tag: OutputTag | None = None

    @staticmethod
    def fail() -> RecordErrorPolicy:
        """Return the policy that fails the job with an error that names file, line and reason."""
        return RecordErrorPolicy("fail")

    @staticmethod
    def skip() -> RecordErrorPolicy:
        """Return the policy that skips and counts the record."""
        return RecordErrorPolicy("skip")

    @staticmethod
    def side_output(tag: OutputTag) -> RecordErrorPolicy:
        """Return the policy that sends a description of the record to a side output, and counts it.

        A tag of type STRING gets one line of text; a tag of RECORD_ERROR_TYPE, or without a type, gets a Row of
        RECORD_ERROR_TYPE. Raises InvalidArgumentError for other tags.
        """
        instance_of("side_output()", tag, OutputTag, hint='for example OutputTag("bad lines").')
        if not (
            _is_string(tag.type_info) or isinstance(tag.type_info, PickledBytesTypeInfo) or tag.type_info == RECORD_ERROR_TYPE
        ):
            raise InvalidArgumentError(
                f"the tag {tag!r} cannot take records that could not be read; it must be of type {Types.STRING()!r} "
                f"or {RECORD_ERROR_TYPE!r}",
                hint="OutputTag('bad', Types.STRING()), or RECORD_ERROR_TYPE of flinkish.datastream.connectors.record_errors.",
            )
        return RecordErrorPolicy("side output", tag)

    def __repr__(self) -> str:
        return f"RecordErrorPolicy({self.action}{'' if self.tag is None else f': {self.tag.tag_id}'})"


class RecordErrors:
    """Applies a policy in a reader.

    If the job keeps dead letters, records that would fail the job or be skipped go there instead, as well as those for a side
    output that nobody reads.
    """

    def __init__(self, policy: RecordErrorPolicy, context: SourceReaderContext) -> None:
        self._policy = policy
        self._dead_letters = context.dead_letters
        #: Whether a bad record never fails the job.
        self.keeps = self._dead_letters.on
        self._counter: Counter | None = None
        if policy.action != "fail" or self.keeps:
            self._counter = context.metric_group.counter(RECORD_ERRORS_METRIC)

    def handle(
        self,
        *,
        path: str,
        line: int | None,
        reason: str,
        record: str | bytes,
        unit: str = "line",
        raw: bytes | None = None,
        as_json: str | None = None,
        message: Message = _NO_MESSAGE,
    ) -> SideOutputRecord | None:
        """Return the value to emit instead of the record, None for none; raise SourceError if the policy is to fail.

        `record` is shown to people; `raw` is the record as it was read, by default `record` if that is bytes. A format without
        bytes of single records passes text, and `as_json` if it has the record as JSON. `line` is None if the source knows no
        position.
        """
        data = record if isinstance(record, bytes) else record.encode("utf-8", "surrogateescape")
        text = data.decode("utf-8", "backslashreplace")
        if self._counter is None:
            raise SourceError(
                f"{path}, {unit} {line}: {reason}; got {shortened(text)!r}",
                hint="RecordErrorPolicy.skip() or .side_output(tag) lets the job go on without such records, and "
                f"{options.DEAD_LETTERS_DIR.key} keeps them in a table.",
            )
        self._counter.inc()
        tag = self._policy.tag
        if tag is None and not self.keeps:
            self._dead_letters.dropped(UNDECODABLE)
            return None
        if raw is None and isinstance(record, bytes):
            raw = record
        bad = BadRecord(
            reason=reason,
            source=path,
            position=line,
            unit=None if line is None else unit,
            raw=raw,
            json=None if raw is not None or not text else as_json or json.dumps(text),
            key=message.key,
            headers=message.headers,
            timestamp=message.timestamp,
        )
        if tag is None:
            return SideOutputRecord(None, None, bad)
        if _is_string(tag.type_info):
            return SideOutputRecord(tag, f"{path}, {unit} {line}: {reason}: {text}", bad)
        return SideOutputRecord(tag, Row(path=path, line=line, reason=reason, record=text), bad)

    def handle_row(
        self, names: Iterable[str], texts: Sequence[str], *, path: str, line: int | None, reason: str
    ) -> SideOutputRecord | None:
        """Do the same as `handle` for a row, whose values are given as texts."""
        record, as_json = ", ".join(texts), json_of_row(names, texts)
        return self.handle(path=path, line=line, reason=reason, record=record, unit="row", as_json=as_json)


def json_of_row(names: Iterable[str], values: Iterable[Any]) -> str:
    """Return a row as a JSON object for people; values that JSON does not have become text."""
    return json.dumps(dict(zip(names, values, strict=True)), default=_text)


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _is_string(type_info: TypeInformation) -> bool:
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type is BasicType.STRING
