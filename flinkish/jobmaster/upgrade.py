"""What a program would take over from a checkpoint, found out before anything is stopped or started.

The rules are those of a start: `recovery.check_fits` for each operator by itself, and the code by which tasks restore state.
Operators are made and opened in this process, each with the first rows of each of its states; sources and sinks are not, as they
reach for the outside when they are opened.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import options, pickling
from flinkish.common.clock import Clock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import FlinkishError, without_hint
from flinkish.common.ids import AttemptId, IdSource, LineageId, OperatorUid
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import JobVertex
from flinkish.graph.stream_graph import StreamNode
from flinkish.jobmaster import program_parts, recovery
from flinkish.metrics import MetricRegistry
from flinkish.program.operators import SinkConfig, SinkWriterConfig, SourceConfig
from flinkish.runtime.dead_letters import SubtaskDeadLetters
from flinkish.runtime.event_loop import EventLoop
from flinkish.runtime.operators.base import EpochTime, OperatorContext, Output
from flinkish.runtime.operators.factory import make_operator
from flinkish.runtime.protocol import TaskProgram
from flinkish.runtime.state.backend import Table
from flinkish.runtime.state.heap.backend import HeapBackend
from flinkish.runtime.state.level_state import LevelState
from flinkish.runtime.state.restore import RestoredRows, read_state
from flinkish.runtime.state.rows import RUNTIME_STATES, RestoreRequest
from flinkish.runtime.state.tables import StateAddress, TableMeta
from flinkish.state.reader import OperatorInfo, SavepointReader

#: Rows of each state with which an operator is opened: their types are checked by the first of them.
_SAMPLE = 1_000


class Verdict(Enum):
    """What becomes of an operator or of one of its states."""

    #: It is restored.
    MATCHES = "matches"
    #: It is restored, and its values are converted to another type.
    CONVERTED = "converted"
    #: It begins empty.
    NEW = "new"
    #: It is restored to the operator, which does not ask for it when it is opened: it is kept, and is in the next checkpoint.
    KEPT = "kept"
    #: It is left behind, because the program has no such operator.
    DROPPED = "dropped"
    #: It prevents the start.
    REFUSED = "refused"
    #: The operator was not opened, so that it is not known whether it asks for it, and as what.
    UNKNOWN = "not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVerdict:
    """What becomes of a state; the types are None where it is not there."""

    name: str
    verdict: Verdict
    stored: str | None
    declared: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVerdict:
    """What becomes of an operator and its states."""

    uid: str
    name: str
    verdict: Verdict
    reason: str = ""
    states: tuple[StateVerdict, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether it prevents the start of the program from the checkpoint."""
        return self.verdict is Verdict.REFUSED or any(each.verdict is Verdict.REFUSED for each in self.states)


def compare(
    checkpoint: StoredCheckpoint,
    plan: ExecutionPlan,
    configuration: Configuration,
    *,
    open_functions: bool,
    clock: Clock,
    ids: IdSource,
    scratch: Path,
) -> list[OperatorVerdict]:
    """Return what becomes of each operator of a program and of a checkpoint.

    With `open_functions`, the user's functions are opened and closed, as otherwise nobody knows the states that they ask for.
    `scratch` is a folder for files of operators.
    """
    pickling.use_aliases(configuration.get(options.CLASS_ALIASES))
    graph = plan.job_graph
    program = TaskProgram(
        plan=plan,
        configuration=configuration,
        job_id=ids(),
        lineage=LineageId(ids()),
        job_name=graph.job_name,
        attempt_id=AttemptId(ids()),
        scratch=scratch,
    )
    allow_unclaimed = configuration.get(options.SAVEPOINT_IGNORE_UNCLAIMED_STATE)
    reader = SavepointReader(checkpoint)
    stored = {each.uid: each for each in reader.operators()}
    mine = {str(node.uid): (vertex, node) for vertex, node in program_parts.operators(graph)}
    verdicts = []
    for uid, (vertex, node) in mine.items():
        before = stored.get(uid)
        request = RestoreRequest(
            uid=node.uid, subtask=0, parallelism=1, max_parallelism=vertex.max_parallelism, keyed=node.key_type is not None
        )
        try:
            recovery.check_fits(_part_of(checkpoint, uid), graph, allow_unclaimed=allow_unclaimed)
            rows = _own(read_state(checkpoint.to_restore(), [request]))
        except FlinkishError as error:
            verdicts.append(OperatorVerdict(uid=uid, name=node.name, verdict=Verdict.REFUSED, reason=without_hint(error)))
            continue
        probe = _Probe(program, vertex, node, rows, int(checkpoint.checkpoint_id), clock, ids)
        reason = probe.open() if open_functions and not isinstance(node.operator, _OUTSIDE) else ""
        verdicts.append(
            OperatorVerdict(
                uid=uid,
                name=node.name,
                verdict=Verdict.REFUSED if reason else Verdict.NEW if before is None else Verdict.MATCHES,
                reason=reason,
                states=probe.verdicts(),
            )
        )
    return verdicts + [
        found
        for uid, each in stored.items()
        if uid not in mine and (found := _left_behind(reader, plan, each, allow_unclaimed)) is not None
    ]


#: Operators that are not opened.
_OUTSIDE = (SourceConfig, SinkConfig, SinkWriterConfig)


def _own(rows: dict[StateAddress, RestoredRows]) -> dict[StateAddress, RestoredRows]:
    return {address: found for address, found in rows.items() if address[2] not in RUNTIME_STATES}


