"""All state backends, for tests that each must pass."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.runtime.state.backend import StateBackend
from flinkish.runtime.state.disk.backend import DiskBackend
from flinkish.runtime.state.heap.backend import HeapBackend

#: By state.backend.type.
BACKENDS: dict[str, Callable[[], StateBackend]] = {"hashmap": HeapBackend, "rocksdb": DiskBackend}
