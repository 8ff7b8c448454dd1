"""Who owns a job's checkpoints, and what became of a commit: decisions over values, without files."""

from __future__ import annotations

import pytest

from flinkish.checkpoint import fencing
from flinkish.checkpoint.fencing import Committed, Outcome, Refused, TakenOver, Transaction
from flinkish.checkpoint.paths import Folder
from flinkish.common.ids import CheckpointId, Generation


def transaction(generation: int, checkpoint_id: int) -> Transaction:
    return Transaction(Generation(generation), CheckpointId(checkpoint_id))


OWN = transaction(3, 17)


@pytest.mark.parametrize("pair", [(0, 0), (1, 0), (1, 999_999_999), (2, 0), (999_999_999, 999_999_999)])
def test_a_transaction_is_read_as_it_was_written(pair: tuple[int, int]) -> None:
    assert Transaction.of(transaction(*pair).number) == pair
    assert transaction(*pair).number < 2**63


def test_each_claim_is_a_higher_generation_and_forgets_no_id() -> None:
    assert fencing.claim(None) == (1, 0)
    first = fencing.claim(None)
    assert fencing.claim(transaction(1, 42).number) == (2, 42)
    assert fencing.claim(first.number).number > transaction(1, 999_999_999).number


def test_a_driver_is_stale_as_soon_as_another_generation_is_there() -> None:
    own = Generation(3)
    assert fencing.newer_generation(transaction(3, 0).number, own) is None
    assert fencing.newer_generation(transaction(3, 999_999_999).number, own) is None
    assert fencing.newer_generation(transaction(4, 0).number, own) == 4
    # a table that was deleted and made again by others
    assert fencing.newer_generation(transaction(1, 0).number, own) == 1
    assert fencing.newer_generation(None, own) == 0


def test_a_log_behind_its_own_checkpoint_is_damaged() -> None:
    assert fencing.log_is_damaged(None, OWN)
    assert fencing.log_is_damaged(OWN.number - 1, OWN)
    assert not fencing.log_is_damaged(OWN.number, OWN)
    assert not fencing.log_is_damaged(transaction(4, 17).number, OWN)


@pytest.mark.parametrize(
    ("versions", "version", "blamed"),
    [
        ([5], 5, False),
        ([5, 5], 5, False),
        ([5, 5, 5], 5, True),
        ([3, 4, 5, 5, 5], 5, True),
        ([5, 5, 5], 6, False),  # somebody was quicker in the last try
        ([4, 5, 5], 5, False),
        ([5, 5, 5, 6], 6, False),
    ],
)
def test_the_storage_is_to_blame_when_nobody_was_quicker_three_times(versions: list[int], version: int, blamed: bool) -> None:
    assert fencing.storage_is_to_blame(versions, version) is blamed


def test_a_commit_that_the_table_names_has_happened() -> None:
    assert fencing.outcome(found=OWN.number, named=True, own=OWN) == Committed()


@pytest.mark.parametrize(
    ("found", "named", "expected"),
    [
        (transaction(3, 16).number, False, Refused()),  # the table as it was before
        (OWN.number, False, Refused()),  # our transaction, but not our manifest
        (transaction(3, 18).number, True, Refused()),
        (transaction(4, 16).number, False, TakenOver(Generation(4))),
        (transaction(4, 17).number, True, TakenOver(Generation(4))),
        (transaction(1, 0).number, False, TakenOver(Generation(1))),
        (None, False, TakenOver(Generation(0))),
    ],
)
def test_a_commit_that_the_table_does_not_name_has_not_happened(found: int | None, named: bool, expected: Outcome) -> None:
    assert fencing.outcome(found=found, named=named, own=OWN) == expected


def folder(checkpoint_id: int, generation: int = 3) -> Folder:
    return Folder(CheckpointId(checkpoint_id), Generation(generation))


def test_ids_never_repeat_whatever_is_left_of_those_that_were_used() -> None:
    assert fencing.highest_id(CheckpointId(0), None, []) == 0
    assert fencing.highest_id(CheckpointId(7), CheckpointId(5), [folder(6)]) == 7
    assert fencing.highest_id(CheckpointId(5), CheckpointId(7), [folder(6)]) == 7
    assert fencing.highest_id(CheckpointId(5), None, [folder(6), folder(9, 1)]) == 9


@pytest.mark.parametrize(
    ("named", "may_go"),
    [
        (folder(4), True),
        (None, False),
        (folder(4, generation=2), False),
        (folder(4, generation=4), False),
        (folder(8), False),  # perhaps committed
        (folder(9), False),  # committed
    ],
)
def test_only_a_checkpoint_of_ours_that_was_surely_never_committed_is_discarded(named: Folder | None, may_go: bool) -> None:
    unknown, retained = {CheckpointId(8)}, [CheckpointId(9)]
    assert fencing.may_discard(named, own=Generation(3), unknown=unknown, retained=retained) is may_go