def _part_of(checkpoint: StoredCheckpoint, uid: str) -> StoredCheckpoint:
    """Return a checkpoint as if it had one operator only."""
    manifest = checkpoint.manifest
    coordinator = manifest.coordinator
    own = OperatorUid(uid)
    return dataclasses.replace(
        checkpoint,
        manifest=dataclasses.replace(
            manifest,
            files=tuple(dataclasses.replace(file, operator_uids=(uid,)) for file in manifest.files if uid in file.operator_uids),
            committables=tuple(each for each in manifest.committables if each.operator_uid == own),
            coordinator=dataclasses.replace(
                coordinator,
                operators=tuple(each for each in coordinator.operators if each.uid == own),
                sources=tuple(each for each in coordinator.sources if each.uid == own),
            ),
        ),
    )


def _left_behind(reader: SavepointReader, plan: ExecutionPlan, operator: OperatorInfo, allowed: bool) -> OperatorVerdict | None:
    """Return the verdict on an operator that the program does not have; None if it has no state of its own."""
    try:
        recovery.check_fits(_part_of(reader.checkpoint, operator.uid), plan.job_graph, allow_unclaimed=False)
        return None
    except FlinkishError as error:
        reason = "" if allowed else without_hint(error)
    rows = _own(reader.rows_of(operator.uid))
    return OperatorVerdict(
        uid=operator.uid,
        name=operator.name,
        verdict=Verdict.DROPPED if allowed else Verdict.REFUSED,
        reason=reason,
        states=tuple(
            StateVerdict(name=address[2], verdict=Verdict.DROPPED, stored=found.declaration.description, declared=None)
            for address, found in sorted(rows.items())
        ),
    )


class _Probe(LevelState):
    """The state of one operator, which notes what it asks for, and what prevents that it gets it."""

    def __init__(
        self,
        program: TaskProgram,
        vertex: JobVertex,
        node: StreamNode,
        rows: dict[StateAddress, RestoredRows],
        checkpoint_id: int,
        clock: Clock,
        ids: IdSource,
    ) -> None:
        backend = HeapBackend()
        super().__init__(None, attempt_id=program.attempt_id, slot=0, level=0, scratch=program.scratch, ids=ids, backend=backend)
        self._stored = {address: found.declaration.description for address, found in rows.items()}
        self._asked: dict[StateAddress, TableMeta] = {}
        self._refused: dict[StateAddress, str] = {}
        backend.hold(
            {
                address: RestoredRows(found.declaration, {kind: table.slice(0, _SAMPLE) for kind, table in found.by_kind.items()})
                for address, found in rows.items()
            }
        )
        self._program, self._vertex, self._node = program, vertex, node
        self._checkpoint_id, self._clock = checkpoint_id, clock
        self._opened = False

    def table(self, address: StateAddress, meta: TableMeta, now: Callable[[], int]) -> Table:
        self._asked.setdefault(address, meta)
        try:
            return super().table(address, meta, now)
        except FlinkishError as error:
            table = self._backend.tables.get(address)
            if table is None:
                raise
            # It was made before it was filled, so the operator can go on with it: other states may not fit, too.
            self._refused.setdefault(address, without_hint(error))
            return table

    def open(self) -> str:
        """Open and close the operator; return why it cannot go on from the checkpoint, or what its open() raised."""
        self._opened = True
        metrics = MetricRegistry(self._clock).root
        time = EpochTime(processing_time=self._clock.wall_time())
        event_loop = EventLoop("flinkish-plan")
        letters = SubtaskDeadLetters(self._program, 0, lambda *_: None)
        context = OperatorContext(
            program=self._program,
            vertex=self._vertex,
            node=self._node,
            subtask_index=0,
            attempt_number=0,
            state=self.operator(self._node.uid),
            time=time,
            metrics=metrics,
            side_outputs=(),
            to_driver=lambda *_: None,
            dead_letters=letters.of(self._node, metrics),
            outflow=lambda: 0,
            event_loop=event_loop,
            restored_checkpoint=self._checkpoint_id,
        )
        try:
            operator = make_operator(context)
            operator.connect(Output([], {}, []))
            try:
                operator.open()
            finally:
                operator.close()
                event_loop.close()
        except FlinkishError as error:
            return without_hint(error)
        except Exception as error:
            return f"its open() or close() raised {type(error).__name__}: {error}"
        return ""

    def verdicts(self) -> tuple[StateVerdict, ...]:
        """Return what becomes of the states that are stored or were asked for."""
        asked = {address: meta for address, meta in self._asked.items() if address in self._stored or self._is_own(address)}
        return tuple(
            StateVerdict(
                name=address[2],
                verdict=self._verdict(address),
                stored=self._stored.get(address),
                declared=str(asked[address]) if address in asked else None,
                reason=self._refused.get(address, ""),
            )
            for address in sorted({*self._stored, *asked})
        )

    @staticmethod
    def _is_own(address: StateAddress) -> bool:
        # Each operator with a key asks for its timers.
        return address[1] in ("keyed", "operator") and address[2] not in RUNTIME_STATES

    def _verdict(self, address: StateAddress) -> Verdict:
        if address in self._refused:
            return Verdict.REFUSED
        if address not in self._stored:
            return Verdict.NEW
        if not self._opened:
            return Verdict.UNKNOWN
        if address not in self._asked:
            return Verdict.KEPT
        return Verdict.MATCHES if str(self._asked[address]) == self._stored[address] else Verdict.CONVERTED
