"""Reads savepoints and checkpoints without the program that they are of."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from flinkish.checkpoint.opening import open_checkpoint
from flinkish.checkpoint.signing import KEY_OPTION, SigningKey
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import options, pickling
from flinkish.common.config_file import load_configuration
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, InvalidArgumentError
from flinkish.common.files import store_settings
from flinkish.common.ids import OperatorUid
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.runtime.operators.window.restored import CONTENTS, MERGING_SET, PANES, SESSIONS
from flinkish.runtime.state import tables
from flinkish.runtime.state.restore import RestoredRows, read_state
from flinkish.runtime.state.rows import RUNTIME_STATES, Declaration, RestoreRequest
from flinkish.runtime.state.tables import StateAddress
from flinkish.state.decoding import StateDecoder, declared_types
from flinkish.state.table import StateTable

#: The current rows of a checkpoint's table. In an incremental checkpoint, a row replaces those of earlier checkpoints with the
#: same identity, and only removes them if it has no value. The identity of a timer contains its timestamp: that is its value, of
#: a removed timer its user_key.
_CURRENT_ROWS = """
SELECT * FROM {table} WHERE key_group < 0
UNION ALL
SELECT * EXCEPT (newest) FROM (
  SELECT *, row_number() OVER (
    PARTITION BY operator_uid, state_name, state_kind, key, namespace,
      coalesce(user_key, IF(state_kind LIKE 'timer%', value, NULL))
    ORDER BY checkpoint_id DESC, value IS NULL
  ) AS newest FROM {table} WHERE key_group >= 0
) WHERE newest = 1 AND value IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorInfo:
    """An operator of a savepoint."""

    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    #: What keeps the state: a function, a window operator, a source with splits of a class, ...
    kind: str
    #: The number of splits with a position, for a source.
    splits: int = 0
    #: The number of pieces of output that a sink has yet to commit.
    committables: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInfo:
    """A state of an operator."""

    name: str
    #: value, list, map, reducing, aggregating, timers, operator_list, operator_union or operator_broadcast.
    kind: str
    #: The types as text.
    description: str
    #: Whether values have a time-to-live.
    ttl: bool
    #: The number of values, lists, map entries, timers or elements.
    entries: int
    #: The approximate number of bytes of keys and values.
    size: int
    declaration: Declaration

    @property
    def types(self) -> tuple[TypeInformation, ...]:
        """The type of the value or of the elements, or of a map's keys and values; none for timers.

        Raises ForeignCheckpointError for a state that an earlier version of flinkish wrote, without its types.
        """
        return declared_types(self.declaration, f"state {self.name!r}")[1]

    @property
    def key_type(self) -> TypeInformation | None:
        """The type of the keys; None for operator state. Raises the error of `types`."""
        return declared_types(self.declaration, f"state {self.name!r}")[0]


