"""Who has acknowledged a checkpoint; after Flink's PendingCheckpoint."""

from __future__ import annotations

import dataclasses

from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.pending import AckResult, PendingCheckpoint, Subtask
from flinkish.checkpoint.storage import CheckpointLocation
from flinkish.common.ids import CheckpointId
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.protocol import StateFile

from .support import A, B, ack, coordinator_state


def make_pending() -> PendingCheckpoint:
    return PendingCheckpoint(
        checkpoint_id=CheckpointId(7),
        request=1,
        kind=CheckpointKind.PERIODIC,
        location=CheckpointLocation(directory="/c/chk-7-g1", root="/c"),
        trigger_time=0,
        started=0,
        deadline=100,
        expected=frozenset({A, B}),
    )


def file(name: str) -> StateFile:
    return StateFile(path=name, size=1, sha256="", rows=1, operator_uids=(), key_groups=(-1, -1))


def test_it_is_complete_when_all_subtasks_and_the_driver_have_given_their_part() -> None:
    pending = make_pending()
    assert pending.acknowledge(ack(7, A), 0) is AckResult.SUCCESS
    assert pending.acknowledge(ack(7, B), 0) is AckResult.SUCCESS
    assert not pending.is_complete
    assert pending.set_coordinator_state(coordinator_state())
    assert pending.is_complete


def test_the_drivers_part_alone_does_not_complete_it() -> None:
    pending = make_pending()
    pending.set_coordinator_state(coordinator_state())
    pending.acknowledge(ack(7, A), 0)
    assert not pending.is_complete
    assert pending.missing == {B}


def test_a_second_acknowledgement_of_a_subtask_has_no_effect() -> None:
    pending = make_pending()
    pending.acknowledge(ack(7, A, files=(file("first"),)), 0)
    assert pending.acknowledge(ack(7, A, files=(file("second"),)), 0) is AckResult.DUPLICATE
    assert [item.path for item in pending.files] == ["first"]


def test_a_second_driver_part_has_no_effect() -> None:
    pending = make_pending()
    first = coordinator_state(1)
    assert pending.set_coordinator_state(first)
    assert not pending.set_coordinator_state(coordinator_state(2))
    assert pending.coordinator_state == first


def test_a_subtask_that_is_not_expected_is_unknown() -> None:
    assert make_pending().acknowledge(ack(7, Subtask(VertexId(9), 0)), 0) is AckResult.UNKNOWN
    assert make_pending().acknowledge(ack(7, Subtask(A.vertex, 5)), 0) is AckResult.UNKNOWN


def test_what_it_collected_does_not_depend_on_the_order_of_arrival() -> None:
    one, other = make_pending(), make_pending()
    of_a, of_b = ack(7, A, files=(file("a"),)), ack(7, B, files=(file("b"),))
    for message in (of_a, of_b):
        one.acknowledge(message, 0)
    for message in (of_b, of_a):
        other.acknowledge(dataclasses.replace(message), 0)
    assert one.files == other.files
