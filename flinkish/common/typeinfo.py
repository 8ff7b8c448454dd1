"""The type system: the declared types of records, keys and states.

A type decides how values are checked and converted (common/conversion.py), printed (common/text.py), stored in checkpoints
(runtime/state/codec.py) and written to tables by sinks. Each of these is a table by kind (common/kinds.py). Values without a
declared type are pickled.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic

from flinkish.common.absent import Absence, AbsentMember
from flinkish.common.absent_names import INTERNAL
from flinkish.common.arguments import instance_of, int_of, names_of
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.time import Instant
from flinkish.common.types import Row, RowKind

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "DecimalTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]

if TYPE_CHECKING:
    # Type checkers support this import without the package, and with it the defaults of PEP 696.
    from typing_extensions import TypeVar

    #: The Python type of the values. Type checkers compare it with the results of a function; it has no effect at run time.
    V_co = TypeVar("V_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    V_co = TypeVar("V_co", covariant=True)

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_ORDINAL = _EPOCH.toordinal()

_JAVA_TYPE = Absence(
    "unsupported", "there is no Java type behind it, as flinkish keeps its types in Python", "use the type itself"
)


class TypeInformation(Generic[V_co]):
    """Base of all types. Types are immutable, comparable and hashable; make them by the methods of `Types`.

    For type checkers, `TypeInformation[int]` is a type of `int`, and `TypeInformation` alone one of any values.
    """

    get_java_type_info = AbsentMember(_JAVA_TYPE)

    def need_conversion(self) -> bool:
        """Return whether the plain form of values differs from the values themselves."""
        return type(self).to_internal_type is not TypeInformation.to_internal_type

    def to_internal_type(self, obj: Any) -> Any:
        """Return the plain form of a value: numbers, text, tuples."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Return the value for its plain form."""
        return obj

    def _parts(self) -> tuple[Any, ...]:
        """The parts by which two types of the same class are compared."""
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeInformation) and type(self) is type(other) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._parts()))

    def __repr__(self) -> str:
        parts = ", ".join(map(repr, self._parts()))
        return f"{type(self).__name__}<{parts}>" if parts else type(self).__name__


