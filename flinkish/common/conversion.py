"""Checks and conversions of values to their declared type.

The output of operators is checked strictly (`converter`), as PyFlink's coders do between operators, and so are values written to
state (`state_converter`). Elements given to `from_collection` may have other forms (`lenient_converter`), as PyFlink's bridge to
Java allows.

Each function is built once per type. For rows and tuples it is generated as source code with inlined checks of the fields: a
field of the right Python type costs one comparison and no call. Closures were measured in the same run, on rows of 1, 5 and 20
fields and nested ones: with a call for each field they take 1.3 to 3 times as long. With the checks of all fields in C
(itemgetter, the classes as a tuple, struct.pack for bounds) they take 1.1 to 2.3 times as long, and more code.
"""

from __future__ import annotations

import datetime
import functools
import marshal
import math
import numbers
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from types import GeneratorType
from typing import Any, NoReturn

from flinkish.common.errors import TypeMismatchError
from flinkish.common.kinds import BOUNDS, Kind, integer_bounds, kind_of, part_names, plain_type, shape_of
from flinkish.common.limits import to_float32
from flinkish.common.records import HINT_OF_SPARK_ROWS, check_record, is_row_of_spark
from flinkish.common.text import double_text, float_text, shortened
from flinkish.common.time import Instant
from flinkish.common.typeinfo import (
    BasicType,
    LocalTimeTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
)
from flinkish.common.types import Row, RowKind, learn_names, make_row, row_like

Convert = Callable[[Any], Any]
#: File name of the generated functions in tracebacks.
COMPILED = "<flinkish conversion>"

#: How user functions emit a record; a list or tuple that is one record is often returned as it is.
_EMITTED = "map() returns the record; functions of many records `yield` it, or return it in a list."


def converter(type_info: TypeInformation) -> Convert | None:
    """Return the function that converts an operator's output to its declared type; None if no check is needed (pickled values).

    A value of the right type is returned as it is or as an equal copy; None stays None. Numbers are converted as PyFlink's coders
    do (1.7 becomes 1 as an INT, True becomes 1, 5 becomes True); FLOAT is rounded to 32 bits, SQL_TIME and SQL_TIMESTAMP are cut
    to milliseconds. A TUPLE must be a tuple, a ROW a Row, a STRING a str, a LIST or array a list; an instance of a subclass is
    converted to the class itself. Datetimes with a time zone are converted to UTC.

    None is accepted for a whole record of any type ("no value"), in the fields of a row, in lists, in arrays that are not
    primitive, and as the value of a map. It is refused in the fields of a tuple (unless they are pickled), in primitive arrays
    and as the key of a map.

    Differs from Flink: a number too large for a FLOAT is refused (PyFlink makes it infinite).
    A tuple or row with too many fields is refused (PyFlink drops the surplus fields), and so is a row with
    too few (PyFlink invents values for the missing fields); a CHAR is one character; a BIG_INT may have more than 64 bits.
    PyFlink encodes a None only at the end of a chain of Python operators, and fails there for most types; it ignores the time
    zone of datetimes.

    The function raises TypeMismatchError, which names the field, the expected type and the value found.

    >>> convert = converter(Types.ROW([Types.INT(), Types.STRING()]))
    >>> convert(Row(True, "x"))
    Row(f0=1, f1='x')
    """
    return _build(type_info, lenient=False)


def state_converter(type_info: TypeInformation) -> Convert | None:
    """Return the function that converts a value to the declared type of a state; None if no check is needed.

    Like `converter`, but FLOAT keeps its 64 bits: a sum in state must not depend on how often it was read and written. PyFlink,
    too, rounds a value of state only when it leaves its cache.
    """
    return _build(type_info, lenient=False, round_floats=False)


