"""Single bits flipped in any file of a chain of checkpoints: each is noticed by name, or restores exactly the state there was.

FLINKISH_FLIPS sets how many (default 100; `make proof` takes 1,000), FLINKISH_SEED which.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint import paths
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.opening import open_checkpoint
from flinkish.checkpoint.signing import SigningKey
from flinkish.checkpoint.storage import CheckpointDraft, StoredCheckpoint
from flinkish.common.errors import CorruptCheckpointError, ForeignCheckpointError
from flinkish.common.ids import AttemptId, CheckpointId
from flinkish.common.typeinfo import Types
from flinkish.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkish.runtime.key_groups import key_group, subtask_of_group
from flinkish.runtime.protocol import Barrier, StateFile
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.runtime.state.level_state import LevelState
from flinkish.runtime.state.rows import RestoreRequest
from tests.kit.backends import BACKENDS
from tests.unit.checkpoint.support import COUNT, claimed_storage, coordinator_state, make_storage

_FLIPS = int(os.environ.get("FLINKISH_FLIPS", "100"))
_SEED = int(os.environ.get("FLINKISH_SEED", "21"))
_KEYS = range(12)
_GROUPS = 16
#: Enough for the log to have a summary, and to be cleaned up.
_CHECKPOINTS = 14
_RETAINED = 3

State = dict[str, Any]


class Subtask:
    """State of many kinds in one subtask."""

    def __init__(self, folder: Path, subtask: int, parallelism: int, restored: StoredCheckpoint | None = None) -> None:
        self.subtask, self.parallelism = subtask, parallelism
        numbers = itertools.count()
        self.level = LevelState(
            None,
            attempt_id=AttemptId("attempt"),
            slot=subtask,
            level=1,
            scratch=folder,
            disk=folder,
            ids=lambda: f"{subtask}{next(numbers):04x}",
            backend=BACKENDS["hashmap"](),
        )
        if restored is not None:
            request = RestoreRequest(uid=COUNT, subtask=subtask, parallelism=parallelism, max_parallelism=_GROUPS, keyed=True)
            self.level.restore(restored.to_restore(), [request])
        self.keyed = KeyedStateBackend(self.level.operator(COUNT), Types.LONG(), _GROUPS, lambda: 0)
        self.value = self.keyed.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.texts = self.keyed.get_list_state(ListStateDescriptor("texts", Types.STRING()))
        self.anything = self.keyed.get_map_state(MapStateDescriptor("anything", Types.STRING(), Types.PICKLED_BYTE_ARRAY()))
        self.offsets = self.level.operator(COUNT).list_state(ListStateDescriptor("offsets", Types.LONG()))

    def own(self) -> list[int]:
        return [key for key in _KEYS if subtask_of_group(key_group(key, _GROUPS), _GROUPS, self.parallelism) == self.subtask]

    def work(self, step: int) -> None:
        self.level.begin_epoch()
        for key in self.own():
            if step > 1 and key % 5 != step % 5:
                continue
            self.keyed.current_key = key
            self.value.update(step * key)
            self.texts.add(f"text {step}")
            self.anything.clear()
            self.anything.put(str(step % 3), {"key": key, "steps": [step] * 3})
            self.keyed.timers().event_time.register(step * 10 + key, key)
        self.offsets.add(step)
        self.level.end_epoch(step)

    def read(self) -> State:
        found: State = {"offsets": sorted(self.offsets.get())}
        for key in self.own():
            self.keyed.current_key = key
            found[f"value {key}"] = self.value.value()
            found[f"texts {key}"] = list(self.texts.get())
            found[f"anything {key}"] = dict(self.anything.items())
        found["timers"] = sorted(self.keyed.timers().event_time)
        return found


class Chain:
    """A job's table with several incremental checkpoints, and what their states are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key_file = folder / "key"
        self.key_file.write_bytes(b"secret key of this test's job :)")
        self.key_file.chmod(0o600)
        storage = claimed_storage(folder / "checkpoints", num_retained=_RETAINED, key=self.key)
        self.root = Path(storage.root)
        writers = [Subtask(folder / "scratch", subtask, 2) for subtask in range(2)]
        for number in range(1, _CHECKPOINTS + 1):
            location = storage.prepare(CheckpointId(number), None)
            barrier = Barrier(
                checkpoint_id=CheckpointId(number),
                timestamp=0,
                directory=location.directory,
                root=location.root,
                incremental=True,
                base=location.base,
            )
            files: list[StateFile] = []
            for writer in writers:
                writer.work(number)
                files += writer.level.snapshot([COUNT], barrier, vertex=1, subtask=writer.subtask)()
            draft = CheckpointDraft(
                checkpoint_id=CheckpointId(number),
                kind=CheckpointKind.PERIODIC,
                trigger_time=0,
                location=location,
                coordinator=coordinator_state(number),
                files=tuple(files),
                committables=(),
            )
            storage.commit(draft)
            storage.clean_up(())
        self.ids = [stored.checkpoint_id for stored in storage.retained()]
        self.states = {each: self.restore(each) for each in self.ids}

    @property
    def key(self) -> SigningKey:
        return SigningKey.load(str(self.key_file))

    def restore(self, checkpoint_id: CheckpointId) -> tuple[State, Any]:
        """Read all that a job gets from a checkpoint: state at another parallelism, and the manifest."""
        stored = open_checkpoint(f"{self.root}@{checkpoint_id}", signing_key=self.key)
        return Subtask(self.folder / "scratch", 0, 1, stored).read(), stored.manifest

    def take_over(self) -> tuple[State, Any]:
        """Read what the next driver of the job starts from."""
        stored = make_storage(self.folder / "checkpoints", num_retained=_RETAINED, key=self.key).peek()
        assert stored is not None
        return Subtask(self.folder / "scratch", 0, 1, stored).read(), stored.manifest

    def files(self) -> list[Path]:
        return [self.key_file, *sorted(file for file in self.root.rglob("*") if file.is_file())]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return Chain(tmp_path_factory.mktemp("chain"))


