"""JSON, one value a line."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.time import Instant
from flinkish.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from flinkish.common.types import make_row
from flinkish.datastream.connectors._arrow import is_bytes, unwrap
from flinkish.datastream.connectors.file_system.formats import LineFormat, LineSource, SplitReader, describe_type, undecodable
from flinkish.datastream.connectors.file_system.lines import decode_lines
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors


@dataclass(frozen=True)
class JsonLinesFormat(LineFormat):
    """One JSON value a line; empty lines are skipped.

    Without `type_info` records are what the JSON says: dicts, lists, numbers, text. With a type they are checked and converted:
    objects become Rows (fields that are missing become None, others are left out), arrays tuples or lists, ISO 8601 text dates
    and times.
    """

    type_info: TypeInformation | None = None

    def __init__(self, type_info: TypeInformation | None = None, *, charset_name: str = "UTF-8") -> None:
        object.__setattr__(self, "charset_name", charset_name)
        object.__setattr__(self, "type_info", type_info)
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.type_info is not None:
            if not isinstance(self.type_info, TypeInformation):
                raise InvalidArgumentError(
                    f"type_info of the JSON lines format must be a TypeInformation; got {self.type_info!r}"
                )
            json_converter(self.type_info)

    def produced_type(self) -> TypeInformation | None:
        return self.type_info

    def open(self, split: FileSourceSplit, errors: RecordErrors) -> SplitReader:
        convert = None if self.type_info is None else json_converter(self.type_info)
        return _JsonLinesReader(LineSource(split, self.charset_name, strip_bom=True), convert, errors)


class _JsonLinesReader(SplitReader):
    def __init__(self, source: LineSource, convert: JsonConverter | None, errors: RecordErrors) -> None:
        self._source = source
        self._convert = convert
        self._errors = errors
        self._decoder = msgspec.json.Decoder()

    def read(self, limit: int) -> Sequence[Any]:
        records: list[Any] = []
        utf8 = self._source.encoding in ("utf-8", "ascii")
        while not records and (lines := self._source.take(limit)):
            texts: Sequence[str | bytes | None] = lines if utf8 else decode_lines(lines, self._source.encoding)
            for index, text in enumerate(texts):
                record = self._parse(text, lines[index], len(lines) - index)
                if record is not _NOTHING:
                    records.append(record)
        return records

    def _parse(self, text: str | bytes | None, line: bytes, back: int) -> Any:
        reason: str
        try:
            if text is None:
                result = undecodable(self._source, self._errors, line, back)
                return _NOTHING if result is None else result
            if not text or text.isspace():
                return _NOTHING
            value = self._decoder.decode(text)
            return value if self._convert is None else self._convert(value, "")
        except UnicodeDecodeError:
            result = undecodable(self._source, self._errors, line, back)
            return _NOTHING if result is None else result
        except msgspec.DecodeError as error:
            reason = f"not valid JSON: {error}"
        except RecursionError:
            reason = "not valid JSON: nested too deeply"
        except ValueError as error:
            reason = str(error)
        result = self._errors.handle(path=self._source.path, line=self._source.line_number(back), reason=reason, record=line)
        return _NOTHING if result is None else result

    def split(self) -> FileSourceSplit:
        return self._source.split()

    @property
    def finished(self) -> bool:
        return self._source.exhausted

    def close(self) -> None:
        self._source.close()


_NOTHING: Final = object()

#: Converts a decoded value that stands at a path (`a.b`, empty for the whole); raises ValueError saying what is wrong where.
JsonConverter = Callable[[Any, str], Any]

_RANGES: Final = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64, BasicType.BIG_INT: 0}


def json_converter(type_info: TypeInformation) -> JsonConverter:
    """Return what checks and converts a decoded JSON value to a type; raises InvalidProgramError for types without one."""
    type_info = unwrap(type_info)
    convert: JsonConverter
    match type_info:
        case PickledBytesTypeInfo():
            return lambda value, path: value
        case RowTypeInfo():
            convert = _row_converter(type_info)
        case TupleTypeInfo():
            convert = _tuple_converter(type_info)
        case MapTypeInfo():
            convert = _map_converter(type_info)
        case PrimitiveArrayTypeInfo() if is_bytes(type_info):
            raise InvalidProgramError(
                f"{type_info!r} cannot be read from JSON", hint="declare it as STRING and decode it in a map()."
            )
        case PrimitiveArrayTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | ListTypeInfo():
            convert = _list_converter(type_info, type_info.element_type)
        case BasicTypeInfo(basic_type=BasicType.STRING):
            convert = _simple(type_info, str, lambda value: value)
        case BasicTypeInfo(basic_type=BasicType.CHAR):
            convert = _simple(type_info, str, _one_character)
        case BasicTypeInfo(basic_type=BasicType.BOOLEAN):
            convert = _simple(type_info, bool, lambda value: value)
        case BasicTypeInfo(basic_type=BasicType.FLOAT | BasicType.DOUBLE):
            convert = _simple(type_info, (int, float), float)
        case BasicTypeInfo(basic_type=BasicType.BIG_DEC):
            convert = _simple(type_info, (int, float, str), lambda value: decimal.Decimal(str(value)))
        case BasicTypeInfo(basic_type=BasicType.INSTANT):
            convert = _simple(type_info, (int, str), _to_instant)
        case BasicTypeInfo():
            convert = _simple(type_info, int, _range_check(_RANGES[type_info.basic_type]))
        case DateTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_DATE):
            convert = _simple(type_info, str, datetime.date.fromisoformat)
        case TimeTypeInfo() | LocalTimeTypeInfo(time_type=LocalTimeTypeInfo.TimeType.LOCAL_TIME):
            convert = _simple(type_info, str, datetime.time.fromisoformat)
        case TimestampTypeInfo() | LocalTimeTypeInfo():
            convert = _simple(type_info, str, _to_timestamp)
        case _:
            raise InvalidProgramError(f"{type_info!r} cannot be read from JSON")
    return lambda value, path: None if value is None else convert(value, path)


def _mismatch(type_info: TypeInformation, value: Any, path: str) -> ValueError:
    where = f"field {path!r}" if path else "the value"
    shown = repr(value)
    return ValueError(
        f"{where} must be {type_info!r}; got {describe_type(value)}: {shown if len(shown) <= 100 else shown[:100] + '...'}"
    )


def _simple(type_info: TypeInformation, classes: type | tuple[type, ...], convert: Callable[[Any], Any]) -> JsonConverter:
    boolean = classes is bool

    def check(value: Any, path: str) -> Any:
        if not isinstance(value, classes) or (isinstance(value, bool) and not boolean):
            raise _mismatch(type_info, value, path)
        try:
            return convert(value)
        except (ValueError, ArithmeticError):
            raise _mismatch(type_info, value, path) from None

    return check


def _row_converter(type_info: RowTypeInfo) -> JsonConverter:
    names = type_info.field_names
    fields = [(name, json_converter(part)) for name, part in zip(names, type_info.field_types, strict=True)]

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(type_info, value, path)
        prefix = f"{path}." if path else ""
        return make_row(names, [one(value.get(name), prefix + name) for name, one in fields])

    return convert


def _tuple_converter(type_info: TupleTypeInfo) -> JsonConverter:
    fields = [json_converter(part) for part in type_info.field_types]

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, list) or len(value) != len(fields):
            raise _mismatch(type_info, value, path)
        if None in value:
            raise ValueError(f"field '{path}[{value.index(None)}]' of {type_info!r} must not be null")
        return tuple([one(part, f"{path}[{index}]") for index, (one, part) in enumerate(zip(fields, value, strict=True))])

    return convert


def _list_converter(type_info: TypeInformation, element_type: TypeInformation) -> JsonConverter:
    element = json_converter(element_type)

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise _mismatch(type_info, value, path)
        return [element(part, f"{path}[{index}]") for index, part in enumerate(value)]

    return convert


def _map_converter(type_info: MapTypeInfo) -> JsonConverter:
    if unwrap(type_info.key_type) != BasicTypeInfo(BasicType.STRING):
        raise InvalidProgramError(f"{type_info!r} cannot be read from JSON: its objects have STRING keys")
    element = json_converter(type_info.value_type)

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(type_info, value, path)
        return {key: element(part, f"{path}[{key!r}]") for key, part in value.items()}

    return convert


def _range_check(bits: int) -> Callable[[int], int]:
    limit = 2 ** (bits - 1) if bits else None

    def check(value: int) -> int:
        if limit is not None and not -limit <= value < limit:
            raise ValueError
        return value

    return check


def _one_character(value: str) -> str:
    if len(value) != 1:
        raise ValueError
    return value


def _to_timestamp(value: str) -> datetime.datetime:
    result = datetime.datetime.fromisoformat(value)
    return result if result.tzinfo is None else result.astimezone(datetime.UTC).replace(tzinfo=None)


def _to_instant(value: int | str) -> Instant:
    if isinstance(value, int):
        return Instant.of_epoch_milli(value)
    result = datetime.datetime.fromisoformat(value)
    if result.tzinfo is None:
        result = result.replace(tzinfo=datetime.UTC)
    micros = (result - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    return Instant(micros // 1_000_000, micros % 1_000_000 * 1000)
