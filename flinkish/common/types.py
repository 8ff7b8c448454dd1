"""Row and RowKind: records with positional fields, optional field names and a kind."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import repeat
from typing import Any, overload

__all__ = ["Row", "RowKind"]

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT


class RowKind(Enum):
    """The kind of change that a row describes in a changing table; the numbers are Flink's."""

    to_j_row_kind = AbsentMember(JAVA_OBJECT)

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SHORT_NAMES[self]


_SHORT_NAMES = {RowKind.INSERT: "+I", RowKind.UPDATE_BEFORE: "-U", RowKind.UPDATE_AFTER: "+U", RowKind.DELETE: "-D"}
_INSERT = RowKind.INSERT


class Row:
    """A record with a fixed number of values, with or without field names.

    Values are read by position, slice, name or attribute, and replaced by position, slice or name:

    >>> row = Row(name="Alice", age=11)
    >>> row
    Row(name='Alice', age=11)
    >>> row[0], row["age"], row.name
    ('Alice', 11, 'Alice')
    >>> row["age"] = 12
    >>> row.as_dict()
    {'name': 'Alice', 'age': 12}
    >>> Row(1, "x")
    <Row(1, 'x')>

    A row of names is a factory of rows with those names:

    >>> Person = Row("name", "age")
    >>> Person("Bob", 7)
    Row(name='Bob', age=7)

    Two rows are equal if their kinds and values are equal. Named rows are compared by name, and never equal an unnamed row.
    """

    # Without a __dict__, setting any other attribute raises AttributeError, and creating a row is 2x faster.
    #
    # A row created from keyword arguments keeps their dict and fills the other slots when they are first needed. Most such rows
    # are returned by a function and converted to their declared type, which reads the dict once. This saves 150 of 460 ns.
    __slots__ = ("_kind", "_kwargs", "_list", "_names")

    #: The keyword arguments of the constructor; None once the other slots are filled.
    _kwargs: dict[str, Any] | None
    _names: tuple[Any, ...] | None
    #: A tuple in rows that were received from an exchange, until `_values` needs a list.
    _list: list[Any] | tuple[Any, ...]
    _kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args:
            if kwargs:
                raise ValueError("a Row takes either positional values or named ones; got both")
            self._kwargs = None
            self._names = None
            self._list = [*args]
            self._kind = _INSERT
        else:
            try:
                for name in kwargs:
                    _SEEN[name]
            except KeyError:
                learn_names(kwargs)
            self._kwargs = kwargs

    def _settle(self) -> None:
        """Fill the slots of a row that was created from keyword arguments."""
        kwargs = self._kwargs
        if kwargs is not None:
            self._names = tuple(kwargs) or None
            self._list = [*kwargs.values()]
            self._kind = _INSERT
            self._kwargs = None

    @property
    def _fields(self) -> tuple[Any, ...] | None:
        if self._kwargs is not None:
            self._settle()
        return self._names

    @property
    def _values(self) -> list[Any]:
        if self._kwargs is not None:
            self._settle()
        values = self._list
        if values.__class__ is not list:
            self._list = values = [*values]
        return values

    @property
    def _row_kind(self) -> RowKind:
        return self._kind if self._kwargs is None else _INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Make a row of the given kind."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def as_dict(self, recursive: bool = False) -> dict[Any, Any]:
        """Return a dict from names to values; with `recursive`, rows within the values become dicts, too.

        Raises TypeError for a row without names.
        """
        if self._fields is None:
            raise TypeError(f"{self!r} has no field names, so it cannot become a dict; name them with set_field_names()")
        values: Iterable[Any] = map(_to_plain, self._values) if recursive else self._values
        return dict(zip(self._fields, values, strict=False))

    def get_row_kind(self) -> RowKind:
        """Return the kind; INSERT unless set."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind."""
        self._settle()
        self._kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields, in order."""
        self._settle()
        self._names = names = tuple(field_names)
        learn_names(names)

    def get_field_names(self) -> list[str] | None:
        """Return the names of the fields, None for a row without names."""
        return None if self._fields is None else list(self._fields)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values of the named fields, in the order of `names`; all values for a row without names.

        Raises ValueError if a name is not a field of the row.
        """
        fields = self._fields
        names = tuple(names)
        if fields is None or fields == names:
            return self._values
        missing = [name for name in names if name not in fields]
        if missing:
            raise ValueError(f"fields {missing} do not exist in a row with the fields {list(fields)}")
        return [self._values[fields.index(name)] for name in names]

    def __call__(self, *args: Any) -> Row:
        if len(args) > len(self):
            raise ValueError(f"expected at most {len(self)} values for the fields of {self!r}; got {len(args)}: {args}")
        self._settle()
        # All rows made by this one share one tuple of names.
        self._list = names = tuple(self._list)
        return _restore_row(names, [*args], self._kind)

    def __contains__(self, item: Any) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def _position(self, name: Any) -> int:
        fields = self._fields
        if fields is None:
            raise ValueError(f"no field {name!r}: {self!r} has no field names")
        try:
            return fields.index(name)
        except ValueError:
            raise ValueError(f"no field {name!r} in a row with the fields {list(fields)}") from None

    def __getitem__(self, item: Any) -> Any:
        if self._kwargs is not None:
            self._settle()
        if isinstance(item, int):
            return self._list[item]
        return self._values[item] if isinstance(item, slice) else self._list[self._position(item)]

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, (int, slice)):
            self._values[key] = value
        elif self._fields is None:
            raise KeyError(key)
        else:
            self._values[self._position(key)] = value

    def __reduce__(self) -> tuple[Any, ...]:
        if self._row_kind is _INSERT:
            return _restore_row, (self._fields, self._values)
        return _restore_row, (self._fields, self._values, self._row_kind)

    def __copy__(self) -> Row:
        return row_like(self, [*self._values])

    def __repr__(self) -> str:
        if self._fields is not None:
            return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(self._fields, self._values, strict=False))})"
        return f"<Row({', '.join(map(repr, self._values))})>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or self.__class__ is not other.__class__:
            return False
        if self._kwargs is not None:
            self._settle()
        if other._kwargs is not None:
            other._settle()
        if self._kind is not other._kind:
            return False
        mine, theirs = self._names, other._names
        if mine == theirs:
            values, others = self._list, other._list
            return values == others if values.__class__ is others.__class__ else [*values] == [*others]
        if mine is None or theirs is None or len(mine) != len(theirs) or set(mine) != set(theirs):
            return False
        return all(value == other._list[theirs.index(name)] for name, value in zip(mine, self._list, strict=False))

    def __hash__(self) -> int:
        # Equal rows must have equal hashes whatever the order of their fields: hash the tuple of the values ordered by name.
        if self._kwargs is not None:
            self._settle()
        values, names = self._list, self._names
        order = None if names is None or len(names) != len(values) else _order_by_name(names)
        return hash(tuple(values if order is None else [values[index] for index in order]))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._list if self._kwargs is None else self._kwargs)

    def __dir__(self) -> list[str]:
        fields = [name for name in self._fields or () if isinstance(name, str) and name[:1] != "_"]
        return [*(name for name in object.__dir__(self) if name not in _DESCRIPTORS), *fields]


