"""DataFrameSink: passes the rows of each completed checkpoint to a function of the program, as a DataFrame of Spark."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flinkish.common import options, safe_files
from flinkish.common.arguments import callable_of
from flinkish.common.columns import Columns
from flinkish.common.configuration import Configuration
from flinkish.common.disk import make_folders, sync
from flinkish.common.errors import ForeignCheckpointError, InvalidArgumentError, InvalidProgramError, SinkError
from flinkish.common.ids import random_id
from flinkish.common.kinds import fields_of
from flinkish.common.paths import hadoop_url
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._row_buffer import BufferedWriter
from flinkish.datastream.connectors._spark_types import ddl_of, in_any_session, row_type_of
from flinkish.program.driver_objects import DriverObject, NeedsDataFrames, open_session
from flinkish.program.row_folders import remove_file, sink_folder
from flinkish.program.sinks import CommitRequest, Committer, RestoredCheckpoint, Sink, SinkWriterContext, WriteContext

if TYPE_CHECKING:
    from flinkish.common.arrow_types import RowsToArrow

__all__ = ["DataFrameCommit", "DataFrameSink"]


#: Options of Spark's reader: the user's session may be set to leave out files that it cannot read, or to take old dates and times
#: for those of another calendar.
_EXACT: Final = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false", "datetimeRebaseMode": "CORRECTED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFrameCommit:
    """Identifies the rows of a DataFrame: those that a DataFrameSink got between two checkpoints."""

    #: Rises from checkpoint to checkpoint of a job; 2**63 - 1 for the rows of a bounded job without checkpoints.
    checkpoint_id: int
    #: Id of the series of checkpoints that the rows belong to. It stays the same after a restart; a job that starts without a
    #: checkpoint, or from a savepoint, has a new one. Within a lineage, checkpoint ids are unique.
    lineage: str
    #: Id of the job that wrote the rows.
    job_id: str
    #: uid of the sink.
    sink_uid: str


Write = Callable[[Any, int], Any] | Callable[[Any, int, DataFrameCommit], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """A Parquet file with rows that wait for their checkpoint."""

    path: str
    rows: int
    #: Columns as Spark's DDL.
    schema: str


class DataFrameSink(NeedsDataFrames, Sink[Any, RowFile]):
    """Calls `write(df, checkpoint_id)` on the driver with the rows of each completed checkpoint.

    `write`: gets a DataFrame of the user's Spark session, or of flinkish's, and the checkpoint's id. A function with a third
    parameter also gets a DataFrameCommit. It is not called for a checkpoint without rows. After a crash it may be called again
    with the same id and the same rows: results are exact if a second call has no effect, as with Delta's options txnAppId and
    txnVersion, or a MERGE by key. An error that it raises fails the attempt, and the restarted job calls it again.
    `schema`: type of the rows, as ROW_NAMED or a StructType of Spark, if the stream does not declare one.

    The job waits while `write` runs. Rows wait in Parquet files beside the checkpoints, which must be in a mounted folder.
    Without checkpointing a bounded job calls `write` once, at its end; a job that does not end is refused at its start.

    >>> from flinkish.common import Types
    >>> sink = DataFrameSink(lambda df, checkpoint_id: df.show(), Types.ROW_NAMED(["word"], [Types.STRING()]))
    """

    committable_type = RowFile
    why_records = None
    instead = "use a sink of that engine, such as DeltaSink or FileSink"

    def __init__(self, write: Write, schema: Any = None) -> None:
        callable_of("DataFrameSink()", write, "a function write(df, checkpoint_id)")
        if hasattr(schema, "jsonValue") and hasattr(schema, "fields"):
            schema = row_type_of(schema.jsonValue())
        elif not isinstance(schema, TypeInformation | None):
            raise InvalidArgumentError(
                f"schema of DataFrameSink must be Types.ROW_NAMED(...) or a StructType of Spark; got {schema!r}."
            )
        self._write = DriverObject(write, "the function of a DataFrameSink")
        self._with_commit = _takes_commit(write)
        self._schema: TypeInformation | None = schema

    def create_writer(self, context: SinkWriterContext) -> _Writer:
        return _Writer(context, self._type(context.input_type))

    def create_committer(self, configuration: Configuration) -> _Committer:
        return _Committer(self._write.get(), configuration, with_commit=self._with_commit)

    def _type(self, input_type: TypeInformation) -> TypeInformation:
        return input_type if self._schema is None else self._schema

    def validate(self, input_type: TypeInformation) -> None:
        """Raise UnsupportedError for records that cannot be rows of a DataFrame; names the column."""
        check_rows(self._type(input_type), "DataFrameSink")


def check_rows(row_type: TypeInformation, what: str) -> str:
    """Return the columns of rows as Spark's DDL; raises UnsupportedError or InvalidProgramError if no DataFrame can hold them."""
    ddl = ddl_of(row_type, what)
    if not ddl:
        raise InvalidProgramError(f"{what}: the rows have no fields.")
    return ddl