class SavepointReader:
    """The operators of a savepoint or checkpoint, and their state.

    Its files are checked against the sizes and hashes of the manifest before anything in them is decoded.
    Differs from Flink: types come from the savepoint, not from the caller, and rows are returned as tables, not as a stream.
    """

    def __init__(self, checkpoint: StoredCheckpoint, *, unpickle: bool = False) -> None:
        """Read a checkpoint that was opened; users call `read`."""
        self.checkpoint = checkpoint
        self.unpickle = unpickle
        self._last: tuple[str, dict[StateAddress, RestoredRows]] = "", {}

    @staticmethod
    def read(path: str, configuration: Configuration | None = None, *, unpickle: bool = False) -> SavepointReader:
        """Open a savepoint or checkpoint; `path` has the forms of execution.state-recovery.path.

        Pickled values are opaque. With `unpickle` they are decoded, which needs their classes and the key that signed the
        savepoint. The `configuration` has settings of object stores and that key, by default those of the configuration file.
        Raises ForeignCheckpointError if there is no checkpoint, CorruptCheckpointError if it is damaged.
        """
        configuration = configuration or load_configuration(environment=os.environ)
        store_settings.use_to_build(configuration)
        pickling.use_aliases(configuration.get(options.CLASS_ALIASES))
        key = SigningKey.load(configuration.get(options.CHECKPOINT_HMAC_KEY_FILE))
        checkpoint = open_checkpoint(path, signing_key=key)
        if unpickle and not checkpoint.trusted:
            raise ForeignCheckpointError(
                f"{path!r} was signed by another key than ours ({key.path}), so nothing in it is unpickled",
                hint=f"set {KEY_OPTION} to the key that it was made with, or read it without unpickle.",
            )
        return SavepointReader(checkpoint, unpickle=unpickle)

    # -- what there is -----------------------------------------------------------------------------------------------------

    def operators(self) -> list[OperatorInfo]:
        """Return the operators in the order of the program, then those that have state in it only for the runtime."""
        manifest = self.checkpoint.manifest
        splits = {str(source.uid): len(source.splits) for source in manifest.coordinator.sources}
        committables = [str(each.operator_uid) for each in manifest.committables]
        known = [
            OperatorInfo(
                uid=str(shape.uid),
                name=shape.name,
                parallelism=shape.parallelism,
                max_parallelism=shape.max_parallelism,
                kind=shape.kind,
                splits=splits.get(str(shape.uid), 0),
                committables=committables.count(str(shape.uid)),
            )
            for shape in manifest.coordinator.operators
        ]
        others = {uid for file in manifest.files for uid in file.operator_uids} | set(committables)
        return known + [
            OperatorInfo(
                uid=uid, name=uid, parallelism=1, max_parallelism=1, kind="the runtime", committables=committables.count(uid)
            )
            for uid in sorted(others - {each.uid for each in known})
        ]

    def states(self, uid: str) -> list[StateInfo]:
        """Return the states of an operator that have values, by name, without those of the runtime such as watermarks."""
        return [
            StateInfo(
                name=name,
                kind=restored.declaration.kind,
                description=restored.declaration.description,
                ttl=restored.declaration.ttl,
                entries=sum(table.num_rows for table in restored.by_kind.values()),
                size=sum(table.nbytes for table in restored.by_kind.values()),
                declaration=restored.declaration,
            )
            for (_, _, name), restored in sorted(self.rows_of(uid).items())
            if name not in RUNTIME_STATES
        ]

    def rows_of(self, uid: str) -> dict[StateAddress, RestoredRows]:
        """Return the encoded rows of all states of an operator; those of the last operator are kept in memory."""
        if self._last[0] != uid:
            shape = next((each for each in self.operators() if each.uid == uid), None)
            if shape is None:
                known = ", ".join(each.uid for each in self.operators())
                raise InvalidArgumentError(
                    f"{self.checkpoint.external_path} has no operator with the uid {uid!r}", hint=f"its operators are: {known}."
                )
            # A job of parallelism 1 would get all of it.
            request = RestoreRequest(
                uid=OperatorUid(uid), subtask=0, parallelism=1, max_parallelism=shape.max_parallelism, keyed=True
            )
            self._last = uid, read_state(self.checkpoint.to_restore(), [request])
        return self._last[1]

    # -- reading -----------------------------------------------------------------------------------------------------------

    def rows(self, session: Any) -> Any:
        """Return the rows as they are stored, encoded and as JSON, as a DataFrame of a SparkSession with Delta.

        It has the columns of the checkpoint's table. Rows that later ones replace, in an incremental checkpoint, are left out.
        Unlike with the other methods, state files are not checked against their hashes.
        """
        return session.sql(_CURRENT_ROWS.format(table=f"delta.`{self.checkpoint.root}` VERSION AS OF {self.checkpoint.version}"))

    def read_keyed_state(self, uid: str, name: str) -> StateTable:
        """Return a keyed state of any kind: the columns `key`, `map_key` for maps, and `value`.

        State of windows has `window_start` and `window_end` in addition (milliseconds), other state in namespaces `namespace`,
        and state with a time-to-live `last_used` (milliseconds).
        """
        return self._read(uid, "keyed", name, {tables.VALUE, tables.REDUCING, tables.AGGREGATING, tables.LIST, tables.MAP})

    def read_list_state(self, uid: str, name: str) -> StateTable:
        """Return the elements of a list of operator state: the columns `subtask` and `value`, in order."""
        return self._read(uid, "operator", name, {tables.OPERATOR_LIST})

    def read_union_state(self, uid: str, name: str) -> StateTable:
        """Return the elements of a union list, as `read_list_state`."""
        return self._read(uid, "operator", name, {tables.OPERATOR_UNION})

    def read_broadcast_state(self, uid: str, name: str) -> StateTable:
        """Return the entries of a broadcast state, from the copy of the first subtask: the columns `map_key` and `value`."""
        return self._read(uid, "operator", name, {tables.OPERATOR_BROADCAST})

    def read_timers(self, uid: str) -> StateTable:
        """Return the timers of an operator: the columns `key`, `domain` ("event" or "processing") and `timestamp` (ms)."""
        return self._read(uid, tables.TIMERS, "timers", {tables.TIMERS})

    def read_state(self, uid: str, name: str) -> StateTable:
        """Return a state of any kind by its name; if keyed and operator state share it, the keyed one."""
        for address in sorted(self.rows_of(uid)):
            if address[2] == name:
                return self._decode(address)
        raise self._unknown(uid, name)

    def read_windows(self, uid: str) -> StateTable:
        """Return the open windows of a window operator, however it stores them: `key`, the window, and `value`.

        The value is an accumulator, or a list of records (with their timestamps, if there is an evictor). The window is in
        `window_start` and `window_end`, or in `namespace`: the number of a count window, "" for the global window. Overlapping
        windows that share panes are returned as these panes.
        """
        names = {name for _, category, name in self.rows_of(uid) if category == "keyed"}
        if SESSIONS in names:
            return _sessions(self.read_keyed_state(uid, SESSIONS))
        contents = next((name for name in sorted(names) if name.startswith((CONTENTS, PANES))), None)
        if contents is None:
            raise InvalidArgumentError(
                f"operator {uid} has no open windows in {self.checkpoint.external_path}", hint=self._names(uid)
            )
        if MERGING_SET not in names:
            return self.read_keyed_state(uid, contents)
        return self._merged_windows(uid, contents)

    def _merged_windows(self, uid: str, contents: str) -> StateTable:
        """Return contents with the windows that were merged into them; they are stored under one of the merged windows."""
        states = self.rows_of(uid)
        (merging,) = states[uid, "keyed", MERGING_SET].by_kind.values()
        stored = zip(merging["key"].to_pylist(), merging["value"].to_pylist(), strict=True)
        windows = dict(zip(stored, self.read_keyed_state(uid, MERGING_SET).column("map_key"), strict=True))
        (table,) = states[uid, "keyed", contents].by_kind.values()
        found = [windows[at] for at in zip(table["key"].to_pylist(), table["namespace"].to_pylist(), strict=True)]
        read = self.read_keyed_state(uid, contents)
        types = dict(zip(read.type_info.field_names, read.type_info.field_types, strict=True))
        return StateTable(
            {
                "key": (types["key"], read.column("key")),
                "window_start": (Types.LONG(), [start for start, _ in found]),
                "window_end": (Types.LONG(), [end for _, end in found]),
                "value": (types["value"], read.column("value")),
            }
        )

    def _read(self, uid: str, category: str, name: str, kinds: Collection[str]) -> StateTable:
        address = uid, category, name
        restored = self.rows_of(uid).get(address)
        if restored is None or restored.declaration.kind not in kinds:
            raise self._unknown(uid, name)
        return self._decode(address)

    def _decode(self, address: StateAddress) -> StateTable:
        uid, _, name = address
        return StateDecoder(self.rows_of(uid)[address], f"state {name!r} of operator {uid}", unpickle=self.unpickle).table()

    def _unknown(self, uid: str, name: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"operator {uid} has no state {name!r} of this kind in {self.checkpoint.external_path}", hint=self._names(uid)
        )

    def _names(self, uid: str) -> str:
        found = ", ".join(f"{each.name} ({each.kind})" for each in self.states(uid))
        return f"the operator has {found or 'no state with values'}."


def _sessions(table: StateTable) -> StateTable:
    """Return sessions, a map from their start to their end and accumulator, as windows."""
    types: dict[str, Any] = dict(zip(table.type_info.field_names, table.type_info.field_types, strict=True))
    pairs = table.column("value")
    return StateTable(
        {
            "key": (types["key"], table.column("key")),
            "window_start": (Types.LONG(), table.column("map_key")),
            "window_end": (Types.LONG(), [end for end, _ in pairs]),
            "value": (types["value"].field_types[1], [value for _, value in pairs]),
        }
    )
