"""The slots of a simulated attempt: state, snapshots, uploads, reports, epoch by epoch, as runtime/slot.py and task.py do it."""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from flinkish.common.errors import CorruptCheckpointError
from flinkish.common.files.schemes import files_at, root_of
from flinkish.common.ids import AttemptId, CheckpointId, OperatorUid
from flinkish.common.typeinfo import Types
from flinkish.datastream.state import MapStateDescriptor
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.key_groups import key_group, subtask_of_group
from flinkish.runtime.protocol import Acknowledgement, Barrier, CheckpointPart, Decline, Restore, StateFile
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.runtime.state.level_state import LevelState
from flinkish.runtime.state.rows import RestoreRequest
from flinkish.runtime.uploads import Uploads, UploadThread, Write
from tests.kit.backends import BACKENDS
from tests.simulation.model import Content, Value, key_of, process
from tests.simulation.store import SimulatedFiles
from tests.unit.checkpoint.support import COUNT, SINK, A, B

if TYPE_CHECKING:
    from tests.simulation.world import World

MAX_PARALLELISM = 8
#: An incremental snapshot has at most this many files for each subtask; then it is a full one.
_LONGEST_CHAIN = 3


def subtask_of(key: int, parallelism: int) -> int:
    return subtask_of_group(key_group(key, MAX_PARALLELISM), MAX_PARALLELISM, parallelism)


class TaskState(Protocol):
    """State of one slot."""

    def matches(self, blob: bytes | None) -> bool: ...

    def begin_epoch(self) -> None: ...

    def end_epoch(self, epoch: int) -> bytes: ...

    def get(self, key: int) -> Value | None: ...

    def put(self, key: int, value: Value) -> None: ...

    def remove(self, key: int) -> None: ...

    def content(self) -> Content: ...

    @property
    def prepared(self) -> list[int]:
        """The records that the sink's writer has taken since the last barrier."""

    @prepared.setter
    def prepared(self, records: list[int]) -> None: ...

    def snapshot(self, barrier: Barrier) -> Write: ...

    def restore(self, restore: Restore) -> None: ...

    def close(self) -> None: ...


class PlainFile(msgspec.Struct, frozen=True, array_like=True):
    """The content of a state file of PlainState: all values, or what has changed since the files before it (None = removed)."""

    writer: int
    number: int
    values: dict[int, Value | None]


_encode = msgspec.msgpack.Encoder().encode
_decode_file = msgspec.msgpack.Decoder(PlainFile).decode
_decode_blob = msgspec.msgpack.Decoder(tuple[str, dict[int, Value], list[int]]).decode


def resolve(files: Iterable[PlainFile]) -> Content:
    """Return the content that some files stand for: those of a writer apply in their order."""
    content: dict[int, Value | None] = {}
    for file in sorted(files, key=lambda file: (file.writer, file.number)):
        content.update(file.values)
    return {key: value for key, value in content.items() if value is not None}


