"""Aggregates of fields: what to compute as data, so that it can be computed record by record or by columns.

Null values are left out, as in SQL: the sum of none is None, their count 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.kinds import BOUNDS, INTEGER_BITS, Kind, kind_of, part_names, shape_of
from flinkish.common.typeinfo import BasicType, RowTypeInfo, TypeInformation, Types
from flinkish.common.types import Row, make_row
from flinkish.udf.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowFunction

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


#: The slots that each kind of aggregate needs.
_PARTS: dict[str, tuple[str, ...]] = {
    **{kind: (kind,) for kind in ("sum", "count", "min", "max", "first", "last", "min_by", "max_by")},
    "avg": ("sum", "count"),
}
#: What the operator knows, and no accumulator.
OUTER = ("key", "window_start", "window_end")
_NUMBERS = {*INTEGER_BITS, BasicType.FLOAT, BasicType.DOUBLE, BasicType.BIG_INT, BasicType.BIG_DEC}
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

    The accumulator has a value for each slot. If all slots are numbers it is a tuple, in which a count tells whether a sum, least
    or greatest value has seen any; numpy can compute such accumulators. Otherwise it is a row, in which None means no value yet.
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
        by_record = self._by_record()
        self._choose_accumulator(by_numbers=by_record is None)
        untyped = kind_of(key_type) is Kind.PICKLED and any(aggregate.kind == "key" for aggregate in self.aggregates)
        #: Why columns cannot be aggregated so; None if they can, because numpy computes the same.
        self.why_by_record = by_record or ("the key has no declared type, but is shown" if untyped else None)

    def _place(self, slot: Slot) -> int:
        """Return the position of a slot, which is added if it is new."""
        if slot not in self.slots:
            self.slots.append(slot)
        return self.slots.index(slot)

    def _by_record(self) -> str | None:
        """Return why the accumulator cannot be numbers; None if it can."""
        for aggregate, places in zip(self.aggregates, self.parts, strict=True):
            for slot in (self.slots[place] for place in places):
                number = slot.field is not None and kind_of(self.field_types[slot.field]) in (*INTEGER_BITS, BasicType.DOUBLE)
                if slot.kind != "count" and not (number and slot.kind in ("sum", "min", "max")):
                    return f"{aggregate.kind}({aggregate.field!r}) looks at each record"
        return None

    def _choose_accumulator(self, *, by_numbers: bool) -> None:
        if by_numbers:
            for slot in list(self.slots):
                self._place(Slot("count", slot.field))
        #: For each slot, the position of the count that tells whether it has a value; None if it says so itself.
        self.counts = [self._place(Slot("count", slot.field)) if by_numbers else None for slot in self.slots]
        types = [self._slot_type(slot) for slot in self.slots]
        names = [f"f{position}" for position in range(len(types))]
        self.accumulator_type: TypeInformation = Types.TUPLE(types) if by_numbers else Types.ROW_NAMED(names, types)
        self._make: Callable[[list[Any]], Any] = tuple if by_numbers else functools.partial(make_row, tuple(names))
        self.starts = [self._start(slot) if by_numbers or slot.kind == "count" else None for slot in self.slots]
        self._adders = [_ADDERS[slot.kind](slot) for slot in self.slots]

    def _start(self, slot: Slot) -> int | float:
        """Return what a slot of numbers begins with: it changes no result, and is of the slot's type."""
        if slot.kind == "count" or slot.field is None:
            return 0
        kind = kind_of(self.field_types[slot.field])
        least, most = BOUNDS.get(kind, (-math.inf, math.inf))
        return {"min": most, "max": least}.get(slot.kind, 0 if kind in BOUNDS else 0.0)

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
            return Types.LONG() if kind in INTEGER_BITS else Types.DOUBLE() if floating else field_type
        return field_type if slot.by is None else Types.ROW_NAMED(["by", "value"], [self.field_types[slot.by], field_type])

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
        return self._make(list(self.starts))

    def add(self, value: Any, accumulator: Any) -> Any:
        fields = value if self.has_fields else (value,)
        return self._make([add(before, fields) for add, before in zip(self._adders, accumulator, strict=True)])

    def get_result(self, accumulator: Any) -> Any:
        """Return the accumulator: `row` makes the result of it, which also shows key and window."""
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        merged = []
        for slot, one, other in zip(self.slots, acc_a, acc_b, strict=True):
            if one is None or other is None:
                merged.append(other if one is None else one)
            else:
                merged.append(_MERGES[slot.kind](one, other))
        return self._make(merged)

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
                case "min_by" | "max_by":
                    pair = accumulator[parts[0]]
                    values.append(None if pair is None else pair[1])
                case _:
                    count = self.counts[parts[0]]
                    known = aggregate.kind == "count" or count is None or accumulator[count]
                    values.append(accumulator[parts[0]] if known else None)
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


#: Returns the value of a slot with one record added, given the value before.
Adder = Callable[[Any, Any], Any]


def _counter(slot: Slot) -> Adder:
    field = slot.field
    if field is None:
        return lambda before, fields: before + 1
    return lambda before, fields: before if fields[field] is None else before + 1


def _combining(combine: Callable[[Any, Any], Any]) -> Callable[[Slot], Adder]:
    """Return what makes the adder of a slot that combines the values of a field that are not None."""

    def adder(slot: Slot) -> Adder:
        field = slot.field
        assert field is not None

        def add(before: Any, fields: Any) -> Any:
            value = fields[field]
            return before if value is None else combine(before, value)

        return add

    return adder


def _comparing(beats: Callable[[Any, Any], bool]) -> Callable[[Slot], Adder]:
    def adder(slot: Slot) -> Adder:
        field, by = slot.field, slot.by
        assert field is not None
        assert by is not None

        def add(before: Any, fields: Any) -> Any:
            compared = fields[by]
            if compared is None or not (before is None or beats(compared, before[0])):
                return before
            return make_row(("by", "value"), [compared, fields[field]])

        return add

    return adder


def _added(before: Any, value: Any) -> Any:
    """Return a sum. It begins at 0, so that the sum of -0.0 alone is 0.0, as by columns; the accumulator's type checks it."""
    return (0 if before is None else before) + value


def _less(one: Any, other: Any) -> bool:
    return bool(one < other or one != one)


def _greater(one: Any, other: Any) -> bool:
    return bool(one > other or one != one)


_ADDERS: dict[str, Callable[[Slot], Adder]] = {
    "count": _counter,
    "sum": _combining(_added),
    "min": _combining(lambda before, value: value if before is None or _less(value, before) else before),
    "max": _combining(lambda before, value: value if before is None or _greater(value, before) else before),
    "first": _combining(lambda before, value: value if before is None else before),
    "last": _combining(lambda before, value: value),
    "min_by": _comparing(lambda value, before: value < before),
    "max_by": _comparing(lambda value, before: value > before),
}
_MERGES: dict[str, Callable[[Any, Any], Any]] = {
    "count": lambda one, other: one + other,
    "sum": _added,
    "min": lambda one, other: other if _less(other, one) else one,
    "max": lambda one, other: other if _greater(other, one) else one,
    "first": lambda one, other: one,
    "last": lambda one, other: other,
    "min_by": lambda one, other: other if other[0] < one[0] else one,
    "max_by": lambda one, other: other if other[0] > one[0] else one,
}
