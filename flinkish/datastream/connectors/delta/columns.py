"""The columns that a source reads: their types, their places in files, and checks whether another schema has the same columns."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa

from flinkish.common.arguments import check
from flinkish.common.arrow_types import arrow_type, is_list, is_widened, reading_type, widened
from flinkish.common.errors import InvalidProgramError, SourceError
from flinkish.common.kinds import fields_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._spark_types import bare, type_of
from flinkish.datastream.connectors.delta.log import Metadata


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
    """Return the columns to read: the columns in `names`, or the columns of a row type, or all columns.

    Raises InvalidProgramError for a column that the table lacks, or that cannot be read as its type in the row type.
    """
    fields = {field["name"]: field for field in metadata.schema["fields"]}
    declared = {} if row_type is None else dict(zip(*(fields_of(row_type) or ((), ())), strict=True))
    if names is None:
        names = tuple(fields if row_type is None else declared)
    missing = [name for name in names if name not in fields]
    check(not missing, f"DeltaSource: the table {table} has no columns {missing}; it has {list(fields)}")
    columns = []
    for name in names:
        field = fields[name]
        own = _type_of(field["type"], name, table)
        wanted = declared.get(name, own)
        if wanted is not own and reading_type(arrow_of(field["type"]), wanted) is None:
            raise InvalidProgramError(
                f"DeltaSource: column {name!r} of {table} is {shown(field['type'])}, which cannot be read as {wanted}",
                hint=f"declare {own}.",
            )
        columns.append(DeltaColumn(name=name, field=field, type_info=wanted))
    return tuple(columns)


def _type_of(part: Any, name: str, table: str, name_of: Callable[[dict[str, Any]], str] = itemgetter("name")) -> TypeInformation:
    """Return the type of flinkish for a type of Delta. Raises InvalidProgramError, which names the column, if there is none."""

    def unsupported(path: str, found: str) -> InvalidProgramError:
        return InvalidProgramError(
            f"DeltaSource: column {path!r} of {table} is of Delta's type {found}, for which flinkish has no type",
            hint="leave it out with column_names(...).",
        )

    return type_of(part, name, unsupported, name_of=name_of)


def arrow_of(part: Any, name_of: Callable[[dict[str, Any]], str] = itemgetter("name")) -> pa.DataType:
    """Return the Arrow type for a type of Delta, by default with logical names; raises ValueError if there is none."""
    return arrow_type(_type_of(part, "", "a table", name_of), "a column", zoned=False)


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
            return f"struct<{columns_shown(part['fields'])}>"


def columns_shown(fields: Iterable[dict[str, Any]]) -> str:
    """Return the names and types of fields as text."""
    return ", ".join(f"{field['name']}: {shown(field['type'])}" for field in fields)


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


def find_field(fields: Sequence[pa.Field], field: dict[str, Any], *, by_id: bool) -> int | None:
    """Return the index of a column of the table in a file; None if the file lacks it, because it is older than the column."""
    if by_id:
        wanted = str(field.get("metadata", {}).get("delta.columnMapping.id")).encode()
        return next((i for i, have in enumerate(fields) if (have.metadata or {}).get(b"PARQUET:field_id") == wanted), None)
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

    Raises ValueError if the column's type cannot be read as the table's type, or if a value does not fit.
    """
    have = array.type
    if isinstance(part, str):
        wanted = arrow_of(part)
        if not is_widened(have.value_type if pa.types.is_dictionary(have) else have, wanted):
            raise ValueError(f"{have} cannot be read as {part}")
        return widened(array, wanted)
    if is_list(have) and not pa.types.is_list(have):
        array = array.cast(pa.list_(have.value_type))
    if array.offset:
        array = array.take(pa.array(range(len(array))))
    nulls = array.is_null() if array.null_count else None
    match part["type"]:
        case "array" if is_list(have):
            return pa.ListArray.from_arrays(array.offsets, as_column(array.values, part["elementType"], by_id=by_id), mask=nulls)
        case "map" if pa.types.is_map(have):
            keys = as_column(array.keys, part["keyType"], by_id=by_id)
            items = as_column(array.items, part["valueType"], by_id=by_id)
            return pa.MapArray.from_arrays(array.offsets, keys, items, mask=nulls)
        case "struct" if pa.types.is_struct(have):
            fields = [have.field(index) for index in range(have.num_fields)]
            parts = []
            for field in part["fields"]:
                index = find_field(fields, field, by_id=by_id)
                if index is None:
                    parts.append(pa.nulls(len(array), arrow_of(field["type"])))
                else:
                    parts.append(as_column(array.field(index), field["type"], by_id=by_id))
            return pa.StructArray.from_arrays(parts, names=[field["name"] for field in part["fields"]], mask=nulls)
    raise ValueError(f"{have} cannot be read as {shown(part)}")


def readable(have: pa.DataType, part: Any, *, by_id: bool) -> bool:
    """Return whether `as_column` can convert a type of a file to a type of the table."""
    try:
        as_column(pa.array([], have), part, by_id=by_id)
    except ValueError:
        return False
    return True


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
        elif not _is_same(field["type"], column.field["type"]):
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
        if field is None or _is_same(field["type"], column.field["type"]):
            continue
        try:
            as_column(pa.array([], arrow_of(field["type"], physical_name)), column.field["type"], by_id=False)
        except ValueError:
            problems.append(f"column {column.name!r} was {shown(field['type'])} then, and is {shown(column.field['type'])}")
    return problems


def _is_same(part: Any, other: Any) -> bool:
    """Return whether readers see no difference between two types, nor between the names of their fields in files."""
    return bool(bare(part) == bare(other) and bare(part, physical_name) == bare(other, physical_name))
