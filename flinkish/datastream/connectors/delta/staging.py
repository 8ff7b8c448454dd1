"""Rows that deltalake writes for DeltaSink: rows to merge by key, and rows for tables whose files need special columns.

Writers stage the rows in files, in a folder of the table that Delta ignores. The committer lets deltalake write the rows into the
table in one commit, and then removes the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, WriterProperties, write_deltalake

from flinkish.common.errors import SinkError
from flinkish.datastream.connectors.delta.files import TableFiles

#: Hidden from readers of the table and from VACUUM, as its name begins with an underscore.
_FOLDER: Final = "_flinkish"
#: Column of staged rows: whether to delete the row with this key.
DELETED: Final = "__flinkish_deleted"
_ORDER: Final = "__flinkish_order"

#: deltalake's names of compressions, by those of DeltaSink. In Parquet, what pyarrow names lz4 is LZ4_RAW.
_CODECS: Final[dict[str, Any]] = {"snappy": "SNAPPY", "zstd": "ZSTD", "gzip": "GZIP", "lz4": "LZ4_RAW", "none": "UNCOMPRESSED"}


def staging_folder(lineage: str, sink_uid: str) -> str:
    """Return the folder for the staged files of a sink, relative to the table."""
    return f"{_FOLDER}/{hashlib.sha256(f'{lineage}/{sink_uid}'.encode()).hexdigest()[:24]}"


def is_staged_path(path: str) -> bool:
    """Return whether a path, relative to the table, is the path of a staged file."""
    return path.startswith(f"{_FOLDER}/")


def read_staged(files: TableFiles, paths: Sequence[str], keys: Sequence[str]) -> pa.Table:
    """Return the rows of staged files, or only the last row of each key if there are keys."""
    parts = []
    for path in paths:
        try:
            with pq.ParquetFile(files.source(path)[0], page_checksum_verification=True, pre_buffer=files.is_remote) as file:
                parts.append(file.read())
        except (pa.ArrowException, OSError) as error:
            raise SinkError(f"DeltaSink cannot read {files.path(path)}, which it wrote: {error}") from error
    rows = pa.concat_tables(parts)
    if keys:
        # A file contains the rows of several epochs, and a key may occur in each of them.
        numbered = rows.select(list(keys)).append_column(_ORDER, pa.array(range(rows.num_rows), pa.int64()))
        last = numbered.group_by(list(keys)).aggregate([(_ORDER, "max")]).column(f"{_ORDER}_max").combine_chunks()
        rows = rows.take(last.sort())
    return rows


def writer_properties(compression: str) -> WriterProperties:
    """Return the properties of the files that deltalake writes; `compression` is one of writer.COMPRESSIONS."""
    return WriterProperties(compression=_CODECS[compression])


def merge(table: DeltaTable, rows: pa.Table, keys: Sequence[str], **how: Any) -> None:
    """Make one commit that replaces or deletes the rows of the table that have these keys, and inserts the others.

    Columns of the table that the rows lack become null. `how`: deltalake's properties of the commit and of its files.
    """
    columns = {_quoted(name): f"s.{_quoted(name)}" for name in rows.schema.names if name != DELETED}
    predicate = " AND ".join(f"t.{_quoted(key)} = s.{_quoted(key)}" for key in keys)
    lacking = {_quoted(field.name): "NULL" for field in table.schema().fields if field.name not in rows.schema.names}
    deleted = f"s.{_quoted(DELETED)}"
    (
        table.merge(rows, predicate, source_alias="s", target_alias="t", **how)
        .when_matched_delete(deleted)
        .when_matched_update({**columns, **lacking})
        .when_not_matched_insert(columns, f"NOT {deleted}")
        .execute()
    )


def append(table: DeltaTable, rows: pa.Table, *, replace: bool, **how: Any) -> None:
    """Make one commit that appends rows, or replaces all rows of the table. deltalake computes generated columns."""
    write_deltalake(table, rows.drop_columns([DELETED]), mode="overwrite" if replace else "append", **how)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
