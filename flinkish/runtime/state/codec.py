"""Converts values to bytes and back by their declared type, for checkpoints.

A typed value is MessagePack of its *plain form*: numbers, text, lists. An untyped value (PICKLED_BYTE_ARRAY) is also MessagePack
if it is plain data, with extension types for kinds that MessagePack lacks (tuples, sets, Decimal, dates, Row...). Any other value
is pickled as a whole, in one extension of code PICKLE. Decoders for untrusted data refuse pickled parts.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import msgspec

from flinkish.common import pickling
from flinkish.common.conversion import nullable, same, state_converter
from flinkish.common.errors import CorruptCheckpointError, TypeMismatchError
from flinkish.common.kinds import Kind, kind_of, part_names, plain_type, shape_of
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.common.time import Instant
from flinkish.common.typeinfo import BasicType, DateTypeInfo, TimestampTypeInfo, TimeTypeInfo, TypeInformation
from flinkish.common.types import Row, RowKind, make_row

Function = Callable[[Any], Any]

#: Classes of immutable untyped values that are not encoded between epochs. Not bytes, which would look like an encoding.
KEPT_AS_THEY_ARE: frozenset[type] = frozenset(
    {
        int,
        float,
        bool,
        str,
        type(None),
        decimal.Decimal,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
    }
)
#: Classes of untyped values that MessagePack writes directly and restores exactly.
NATIVE: frozenset[type] = frozenset({int, float, bool, str, bytes, type(None)})

PICKLE, TUPLE, SET, FROZENSET, PAIRS, BIG_INT, DECIMAL, DATETIME, DATE, TIME, DURATION, ROW, INSTANT, UUID, BYTES, COMPLEX = (
    range(1, 17)
)

_encode = msgspec.msgpack.Encoder().encode
_decode_native = msgspec.msgpack.Decoder().decode
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_ROW_KINDS = tuple(RowKind)


class NotPlainError(Exception):
    """A value is not plain data; it is pickled instead."""


# -- untyped values --------------------------------------------------------------------------------------------------------------


def encode_untyped(value: Any) -> bytes:
    """Encode any value; falls back to pickle for values that are not plain data."""
    try:
        try:
            return _encode(value if value.__class__ in NATIVE else _plain_of(value))
        except OverflowError:  # it contains an integer of more than 64 bits
            return _encode(_carefully_plain_of(value))
    except (NotPlainError, UnicodeEncodeError, RecursionError):
        if value.__class__ is Opaque:
            encoding: bytes = value.encoding
            return encoding
        return _encode(msgspec.msgpack.Ext(PICKLE, pickling.dumps(value)))


def decode_untyped(data: bytes) -> Any:
    """Decode a result of `encode_untyped`, pickled or not; only for trusted bytes."""
    if data[0] >= 0xC7 and is_pickled(data):
        return pickling.loads_state(_decode_native(data).data)
    return _DECODE(data)


def decode_plain(data: bytes) -> Any:
    """Decode a result of `encode_untyped`; raises CorruptCheckpointError if a part of it is pickled."""
    if is_pickled(data):
        raise CorruptCheckpointError(
            "a value is pickled, and comes from a checkpoint whose signature is missing or wrong, so it must not be unpickled",
            hint="start from that checkpoint with the signing key it was made with (security.checkpoint.hmac-key-file), declare "
            "types for the state, or give the state another name to start empty.",
        )
    return _DECODE(data)


class Opaque:
    """A pickled value of a state that is read without its program: it is not decoded, and is written back as it is."""

    __slots__ = ("encoding",)

    def __init__(self, encoding: bytes) -> None:
        #: The result of `encode_untyped`.
        self.encoding = encoding

    @property
    def names(self) -> list[str]:
        """The full names of the classes and functions that it needs."""
        return pickling.names_in(_decode_native(self.encoding).data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other.encoding == self.encoding

    def __hash__(self) -> int:
        return hash(self.encoding)

    def __repr__(self) -> str:
        return f"<pickled: {', '.join(self.names) or 'no class'}; {len(self.encoding)} bytes>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be a part of another untyped value")


def decode_opaque(data: bytes) -> Any:
    """Decode a result of `encode_untyped` without unpickling: a pickled value is an `Opaque`."""
    return Opaque(bytes(data)) if is_pickled(data) else _DECODE(data)


def is_pickled(data: bytes) -> bool:
    """Tell whether an untyped value was pickled: it is then a single extension of code PICKLE."""
    first = data[0] if data else 0
    position = {0xC7: 2, 0xC8: 3, 0xC9: 5, 0xD4: 1, 0xD5: 1, 0xD6: 1, 0xD7: 1, 0xD8: 1}.get(first)
    return position is not None and len(data) > position and data[position] == PICKLE


def _ext(code: int, plain: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encode(plain))


class _PlainForms:
    """Converts plain data to a form that MessagePack can write; raises NotPlainError for anything else.

    `native` are the classes whose values are not converted. Integers are checked for their size only if int is not among them.
    """

    def __init__(self, native: frozenset[type]) -> None:
        self._native = native
        self._makers: dict[type, Function] = {
            int: self._int,
            list: self._items,
            dict: self._dict,
            tuple: lambda value: _ext(TUPLE, self._items(value)),
            set: lambda value: _ext(SET, self._items(value)),
            frozenset: lambda value: _ext(FROZENSET, self._items(value)),
            decimal.Decimal: lambda value: _ext(DECIMAL, str(value)),
            datetime.datetime: self._datetime,
            datetime.date: lambda value: _ext(DATE, value.toordinal()),
            datetime.time: self._time,
            datetime.timedelta: lambda value: _ext(DURATION, [value.days, value.seconds, value.microseconds]),
            Row: lambda value: _ext(ROW, [value.get_row_kind().value, value.get_field_names(), self._items(value)]),
            Instant: lambda value: _ext(INSTANT, [value.seconds, value.nanos]),
            uuid.UUID: lambda value: msgspec.msgpack.Ext(UUID, value.bytes),
            bytearray: lambda value: msgspec.msgpack.Ext(BYTES, bytes(value)),
            complex: lambda value: _ext(COMPLEX, [value.real, value.imag]),
        }

    def of(self, value: Any) -> Any:
        kind = value.__class__
        if kind in self._native:
            return value
        make = self._makers.get(kind)
        if make is None:
            raise NotPlainError
        return make(value)

    def _int(self, value: int) -> Any:
        return value if LONG_MIN <= value <= LONG_MAX else msgspec.msgpack.Ext(BIG_INT, _write_big(value))

    def _items(self, values: Iterable[Any]) -> list[Any]:
        native, of = self._native, self.of
        return [value if value.__class__ in native else of(value) for value in values]

    def _dict(self, value: dict[Any, Any]) -> Any:
        native, of = self._native, self.of
        if all(key.__class__ in native for key in value):
            return {key: item if item.__class__ in native else of(item) for key, item in value.items()}
        return _ext(PAIRS, [[of(key), of(item)] for key, item in value.items()])

    @staticmethod
    def _datetime(value: datetime.datetime) -> Any:
        zone = value.tzinfo
        if zone is None:
            return _ext(DATETIME, [(value - _EPOCH) // _MICROSECOND, None, value.fold])
        if zone.__class__ is not datetime.timezone:
            raise NotPlainError
        naive = value.replace(tzinfo=None)
        offset = zone.utcoffset(None)
        return _ext(DATETIME, [(naive - _EPOCH) // _MICROSECOND, offset // _MICROSECOND, value.fold])

    @staticmethod
    def _time(value: datetime.time) -> Any:
        if value.tzinfo is not None:
            raise NotPlainError
        return _ext(TIME, [value.hour, value.minute, value.second, value.microsecond, value.fold])


_plain_of = _PlainForms(NATIVE).of
_carefully_plain_of = _PlainForms(NATIVE - {int}).of


def _write_big(number: int) -> bytes:
    # Python limits the decimal digits that it writes and reads, to 4,300 by default.
    return b"%d" % number if number.bit_length() <= 10_000 else hex(number).encode()


def _read_big(digits: bytes) -> int:
    return int(digits, 16 if b"x" in digits[:3] else 10)


def _make_datetime(plain: list[Any]) -> datetime.datetime:
    micros, offset, fold = plain
    value: datetime.datetime = _EPOCH + micros * _MICROSECOND
    zone = None if offset is None else datetime.timezone(offset * _MICROSECOND)
    return value.replace(tzinfo=zone, fold=fold)


def _make_row(plain: list[Any]) -> Row:
    kind, names, values = plain
    return make_row(None if names is None else tuple(names), values, _ROW_KINDS[kind])


#: From the decoded content of an extension to the value.
_MAKERS: dict[int, Function] = {
    TUPLE: tuple,
    SET: set,
    FROZENSET: frozenset,
    PAIRS: lambda plain: {key: value for key, value in plain},  # noqa: C416 - dict(plain) reads pairs of bytes wrongly
    DECIMAL: decimal.Decimal,
    DATETIME: _make_datetime,
    DATE: datetime.date.fromordinal,
    TIME: lambda plain: datetime.time(*plain[:4], fold=plain[4]),
    DURATION: lambda plain: datetime.timedelta(*plain),
    ROW: _make_row,
    INSTANT: lambda plain: Instant(*plain),
    COMPLEX: lambda plain: complex(*plain),
}
_RAW_MAKERS: dict[int, Function] = {
    BIG_INT: lambda data: _read_big(bytes(data)),
    UUID: lambda data: uuid.UUID(bytes=bytes(data)),
    BYTES: bytearray,
}


def _extension(code: int, data: memoryview) -> Any:
    make = _MAKERS.get(code)
    if make is not None:
        return make(_DECODE(data))
    raw = _RAW_MAKERS.get(code)
    if raw is None:
        raise CorruptCheckpointError(f"a state value has an extension of code {code}, which is not one of flinkish's")
    return raw(data)


_DECODE = msgspec.msgpack.Decoder(ext_hook=_extension).decode
#: Decodes a list of untyped values; raises CorruptCheckpointError if one is pickled.
decode_plain_list = msgspec.msgpack.Decoder(list[Any], ext_hook=_extension).decode


# -- typed values ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """The functions between the values of a type and their plain form; None if both are the same."""

    to_plain: Function | None = None
    from_plain: Function | None = None
    #: Whether values are immutable, so that they need not be encoded between epochs.
    immutable: bool = True
    #: Whether parts of a value may be pickled.
    pickles: bool = False
    #: Whether values are numbers, texts, booleans or tuples of these, which are their own plain form.
    plain: bool = False
    #: Whether the JSON for people is that of the plain form. `shown_fields`: for a row whose fields are all so, their names.
    shown: bool = False
    shown_fields: tuple[str, ...] | None = None
    #: The class whose instances are always valid values, if there is one.
    exact: type | None = None


_plain = partial(_Form, plain=True, shown=True)
_DATE, _TIME, _TIMESTAMP = DateTypeInfo(), TimeTypeInfo(), TimestampTypeInfo()
_SIMPLE_FORMS: dict[BasicType | Kind, _Form] = {
    BasicType.STRING: _plain(exact=str),
    BasicType.CHAR: _plain(),
    BasicType.BOOLEAN: _plain(exact=bool),
    BasicType.BYTE: _plain(),
    BasicType.SHORT: _plain(),
    BasicType.INT: _plain(),
    BasicType.LONG: _plain(exact=int),
    BasicType.FLOAT: _plain(exact=float),
    BasicType.DOUBLE: _plain(exact=float),
    BasicType.BIG_INT: _Form(
        to_plain=lambda value: _write_big(value).decode(), from_plain=lambda digits: _read_big(digits.encode())
    ),
    BasicType.BIG_DEC: _Form(to_plain=str, from_plain=decimal.Decimal),
    BasicType.INSTANT: _Form(to_plain=lambda value: [value.seconds, value.nanos], from_plain=lambda plain: Instant(*plain)),
    Kind.DATE: _Form(to_plain=_DATE.to_internal_type, from_plain=_DATE.from_internal_type),
    Kind.TIME: _Form(to_plain=_TIME.to_internal_type, from_plain=_TIME.from_internal_type),
    Kind.TIMESTAMP: _Form(to_plain=_TIMESTAMP.to_internal_type, from_plain=_TIMESTAMP.from_internal_type),
    Kind.BYTES: _Form(to_plain=bytes),
}


def _form_of(type_info: TypeInformation, decode: Function) -> _Form:
    kind, types = shape_of(type_info)
    if kind in _SIMPLE_FORMS:
        return _SIMPLE_FORMS[kind]
    parts = [_form_of(part, decode) for part in types]
    match kind:
        case Kind.PICKLED:
            return _Form(to_plain=encode_untyped, from_plain=decode, immutable=False, pickles=True)
        case Kind.LIST:
            return _list_form(*parts)
        case Kind.MAP:
            return _map_form(*parts)
        case Kind.ROW:
            return _row_form(part_names(type_info), parts)
        case Kind.TUPLE:
            return _tuple_form(parts)
        case _:
            raise TypeMismatchError(
                f"values of type {plain_type(type_info)!r} cannot be kept in state", hint="use a type made by Types."
            )


def _list_form(element: _Form) -> _Form:
    to_plain, from_plain = nullable(element.to_plain), nullable(element.from_plain)
    return _Form(
        to_plain=None if to_plain is None else lambda value: [to_plain(item) for item in value],
        from_plain=None if from_plain is None else lambda plain: [from_plain(item) for item in plain],
        immutable=False,
        shown=element.shown,
        pickles=element.pickles,
    )


def _map_form(key: _Form, value: _Form) -> _Form:
    """Return the form of maps, a list of pairs, because MessagePack maps do not allow all keys of dicts."""
    key_to, key_from = key.to_plain or same, key.from_plain or same
    value_to, value_from = nullable(value.to_plain) or same, nullable(value.from_plain) or same
    return _Form(
        to_plain=lambda entries: [[key_to(k), value_to(v)] for k, v in entries.items()],
        from_plain=lambda plain: {key_from(k): value_from(v) for k, v in plain},
        immutable=False,
        pickles=key.pickles or value.pickles,
    )


def _each(functions: Iterable[Function | None]) -> Function | None:
    """Return a function that converts each item of a sequence by a function of its own; None if nothing is converted."""
    converters = [nullable(function) for function in functions]
    if not any(converters):
        return None
    return lambda items: [item if convert is None else convert(item) for convert, item in zip(converters, items, strict=True)]


def _row_form(names: tuple[str, ...], fields: list[_Form]) -> _Form:
    write, read = _each(field.to_plain for field in fields), _each(field.from_plain for field in fields)

    count = len(fields)

    def mismatch(values: Any) -> ValueError:
        return ValueError(f"expected a row of {count} values; got {len(values)}")

    def to_plain(row: Any) -> list[Any]:
        own = row._fields
        values = row._values if own is None or own == names else row.get_fields_by_names(names)
        if len(values) != count:
            raise mismatch(values)
        return [row._row_kind._value_, *(values if write is None else write(values))]

    def from_plain(plain: list[Any]) -> Row:
        kind, *values = plain
        if len(values) != count:
            raise mismatch(values)
        return make_row(names, values if read is None else read(values), _ROW_KINDS[kind])

    return _Form(
        to_plain=to_plain,
        from_plain=from_plain,
        immutable=False,
        pickles=any(field.pickles for field in fields),
        # Other names might have to be escaped.
        shown_fields=names if all(field.shown for field in fields) and all(map(str.isidentifier, names)) else None,
    )


def _tuple_form(fields: list[_Form]) -> _Form:
    write, read = _each(field.to_plain for field in fields), _each(field.from_plain for field in fields)
    return _Form(
        to_plain=write,
        from_plain=tuple if read is None else lambda plain: tuple(read(plain)),
        immutable=all(field.immutable for field in fields),
        plain=all(field.plain for field in fields),
        shown=all(field.shown for field in fields),
        pickles=any(field.pickles for field in fields),
    )


def structure_of(type_info: TypeInformation) -> str:
    """Return the structure of a type, which must match when state is restored: its shape without the names of fields."""
    type_info = plain_type(type_info)
    kind, types = shape_of(type_info)
    parts = ", ".join(map(structure_of, types))
    match kind:
        case Kind.ROW:
            return f"Row({parts})"
        case Kind.TUPLE:
            return f"Tuple({parts})"
        case Kind.BYTES:
            return "PrimitiveArray<Byte>"
        case Kind.LIST | Kind.MAP:
            return f"{type(type_info).__name__.removesuffix('TypeInfo')}<{parts}>"
        case _:
            return repr(type_info)


def row_fields(type_info: TypeInformation) -> tuple[tuple[str, ...], ...]:
    """Return the names of the fields of each row within a type, in an order that only depends on its structure."""
    kind, parts = shape_of(type_info)
    own = (part_names(type_info),) if kind is Kind.ROW else ()
    return own + tuple(names for part in parts for names in row_fields(part))


class Codec:
    """Encodes and decodes the values of one type.

    With `ttl`, values are pairs (time of last use in milliseconds, value). With `trusted` False, decoding refuses pickled parts;
    with `opaque`, it leaves them undecoded (`Opaque`).

    `immutable`: values never change, so frozen form and value are the same. `convert` checks and converts a value as PyFlink does
    (None = accepts anything). `exact`: instances of exactly this class need no `convert`.
    """

    def __init__(self, type_info: TypeInformation, *, ttl: bool = False, trusted: bool = True, opaque: bool = False) -> None:
        decode_any = decode_opaque if opaque else decode_untyped if trusted else decode_plain
        form = _form_of(type_info, decode_any)
        self.type_info = type_info
        self.ttl = ttl
        self.pickles = form.pickles
        self.immutable = form.immutable
        self.exact = form.exact
        #: Whether values, frozen or not, are numbers, texts or tuples of these, which are encoded as they are.
        self.plain = form.plain and not ttl
        #: See _Form.
        self.shown = form.shown
        self.shown_fields = None if ttl else form.shown_fields
        self.convert: Function | None = state_converter(type_info)
        #: Raises TypeMismatchError if one of many values cannot be written; None if values were checked before.
        self.check_all: Callable[[Iterable[Any]], None] | None = None
        if form.exact is int:
            self.check_all = _check_stamped_longs if ttl else _check_longs
        self.untyped = kind_of(type_info) is Kind.PICKLED and not ttl
        #: Converts decoded MessagePack to the value; None if they are the same, or if the conversion needs the bytes.
        self.from_plain: Function | None = None
        self.encode: Callable[[Any], bytes]
        self.decode: Function
        self.freeze: Function
        self.thaw: Function
        if ttl:
            self._set_stamped(form)
        elif self.untyped:
            self.encode = encode_untyped
            self.decode = decode_any
        else:
            to_plain, from_plain = nullable(form.to_plain), nullable(form.from_plain)
            self.encode = _encode if to_plain is None else lambda value: _encode(to_plain(value))
            self.from_plain = from_plain
            self.decode = _decode_native if from_plain is None else lambda data: from_plain(_decode_native(data))
        if self.immutable:
            self.freeze = self.thaw = same
        elif self.untyped:
            self.freeze, self.thaw = _freeze_untyped, self._thaw_untyped
        else:
            self.freeze, self.thaw = self.encode, self.decode

    def _set_stamped(self, form: _Form) -> None:
        to_plain, from_plain = nullable(form.to_plain) or same, nullable(form.from_plain) or same
        self.encode = lambda stamped: _encode([stamped[0], to_plain(stamped[1])])

        def decode(data: bytes) -> tuple[int, Any]:
            stamp, plain = _decode_native(data)
            return stamp, from_plain(plain)

        self.decode = decode

    def _thaw_untyped(self, frozen: Any) -> Any:
        return self.decode(frozen) if frozen.__class__ is bytes else frozen

    def encode_frozen(self, frozen: Any) -> bytes:
        """Encode a frozen value."""
        if self.immutable or (self.untyped and frozen.__class__ is not bytes):
            return self.encode(frozen)
        result: bytes = frozen
        return result


def _freeze_untyped(value: Any) -> Any:
    return value if value.__class__ in KEPT_AS_THEY_ARE else encode_untyped(value)


def _check_longs(values: Iterable[Any]) -> None:
    try:
        array("q", values)
    except (OverflowError, TypeError):
        for value in values:
            if value is not None and (value.__class__ is not int or not LONG_MIN <= value <= LONG_MAX):
                raise TypeMismatchError(f"state of type Long holds {value!r}, which is no integer of 64 bits") from None


def _check_stamped_longs(values: Iterable[tuple[int, Any]]) -> None:
    _check_longs([value for _, value in values])


# -- readable form ---------------------------------------------------------------------------------------------------------------


def _json_default(value: Any) -> Any:
    if isinstance(value, Row):
        names = value.get_field_names()
        return list(value) if names is None else dict(zip(names, value, strict=False))
    if isinstance(value, Instant):
        return value.to_epoch_milli()
    if isinstance(value, complex):
        return str(value)
    raise TypeError


_JSON = msgspec.json.Encoder(enc_hook=_json_default)
_encode_json = _JSON.encode
#: Returns many values as JSON for people, each with a line feed behind it.
encode_json_lines = _JSON.encode_lines


def to_json(value: Any) -> str | None:
    """Return a value as JSON for people; None if there is no JSON for it."""
    try:
        return _encode_json(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError):
        return None


def encoded_to_json(codec: Codec, data: bytes) -> str | None:
    """Return an encoded value as JSON for people; None if there is no JSON for it. Does not unpickle anything."""
    if codec.untyped and is_pickled(data):
        return None
    if codec.pickles and not codec.untyped:
        return to_json(_decode_native(data))
    value = codec.decode(data)
    if value.__class__ is float and not math.isfinite(value):
        return f'"{value}"'
    return to_json(value)
