"""Puts records that a target refuses at a commit into the table of dead letters."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import Any

from flinkish.common import options
from flinkish.common.clock import Clock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import FlinkishError, SinkChangedError, SinkError
from flinkish.common.time import Instant
from flinkish.common.types import Row
from flinkish.jobmaster.program_parts import SinkNode
from flinkish.program.dead_letters import DEAD_LETTERS_UID, RAW_FOR_TARGET, REFUSED, DeadLetterTable
from flinkish.program.refused_records import RefusedRecord, RefusedRecords
from flinkish.program.sinks import CommitRequest, checkpoint_name
from flinkish.runtime.dead_letters import forms_of, storable

_log = logging.getLogger("flinkish.jobmaster.refused_records")


class KeptRefusedRecords(RefusedRecords):
    """Commits the refused records of a sink to the table, in a transaction that is named after the sink and these records.

    So a commit that is repeated finds its transaction. If the target has changed in the meantime and refuses other records, these
    get a transaction of their own.
    """

    def __init__(self, node: SinkNode, table: DeadLetterTable, job_name: str, configuration: Configuration, clock: Clock) -> None:
        self._node = node
        self._table = table
        self._job_name = job_name
        self._configuration = configuration
        self._clock = clock

    def put_aside(self, checkpoint_id: int, requests: Sequence[CommitRequest[Any]], records: Sequence[RefusedRecord]) -> None:
        request, now = requests[0], Instant.of_epoch_milli(self._clock.wall_time())
        digest = hashlib.sha256()
        rows = []
        for record in records:
            raw, raw_format, json = forms_of(record.value) if record.topic is None else (record.raw, RAW_FOR_TARGET, None)
            headers = None if record.headers is None else [Row(key=key, value=value) for key, value in record.headers]
            what = (record.topic, record.timestamp, record.key, record.headers, raw, json)
            digest.update(repr(what).encode())
            # In the order of COLUMNS.
            rows.append(
                (
                    REFUSED,
                    storable(record.reason),
                    self._job_name,
                    request.job_id,
                    str(self._node.uid),
                    self._node.name,
                    record.subtask,
                    record.topic,
                    None,
                    None,
                    record.timestamp,
                    None,
                    now,
                    record.key,
                    headers,
                    raw,
                    raw_format,
                    json,
                    checkpoint_id,
                )
            )
        try:
            self._table.put_aside(
                rows,
                name=f"{DEAD_LETTERS_UID}/{self._node.uid}/{digest.hexdigest()[:32]}",
                checkpoint_id=checkpoint_id,
                job_id=request.job_id,
                lineage=request.lineage,
                configuration=self._configuration,
            )
        except FlinkishError as error:
            kind = SinkChangedError if isinstance(error, SinkChangedError) else SinkError
            raise kind(f"the dead letters ({options.DEAD_LETTERS_DIR.key}) cannot be written: {error}") from error
        _log.warning(
            "%s: the target refused %d records of %s, which are dead letters now; the first: %s",
            self._node.label, len(rows), checkpoint_name(checkpoint_id), records[0].reason,
        )  # fmt: skip
