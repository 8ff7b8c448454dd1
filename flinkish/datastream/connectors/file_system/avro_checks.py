"""Checks of values, defaults and logical types that fastavro would silently write or read as other values.

fastavro cuts off the decimals of floats, writes a float beyond 32 bits as infinite, writes integers of any size as int, writes
a text as an array of its letters, and drops the zone of a time whose type has none. Of a union it takes the first type that
accepts a value, even if that keeps only a part of it. Defaults are JSON in a schema, and fastavro returns them unconverted in
records: a text for bytes, a number for a time. It takes the logical types from the schema of the file, whatever the declared
schema says.
"""

from __future__ import annotations

import datetime
import io
import math
import struct
from collections.abc import Callable
from typing import Any, Final

import fastavro

from flinkish.common.limits import INT_MAX, INT_MIN, to_float32
from flinkish.datastream.connectors.file_system.avro_schema import AvroSchema

#: Function that raises ValueError for a value that does not fit a schema.
Check = Callable[[Any], None]

#: Key under which fastavro stores the named types of a parsed schema.
_NAMED: Final = "__named_schemas"


def check_of(schema: AvroSchema) -> Check | None:
    """Return the check of values that fastavro does not check; None if there is nothing to check."""
    return _Checks(schema.named).of(schema.parsed)


class _Checks:
    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        #: Checks of records, which may contain themselves.
        self._records: dict[str, list[tuple[str, Check]]] = {}

    def of(self, schema: Any) -> Check | None:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            schema = self._named.get(schema, schema)
        logical, kind = (schema.get("logicalType"), schema["type"]) if isinstance(schema, dict) else (None, schema)
        match kind:
            case "int" | "long" if logical is not None:
                return _check_zone if logical.startswith(("local-timestamp", "time-")) else None
            case "int" | "long":
                return _check_int if kind == "int" else _check_long
            case "float":
                return _check_float
            case "array":
                return _items_check(self.of(schema["items"]))
            case "map":
                return _values_check(self.of(schema["values"]))
            case "record" | "error":
                return self._record(schema)
            case _:
                return None

    def _union(self, branches: list[Any]) -> Check | None:
        checks = [(branch, self.of(branch)) for branch in branches]
        others = [check for branch, check in checks if branch != "null"]
        # Of several branches fastavro itself finds one for a value.
        check = others[0] if len(others) == 1 else _branch_check(branches)
        if check is None:
            return None

        def nullable(value: Any, check: Check = check) -> None:
            if value is not None:
                check(value)

        return nullable

    def _record(self, schema: Any) -> Check:
        name = schema["name"]
        fields = self._records.get(name)
        if fields is None:
            fields = self._records[name] = []
            for field in schema["fields"]:
                check = self.of(field["type"])
                if check is not None:
                    fields.append((field["name"], check))

        def check_fields(value: Any, fields: list[tuple[str, Check]] = fields) -> None:
            for field, check in fields:
                # A missing field has a default, or fastavro refuses the record.
                if field in value:
                    check(value[field])

        return check_fields


def _check_int(value: Any) -> None:
    if value.__class__ is not int:
        _check_long(value)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError(f"{value!r} does not fit into an int")


def _check_long(value: Any) -> None:
    if value.__class__ is not int and (isinstance(value, bool) or not hasattr(value, "__index__")):
        raise ValueError(f"{value!r} is no whole number")


def _check_float(value: Any) -> None:
    try:
        to_float32(value)
    except OverflowError:
        raise ValueError(f"{value!r} does not fit into a float of 32 bits") from None
    except struct.error:
        return  # no number, which fastavro refuses


def _check_zone(value: Any) -> None:
    if getattr(value, "tzinfo", None) is not None:
        raise ValueError(f"{value!r} has a zone, but the schema has none")


def _branch_check(branches: list[Any]) -> Check | None:
    """Return the check that a union keeps all of a number or time; None if there is nothing to check."""
    meanings = {_meaning({"type": branch} if isinstance(branch, str) else branch): branch for branch in branches}
    alike = [branch for meaning, branch in meanings.items() if meaning in _ALIKE]
    # fastavro reads a text as a date.
    texts = "string" in meanings and "date" in list(meanings)[: list(meanings).index("string")]
    doubtful = ("local-timestamp", "time-", "float")
    if len(alike) < 2 and not texts and not any(meaning.startswith(doubtful) for meaning in meanings):
        return None
    timestamps = any("timestamp" in meaning for meaning in meanings)
    if texts:
        alike.append("string")
    union = fastavro.parse_schema(alike)
    classes = (int, float, datetime.datetime, datetime.time, *([str] if texts else []))

    def check_branch(value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, classes):
            return
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, union, value)
        buffer.seek(0)
        stored: Any = fastavro.schemaless_reader(buffer, union, None)
        match value:
            case int():
                kept = not isinstance(stored, float) or stored == value
            case float():
                kept = not math.isinf(stored) or math.isinf(value)
            case datetime.datetime():
                zone = stored.tzinfo if isinstance(stored, datetime.datetime) else value.tzinfo
                kept = isinstance(stored, datetime.datetime) == timestamps and (value.tzinfo is None or zone is not None)
            case _:
                kept = stored == value
        if not kept:
            raise ValueError(
                f"{value!r} would be stored as {stored!r}, because an earlier type of the union accepts it; put a type that "
                "keeps all of it first"
            )

    return check_branch


def _items_check(check: Check | None) -> Check:
    def check_items(value: Any) -> None:
        if isinstance(value, str | bytes):
            raise ValueError(f"{value!r} is no array")
        if check is not None:
            for item in value:
                check(item)

    return check_items


def _values_check(check: Check | None) -> Check | None:
    if check is None:
        return None

    def check_values(value: Any) -> None:
        for item in value.values():
            check(item)

    return check_values