#: Names of fields with a descriptor on the class. The class has no `__getattr__`, because `row.name` takes 45 ns without one and
#: 80 ns with one; so descriptors are created as soon as a row or type uses a new name.
_DESCRIPTORS: set[str] = set()
#: All names used so far, as keys: those in _DESCRIPTORS, and those that cannot be read as attributes. `_SEEN[name]` is faster
#: than `name in _SEEN`, which Python does not specialize.
_SEEN: dict[Any, None] = {}
_MOST_SEEN = 1_000


def learn_names(names: Iterable[Any]) -> None:
    """Add descriptors for the fields with these names to the class; names that are not str are found in brackets only."""
    for name in names:
        if not isinstance(name, str) or name in _SEEN:
            continue
        if len(_SEEN) >= _MOST_SEEN:
            Row.__getattr__ = _find_field  # type: ignore[attr-defined]
            return
        # Names with a leading underscore are never read as attributes, because copy and pickle look up such names.
        if name[:1] != "_" and not any(name in vars(each) for each in Row.__mro__):
            setattr(Row, name, _descriptor(name))
            _DESCRIPTORS.add(name)
        _SEEN[name] = None


def is_attribute(name: str) -> bool:
    """Return whether `row.name` reads the field `name` of every row that has one."""
    return name in _DESCRIPTORS


