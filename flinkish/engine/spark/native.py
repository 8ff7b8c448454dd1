"""Streaming DataFrames as sources of a job: where Spark stands in them, how a new query goes on from there, what has arrived.

Positions are Spark's own: line i of `offsets/<batch>` in the query's checkpoint folder belongs to the i-th streaming source of
the plan, and `sources/<i>` is what that source keeps for itself (the file source: which files it has seen). The tick source is
the first of the plan.
"""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from flinkish.common.ids import OperatorUid
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.jobmaster.epochs import NativePosition
from flinkish.program.operators import SourceConfig
from flinkish.program.sources import NativeSource
from flinkish.runtime.protocol import native_edge

#: What Spark writes in the place of an offset that a source does not have yet.
_NO_OFFSET = "-"
#: Lines of an offset file before the first offset: its version, and settings.
_HEADER = 2
_COMPACT = re.compile(r"(\d+)\.compact")
_TICKS = "RatePerMicroBatchStream"
_ADMISSION = "org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl"
#: Of so many looks one asks every source; for Delta tables the others only look into the log's folder.
_FULL_LOOK = 10
_V1 = "org.apache.spark.sql.execution.streaming.Source"
#: What maxFilesPerTrigger and maxBytesPerTrigger become.
_LIMITS = ("ReadMaxFiles", "ReadMaxBytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeInput:
    """A streaming DataFrame of a job."""

    uid: OperatorUid
    frame: DataFrame
    #: Of the frames that bring its rows.
    edge: int
    #: Slots of its subtasks.
    targets: tuple[int, ...]
    #: Which streaming sources of the query's plan are its.
    sources: range


def native_inputs(plan: ExecutionPlan) -> tuple[NativeInput, ...]:
    """Return the streaming DataFrames of a job in the order in which its query unites them."""
    inputs: list[NativeInput] = []
    first = 1
    for vertex in plan.job_graph.vertices.values():
        operator = vertex.head.operator
        if isinstance(operator, SourceConfig) and isinstance(operator.source, NativeSource):
            frame = operator.source.frame
            leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
            streaming = sum(leaves.apply(index).isStreaming() for index in range(leaves.size()))
            inputs.append(
                NativeInput(
                    uid=vertex.head.uid,
                    frame=frame,
                    edge=native_edge(vertex.id),
                    targets=tuple(plan.slot_of(vertex.id, subtask) for subtask in range(vertex.parallelism)),
                    sources=range(first, first + streaming),
                )
            )
            first += streaming
    return tuple(inputs)


def positions(folder: Path, batch_id: int, inputs: Sequence[NativeInput]) -> dict[OperatorUid, NativePosition]:
    """Return up to where a batch reads each DataFrame; `folder` is the query's checkpoint folder."""
    lines = _offset_lines(folder, batch_id)[_HEADER:]
    found = {}
    for native in inputs:
        offsets = tuple(None if lines[index] == _NO_OFFSET else lines[index] for index in native.sources)
        found[native.uid] = NativePosition(offsets=offsets, files=_Files(folder / "sources", native.sources))
    return found


@dataclass(frozen=True, slots=True)
class _Files:
    """Reads what the sources of a DataFrame keep for themselves: name below `sources`, counted from 0, and compressed content."""

    folder: Path
    sources: range

    def __call__(self) -> Mapping[str, bytes]:
        found = {}
        for number, index in enumerate(self.sources):
            root = self.folder / str(index)
            for path in _needed(sorted(path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))):
                found[f"{number}/{path.relative_to(root).as_posix()}"] = zlib.compress(path.read_bytes(), 1)
        return found


def _needed(paths: Sequence[Path]) -> list[Path]:
    """Leave out what a later `<n>.compact` of the file source's log contains."""
    compacted = max((int(match[1]) for path in paths if (match := _COMPACT.fullmatch(path.name))), default=None)
    if compacted is None:
        return list(paths)

    def counts(path: Path) -> bool:
        number = path.name.partition(".")[0]
        return not number.isdecimal() or int(number) > compacted or path.name == f"{compacted}.compact"

    return [path for path in paths if counts(path)]


def seed(folder: Path, inputs: Sequence[NativeInput], starts: Mapping[OperatorUid, NativePosition]) -> None:
    """Have the query that starts on a checkpoint folder go on from positions, after a batch 0 that only had ticks."""
    lines = _offset_lines(folder, 0)
    for native in inputs:
        start = starts.get(native.uid)
        lines += [_NO_OFFSET] * len(native.sources) if start is None else [offset or _NO_OFFSET for offset in start.offsets]
        if start is None:
            continue
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
    """Looks for what has arrived at the sources of a query while its micro-batch waits, by asking them as Spark does.

    To be called in the thread that runs the query. What a source answers counts for the next batch, as if Spark had asked. The
    file source would give that batch what it answers later as well, more than maxFilesPerTrigger: it is asked for 0 files, for
    which it looks into its folder all the same.
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
        """Return whether a source has more than the batch at hand reads."""
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
        """Return whether the log of a Delta table has no entry yet that would be read next.

        To ask Delta's source takes 0.3 s of CPU time, even if nothing has changed; to look for a file takes a millisecond.
        """
        log = source.deltaLog()
        entry = self._path(log.logPath(), f"{json.loads(now.json())['reservoirVersion']:020}.json")
        return not entry.getFileSystem(log.newDeltaHadoopConf()).exists(entry)


def _keeps_unread(source: Any) -> bool:
    """Return whether a file source keeps files that it has found and not yet given to a batch."""
    return bool(_field(source, "maxCachedFiles") > 0 and not _field(source, "sourceOptions").latestFirst())


def _field(source: Any, name: str) -> Any:
    field = source.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(source)


def quiet_arrivals(arrivals: Arrivals) -> bool:
    """Return what has arrived; True if a source fails, as the next batch then says how."""
    with contextlib.suppress(Exception):
        return arrivals()
    return True
