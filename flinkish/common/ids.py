"""Identifiers, each with a type of its own, so that type checkers find one used in place of another."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import NewType

#: Names an operator in checkpoints: the uid given by the user, or 32 hex digits derived from the program's structure.
OperatorUid = NewType("OperatorUid", str)
#: Number of a checkpoint, strictly increasing over all attempts and generations of a job; the first is 1.
CheckpointId = NewType("CheckpointId", int)
#: Names a sequence of checkpoint ids: it stays the same over all restarts of a job, and a job that starts without state or from a
#: savepoint gets a new one. Lineage and checkpoint id together are unique, so sinks recognize by them what they have committed.
LineageId = NewType("LineageId", str)
#: Counts the driver processes that have taken over a job; each fences off the ones before it.
Generation = NewType("Generation", int)
#: Number of a micro-batch within one attempt; the first is 0.
Epoch = NewType("Epoch", int)
#: Unique name of one attempt to run a job; part of the names of scratch folders, slot hosts and segment files.
AttemptId = NewType("AttemptId", str)

IdSource = Callable[[], str]


def random_id() -> str:
    return uuid.uuid4().hex


def random_uuid() -> str:
    """Return a random UUID with its dashes, as Java writes one."""
    return str(uuid.uuid4())
