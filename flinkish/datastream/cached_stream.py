"""A stream whose records later jobs of the program read again instead of computing them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkish.common.time import AmountOfTime
from flinkish.datastream._support import refused
from flinkish.datastream.connectors._cache import CacheFile, CacheSink, CacheSource, committed_files
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.shapes import T_co
from flinkish.program.transformations import CacheTransformation

if TYPE_CHECKING:
    from typing import Self

    from flinkish.common.typeinfo import TypeInformation
    from flinkish.datastream.slot_sharing_group import SlotSharingGroup

__all__ = ["CachedDataStream"]


class StreamCache:
    """Where the records of one cached stream are kept: in a folder, filled by the first job that is given one.

    What counts is the list of files in it, written when that job has ended; a job that fails leaves the cache empty. A file that
    is gone or was changed makes it empty, too: then the records are computed again.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None

    def prepare(self, parent: Callable[[], Path]) -> None:
        """Make the folder, if there is none, below the one that `parent` returns."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="stream-", dir=parent()))

    @property
    def files(self) -> tuple[CacheFile, ...] | None:
        """The files with the records; None if they have to be computed."""
        return None if self._folder is None else committed_files(self._folder)

    def sink(self) -> CacheSink:
        """Return what fills the cache."""
        return CacheSink(str(self._folder or ""))

    def source(self, record_type: TypeInformation) -> CacheSource | None:
        """Return what reads the cache; None if it is empty."""
        files = self.files
        return None if files is None else CacheSource(str(self._folder), files, record_type)

    def clear(self) -> None:
        """Remove the records."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _not_on_cached(what: str) -> str:
    return f"{what} of a CachedDataStream cannot be set: it runs no operator."


_ON_ORIGIN = "call it on the stream before cache(), or on the result of the operator after it."


class CachedDataStream(DataStream[T_co]):
    """A stream that is computed once, by the first job in batch mode that uses it; later jobs of its environment read it again.

    The records lie in files (below io.tmp.dirs, which all machines must reach, else in the folder of temporary files), with
    their event times and in the order of each subtask, until `invalidate`, `StreamExecutionEnvironment.close` or the end of the
    process. In streaming mode, as in Flink, a filled cache is read and an empty one not filled. Source: FLIP-205.
    """

    def invalidate(self) -> None:
        """Remove the records; a job that uses the stream after that computes and keeps them anew."""
        transformation = self._transformation
        assert isinstance(transformation, CacheTransformation)
        transformation.cache.clear()

    @refused(_not_on_cached("The name"), see=_ON_ORIGIN)
    def name(self, name: str) -> Self: ...  # type: ignore[empty-body]

    @refused("A CachedDataStream has no name: it runs no operator.", see=_ON_ORIGIN)
    def get_name(self) -> str: ...  # type: ignore[empty-body]

    @refused(_not_on_cached("The uid"), see=_ON_ORIGIN)
    def uid(self, uid: str) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_cached("The uid hash"), see=_ON_ORIGIN)
    def set_uid_hash(self, uid_hash: str) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_cached("The description"), see=_ON_ORIGIN)
    def set_description(self, description: str) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_cached("The parallelism"), see=_ON_ORIGIN)
    def set_parallelism(self, parallelism: int) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_cached("The max parallelism"), see=_ON_ORIGIN)
    def set_max_parallelism(self, max_parallelism: int) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_cached("The parallelism"), see=_ON_ORIGIN)
    def force_non_parallel(self) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_cached("The buffer timeout"), see=_ON_ORIGIN)
    def set_buffer_timeout(self, timeout_millis: int | AmountOfTime) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_cached("The chaining"), see=_ON_ORIGIN)
    def start_new_chain(self) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_cached("The chaining"), see=_ON_ORIGIN)
    def disable_chaining(self) -> Self: ...  # type: ignore[empty-body]

    @refused(_not_on_cached("The slot sharing group"), see=_ON_ORIGIN)
    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self: ...  # type: ignore[empty-body]

    @refused("A CachedDataStream is cached already.")
    def cache(self) -> Any: ...