def lenient_converter(type_info: TypeInformation) -> Convert | None:
    """Return the function that converts an element of a collection to its declared type; None if no check is needed.

    Like `converter`, but a row may be given as a Row, dict, list, tuple or object with attributes (keys and attributes that are
    not fields are ignored, missing ones are None), a tuple as a list or Row, a list or array as a tuple or array, a text as a
    number or boolean, and an array of bytes as a list of numbers from -128 to 255.

    Differs from Flink: a number is converted if no digit is lost (1 as a DOUBLE), and all other values raise TypeMismatchError.
    PyFlink wraps integers that are out of range (43878 becomes -21658 as a SHORT), and turns other values into null, which fails
    later with a NullPointerException.
    """
    return _build(type_info, lenient=True)


def shortest_floats(type_info: TypeInformation) -> Convert | None:
    """Return the function that shortens FLOAT values to the fewest decimals for the same 32 bits; None if the type has no FLOAT.

    1.1 rounded to 32 bits is 1.100000023841858 as a Python float; execute_and_collect returns 1.1, as in PyFlink.

    >>> shortest_floats(Types.TUPLE([Types.STRING(), Types.FLOAT()]))(("a", 1.100000023841858))
    ('a', 1.1)
    """
    kind, parts = shape_of(type_info)
    if kind is BasicType.FLOAT:
        return nullable(lambda value: float(float_text(value)))
    return by_parts(kind, [shortest_floats(part) for part in parts])


def by_parts(kind: BasicType | Kind, parts: Sequence[Convert | None]) -> Convert | None:
    """Return the function that converts each part of a value by a function of its own; None if all parts stay as they are.

    The parts are the elements of a list, keys and values of a map, or the fields of a row or tuple; each function gets None, too,
    which the returned one leaves as it is.
    """
    if not any(parts):
        return None
    converts = [convert or same for convert in parts]
    convert: Convert
    match kind:
        case Kind.LIST:
            (element,) = converts
            convert = lambda value: list(map(element, value))  # noqa: E731
        case Kind.MAP:
            of_key, of_value = converts
            convert = lambda value: {of_key(key): of_value(item) for key, item in value.items()}  # noqa: E731
        case Kind.TUPLE:
            convert = lambda value: tuple([one(item) for one, item in zip(converts, value, strict=True)])  # noqa: E731
        case _:
            convert = lambda row: row_like(row, [one(item) for one, item in zip(converts, row, strict=True)])  # noqa: E731
    return nullable(convert)


def _build(type_info: TypeInformation, lenient: bool, round_floats: bool = True) -> Convert | None:
    convert = _Builder(type_info, lenient, round_floats).build(type_info, "")
    if convert is None:
        return None
    if kind_of(type_info) in (Kind.ROW, Kind.TUPLE):
        return convert  # the function handles None itself

    lines = ["def convert(value):", f"    if {_condition(type_info)}:", "        return slow(value)", "    return value"]
    return compiled(lines, {"slow": convert})


def _condition(type_info: TypeInformation) -> str:
    """Return an expression that is false for a `value` that needs no conversion."""
    needed = _needs_conversion(type_info, "value")
    return "value is not None" if needed is None else f"value is not None and {needed}"


def mapping(type_info: TypeInformation, what: str) -> Callable[[object, Convert, Iterable[Any]], Iterator[Any]]:
    """Return a generator function (owner, function, values) that calls the function for each value and converts its results.

    It converts like `converter`, but without a call for values of the right type. For a type that needs no conversion it refuses
    generators as results; the error begins with `what`, a clause that says what the function must return. The owner is the
    variable `self` of the generator's frame, by which an error is traced to its operator.
    """
    convert = converter(type_info)
    # The message of an error shows the variable `record` of this frame.
    lines = ["def convert(self, function, values):", "    for record in values:", "        value = function(record)"]
    if convert is None:
        lines += ["        if value.__class__ is generator:", "            check_record(value, what)"]
    else:
        lines += [f"        if {_condition(type_info)}:", "            value = slow(value)"]
    lines.append("        yield value")
    return compiled(lines, {"slow": convert, "generator": GeneratorType, "check_record": check_record, "what": what})


