"""Which state backend a job gets: the one place that knows the forms there are."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.runtime.state.backend import StateBackend
from flinkish.runtime.state.heap.backend import HeapBackend

#: By state.backend.type, whose values options.py checks. State of rocksdb is kept on the heap so far, as the option says.
_BACKENDS: dict[str, Callable[[], StateBackend]] = {"hashmap": HeapBackend, "rocksdb": HeapBackend}


def make_backend(configuration: Configuration) -> StateBackend:
    """Return an empty backend, of the form that a job's configuration names."""
    return _BACKENDS[configuration.get(options.STATE_BACKEND)]()
