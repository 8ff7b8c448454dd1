"""Parquet with PyFlink's names: rows by a row type, and records by an Avro schema.

A row type may be given as `flinkish.table.DataTypes.ROW` or as `flinkish.common.Types.ROW_NAMED`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from flinkish.common.arguments import bool_of, instance_of
from flinkish.common.configuration import Configuration
from flinkish.common.errors import InvalidArgumentError, UnsupportedError
from flinkish.common.serialization import BulkWriterFactory
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system.avro_parquet import AvroParquetFormat, AvroParquetWriterFactory
from flinkish.datastream.connectors.file_system.avro_schema import AvroSchema
from flinkish.datastream.connectors.file_system.formats import StreamFormat
from flinkish.datastream.connectors.file_system.parquet_format import ParquetFormat
from flinkish.datastream.connectors.file_system.writer_factories import COMPRESSIONS, ParquetWriterFactory, Timestamps
from flinkish.table.types import DataType, row_type_info

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]

_COMPRESSION_KEY: Final = "parquet.compression"


def settings_of(given: Any, what: str, known: Collection[str]) -> dict[str, str]:
    """Return the settings of a Configuration; raise UnsupportedError for keys that are not in `known`."""
    if given is None:
        return {}
    settings = instance_of(what, given, Configuration).to_dict()
    unknown = sorted(settings.keys() - set(known))
    if unknown:
        raise UnsupportedError(
            f"{what}: {unknown} are not supported, as there is no Hadoop here",
            hint=f"known are {', '.join(known)}." if known else "leave it out.",
        )
    return settings


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Rows of Parquet files, for FileSource.for_bulk_file_format.

    `hadoop_config` must be empty; any key raises UnsupportedError. `is_utc_timestamp`: whether points in time in the file become
    SQL_TIMESTAMP values in UTC (True) or in the machine's zone (False). `is_case_sensitive`: whether column names are compared
    with their case.
    Differs from Flink: arrays, maps and rows are read, too; a column that is not in the file is an error (Flink reads None).
    """

    def __init__(
        self,
        row_type: DataType | TypeInformation,
        hadoop_config: Configuration | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        super().__init__(row_type_info(row_type, "row_type of ParquetColumnarRowInputFormat"), batch_size=batch_size)
        settings_of(hadoop_config, "hadoop_config of ParquetColumnarRowInputFormat", ())
        self.local_timestamps = not bool_of("is_utc_timestamp", is_utc_timestamp)
        self.case_sensitive = bool_of("is_case_sensitive", is_case_sensitive)


class ParquetBulkWriters:
    """Writes Parquet files of rows."""

    @staticmethod
    def for_row_type(
        row_type: DataType | TypeInformation, hadoop_config: Configuration | None = None, utc_timestamp: bool = False
    ) -> BulkWriterFactory:
        """Return a writer factory for FileSink.for_bulk_format; the records are Rows, tuples or dicts.

        `hadoop_config` may contain only the key parquet.compression. `utc_timestamp`: whether SQL_TIMESTAMP is stored as a point
        in time in UTC (True) or in the zone of the machine that writes (False).
        Differs from Flink: times are stored as 64-bit numbers of microseconds, not as INT96.
        """
        settings = settings_of(hadoop_config, "hadoop_config of ParquetBulkWriters", (_COMPRESSION_KEY,))
        compression = settings.get(_COMPRESSION_KEY, "snappy").lower().replace("uncompressed", "none")
        if compression not in COMPRESSIONS:
            raise InvalidArgumentError(f"{_COMPRESSION_KEY} must be one of {', '.join(COMPRESSIONS)}; got {compression!r}")
        timestamps = Timestamps.UTC if bool_of("utc_timestamp", utc_timestamp) else Timestamps.LOCAL
        checked = row_type_info(row_type, "row_type of ParquetBulkWriters")
        return ParquetWriterFactory(checked, compression=compression, timestamps=timestamps)


class AvroParquetReaders:
    """Reads Parquet files as records of an Avro schema."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Return a format for FileSource.for_record_stream_format; records are plain Python data, see formats.avro."""
        return AvroParquetFormat(schema)


class AvroParquetWriters:
    """Writes records of an Avro schema to Parquet files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Return a writer factory for FileSink.for_bulk_format; the records are plain Python data of the schema, or Rows."""
        return AvroParquetWriterFactory(schema)
