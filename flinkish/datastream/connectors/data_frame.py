"""Spark's DataFrames as sources; see `StreamExecutionEnvironment.from_data_frame`.

pyspark is never imported here: a DataFrame is recognized by the name of its class, and its plan is read in the way of Spark's own
Python code. Tasks get the rows as Arrow data, from Spark's query or from files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkish.common.errors import (
    ForeignCheckpointError,
    InvalidArgumentError,
    InvalidProgramError,
    SourceError,
    UnsupportedError,
    without_hint,
)
from flinkish.common.ids import random_id
from flinkish.common.paths import hadoop_url
from flinkish.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flinkish.common.types import RowColumns
from flinkish.datastream.connectors._spark_types import bare, row_type_of
from flinkish.datastream.connectors.file_system.splits import FileEnumeratorState, FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, RecordErrors
from flinkish.program.driver_objects import DriverObject, NeedsDataFrames
from flinkish.program.row_folders import row_folder
from flinkish.program.sources import (
    Boundedness,
    NativeSource,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkish.datastream.connectors.file_system.source import FileSource

__all__ = ["BoundedDataFrameSource", "StreamingDataFrameSource", "data_frame_source"]

#: Errors that a cast of Arrow, or Python, raises for a value that Python cannot hold.
_UNREADABLE = (ValueError, OverflowError)
#: Nodes of Spark's plans that keep state from batch to batch.
_STATEFUL = (
    "Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "FlatMapGroupsInPandasWithState",
    "FlatMapGroupsWithState", "GlobalLimit", "LocalLimit", "TransformWithState", "TransformWithStateInPandas",
    "TransformWithStateInPySpark",
)  # fmt: skip


def data_frame_source(df: Any, *, as_tuples: bool) -> StreamingDataFrameSource | BoundedDataFrameSource:
    """Return the source of a DataFrame's rows.

    Raises InvalidArgumentError if `df` is not a DataFrame, and UnsupportedError for a DataFrame of Spark Connect, for one that
    keeps state or that Spark does not run as a stream, and for a column whose type has no counterpart, which it names.
    """
    classes = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(df).__mro__]
    if any(name.startswith("pyspark.sql.connect.") for name in classes):
        raise UnsupportedError(
            "from_data_frame() needs a DataFrame of classic PySpark; this one belongs to Spark Connect.",
            hint="make the session with .master(...), not .remote(...).",
        )
    if not any(name.startswith("pyspark.sql.") and name.endswith(".DataFrame") for name in classes):
        raise InvalidArgumentError(
            f"from_data_frame() needs a DataFrame of Spark; got {df!r} of type {type(df).__name__}.",
            hint="call load() on it."
            if hasattr(df, "load")
            else "for pandas or Arrow data use from_collection(), for files FileSource.",
        )
    if df.isStreaming:
        _check_plan(df)
        return StreamingDataFrameSource(df, as_tuples=as_tuples)
    return BoundedDataFrameSource(df, as_tuples=as_tuples)


def _check_plan(df: Any) -> None:
    """Raise UnsupportedError for a streaming DataFrame whose result depends on more than its rows and offsets."""
    plan = df._jdf.queryExecution().analyzed()
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if not node.isStreaming():
            continue
        name, children = node.nodeName(), node.children()
        inputs = [children.apply(index) for index in range(children.size())]
        if name in _STATEFUL or (name == "Join" and all(child.isStreaming() for child in inputs)):
            raise UnsupportedError(
                f"from_data_frame() takes streaming DataFrames without state; this one has Spark's {name}, whose state would not "
                "be in the checkpoints of the job.",
                hint="read the DataFrame before it, and aggregate, deduplicate or join with keyed streams (key_by, windows).",
            )
        if name == "EventTimeWatermark":
            raise UnsupportedError(
                "from_data_frame() takes DataFrames without Spark's withWatermark(), which would have no effect.",
                hint="leave it out, and pass watermark_strategy=WatermarkStrategy.for_bounded_out_of_orderness(...).",
            )
        waiting.extend(inputs)
    # The query of a job runs without Spark's own check, which refuses the levels of operators above the DataFrame.
    sql = df.sparkSession.sparkContext._jvm.org.apache.spark.sql
    try:
        sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, sql.streaming.OutputMode.Append())
    except Exception as error:
        if type(error).__name__ != "AnalysisException":
            raise
        raise UnsupportedError(
            "from_data_frame() takes streaming DataFrames that Spark itself can run; this one would give each batch a result of "
            f"its own: {str(error).splitlines()[0].rstrip(';')}",
            hint="leave this out of the DataFrame, and do it with operators of the stream.",
        ) from error


class _DataFrameSource(NeedsDataFrames):
    """Base of both kinds of sources: the DataFrame and the type of its rows."""

    instead = "use a source of that engine, such as FileSource or from_collection()"
    makes_new_records = True
    why_records: str | None = None

    def __init__(self, df: Any, *, as_tuples: bool) -> None:
        schema = df.schema.jsonValue()
        self._rows: RowTypeInfo = row_type_of(schema)
        self._frame = DriverObject(df, "the DataFrame of from_data_frame()")
        self._as_tuples = as_tuples
        self._schema = json.dumps(bare(schema))

    @property
    def frame(self) -> Any:
        """The DataFrame; only on the driver."""
        return self._frame.get()

    @property
    def schema(self) -> str:
        """Columns and types as text."""
        return self._schema

    def produced_type(self) -> TypeInformation:
        return _record_type(self._rows, as_tuples=self._as_tuples)

    def validate(self) -> None:
        """Raise InvalidProgramError for rows without columns, which neither files nor Arrow data from Spark can hold."""
        if not self._rows.field_names:
            raise InvalidProgramError("from_data_frame(): the DataFrame has no columns.")


def _record_type(rows: RowTypeInfo, *, as_tuples: bool) -> TypeInformation:
    return Types.TUPLE(list(rows.field_types)) if as_tuples else rows


class StreamingDataFrameSource(_DataFrameSource, NativeSource[Any]):
    """The rows of a streaming DataFrame, read by Spark."""

    def create_decoder(self, context: SourceReaderContext, *, by_columns: bool = False) -> Callable[[bytes], Iterable[Any]]:
        errors = RecordErrors(RecordErrorPolicy.fail(), context)
        return decoder(self._rows, as_tuples=self._as_tuples, errors=errors, by_columns=by_columns)


def decoder(
    rows: RowTypeInfo, *, as_tuples: bool, errors: RecordErrors | None = None, by_columns: bool = False
) -> Callable[[bytes], Iterable[Any]]:
    """Return the function that decodes Arrow's stream format into records, or runs of them; see `batch_decoder`."""
    # Arrow takes 0.1 s to import and is needed only in tasks.
    import pyarrow as pa

    decode_batch = batch_decoder(rows, as_tuples=as_tuples, errors=errors, by_columns=by_columns)

    def decode(body: bytes) -> Iterable[Any]:
        with pa.ipc.open_stream(body) as reader:
            runs = list(map(decode_batch, reader))
        if by_columns:
            return runs
        # Of a single batch the columns reach the edge as they are.
        return runs[0] if len(runs) == 1 else chain.from_iterable(runs)

    return decode


