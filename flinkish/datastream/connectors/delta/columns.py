"""The columns that a source reads: their types, their places in files, and checks whether another schema has the same columns."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flinkish.common.errors import InvalidProgramError, SourceError
from flinkish.common.kinds import fields_of
from flinkish.common.typeinfo import DecimalTypeInfo, TypeInformation, Types
from flinkish.datastream.connectors._arrow import arrow_type, is_list, is_widened, reading_type, widened
from flinkish.datastream.connectors._spark_types import SIMPLE
from flinkish.datastream.connectors.delta.log import Metadata

_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaColumn:
    """A column that a source reads."""

    name: str
    #: The field of Delta's schema, decoded: its type, and its name or id in files.
    field: dict[str, Any]
    #: The type of the values that the source emits.
    type_info: TypeInformation


def physical_name(field: dict[str, Any]) -> str:
    """Return the name of a field in files and partition values."""
    name: str = field.get("metadata", {}).get("delta.columnMapping.physicalName", field["name"])
    return name


def columns_of(
    metadata: Metadata, names: Sequence[str] | None, row_type: TypeInformation | None, table: str
) -> tuple[DeltaColumn, ...]:
    """Return the columns to read: those in `names`, or those of a row type, or all.

    Raises InvalidProgramError for a column that the table lacks, or that cannot be read as its type in the row type.
    """
    fields = {field["name"]: field for field in metadata.schema["fields"]}
    declared: dict[str, TypeInformation] = {}
    if row_type is not None:
        found = fields_of(row_type)
        assert found is not None
        declared = dict(zip(*found, strict=True))
        names = tuple(declared)
    if names is None:
        names = tuple(fields)
    missing = [name for name in names if name not in fields]
    if missing:
        raise InvalidProgramError(f"DeltaSource: the table {table} has no columns {missing}; it has {list(fields)}")
    columns = []
    for name in names:
        field = fields[name]
        own = type_of(field["type"], f"column {name!r} of {table}")
        wanted = declared.get(name, own)
        if wanted is not own and reading_type(arrow_of(field["type"]), wanted) is None:
            raise InvalidProgramError(
                f"DeltaSource: column {name!r} of {table} is {shown(field['type'])}, which cannot be read as {wanted}",
                hint=f"declare {own}.",
            )
        columns.append(DeltaColumn(name=name, field=field, type_info=wanted))
    return tuple(columns)


def type_of(part: Any, what: str) -> TypeInformation:
    """Return the type of flinkish for a type of Delta. Raises InvalidProgramError, which names the column, if there is none."""
    if isinstance(part, str):
        if part in SIMPLE:
            return SIMPLE[part][0]()
        decimal = _DECIMAL.fullmatch(part)
        if decimal:
            return DecimalTypeInfo(int(decimal[1]), int(decimal[2]))
        raise InvalidProgramError(
            f"DeltaSource: {what} is of Delta's type {part}, for which flinkish has no type",
            hint="leave it out with column_names(...).",
        )
    match part["type"]:
        case "array":
            return Types.LIST(type_of(part["elementType"], f"{what}, its elements,"))
        case "map":
            key, value = type_of(part["keyType"], f"{what}, its keys,"), type_of(part["valueType"], f"{what}, its values,")
            return Types.MAP(key, value)
        case _:
            names = [field["name"] for field in part["fields"]]
            types = [type_of(field["type"], f"{what}, its field {field['name']!r},") for field in part["fields"]]
            return Types.ROW_NAMED(names, types)


def arrow_of(part: Any) -> pa.DataType:
    """Return the Arrow type for a type of Delta, with logical names; raises ValueError if there is none."""
    return arrow_type(type_of(part, "a column"), "a column", zoned=False)


def shown(part: Any) -> str:
    """Return a Delta type as Spark shows it, without nullability."""
    if isinstance(part, str):
        return part
    match part["type"]:
        case "array":
            return f"array<{shown(part['elementType'])}>"
        case "map":
            return f"map<{shown(part['keyType'])}, {shown(part['valueType'])}>"
        case _:
            fields = [f"{field['name']}: {shown(field['type'])}" for field in part["fields"]]
            return f"struct<{', '.join(fields)}>"


def partition_value(text: str | None, part: str, what: str) -> Any:
    """Return a partition value as the Python value that Arrow's `to_pylist` returns for the type; raises SourceError."""
    if text is None or text == "":
        return None
    arrow = arrow_of(part)
    try:
        if part == "binary":
            return text.encode()
        if part in ("timestamp", "timestamp_ntz"):
            time = datetime.datetime.fromisoformat(text)
            zone = datetime.UTC if part == "timestamp" else None
            return time.astimezone(zone) if time.tzinfo is not None and zone is not None else time.replace(tzinfo=zone)
        return pa.scalar(text).cast(arrow).as_py()
    except (pa.ArrowException, ValueError) as error:
        raise SourceError(f"DeltaSource: {what} has the partition value {text!r}, which is not a valid {part}") from error


# -- from files to columns -----------------------------------------------------------------------------------------------------


def find_field(fields: Sequence[pa.Field], field: dict[str, Any], *, by_id: bool) -> int | None:
    """Return the index of a column of the table in a file; None if the file lacks it, because it is older than the column."""
    if by_id:
        wanted = str(field.get("metadata", {}).get("delta.columnMapping.id")).encode()
        for index, have in enumerate(fields):
            if (have.metadata or {}).get(b"PARQUET:field_id") == wanted:
                return index
        return None
    name = physical_name(field)
    return position_of(name, [have.name for have in fields])


