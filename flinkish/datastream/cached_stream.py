"""Cached streams: later jobs of the program read their records again instead of computing them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._cache import CacheFile, CacheSink, CacheSource, committed_files
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.shapes import T_co
from flinkish.program.transformations import CacheTransformation

__all__ = ["CachedDataStream"]


class StreamCache:
    """The storage for the records of one cached stream: a folder, which the first job that uses the stream fills.

    A list of the valid files is written to the folder when that job has ended; if the job fails, the cache stays empty. If a file
    is missing or changed, the cache counts as empty, too, and the records are computed again.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None

    def prepare(self, parent: Callable[[], Path]) -> None:
        """Create the folder below the one that `parent` returns, unless it exists."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="stream-", dir=parent()))

    @property
    def files(self) -> tuple[CacheFile, ...] | None:
        """The files with the records; None if the records must be computed."""
        return None if self._folder is None else committed_files(self._folder)

    def sink(self) -> CacheSink:
        """Return the sink that fills the cache."""
        return CacheSink(str(self._folder or ""))

    def source(self, record_type: TypeInformation) -> CacheSource | None:
        """Return the source that reads the cache; None if it is empty."""
        files = self.files
        return None if files is None else CacheSource(str(self._folder), files, record_type)

    def clear(self) -> None:
        """Remove the records."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


class CachedDataStream(DataStream[T_co]):
    """A stream that is computed once, by the first batch job that uses it; later jobs of its environment read the records again.

    The records are stored in files, with their event times and in the order of each subtask, until `invalidate`,
    `StreamExecutionEnvironment.close` or the end of the process. The files are below io.tmp.dirs, which all machines must be able
    to read, or else in the system's folder for temporary files. In streaming mode, as in Flink, a filled cache is read, but an
    empty cache is not filled. Source: FLIP-205.
    """

    def invalidate(self) -> None:
        """Remove the records; the next job that uses the stream computes and stores them again.

        Example:

            >>> _ = env.set_runtime_mode(RuntimeExecutionMode.BATCH)
            >>> squares = env.from_collection([1, 2]).map(lambda number: number * number).cache()
            >>> squares.execute_and_collect(limit=9)
            [1, 4]
            >>> squares.invalidate()
        """
        transformation = self._transformation
        assert isinstance(transformation, CacheTransformation)
        transformation.cache.clear()
