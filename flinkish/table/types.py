"""DataTypes: types of columns, for the formats whose builders accept them in PyFlink (CSV, Parquet, ORC).

Each corresponds to a type of `flinkish.common.Types`, which the formats accept, too: ROW to ROW_NAMED, BIGINT to LONG and so on.
Columns may hold None; NOT NULL is refused. As in Flink's formats, lengths and the precision of times are not enforced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.common.absent import AbsentMember, add_getattr, declare_absent
from flinkish.common.absent_names import COLUMN_TYPE, TABLE_API
from flinkish.common.arguments import int_of, text_of
from flinkish.common.errors import InvalidArgumentError, UnsupportedError
from flinkish.common.typeinfo import DecimalTypeInfo, RowTypeInfo, TypeInformation, Types

__all__ = ["DataType", "DataTypes", "RowField", "RowType", "row_type_info", "type_info_of"]


@dataclass(frozen=True, slots=True)
class DataType:
    """The type of a column."""

    from_sql_type = AbsentMember(TABLE_API)
    need_conversion = AbsentMember(TABLE_API)
    to_sql_type = AbsentMember(TABLE_API)
    type_name = AbsentMember(TABLE_API)

    #: The SQL name of the type.
    name: str
    #: The type of the values in a stream.
    type_info: TypeInformation

    def bridged_to(self, conversion_cls: str) -> DataType:
        """Return the type itself: the argument names a Java class, which has no meaning here."""
        text_of("the name of a Java class in bridged_to()", conversion_cls, empty=True)
        return self

    def nullable(self) -> DataType:
        """Return the type itself: all columns may hold None."""
        return self

    def not_null(self) -> DataType:
        """Raise UnsupportedError: file formats do not check for None."""
        raise UnsupportedError(
            f"{self.name} NOT NULL is not supported: the formats of files do not check for None",
            hint="leave out nullable=False; drop such records in a filter().",
        )

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class RowField:
    """A field of a row; made by DataTypes.FIELD."""

    from_sql_type = AbsentMember(TABLE_API)
    need_conversion = AbsentMember(TABLE_API)
    to_sql_type = AbsentMember(TABLE_API)

    name: str
    data_type: DataType
    description: str | None = None


@dataclass(frozen=True, slots=True)
class RowType(DataType):
    """The type of a row; made by DataTypes.ROW."""

    add = AbsentMember(TABLE_API)

    fields: tuple[RowField, ...] = ()

    def field_names(self) -> list[str]:
        """Return the names of the fields."""
        return [field.name for field in self.fields]

    def field_types(self) -> list[DataType]:
        """Return the types of the fields."""
        return [field.data_type for field in self.fields]


class DataTypes:
    """Factory of column types.

    >>> row = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("price", DataTypes.DECIMAL(10, 2))])
    >>> str(row)
    'ROW<id BIGINT, price DECIMAL(10, 2)>'
    >>> row.type_info
    RowTypeInfo(id: Long, price: BigDecimal(10, 2))
    """

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:
        """Text; the length is not checked."""
        return _of_length("CHAR", length, Types.STRING(), nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:
        """Text; the length is not checked."""
        return _of_length("VARCHAR", length, Types.STRING(), nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:
        """Text."""
        return _checked(DataType("STRING", Types.STRING()), nullable)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:
        """True or false."""
        return _checked(DataType("BOOLEAN", Types.BOOLEAN()), nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> DataType:
        """Bytes; the length is not checked."""
        return _of_length("BINARY", length, Types.PRIMITIVE_ARRAY(Types.BYTE()), nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:
        """Bytes; the length is not checked."""
        return _of_length("VARBINARY", length, Types.PRIMITIVE_ARRAY(Types.BYTE()), nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:
        """Bytes."""
        return _checked(DataType("BYTES", Types.PRIMITIVE_ARRAY(Types.BYTE())), nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:
        """Decimals of at most `precision` digits, `scale` of them after the point."""
        return _checked(DataType(f"DECIMAL({precision}, {scale})", DecimalTypeInfo(precision, scale)), nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:
        """Whole numbers of 8 bits."""
        return _checked(DataType("TINYINT", Types.BYTE()), nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:
        """Whole numbers of 16 bits."""
        return _checked(DataType("SMALLINT", Types.SHORT()), nullable)

    @staticmethod
    def INT(nullable: bool = True) -> DataType:
        """Whole numbers of 32 bits."""
        return _checked(DataType("INT", Types.INT()), nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:
        """Whole numbers of 64 bits."""
        return _checked(DataType("BIGINT", Types.LONG()), nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:
        """Floating-point numbers of 32 bits."""
        return _checked(DataType("FLOAT", Types.FLOAT()), nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:
        """Floating-point numbers of 64 bits."""
        return _checked(DataType("DOUBLE", Types.DOUBLE()), nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:
        """Days (`datetime.date`)."""
        return _checked(DataType("DATE", Types.SQL_DATE()), nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:
        """Times of day (`datetime.time`), to the microsecond whatever the precision."""
        return _of_precision("TIME", precision, Types.SQL_TIME(), nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:
        """Times without zone (`datetime.datetime`), to the microsecond whatever the precision."""
        return _of_precision("TIMESTAMP", precision, Types.SQL_TIMESTAMP(), nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> DataType:
        """Points in time (`Instant`); files hold microseconds, whatever the precision."""
        return _of_precision("TIMESTAMP_LTZ", precision, Types.INSTANT(), nullable)

    TIMESTAMP_LTZ = TIMESTAMP_WITH_LOCAL_TIME_ZONE

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> DataType:
        """Lists."""
        element = _data_type(element_type, "element_type of ARRAY")
        return _checked(DataType(f"ARRAY<{element}>", Types.LIST(element.type_info)), nullable)

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> DataType:
        """Dicts."""
        key, value = _data_type(key_type, "key_type of MAP"), _data_type(value_type, "value_type of MAP")
        return _checked(DataType(f"MAP<{key}, {value}>", Types.MAP(key.type_info, value.type_info)), nullable)

    @staticmethod
    def ROW(row_fields: Sequence[RowField | DataType] = (), nullable: bool = True) -> RowType:
        """Rows of fields made by FIELD; fields given as types only are named f0, f1, ..."""
        if isinstance(row_fields, DataType) or not isinstance(row_fields, Sequence):
            raise InvalidArgumentError(f"ROW takes a list of fields; got {row_fields!r}", hint="DataTypes.FIELD(name, type).")
        fields = tuple(
            field if isinstance(field, RowField) else RowField(f"f{index}", _data_type(field, f"field {index} of ROW"))
            for index, field in enumerate(row_fields)
        )
        type_info = Types.ROW_NAMED([field.name for field in fields], [field.data_type.type_info for field in fields])
        row_type = RowType(f"ROW<{', '.join(f'{field.name} {field.data_type}' for field in fields)}>", type_info, fields)
        _checked(row_type, nullable)
        return row_type

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> RowField:
        """Describe a field of a row."""
        text_of("the name of a FIELD", name, empty=True)
        return RowField(name, _data_type(data_type, f"the type of field {name!r}"), description)


declare_absent(
    DataTypes,
    dict.fromkeys(("DAY", "HOUR", "LIST_VIEW", "MAP_VIEW", "MINUTE", "MONTH", "MULTISET", "NULL", "SECOND", "YEAR"), COLUMN_TYPE)
    | {"INTERVAL": COLUMN_TYPE},
)


def type_info_of(data_type: Any, what: str) -> TypeInformation:
    """Return the TypeInformation for one of DataTypes or Types; raise InvalidArgumentError for other values."""
    if isinstance(data_type, TypeInformation):
        return data_type
    if isinstance(data_type, DataType):
        return data_type.type_info
    raise InvalidArgumentError(
        f"{what} must be one of DataTypes or Types; got {data_type!r} of type {type(data_type).__name__}",
        hint="for example DataTypes.INT(), or Types.INT().",
    )


def row_type_info(row_type: Any, what: str) -> RowTypeInfo:
    """Return the RowTypeInfo for a row type of DataTypes or Types; raise InvalidArgumentError for other values."""
    type_info = type_info_of(row_type, what)
    if not isinstance(type_info, RowTypeInfo):
        raise InvalidArgumentError(
            f"{what} must be a row type; got {row_type!r}",
            hint="DataTypes.ROW([DataTypes.FIELD(name, type), ...]), or Types.ROW_NAMED(names, types).",
        )
    return type_info


def _data_type(data_type: Any, what: str) -> DataType:
    if not isinstance(data_type, DataType):
        raise InvalidArgumentError(
            f"{what} must be one of DataTypes; got {data_type!r} of type {type(data_type).__name__}", hint="DataTypes.INT()."
        )
    return data_type


def _checked(data_type: DataType, nullable: bool) -> DataType:
    return data_type if nullable else data_type.not_null()


def _of_length(name: str, length: int, type_info: TypeInformation, nullable: bool) -> DataType:
    int_of(f"the length of {name}", length, minimum=1)
    return _checked(DataType(f"{name}({length})", type_info), nullable)


def _of_precision(name: str, precision: int, type_info: TypeInformation, nullable: bool) -> DataType:
    int_of(f"the precision of {name}", precision, minimum=0, maximum=9)
    return _checked(DataType(f"{name}({precision})", type_info), nullable)


add_getattr(__name__)
