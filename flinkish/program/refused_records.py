"""Records that the target of a sink refuses when their checkpoint is committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flinkish.common import options
from flinkish.common.errors import TargetRefusedError
from flinkish.common.text import shortened

if TYPE_CHECKING:
    from flinkish.program.sinks import CommitRequest

#: The part of a hint that says how to go on without refused records.
REFUSED_HINT: Final = (
    f"set {options.DEAD_LETTERS_DIR.key}, and start again: records that the target refuses then go to that table, and all "
    "others are written."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRecord:
    """A record that a target refuses: a value, or a message for a topic with the bytes `raw`."""

    reason: str
    #: The subtask of the sink that prepared the record.
    subtask: int
    value: Any = None
    raw: bytes | None = None
    #: Of a message; `timestamp` is in milliseconds.
    topic: str | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None
    timestamp: int | None = None


class RefusedRecords:
    """Takes the refused records of one committer. This one keeps none: it raises an error that says how to keep them."""

    def put_aside(self, checkpoint_id: int, requests: Sequence[CommitRequest[Any]], records: Sequence[RefusedRecord]) -> None:
        """Store the refused records of a commit durably, once; a committer calls this before it commits the others.

        `requests` are all requests of the commit. When the commit is repeated, the same records are not stored again. Raises
        TargetRefusedError, with which the commit fails and the job ends, if the job keeps no dead letters.
        """
        raise refusal(records)


def refusal(records: Sequence[RefusedRecord]) -> TargetRefusedError:
    """Return the error that ends a job without dead letters whose target refuses records."""
    first = records[0]
    shown = repr(first.value if first.topic is None else (first.key, first.raw))
    count = "1 record" if len(records) == 1 else f"{len(records)} records, one of which"
    return TargetRefusedError(f"the target refuses {count}: {first.reason}; record: {shortened(shown, 300)}", hint=REFUSED_HINT)
