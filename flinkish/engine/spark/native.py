"""Streaming DataFrames as sources of a job: Spark's positions in them, the start of a query from positions, and new input.

Positions are Spark's own: line i of `offsets/<batch>` in the query's checkpoint folder belongs to the i-th streaming source of
the plan. `sources/<i>` is that source's own log (the file source: the files that it has seen). The tick source is the first
source of the plan.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from flinkish.common.errors import EngineError
from flinkish.common.ids import OperatorUid
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.jobmaster.epochs import NativePosition
from flinkish.program.operators import SourceConfig
from flinkish.program.sources import NativeSource
from flinkish.runtime.protocol import native_edge

_log = logging.getLogger(__name__)

#: Spark writes this if a source has no offset yet.
_NO_OFFSET = "-"
#: Number of lines of an offset file before the first offset: its version, and settings.
_HEADER = 2
_COMPACT = re.compile(r"(\d+)\.compact")
_TICKS = "RatePerMicroBatchStream"
_ADMISSION = "org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl"
#: One of this many checks asks every source; the others only list the log folder of Delta tables.
_FULL_LOOK = 10
_V1 = "org.apache.spark.sql.execution.streaming.Source"
#: Classes of the limits maxFilesPerTrigger and maxBytesPerTrigger.
_LIMITS = ("ReadMaxFiles", "ReadMaxBytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeInput:
    """A streaming DataFrame of a job."""

    uid: OperatorUid
    frame: DataFrame
    #: Edge of the frames that carry its rows.
    edge: int
    #: Slots of its subtasks.
    targets: tuple[int, ...]
    #: Indexes of its streaming sources in the query's plan.
    sources: range
    #: Those of them that cannot go back to a position.
    unrepeatable: frozenset[int] = frozenset()


def native_inputs(plan: ExecutionPlan) -> tuple[NativeInput, ...]:
    """Return the streaming DataFrames of a job in the order of the query's union."""
    inputs: list[NativeInput] = []
    first = 1
    for vertex in plan.job_graph.vertices.values():
        operator = vertex.head.operator
        if isinstance(operator, SourceConfig) and isinstance(operator.source, NativeSource):
            frame = operator.source.frame
            leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
            streaming = [leaf for index in range(leaves.size()) if (leaf := leaves.apply(index)).isStreaming()]
            inputs.append(
                NativeInput(
                    uid=vertex.head.uid,
                    frame=frame,
                    edge=native_edge(vertex.id),
                    targets=tuple(plan.slot_of(vertex.id, subtask) for subtask in range(vertex.parallelism)),
                    sources=range(first, first + len(streaming)),
                    unrepeatable=frozenset(first + index for index, leaf in enumerate(streaming) if _is_socket(leaf)),
                )
            )
            first += len(streaming)
    return tuple(inputs)


def _is_socket(leaf: Any) -> bool:
    """Return whether a leaf of a plan is Spark's socket source, which fails with offsets that are not of its own connection."""
    with contextlib.suppress(Py4JError):
        return bool(leaf.sourceName() == "socket")
    return False


def positions(folder: Path, batch_id: int, inputs: Sequence[NativeInput]) -> dict[OperatorUid, NativePosition]:
    """Return the end positions of a batch in each DataFrame; `folder` is the query's checkpoint folder."""
    lines = _offset_lines(folder, batch_id)[_HEADER:]
    found = {}
    for native in inputs:
        offsets = tuple(None if lines[index] == _NO_OFFSET else lines[index] for index in native.sources)
        found[native.uid] = NativePosition(offsets=offsets, files=partial(_logs, folder / "sources", native.sources))
    return found


def _logs(folder: Path, sources: range) -> Mapping[str, bytes]:
    """Read the own logs of a DataFrame's sources: names below `sources`, counted from 0, and compressed content."""
    found = {}
    for number, index in enumerate(sources):
        root = folder / str(index)
        for path in _needed(sorted(path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))):
            found[f"{number}/{path.relative_to(root).as_posix()}"] = zlib.compress(path.read_bytes(), 1)
    return found


def _needed(paths: Sequence[Path]) -> list[Path]:
    """Leave out the files that a later `<n>.compact` of the file source's log contains."""
    compacted = max((int(match[1]) for path in paths if (match := _COMPACT.fullmatch(path.name))), default=None)
    if compacted is None:
        return list(paths)

    def counts(path: Path) -> bool:
        number = path.name.partition(".")[0]
        return not number.isdecimal() or int(number) > compacted or path.name == f"{compacted}.compact"

    return [path for path in paths if counts(path)]


