"""Aggregates of fields: what to compute as data, so that it can be computed record by record or by columns.

Null values are left out, as in SQL: the sum of none is None, their count 0.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.kinds import BOUNDS, INTEGER_BITS, Kind, is_declared, kind_of, part_names, plain_type, shape_of
from flinkish.common.time import Instant
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, RowTypeInfo, TypeInformation, Types
from flinkish.common.types import Row, make_row
from flinkish.udf.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowFunction
from flinkish.udf.rolling import cut_to_milliseconds
from flinkish.udf.totals import addition

__all__ = [
    "Aggregate",
    "avg",
    "count",
    "first",
    "key",
    "last",
    "max",
    "max_by",
    "min",
    "min_by",
    "sum",
    "window_end",
    "window_start",
]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What to compute of the records of a key or window; made by the functions of this module."""

    kind: str
    field: int | str | None = None
    #: The field by which `min_by` and `max_by` compare.
    by: int | str | None = None


def sum(field: int | str) -> Aggregate:
    """Add up a field (name in rows, position in tuples): of integers as LONG, of FLOAT and DOUBLE as DOUBLE, or decimals.

    A sum that leaves the 64 bits of a LONG fails the job with a TypeMismatchError.
    """
    return Aggregate("sum", field)


def count(field: int | str | None = None) -> Aggregate:
    """Count the records or, with a field, those where it is not None."""
    return Aggregate("count", field)


def min(field: int | str) -> Aggregate:
    """Find the least value of a field; NaN if there is one."""
    return Aggregate("min", field)


def max(field: int | str) -> Aggregate:
    """Find the greatest value of a field; NaN if there is one."""
    return Aggregate("max", field)


def avg(field: int | str) -> Aggregate:
    """Compute the mean of a numeric field, as DOUBLE."""
    return Aggregate("avg", field)


def first(field: int | str) -> Aggregate:
    """Take the first value of a field that is not None."""
    return Aggregate("first", field)


def last(field: int | str) -> Aggregate:
    """Take the last value of a field that is not None."""
    return Aggregate("last", field)


def min_by(field: int | str, by: int | str) -> Aggregate:
    """Take a field of the record with the least value of another field, `by`; of the first one among equals."""
    return Aggregate("min_by", field, by)


def max_by(field: int | str, by: int | str) -> Aggregate:
    """Take a field of the record with the greatest value of another field, `by`; of the first one among equals."""
    return Aggregate("max_by", field, by)


def key() -> Aggregate:
    """Show the key."""
    return Aggregate("key")


def window_start() -> Aggregate:
    """Show when the window begins, in milliseconds."""
    return Aggregate("window_start")


def window_end() -> Aggregate:
    """Show when the window ends (exclusive), in milliseconds."""
    return Aggregate("window_end")


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of the accumulator: a kind and the positions of the fields that it reads; None counts all records."""

    kind: str
    field: int | None
    by: int | None = None

    @property
    def looked_at(self) -> int | None:
        """The position of the field that decides whether a record counts: if it is None, the record changes nothing."""
        return self.field if self.by is None else self.by

    def shown(self, value: Any, count: int) -> Any:
        """Return what is shown of the slot's value, if `count` records count; None if it has no value yet."""
        if self.by is not None:
            return value[2] if count and value[1] else None
        return value if count or self.kind == "count" else None


#: Kinds of slots that take a field of one of the records as it is.
CHOOSING = ("first", "last", "min_by", "max_by")
#: The slots that each kind of aggregate needs.
_PARTS: dict[str, tuple[str, ...]] = {
    **{kind: (kind,) for kind in ("sum", "count", "min", "max", *CHOOSING)},
    "avg": ("sum", "count"),
}
#: Numbers that numpy adds up and compares as Python does.
_NATIVE = {*INTEGER_BITS, BasicType.DOUBLE}
_NUMBERS = {*_NATIVE, BasicType.FLOAT, BasicType.BIG_INT, BasicType.BIG_DEC}
#: Types whose values have an order.
ORDERED = {
    *_NUMBERS,
    BasicType.STRING,
    BasicType.CHAR,
    BasicType.BOOLEAN,
    BasicType.INSTANT,
    Kind.DATE,
    Kind.TIME,
    Kind.TIMESTAMP,
}


