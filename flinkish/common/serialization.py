"""Schemas and encoders that convert records to bytes and back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from flinkish.common.absent import AbsentMember, add_getattr
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.arguments import bytes_of, charset_of, instance_of, int_of
from flinkish.common.errors import TypeMismatchError
from flinkish.common.text import text_function
from flinkish.common.typeinfo import TypeInformation, Types

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkish.common.columns import Columns

#: Character sets without a byte order mark, by those with one; UTF-16 and UTF-32 are big-endian then, as in Java.
WITHOUT_MARK: Final = {"utf-16": "utf-16-be", "utf-32": "utf-32-be", "utf-8-sig": "utf-8"}


class SerializationSchema:
    """Base class for schemas that turn records into bytes: implement `serialize`. (In PyFlink it wraps a Java object.)"""

    #: Why records are encoded one by one; None if `serialize_columns` encodes many at once.
    why_records: str | None = "the schema encodes records one by one"

    def open(self) -> None:
        """Get ready; called once in each task."""

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of a record."""
        raise NotImplementedError(f"{type(self).__name__} must implement serialize(element) -> bytes")

    def serialize_columns(self, columns: Columns) -> list[bytes] | None:
        """Return the bytes of each record; None if they must be encoded one by one. Only called if `why_records` is None."""
        return None


class DeserializationSchema:
    """Base class for schemas that turn bytes into records: implement `deserialize`. (In PyFlink it wraps a Java object.)"""

    #: Why messages are decoded one by one; None if `deserialize_batch` decodes many at once.
    why_records: str | None = "the schema decodes messages one by one"
    #: Whether records are new ones that nothing else refers to, so that they need not be copied.
    makes_new_records: bool = False

    def open(self) -> None:
        """Get ready; called once in each task."""

    def deserialize(self, message: bytes) -> Any:
        """Return the record that the bytes encode; raise ValueError if they encode none."""
        raise NotImplementedError(f"{type(self).__name__} must implement deserialize(message)")

    def deserialize_batch(self, messages: Sequence[bytes]) -> pa.RecordBatch | None:
        """Return the records of messages as a batch of Arrow; None if they must be decoded one by one, as when one is malformed.

        Only called if `why_records` is None. The batch has the layout of the produced type.
        """
        return None

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Return whether the stream ends before this record.

        No connector of flinkish can end a stream this way, so they refuse schemas that override this method.
        """
        return False

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""
        return Types.PICKLED_BYTE_ARRAY()


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text in a character set; `charset` is a name that Python's codecs know.

    >>> SimpleStringSchema().deserialize(b"gr\\xc3\\xbcn")
    'grün'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = charset_of("charset", charset)

    def serialize(self, element: Any) -> bytes:
        if not isinstance(element, str):
            raise TypeMismatchError(f"SimpleStringSchema writes str; got {element!r} of type {type(element).__name__}")
        return element.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        return bytes(message).decode(self._charset)

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        # A subclass may decode in another way.
        return None if type(self) is SimpleStringSchema and self._charset == "utf-8" else super().why_records

    def deserialize_batch(self, messages: Sequence[bytes]) -> pa.RecordBatch | None:
        import pyarrow as pa

        try:
            return pa.record_batch([pa.array(messages, pa.binary()).cast(pa.string())], ["value"])
        except pa.ArrowInvalid:
            return None

    def serialize_columns(self, columns: Columns) -> list[bytes] | None:
        return _whole_records(columns, Types.STRING(), str.encode)

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def serialize(self, element: Any) -> bytes:
        if not isinstance(element, (bytes, bytearray)):
            raise TypeMismatchError(f"ByteArraySchema writes bytes; got {element!r} of type {type(element).__name__}")
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return bytes(message)

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        return None if type(self) is ByteArraySchema else super().why_records

    def deserialize_batch(self, messages: Sequence[bytes]) -> pa.RecordBatch | None:
        import pyarrow as pa

        return pa.record_batch([pa.array(messages, pa.binary())], ["value"])

    def serialize_columns(self, columns: Columns) -> list[bytes] | None:
        return _whole_records(columns, self.get_produced_type(), bytes)

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


def _whole_records(columns: Columns, type_info: TypeInformation, encode: Callable[[Any], bytes]) -> list[bytes] | None:
    """Return the bytes of records that have no fields; None if they are of another type."""
    if columns.layout.has_fields or columns.layout.type_info != type_info:
        return None
    return list(map(encode, columns.column(0).to_pylist()))


class RowFieldExtractorSchema(SerializationSchema):
    """Writes the bytes in one field of a row, given by its position; for example as the key of a message."""

    def __init__(self, field_index: int) -> None:
        self._field_index = int_of("field_index", field_index, minimum=0)

    def serialize(self, element: Any) -> bytes:
        try:
            value = element[self._field_index]
        except (IndexError, TypeError, KeyError) as error:
            raise TypeMismatchError(
                f"no field {self._field_index} in {element!r}, which RowFieldExtractorSchema is to write"
            ) from error
        if value is None:
            return b""
        if not isinstance(value, (bytes, bytearray)):
            raise TypeMismatchError(
                f"RowFieldExtractorSchema needs bytes in field {self._field_index}; got {value!r} of type {type(value).__name__}"
            )
        return bytes(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowFieldExtractorSchema) and self._field_index == other._field_index

    def __hash__(self) -> int:
        return hash((RowFieldExtractorSchema, self._field_index))

    def __repr__(self) -> str:
        return f"RowFieldExtractorSchema({self._field_index})"


class Encoder:
    """Writes records into a file, one after another; the argument of FileSink.for_row_format."""

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return an encoder that writes lines: the printed form of each record and a line feed."""
        return _SimpleStringEncoder(charset_name)

    @staticmethod
    def of_schema(schema: SerializationSchema, delimiter: bytes = b"\n") -> Encoder:
        """Return an encoder that writes each record with a schema, followed by a delimiter. Not in PyFlink."""
        return _SchemaEncoder(schema, delimiter)

    #: Why records are encoded one by one; None if `encode_columns` encodes many at once.
    why_records: str | None = "the encoder encodes records one by one"

    @abstractmethod
    def encode_function(self, type_info: TypeInformation) -> Callable[[Any], bytes]:
        """Return the function that encodes a record of the given type as bytes."""
        raise NotImplementedError(f"{type(self).__name__} must implement encode_function(type_info)")

    def encode_columns(self, columns: Columns) -> bytes | None:
        """Return the bytes of all records, one after another; None if they must be encoded one by one.

        Only called if `why_records` is None, after `encode_function`.
        """
        return None