class BasicType(Enum):
    """The kinds of BasicTypeInfo; the values are the names Flink prints."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class BasicTypeInfo(TypeInformation[V_co]):
    """Text, booleans, numbers and points in time."""

    def __init__(self, basic_type: BasicType) -> None:
        #: The kind of basic type.
        self.basic_type: Final = instance_of("BasicTypeInfo()", basic_type, BasicType)

    def _parts(self) -> tuple[Any, ...]:
        return (self.basic_type,)

    def __hash__(self) -> int:
        return hash(self.basic_type.name)

    def __repr__(self) -> str:
        return self.basic_type.value

    STRING_TYPE_INFO: Callable[[], BasicTypeInfo[str]] = staticmethod(lambda: BasicTypeInfo(BasicType.STRING))
    BOOLEAN_TYPE_INFO: Callable[[], BasicTypeInfo[bool]] = staticmethod(lambda: BasicTypeInfo(BasicType.BOOLEAN))
    BYTE_TYPE_INFO: Callable[[], BasicTypeInfo[int]] = staticmethod(lambda: BasicTypeInfo(BasicType.BYTE))
    SHORT_TYPE_INFO: Callable[[], BasicTypeInfo[int]] = staticmethod(lambda: BasicTypeInfo(BasicType.SHORT))
    INT_TYPE_INFO: Callable[[], BasicTypeInfo[int]] = staticmethod(lambda: BasicTypeInfo(BasicType.INT))
    LONG_TYPE_INFO: Callable[[], BasicTypeInfo[int]] = staticmethod(lambda: BasicTypeInfo(BasicType.LONG))
    FLOAT_TYPE_INFO: Callable[[], BasicTypeInfo[float]] = staticmethod(lambda: BasicTypeInfo(BasicType.FLOAT))
    DOUBLE_TYPE_INFO: Callable[[], BasicTypeInfo[float]] = staticmethod(lambda: BasicTypeInfo(BasicType.DOUBLE))
    CHAR_TYPE_INFO: Callable[[], BasicTypeInfo[str]] = staticmethod(lambda: BasicTypeInfo(BasicType.CHAR))
    BIG_INT_TYPE_INFO: Callable[[], BasicTypeInfo[int]] = staticmethod(lambda: BasicTypeInfo(BasicType.BIG_INT))
    BIG_DEC_TYPE_INFO: Callable[[], BasicTypeInfo[Any]] = staticmethod(lambda: BasicTypeInfo(BasicType.BIG_DEC))
    INSTANT_TYPE_INFO = staticmethod(lambda: InstantTypeInfo(BasicType.INSTANT))


class InstantTypeInfo(BasicTypeInfo[Instant]):
    """`Instant`; the plain form is microseconds since the epoch, at a resolution of milliseconds."""

    def __init__(self, basic_type: BasicType = BasicType.INSTANT) -> None:
        super().__init__(basic_type)

    def to_internal_type(self, obj: Any) -> Any:
        return None if obj is None else obj.to_epoch_milli() * 1000

    def from_internal_type(self, obj: Any) -> Any:
        return None if obj is None else Instant.of_epoch_milli(obj // 1000)


class DecimalTypeInfo(BasicTypeInfo):
    """`decimal.Decimal` of at most `precision` digits, `scale` of them after the point; Flink's BigDecimalTypeInfo.

    Between operators and in state it behaves as BIG_DEC. File formats apply precision and scale: they round half up to the scale,
    and refuse values with too many digits. Sources of Parquet and Delta refuse a column whose type it cannot hold. Make it by
    DataTypes.DECIMAL (flinkish.table).
    """

    def __init__(self, precision: int, scale: int) -> None:
        super().__init__(BasicType.BIG_DEC)
        self.precision = int_of("the precision of a decimal type", precision, minimum=1, maximum=38)
        self.scale = int_of("the scale of a decimal type", scale, minimum=0, maximum=precision)

    def rounded(self, value: Decimal) -> Decimal:
        """Return a value rounded to the type's scale; raise ArithmeticError if it has too many digits or is no number.

        >>> DecimalTypeInfo(4, 2).rounded(Decimal("1.235"))
        Decimal('1.24')
        """
        if not value.is_finite():
            raise InvalidOperation(f"{value} is no number")
        context = Context(prec=self.precision, rounding=ROUND_HALF_UP)
        found = value.quantize(Decimal((0, (1,), -self.scale)), context=context)
        return found if found else found.copy_abs()  # like Java's decimals, Arrow's have no -0

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self.precision}, {self.scale})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BasicTypeInfo) and other.basic_type is BasicType.BIG_DEC

    def __str__(self) -> str:
        # repr() names the kind only, because the structure of state does not depend on precision and scale.
        return f"DECIMAL({self.precision}, {self.scale})"

    def __hash__(self) -> int:
        return super().__hash__()


class SqlTimeTypeInfo(TypeInformation):
    """Factory of the three SQL time types."""

    DATE = staticmethod(lambda: DateTypeInfo())
    TIME = staticmethod(lambda: TimeTypeInfo())
    TIMESTAMP = staticmethod(lambda: TimestampTypeInfo())


class DateTypeInfo(TypeInformation[datetime.date]):
    """`datetime.date`; the plain form is days since the epoch."""

    EPOCH_ORDINAL = AbsentMember(INTERNAL)

    def to_internal_type(self, obj: Any) -> Any:
        return None if obj is None else obj.toordinal() - _EPOCH_ORDINAL

    def from_internal_type(self, obj: Any) -> Any:
        return None if obj is None else datetime.date.fromordinal(obj + _EPOCH_ORDINAL)


class TimeTypeInfo(TypeInformation[datetime.time]):
    """`datetime.time`; the plain form is microseconds since midnight."""

    EPOCH_ORDINAL = AbsentMember(INTERNAL)

    def to_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        return ((obj.hour * 60 + obj.minute) * 60 + obj.second) * 1_000_000 + obj.microsecond

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        seconds, microsecond = divmod(obj, 1_000_000)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        return datetime.time(hour, minute, second, microsecond)


class TimestampTypeInfo(TypeInformation[datetime.datetime]):
    """`datetime.datetime` without zone; the plain form is microseconds since 1970-01-01T00:00 on the same clock.

    Differs from Flink: the plain form does not depend on the machine's time zone, so it means the same everywhere.
    """

    def to_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        if obj.tzinfo is not None:
            obj = obj.astimezone(datetime.UTC).replace(tzinfo=None)
        return (obj - _EPOCH) // datetime.timedelta(microseconds=1)

    def from_internal_type(self, obj: Any) -> Any:
        return None if obj is None else _EPOCH + datetime.timedelta(microseconds=obj)


class ArrayTypeInfo(TypeInformation[V_co]):
    """Base of arrays and lists."""

    #: The kinds that elements may have; None = elements may have any type.
    _allowed: frozenset[BasicType] | None = None

    def __init__(self, element_type: TypeInformation) -> None:
        #: Type of the elements.
        self.element_type: Final = _checked_type(element_type, f"element type of {type(self).__name__}")
        basic = element_type.basic_type if isinstance(element_type, BasicTypeInfo) else None
        if self._allowed is not None and basic not in self._allowed:
            names = ", ".join(sorted(basic.name for basic in self._allowed))
            raise InvalidArgumentError(
                f"{type(self).__name__} holds elements of the types {names}; got {element_type!r}",
                hint="use OBJECT_ARRAY or LIST for other elements.",
            )

    def _parts(self) -> tuple[Any, ...]:
        return (self.element_type,)


_PRIMITIVES = frozenset(BasicType) - {BasicType.STRING, BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.INSTANT}


class PrimitiveArrayTypeInfo(ArrayTypeInfo):
    """Arrays of numbers, booleans or characters without None; lists in user code, `bytes` for BYTE."""

    _allowed = _PRIMITIVES


class BasicArrayTypeInfo(ArrayTypeInfo[list[Any]]):
    """Arrays of numbers, booleans, characters or text that may hold None; lists in user code."""

    _allowed = _PRIMITIVES | {BasicType.STRING}


class ObjectArrayTypeInfo(ArrayTypeInfo[list[Any]]):
    """Arrays of any type that may hold None; lists in user code."""


class ListTypeInfo(ArrayTypeInfo[list[Any]]):
    """Lists; as in PyFlink, the attribute `elem_type` is the element type."""

    @property
    def elem_type(self) -> TypeInformation:
        """Type of the elements."""
        return self.element_type


class MapTypeInfo(TypeInformation[dict[Any, Any]]):
    """Dicts with keys of one type and values of another; values may be None.

    Raises InvalidArgumentError for keys that are lists or dicts, or rows or tuples with some, as a dict cannot have such keys.
    """

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self.key_type: Final = _checked_type(key_type_info, "key type of MAP")
        self.value_type: Final = _checked_type(value_type_info, "value type of MAP")
        if not _is_hashable(self.key_type):
            raise InvalidArgumentError(
                f"a MAP is a Python dict, whose keys can neither be nor contain lists and dicts; got {self.key_type!r}",
                hint="declare a LIST of TUPLEs of key and value, or take TUPLE or STRING as the type of the keys.",
            )

    def _parts(self) -> tuple[Any, ...]:
        return (self.key_type, self.value_type)


def _is_hashable(type_info: TypeInformation) -> bool:
    """Return whether a dict can have values of a type as keys."""
    if isinstance(type_info, ArrayTypeInfo):  # an array of BYTE is bytes
        return isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.element_type == Types.BYTE()
    parts = [part for part in type_info._parts() if isinstance(part, TypeInformation)]
    return not isinstance(type_info, MapTypeInfo) and all(map(_is_hashable, parts))


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object; it is sent and stored pickled."""

    def checker(self) -> Callable[[Any], Any] | None:
        """Return a function that returns valid values and raises TypeMismatchError for others; None = all values are valid."""
        return None

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class _FieldsTypeInfo(TypeInformation[V_co]):
    """A type of values with a fixed number of fields."""

    def __init__(self, field_types: Sequence[TypeInformation], kind: str) -> None:
        self.field_types: Final = _checked_types(field_types, kind)

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self.field_types)

    def _parts(self) -> tuple[Any, ...]:
        return self.field_types