def batch_decoder(
    rows: RowTypeInfo, *, as_tuples: bool, errors: RecordErrors | None, by_columns: bool = False
) -> Callable[[pa.RecordBatch], Any]:
    """Return the function that makes a record of each row of a batch, or with `by_columns` a batch with their layout.

    For a row with a value that Python cannot hold it raises SourceError, which names the column, or returns what `errors` emits
    instead.
    """
    from flinkish.common.arrow_types import plain_column, read_converter, reading_type, texts_of, widened
    from flinkish.common.column_layout import Layout

    names, types = rows.field_names, rows.field_types
    converters = [read_converter(part) for part in types]
    layout = Layout(_record_type(rows, as_tuples=as_tuples)) if by_columns else None

    def column(name: str, part: TypeInformation, convert: Callable[[Any], Any] | None, found: pa.Array) -> Any:
        wanted = reading_type(found.type, part)
        try:
            if wanted is None:
                raise ValueError(f"Arrow gave {found.type}")
            values = widened(found, wanted)
            if convert is None:
                return values.to_pylist() if as_tuples else plain_column(values)
            return list(map(convert, values.to_pylist()))
        except _UNREADABLE as error:
            raise SourceError(
                f"column {name!r} of the DataFrame holds a value that cannot be a {part!r} in Python: {error}",
                hint="Python's dates reach from the year 1 to 9999; cast the column to another type, or filter such rows.",
            ) from error

    def records(batch: pa.RecordBatch) -> Sequence[Any]:
        columns = [column(*parts) for parts in zip(names, types, converters, batch.columns, strict=True)]
        return list(zip(*columns, strict=True)) if as_tuples else RowColumns(names, columns)

    def one_by_one(batch: pa.RecordBatch, errors: RecordErrors) -> Iterable[Any]:
        for index in range(batch.num_rows):
            row = batch.slice(index, 1)
            try:
                yield from records(row)
            except SourceError as error:
                reason, texts = without_hint(error), texts_of(row.columns)
                yield errors.handle_row(names, texts, path="from_data_frame", line=None, reason=reason)

    def records_or_errors(batch: pa.RecordBatch) -> Any:
        if layout is not None:
            targets = map(reading_type, batch.schema.types, types)
            with suppress(ValueError, OverflowError):  # of a value; records tell which
                columns = [widened(found, wanted or found.type) for found, wanted in zip(batch.columns, targets, strict=True)]
                if layout.holds([column.type for column in columns]):
                    return layout.batch_of(columns)
        try:
            return records(batch)
        except SourceError:
            if errors is None or not errors.keeps:
                raise
            return list(one_by_one(batch, errors))

    return records_or_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedDataFrameState:
    """The enumerator's state: the folder of the rows, and the files that no reader has yet."""

    schema: str
    folder: str
    files: FileEnumeratorState