class _SimpleStringEncoder(Encoder):
    why_records = None

    def __init__(self, charset_name: str) -> None:
        charset = charset_of("charset_name", charset_name)
        # A byte order mark would precede each record.
        self._charset = WITHOUT_MARK.get(charset, charset)

    def encode_function(self, type_info: TypeInformation) -> Callable[[Any], bytes]:
        text, charset = text_function(type_info), self._charset
        return lambda value: (text(value) + "\n").encode(charset)

    def encode_columns(self, columns: Columns) -> bytes | None:
        text = text_function(columns.layout.type_info)
        try:
            return "".join([text(value) + "\n" for value in columns.records()]).encode(self._charset)
        except ValueError:  # such as a text that the character set lacks: the error is to name its record
            return None


class _SchemaEncoder(Encoder):
    def __init__(self, schema: SerializationSchema, delimiter: bytes) -> None:
        instance_of("Encoder.of_schema()", schema, SerializationSchema)
        self._schema = schema
        self._delimiter = bytes_of("the delimiter of Encoder.of_schema()", delimiter)

    def encode_function(self, type_info: TypeInformation) -> Callable[[Any], bytes]:
        self._schema.open()
        serialize, delimiter = self._schema.serialize, self._delimiter
        return lambda value: serialize(value) + delimiter

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        return self._schema.why_records

    def encode_columns(self, columns: Columns) -> bytes | None:
        encoded = self._schema.serialize_columns(columns)
        return None if encoded is None else self._delimiter.join([*encoded, b""])


class BulkWriterFactory:
    """Factory of writers for formats that store many records together, such as Parquet; the argument of FileSink.for_bulk_format.

    The formats are in flinkish.datastream.formats and flinkish.datastream.connectors.file_system.
    """

    get_java_object = AbsentMember(JAVA_OBJECT)


add_getattr(__name__)
