"""Decodes the rows of a state by the types that its declaration holds."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from flinkish.common.errors import ForeignCheckpointError
from flinkish.common.type_data import type_of_data
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.runtime.state import rows, tables
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.columns import decode_all, split_lists
from flinkish.runtime.state.restore import RestoredRows
from flinkish.state.table import StateTable

_ANYTHING = Types.PICKLED_BYTE_ARRAY()
#: Names and types of columns, with their values.
Columns = dict[str, tuple[TypeInformation, list[Any]]]


def declared_types(declaration: rows.Declaration, what: str) -> tuple[TypeInformation | None, tuple[TypeInformation, ...]]:
    """Return the key type and the types of a state; raises ForeignCheckpointError if its declaration does not hold them."""
    if declaration.types is None:
        raise ForeignCheckpointError(
            f"{what} cannot be read without its program: an earlier version of flinkish wrote it as {declaration.description}, "
            "without the types that decode it",
            hint="start the job from it with this version, and take a savepoint, which holds them.",
        )
    key_type = None if declaration.key_type is None else type_of_data(declaration.key_type)
    return key_type, tuple(map(type_of_data, declaration.types))


class StateDecoder:
    """Decodes the columns of one state."""

    def __init__(self, restored: RestoredRows, what: str, *, unpickle: bool) -> None:
        """Without `unpickle`, pickled values stay opaque; with it, they are decoded, or refused if their rows are not trusted."""
        self._declaration = restored.declaration
        self._key_type, self._types = declared_types(restored.declaration, what)
        self._by_kind = restored.by_kind
        self._unpickle = unpickle
        self._trusted = unpickle and restored.trusted

    def _codec(self, type_info: TypeInformation, *, ttl: bool = False) -> Codec:
        return Codec(type_info, ttl=ttl, trusted=self._trusted, opaque=not self._unpickle)

    def _decoded(self, type_info: TypeInformation, column: pa.ChunkedArray) -> list[Any]:
        return decode_all(self._codec(type_info), column)

    def table(self) -> StateTable:
        """Return the rows of a state of any kind."""
        kind = self._declaration.kind
        if kind == tables.TIMERS:
            return StateTable(self._timers())
        (table,) = self._by_kind.values()
        match kind:
            case tables.LIST:
                return StateTable({**self._addresses(table), **self._lists(table)})
            case tables.MAP:
                return StateTable({**self._addresses(table), **self._map_keys(table), **self._values(table)})
            case tables.OPERATOR_BROADCAST:
                return StateTable({**self._map_keys(table), **self._values(table)})
            case tables.OPERATOR_LIST | tables.OPERATOR_UNION:
                positions = decode_all(Codec(_ANYTHING, trusted=False), table["user_key"])
                return StateTable({"subtask": (Types.INT(), [subtask for subtask, _ in positions]), **self._values(table)})
            case _:
                return StateTable({**self._addresses(table), **self._values(table)})

    def values(self) -> StateTable:
        """Return the values of a state without what they belong to."""
        (table,) = self._by_kind.values()
        return StateTable(self._values(table))

    def _addresses(self, table: pa.Table) -> Columns:
        assert self._key_type is not None
        keys: Columns = {"key": (self._key_type, self._decoded(self._key_type, table["key"]))}
        namespaces = table["namespace"]
        if namespaces.null_count == len(namespaces):
            return keys
        decode = self._codec(_ANYTHING).decode
        # Many keys have the same windows.
        distinct = {data: decode(data) for data in namespaces.unique().to_pylist() if data is not None}
        found = [None if data is None else distinct[data] for data in namespaces.to_pylist()]
        if all(value.__class__ is tuple and len(value) == 2 for value in distinct.values()):
            starts, ends = ([None if span is None else span[part] for span in found] for part in (0, 1))
            return {**keys, "window_start": (Types.LONG(), starts), "window_end": (Types.LONG(), ends)}
        return {**keys, "namespace": (_ANYTHING, found)}

    def _map_keys(self, table: pa.Table) -> Columns:
        return {"map_key": (self._types[0], self._decoded(self._types[0], table["user_key"]))}

    def _values(self, table: pa.Table) -> Columns:
        type_info = self._types[-1]
        if not self._declaration.ttl:
            return {"value": (type_info, self._decoded(type_info, table["value"]))}
        stamped = decode_all(self._codec(type_info, ttl=True), table["value"])
        return {
            "value": (type_info, [value for _, value in stamped]),
            "last_used": (Types.LONG(), [stamp for stamp, _ in stamped]),
        }

    def _lists(self, table: pa.Table) -> Columns:
        (type_info,) = self._types
        codec = self._codec(type_info, ttl=self._declaration.ttl)
        found = split_lists(table["value"], partial(decode_all, codec))
        if not self._declaration.ttl:
            return {"value": (Types.LIST(type_info), found)}
        return {
            "value": (Types.LIST(type_info), [[value for _, value in elements] for elements in found]),
            "last_used": (Types.LIST(Types.LONG()), [[stamp for stamp, _ in elements] for elements in found]),
        }

    def _timers(self) -> Columns:
        parts = []
        for kind, domain in ((rows.TIMER_EVENT, "event"), (rows.TIMER_PROCESSING, "processing")):
            if kind in self._by_kind:
                parts.append(self._by_kind[kind].append_column("domain", pa.repeat(pa.scalar(domain), len(self._by_kind[kind]))))
        table = pa.concat_tables(parts)
        return {
            **self._addresses(table),
            "domain": (Types.STRING(), table["domain"].to_pylist()),
            "timestamp": (Types.LONG(), decode_all(tables.LONG_CODEC, table["value"])),
        }
