"""A slot task and a loop of their own for the engine's tests: numbers 0, 1, 2, ... counted by key, without the runtime.

Level 0 of each slot makes `batch` numbers an epoch from where its carry-over stands; level 1 counts them by `number % keys`;
with a third level the counts of level 1 go on to all slots, where the last ones seen are kept.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from flinkish.common.configuration import Configuration
from flinkish.common.ids import AttemptId, Epoch, LineageId
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.runtime.protocol import EpochCommand, EpochReport, Frame, LevelResult, TaskProgram


@dataclass(kw_only=True, eq=False)
class ToySettings(Configuration):
    """What the toy does, as the program's configuration, which has no options."""

    keys: int = 10
    #: Bytes that are added to each frame.
    padding: int = 0
    batch: int = 100
    #: Called as hook(slot, level, command) in the middle of a level.
    hook: Callable[[int, int, EpochCommand], None] | None = None
    #: Called when the task is closed.
    on_close: Callable[[int], None] | None = None
    fail_in_constructor: bool = False

    def __post_init__(self) -> None:
        super().__init__()


def toy_program(tmp_path: Path, *, slots: int = 2, levels: int = 2, settings: ToySettings | None = None) -> TaskProgram:
    plan = ExecutionPlan(
        job_graph=SimpleNamespace(vertices={}),  # type: ignore[arg-type]
        levels=tuple((level,) for level in range(levels)),  # type: ignore[arg-type]
        level_of={},
        slots=slots,
        slot_offsets={},
    )
    attempt = uuid.uuid4().hex
    return TaskProgram(
        plan=plan,
        configuration=settings or ToySettings(),
        job_id="toy",
        lineage=LineageId("toy"),
        job_name="toy",
        attempt_id=AttemptId(attempt),
        scratch=tmp_path / attempt,
    )


class ToySlotTask:
    """Keeps its counts on the heap as long as they are those of the state it is given."""

    def __init__(self, program: TaskProgram, slot: int) -> None:
        self._settings: ToySettings = program.configuration  # type: ignore[assignment]
        if self._settings.fail_in_constructor:
            raise ValueError("the toy was told to fail")
        self._plan = program.plan
        self._slot = slot
        self._heaps: dict[int, tuple[bytes, Counter[int]]] = {}

    def run_level(self, level: int, command: EpochCommand, state: bytes | None, frames: Sequence[Frame]) -> LevelResult:
        slots = self._plan.slots
        out: list[Frame] = []
        carry_over = None
        if level == 0:
            position = int(command.carry_over.get(self._slot, b"0"))
            numbers = range(position, position + self._settings.batch)
            self._reach_hook(level, command)
            by_slot: dict[int, list[int]] = {target: [] for target in range(slots)}
            keys = self._settings.keys
            for number in numbers:
                by_slot[number % keys % slots].append(number % keys)
            if len(self._plan.levels) > 1:
                out = [Frame(target, 1, 0, self._slot, 0, self._body(values)) for target, values in by_slot.items()]
            carry_over = b"%d" % numbers.stop
        else:
            counts = self._heap(level, state)
            for frame in frames:
                values = pickle.loads(frame.body)
                counts.update(values) if level == 1 else counts.update(Counter(values) - counts)
            self._reach_hook(level, command)
            if level + 1 < len(self._plan.levels):
                body = self._body(dict(counts))
                out = [Frame(target, level + 1, level, self._slot, 0, body) for target in range(slots)]
            state = pickle.dumps((uuid.uuid4().hex, dict(counts)))
            self._heaps[level] = (state, counts)
        counted = dict(self._heaps[level][1]) if level else {}
        report = EpochReport(
            epoch=command.epoch,
            level=level,
            slot=self._slot,
            carry_over=carry_over,
            process={"pid": os.getpid(), "counts": counted, "thread": threading.current_thread().name},
        )
        return LevelResult(frames=tuple(out), state=state or b"", report=report)

    def _body(self, values: object) -> bytes:
        return pickle.dumps(values) + bytes(self._settings.padding)

    def close(self) -> None:
        if self._settings.on_close is not None:
            self._settings.on_close(self._slot)

    def _reach_hook(self, level: int, command: EpochCommand) -> None:
        if self._settings.hook is not None:
            self._settings.hook(self._slot, level, command)

    def _heap(self, level: int, state: bytes | None) -> Counter[int]:
        before, counts = self._heaps.pop(level, (None, Counter()))
        if before == state:
            return counts
        return Counter(pickle.loads(state)[1]) if state else Counter()


def leaving(program: TaskProgram, slot: int) -> ToySlotTask:
    """Stands for a task whose making ends the program."""
    raise SystemExit("not today")


TOY = f"{__name__}:{ToySlotTask.__name__}"


@dataclass
class ToyLoop:
    """Runs a number of epochs and keeps the reports; `before` is called with the number of each epoch before it begins."""

    epochs: int
    before: Callable[[int], None] | None = None
    ballast: bytes = b""
    reports: list[Sequence[EpochReport]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    begun: int = 0
    _carry_over: dict[int, bytes] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return len(self.reports) == self.epochs

    def begin_epoch(self) -> EpochCommand | None:
        self.threads.add(threading.current_thread().name)
        if self.over:
            return None
        if self.before is not None:
            self.before(self.begun)
        carry_over = dict(self._carry_over)
        if self.ballast:
            carry_over[-1] = self.ballast
        command = EpochCommand(
            attempt_id=AttemptId("toy"), attempt_number=0, epoch=Epoch(self.begun), processing_time=0, carry_over=carry_over
        )
        self.begun += 1
        return command

    def finish_epoch(self, reports: Sequence[EpochReport]) -> None:
        self.threads.add(threading.current_thread().name)
        self.reports.append(reports)
        self._carry_over = {report.slot: report.carry_over for report in reports if report.carry_over is not None}

    def counts(self, level: int = 1) -> dict[int, int]:
        """The counts after the last epoch, over all slots."""
        merged: dict[int, int] = {}
        for report in self.reports[-1]:
            if report.level == level:
                merged |= report.process["counts"]
        return merged

    def pids(self) -> dict[int, set[int]]:
        """The processes that each slot ran in."""
        found: dict[int, set[int]] = {}
        for reports in self.reports:
            for report in reports:
                found.setdefault(report.slot, set()).add(report.process["pid"])
        return found


def expected_counts(epochs: int, *, slots: int = 2, keys: int = 10, batch: int = 100) -> dict[int, int]:
    return dict(Counter(number % keys for _ in range(slots) for number in range(epochs * batch)))


@dataclass(frozen=True)
class KillOnce:
    """A hook that kills its process, once, at one place."""

    marker: Path
    slot: int
    level: int
    epoch: int

    def __call__(self, slot: int, level: int, command: EpochCommand) -> None:
        if (slot, level, command.epoch) == (self.slot, self.level, self.epoch) and not self.marker.exists():
            self.marker.write_text("killed")
            os.kill(os.getpid(), signal.SIGKILL)