class BoundedDataFrameSource(_DataFrameSource, Source[Any, FileSourceSplit, BoundedDataFrameState]):
    """The rows of a DataFrame that is not streaming, each exactly once.

    Spark computes the rows once, when a job starts without a checkpoint, and writes them into files beside the checkpoints
    (_arrow_files.py). A second computation could return other rows or another order. The files are read as by a FileSource, and
    are removed with the job's checkpoints.
    """

    # Spark decides which rows are in which file, and a file is read by any subtask.
    unordered = True

    boundedness = Boundedness.BOUNDED
    split_type = FileSourceSplit
    enumerator_checkpoint_type = BoundedDataFrameState

    def _files(self, folder: str) -> FileSource:
        from flinkish.datastream.connectors._arrow_files import GROUP_BYTES, ArrowFiles
        from flinkish.datastream.connectors.file_system.enumerator import FileEnumeratorProvider
        from flinkish.datastream.connectors.file_system.source import FileSource

        decode = partial(batch_decoder, self._rows, as_tuples=self._as_tuples)
        files = FileSource.for_bulk_file_format(ArrowFiles(self._rows, decode), folder)
        return files.set_file_enumerator(FileEnumeratorProvider(GROUP_BYTES)).build()

    def create_enumerator(self, context: SplitEnumeratorContext[FileSourceSplit]) -> _Enumerator:
        folder = row_folder(context.configuration, getattr(context, "job_id", "")) / f"source-{random_id()}"
        try:
            self._write(folder)
        except Exception as error:
            raise SourceError(
                f"Spark could not compute the rows of the DataFrame into {folder}: {type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else ''}"
            ) from error
        return _Enumerator(self, str(folder), self._files(str(folder)).create_enumerator(context))

    def _write(self, folder: Path) -> None:
        from flinkish.datastream.connectors._arrow_files import BATCH_ROWS, WRITE_OPTIONS

        session, frame = self.frame.sparkSession, self.frame._jdf
        limit = int(session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch"))
        with _settings_in_tasks(session):
            # The arguments: rows of a batch, time zone, whether two fields of one name are refused, whether texts have long
            # offsets. The batches have no schema.
            batches = frame.toArrowBatchRdd(min(limit, BATCH_ROWS) if limit > 0 else BATCH_ROWS, "UTC", True, False)
        values = session._jsparkSession.createDataset(batches, session._jvm.org.apache.spark.sql.Encoders.BINARY())
        values.write().options(WRITE_OPTIONS).parquet(hadoop_url(folder))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[FileSourceSplit], checkpoint: BoundedDataFrameState
    ) -> _Enumerator:
        return _Enumerator(self, checkpoint.folder, self._files(checkpoint.folder).restore_enumerator(context, checkpoint.files))

    def check_restored(
        self, splits: Sequence[FileSourceSplit], checkpoint: BoundedDataFrameState | None, *, trusted: bool
    ) -> None:
        """Raise ForeignCheckpointError for rows of another schema, and for a folder that another key has signed."""
        if checkpoint is None:
            return
        if not trusted:
            raise ForeignCheckpointError(
                "the folder of a DataFrame's rows is not taken from a checkpoint that another key has signed",
                hint="to read from the beginning, give the source another uid, and set "
                "execution.state-recovery.ignore-unclaimed-state.",
            )
        if checkpoint.schema != self._schema:
            raise ForeignCheckpointError(
                f"the DataFrame has the columns {self._schema}; in the checkpoint it had {checkpoint.schema}",
                hint="select the columns that it had, or give the source another uid to read from the beginning.",
            )

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any, FileSourceSplit]:
        # The splits contain the paths of the files.
        return self._files("/").create_reader(context)


@contextmanager
def _settings_in_tasks(session: Any) -> Iterator[None]:
    """Let Spark's tasks see the settings of a session, also in stages that run while an RDD is made (adaptive execution)."""
    context = session.sparkContext._jsc.sc()
    before = context.getLocalProperties()
    properties = before.clone()
    properties.putAll(session.conf._jconf.getAllAsJava())
    context.setLocalProperties(properties)
    try:
        yield
    finally:
        context.setLocalProperties(before)


@dataclass(eq=False)
class _Enumerator(SplitEnumerator[FileSourceSplit, BoundedDataFrameState]):
    """Assigns the files of the rows to readers."""

    _source: BoundedDataFrameSource
    _folder: str
    _files: SplitEnumerator[FileSourceSplit, FileEnumeratorState]

    def start(self) -> None:
        self._files.start()

    def handle_split_request(self, subtask: int) -> None:
        self._files.handle_split_request(subtask)

    def add_splits_back(self, splits: Sequence[FileSourceSplit], subtask: int) -> None:
        self._files.add_splits_back(splits, subtask)

    def snapshot_state(self, checkpoint_id: int) -> BoundedDataFrameState:
        return BoundedDataFrameState(
            schema=self._source.schema, folder=self._folder, files=self._files.snapshot_state(checkpoint_id)
        )

    def close(self) -> None:
        self._files.close()
