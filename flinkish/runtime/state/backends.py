"""Chooses the state backend of a job; the only module that knows all backends."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.runtime.state.backend import StateBackend
from flinkish.runtime.state.heap.backend import HeapBackend

#: Backends by state.backend.type, whose values options.py checks. `rocksdb` also keeps state on the heap, as the option says.
BACKENDS: dict[str, Callable[[], StateBackend]] = {"hashmap": HeapBackend, "rocksdb": HeapBackend}


def make_backend(configuration: Configuration) -> StateBackend:
    """Create an empty backend of the kind that a job's configuration names."""
    return BACKENDS[configuration.get(options.STATE_BACKEND)]()
