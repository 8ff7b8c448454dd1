"""Chooses the state backend of a job; the only module that knows all backends."""

from __future__ import annotations

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.requirements import need
from flinkish.graph.runtime_mode import is_batch
from flinkish.runtime.state.backend import StateBackend
from flinkish.runtime.state.heap.backend import HeapBackend


def on_disk(configuration: Configuration) -> bool:
    """Tell whether a job keeps its keyed state on disk. A batch does not, because it has the state of one key at a time.

    Raises MissingPackageError if RocksDB is not installed.
    """
    chosen = configuration.get(options.STATE_BACKEND) == "rocksdb" and not is_batch(configuration)
    if chosen:
        need("rocksdict", f"{options.STATE_BACKEND.key}: rocksdb", "rocksdb")
    return chosen


def make_backend(configuration: Configuration, levels: int) -> StateBackend:
    """Create an empty backend of the kind that a job's configuration names, for one of the levels of a slot."""
    if not on_disk(configuration):
        return HeapBackend()
    # It imports RocksDB.
    from flinkish.runtime.state.disk.backend import DiskBackend

    return DiskBackend(configuration.get(options.ROCKSDB_MEMORY) // levels)