class FieldAggregates(AggregateFunction):
    """Computes several aggregates together; the result is a row of them, with the names that they were given.

    The accumulator is a tuple with a value for each slot. For each slot there is a count of the records that count; as long as it
    is 0, the slot holds some value of its type, for tuples hold no None. The value of `min_by` and `max_by` is a tuple: the
    compared field, whether the other field is not None, and the other field.
    """

    def __init__(self, aggregates: Mapping[str, Any], record_type: TypeInformation, key_type: TypeInformation) -> None:
        """Raise InvalidProgramError for fields that do not exist or have no fitting type."""
        hint = 'for example aggregate(total=aggregates.sum("price")), with flinkish.datastream.aggregates.'
        if not aggregates:
            raise InvalidArgumentError("aggregate() needs at least one aggregate.", hint=hint)
        self._record_type = record_type
        kind, types = shape_of(record_type)
        self.has_fields = kind in (Kind.ROW, Kind.TUPLE)
        self.field_types: tuple[TypeInformation, ...] = types if self.has_fields else (record_type,)
        self._names = part_names(record_type) if kind is Kind.ROW else ()
        self.names = tuple(aggregates)
        self.aggregates: tuple[Aggregate, ...] = tuple(aggregates.values())
        self.slots: list[Slot] = []
        #: For each aggregate, the positions of its slots.
        self.parts: list[tuple[int, ...]] = []
        output_types = []
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise InvalidArgumentError(f"aggregate(): {name} must be an aggregate; got {aggregate!r}.", hint=hint)
            slots = [self._slot(kind, aggregate) for kind in _PARTS.get(aggregate.kind, ())]
            self.parts.append(tuple(map(self._place, slots)))
            output_types.append(key_type if aggregate.kind == "key" else self._result_type(aggregate, slots))
        if not self.slots:
            raise InvalidArgumentError("aggregate() needs something to compute of the records, such as count().", hint=hint)
        self.output_type: RowTypeInfo = Types.ROW_NAMED(list(self.names), output_types)
        self.uses_window = any(aggregate.kind.startswith("window") for aggregate in self.aggregates)
        for slot in list(self.slots):
            self._place(Slot("count", slot.looked_at))
        #: For each slot, the position of the count that tells whether it has a value.
        self.counts = [self._place(Slot("count", slot.looked_at)) for slot in self.slots]
        self.accumulator_type: TypeInformation = Types.TUPLE(list(map(self._slot_type, self.slots)))
        self.starts = tuple(map(self._start, self.slots))
        self._merges = [
            addition(self._slot_type(slot)) if slot.kind in ("count", "sum") else _MERGES[slot.kind] for slot in self.slots
        ]
        self._adders = list(map(_adder, self.slots, range(len(self.slots)), self.counts, self.starts, self._merges))
        untyped = kind_of(key_type) is Kind.PICKLED and any(aggregate.kind == "key" for aggregate in self.aggregates)
        #: Why columns cannot be aggregated so; None if they can, because numpy computes the same.
        self.why_by_record = self._by_record() or ("the key has no declared type, but is shown" if untyped else None)

    @property
    def in_any_order(self) -> bool:
        """Whether numpy computes the results, and they depend neither on the order of records nor on which are combined first.

        The sign of zero may depend on it: the greatest of 0.0 and -0.0 is the one that came first.
        """
        return self.why_by_record is None and all(
            slot.kind in ("count", "min", "max")
            or (slot.kind == "sum" and slot.field is not None and kind_of(self.field_types[slot.field]) in INTEGER_BITS)
            for slot in self.slots
        )

    def _place(self, slot: Slot) -> int:
        """Return the position of a slot, which is added if it is new."""
        if slot not in self.slots:
            self.slots.append(slot)
        return self.slots.index(slot)

    def _by_record(self) -> str | None:
        """Return why numpy cannot compute the aggregates; None if it can."""
        for aggregate, places in zip(self.aggregates, self.parts, strict=True):
            for slot in (self.slots[place] for place in places):
                if slot.kind == "count" or slot.field is None:
                    continue
                compared = slot.by if slot.kind in CHOOSING else slot.field
                if compared is not None and kind_of(self.field_types[compared]) not in _NATIVE:
                    return f"{aggregate.kind}({aggregate.field!r}) looks at each record"
                if not is_declared(self.field_types[slot.field]):
                    return f"{aggregate.kind}({aggregate.field!r}) takes values that no column holds"
                if any(map(cut_to_milliseconds, shape_of(self.field_types[slot.field])[1])):
                    return "state cuts times in nested fields to milliseconds"
        return None

    def _start(self, slot: Slot) -> Any:
        """Return what a slot holds as long as it has no value; if numpy computes it, a number that changes no result."""
        if slot.field is not None and slot.by is not None:
            return _something(self.field_types[slot.by]), False, _something(self.field_types[slot.field])
        kind = kind_of(self._slot_type(slot))
        if slot.kind in ("min", "max") and kind in _NATIVE:
            least, most = BOUNDS.get(kind, (-math.inf, math.inf))
            return most if slot.kind == "min" else least
        return _something(self._slot_type(slot))

    def _slot(self, kind: str, aggregate: Aggregate) -> Slot:
        if aggregate.field is None:
            return Slot(kind, None)
        allowed = {"sum": _NUMBERS, "min": ORDERED, "max": ORDERED}.get(kind)
        by = None if aggregate.by is None else self._position(aggregate, aggregate.by, ORDERED)
        return Slot(kind, self._position(aggregate, aggregate.field, allowed), by)

    def _position(self, aggregate: Aggregate, field: int | str, allowed: set[Any] | None) -> int:
        known = self._names.index(field) if field in self._names else field
        if isinstance(known, bool) or not isinstance(known, int) or known not in range(len(self.field_types)):
            raise InvalidProgramError(f"{aggregate.kind}({field!r}): there is no such field; records are {self._record_type!r}.")
        if allowed is not None and kind_of(self.field_types[known]) not in allowed:
            what = "numbers" if allowed is _NUMBERS else "values that have an order"
            raise InvalidProgramError(
                f"{aggregate.kind}({field!r}) needs a field of {what}; this one is of type {self.field_types[known]!r}."
            )
        return known

    def _slot_type(self, slot: Slot) -> TypeInformation:
        if slot.field is None or slot.kind == "count":
            return Types.LONG()
        field_type = self.field_types[slot.field]
        if slot.kind == "sum":
            kind = kind_of(field_type)
            floating = kind in (BasicType.FLOAT, BasicType.DOUBLE)
            own = plain_type(field_type)
            if isinstance(own, DecimalTypeInfo):
                return DecimalTypeInfo(38, own.scale)  # as in Flink's SQL
            return Types.LONG() if kind in INTEGER_BITS else Types.DOUBLE() if floating else field_type
        return field_type if slot.by is None else Types.TUPLE([self.field_types[slot.by], Types.BOOLEAN(), field_type])

    def _result_type(self, aggregate: Aggregate, slots: list[Slot]) -> TypeInformation:
        if aggregate.kind == "avg":
            return Types.DOUBLE()
        if not slots:
            return Types.LONG()
        (slot,) = slots
        return self._slot_type(slot) if slot.by is None or slot.field is None else self.field_types[slot.field]

    @property
    def fields_read(self) -> frozenset[int]:
        """The positions of the fields that the aggregates are computed of."""
        return frozenset(field for slot in self.slots for field in (slot.field, slot.by) if field is not None)

    def create_accumulator(self) -> Any:
        return self.starts

    def add(self, value: Any, accumulator: Any) -> Any:
        fields = value if self.has_fields else (value,)
        return tuple([add(accumulator, fields) for add in self._adders])

    def get_result(self, accumulator: Any) -> Any:
        """Return the accumulator: `row` makes the result of it, which also shows key and window."""
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        merged = []
        for merge, count, one, other in zip(self._merges, self.counts, acc_a, acc_b, strict=True):
            if acc_a[count] and acc_b[count]:
                merged.append(merge(one, other))
            else:
                merged.append(one if acc_a[count] else other)
        return tuple(merged)

    def row(self, accumulator: Any, key: Any, window: Any = None) -> Row:
        """Return the result: `window` has `start` and `end` in milliseconds."""
        values = []
        for aggregate, parts in zip(self.aggregates, self.parts, strict=True):
            match aggregate.kind:
                case "key":
                    values.append(key)
                case "window_start":
                    values.append(window.start)
                case "window_end":
                    values.append(window.end)
                case "avg":
                    number = accumulator[parts[1]]
                    values.append(float(accumulator[parts[0]] / number) if number else None)
                case _:
                    (place,) = parts
                    values.append(self.slots[place].shown(accumulator[place], accumulator[self.counts[place]]))
        return make_row(self.names, values)