class PlainState:
    """State in a dict: a hundredth of the cost of Parquet. Its checkpoints may be incremental: they share files."""

    def __init__(self, world: World, slot: Slot, blob: bytes | None) -> None:
        self._world = world
        self._slot = slot
        self._in_epoch = False
        self._nonce, self._values, self.prepared = _decode_blob(blob) if blob else ("", {}, [])
        self._numbers = itertools.count()
        #: Content of incremental snapshots by checkpoint, from the last completed one on; their files.
        self._frozen: dict[CheckpointId, Content] = {}
        self._files: dict[CheckpointId, tuple[StateFile, ...]] = {}

    def matches(self, blob: bytes | None) -> bool:
        return not self._in_epoch and (_decode_blob(blob)[0] if blob else "") == self._nonce

    def begin_epoch(self) -> None:
        self._in_epoch = True

    def end_epoch(self, epoch: int) -> bytes:
        self._in_epoch = False
        self._nonce = self._world.ids()
        return _encode((self._nonce, self._values, self.prepared))

    def get(self, key: int) -> Value | None:
        return self._values.get(key)

    def put(self, key: int, value: Value) -> None:
        self._values[key] = value

    def remove(self, key: int) -> None:
        self._values.pop(key, None)

    def content(self) -> Content:
        return dict(self._values)

    def snapshot(self, barrier: Barrier) -> Write:
        frozen = self.content()
        base = barrier.base if barrier.incremental else None
        known = self._files.get(base, ()) if base is not None else ()
        changes: dict[int, Value | None] = dict(frozen)
        if base is not None and 0 < len(known) < _LONGEST_CHAIN:
            before = self._frozen[base]
            changes = {key: frozen.get(key) for key in before | frozen if before.get(key) != frozen.get(key)}
        else:
            known = ()
        if barrier.incremental:
            self._frozen = {each: content for each, content in self._frozen.items() if base is None or each >= base}
            self._frozen[barrier.checkpoint_id] = frozen
        file = PlainFile(self._slot.subtask, len(known), changes)
        name = f"state-{self._slot.subtask}-{self._world.ids()}.parquet"

        def write() -> tuple[StateFile, ...]:
            files = known if known and not changes else (*known, self._write(barrier, name, file))
            if barrier.incremental:
                self._files[barrier.checkpoint_id] = files
            return files

        return write

    @staticmethod
    def _write(barrier: Barrier, name: str, file: PlainFile) -> StateFile:
        files = files_at(barrier.root)
        folder = root_of(barrier.directory).relative_to(files.root).as_posix()
        if not files.is_folder(folder):
            files.make_folders(folder)
        content = _encode(file)
        with files.create(f"{folder}/{name}") as created:
            created.write(content)
            created.sync()
        return StateFile(
            path=f"{folder}/{name}",
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            rows=len(file.values),
            operator_uids=(COUNT,),
            key_groups=(0, MAX_PARALLELISM - 1),
        )

    def restore(self, restore: Restore) -> None:
        found = []
        for file in restore.files:
            content = files_at(restore.root).read(file.path, limit=file.size)
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise CorruptCheckpointError(f"{file.path} has changed")
            found.append(_decode_file(content))
        slot = self._slot
        self._values = {key: value for key, value in resolve(found).items() if subtask_of(key, slot.parallelism) == slot.subtask}

    def close(self) -> None:
        pass


class BackendState:
    """State of flinkish itself, in a backend."""

    def __init__(self, world: World, slot: Slot, blob: bytes | None) -> None:
        self._slot = slot
        self._level = LevelState(
            blob,
            attempt_id=AttemptId(slot.attempt),
            slot=slot.subtask,
            level=1,
            scratch=Path(world.scratch),
            disk=Path(world.scratch),
            ids=world.ids,
            backend=BACKENDS[world.backend or "hashmap"](),
        )
        self._internal = self._level.operator(COUNT).internal("task")
        self._keyed: KeyedStateBackend | None = None

    @property
    def _map(self) -> Any:
        if self._keyed is None:
            self._keyed = KeyedStateBackend(self._level.operator(COUNT), Types.LONG(), MAX_PARALLELISM, lambda: 0)
        descriptor = MapStateDescriptor("sums", Types.STRING(), Types.LONG())
        return self._keyed.get_map_state(descriptor)

    def _go_to(self, key: int) -> Any:
        state = self._map
        cast(KeyedStateBackend, self._keyed).current_key = key
        return state

    def matches(self, blob: bytes | None) -> bool:
        return self._level.matches(blob)

    def begin_epoch(self) -> None:
        self._level.begin_epoch()

    def end_epoch(self, epoch: int) -> bytes:
        return self._level.end_epoch(epoch)

    def get(self, key: int) -> Value | None:
        state = self._go_to(key)
        return None if state.get("count") is None else (state.get("count"), state.get("sum"))

    def put(self, key: int, value: Value) -> None:
        state = self._go_to(key)
        state.put("count", value[0])
        state.put("sum", value[1])

    def remove(self, key: int) -> None:
        self._go_to(key).clear()

    def content(self) -> Content:
        found = {key: self.get(key) for key in set(map(key_of, range(11)))}
        return {key: value for key, value in found.items() if value is not None}

    @property
    def prepared(self) -> list[int]:
        return list(self._internal.get("prepared", []))

    @prepared.setter
    def prepared(self, records: list[int]) -> None:
        self._internal["prepared"] = records

    def snapshot(self, barrier: Barrier) -> Write:
        return self._level.snapshot([COUNT], barrier, vertex=A.vertex, subtask=self._slot.subtask)

    def restore(self, restore: Restore) -> None:
        slot = self._slot
        request = RestoreRequest(
            uid=COUNT, subtask=slot.subtask, parallelism=slot.parallelism, max_parallelism=MAX_PARALLELISM, keyed=True
        )
        self._level.restore(restore, [request])

    def close(self) -> None:
        self._level.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a driver sends to its slots for an epoch: see EpochCommand."""

    epoch: int
    records: range
    barrier: Barrier | None
    aborted: tuple[CheckpointId, ...]
    restore: Restore | None


@dataclass(slots=True)
class Report:
    """What a slot reports of an epoch: see EpochReport."""

    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    declines: list[Decline] = field(default_factory=list)
    uploading: list[CheckpointPart] = field(default_factory=list)


class Thread:
    """The upload thread of a slot: the world decides when it does something."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.queue: deque[tuple[Write, Future[tuple[StateFile, ...]]]] = deque()

    def run(self, write: Write) -> Future[tuple[StateFile, ...]]:
        future: Future[tuple[StateFile, ...]] = Future()
        self.queue.append((write, future))
        return future

    def advance(self) -> None:
        """Do the next upload."""
        write, future = self.queue.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            files = write()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(files)


