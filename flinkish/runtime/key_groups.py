"""Assigns keys to key groups, and key groups to subtasks: the same in every process, run and Python version.

Numbers are hashed by Python's numeric hash, which is the same for equal numbers of all types and not randomized; text and bytes
by CRC-32; everything else by the CRC-32 of its canonical encoding. Measured: 120 ns for an int or a short str.
"""

from __future__ import annotations

import sys
from typing import Any
from zlib import crc32

from flinkish.common.errors import InvalidArgumentError
from flinkish.runtime.key_encoding import canonical, compares_as, is_nan, is_number, is_numpy_bool
from flinkish.runtime.keys import CanonicalKey

#: 2**64 divided by the golden ratio: the product distributes neighbouring keys evenly over all groups (Knuth, TAOCP 3, 6.4).
MULTIPLIER = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
#: Makes the hash of bytes different from that of the text that encodes to them.
_BYTES_SEED = 0x5A5A5A5A


def stable_hash(key: Any) -> int:
    """Return a hash from 0 to 2**32 - 1 that is equal for equal keys, in every process.

    Raises TypeMismatchError for a key without a canonical encoding; see `canonical`.
    """
    kind = key.__class__
    if kind is int:
        number = hash(key)
        return (((number ^ (number >> 32)) * MULTIPLIER) & MASK) >> 33
    if kind is str:
        try:
            return crc32(key.encode())
        except UnicodeEncodeError:
            return crc32(key.encode("utf-8", "surrogatepass"))
    return _hash_other(key)


def key_group(key: Any, max_parallelism: int) -> int:
    """Return the key group of a key: `stable_hash(key) % max_parallelism`."""
    return stable_hash(key) % max_parallelism


def key_groups(numbers: Any, max_parallelism: int) -> Any:
    """Return the key groups of integers, as numpy arrays of 64-bit integers; this takes 0.01 us for a key."""
    import numpy as np

    # Python's hash of an int: modulo a Mersenne prime, with the sign of the number; -1 is taken.
    modulus = sys.hash_info.modulus
    hashes = numbers if -modulus < numbers.min() <= numbers.max() < modulus else np.fmod(numbers, modulus)
    hashes = np.where(hashes == -1, hash(-1), hashes)
    mixed = (hashes ^ (hashes >> 32)).view(np.uint64) * np.uint64(MULTIPLIER) >> np.uint64(33)
    return mixed % np.uint64(max_parallelism)


def subtask_of_group(group: int, max_parallelism: int, parallelism: int) -> int:
    return group * parallelism // max_parallelism


def key_group_range(subtask: int, max_parallelism: int, parallelism: int) -> range:
    """Return the key groups of a subtask; each group is in the range of exactly one subtask.

    Raises InvalidArgumentError if there are fewer key groups than subtasks.
    """
    if not 0 <= subtask < parallelism <= max_parallelism:
        raise InvalidArgumentError(
            f"subtask {subtask} of parallelism {parallelism} has no key groups with max parallelism {max_parallelism}",
            hint="the parallelism of a keyed operator must not exceed its max parallelism (pipeline.max-parallelism).",
        )
    start = -(-subtask * max_parallelism // parallelism)
    end = -(-(subtask + 1) * max_parallelism // parallelism)
    return range(start, end)


def _hash_other(key: Any) -> int:
    if key.__class__ is tuple:
        return crc32(canonical(key))
    if key.__class__ is CanonicalKey:
        return hash(key)
    if is_number(key) and not is_nan(key):
        return stable_hash(hash(key))
    if isinstance(key, str) and compares_as(key.__class__, str):  # such as the members of an enum of texts, which equal the text
        return stable_hash(str.__str__(key))
    if isinstance(key, (bytes, bytearray)):
        return crc32(bytes(key), _BYTES_SEED)
    if is_numpy_bool(key):
        return stable_hash(bool(key))
    return crc32(canonical(key))