class RowTypeInfo(_FieldsTypeInfo[Row]):
    """`Row` with fields of given types and names (f0, f1, ... if not given). Comparisons of types ignore the names."""

    def __init__(self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None) -> None:
        super().__init__(field_types, "ROW")
        self._names_given = field_names is not None
        #: The names of the fields; all rows of the type share this tuple.
        self.field_names: Final = _checked_names(field_names, len(self.field_types))

    def get_field_names(self) -> list[str]:
        """Return the names of the fields."""
        return list(self.field_names)

    def get_field_index(self, field_name: str) -> int:
        """Return the position of the field with this name, -1 if there is none.

        Differs from Flink: PyFlink raises ValueError for an unknown name, and returns -1 for any name if none were given.
        """
        return self.field_names.index(field_name) if field_name in self.field_names else -1

    def to_internal_type(self, obj: Any) -> Any:
        """Return (kind as int, values...) of a Row, dict, list, tuple or object with attributes."""
        if obj is None:
            return None
        kind = RowKind.INSERT
        values: Sequence[Any]
        if isinstance(obj, Row):
            kind = obj.get_row_kind()
            values = obj.get_fields_by_names(self.field_names)
        elif isinstance(obj, dict):
            values = [obj.get(name) for name in self.field_names]
        elif isinstance(obj, (list, tuple)):
            values = obj
        elif hasattr(obj, "__dict__"):
            values = [vars(obj).get(name) for name in self.field_names]
        else:
            raise ValueError(f"expected a Row, dict, list, tuple or an object with attributes for {self!r}; got {obj!r}")
        return (kind.value, *(t.to_internal_type(value) for t, value in zip(self.field_types, values, strict=True)))

    def from_internal_type(self, obj: Any) -> Any:
        return None if obj is None else tuple(obj)

    def __repr__(self) -> str:
        if self._names_given:
            fields = (f"{name}: {t!r}" for name, t in zip(self.field_names, self.field_types, strict=True))
        else:
            fields = (repr(t) for t in self.field_types)
        return f"RowTypeInfo({', '.join(fields)})"