def taking_apart(
    type_info: RowTypeInfo, then: Sequence[str], scope: dict[str, Any], unbounded: int | None = None
) -> list[str] | None:
    """Return source lines that run the lines `then` if `value` is a Row whose values `converter` would not change.

    The lines recognize rows just created from keyword arguments, in any order, and rows of kind INSERT whose fields are the
    declared ones, in order. They unpack the values into v0, v1, ... in the order of the declared fields, and the keyword
    arguments into `named`. The names that the lines use are added to `scope`.
    The bounds of an integer at the position `unbounded` are not checked: `then` must do it, by `out_of_bounds`.
    Returns None if the type has a field that only the converter can check.
    """
    names = type_info.field_names
    needed = [_needs_conversion(field, f"v{position}") for position, field in enumerate(type_info.field_types)]
    if not names or None in needed:
        return None
    if unbounded is not None and out_of_bounds(type_info.field_types[unbounded], f"v{unbounded}") is not None:
        needed[unbounded] = f"type(v{unbounded}) is not int"
    scope |= {
        "Row": Row,
        "INSERT": RowKind.INSERT,
        "names": names,
        **{f"n{position}": name for position, name in enumerate(names)},
    }
    right = " and ".join([f"(not {condition} or v{position} is None)" for position, condition in enumerate(needed)])
    return [
        "if type(value) is Row:",
        "    named = value._kwargs",
        f"    if named is not None and len(named) == {len(names)}:",
        "        try:",
        *[f"            v{position} = named[n{position}]" for position in range(len(names))],
        "        except KeyError:",
        "            pass",
        "        else:",
        f"            if {right}:",
        *[f"                {line}" for line in then],
        f"    elif named is None and value._names == names and value._kind is INSERT and len(value._list) == {len(names)}:",
        f"        {''.join([f'v{position}, ' for position in range(len(names))])} = value._list",
        f"        if {right}:",
        *[f"            {line}" for line in then],
    ]


#: The expected values of a type, for messages.
_EXPECTED: dict[BasicType | Kind, str] = {
    BasicType.STRING: "a str",
    BasicType.CHAR: "a str of one character",
    BasicType.BOOLEAN: "a bool",
    BasicType.FLOAT: "a number",
    BasicType.DOUBLE: "a number",
    BasicType.BIG_INT: "a whole number",
    BasicType.BIG_DEC: "a finite Decimal",
    BasicType.INSTANT: "an Instant",
    **{kind: f"a whole number from {low} to {high}" for kind, (low, high) in BOUNDS.items()},
}

_NO_OFFSET = datetime.timedelta(0)