def _descriptor(name: str) -> property:
    def get(row: Row) -> Any:
        kwargs = row._kwargs
        try:
            return row._list[row._names.index(name)] if kwargs is None else kwargs[name]  # type: ignore[union-attr]
        except (LookupError, ValueError, AttributeError):
            raise _no_field(row, name) from None

    def refuse(row: Row, value: Any) -> None:
        raise AttributeError(f"a field of a Row is set by name in brackets: row[{name!r}] = ...")

    return property(get, refuse)


def _find_field(row: Row, name: str) -> Any:
    """Return a field without a descriptor: becomes `Row.__getattr__` once a process has used _MOST_SEEN names."""
    if name[:1] == "_":
        raise AttributeError(name)
    if name not in (row._fields or ()):
        raise _no_field(row, name)
    return row[name]


def _no_field(row: Row, name: str) -> AttributeError:
    return AttributeError(f"a Row with the fields {list(row._fields or ())} has no attribute {name!r}")


@functools.lru_cache(maxsize=256)
def _order_by_name(names: tuple[Any, ...]) -> list[int] | None:
    """Return the positions that sort the values of a row by name; None if they are already sorted."""
    order = sorted(range(len(names)), key=lambda index: str(names[index]))
    return None if order == list(range(len(names))) else order


_new = Row.__new__


def _restore_row(fields: tuple[Any, ...] | None, values: list[Any], row_kind: RowKind = _INSERT) -> Row:
    """Make a row from its parts; it takes over the list of values without a copy."""
    if fields is not None:
        try:
            for name in fields:
                _SEEN[name]
        except (KeyError, TypeError):  # TypeError: an unhashable name
            learn_names(fields)
    row = _new(Row)
    row._kwargs = None
    row._names = fields
    row._list = values
    row._kind = row_kind
    return row


#: For the hot path: a row that takes over the list of values and shares the tuple of names.
make_row = _restore_row


def row_like(row: Row, values: list[Any]) -> Row:
    """Make a row with the names and the kind of another one; it takes over the list of values without a copy."""
    if row._kwargs is not None:
        row._settle()
    made = _new(Row)
    made._kwargs = None
    made._names = row._names
    made._list = values
    made._kind = row._kind
    return made


def rows_of(fields: tuple[Any, ...] | None, columns: Iterable[Iterable[Any]]) -> list[Row]:
    """Make rows of kind INSERT with the same fields from one sequence of values per field, faster than one by one."""
    if fields is not None:
        learn_names(fields)
    lists = list(zip(*columns, strict=True))
    rows: list[Row] = list(map(_new, repeat(Row, len(lists))))
    kind = _INSERT
    for row, values in zip(rows, lists, strict=True):
        row._kwargs = None
        row._names = fields
        row._list = values
        row._kind = kind
    return rows


class RowColumns(Sequence[Row]):
    """Rows of kind INSERT with the same fields as columns of the same length, one for each field, at least one.

    A column is a list of values, or an array of numpy, whose `tolist()` are the values.
    """

    __slots__ = ("columns", "fields")

    def __init__(self, fields: tuple[Any, ...], columns: list[Any]) -> None:
        self.fields = fields
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Row]:
        columns = [column if column.__class__ is list else column.tolist() for column in self.columns]
        return iter(rows_of(self.fields, columns))

    @overload
    def __getitem__(self, part: int) -> Row: ...

    @overload
    def __getitem__(self, part: slice) -> RowColumns: ...

    def __getitem__(self, part: int | slice) -> Row | RowColumns:
        if isinstance(part, slice):
            return RowColumns(self.fields, [column[part] for column in self.columns])
        values = [column[part] for column in self.columns]
        return make_row(self.fields, [v if c.__class__ is list else v.item() for v, c in zip(values, self.columns, strict=True)])


def columns_of(rows: Sequence[Any]) -> tuple[tuple[Any, ...] | None, list[tuple[Any, ...]]] | None:
    """Return the arguments of `rows_of` that make these records.

    Returns None unless all are rows of kind INSERT with the same fields, at least one.
    """
    if rows[0].__class__ is not Row:
        return None
    fields, length = rows[0]._fields, len(rows[0])
    lists = []
    for row in rows:
        if row.__class__ is not Row:
            return None
        if row._kwargs is not None:
            row._settle()
        values = row._list
        if row._kind is not _INSERT or len(values) != length or (row._names is not fields and row._names != fields):
            return None
        lists.append(values)
    return (fields, list(zip(*lists, strict=True))) if length else None


def _to_plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _to_plain(item) for key, item in value.items()}
    return value
