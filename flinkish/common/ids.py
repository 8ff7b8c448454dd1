"""Identifiers, each a type of its own, so that two of them never stand in for one another."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import NewType

#: Names an operator in checkpoints: the uid given by the user, or 32 hex digits derived from the program's structure.
OperatorUid = NewType("OperatorUid", str)
#: Number of a checkpoint, rising strictly over all attempts and generations of a job; the first is 1.
CheckpointId = NewType("CheckpointId", int)
#: One course of checkpoint ids: the same after every restart of a job, another one when a job starts from nothing or from a
#: savepoint. Within a lineage no id names two checkpoints, so sinks recognize by both what they have committed.
LineageId = NewType("LineageId", str)
#: How often a driver process took over a job; fences the ones before it.
Generation = NewType("Generation", int)
#: Number of a micro-batch within one attempt; the first is 0.
Epoch = NewType("Epoch", int)
#: Unique name of one attempt to run a job: scratch folders, slot hosts and segment files carry it.
AttemptId = NewType("AttemptId", str)

IdSource = Callable[[], str]


def random_id() -> str:
    """Return 32 random hexadecimal digits."""
    return uuid.uuid4().hex


def random_uuid() -> str:
    """Return a random UUID with its dashes, as Java writes one."""
    return str(uuid.uuid4())
