"""All state of one slot at one level: a state backend, which is a cache of the change log that Spark stores."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flinkish.common import pickling
from flinkish.common.errors import StateError
from flinkish.common.ids import AttemptId, Epoch, IdSource, OperatorUid
from flinkish.runtime.protocol import Barrier, Restore, StateFile
from flinkish.runtime.state import rows, tables
from flinkish.runtime.state.backend import ExpiringTable, ListTable, MapTable, StateBackend, Table
from flinkish.runtime.state.handles import OneAddress, TableBroadcastState, TableListState, conversion
from flinkish.runtime.state.log import ChangeLog, Entry, Identity, position_of
from flinkish.runtime.state.rows import RestoreRequest
from flinkish.runtime.state.tables import StateAddress, TableMeta, naming
from flinkish.runtime.state.ttl import Sweeper, TtlPolicy
from flinkish.udf.state import ListState, ListStateDescriptor, MapStateDescriptor

if TYPE_CHECKING:
    from flinkish.runtime.state.restore import RestoredRows


class LevelState:
    """One slot's state at one level. The content of the backend is called the heap here, wherever it is.

    Between `end_epoch` and the next `begin_epoch`, the heap is at the position (epoch, nonce) of the bytes that `end_epoch`
    returned. Discard the heap if it is in mid-epoch or ahead of the given bytes; `matches` checks this.

    The constructor rebuilds the heap from the log in an empty backend; None or empty bytes mean an empty log. It raises
    EngineError if the bytes belong to another attempt, slot or level, or a file they refer to is missing or damaged.
    """

    def __init__(
        self,
        blob: bytes | None,
        *,
        attempt_id: AttemptId,
        slot: int,
        level: int,
        scratch: Path,
        ids: IdSource,
        backend: StateBackend,
    ) -> None:
        self._identity = Identity(attempt_id=attempt_id, slot=slot, level=level)
        self._log = ChangeLog(self._identity, scratch / "state", blob)
        self._ids = ids
        self._backend = backend
        self._in_change = False
        #: They remove the expired values of tables with a time-to-live.
        self.sweepers: dict[StateAddress, Sweeper] = {}
        #: Rows of a checkpoint whose states have not been requested yet.
        self.restored: dict[StateAddress, RestoredRows] = {}
        #: Whether the next entry must have all state, because restored state is not in the log yet.
        self._needs_full = False
        self._operators: dict[str, OperatorState] = {}
        for entry in self._log.entries():
            content = pickling.loads(entry.payload)
            if entry.full:  # it is the first one
                content, self.restored = content
            backend.apply(content)

    def matches(self, blob: bytes | None) -> bool:
        """Tell whether this heap can continue from these bytes: it is exactly at their end, and not in mid-epoch.

        A heap at an earlier position could replay the missing entries, but its operators could not.
        """
        if self._in_change:
            return False
        if not blob:
            return self._log.position is None
        return self._log.position is not None and position_of(blob, self._identity) == self._log.position

    def begin_epoch(self) -> None:
        """Mark the heap as in mid-epoch, until `end_epoch`."""
        self._in_change = True

    def end_epoch(self, epoch: Epoch | int) -> bytes:
        """Log the changes since the last epoch; return the bytes to be kept for the next one.

        Raises TypeMismatchError or StateError if a value turns out not to be of its declared type or cannot be stored, OSError
        if a file cannot be written.
        """
        for address, sweeper in self.sweepers.items():
            sweeper.sweep_part(self._backend.tables[address].changed())
        changes = self._backend.take_changes()
        log = self._log
        nonce = self._ids()
        if changes is None and not self._needs_full:
            log.pass_epoch((int(epoch), nonce))
        else:
            payload = pickling.dumps(changes)
            del changes  # the next entry may be as large as all state, so free this one first
            full = self._needs_full or log.wants_full(len(payload))
            if full:
                payload = b""
                payload = pickling.dumps((self._backend.dump(), self.restored))
            log.append(Entry(int(epoch), nonce, full, payload))
            self._needs_full = False
        self._in_change = False
        return log.to_bytes()

    def restore(self, restore: Restore, requests: Sequence[RestoreRequest]) -> None:
        """Take over state of a checkpoint; it is decoded when it is requested.

        Raises CorruptCheckpointError if a file that is needed is missing or changed; ForeignCheckpointError if state cannot be
        taken over. Discard the heap then, because it may be restored in part.
        """
        from flinkish.runtime.state.restore import read_state

        self._in_change = True
        self.restored = read_state(restore, requests)
        self._needs_full = bool(self.restored)

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
        restored = self.restored.get(address)
        if restored is not None:
            from flinkish.runtime.state.restore import fill

            fill(table, address[0], address[2], restored, now)
            del self.restored[address]
            self._needs_full = True
        return table

    def snapshot(self, uids: Sequence[OperatorUid], barrier: Barrier, *, vertex: int, subtask: int) -> tuple[StateFile, ...]:
        """Write the state of operators of one subtask, as of now, into a file of a checkpoint; none if there is no state.

        Raises OSError if it cannot be written.
        """
        held = self._backend.tables
        mine = [address for address in held if address[0] in uids and address[1] != tables.INTERNAL]
        for address in mine:
            if address in self.sweepers:
                self.sweepers[address].sweep_all()
        mine = [address for address in mine if not held[address].is_empty()]
        kept = [address for address in self.restored if address[0] in uids]
        if not mine and not kept:
            return ()
        from flinkish.runtime.state.snapshot import SnapshotWriter

        with SnapshotWriter(barrier, vertex, subtask, self._ids) as writer:
            for address in mine:
                with naming(address):
                    writer.write_table(address[0], address[2], held[address])
            for address in kept:
                writer.write_restored(address[0], address[2], self.restored[address])
            return writer.finish()


class OperatorState:
    """The state of one operator in one subtask."""

    def __init__(self, level: LevelState, uid: str) -> None:
        self.uid = uid
        self._level = level
        self._lists: dict[str, tuple[str, ListState[Any]]] = {}
        self._broadcast: dict[str, TableBroadcastState] = {}

    def table(self, category: str, name: str, meta: TableMeta, now: Callable[[], int], policy: TtlPolicy | None = None) -> Table:
        """Return a table of this operator; with a policy, its expired values are removed."""
        address = self.uid, category, name
        table = self._level.table(address, meta, now)
        if policy is not None:
            self._level.sweepers[address] = Sweeper(cast(ExpiringTable, table), policy, now)
        return table

    def unclaimed(self) -> set[str]:
        """Return the names of the keyed states that were restored and not requested yet."""
        return {name for uid, category, name in self._level.restored if uid == self.uid and category == "keyed"}

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
        state = self._broadcast.get(name)
        if state is None:
            what = f"broadcast state {name!r} of operator {self.uid}"
            state = self._broadcast[name] = TableBroadcastState(OneAddress(), what, cast(MapTable, table))
        return state

    def operator_states(self) -> dict[str, str]:
        """Return the names of the user's operator states requested so far, with their kinds."""
        return {
            **{name: kind for name, (kind, _) in self._lists.items() if name not in rows.RUNTIME_STATES},
            **dict.fromkeys(self._broadcast, tables.OPERATOR_BROADCAST),
        }

    def _list(self, descriptor: ListStateDescriptor, kind: str) -> ListState[Any]:
        name = descriptor.get_name()
        known = self._lists.get(name)
        if known is not None and known[0] == kind:
            return known[1]
        meta = TableMeta(kind=kind, key_type=None, types=(descriptor.element_type_info,))
        table = cast(ListTable, self.table("operator", name, meta, lambda: 0))
        state = TableListState(OneAddress(), table, conversion(f"state {name!r} of operator {self.uid}", table.codec))
        self._lists[name] = kind, state
        return state

    def internal(self, name: str) -> MutableMapping[Any, Any]:
        """Return a dict for the runtime itself, which is kept from epoch to epoch but is not in checkpoints.

        Its values are replaced, never changed in place.
        """
        table: Any = self.table(tables.INTERNAL, name, tables.INTERNAL_META, lambda: 0)
        assert isinstance(table, MutableMapping)
        return table
