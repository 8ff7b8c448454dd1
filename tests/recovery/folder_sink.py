"""A two-phase-commit sink as a user would write it: files in a folder `pending`, renamed into `committed` when they count."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkish.common import Types
from flinkish.common.configuration import Configuration
from flinkish.common.errors import SinkError
from flinkish.common.ids import random_id
from flinkish.datastream.connectors.base import (
    CommitRequest,
    Committer,
    Sink,
    SinkWriter,
    SinkWriterContext,
    WriteContext,
)
from flinkish.datastream.state import ListStateDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A file that was written and waits for its checkpoint."""

    name: str


class FolderSink(Sink[Any, Pending]):
    """Writes rows of numbers as lines of JSON."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, Pending]:
        return FolderWriter(self.folder, context)

    def create_committer(self, configuration: Configuration) -> Committer[Pending]:
        return FolderCommitter(self.folder)

    @property
    def committable_type(self) -> Any:
        return Pending


class FolderWriter(SinkWriter[Any, Pending]):
    """Keeps lines in state until a checkpoint; a file is named anew by each try."""

    def __init__(self, folder: Path, context: SinkWriterContext) -> None:
        self._folder = folder / "pending"
        self._subtask = context.subtask_index
        self._state = context.get_list_state(ListStateDescriptor("lines", Types.STRING()))
        self._lines: list[str] = []
        self._pending: list[Pending] = []

    def write(self, value: Any, context: WriteContext) -> None:
        self._lines.append(json.dumps(list(value)))

    def end_epoch(self) -> None:
        if self._lines:
            self._state.add_all(self._lines)
            self._lines = []

    def flush(self, end_of_input: bool) -> None:
        lines = [*self._state.get(), *self._lines]
        if lines:
            self._folder.mkdir(parents=True, exist_ok=True)
            pending = Pending(name=f"{self._subtask}-{random_id()}")
            (self._folder / pending.name).write_text("\n".join(lines) + "\n", encoding="utf-8")
            self._pending.append(pending)
        self._state.clear()
        self._lines = []

    def prepare_commit(self) -> Sequence[Pending]:
        pending, self._pending = self._pending, []
        return pending


class FolderCommitter(Committer[Pending]):
    """Renames; a file that was renamed before is left where it is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[Pending]]) -> None:
        committed = self._folder / "committed"
        committed.mkdir(parents=True, exist_ok=True)
        # In the order of the requests: what an earlier checkpoint could not commit comes before what was prepared for this one.
        for number, request in enumerate(requests):
            name = request.committable.name
            try:
                (self._folder / "pending" / name).rename(committed / f"{checkpoint_id:020}-{number:05}-{name}")
            except FileNotFoundError:
                if not list(committed.glob(f"*-{name}")):
                    raise SinkError(f"{name} was lost") from None


def committed_rows(folder: Path) -> Iterator[tuple[int, ...]]:
    """Return what a reader sees, in the order in which it was committed; rows of one subtask keep their order."""
    for file in sorted((folder / "committed").glob("*")):
        for line in file.read_text(encoding="utf-8").splitlines():
            yield tuple(json.loads(line))