class TupleTypeInfo(_FieldsTypeInfo[tuple[Any, ...]]):
    """Tuples with fields of given types; no field may be None."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        super().__init__(field_types, "TUPLE")

    def to_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        if not isinstance(obj, (list, tuple, Row)):
            raise ValueError(f"expected a tuple, list or Row for {self!r}; got {obj!r}")
        return tuple(t.to_internal_type(value) for t, value in zip(self.field_types, obj, strict=True))

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        return tuple(t.from_internal_type(value) for t, value in zip(self.field_types, obj, strict=True))

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self.field_types))})"


class LocalTimeTypeInfo(TypeInformation):
    """`datetime.date`, `datetime.time` or `datetime.datetime`, as Java's LocalDate, LocalTime and LocalDateTime."""

    class TimeType(Enum):
        """The three kinds of values."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: LocalTimeTypeInfo.TimeType) -> None:
        self.time_type: Final = instance_of("LocalTimeTypeInfo()", time_type, LocalTimeTypeInfo.TimeType)

    def _parts(self) -> tuple[Any, ...]:
        return (self.time_type.value,)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self.time_type.name}>"


class ExternalTypeInfo(TypeInformation):
    """A wrapper that the Table API puts around types; behaves like the wrapped type."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info: Final = _checked_type(type_info, "type of ExternalTypeInfo")

    def _parts(self) -> tuple[Any, ...]:
        return (self.type_info,)


