"""Records that a target refuses at a commit, on their way to the table of dead letters."""

from __future__ import annotations

from typing import Any, cast

import pytest

from flinkish.common.clock import SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import FlinkishError, SinkChangedError, SinkError
from flinkish.jobmaster.job_sinks import KeptRefusedRecords
from flinkish.jobmaster.program_parts import SinkNode
from flinkish.program.dead_letters import DeadLetterTable
from flinkish.program.refused_records import RefusedRecord
from flinkish.program.sinks import CommitRequest

from .support import JOB_ID, SINK


@pytest.mark.parametrize(
    ("error", "kind"), [(SinkChangedError("it has a constraint"), SinkChangedError), (SinkError("the disk is full"), SinkError)]
)
def test_a_table_of_dead_letters_that_takes_no_rows_any_more_ends_the_job_and_other_errors_restart_it(
    error: FlinkishError, kind: type[FlinkishError]
) -> None:
    class Table:
        def put_aside(self, *arguments: Any, **named: Any) -> None:
            raise error

    node = SinkNode(uid=SINK, name="sink", sink=cast("Any", None))
    kept = KeptRefusedRecords(node, cast("DeadLetterTable", Table()), "job", Configuration(), SystemClock())
    request: CommitRequest[Any] = CommitRequest(
        committable=None, job_id=JOB_ID, lineage="lineage", sink_uid=SINK, subtask_index=0
    )
    with pytest.raises(SinkError, match=r"the dead letters .* cannot be written") as raised:
        kept.put_aside(1, [request], [RefusedRecord(reason="NOT NULL", subtask=0, value={"id": 1})])
    assert type(raised.value) is kind
