"""AvroSchema, and the type of records with such a schema."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import fastavro
import fastavro.schema
from fastavro.validation import ValidationError, validate

from flinkish.common.arguments import instance_of
from flinkish.common.errors import InvalidArgumentError, TypeMismatchError
from flinkish.common.typeinfo import PickledBytesTypeInfo

#: Maximum number of characters of a record in an error.
_SHOWN = 200


class AvroSchema:
    """An Avro schema; its printed form is JSON.

    >>> print(AvroSchema.parse_string('{"type": "array", "items": "long"}'))
    {"type":"array","items":"long"}
    """

    def __init__(self, schema: Any) -> None:
        """`schema`: JSON text, or the decoded JSON. Raises InvalidArgumentError if it is no Avro schema."""
        try:
            self.definition: Any = json.loads(schema) if isinstance(schema, str) else schema
            self._text = json.dumps(self.definition, separators=(",", ":"))
            #: The named types in the schema, as parsed by fastavro.
            self.named: dict[str, Any] = {}
            #: The schema as parsed by fastavro.
            self.parsed: Any = fastavro.parse_schema(json.loads(self._text), named_schemas=self.named)
        except (ValueError, TypeError, fastavro.schema.SchemaParseException) as error:
            reason = f"unknown type {error}" if isinstance(error, fastavro.schema.UnknownType) else str(error)
            shown = str(schema)
            raise InvalidArgumentError(
                f"not an Avro schema: {reason}; got {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}"
            ) from error

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Return the schema that a JSON text describes."""
        if not isinstance(json_schema, str):
            raise InvalidArgumentError(f"parse_string takes JSON text; got {json_schema!r}")
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Return the schema that a file (.avsc) describes."""
        try:
            with open(os.fspath(file_path), encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(f"cannot read the Avro schema {file_path!r}: {error}") from error
        return AvroSchema(text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"AvroSchema({self._text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self.definition == other.definition

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> Any:
        return AvroSchema, (self._text,)


def avro_schema(schema: Any, what: str) -> AvroSchema:
    """Return the schema; raise InvalidArgumentError if it is no AvroSchema."""
    return instance_of(f"the schema of {what}", schema, AvroSchema, hint="AvroSchema.parse_string(json).")


class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """Plain Python data of an Avro schema, as in fastavro: a dict for a record, a list for an array and so on.

    The results of operators are checked against the schema. Times are `datetime`s (timestamps in UTC), decimals are `Decimal`s.
    Differs from Flink: from_collection accepts this type, too.
    """

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = avro_schema(schema, "GenericRecordAvroTypeInfo")

    @property
    def schema(self) -> AvroSchema:
        """The schema."""
        return self._schema

    def checker(self) -> Callable[[Any], Any]:
        schema = self._schema

        def check(value: Any) -> Any:
            reason = mismatch(value, schema)
            if reason is not None:
                raise record_error(value, reason)
            return value

        return check

    def _parts(self) -> tuple[Any, ...]:
        return (str(self._schema),)

    def __repr__(self) -> str:
        return f'GenericRecord("{self._schema}")'


def mismatch(value: Any, schema: AvroSchema) -> str | None:
    """Return the reason why a value does not fit a schema; None if it fits."""
    try:
        if validate(value, schema.parsed, raise_errors=False):
            return None
        validate(value, schema.definition)
    except ValidationError as error:
        return "; ".join(str(part).strip() for part in error.errors)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        return str(error)
    return None


def record_error(value: Any, reason: str) -> TypeMismatchError:
    """Return the error for a record that does not fit its schema."""
    shown = repr(value)
    return TypeMismatchError(
        f"the record is not of its Avro schema: {reason}; got {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}"
    )
