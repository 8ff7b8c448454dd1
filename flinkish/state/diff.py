"""What differs between two savepoints or checkpoints, by key. Encodings are compared; only what differs is decoded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkish.common.errors import InvalidArgumentError
from flinkish.runtime.state import tables
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.restore import RestoredRows
from flinkish.runtime.state.rows import RUNTIME_STATES
from flinkish.state.decoding import StateDecoder, declared_types
from flinkish.state.reader import SavepointReader
from flinkish.state.table import StateTable

#: Stands for null in the keys of a join, in which nulls do not match; no MessagePack begins with it.
_NULL = b"\xc1"
#: The columns that identify a row, by the kind of state; values are compared for all others than these.
_WITHOUT_VALUES = {
    tables.TIMERS: ("row_kind", "key", "namespace", "value"),
    tables.OPERATOR_LIST: ("value",),
    tables.OPERATOR_UNION: ("value",),
}
_ADDRESS = ("key", "namespace", "user_key")


class Change(NamedTuple):
    """One difference of a state: columns of a `StateTable` by name."""

    #: Added, removed or changed.
    sign: Literal["+", "-", "~"]
    #: The columns that identify the value, such as `key` and `map_key`.
    address: Mapping[str, Any]
    #: The other columns before and after; None where there is no value, and none for timers and elements of lists.
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDiff:
    """How a state differs. The types are its declarations as text, None where it has no values."""

    uid: str
    name: str
    old_type: str | None
    new_type: str | None
    added: int
    removed: int
    changed: int
    same: int
    _changes: _Changes

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return self.old_type == self.new_type and not (self.added or self.removed or self.changed)

    def changes(self, limit: int | None = None) -> Iterator[Change]:
        """Decode the differences: what was added, then removed, then changed; at most `limit` of them."""
        return islice(self._changes.decoded(limit), limit)


def diff_savepoints(
    old: SavepointReader, new: SavepointReader, uid: str | None = None, name: str | None = None
) -> list[StateDiff]:
    """Compare all states of two savepoints, those of one operator, or one state; unchanged states are included.

    State of the runtime such as watermarks, and positions of sources, are not compared. An element of a list of operator state
    has no key: it is added or removed, wherever it is in the list. Raises ForeignCheckpointError if what differs was written by
    an earlier version of flinkish, without its types.
    """
    known = [{each.uid for each in side.operators()} for side in (old, new)]
    uids = list(dict.fromkeys(each.uid for side in (new, old) for each in side.operators() if uid in (None, each.uid)))
    if not uids:
        raise InvalidArgumentError(f"neither has an operator with the uid {uid!r}")
    found: list[StateDiff] = []
    for each in uids:
        before, after = (side.rows_of(each) if each in of else {} for side, of in zip((old, new), known, strict=True))
        for address in sorted({*before, *after}):
            if address[2] not in RUNTIME_STATES and name in (None, address[2]):
                found += compare_states(each, address[2], before.get(address), after.get(address))
    if not found and name is not None:
        raise InvalidArgumentError(f"neither has a state {name!r} of operator {uid}")
    return found


def compare_states(uid: str, name: str, old: RestoredRows | None, new: RestoredRows | None) -> list[StateDiff]:
    """Compare the rows of a state; a state that is of another kind now is removed and added."""
    if old is not None and new is not None and old.declaration.kind != new.declaration.kind:
        return [*compare_states(uid, name, old, None), *compare_states(uid, name, None, new)]
    changes = _Changes(f"state {name!r} of operator {uid}", old, new)
    return [
        StateDiff(
            uid=uid,
            name=name,
            old_type=None if old is None else old.declaration.description,
            new_type=None if new is None else new.declaration.description,
            added=changes.number("+"),
            removed=changes.number("-"),
            changed=changes.number("~"),
            same=changes.same,
            _changes=changes,
        )
    ]


class _Changes:
    """The rows of a state that differ, encoded: joined by their addresses, with the columns `old` and `new`."""

    def __init__(self, what: str, old: RestoredRows | None, new: RestoredRows | None) -> None:
        self._what = what
        some = new or old
        assert some is not None
        self._declarations = {"old": (old or some).declaration, "new": (new or some).declaration}
        kind = some.declaration.kind
        found = [table for restored in (old, new) if restored is not None for table in restored.by_kind.values()]
        # A join by one column takes half the time of one by three.
        self._keys = [
            key
            for key in _WITHOUT_VALUES.get(kind, _ADDRESS)
            if key == "row_kind" or any(table[key].null_count < len(table) for table in found)
        ]
        self._counted = kind in _WITHOUT_VALUES
        before, after = self._side(old, "old"), self._side(new, "new")
        joined = before.join(after, self._keys, join_type="full outer", use_threads=False)
        if self._counted:
            rows, self.same = self._of_counts(joined)
        else:
            rows, self.same = self._of_values(joined)
        self._rows = {sign: found.sort_by([(key, "ascending") for key in self._keys]) for sign, found in rows.items()}

    def _side(self, restored: RestoredRows | None, name: str) -> pa.Table:
        """Return the columns by which rows are joined, and one with the value or, for kinds without values, a number of rows."""
        keys = {key: pa.array([], pa.large_binary()) for key in self._keys}
        if restored is None:
            return pa.table({**keys, name: pa.array([], pa.int64() if self._counted else pa.large_binary())})
        table = pa.concat_tables(
            each.append_column("row_kind", pa.repeat(pa.scalar(kind.encode()), len(each)))
            for kind, each in restored.by_kind.items()
        )
        found = pa.table({key: pc.fill_null(table[key].cast(pa.large_binary()), _NULL) for key in keys})
        if self._counted:
            counted = found.group_by(list(keys), use_threads=False).aggregate([([], "count_all")])
            return counted.rename_columns({"count_all": name})
        return found.append_column(name, table["value"].cast(pa.large_binary()))

    @staticmethod
    def _of_counts(joined: pa.Table) -> tuple[dict[str, pa.Table], int]:
        """Return what is more often in one of both, as often as that, and the number of all others."""
        old, new = (pc.fill_null(joined[name], 0) for name in ("old", "new"))
        more = pc.subtract(new, old)

        def repeated(counts: pa.ChunkedArray) -> pa.Table:
            return joined.take(np.arange(len(joined)).repeat(pc.max_element_wise(counts, 0).to_numpy()))

        rows = {"+": repeated(more), "-": repeated(pc.negate(more))}
        return rows, pc.sum(pc.min_element_wise(old, new)).as_py() or 0

    def _of_values(self, joined: pa.Table) -> tuple[dict[str, pa.Table], int]:
        in_old, in_new = pc.is_valid(joined["old"]), pc.is_valid(joined["new"])
        common = joined.filter(pc.and_(in_old, in_new))
        changed = self._really_changed(common)
        rows = {"+": joined.filter(pc.invert(in_old)), "-": joined.filter(pc.invert(in_new)), "~": changed}
        return rows, len(common) - len(changed)

    def _really_changed(self, common: pa.Table) -> pa.Table:
        """Return the rows whose values differ, not only their encodings: dicts are equal in any order."""
        old, new = self._declarations["old"], self._declarations["new"]
        same_types = (old.types, old.ttl) == (new.types, new.ttl)
        differ = common.filter(pc.not_equal(common["old"], common["new"])) if same_types else common
        if not len(differ) or (same_types and Codec(declared_types(new, self._what)[1][-1], ttl=new.ttl).immutable):
            return differ
        values = (self._decoded(differ, side).column("value") for side in ("old", "new"))
        # 1, 1.0 and True are equal for Python, but not the same state.
        unequal = [a.__class__ is not b.__class__ or a != b for a, b in zip(*values, strict=True)]
        return differ.filter(pa.array(unequal, pa.bool_()))

    def _decoded(self, rows: pa.Table, side: str) -> StateTable:
        """Return rows with the values of one side."""
        declaration = self._declarations[side]
        nulls = pa.nulls(len(rows), pa.large_binary())
        columns = {name: rows[name] if name in self._keys else nulls for name in (*_ADDRESS, "value")}
        if not self._counted:
            columns["value"] = rows[side]
        null = pa.scalar(None, pa.large_binary())
        table = pa.table({name: pc.if_else(pc.equal(column, _NULL), null, column) for name, column in columns.items()})
        if declaration.kind in (tables.OPERATOR_LIST, tables.OPERATOR_UNION):
            kind = declaration.kind
            return StateDecoder(RestoredRows(declaration, {kind: table}), self._what, unpickle=False).values()
        kinds = rows["row_kind"].to_pylist() if "row_kind" in self._keys else [declaration.kind.encode()] * len(rows)
        of_kind = {kind: table.filter(pa.array([each == kind for each in kinds], pa.bool_())) for kind in dict.fromkeys(kinds)}
        by_kind = {kind.decode(): part for kind, part in of_kind.items()}
        return StateDecoder(RestoredRows(declaration, by_kind), self._what, unpickle=False).table()

    def number(self, sign: str) -> int:
        return len(self._rows.get(sign, ()))

    def decoded(self, limit: int | None) -> Iterator[Change]:
        for sign, rows in self._rows.items():
            some = rows.slice(0, limit)
            if len(some):
                yield from self._changes_of(sign, some)

    def _changes_of(self, sign: Any, rows: pa.Table) -> Iterator[Change]:
        sides = [side for side, signs in (("old", "-~"), ("new", "+~")) if sign in signs]
        decoded = {side: list(self._decoded(rows, side)) for side in sides}
        for position in range(len(rows)):
            found = {side: values[position].as_dict() for side, values in decoded.items()}
            compared = frozenset() if self._counted else frozenset({"value", "last_used"})
            address = {name: value for name, value in found[sides[0]].items() if name not in compared}
            old, new = (
                {name: value for name, value in found[side].items() if name in compared} if side in found and compared else None
                for side in ("old", "new")
            )
            yield Change(sign, address, old, new)