class Types:
    """Factory of types.

    >>> Types.ROW_NAMED(["id", "tags"], [Types.LONG(), Types.LIST(Types.STRING())])
    RowTypeInfo(id: Long, tags: ListTypeInfo<String>)
    """

    @staticmethod
    def STRING() -> BasicTypeInfo[str]:
        """Return the type of `str`."""
        return BasicTypeInfo.STRING_TYPE_INFO()

    @staticmethod
    def BYTE() -> BasicTypeInfo[int]:
        """Return the type of `int` from -128 to 127."""
        return BasicTypeInfo.BYTE_TYPE_INFO()

    @staticmethod
    def BOOLEAN() -> BasicTypeInfo[bool]:
        """Return the type of `bool`."""
        return BasicTypeInfo.BOOLEAN_TYPE_INFO()

    @staticmethod
    def SHORT() -> BasicTypeInfo[int]:
        """Return the type of `int` of 16 bits."""
        return BasicTypeInfo.SHORT_TYPE_INFO()

    @staticmethod
    def INT() -> BasicTypeInfo[int]:
        """Return the type of `int` of 32 bits."""
        return BasicTypeInfo.INT_TYPE_INFO()

    @staticmethod
    def LONG() -> BasicTypeInfo[int]:
        """Return the type of `int` of 64 bits."""
        return BasicTypeInfo.LONG_TYPE_INFO()

    @staticmethod
    def FLOAT() -> BasicTypeInfo[float]:
        """Return the type of `float` rounded to 32 bits."""
        return BasicTypeInfo.FLOAT_TYPE_INFO()

    @staticmethod
    def DOUBLE() -> BasicTypeInfo[float]:
        """Return the type of `float`."""
        return BasicTypeInfo.DOUBLE_TYPE_INFO()

    @staticmethod
    def CHAR() -> BasicTypeInfo[str]:
        """Return the type of `str` of one character."""
        return BasicTypeInfo.CHAR_TYPE_INFO()

    @staticmethod
    def BIG_INT() -> BasicTypeInfo[int]:
        """Return the type of `int` of any size."""
        return BasicTypeInfo.BIG_INT_TYPE_INFO()

    @staticmethod
    def BIG_DEC() -> BasicTypeInfo:
        """Return the type of `decimal.Decimal`."""
        return BasicTypeInfo.BIG_DEC_TYPE_INFO()

    @staticmethod
    def INSTANT() -> BasicTypeInfo[Instant]:
        """Return the type of `Instant`."""
        return BasicTypeInfo.INSTANT_TYPE_INFO()

    @staticmethod
    def SQL_DATE() -> TypeInformation[datetime.date]:
        """Return the type of `datetime.date`."""
        return SqlTimeTypeInfo.DATE()

    @staticmethod
    def SQL_TIME() -> TypeInformation[datetime.time]:
        """Return the type of `datetime.time`."""
        return SqlTimeTypeInfo.TIME()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[datetime.datetime]:
        """Return the type of `datetime.datetime`."""
        return SqlTimeTypeInfo.TIMESTAMP()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Return the type of any Python object."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Return the type of `Row` with fields f0, f1, ... of the given types."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Return the type of `Row` with fields of the given names and types."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        """Return the type of tuples with fields of the given types."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:
        """Return the type of arrays of numbers, booleans or characters, without None."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> BasicArrayTypeInfo:
        """Return the type of arrays of numbers, booleans, characters or text, with None allowed."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> ObjectArrayTypeInfo:
        """Return the type of arrays of any type, with None allowed."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> MapTypeInfo:
        """Return the type of dicts."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> ListTypeInfo:
        """Return the type of lists."""
        return ListTypeInfo(element_type_info)


def _checked_type(type_info: Any, what: str, expected: str = "a TypeInformation") -> TypeInformation:
    if isinstance(type_info, TypeInformation):
        return type_info
    if isinstance(getattr(type_info, "type_info", None), TypeInformation):
        raise InvalidArgumentError(
            f"{what} must be {expected}; got {type_info!r}, one of DataTypes",
            hint="it holds one: write DataTypes.DECIMAL(10, 2).type_info, for example.",
        )
    forgotten = callable(type_info) and getattr(Types, getattr(type_info, "__name__", ""), None) is type_info
    got = (
        f"the class {type_info.__qualname__}"
        if isinstance(type_info, type)
        else f"{type_info!r} of type {type(type_info).__name__}"
    )
    raise InvalidArgumentError(
        f"{what} must be {expected}; got {got}.",
        hint=f"call it: Types.{type_info.__name__}()." if forgotten else "take one from Types and call it: Types.STRING().",
    )


def _checked_types(types: Any, what: str) -> tuple[TypeInformation, ...]:
    if isinstance(types, TypeInformation) or not isinstance(types, Sequence) or isinstance(types, str):
        raise InvalidArgumentError(f"{what} expects a list of types; got {types!r} of type {type(types).__name__}")
    return tuple(_checked_type(t, f"field {position} of {what}") for position, t in enumerate(types))


def _checked_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"f{position}" for position in range(count))
    names = names_of("the field names of a row", names)
    if len(names) != count:
        raise InvalidArgumentError(
            f"a row needs as many field names as types; got {len(names)} names {list(names)} for {count} types"
        )
    if len(set(names)) != count:
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise InvalidArgumentError(
            f"the field names of a row must be different; {repeated} appear more than once in {list(names)}"
        )
    return names


def type_of(given: object, method: str, argument: str = "output_type") -> TypeInformation:
    """Return a type argument as a TypeInformation: None stands for any object, a list for a row."""
    if given is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(given, list):
        return RowTypeInfo(given)
    return _checked_type(given, f"{argument} of {method}()", "None, a list of TypeInformation or a TypeInformation")