def kind_of(file: Path) -> str:
    if paths.LOG in file.parts:
        return "log" if file.suffix == ".json" else "summary of the log"
    return file.name.partition("-")[0].partition(".")[0]


def test_the_chain_has_files_of_all_kinds_and_shares_some(chain: Chain) -> None:
    kinds = Counter(map(kind_of, chain.files()))
    assert {"state", "manifest", "log", "summary of the log", "_latest", "key"} <= kinds.keys()
    listed = [file.path for each in chain.ids for file in chain.restore(each)[1].files]
    assert max(Counter(listed).values()) == _RETAINED
    assert chain.take_over() == chain.states[max(chain.ids)]
    assert len({str(state) for state, _ in chain.states.values()}) == _RETAINED


def test_each_flipped_bit_is_noticed_or_harmless(chain: Chain) -> None:
    rng = random.Random(_SEED)
    files = chain.files()
    noticed: Counter[str] = Counter()
    for number in range(_FLIPS):
        file = files[number % len(files)]
        content = file.read_bytes()
        if not content:
            continue
        position, bit = rng.randrange(len(content)), rng.randrange(8)
        file.write_bytes(content[:position] + bytes([content[position] ^ 1 << bit]) + content[position + 1 :])
        try:
            reads: list[tuple[CheckpointId, Callable[[], tuple[State, Any]]]] = [(max(chain.ids), chain.take_over)]
            reads += [(each, partial(chain.restore, each)) for each in chain.ids]
            errors = [error for checkpoint_id, read in reads if (error := outcome(read, chain.states[checkpoint_id]))]
        except Exception as error:
            raise AssertionError(f"seed {_SEED}, flip {number}: bit {bit} of byte {position} of {file}: {error!r}") from error
        finally:
            file.write_bytes(content)
        noticed[kind_of(file)] += bool(errors)
        noticed["all"] += 1
    print(f"noticed: {dict(noticed)} of {len(files)} files")
    assert chain.take_over() == chain.states[max(chain.ids)]
    for kind in ("state", "manifest", "log", "key"):
        assert noticed[kind]


def outcome(read: Callable[[], tuple[State, Any]], expected: tuple[State, Any]) -> str | None:
    """Return the named error of a restore, None if it restored what there was; raises anything else."""
    try:
        restored = read()
    except (CorruptCheckpointError, ForeignCheckpointError) as error:
        return str(error)
    assert restored == expected
    return None
