"""Checks values against the schemas of our OpenAPI document, more strictly than the standard: unknown fields are errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
    "number": (int, float),
    "integer": (int,),
}


def misfits(schema: Mapping[str, Any], value: Any, components: Mapping[str, Any], at: str = "") -> list[str]:
    """Return where a value does not fit a schema."""
    if "$ref" in schema:
        return misfits(components[schema["$ref"].rpartition("/")[2]], value, components, at)
    if "anyOf" in schema:
        tries = [misfits(each, value, components, at) for each in schema["anyOf"]]
        return [] if [] in tries else min(tries, key=len)
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{at} is {value!r}, not one of {schema['enum']}"]
    kind = schema.get("type")
    if kind is None:
        return []
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return [f"{at} is {value!r}, not of type {kind}"]
    if kind == "array":
        items = schema.get("items", {})
        return [text for index, each in enumerate(value) for text in misfits(items, each, components, f"{at}[{index}]")]
    if kind == "object" and "properties" in schema:
        properties = schema["properties"]
        found = [f"{at}.{name} is missing" for name in schema.get("required", []) if name not in value]
        found += [f"{at}.{name} is not in the schema" for name in value if name not in properties]
        return found + [
            text
            for name in value.keys() & properties
            for text in misfits(properties[name], value[name], components, f"{at}.{name}")
        ]
    if kind == "object":
        rest = schema.get("additionalProperties", {})
        rest = rest if isinstance(rest, dict) else {}
        return [text for name, each in value.items() for text in misfits(rest, each, components, f"{at}.{name}")]
    if kind == "string" and "pattern" in schema and not re.search(schema["pattern"], value):
        return [f"{at} is {value!r}, which does not fit {schema['pattern']}"]
    return []