def to_data_frame(spark: Any, records: Iterable[Any], row_type: TypeInformation) -> Any:
    """Return records as a DataFrame of a SparkSession."""
    import pyarrow as pa

    rows = _columns(row_type)
    table = pa.Table.from_batches([rows.batch([rows.values(record) for record in records])])
    # Without a schema, Spark takes a timestamp without zone for a point in time.
    return spark.createDataFrame(table, in_any_session(ddl_of(row_type, "the DataFrame")))


def _columns(row_type: TypeInformation) -> RowsToArrow:
    from flinkish.common.arrow_types import RowsToArrow

    fields = fields_of(row_type)
    assert fields is not None, "checked by check_rows"
    return RowsToArrow(*fields, zoned=False, time_of_day=False)


def _takes_commit(function: Callable[..., Any]) -> bool:
    """Return whether a function needs a third argument; raises InvalidArgumentError if it takes neither two nor three."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions of libraries in C
        return False
    for count in (2, 3):
        with contextlib.suppress(TypeError):
            signature.bind(*[None] * count)
            return count == 3
    raise InvalidArgumentError(f"the function of a DataFrameSink is called with (df, checkpoint_id); it takes {signature}.")


class _Writer(BufferedWriter[RowFile, tuple[()], RowFile]):
    """Keeps rows in its state, and writes them into files at checkpoints or when there are many."""

    def __init__(self, context: SinkWriterContext, row_type: TypeInformation) -> None:
        from flinkish.common.column_layout import StoredColumns

        self._rows = _columns(row_type)
        self._stored = StoredColumns(self._rows)
        self._ddl = ddl_of(row_type, "DataFrameSink")
        self._values = self._rows.values
        self._subtask = context.subtask_index
        self._folder = str(sink_folder(context.configuration, context.job_id, context.lineage, context.sink_uid))
        self._open: list[Any] | None = None
        super().__init__(context, "flinkish.data-frame-sink", tuple[()], RowFile, self._encode, self._write_files)

    def write(self, value: Any, context: WriteContext) -> None:
        values = self._values(value)
        if self._open is None:
            self._open = self._buffer.group(())
        self._open.append(values)

    def write_columns(self, columns: Columns) -> bool:
        from flinkish.datastream.connectors.file_system.writer_factories import encode_batch

        batch = self._stored.batch(columns)
        if batch is None:
            return False
        self._buffer.add_chunk((), len(columns), encode_batch(batch))
        self._open = None
        return True

    def _encode(self, rows: Sequence[Sequence[Any]]) -> bytes:
        from flinkish.datastream.connectors.file_system.writer_factories import encode_batch

        return encode_batch(self._rows.batch(rows))

    def _seal(self) -> None:
        super()._seal()
        self._open = None

    def _write_files(self, groups: dict[tuple[()], list[bytes]]) -> list[RowFile]:
        import pyarrow.parquet as pq

        from flinkish.datastream.connectors.file_system.writer_factories import decoded_table

        table = decoded_table(groups[()], self._rows.schema)
        # Each try has its own file name, because only files that a checkpoint lists are read.
        name = f"rows-{self._subtask:05}-{random_id()}.parquet"
        path = os.path.join(self._folder, name)
        try:
            make_folders(self._folder)
            with safe_files.create_file(self._folder, name) as file:
                pq.write_table(table, file)
                file.sync()
            sync(self._folder)
        except OSError as error:
            raise SinkError(f"DataFrameSink cannot write {path}: {error.strerror or error}") from error
        return [RowFile(path=path, rows=table.num_rows, schema=self._ddl)]

    def prepare_commit(self) -> Sequence[RowFile]:
        return self._take_files()


class _Committer(Committer[RowFile]):
    """Calls the program's function, and removes the files that no retained checkpoint of the job names.

    Files of another job, from whose savepoint this one was started, stay: they belong to the owner of the savepoint.
    """

    def __init__(self, write: Callable[..., Any], configuration: Configuration, *, with_commit: bool) -> None:
        self._write = write
        self._configuration = configuration
        self._with_commit = with_commit
        self._retained = max(1, configuration.get(options.MAX_RETAINED_CHECKPOINTS))
        #: The job's own files in the commits, oldest commit first.
        self._committed: deque[list[str]] = deque()
        #: Lineage of the other job from whose savepoint this one was started.
        self._origin: str | None = None
        #: Files that were there when the attempt began, until its first commit.
        self._found: list[Path] = []
        self._session: Any = None
        self._release: Callable[[], None] = lambda: None

    def snapshot_state(self) -> bytes:
        return msgspec.msgpack.encode(list(self._committed))

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        if not checkpoint.own:
            self._origin = checkpoint.lineage
        elif checkpoint.state is not None:
            self._committed.extend(msgspec.msgpack.decode(checkpoint.state, type=list[list[str]]))
        folder = sink_folder(self._configuration, checkpoint.job_id, checkpoint.job_lineage, checkpoint.sink_uid)
        self._found = sorted(folder.glob("*.parquet"))

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[RowFile]]) -> None:
        def origin(request: CommitRequest[RowFile]) -> tuple[str, str, str, str]:
            return request.lineage, request.job_id, request.sink_uid, request.committable.schema

        for (lineage, job_id, sink_uid, schema), some in groupby(sorted(requests, key=origin), origin):
            files = [request.committable.path for request in some]
            missing = [path for path in files if not Path(path).exists()]
            if missing:
                raise ForeignCheckpointError(
                    f"DataFrameSink: rows of checkpoint {checkpoint_id} are gone: {missing[0]}",
                    hint="rows are kept beside the checkpoints of the job that wrote them, for as long as these are retained.",
                )
            commit = DataFrameCommit(checkpoint_id=checkpoint_id, lineage=lineage, job_id=job_id, sink_uid=sink_uid)
            reader = self._open().read.options(**_EXACT).schema(in_any_session(schema))
            df = reader.parquet(*[hadoop_url(path, pattern=True) for path in files])
            self._write(df, checkpoint_id, *([commit] if self._with_commit else []))
        self._committed.append([request.committable.path for request in requests if request.lineage != self._origin])
        named = {Path(path) for paths in self._committed for path in paths}
        # This attempt's writers have not begun when the checkpoint that it starts from is committed again.
        found, self._found = self._found, []
        for path in found:
            if path not in named:
                remove_file(path)
        while len(self._committed) > self._retained:
            for name in self._committed.popleft():
                remove_file(Path(name))

    def _open(self) -> Any:
        if self._session is None:
            self._session, self._release = open_session(self._configuration)
        return self._session

    def close(self) -> None:
        self._session = None
        release, self._release = self._release, lambda: None
        release()
