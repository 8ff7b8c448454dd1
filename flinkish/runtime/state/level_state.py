"""All state of one slot at one level: a state backend, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from flinkish.common.errors import StateError
from flinkish.common.ids import AttemptId, Epoch, IdSource, OperatorUid
from flinkish.runtime.protocol import Barrier, Restore, StateFile
from flinkish.runtime.state import rows, tables
from flinkish.runtime.state.backend import ExpiringTable, ListTable, MapTable, SnapshotFiles, StateBackend, Table
from flinkish.runtime.state.handles import OneAddress, TableBroadcastState, TableListState, conversion
from flinkish.runtime.state.positions import Identity, Place, Position, pack, position_of, unpack
from flinkish.runtime.state.rows import RestoreRequest
from flinkish.runtime.state.tables import StateAddress, TableMeta
from flinkish.runtime.state.ttl import Sweeper, TtlPolicy
from flinkish.udf.state import ListState, ListStateDescriptor, MapStateDescriptor


class LevelState:
    """One slot's state at one level. The content of the backend is called the heap here, wherever it is.

    Between `end_epoch` and the next `begin_epoch`, the heap is at the position (epoch, nonce) of the bytes that `end_epoch`
    returned. Discard the heap if it is in mid-epoch or ahead of the given bytes; `matches` checks this.

    The constructor goes to the position of the bytes; None or empty bytes mean that there is no state. It raises EngineError if
    the bytes belong to another attempt, slot or level, or the backend cannot go there.
    """

    def __init__(
        self,
        blob: bytes | None,
        *,
        attempt_id: AttemptId,
        slot: int,
        level: int,
        scratch: Path,
        disk: Path | None = None,
        own_process: bool = False,
        ids: IdSource,
        backend: StateBackend,
    ) -> None:
        self._identity = Identity(attempt_id=attempt_id, slot=slot, level=level)
        self._ids = ids
        self._backend = backend
        self._in_change = False
        #: They remove the expired values of tables with a time-to-live.
        self.sweepers: dict[StateAddress, Sweeper] = {}
        self._operators: dict[str, OperatorState] = {}
        self._position: Position | None = None
        backend.open(Place(owner=self._identity, folder=scratch / "state", disk=disk, own_process=own_process))
        if blob:
            self._position, kept = unpack(blob, self._identity)
            backend.recover(self._position, kept)

    def matches(self, blob: bytes | None) -> bool:
        """Tell whether this heap can continue from these bytes: it is exactly at their end, and not in mid-epoch.

        A heap at an earlier position could replay the missing entries, but its operators could not.
        """
        if self._in_change:
            return False
        if not blob:
            return self._position is None
        return self._position is not None and position_of(blob, self._identity) == self._position

    def begin_epoch(self) -> None:
        """Mark the heap as in mid-epoch, until `end_epoch`."""
        self._in_change = True

    def end_epoch(self, epoch: Epoch | int) -> bytes:
        """Make the changes since the last epoch durable; return the bytes to be kept for the next one.

        Raises TypeMismatchError or StateError if a value turns out not to be of its declared type or cannot be stored, OSError
        if a file cannot be written.
        """
        for address, sweeper in self.sweepers.items():
            sweeper.sweep_part(self._backend.tables[address].changed())
        position = int(epoch), self._ids()
        kept = self._backend.commit(position)
        self._position = position
        self._in_change = False
        return pack(self._identity, position, kept)

    def restore(self, restore: Restore, requests: Sequence[RestoreRequest]) -> None:
        """Take over state of a checkpoint; it is decoded when it is requested.

        Raises CorruptCheckpointError if a file that is needed is missing or changed; ForeignCheckpointError if state cannot be
        taken over. Discard the heap then, because it may be restored in part.
        """
        from flinkish.runtime.state.restore import read_state

        self._in_change = True
        self._backend.hold(read_state(restore, requests))

    def operator(self, uid: OperatorUid | str) -> OperatorState:
        """Return the state of one operator."""
        operator = self._operators.get(uid)
        if operator is None:
            operator = self._operators[str(uid)] = OperatorState(self, str(uid))
        return operator

    def table(self, address: StateAddress, meta: TableMeta, now: Callable[[], int]) -> Table:
        """Return a table; the first request creates it and fills it with restored state."""
        table = self._backend.tables.get(address)
        if table is not None:
            if table.meta.structure() != meta.structure() or table.meta.ttl != meta.ttl:
                raise StateError(
                    f"state {address[2]!r} of operator {address[0]} is asked for as {meta}, but was declared as {table.meta}",
                    hint="give each state of an operator a name of its own, and operators with state different uids.",
                )
            return table
        table = self._backend.create(address, meta)
        restored = self._backend.held.get(address)
        if restored is not None:
            from flinkish.runtime.state.restore import fill

            fill(table, address[0], address[2], restored, now)
            self._backend.claim(address)
        return table

    def unclaimed(self, uid: str) -> set[str]:
        """Return the names of the keyed states of an operator that were restored and not requested yet."""
        return {name for owner, category, name in self._backend.held if owner == uid and category == "keyed"}

    def snapshot(
        self, uids: Sequence[OperatorUid], barrier: Barrier, *, vertex: int, subtask: int
    ) -> Callable[[], tuple[StateFile, ...]]:
        """Freeze the state of operators of one subtask, for a checkpoint; the result writes it as it is now, in any thread.

        Writing raises OSError if a file cannot be written, StateError if a value cannot.
        """
        if not barrier.incremental:
            for address, sweeper in self.sweepers.items():
                if address[0] in uids:
                    sweeper.sweep_all()
        files = SnapshotFiles(barrier=barrier, name=f"state-{barrier.checkpoint_id}-{vertex}-{subtask}-{self._ids()}")
        return partial(self._backend.freeze(uids, subtask, barrier).upload, files)

    def close(self) -> None:
        """Release the backend."""
        self._backend.close()


class OperatorState:
    """The state of one operator in one subtask."""

    def __init__(self, level: LevelState, uid: str) -> None:
        self.uid = uid
        self._level = level
        #: The kinds and handles of the operator states that were requested, by name.
        self._states: dict[str, tuple[str, Any]] = {}

    def table(self, category: str, name: str, meta: TableMeta, now: Callable[[], int], policy: TtlPolicy | None = None) -> Table:
        """Return a table of this operator; with a policy, its expired values are removed."""
        address = self.uid, category, name
        table = self._level.table(address, meta, now)
        if policy is not None:
            self._level.sweepers[address] = Sweeper(cast(ExpiringTable, table), policy, now)
        return table

    def unclaimed(self) -> set[str]:
        """Return the names of the keyed states that were restored and not requested yet."""
        return self._level.unclaimed(self.uid)

    def list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list that belongs to the subtask; a restore at another parallelism distributes the elements round-robin."""
        return self._list(descriptor, tables.OPERATOR_LIST)

    def union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list that belongs to the subtask; a restore gives every subtask the elements of all."""
        return self._list(descriptor, tables.OPERATOR_UNION)

    def broadcast_state(self, descriptor: MapStateDescriptor) -> TableBroadcastState:
        """Return a map that each subtask has a copy of; a restore at another parallelism copies it to new subtasks.

        Entries never expire: as in Flink, a time-to-live in the descriptor is for keyed state.
        """
        name = descriptor.get_name()
        meta = TableMeta(
            kind=tables.OPERATOR_BROADCAST, key_type=None, types=(descriptor.key_type_info, descriptor.value_type_info)
        )
        # Request the table even if the state is known, because that compares the types.
        table = self.table("operator", name, meta, lambda: 0)
        if name not in self._states:
            what = f"broadcast state {name!r} of operator {self.uid}"
            self._states[name] = meta.kind, TableBroadcastState(OneAddress(), what, cast(MapTable, table))
        return cast(TableBroadcastState, self._states[name][1])

    def operator_states(self) -> dict[str, str]:
        """Return the names of the user's operator states requested so far, with their kinds."""
        return {name: kind for name, (kind, _) in self._states.items() if name not in rows.RUNTIME_STATES}

    def _list(self, descriptor: ListStateDescriptor, kind: str) -> ListState[Any]:
        name = descriptor.get_name()
        known = self._states.get(name)
        if known is not None and known[0] == kind:
            return cast("ListState[Any]", known[1])
        meta = TableMeta(kind=kind, key_type=None, types=(descriptor.element_type_info,))
        table = cast(ListTable, self.table("operator", name, meta, lambda: 0))
        state = TableListState(OneAddress(), table, conversion(f"state {name!r} of operator {self.uid}", table.codec))
        self._states[name] = kind, state
        return state

    def internal(self, name: str) -> MutableMapping[Any, Any]:
        """Return a dict for the runtime itself, which is kept from epoch to epoch but is not in checkpoints.

        Its values are replaced, never changed in place.
        """
        table: Any = self.table(tables.INTERNAL, name, tables.INTERNAL_META, lambda: 0)
        assert isinstance(table, MutableMapping)
        return table
