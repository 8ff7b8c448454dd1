"""Which request for a checkpoint may start; after Flink's CheckpointRequestDecider."""

from __future__ import annotations

from flinkish.checkpoint.checkpoint_settings import CheckpointSettings
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.request_decider import Admission, Request, Start, Wait, admit, choose

SETTINGS = CheckpointSettings(interval=1_000)
PERIODIC, REQUESTED, SAVEPOINT, FINAL = (
    CheckpointKind.PERIODIC,
    CheckpointKind.REQUESTED,
    CheckpointKind.SAVEPOINT,
    CheckpointKind.FINAL,
)


def request(sequence: int, kind: CheckpointKind = PERIODIC, at: int = 0) -> Request:
    return Request(sequence=sequence, kind=kind, requested_at=at)


def queue_of(*requests: Request, settings: CheckpointSettings = SETTINGS) -> tuple[Request, ...]:
    queue: tuple[Request, ...] = ()
    for new in requests:
        queue = admit(queue, new, settings).queue
    return queue


def test_nothing_starts_when_nothing_waits() -> None:
    assert choose((), pending=0, now=0, last_completion=None, settings=SETTINGS) == Wait(None)


def test_a_request_starts_at_once_when_nothing_is_in_progress() -> None:
    assert choose((request(1),), pending=0, now=0, last_completion=None, settings=SETTINGS) == Start(request(1))


def test_a_savepoint_goes_before_a_final_before_a_requested_before_a_periodic_checkpoint() -> None:
    queue = queue_of(request(1), request(2, REQUESTED), request(3, FINAL), request(4, SAVEPOINT))
    assert [waiting.kind for waiting in queue] == [SAVEPOINT, FINAL, REQUESTED, PERIODIC]


def test_of_two_equal_requests_the_older_one_goes_first() -> None:
    queue = queue_of(request(2, SAVEPOINT, at=20), request(1, SAVEPOINT, at=10), request(3, SAVEPOINT, at=10))
    assert [waiting.sequence for waiting in queue] == [1, 3, 2]


def test_a_periodic_checkpoint_waits_for_the_pause_after_the_last_completion() -> None:
    settings = CheckpointSettings(interval=1_000, min_pause=300)
    assert choose((request(1),), pending=0, now=1_299, last_completion=1_000, settings=settings) == Wait(1_300)
    assert choose((request(1),), pending=0, now=1_300, last_completion=1_000, settings=settings) == Start(request(1))


def test_the_pause_does_not_hold_back_the_first_checkpoint() -> None:
    settings = CheckpointSettings(interval=1_000, min_pause=300)
    assert choose((request(1),), pending=0, now=0, last_completion=None, settings=settings) == Start(request(1))


def test_the_pause_holds_back_neither_requested_checkpoints_nor_savepoints() -> None:
    settings = CheckpointSettings(interval=1_000, min_pause=300)
    for kind in (REQUESTED, SAVEPOINT, FINAL):
        waiting = request(1, kind)
        assert choose((waiting,), pending=0, now=1_001, last_completion=1_000, settings=settings) == Start(waiting)


def test_a_checkpoint_waits_while_as_many_as_allowed_are_in_progress() -> None:
    for limit in (1, 2, 5):
        settings = CheckpointSettings(interval=1_000, max_concurrent=limit)
        for kind in (PERIODIC, REQUESTED):
            waiting = (request(1, kind),)
            assert choose(waiting, pending=limit, now=0, last_completion=None, settings=settings) == Wait(None)
            assert choose(waiting, pending=limit - 1, now=0, last_completion=None, settings=settings) == Start(waiting[0])


def test_forced_requests_start_beyond_the_limit() -> None:
    for kind in (SAVEPOINT, FINAL):
        waiting = request(1, kind)
        assert choose((waiting,), pending=7, now=0, last_completion=None, settings=SETTINGS) == Start(waiting)


def test_a_forced_request_overtakes_one_that_must_wait() -> None:
    queue = queue_of(request(1, REQUESTED), request(2, FINAL))
    assert choose(queue, pending=1, now=0, last_completion=None, settings=SETTINGS) == Start(request(2, FINAL))


def test_a_pause_implies_one_checkpoint_at_a_time() -> None:
    settings = CheckpointSettings(interval=1_000, min_pause=1, max_concurrent=5)
    assert choose((request(1),), pending=1, now=5_000, last_completion=None, settings=settings) == Wait(None)


def test_beyond_the_queue_limit_a_periodic_request_is_dropped_first() -> None:
    settings = CheckpointSettings(max_queued=2)
    queue = queue_of(request(1), request(2, REQUESTED), settings=settings)
    admission = admit(queue, request(3, SAVEPOINT), settings)
    assert admission == Admission((request(3, SAVEPOINT), request(2, REQUESTED)), request(1))


def test_a_new_request_that_is_the_least_important_is_dropped_itself() -> None:
    settings = CheckpointSettings(max_queued=1)
    queue = queue_of(request(1, SAVEPOINT), settings=settings)
    assert admit(queue, request(2), settings) == Admission(queue, request(2))
