"""The type of a row for a JSON schema; source of the rules: Flink's JsonRowSchemaConverter."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.typeinfo import TypeInformation, Types

_FORMATS: Final = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}
_UNIONS: Final = ("allOf", "anyOf", "not", "extends", "disallow")


def type_of_json_schema(json_schema: str) -> TypeInformation:
    """Return the type that a JSON schema describes.

    An object becomes ROW_NAMED, an array OBJECT_ARRAY (with fixed elements: a ROW of f0, f1, ...), integer and number BIG_DEC,
    boolean BOOLEAN, and string STRING. A string with a `format` becomes SQL_DATE, SQL_TIME or SQL_TIMESTAMP, and one with the
    `contentEncoding` base64 becomes bytes. Raises InvalidArgumentError, which names the place, for a schema without such a type.
    """
    try:
        root = msgspec.json.decode(json_schema)
    except (msgspec.DecodeError, TypeError) as error:
        raise InvalidArgumentError(f"Invalid JSON schema: {error}") from error
    return _convert(root, root, "<root>", False)


def _convert(node: Any, root: Any, place: str, referenced: bool) -> TypeInformation:
    if not isinstance(node, dict):
        raise InvalidArgumentError(f"JSON schema, {place}: expected an object; got {node!r}")
    for union in _UNIONS:
        if union in node:
            raise InvalidArgumentError(f"JSON schema, {place}: unions such as {union!r} have no type")
    if "$ref" in node:
        return _reference(node["$ref"], root, place, referenced)
    if "oneOf" in node:
        return _one_of([part for part in node["oneOf"] if not _is_null(part)], root, place)
    kinds = node.get("type")
    if kinds is None:
        raise InvalidArgumentError(f"JSON schema, {place}: there is no type")
    if isinstance(kinds, list):
        kinds = [kind for kind in kinds if kind != "null"]
        if len(kinds) != 1:
            raise InvalidArgumentError(f"JSON schema, {place}: a value must be of one type, or null; got {kinds}")
        (kinds,) = kinds
    match kinds:
        case "object":
            properties = node.get("properties") or {}
            names = list(properties)
            return Types.ROW_NAMED(names, [_convert(properties[name], root, f"{place}/{name}", False) for name in names])
        case "array":
            return _array(node, root, place)
        case "string":
            return _string(node)
        case "boolean":
            return Types.BOOLEAN()
        case "number" | "integer":
            return Types.BIG_DEC()
        case _:
            raise InvalidArgumentError(f"JSON schema, {place}: values of type {kinds!r} have no type here")


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") == "null"


def _one_of(parts: list[Any], root: Any, place: str) -> TypeInformation:
    if len(parts) != 1:
        raise InvalidArgumentError(f"JSON schema, {place}: oneOf must be of one type, or null; there are {len(parts)} types")
    return _convert(parts[0], root, place, False)


def _reference(reference: Any, root: Any, place: str, referenced: bool) -> TypeInformation:
    target = root
    local = isinstance(reference, str) and reference.startswith("#/")
    for part in reference[2:].split("/") if local else ():
        target = target.get(part) if isinstance(target, dict) else None
    if not local or target is None or referenced:
        raise InvalidArgumentError(
            f"JSON schema, {place}: only references with one indirection in the same document have a type; got {reference!r}"
        )
    return _convert(target, root, f"{place}/{reference}", True)


def _array(node: Any, root: Any, place: str) -> TypeInformation:
    items = node.get("items")
    if items is None:
        raise InvalidArgumentError(f"JSON schema, {place}: an array must have 'items'")
    if isinstance(items, list):
        if node.get("additionalItems", False) is not False:
            raise InvalidArgumentError(f"JSON schema, {place}: an array of fixed elements must not allow additional ones")
        return Types.ROW([_convert(item, root, f"{place}[{index}]", False) for index, item in enumerate(items)])
    return Types.OBJECT_ARRAY(_convert(items, root, f"{place}/items", False))


def _string(node: Any) -> TypeInformation:
    if node.get("contentEncoding") == "base64":
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    made = _FORMATS.get(node.get("format"))
    return Types.STRING() if made is None else made()
