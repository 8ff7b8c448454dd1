"""A slot's level as a test drives it: epochs, lost heaps, checkpoints, restores."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from flinkish.common.ids import AttemptId, CheckpointId, OperatorUid
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.runtime.keys import original_key
from flinkish.runtime.protocol import Barrier, Restore, StateFile
from flinkish.runtime.state.backend import StateBackend
from flinkish.runtime.state.heap.backend import HeapBackend
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.runtime.state.level_state import LevelState, OperatorState
from flinkish.runtime.state.rows import RestoreRequest

UID = OperatorUid("op")
MAX_PARALLELISM = 16


def barrier(table: Path, folder: str, checkpoint_id: int, incremental: bool, base: int | None) -> Barrier:
    """Return the barrier of a checkpoint whose files go into a folder of a table."""
    (table / folder).mkdir(parents=True, exist_ok=True)
    return Barrier(
        checkpoint_id=CheckpointId(checkpoint_id),
        timestamp=0,
        directory=str(table / folder),
        root=str(table),
        incremental=incremental,
        base=None if base is None else CheckpointId(base),
    )


class Slot:
    """One slot at level 1 with one operator; `now` is its processing time."""

    def __init__(
        self,
        folder: Path,
        *,
        key_type: TypeInformation | None = None,
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = MAX_PARALLELISM,
        attempt: str = "attempt",
        ids: Callable[[], str] | None = None,
        make_backend: Callable[[], StateBackend] = HeapBackend,
        own_process: bool = False,
    ) -> None:
        self.make_backend = make_backend
        self.own_process = own_process
        counter = itertools.count()
        self.folder = folder
        self.key_type = key_type or Types.LONG()
        self.subtask = subtask
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.attempt = AttemptId(attempt)
        self.ids = ids or (lambda: f"{attempt}-{subtask}-{next(counter)}")
        self.now = 0
        self.epoch = 0
        self.blob = b""
        self.state = self.load(b"")
        self.open()

    def load(self, blob: bytes) -> LevelState:
        return LevelState(
            blob,
            attempt_id=self.attempt,
            slot=self.subtask,
            level=1,
            scratch=self.folder / "scratch",
            disk=self.folder / "disk",
            own_process=self.own_process,
            ids=self.ids,
            backend=self.make_backend(),
        )

    def open(self) -> None:
        self.backend = KeyedStateBackend(self.operator, self.key_type, self.max_parallelism, lambda: self.now)

    @property
    def operator(self) -> OperatorState:
        return self.state.operator(UID)

    def keys(self, name: str, namespace: Any = None) -> list[Any]:
        """Return the keys that have values in a state."""
        return [original_key(key) for key, at in self.backend.keys_and_namespaces(name) if at == namespace]

    def begin(self, key: object = None) -> None:
        """Begin an epoch, with a record of a key if one is given."""
        assert self.state.matches(self.blob)
        self.state.begin_epoch()
        if key is not None:
            self.key(key)

    def end(self) -> bytes:
        self.blob = self.state.end_epoch(self.epoch)
        self.epoch += 1
        return self.blob

    def lose_heap(self) -> None:
        """What happens when the slot host dies."""
        self.state.close()
        self.state = self.load(self.blob)
        self.open()

    def end_and_lose_heap(self) -> None:
        self.end()
        self.lose_heap()

    def key(self, key: object) -> None:
        self.backend.current_key = key

    def barrier(self, checkpoint_id: int = 1, *, incremental: bool = False, base: int | None = None) -> Barrier:
        return barrier(self.folder / "table", "files", checkpoint_id, incremental, base)

    def snapshot(self, checkpoint_id: int = 1, *, incremental: bool = False, base: int | None = None) -> tuple[StateFile, ...]:
        barrier = self.barrier(checkpoint_id, incremental=incremental, base=base)
        return self.state.snapshot([UID], barrier, vertex=7, subtask=self.subtask)()

    def restore(
        self, files: tuple[StateFile, ...], *, old_parallelism: int = 1, pickle_allowed: bool = False, keyed: bool = True
    ) -> Self:
        self.state.restore(
            Restore(
                checkpoint_id=CheckpointId(1),
                root=str(self.folder / "table"),
                files=files,
                pickle_allowed=pickle_allowed,
                parallelism={UID: old_parallelism},
            ),
            [
                RestoreRequest(
                    uid=UID,
                    subtask=self.subtask,
                    parallelism=self.parallelism,
                    max_parallelism=self.max_parallelism,
                    keyed=keyed,
                )
            ],
        )
        self.state.begin_epoch()
        return self