class AggregatedWindow(ProcessWindowFunction[Any, Row, Any, Any]):
    """Shows the aggregates of a window as a row."""

    def __init__(self, aggregates: FieldAggregates) -> None:
        self.aggregates = aggregates

    def process(self, key: Any, context: ProcessWindowFunction.Context[Any], elements: Any) -> list[Row]:
        return [self.aggregates.row(accumulator, key, context.window()) for accumulator in elements]


class AggregatedAllWindow(ProcessAllWindowFunction[Any, Row, Any]):
    """The same for a window of the whole stream, which has no key."""

    def __init__(self, aggregates: FieldAggregates) -> None:
        self.aggregates = aggregates

    def process(self, context: ProcessAllWindowFunction.Context[Any], elements: Any) -> list[Row]:
        return [self.aggregates.row(accumulator, None, context.window()) for accumulator in elements]


_SOMETHING: dict[BasicType | Kind, Any] = {
    **dict.fromkeys((*INTEGER_BITS, BasicType.BIG_INT), 0),
    **dict.fromkeys((BasicType.FLOAT, BasicType.DOUBLE), 0.0),
    BasicType.BIG_DEC: Decimal(0),
    BasicType.BOOLEAN: False,
    BasicType.STRING: "",
    BasicType.CHAR: " ",
    BasicType.INSTANT: Instant(0, 0),
    Kind.DATE: datetime.date(1970, 1, 1),
    Kind.TIME: datetime.time(),
    Kind.TIMESTAMP: datetime.datetime(1970, 1, 1),
    Kind.BYTES: b"",
}


