"""Snapshots that are written while later epochs run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from flinkish.common.clock import ManualClock
from flinkish.common.errors import StateError
from flinkish.common.ids import CheckpointId, OperatorUid
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.protocol import CheckpointPart, StateFile
from flinkish.runtime.uploads import Uploads, UploadThread

DEADLINE_S = 30


def part(checkpoint_id: int, *committables: bytes) -> CheckpointPart:
    return CheckpointPart(
        checkpoint_id=CheckpointId(checkpoint_id),
        vertex=VertexId(1),
        subtask=0,
        committables={OperatorUid("sink"): committables} if committables else {},
    )


def file(name: str) -> StateFile:
    return StateFile(path=name, size=1, sha256="", rows=1, operator_uids=(), key_groups=(-1, -1))


class Writing:
    """A snapshot that is written when the test says so."""

    def __init__(self, name: str = "a", error: Exception | None = None) -> None:
        self.name = name
        self.error = error
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __call__(self) -> tuple[StateFile, ...]:
        self.begun.set()
        assert self.go_on.wait(DEADLINE_S)
        if self.error is not None:
            raise self.error
        return (file(self.name),)


@pytest.fixture
def thread() -> Iterator[UploadThread]:
    thread = UploadThread()
    yield thread
    thread.close()


@pytest.fixture
def uploads(thread: UploadThread) -> Uploads:
    return Uploads(thread, ManualClock(0))


def epoch(uploads: Uploads, *begun: tuple[Any, Any], waits: bool = False, aborted: tuple[int, ...] = ()) -> None:
    uploads.begin_epoch([CheckpointId(each) for each in aborted])
    for checkpoint_part, writing in begun:
        uploads.start(checkpoint_part, writing, started=0, alignment_ms=0.0)
    uploads.end_epoch(waits=waits)


def test_without_a_thread_a_snapshot_is_written_at_once() -> None:
    uploads = Uploads(None, ManualClock(0))
    uploads.begin_epoch(())
    uploads.start(part(1, b"c"), lambda: (file("a"),), started=0, alignment_ms=3.0)
    uploads.end_epoch(waits=False)
    (ack,) = uploads.acknowledgements
    assert (ack.checkpoint_id, ack.files, ack.alignment_ms) == (1, (file("a"),), 3.0)
    assert ack.committables == {"sink": (b"c",)}
    assert uploads.uploading == ()
    epoch(uploads)
    assert uploads.acknowledgements == []


def test_a_snapshot_is_acknowledged_in_the_epoch_in_which_it_is_written(uploads: Uploads) -> None:
    writing = Writing()
    epoch(uploads, (part(1, b"c"), writing))
    assert (uploads.acknowledgements, uploads.uploading) == ([], (part(1, b"c"),))
    epoch(uploads)
    assert (uploads.acknowledgements, uploads.uploading) == ([], (part(1),)), "committables are sent once"
    writing.go_on.set()
    epoch(uploads, waits=True)
    (ack,) = uploads.acknowledgements
    assert (ack.files, dict(ack.committables), uploads.uploading) == ((file("a"),), {}, ())


def test_an_epoch_that_waits_ends_when_all_snapshots_are_written_in_their_order(uploads: Uploads) -> None:
    first, second = Writing("a"), Writing("b")
    epoch(uploads, (part(1), first))
    uploads.begin_epoch(())
    uploads.start(part(2), second, started=0, alignment_ms=0.0)
    assert first.begun.wait(DEADLINE_S)
    assert not second.begun.is_set()
    second.go_on.set()
    threading.Timer(0.05, first.go_on.set).start()
    uploads.end_epoch(waits=True)
    assert [ack.checkpoint_id for ack in uploads.acknowledgements] == [1, 2]


def test_quick_snapshots_are_acknowledged_in_their_epoch(uploads: Uploads) -> None:
    for number in range(3):
        epoch(uploads, (part(number), lambda: ()))
        assert [ack.checkpoint_id for ack in uploads.acknowledgements] == [number]


def test_a_file_that_cannot_be_written_declines_the_checkpoint_with_what_was_prepared(uploads: Uploads) -> None:
    writing = Writing(error=OSError(28, "No space left on device"))
    writing.go_on.set()
    epoch(uploads, (part(1, b"c"), writing), waits=True)
    (decline,) = uploads.declines
    assert (decline.reason, decline.committables) == (
        "OSError while writing state files: No space left on device",
        {"sink": (b"c",)},
    )
    assert uploads.acknowledgements == []


@pytest.mark.parametrize("late", [True, False])
def test_a_value_that_cannot_be_written_is_raised_in_the_thread_of_the_task(uploads: Uploads, late: bool) -> None:
    writing = Writing(error=StateError("too large"))
    uploads.begin_epoch(())
    uploads.start(part(1), writing, started=0, alignment_ms=0.0)
    if late:
        uploads.end_epoch(waits=False)
        uploads.begin_epoch(())
    writing.go_on.set()
    with pytest.raises(StateError, match="too large"):
        uploads.end_epoch(waits=True)


def test_snapshots_of_an_aborted_checkpoint_are_forgotten_and_not_begun(uploads: Uploads) -> None:
    running, waiting, other = Writing("a"), Writing("b"), Writing("c")
    uploads.begin_epoch(())
    for number, writing in ((1, running), (2, waiting), (3, other)):
        uploads.start(part(number), writing, started=0, alignment_ms=0.0)
    uploads.end_epoch(waits=False)
    assert running.begun.wait(DEADLINE_S)
    uploads.begin_epoch([CheckpointId(1), CheckpointId(2)])
    for writing in (running, waiting, other):
        writing.go_on.set()
    uploads.end_epoch(waits=True)
    assert [ack.checkpoint_id for ack in uploads.acknowledgements] == [3]
    assert not waiting.begun.is_set()


def test_the_uploads_of_discarded_state_are_never_acknowledged(thread: UploadThread) -> None:
    lost, writing = Uploads(thread, ManualClock(0)), Writing()
    lost.begin_epoch(())
    lost.start(part(1), writing, started=0, alignment_ms=0.0)
    lost.close()
    writing.go_on.set()
    again = Uploads(thread, ManualClock(0))
    again.begin_epoch(())
    again.start(part(1), lambda: (file("b"),), started=0, alignment_ms=0.0)
    again.end_epoch(waits=True)
    assert [ack.files for ack in again.acknowledgements] == [(file("b"),)]
    epoch(lost)
    assert lost.acknowledgements == []


def test_closing_the_thread_waits_for_the_snapshot_that_is_being_written_and_begins_no_other() -> None:
    thread, ended = UploadThread(), threading.Event()
    first, second = Writing(), Writing()
    thread.run(first)
    thread.run(second)
    assert first.begun.wait(DEADLINE_S)
    closing = threading.Thread(target=lambda: (thread.close(), ended.set()))
    closing.start()
    assert not ended.wait(0.05)
    first.go_on.set()
    closing.join(DEADLINE_S)
    assert ended.is_set()
    assert not second.begun.is_set()


def test_what_holds_up_records_is_told_from_what_is_written_meanwhile(thread: UploadThread) -> None:
    clock = ManualClock(0)

    def write() -> tuple[StateFile, ...]:
        clock.advance(30)
        return ()

    figures = []
    for uploads in (Uploads(None, clock), Uploads(thread, clock)):
        started = clock.monotonic()
        clock.advance(5)
        uploads.begin_epoch(())
        uploads.start(part(1), write, started=started, alignment_ms=0.0)
        uploads.end_epoch(waits=True)
        figures += [(ack.snapshot_ms, ack.upload_ms) for ack in uploads.acknowledgements]
    assert figures == [(35.0, 0.0), (5.0, 30.0)]
