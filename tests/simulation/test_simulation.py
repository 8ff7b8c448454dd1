"""Ten thousand worlds in which the invariants hold, whatever happens."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.world import WITH_BACKENDS, run, simulated

_BLOCKS = 10
_WORLDS = 10_000
#: What must have happened in each block: without it, the invariants would hold for a poor reason.
_MUST_HAPPEN = (
    *(
        "completed",
        "restored",
        "savepoint done",
        "stop-savepoint done",
        "deleted",
        "superseded",
        "shared files",
        "unknown outcome",
    ),
    *("driver crash", "host crash", "epoch repeated", "interruption", "ack late", "ack lost", "ack repeated"),
    *("fault before log", "fault after log", "fault after create", "fault before read", "fault after remove"),
    *(f"aborted: {reason}" for reason in ("DECLINED", "EXPIRED", "SUBSUMED", "SNAPSHOT_LOST", "FINALIZE_FAILED")),
)


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_the_invariants_hold_in_every_world(block: int) -> None:
    counts: Counter[str] = Counter()
    size = _WORLDS // _BLOCKS
    with simulated():
        for seed in range(block * size, (block + 1) * size):
            counts += run(seed).counts
    assert [what for what in _MUST_HAPPEN if not counts[what]] == []
    assert counts["completed"] > size


@pytest.mark.parametrize("seed", [WITH_BACKENDS, *range(1, 6)])
def test_a_world_can_be_replayed(seed: int) -> None:
    with simulated():
        first, second = run(seed), run(seed)
    assert first.trace == second.trace
    assert first.store.entries == second.store.entries