def seed(folder: Path, inputs: Sequence[NativeInput], starts: Mapping[OperatorUid, NativePosition]) -> None:
    """Make the query that will start on a checkpoint folder continue from positions, after a batch 0 that only had ticks.

    Raises EngineError for a DataFrame with another number of sources than the position.
    """
    lines = _offset_lines(folder, 0)
    for native in inputs:
        start = starts.get(native.uid)
        if start is None:
            lines += [_NO_OFFSET] * len(native.sources)
            continue
        if len(start.offsets) != len(native.sources):
            raise EngineError(
                f"the DataFrame {native.uid} has {len(native.sources)} streaming sources; in the checkpoint it had "
                f"{len(start.offsets)}, so their positions are unknown.",
                hint="give it as many as before, or another uid to read from the beginning.",
            )
        for index, offset in zip(native.sources, start.offsets, strict=True):
            lost = index in native.unrepeatable and offset is not None
            if lost:
                _log.warning(
                    "%s: what Spark's socket source got after the checkpoint is lost: it cannot be read again.", native.uid
                )
            lines.append(_NO_OFFSET if lost or offset is None else offset)
        for name, content in start.files().items():
            number, _, rest = name.partition("/")
            path = folder / "sources" / str(native.sources[int(number)]) / rest
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zlib.decompress(content))
    offsets = folder / "offsets" / "0"
    offsets.write_text("\n".join(lines), encoding="utf-8")
    offsets.with_name(".0.crc").unlink(missing_ok=True)


def _offset_lines(folder: Path, batch_id: int) -> list[str]:
    return (folder / "offsets" / str(batch_id)).read_text(encoding="utf-8").split("\n")


class Arrivals:
    """Checks for new input at the sources of a query while its micro-batch waits, with the calls that Spark itself makes.

    Must be called in the thread that runs the query. A source's answer counts for the next batch, as if Spark had asked. The file
    source would add files of a later answer to that batch, which could exceed maxFilesPerTrigger. So it is asked for 0 files; it
    lists its folder nevertheless.
    """

    def __init__(self, query: StreamingQuery, jvm: Any) -> None:
        self._execution: Any = query._jsq.streamingQuery()
        classes: Any = query._jsq.getClass().getClassLoader()
        self._admission = classes.loadClass(_ADMISSION)
        self._v1 = classes.loadClass(_V1)
        self._path = jvm.org.apache.hadoop.fs.Path
        self._no_files: Any = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxFiles(0)
        self._looks = 0

    def __call__(self) -> bool:
        """Return whether there is more input than the current batch reads; also True if a source fails.

        The next batch then reports the error.
        """
        with contextlib.suppress(Exception):
            return self._look()
        return True

    def _look(self) -> bool:
        self._looks += 1
        available = self._execution.availableOffsets()
        sources = self._execution.uniqueSources().iterator()
        found = False
        while sources.hasNext():
            source, limit = (pair := sources.next())._1(), pair._2()
            if source.getClass().getSimpleName() != _TICKS:
                found = self._has_more(source, limit, available.get(source)) or found
        return found

    def _has_more(self, source: Any, limit: Any, known: Any) -> bool:
        now = known.get() if known.isDefined() else None
        kind = source.getClass().getSimpleName()
        if kind == "DeltaSource" and self._looks % _FULL_LOOK and now is not None and self._delta_is_quiet(source, now):
            return False
        if kind == "FileStreamSource" and limit.getClass().getSimpleName() in _LIMITS and _keeps_unread(source):
            source.latestOffset(now, self._no_files)
            return _field(source, "unreadFiles") is not None
        if not self._admission.isInstance(source):
            latest = source.getOffset() if self._v1.isInstance(source) else source.latestOffset()
            if self._v1.isInstance(source):
                latest = latest.get() if latest.isDefined() else None
        elif self._v1.isInstance(source):
            latest = source.latestOffset(now, limit)
        else:
            start = source.initialOffset() if now is None else source.deserializeOffset(now.json())
            latest = source.latestOffset(start, limit)
        return latest is not None and (now is None or latest.json() != now.json())

    def _delta_is_quiet(self, source: Any, now: Any) -> bool:
        """Return whether the next entry of a Delta table's log does not exist yet.

        A call of Delta's source takes 0.3 s of CPU time, even if nothing has changed; a check for a file takes a millisecond.
        """
        log = source.deltaLog()
        entry = self._path(log.logPath(), f"{json.loads(now.json())['reservoirVersion']:020}.json")
        return not entry.getFileSystem(log.newDeltaHadoopConf()).exists(entry)


def _keeps_unread(source: Any) -> bool:
    """Return whether a file source caches files that it has found but not yet added to a batch."""
    return bool(_field(source, "maxCachedFiles") > 0 and not _field(source, "sourceOptions").latestFirst())


def _field(source: Any, name: str) -> Any:
    field = source.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(source)
