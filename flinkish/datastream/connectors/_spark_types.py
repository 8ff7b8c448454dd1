"""The one table between Spark SQL's types and ours, for streams of DataFrames and DataFrames of streams.

Schemas are read from `StructType.jsonValue()` and written as DDL, so that this module does not need pyspark. Values are passed on
as Arrow data, see common/arrow_types.py: TIMESTAMP is an Instant, TIMESTAMP_NTZ a datetime without zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final

from flinkish.common.errors import InvalidArgumentError, UnsupportedError
from flinkish.common.kinds import Kind, fields_of, kind_of, part_names, plain_type, shape_of
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, RowTypeInfo, TypeInformation, Types

#: By the name of a simple type in the JSON of Spark and Delta: our type, and the name in DDL.
SIMPLE: Final[Mapping[str, tuple[Callable[[], TypeInformation], str]]] = {
    "boolean": (Types.BOOLEAN, "BOOLEAN"),
    "byte": (Types.BYTE, "TINYINT"),
    "short": (Types.SHORT, "SMALLINT"),
    "integer": (Types.INT, "INT"),
    "long": (Types.LONG, "BIGINT"),
    "float": (Types.FLOAT, "FLOAT"),
    "double": (Types.DOUBLE, "DOUBLE"),
    "string": (Types.STRING, "STRING"),
    "binary": (lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()), "BINARY"),
    "date": (Types.SQL_DATE, "DATE"),
    "timestamp": (Types.INSTANT, "TIMESTAMP"),
    "timestamp_ntz": (Types.SQL_TIMESTAMP, "TIMESTAMP_NTZ"),
}
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_NAME_OR_TIMESTAMP = re.compile(r"(`(?:[^`]|``)*`)|\bTIMESTAMP\b")
#: The DDL of our simple types. Those that are not in `SIMPLE` are read back as other types.
_DDL: Final[Mapping[BasicType | Kind, str]] = {
    **{kind_of(make()): name for make, name in SIMPLE.values()},
    BasicType.CHAR: "STRING",
    BasicType.BIG_INT: "DECIMAL(38, 0)",
    BasicType.BIG_DEC: "DECIMAL(38, 18)",
}


def type_of(
    spark: Any,
    path: str,
    unsupported: Callable[[str, str], Exception],
    *,
    name_of: Callable[[Any], str] = itemgetter("name"),
) -> TypeInformation:
    """Return our type for a type in the JSON of Spark and Delta.

    For a type that has no counterpart, `unsupported` makes the error to raise, from the path of the column and the name of the
    type. `name_of` returns the name of a field.
    """

    def of(part: Any, path: str) -> TypeInformation:
        if isinstance(part, str):
            if part in SIMPLE:
                return SIMPLE[part][0]()
            decimal = _DECIMAL.fullmatch(part)
            if decimal is None:
                raise unsupported(path, part)
            return DecimalTypeInfo(int(decimal[1]), int(decimal[2]))
        match part["type"]:
            case "array":
                return Types.LIST(of(part["elementType"], f"{path}.element"))
            case "map":
                key, value = of(part["keyType"], f"{path}.key"), of(part["valueType"], f"{path}.value")
                try:
                    return Types.MAP(key, value)
                except InvalidArgumentError as error:
                    raise unsupported(path, "map with keys that Python's dict cannot hold") from error
            case "struct":
                names = list(map(name_of, part["fields"]))
                if len(set(names)) < len(names):
                    raise _repeated(names, path)
                start = f"{path}." if path else ""
                return Types.ROW_NAMED(names, [of(field["type"], f"{start}{name_of(field)}") for field in part["fields"]])
            case other:
                raise unsupported(path, str(other))

    return of(spark, path)


def _repeated(names: list[str], path: str) -> UnsupportedError:
    twice = sorted({name for name in names if names.count(name) > 1})
    where = f" in {path!r}" if path else ""
    return UnsupportedError(
        f"the DataFrame has several columns named {', '.join(map(repr, twice))}{where}; each field of a Row needs its own.",
        hint="rename them, for example with select(...alias(...)) or toDF(...).",
    )


def row_type_of(schema: Mapping[str, Any]) -> RowTypeInfo:
    """Return the row type of a DataFrame's schema, which is a result of `StructType.jsonValue()`.

    Raises UnsupportedError, which names the column and Spark's type, for a type that has no counterpart.
    """

    def unsupported(path: str, spark: str) -> UnsupportedError:
        return UnsupportedError(
            f"column {path!r} of the DataFrame has Spark's type {spark}, which has no counterpart among Types.",
            hint="cast the column (for example to string), or leave it out with drop().",
        )

    row_type = type_of(schema, "", unsupported)
    assert isinstance(row_type, RowTypeInfo)
    return row_type


def bare(spark: Any, name_of: Callable[[Any], str] = itemgetter("name")) -> Any:
    """Return the parts of a type in the JSON of Spark and Delta that determine its values: no nullability, no comments."""
    if isinstance(spark, str):
        return spark
    match spark["type"]:
        case "array":
            return ["array", bare(spark["elementType"], name_of)]
        case "map":
            return ["map", bare(spark["keyType"], name_of), bare(spark["valueType"], name_of)]
        case _:
            return [[name_of(field), bare(field["type"], name_of)] for field in spark["fields"]]


def ddl_of(row_type: TypeInformation, what: str) -> str:
    """Return the columns of a row or tuple type as Spark's DDL.

    Raises UnsupportedError, which names the column, for a type that Spark does not have; `what` names the owner of the columns.
    """
    fields = fields_of(row_type)
    if fields is None:
        raise UnsupportedError(
            f"{what} needs rows or tuples; the records are of type {row_type!r}.",
            hint="map them to Row(...) with an output_type such as Types.ROW_NAMED(...), or give the sink a schema.",
        )
    return ", ".join(f"{_quoted(name)} {_ddl(part, name, what)}" for name, part in zip(*fields, strict=True))


def in_any_session(ddl: str) -> str:
    """Return a DDL that Spark reads alike whatever spark.sql.timestampType is: TIMESTAMP is a point in time."""
    return _NAME_OR_TIMESTAMP.sub(lambda found: found[1] or "TIMESTAMP_LTZ", ddl)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _ddl(type_info: TypeInformation, path: str, what: str) -> str:
    type_info = plain_type(type_info)
    if isinstance(type_info, DecimalTypeInfo):
        return str(type_info)
    kind, types = shape_of(type_info)
    names = part_names(type_info)
    parts = [_ddl(part, f"{path}.{name}", what) for name, part in zip(names, types, strict=True)]
    match kind:
        case Kind.LIST | Kind.MAP:
            return f"{'ARRAY' if kind is Kind.LIST else 'MAP'}<{', '.join(parts)}>"
        case Kind.ROW | Kind.TUPLE:
            return f"STRUCT<{', '.join([f'{_quoted(name)}: {part}' for name, part in zip(names, parts, strict=True)])}>"
        case _ if kind in _DDL:
            return _DDL[kind]
        case _:
            raise UnsupportedError(
                f"{what}: column {path!r} is of type {type_info!r}, which Spark does not have.",
                hint="map it to another type before, for example to STRING or LONG.",
            )
