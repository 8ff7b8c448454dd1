"""The format of the rows of a checkpoint's table, for both writing and reading.

There is one row for each value, map entry, list, timer or element of operator state, and one of kind `schema` for each state
with its declaration. A row without a value says that the value of its address, map key or timer was removed; it and any later
row replace the earlier rows of the same, which are in files of earlier checkpoints. Of a removed timer, the timestamp is its
`user_key`. All binary columns are encodings of codec.py: `key` has the operator's key type, `user_key` the map's,
`value` the state's; `namespace` is an untyped value, null for void. An element of operator state has [subtask, index] as its
`user_key`; an entry of broadcast state has the number of the subtask to whose copy it belongs as its `namespace`. Columns
`..._json` are for people; they are null if a value has no JSON form, and are never read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from flinkish.common.errors import CorruptCheckpointError
from flinkish.common.ids import OperatorUid
from flinkish.common.type_data import TypeData
from flinkish.runtime.state.tables import TableMeta

FORMAT = 1

#: state_kind of rows with the declaration of a state.
SCHEMA = "schema"
TIMER_EVENT = "timer_event"
TIMER_PROCESSING = "timer_processing"

#: Names of states that the runtime itself stores in operators; see runtime/task.py and operators/window/aligned.py.
RUNTIME_STATES = frozenset({"_watermark", "_windows_fired"})

#: key_group of rows without a key.
NO_KEY_GROUP = -1

COLUMNS = (
    "operator_uid",
    "state_name",
    "state_kind",
    "key_group",
    "key",
    "key_json",
    "namespace",
    "namespace_json",
    "user_key",
    "user_key_json",
    "value",
    "value_json",
    "checkpoint_id",
)


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of one table, as it was at one moment, by their kind.

    An item is (address, frozen value) or (address, list of frozen elements); for a map (address, the user's key, frozen value);
    for timers, which have two kinds, (timestamp in milliseconds, address).
    """

    meta: TableMeta
    by_kind: Mapping[str, Iterable[Any]]
    #: Of a snapshot of changes: what was removed before the rows were put. An item has the form of that of a row, without its
    #: value; for values and lists, it is the address itself.
    removed: Mapping[str, Iterable[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """A subtask's request for its part of an operator's state."""

    uid: OperatorUid
    subtask: int
    parallelism: int
    max_parallelism: int
    keyed: bool


@cache
def state_schema() -> Any:
    """Return the Arrow schema of a checkpoint's table."""
    import pyarrow as pa

    types = {"key_group": pa.int32(), "checkpoint_id": pa.int64()}
    binary = {"key", "namespace", "user_key", "value"}
    return pa.schema([(name, types.get(name, pa.binary() if name in binary else pa.string())) for name in COLUMNS])


class Declaration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The declaration of a state when the checkpoint was taken; the value of its schema row."""

    format: int
    kind: str
    structure: str
    description: str
    ttl: bool
    max_parallelism: int
    #: TableMeta.fields.
    fields: tuple[tuple[str, ...], ...] = ()
    #: The types of TableMeta as plain data (common/type_data.py), for readers without the program. None: an earlier version of
    #: flinkish wrote it, or the state has no keys.
    key_type: TypeData | None = None
    types: tuple[TypeData, ...] | None = None
    #: False: some of its rows in this file were passed on, undecoded, from a checkpoint whose signature was not good. That of
    #: this checkpoint does not make them good: pickled values in them are never decoded.
    trusted: bool = True

    def encode(self) -> bytes:
        """Return it as MessagePack."""
        return msgspec.msgpack.encode(self)

    def to_json(self) -> str:
        """Return it as JSON for people."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def decode(data: bytes) -> Declaration:
        """Read a schema row's value; raises CorruptCheckpointError."""
        try:
            return msgspec.msgpack.decode(data, type=Declaration)
        except msgspec.MsgspecError as error:
            raise CorruptCheckpointError(f"a schema row of a state file cannot be read: {error}") from error
