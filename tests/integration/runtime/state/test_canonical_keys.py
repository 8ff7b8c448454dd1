"""Keys are equal, and belong to the same key group, in a process with another hash seed."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from flinkish.common import pickling
from flinkish.runtime.key_encoding import canonical
from flinkish.runtime.key_groups import key_group
from flinkish.runtime.keys import as_key
from flinkish.runtime.state.codec import decode_untyped
from tests.unit.runtime.state.test_canonical_keys import _KEYS, EQUAL

_CHILD = """
import struct, sys
from flinkish.common import pickling
from flinkish.runtime.key_groups import key_group
from flinkish.runtime.keys import as_key
from flinkish.runtime.state.codec import encode_untyped
while header := sys.stdin.buffer.read(8):
    given, copies = pickling.loads(sys.stdin.buffer.read(*struct.unpack("<Q", header)))
    keys = [as_key(key) for key in given]
    same = [key == wrapped and hash(key) == hash(wrapped) for key, wrapped in zip(keys, copies)]
    answer = pickling.dumps(([key_group(key, 128) for key in keys], same, keys, list(map(encode_untyped, given))))
    sys.stdout.buffer.write(struct.pack("<Q", len(answer)) + answer)
    sys.stdout.buffer.flush()
"""

Ask = Callable[[list[Any]], tuple[list[int], list[bool], list[Any], list[bytes]]]


@pytest.fixture(scope="module")
def other_process() -> Iterator[Ask]:
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    child = subprocess.Popen([sys.executable, "-c", _CHILD], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    stdin, stdout = child.stdin, child.stdout

    def ask(keys: list[Any]) -> Any:
        data = pickling.dumps((keys, [as_key(key) for key in keys]))
        stdin.write(struct.pack("<Q", len(data)) + data)
        stdin.flush()
        return pickling.loads(stdout.read(struct.unpack("<Q", stdout.read(8))[0]))

    yield ask
    stdin.close()
    assert child.wait(120) == 0
    stdout.close()


def _agree(keys: list[Any], ask: Ask) -> None:
    groups, same, theirs, encodings = ask(keys)
    ours = [as_key(key) for key in keys]
    assert groups == [key_group(key, 128) for key in ours]
    assert all(same)
    assert theirs == ours
    assert list(map(hash, theirs)) == list(map(hash, ours))
    assert [as_key(decode_untyped(encoding)) for encoding in encodings] == ours


def test_all_kinds_of_keys_are_the_same_in_a_process_with_another_hash_seed(other_process: Ask) -> None:
    _agree([key for keys in EQUAL for key in keys], other_process)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(keys=st.lists(_KEYS, max_size=5))
def test_generated_keys_are_the_same_in_a_process_with_another_hash_seed(other_process: Ask, keys: list[Any]) -> None:
    _agree(keys, other_process)
    assert len({as_key(key) for key in keys}) == len({canonical(key) for key in keys})