def position_of(name: str, names: Sequence[str]) -> int | None:
    """Return the index of a name; None if it is missing.

    As in Spark, upper and lower case count only if both are there: the files of a converted table may spell a column differently.
    """
    if name in names:
        return names.index(name)
    folded = name.lower()
    return next((index for index, other in enumerate(names) if other.lower() == folded), None)


def as_column(array: pa.Array, part: Any, *, by_id: bool) -> pa.Array:
    """Convert a column of a file to the type of the table: rename fields, add missing ones as null, widen numbers.

    Raises ValueError if a value does not fit.
    """
    if isinstance(part, str):
        return widened(array, arrow_of(part))
    if is_list(array.type) and not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    if array.offset:
        array = array.take(pa.array(range(len(array))))
    nulls = array.is_null() if array.null_count else None
    match part["type"]:
        case "array":
            return pa.ListArray.from_arrays(array.offsets, as_column(array.values, part["elementType"], by_id=by_id), mask=nulls)
        case "map":
            keys = as_column(array.keys, part["keyType"], by_id=by_id)
            items = as_column(array.items, part["valueType"], by_id=by_id)
            return pa.MapArray.from_arrays(array.offsets, keys, items, mask=nulls)
        case _:
            have = [array.type.field(index) for index in range(array.type.num_fields)]
            parts = []
            for field in part["fields"]:
                index = find_field(have, field, by_id=by_id)
                if index is None:
                    parts.append(pa.nulls(len(array), arrow_of(field["type"])))
                else:
                    parts.append(as_column(array.field(index), field["type"], by_id=by_id))
            return pa.StructArray.from_arrays(parts, names=[field["name"] for field in part["fields"]], mask=nulls)


def readable(have: pa.DataType, part: Any, *, by_id: bool) -> bool:
    """Return whether `as_column` can convert a type of a file to a type of the table."""
    if isinstance(part, str):
        return is_widened(have.value_type if pa.types.is_dictionary(have) else have, arrow_of(part))
    match part["type"]:
        case "array":
            return is_list(have) and readable(have.value_type, part["elementType"], by_id=by_id)
        case "map":
            return (
                bool(pa.types.is_map(have))
                and readable(have.key_type, part["keyType"], by_id=by_id)
                and readable(have.item_type, part["valueType"], by_id=by_id)
            )
        case _:
            if not pa.types.is_struct(have):
                return False
            fields = [have.field(index) for index in range(have.num_fields)]
            found = [(find_field(fields, field, by_id=by_id), field) for field in part["fields"]]
            return all(index is None or readable(fields[index].type, field["type"], by_id=by_id) for index, field in found)


# -- changes of the schema -----------------------------------------------------------------------------------------------------


def changed_columns(columns: Sequence[DeltaColumn], metadata: Metadata, *, all_columns: bool) -> list[str]:
    """Describe how a newer schema differs from the columns that the source reads; empty if the job can continue."""
    fields = {field["name"]: field for field in metadata.schema["fields"]}
    changes = []
    for column in columns:
        field = fields.get(column.name)
        if field is None:
            renamed = [name for name, other in fields.items() if physical_name(other) == physical_name(column.field)]
            changes.append(f"column {column.name!r} was {f'renamed to {renamed[0]!r}' if renamed else 'dropped'}")
        elif physical_name(field) != physical_name(column.field):
            changes.append(f"column {column.name!r} was replaced by another one")
        elif _plain(field["type"]) != _plain(column.field["type"]):
            changes.append(f"column {column.name!r} is {shown(field['type'])} now, and was {shown(column.field['type'])}")
    if all_columns:
        added = [name for name in fields if name not in {column.name for column in columns}]
        changes += [f"column {name!r} was added" for name in added if f"renamed to {name!r}" not in " ".join(changes)]
    return changes


def unreadable_columns(columns: Sequence[DeltaColumn], metadata: Metadata) -> list[str]:
    """Describe the columns of an older schema that cannot be read as the columns that the source reads."""
    fields = {physical_name(field): field for field in metadata.schema["fields"]}
    problems = []
    for column in columns:
        field = fields.get(physical_name(column.field))
        if field is None or _plain(field["type"]) == _plain(column.field["type"]):
            continue
        try:
            fits = readable(arrow_of(_physical(field["type"])), column.field["type"], by_id=False)
        except ValueError:
            fits = False
        if not fits:
            problems.append(f"column {column.name!r} was {shown(field['type'])} then, and is {shown(column.field['type'])}")
    return problems


def _plain(part: Any) -> Any:
    """Return a type without the parts that readers ignore: comments and nullability."""
    if isinstance(part, str):
        return part
    match part["type"]:
        case "array":
            return ("array", _plain(part["elementType"]))
        case "map":
            return ("map", _plain(part["keyType"]), _plain(part["valueType"]))
        case _:
            return tuple((field["name"], physical_name(field), _plain(field["type"])) for field in part["fields"])


def _physical(part: Any) -> Any:
    """Return a type with the names of its fields in files."""
    if isinstance(part, str):
        return part
    match part["type"]:
        case "array":
            return {**part, "elementType": _physical(part["elementType"])}
        case "map":
            return {**part, "keyType": _physical(part["keyType"]), "valueType": _physical(part["valueType"])}
        case _:
            fields = [{**field, "name": physical_name(field), "type": _physical(field["type"])} for field in part["fields"]]
            return {**part, "fields": fields}