def _something(type_info: TypeInformation) -> Any:
    """Return any value of a type."""
    kind, parts = shape_of(type_info)
    match kind:
        case Kind.LIST:
            return []
        case Kind.MAP:
            return {}
        case Kind.ROW:
            return make_row(part_names(type_info), [None] * len(parts))
        case Kind.TUPLE:
            return tuple(map(_something, parts))
        case _:
            return _SOMETHING.get(kind)


#: Returns the value of a slot with one record added, given the accumulator before and the fields of the record.
Adder = Callable[[Any, Any], Any]


def _adder(slot: Slot, place: int, count: int, start: Any, combine: Callable[[Any, Any], Any]) -> Adder:
    """Return the adder of the slot at a place of the accumulator, with the place of its count, and what it starts with.

    `combine`: makes one value of two.
    """
    field, by = slot.field, slot.by
    if field is None:
        return lambda accumulator, fields: accumulator[place] + 1
    if slot.kind == "count":
        return lambda accumulator, fields: accumulator[place] + (fields[field] is not None)
    if by is not None:
        beats = _BEATS[slot.kind]

        def add_compared(accumulator: Any, fields: Any) -> Any:
            compared, before = fields[by], accumulator[place]
            if compared is None or (accumulator[count] and not beats(compared, before[0])):
                return before
            return compared_value(compared, fields[field], start)

        return add_compared
    # A sum begins at 0, so that the sum of -0.0 alone is 0.0, as by columns; the accumulator's type checks it.
    begun = slot.kind == "sum"

    def add(accumulator: Any, fields: Any) -> Any:
        value = fields[field]
        if value is None:
            return accumulator[place]
        return combine(accumulator[place], value) if begun or accumulator[count] else value

    return add


def compared_value(compared: Any, value: Any, start: tuple[Any, bool, Any]) -> tuple[Any, bool, Any]:
    """Return what a slot of `min_by` or `max_by`, which starts with `start`, holds for a value, which may be None."""
    return (compared, False, start[2]) if value is None else (compared, True, value)


def _less(one: Any, other: Any) -> bool:
    return bool(one < other or one != one)


def _greater(one: Any, other: Any) -> bool:
    return bool(one > other or one != one)


_BEATS: dict[str, Callable[[Any, Any], bool]] = {"min_by": operator.lt, "max_by": operator.gt}
#: Combines two values of a slot that is no sum; the second is that of later records.
_MERGES: dict[str, Callable[[Any, Any], Any]] = {
    "min": lambda one, other: other if _less(other, one) else one,
    "max": lambda one, other: other if _greater(other, one) else one,
    "first": lambda one, other: one,
    "last": lambda one, other: other,
    "min_by": lambda one, other: other if other[0] < one[0] else one,
    "max_by": lambda one, other: other if other[0] > one[0] else one,
}
