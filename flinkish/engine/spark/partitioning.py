"""Computes the values of the `slot` column that Spark sends to each state partition."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
#: Spark's seed of `hash()` and of hash partitioning.
_SEED = 42


def spark_hash(value: int) -> int:
    """Return what Spark SQL's `hash(CAST(value AS INT))` returns: Murmur3 x86 32 bit of the four bytes, as a signed int.

    Source of the rule: Spark's catalyst expression Murmur3Hash; a Spark test compares both.
    """
    k = _rotate((value & _MASK) * 0xCC9E2D51, 15) * 0x1B873593 & _MASK
    h = (_rotate(_SEED ^ k, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4  # length in bytes
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def _rotate(word: int, bits: int) -> int:
    word &= _MASK
    return ((word << bits) | (word >> (32 - bits))) & _MASK


def slot_values(slots: int) -> tuple[int, ...]:
    """Return for each slot index the smallest int >= 0 that Spark's `pmod(hash(int), slots)` sends to that partition.

    So every slot has its own partition. The values are below 2**31, so the projection `slot & 2147483647` does not change them.
    """
    if slots < 1:
        raise ValueError(f"slots must be at least 1; got {slots}")
    found: dict[int, int] = {}
    value = 0
    while len(found) < slots:
        found.setdefault(spark_hash(value) % slots, value)
        value += 1
    return tuple(found[slot] for slot in range(slots))