def with_default_values(schema: AvroSchema) -> Any:
    """Return the parsed schema, for reading only, whose defaults are values as fastavro reads them."""
    return _Defaults(schema.named).copied(schema.parsed) if has_defaults(schema.parsed) else schema.parsed


def has_defaults(schema: Any, kinds: tuple[type, ...] = (object,)) -> bool:
    """Return whether a field has a default whose JSON value is of one of these classes."""
    if isinstance(schema, list):
        return any(has_defaults(branch, kinds) for branch in schema)
    if not isinstance(schema, dict):
        return False
    fields = schema.get("fields", ())
    inner = [schema.get(part) for part in ("type", "items", "values")] + [field["type"] for field in fields]
    own = [field["default"] for field in fields if "default" in field]
    return any(isinstance(default, kinds) for default in own) or any(has_defaults(part, kinds) for part in inner)


class _Defaults:
    """Converts defaults to values; `named` are the named types by name."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named

    def copied(self, schema: Any) -> Any:
        """Return a schema whose defaults are values."""
        if isinstance(schema, list):
            return [self.copied(branch) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        copied = {part: self.copied(value) if part in ("type", "items", "values") else value for part, value in schema.items()}
        if "fields" in schema:
            copied["fields"] = [self._field(field) for field in schema["fields"]]
        if _NAMED in schema:
            copied[_NAMED] = {name: self.copied(part) for name, part in schema[_NAMED].items()}
        return copied

    def _field(self, field: dict[str, Any]) -> dict[str, Any]:
        copied = {**field, "type": self.copied(field["type"])}
        if "default" in field:
            copied["default"] = self._value(field["type"], field["default"])
        return copied

    def _value(self, schema: Any, default: Any) -> Any:
        """Return the value of a default after it was written and read."""
        buffer = io.BytesIO()
        fields = [{"name": "value", "type": schema[0] if isinstance(schema, list) else schema}]
        holder = {"type": "record", "name": "Holder", "fields": fields, "__fastavro_parsed": True, _NAMED: self._named}
        fastavro.schemaless_writer(buffer, holder, {"value": self._encodable(schema, default)})
        buffer.seek(0)
        record: Any = fastavro.schemaless_reader(buffer, holder, None)
        return record["value"]

    def _encodable(self, schema: Any, default: Any) -> Any:
        """Return a JSON default as a value that fastavro can write; the default of a union belongs to its first branch."""
        if isinstance(schema, list):
            return self._encodable(schema[0], default)
        if isinstance(schema, str):
            schema = self._named.get(schema, schema)
        match schema["type"] if isinstance(schema, dict) else schema:
            case "bytes" | "fixed":
                return default.encode("latin-1")
            case "array":
                return [self._encodable(schema["items"], item) for item in default]
            case "map":
                return {key: self._encodable(schema["values"], item) for key, item in default.items()}
            case "record" | "error":
                return {
                    field["name"]: self._encodable(field["type"], default.get(field["name"], field.get("default")))
                    for field in schema["fields"]
                }
            case _:
                return default


def meaning_differs(written: AvroSchema, declared: AvroSchema) -> str | None:
    """Return where values of a file have another meaning than declared, such as a number and a time; None if nowhere.

    fastavro must be able to resolve one schema to the other.
    """
    return _Meanings(written.named, declared.named).differs(written.parsed, declared.parsed, "")


class _Meanings:
    def __init__(self, written: dict[str, Any], declared: dict[str, Any]) -> None:
        self._written, self._declared = written, declared
        self._seen: set[str] = set()

    def differs(self, written: Any, declared: Any, path: str) -> str | None:
        written, declared = _only_type(written), _only_type(declared)
        if isinstance(written, str):
            written = self._written.get(written, {"type": written})
        if isinstance(declared, str):
            declared = self._declared.get(declared, {"type": declared})
        if isinstance(written, list) or isinstance(declared, list) or written["type"] != declared["type"]:
            return None  # a promoted type, or a union of several types
        match written["type"]:
            case "record" | "error":
                return self._fields_differ(written, declared, path)
            case "array":
                return self.differs(written["items"], declared["items"], f"{path}[]")
            case "map":
                return self.differs(written["values"], declared["values"], f"{path}{{}}")
            case _:
                found, wanted = _meaning(written), _meaning(declared)
                return None if found == wanted else f"field {path!r} is {found} in the file, declared is {wanted}"

    def _fields_differ(self, written: Any, declared: Any, path: str) -> str | None:
        if written["name"] in self._seen:
            return None
        self._seen.add(written["name"])
        found = {field["name"]: field["type"] for field in written["fields"]}
        for field in declared["fields"]:
            name = field["name"]
            if name in found:
                difference = self.differs(found[name], field["type"], f"{path}.{name}" if path else name)
                if difference is not None:
                    return difference
        return None


def _only_type(schema: Any) -> Any:
    """Return the only type of values that are not null, if there is just one."""
    others = [branch for branch in schema if branch != "null"] if isinstance(schema, list) else [schema]
    return others[0] if len(others) == 1 else others


#: Logical types that fastavro reads as another class than the underlying type.
_LOGICAL: Final = {
    *("date", "decimal", "uuid", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros"),
    *("local-timestamp-millis", "local-timestamp-micros"),
}
#: Types of numbers and times some of which can hold a part of another one's values.
_ALIKE: Final = (_LOGICAL - {"decimal", "uuid"}) | {"int", "long", "float", "double"}


def _meaning(schema: Any) -> str:
    logical = schema.get("logicalType")
    if logical not in _LOGICAL:
        return str(schema["type"])
    return f"decimal of scale {schema.get('scale', 0)}" if logical == "decimal" else str(logical)