class _Builder:
    """Builds the functions for one type; messages name a part of the type by its path."""

    def __init__(self, root: TypeInformation, lenient: bool, round_floats: bool) -> None:
        self._root = root
        self._lenient = lenient
        self._round_floats = round_floats

    def build(self, type_info: TypeInformation, path: str) -> Convert | None:
        """Return the function for values that are not None (for rows and tuples: also None); None if all values are accepted."""
        type_info = plain_type(type_info)
        kind, parts = shape_of(type_info)
        whole_milliseconds = not isinstance(type_info, LocalTimeTypeInfo)
        match kind:
            case BasicType():
                return self._basic(kind, path)
            case Kind.DATE:
                return self._date(path)
            case Kind.TIME:
                return self._time(path, whole_milliseconds=whole_milliseconds)
            case Kind.TIMESTAMP:
                return self._timestamp(path, whole_milliseconds=whole_milliseconds)
            case Kind.BYTES:
                return self._bytes(path)
            case Kind.LIST:
                return self._sequence(parts[0], type_info, path, nullable=not isinstance(type_info, PrimitiveArrayTypeInfo))
            case Kind.MAP:
                return self._map(type_info, parts, path)
            case Kind.ROW:
                return self._row(type_info, parts, path)
            case Kind.TUPLE:
                return self._tuple(type_info, parts, path)
            case _:
                return type_info.checker() if isinstance(type_info, PickledBytesTypeInfo) else None

    def _fail(
        self, path: str, expected: str, value: Any, error: BaseException | None = None, hint: str | None = None
    ) -> NoReturn:
        what = f"{path} must be {expected}" if path else f"it must be {expected}"
        raise TypeMismatchError(
            f"a value does not have its declared type {self._root!r}: {what}; got {shortened(repr(value))} of type "
            f"{'pyspark.sql.Row' if is_row_of_spark(value) else type(value).__name__}",
            hint=hint,
        ) from error

    # Basic types.

    def _basic(self, basic: BasicType, path: str) -> Convert:
        make = {
            BasicType.STRING: self._text,
            BasicType.CHAR: self._char,
            BasicType.BOOLEAN: self._boolean,
            BasicType.FLOAT: self._float if self._round_floats else self._double,
            BasicType.DOUBLE: self._double,
            BasicType.BIG_DEC: self._decimal,
            BasicType.INSTANT: self._instant,
        }.get(basic)
        return self._integer(basic, path, _EXPECTED[basic]) if make is None else make(path, _EXPECTED[basic])

    def _char(self, path: str, expected: str) -> Convert:
        def convert_char(value: Any) -> Any:
            if isinstance(value, str) and len(value) == 1:
                return _plain_text(value)
            self._fail(path, expected, value)

        return convert_char

    def _instant(self, path: str, expected: str) -> Convert:
        def convert_instant(value: Any) -> Any:
            if type(value) is Instant:
                return value
            if isinstance(value, Instant):
                return Instant(value.seconds, value.nanos)
            hint = "Instant.of_epoch_milli(to_epoch_milli(value)), both of flinkish.common."
            self._fail(path, expected, value, hint=hint if isinstance(value, datetime.datetime) else None)

        return convert_instant

    def _boolean(self, path: str, expected: str) -> Convert:
        fail, lenient = self._fail, self._lenient

        def convert_boolean(value: Any) -> Any:
            if value is True or value is False:
                return value
            try:
                number = _as_int(value)
            except (TypeError, ValueError, OverflowError) as error:
                fail(path, expected, value, error)
            # PyFlink's coder accepts a number that fits into a byte.
            if not (number in (0, 1) and number == value if lenient else 0 <= number <= 255):
                fail(path, expected, value)
            return bool(number)

        return convert_boolean

    def _float(self, path: str, expected: str) -> Convert:
        fail, lenient = self._fail, self._lenient

        def convert_float(value: Any) -> Any:
            try:
                number = to_float32(value)
            except OverflowError as error:
                fail(path, "a number that fits into 32 bits", value, error, hint="declare DOUBLE.")
            except struct.error as error:
                fail(path, expected, value, error)
            if math.isinf(number) and number != value:  # a Decimal; other numbers raise an OverflowError
                fail(path, "a number that fits into 32 bits", value)
            if lenient and isinstance(value, int) and number != value:
                fail(path, "a whole number that 32 bits of a FLOAT hold exactly", value)
            return number

        return convert_float

    def _double(self, path: str, expected: str) -> Convert:
        fail, lenient = self._fail, self._lenient

        def convert_double(value: Any) -> Any:
            if isinstance(value, (str, bytes)):
                fail(path, expected, value)
            try:
                number = float(value)
            except (TypeError, ValueError, OverflowError) as error:
                fail(path, expected, value, error)
            if math.isinf(number) and number != value:  # a Decimal; other numbers raise an OverflowError
                fail(path, "a number that fits into 64 bits", value)
            if lenient and isinstance(value, int) and number != value:
                fail(path, "a whole number that 64 bits of a DOUBLE hold exactly", value)
            return number

        return convert_double

    def _decimal(self, path: str, expected: str) -> Convert:
        fail = self._fail

        def convert_decimal(value: Any) -> Any:
            if type(value) is Decimal and value.is_finite():
                return value
            # numbers.Number: numpy's are not ints, but are registered there.
            if isinstance(value, bool) or not isinstance(value, (str, numbers.Number)):
                fail(path, expected, value)
            try:
                number = Decimal(str(value))
            except InvalidOperation as error:
                fail(path, expected, value, error)
            if not number.is_finite():
                fail(path, expected, value)
            return number

        return convert_decimal

    def _integer(self, basic: BasicType, path: str, expected: str) -> Convert:
        low, high = BOUNDS.get(basic, (-math.inf, math.inf))
        lenient, fail = self._lenient, self._fail

        def convert_integer(value: Any) -> Any:
            try:
                number = _as_int(value)
            except (TypeError, ValueError, OverflowError) as error:
                fail(path, expected, value, error)
            # Operators may drop decimals, elements of a collection must not lose any.
            if not low <= number <= high or (lenient and number != value):
                fail(path, expected, value)
            return number

        return convert_integer

    def _text(self, path: str, expected: str) -> Convert:
        fail, lenient = self._fail, self._lenient

        def convert_text(value: Any) -> Any:
            if isinstance(value, str):
                return _plain_text(value)
            if not lenient:
                fail(path, expected, value)
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, float):
                return double_text(value)
            if isinstance(value, (int, Decimal)):
                return str(value)
            fail(path, expected, value)

        return convert_text

    # Dates and times. Instances of subclasses, such as pandas.Timestamp, become instances of the class itself, as decoded values
    # are. Values with a time zone are converted to UTC, as the types have no zone.

    def _in_utc(self, path: str, expected: str, value: datetime.datetime) -> datetime.datetime:
        """Return a datetime.datetime in UTC without a time zone; a value without one is taken to be in UTC."""
        if value != value:
            self._fail(path, expected, value)  # pandas.NaT is a datetime
        if value.tzinfo is not None:
            try:
                value = value.astimezone(datetime.UTC)
            except OverflowError as error:
                self._fail(path, f"{expected} whose year in UTC is 1 to 9999", value, error)
        time = value.hour, value.minute, value.second, value.microsecond
        return datetime.datetime(value.year, value.month, value.day, *time, fold=value.fold)

    def _date(self, path: str) -> Convert:
        fail, in_utc, date, date_and_time = self._fail, self._in_utc, datetime.date, datetime.datetime

        def convert_date(value: Any) -> Any:
            if type(value) is date:
                return value
            if isinstance(value, date_and_time):
                return in_utc(path, "a datetime.date", value).date()
            if isinstance(value, date):
                return date(value.year, value.month, value.day)
            fail(path, "a datetime.date", value)

        return convert_date

    def _time(self, path: str, *, whole_milliseconds: bool) -> Convert:
        fail, in_utc, time, date_and_time = self._fail, self._in_utc, datetime.time, datetime.datetime

        def convert_time(value: Any) -> Any:
            if type(value) is not time or value.tzinfo is not None:
                value = plain(value)
            if whole_milliseconds:
                excess = value.microsecond % 1000
                if excess:
                    return value.replace(microsecond=value.microsecond - excess)
            return value

        def plain(value: Any) -> datetime.time:
            if isinstance(value, date_and_time):
                return in_utc(path, "a datetime.time", value).time()
            if not isinstance(value, time):
                fail(path, "a datetime.time", value)
            if value.tzinfo is not None and value.utcoffset() != _NO_OFFSET:
                fail(
                    path,
                    "a datetime.time without a time zone, or in UTC",
                    value,
                    hint="without a date, a time cannot be converted to UTC; value.replace(tzinfo=None) keeps hour and minute.",
                )
            return time(value.hour, value.minute, value.second, value.microsecond)

        return convert_time

    def _timestamp(self, path: str, *, whole_milliseconds: bool) -> Convert:
        fail, in_utc, date_and_time = self._fail, self._in_utc, datetime.datetime

        def convert_timestamp(value: Any) -> Any:
            if type(value) is not date_and_time or value.tzinfo is not None:
                if not isinstance(value, date_and_time):
                    fail(path, "a datetime.datetime", value)
                value = in_utc(path, "a datetime.datetime", value)
            if whole_milliseconds:
                excess = value.microsecond % 1000
                if excess:
                    return value.replace(microsecond=value.microsecond - excess)
            return value

        return convert_timestamp

    # Arrays, lists, maps.

    def _bytes(self, path: str) -> Convert:
        fail, lenient = self._fail, self._lenient
        # Java's bytes are signed, Python's are not; both ranges are accepted.
        listed = self._sequence(Types.SHORT(), Types.PRIMITIVE_ARRAY(Types.BYTE()), path, nullable=False) if lenient else None

        def convert_bytes(value: Any) -> Any:
            if type(value) is bytes:
                return value
            if isinstance(value, (bytes, bytearray, memoryview)):
                return bytes(value)
            if listed is not None and isinstance(value, (list, tuple)):
                found = listed(value)
                if not all(-128 <= number <= 255 for number in found):
                    fail(path, "bytes, or a list of whole numbers from -128 to 255", value)
                return bytes(number & 0xFF for number in found)
            fail(path, "bytes", value)

        return convert_bytes

    def _sequence(self, element_type: TypeInformation, type_info: TypeInformation, path: str, nullable: bool) -> Convert:
        fail, lenient = self._fail, self._lenient
        convert = self.build(element_type, f"an element of {path}" if path else "an element")
        expected = f"a list ({type_info!r})"
        null_expected = f"without None ({type_info!r})"

        def checked(value: Any) -> Sequence[Any]:
            if isinstance(value, list):
                return value
            if lenient and isinstance(value, tuple):
                return value
            # array.array and numpy arrays are accepted in collections; text, bytes, sets and dicts are mistakes.
            if not lenient or isinstance(value, (str, bytes, bytearray)) or not hasattr(value, "tolist"):
                fail(
                    path, expected, value, hint=None if lenient else f"make it a list: list(value), or value.tolist(). {_EMITTED}"
                )
            result: Sequence[Any] = value.tolist()
            return result

        if convert is None:
            return lambda value: list(checked(value))
        element = convert

        def convert_nullable(value: Any) -> Any:
            return [None if item is None else element(item) for item in checked(value)]

        def convert_sequence(value: Any) -> Any:
            items = checked(value)
            if None in items:
                fail(path, null_expected, value)
            return [element(item) for item in items]

        return convert_nullable if nullable else convert_sequence

    def _map(self, type_info: TypeInformation, parts: Sequence[TypeInformation], path: str) -> Convert:
        fail = self._fail
        key_type, value_type = parts
        of = f" of {path}" if path else ""
        key_converter = self.build(key_type, f"a key{of}") or same
        value_converter = self.build(value_type, f"a value{of}") or same
        keys_may_be_none = kind_of(key_type) is Kind.PICKLED

        def convert_map(value: Any) -> Any:
            if not isinstance(value, dict):
                fail(path, f"a dict ({type_info!r})", value)
            if None in value and not keys_may_be_none:
                fail(path, f"a dict without None as a key ({type_info!r})", value)
            return {
                key_converter(key): None if item is None else value_converter(item)  # values may be None, keys may not
                for key, item in value.items()
            }

        return convert_map

    # Rows and tuples: generated code, see the module's docstring.

    def _field_path(self, path: str, name: str, position: int) -> str:
        own = f"field {position}" if name == f"f{position}" else f"field {position} ('{name}')"
        return f"{own} of {path}" if path else own

    def _row(self, type_info: TypeInformation, types: Sequence[TypeInformation], path: str) -> Convert:
        names = part_names(type_info)
        count = len(types)
        paths = [self._field_path(path, name, position) for position, name in enumerate(names)]
        scope: dict[str, Any] = {"Row": Row, "new": Row.__new__, "names": names, "insert": RowKind.INSERT}
        scope |= {f"n{position}": name for position, name in enumerate(names)}
        scope |= self._row_helpers(type_info, names, path)
        learn_names(names)
        lines = [
            "def convert(row):",
            "    if type(row) is not Row:",
            "        if row is None:",
            "            return None",
            "        row = as_row(row)",
            "    named = row._kwargs",
            f"    if named is not None and len(named) == {count}:",
            "        try:",
            *([f"            v{position} = named[n{position}]" for position in range(count)] or ["            pass"]),
            "        except KeyError:",
            "            reorder(row)",
            "        kind = insert",
            "    else:",
            "        fields = row._fields",
            "        kind = row._kind",
            "        values = row._list if fields is None or fields is names or fields == names else reorder(row)",
            f"        if len(values) != {count}:",
            "            wrong_length(row)",
            *(f"    {line}" for line in self._taken_apart(count)),
            *self._converted(types, paths, scope, nullable=True),
            # the body of make_row, inlined
            "    converted = new(Row)",
            "    converted._kwargs = None",
            "    converted._names = names",
            f"    converted._list = [{', '.join(f'v{position}' for position in range(count))}]",
            "    converted._kind = kind",
            "    return converted",
        ]
        return compiled(lines, scope)

    def _row_helpers(self, type_info: TypeInformation, names: tuple[str, ...], path: str) -> dict[str, Callable[..., Any]]:
        """Return the functions that the generated code calls for values other than complete Rows in the order of the fields."""
        fail, lenient, count = self._fail, self._lenient, len(names)
        expected = f"a Row ({type_info!r})"

        def as_row(value: Any) -> Row:
            if isinstance(value, Row):
                return value
            if is_row_of_spark(value):
                fail(path, f"a flinkish.common.Row ({type_info!r})", value, hint=HINT_OF_SPARK_ROWS)
            if lenient:
                if isinstance(value, dict):
                    return make_row(None, [value.get(name) for name in names])
                if isinstance(value, (list, tuple)):
                    return make_row(None, list(value))
                if hasattr(value, "__dict__"):
                    attributes = vars(value)
                    return make_row(None, [attributes.get(name) for name in names])
            fail(path, expected, value, hint="make it a Row(...), or declare another type." + ("" if lenient else f" {_EMITTED}"))

        def reorder(row: Row) -> list[Any]:
            try:
                if len(row._values) == count:
                    return row.get_fields_by_names(names)
            except ValueError as error:
                fail(path, f"a Row with the fields {list(names)}", row, error)
            return row._values

        def wrong_length(row: Row) -> NoReturn:
            fail(path, f"a Row of {count} fields ({type_info!r})", row)

        return {"as_row": as_row, "reorder": reorder, "wrong_length": wrong_length}

    def _tuple(self, type_info: TypeInformation, types: Sequence[TypeInformation], path: str) -> Convert:
        count = len(types)
        paths = [self._field_path(path, f"f{position}", position) for position in range(count)]
        scope: dict[str, Any] = {}
        fields = ", ".join(f"v{position}" for position in range(count))
        lines = [
            "def convert(values):",
            f"    if type(values) is not tuple or len(values) != {count}:",
            "        if values is None:",
            "            return None",
            "        values = as_tuple(values)",
            *self._taken_apart(count),
            *self._converted(types, paths, scope, nullable=False),
            f"    return ({fields}{',' if count == 1 else ''})",
        ]
        fail, lenient = self._fail, self._lenient
        expected = f"a tuple of {count} fields ({type_info!r})"

        def as_tuple(value: Any) -> tuple[Any, ...]:
            right = isinstance(value, (tuple, list, Row)) if lenient else isinstance(value, tuple)
            if right and len(value) == count:
                return tuple(value)
            fail(
                path,
                expected,
                value,
                hint=None if lenient else f"make it a tuple, or declare another output type. {_EMITTED}",
            )

        scope["as_tuple"] = as_tuple
        return compiled(lines, scope)

    def _taken_apart(self, count: int) -> list[str]:
        """Return the line that unpacks `values` into v0, v1, ..."""
        return [f"    {''.join(f'v{position}, ' for position in range(count))} = values"] if count else []

    def _converted(self, types: Sequence[TypeInformation], paths: list[str], scope: dict[str, Any], nullable: bool) -> list[str]:
        """Return the lines that convert those of v0, v1, ... that do not have the right type yet."""
        lines: list[str] = []
        for position, (field_type, path) in enumerate(zip(types, paths, strict=True)):
            convert = self.build(field_type, path)
            if convert is None:
                continue
            name = f"v{position}"
            needed = _needs_conversion(field_type, name)
            scope[f"c{position}"] = convert if nullable else _refuse_none(convert, self._fail, path, field_type)
            condition = " and ".join([*([f"{name} is not None"] if nullable else []), *([needed] if needed else [])])
            if condition:
                lines.append(f"    if {condition}:")
                lines.append(f"        {name} = c{position}({name})")
            else:
                lines.append(f"    {name} = c{position}({name})")
        return lines


