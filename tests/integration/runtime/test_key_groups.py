"""Hashes of keys are the same in each process."""

from __future__ import annotations

from flinkish.runtime.key_groups import stable_hash
from tests.kit.child import python

_PRINT_HASHES = """
from flinkish.common.types import Row
from flinkish.runtime.key_groups import stable_hash
import datetime
keys = [1, -1, 2**61 - 1, 2**80, "a", "ä", "\\ud800", b"a", 1.5, None, (1, "a", (2.5, None)), frozenset(["x", "y", "z"]),
        Row(a="x"), datetime.date(2024, 1, 1), datetime.timedelta(seconds=1)]
print([stable_hash(key) for key in keys])
"""


def test_hashes_are_the_same_in_every_process_and_stay_what_they_are() -> None:
    first, second = (python("-c", _PRINT_HASHES, PYTHONHASHSEED=seed).stdout for seed in "12")
    assert first == second
    # State in checkpoints lies by these: a change of one of them makes old checkpoints unreadable.
    keys = (1, -3, 1.5, "a", b"a", (1, "a"))
    assert [stable_hash(key) for key in keys] == [1327217884, 506952121, 1125519549, 3904355907, 1666407667, 1145425867]
