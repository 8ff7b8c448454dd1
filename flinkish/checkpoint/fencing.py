"""Decides who owns a job's checkpoints and what became of a commit; reads and writes nothing.

Each commit of a checkpoint table has a transaction of the job: generation * 10^9 + checkpoint id. A driver process that takes
over the job commits a higher generation, and every earlier driver stops as soon as it sees that. The storage reads facts from
the table, passes them to these functions, and carries out their decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from flinkish.checkpoint.paths import Folder
from flinkish.common.ids import CheckpointId, Generation

#: Chosen so that generation and checkpoint id together fit into the 63 bits of a Delta transaction.
_IDS_PER_GENERATION = 10**9
#: Maximum number of tries of a claim: when several drivers claim at the same time, one succeeds in each round and others fail.
CLAIM_TRIES = 20
#: After this many failed tries in a row without a commit of another driver, the storage is considered faulty.
_LONELY_TRIES = 3


class Transaction(NamedTuple):
    """The newest transaction of a job: who committed last, and the highest checkpoint id that was committed by then.

    >>> Transaction(Generation(2), CheckpointId(7)).number, Transaction.of(2_000_000_007), Transaction.of(None)
    (2000000007, Transaction(generation=2, checkpoint_id=7), Transaction(generation=0, checkpoint_id=0))
    """

    generation: Generation
    checkpoint_id: CheckpointId

    @staticmethod
    def of(number: int | None) -> Transaction:
        """Decode the number in a table; None means that no driver has claimed the job yet."""
        generation, checkpoint_id = divmod(number or 0, _IDS_PER_GENERATION)
        return Transaction(Generation(generation), CheckpointId(checkpoint_id))

    @property
    def number(self) -> int:
        """The transaction as the number that the table contains."""
        return self.generation * _IDS_PER_GENERATION + self.checkpoint_id


def claim(found: int | None) -> Transaction:
    """Return the transaction with which a driver takes over a job whose table has transaction `found`."""
    generation, checkpoint_id = Transaction.of(found)
    return Transaction(Generation(generation + 1), checkpoint_id)


def storage_is_to_blame(versions: Sequence[int], version: int) -> bool:
    """Tell whether a failed claim will keep failing, because in the last tries no other driver was quicker.

    `versions` are the table's versions at the beginning of each try, `version` is the version at the end of the last one.
    """
    return list(versions[-_LONELY_TRIES:]) == [version] * _LONELY_TRIES


def log_is_damaged(found: int | None, newest: Transaction) -> bool:
    """Tell whether a table has lost a transaction: its transaction is older than its newest checkpoint."""
    return found is None or found < newest.number


def newer_generation(found: int | None, own: Generation) -> Generation | None:
    """Return the generation that has taken over the job; None if the job still belongs to ours."""
    generation = Transaction.of(found).generation
    return None if generation == own else generation


def highest_id(last: CheckpointId, current: CheckpointId | None, folders: Iterable[Folder]) -> CheckpointId:
    """Return the highest checkpoint id that a job has ever used, according to its transaction, checkpoint and folders."""
    return CheckpointId(max(last, current or 0, *(folder.checkpoint_id for folder in folders), 0))


# -- what became of a commit -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Committed:
    """The newest version of the table has our transaction and manifest."""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Another generation has taken over the job, so ours must end."""

    by: Generation


@dataclass(frozen=True, slots=True)
class Refused:
    """The commit did not happen; if the table is still there, the next checkpoint may succeed."""


Outcome = Committed | TakenOver | Refused


def outcome(*, found: int | None, named: bool, own: Transaction) -> Outcome:
    """Judge a commit by the state of the table after it: an error proves no failure, as only the answer may have been lost.

    `found`: the table's transaction of the job; `named`: it lists our manifest.
    """
    if found == own.number and named:
        return Committed()
    other = newer_generation(found, own.generation)
    return Refused() if other is None else TakenOver(other)


def may_discard(
    folder: Folder | None, *, own: Generation, unknown: Collection[CheckpointId], retained: Collection[CheckpointId]
) -> bool:
    """Tell whether the files of a checkpoint may be deleted: it is ours, and certainly was never committed.

    `folder` is the parsed name of its folder; `unknown` has the checkpoints that may or may not have been committed.
    """
    return (
        folder is not None
        and folder.generation == own
        and folder.checkpoint_id not in unknown
        and folder.checkpoint_id not in retained
    )
