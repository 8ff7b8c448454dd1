"""Parquet files of records with an Avro schema."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.common.errors import SourceError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._arrow import is_widened
from flinkish.datastream.connectors.file_system.avro_arrow import ArrowRecord, arrow_record, of_items
from flinkish.datastream.connectors.file_system.avro_schema import AvroSchema, GenericRecordAvroTypeInfo, avro_schema
from flinkish.datastream.connectors.file_system.avro_writer import RecordPartWriter
from flinkish.datastream.connectors.file_system.file_format import SplitReader
from flinkish.datastream.connectors.file_system.formats import StreamFormat
from flinkish.datastream.connectors.file_system.parquet_format import RowGroupFormat, RowGroupReader
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriter, BulkPartWriterFactory, merge_parquet
from flinkish.datastream.connectors.record_errors import RecordErrors

_BATCH_SIZE: Final = 4096
#: Metadata key under which parquet-avro, and so Flink, stores the schema of the records.
_SCHEMA_KEY: Final = "parquet.avro.schema"
#: Default of parquet-avro.
_COMPRESSION: Final = "none"


class AvroParquetFormat(RowGroupFormat, StreamFormat):
    """Reads Parquet files as records of an Avro schema, as plain Python data.

    Columns are found by name; columns that are not in the schema are ignored, and missing columns have the default of their
    field. As in Flink, this is a StreamFormat.
    """

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = avro_schema(schema, "AvroParquetReaders.for_generic_record")
        arrow_record(self.schema)

    def produced_type(self) -> TypeInformation:
        return GenericRecordAvroTypeInfo(self.schema)

    def open(self, split: FileSourceSplit, errors: RecordErrors) -> SplitReader:
        return _RecordReader(arrow_record(self.schema), split, errors)


class _RecordReader(RowGroupReader):
    def __init__(self, record: ArrowRecord, split: FileSourceSplit, errors: RecordErrors) -> None:
        self._avro = record
        super().__init__(split, errors, _BATCH_SIZE)

    def columns(self, schema: pa.Schema) -> list[str]:
        missing = [
            name
            for name, part in self._avro.fields
            if name not in schema.names and name not in self._avro.defaults and part.type != pa.null()
        ]
        if missing:
            raise SourceError(
                f"{self.path}: columns {missing} are missing, and have no default in the Avro schema; the file has {schema.names}"
            )
        self._found = [(name, part) for name, part in self._avro.fields if name in schema.names]
        self._absent = {name: self._avro.defaults.get(name) for name, _ in self._avro.fields if name not in schema.names}
        self._names = [name for name, _ in self._avro.fields]
        return [name for name, _ in self._found]

    def column(self, index: int, column: pa.Array) -> pa.Array:
        part = self._found[index][1]
        if not part.nullable and column.null_count:
            raise ValueError("it is null, which the schema does not allow")
        if column.type == part.type:
            return column
        # Arrow would convert anything to text, and a large DOUBLE to infinity. Avro's times are numbers with a logical type.
        annotated = pa.types.is_integer(column.type) and pa.types.is_temporal(part.type)
        if not (pa.types.is_nested(part.type) or annotated or is_widened(column.type, part.type)):
            raise SourceError(f"{self.path}: {self.describe(index, column)}", hint="declare the type that the file has.")
        try:
            return column.cast(part.type)
        except pa.ArrowInvalid:
            raise
        except pa.ArrowException as error:
            raise SourceError(
                f"{self.path}: {self.describe(index, column)}: {error}", hint="declare the type that the file has."
            ) from error

    def describe(self, index: int, column: pa.Array) -> str:
        name, part = self._found[index]
        return f"column {name!r} is {column.type} in the file, which cannot be read as {part.type}"

    def rows(self, columns: list[pa.Array], count: int) -> list[Any]:
        values: dict[str, Sequence[Any]] = {
            name: [copy.deepcopy(default) for _ in range(count)] if isinstance(default, list | dict) else [default] * count
            for name, default in self._absent.items()
        }
        for (name, part), column in zip(self._found, columns, strict=True):
            convert, read = of_items(part.from_arrow), column.to_pylist()
            values[name] = read if convert is None else convert(read)
        ordered = [values[name] for name in self._names]
        return [dict(zip(self._names, row, strict=True)) for row in zip(*ordered, strict=True)] if ordered else [{}] * count


class AvroParquetWriterFactory(BulkPartWriterFactory):
    """Writer factory of Parquet files with records of an Avro schema: plain Python data, or Rows."""

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = avro_schema(schema, "AvroParquetWriters.for_generic_record")
        arrow_record(self.schema)

    def create(self, input_type: TypeInformation) -> BulkPartWriter:
        return _RecordWriter(self.schema)

    def merge(self, paths: Sequence[str], target: str) -> None:
        merge_parquet(paths, target, _COMPRESSION)


class _RecordWriter(RecordPartWriter):
    def __init__(self, schema: AvroSchema) -> None:
        super().__init__(schema)
        self._record = arrow_record(schema)
        self._arrow = self._record.schema.with_metadata({_SCHEMA_KEY: str(schema)})

    def write_file(self, chunks: Sequence[bytes], path: str) -> None:
        records = list(self._records.decode(chunks))
        columns = []
        for name, part in self._record.fields:
            values, convert = [record[name] for record in records], of_items(part.to_arrow)
            columns.append(pa.array(values if convert is None else convert(values), type=part.type))
        table = pa.Table.from_arrays(columns, schema=self._arrow)
        pq.write_table(table, path, compression=_COMPRESSION, write_page_checksum=True)