def _needs_conversion(type_info: TypeInformation, name: str) -> str | None:
    """Return an expression that is false for values that need no conversion; None if only the converter can tell."""
    kind = kind_of(type_info)
    if kind in BOUNDS:
        return f"(type({name}) is not int or {out_of_bounds(type_info, name)})"
    wanted = _WANTED.get(kind)
    return None if wanted is None else f"type({name}) is not {wanted}"


#: The class of the values that need no conversion, unless they are integers with bounds.
_WANTED: dict[BasicType | Kind, str] = {
    BasicType.STRING: "str",
    BasicType.DOUBLE: "float",
    BasicType.BOOLEAN: "bool",
    BasicType.BIG_INT: "int",
}


def out_of_bounds(type_info: TypeInformation, name: str) -> str | None:
    """Return an expression that is true for an int that the type cannot hold; None if it is not an integer type with bounds."""
    bounds = integer_bounds(type_info)
    return None if bounds is None else f"not {bounds[0]} <= {name} <= {bounds[1]}"


def _refuse_none(convert: Convert, fail: Callable[..., NoReturn], path: str, field_type: TypeInformation) -> Convert:
    def convert_field(value: Any) -> Any:
        if value is None:
            fail(path, f"{field_type!r}, not None", value, hint="the fields of a TUPLE cannot be None; a ROW allows it.")
        return convert(value)

    return convert_field


