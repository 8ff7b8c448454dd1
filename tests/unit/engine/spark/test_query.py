from __future__ import annotations

from flinkish.common.ids import AttemptId, CheckpointId, Epoch
from flinkish.engine.spark.query import describe
from flinkish.runtime.protocol import Barrier, EpochCommand


def test_an_epoch_is_described_by_job_number_and_checkpoint() -> None:
    barrier = Barrier(checkpoint_id=CheckpointId(7), timestamp=0, directory="d", root="r")
    command = EpochCommand(attempt_id=AttemptId("a"), attempt_number=2, epoch=Epoch(5), processing_time=0)
    assert describe("word count", command) == "word count: epoch 5 of attempt 2"
    command = EpochCommand(
        attempt_id=AttemptId("a"), attempt_number=2, epoch=Epoch(6), processing_time=0, barrier=barrier, farewell=True
    )
    assert describe("word count", command) == "word count: epoch 6 of attempt 2, checkpoint 7, the last"
