"""ORC with PyFlink's names: writers of files of rows; as in PyFlink, there is no format to read them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import orc

from flinkish.common.configuration import Configuration
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.serialization import BulkWriterFactory
from flinkish.common.typeinfo import RowTypeInfo, TypeInformation
from flinkish.datastream.connectors.file_system.compaction import KeepApart
from flinkish.datastream.connectors.file_system.writer_factories import ArrowWriterFactory, Timestamps
from flinkish.datastream.formats.parquet import settings_of
from flinkish.table.types import DataType, row_type_info

__all__ = ["OrcBulkWriters"]

_COMPRESSION_KEY: Final = "orc.compress"
_STRIPE_SIZE_KEY: Final = "orc.stripe.size"
_COMPRESSIONS: Final = ("NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD")
#: ORC's default stripe size, in bytes.
_STRIPE_SIZE: Final = 64 * 1024 * 1024


class OrcBulkWriters:
    """Writes ORC files of rows."""

    @staticmethod
    def for_row_type(
        row_type: DataType | TypeInformation,
        writer_properties: Configuration | None = None,
        hadoop_config: Configuration | None = None,
    ) -> BulkWriterFactory:
        """Return a writer factory for FileSink.for_bulk_format; the records are Rows, tuples or dicts.

        `writer_properties` may contain the keys orc.compress (NONE, ZLIB, SNAPPY, LZ4 or ZSTD) and orc.stripe.size (bytes).
        `hadoop_config` must be empty. Other keys raise UnsupportedError.
        With enable_compact, files with a time before 1677 or after 2262 are not merged, as Arrow cannot read them.
        Differs from Flink: SQL_TIMESTAMP is stored without zone.
        """
        settings_of(hadoop_config, "hadoop_config of OrcBulkWriters", ())
        settings = settings_of(writer_properties, "writer_properties of OrcBulkWriters", (_COMPRESSION_KEY, _STRIPE_SIZE_KEY))
        return OrcWriterFactory(
            row_type_info(row_type, "row_type of OrcBulkWriters"),
            compression=settings.get(_COMPRESSION_KEY, "ZLIB").upper(),
            stripe_size=settings.get(_STRIPE_SIZE_KEY, str(_STRIPE_SIZE)),
        )


class OrcWriterFactory(ArrowWriterFactory):
    """ORC files of rows or tuples."""

    format_name = "ORC"
    time_of_day = False

    def __init__(self, row_type: RowTypeInfo, *, compression: str, stripe_size: str) -> None:
        super().__init__(row_type, Timestamps.WITHOUT_ZONE)
        if compression not in _COMPRESSIONS:
            raise InvalidArgumentError(f"{_COMPRESSION_KEY} must be one of {', '.join(_COMPRESSIONS)}; got {compression!r}")
        if not stripe_size.isdecimal() or int(stripe_size) < 1:
            raise InvalidArgumentError(f"{_STRIPE_SIZE_KEY} must be a number of bytes; got {stripe_size!r}")
        self._options: dict[str, Any] = {
            "compression": "uncompressed" if compression == "NONE" else compression.lower(),
            "stripe_size": int(stripe_size),
        }

    def write_table(self, table: pa.Table, path: str) -> None:
        orc.write_table(table, path, **self._options)

    def merge(self, paths: Sequence[str], target: str) -> None:
        try:
            with orc.ORCWriter(target, **self._options) as writer:
                for path in paths:
                    writer.write(orc.read_table(path))
        except pa.ArrowInvalid as error:
            if "out of range for nanosecond" not in str(error):
                raise
            os.unlink(target)
            # Other readers of ORC have no such limit.
            raise KeepApart(f"Arrow reads times of ORC files only from 1677 to 2262: {error}") from error