def compiled(lines: list[str], scope: dict[str, Any], name: str = "convert") -> Callable[..., Any]:
    """Return the function with this name that the source lines define; it sees the names in `scope`, as do its tracebacks."""
    # The source contains only generated names and numbers; the user's field names are values in the scope.
    # Each function has code of its own, as the interpreter adapts code to the scope and the values that it runs with.
    exec(marshal.loads(_bytecode("\n".join(lines))), scope)
    function: Callable[..., Any] = scope[name]
    return function


@functools.lru_cache(maxsize=1_000)
def _bytecode(source: str) -> bytes:
    """Return compiled source: the converters of equal types have equal source, and to compile it again costs ten times a copy."""
    return marshal.dumps(compile(source, COMPILED, "exec"))


def same(value: Any) -> Any:
    """Return the value: a conversion that changes nothing."""
    return value


def nullable(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """Return a conversion that leaves None as it is; None if there is no conversion."""
    return None if convert is None else lambda value: None if value is None else convert(value)


def _plain_text(value: str) -> str:
    """Return the text of a str or of an instance of a subclass, as PyFlink's coder encodes it; an Enum's str() differs."""
    return str.__str__(value)


def _as_int(value: Any) -> int:
    """Return a number cut towards zero to an int; raise TypeError, ValueError or OverflowError if it is no number."""
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(value)
    return int(value)