class Slot:
    """A slot of an attempt, and the process that hosts it."""

    def __init__(self, world: World, attempt: str, subtask: int, parallelism: int) -> None:
        self.world = world
        self.attempt = attempt
        self.subtask = subtask
        self.parallelism = parallelism
        self.thread = Thread(self)
        self.state: TaskState | None = None
        self._uploads: Uploads | None = None

    def __str__(self) -> str:
        return f"slot {self.attempt}/{self.subtask}"

    def run(self, command: Command, blob: bytes | None) -> tuple[Report, bytes]:
        """Run an epoch on the state that the engine kept; see SlotTask._run."""
        state = self.state
        if state is None or not state.matches(blob):
            self.discard()
            make = PlainState if self.world.backend is None else BackendState
            state = self.state = make(self.world, self, blob or None)
            self._uploads = Uploads(cast(UploadThread, self.thread), self.world.clock)
            if command.restore is not None and not blob:
                state.restore(command.restore)
        uploads = cast(Uploads, self._uploads)
        state.begin_epoch()
        uploads.begin_epoch(command.aborted)
        self._process(state, command.records)
        if command.barrier is not None:
            self._on_barrier(state, uploads, command.barrier)
        blob = state.end_epoch(command.epoch)
        uploads.end_epoch(waits=command.barrier is not None and command.barrier.waits)
        return Report(list(uploads.acknowledgements), list(uploads.declines), list(uploads.uploading)), blob

    def _process(self, state: TaskState, records: Collection[int]) -> None:
        own = [record for record in records if subtask_of(key_of(record), self.parallelism) == self.subtask]
        for record in own:
            process(state, record)
        if own:
            state.prepared = [*state.prepared, *own]

    def _on_barrier(self, state: TaskState, uploads: Uploads, barrier: Barrier) -> None:
        started = self.world.clock.monotonic()
        prepared, state.prepared = state.prepared, []
        write = state.snapshot(barrier)
        committables: dict[OperatorUid, tuple[bytes, ...]] = {SINK: (_encode(prepared),)} if prepared else {}
        parts: list[tuple[VertexId, dict[OperatorUid, tuple[bytes, ...]], Write]] = [
            (A.vertex, {}, write),
            (B.vertex, committables, lambda: ()),
        ]
        for vertex, committed, write_part in parts:
            part = CheckpointPart(
                checkpoint_id=barrier.checkpoint_id, vertex=vertex, subtask=self.subtask, committables=committed
            )
            uploads.start(part, write_part, started=started, alignment_ms=0.0)

    def discard(self) -> None:
        """Drop the state of a try that does not count; uploads that have not begun are not begun."""
        if self._uploads is not None:
            self._uploads.close()
        if self.state is not None:
            self.state.close()
        self.state = self._uploads = None

    def die(self) -> None:
        """End the process of the slot."""
        self.thread.queue.clear()
        if self.state is not None:
            self.state.close()
        self.state = self._uploads = None


def read_plain(files: SimulatedFiles, listed: Iterable[StateFile]) -> Content:
    """Return the content of a checkpoint of plain states, without any effect on the world."""
    entries = files.store.entries
    return resolve(_decode_file(cast(bytes, entries[f"{files.root}/{file.path}"])) for file in listed)
