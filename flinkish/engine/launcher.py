"""Starts a program as a job, in steps: check, install packages, locate, plan, claim, assemble, run.

All checks that may refuse a program come before the claim of its storage, because from then on another process that runs the same
job is refused. The graph is generated once, in `check`.
"""

from __future__ import annotations

import atexit
import logging
import random
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import notices, options
from flinkish.common.clock import Clock, SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import CorruptCheckpointError
from flinkish.common.files import store_settings
from flinkish.common.ids import IdSource, LineageId, random_id
from flinkish.engine.dependencies import dependencies_of, extend_driver_path, forget_packages, install
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.job_list import RUNNING_JOBS
from flinkish.engine.scratch import CHECKPOINTS, DiskFolder, temporary_folder
from flinkish.engine.signals import SignalWatch, stop_at_exit
from flinkish.engine.support import check_commits, check_supported, warn_of_ineffective
from flinkish.graph.chaining import build_job_graph
from flinkish.graph.execution_plan import ExecutionPlan, plan
from flinkish.graph.runtime_mode import is_batch, runtime_mode, with_runtime_mode
from flinkish.graph.stream_graph import StreamGraph
from flinkish.graph.stream_graph_generator import generate, with_recorded_max_parallelism
from flinkish.jobmaster import recovery
from flinkish.jobmaster.delivery import PrintError, Taker
from flinkish.jobmaster.epochs import Engine
from flinkish.jobmaster.exception_history import EarlierRestarts
from flinkish.jobmaster.ha import ClusterRecord, JobShape
from flinkish.jobmaster.job_master import Environment, JobMaster
from flinkish.jobmaster.setup import JobSetup, effective_configuration, job_setup
from flinkish.program.execution_mode import RuntimeExecutionMode
from flinkish.program.operators import SourceConfig
from flinkish.program.program import Program
from flinkish.program.sources import Source
from flinkish.program.transformations import CacheTransformation
from flinkish.runtime.protocol import Dependencies
from flinkish.runtime.state.backends import on_disk

if TYPE_CHECKING:
    from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
    from flinkish.checkpoint.history import JobHistory

#: Prefix of the name of a job's thread; the first digits of the job's id follow.
JOB_THREAD = "flinkish-job-"

_log = logging.getLogger("flinkish.engine.launcher")

_watch = SignalWatch(RUNNING_JOBS, SystemClock())
RUNNING_JOBS.subscribe(_watch)
store_settings.watch_jobs(lambda: bool(RUNNING_JOBS.running()))
#: Folders for cached streams of this process, by io.tmp.dirs.
_caches: dict[str | None, DiskFolder] = {}
# Before scratch.remove_made, as that was registered earlier: jobs that can be stopped remove their own folders.
atexit.register(stop_at_exit, _watch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The parts of a job's environment that the test kit replaces."""

    #: Makes the engine; it starts nothing before the first attempt.
    make_engine: Callable[[Configuration, Clock, IdSource], Engine]
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = random_id
    #: Take the values that sinks send to further destinations on the driver.
    takers: Mapping[str, Taker] = field(default_factory=dict)
    #: The job's id, with which it resumes from its last checkpoint; None = determined by the configuration.
    job_id: str | None = None
    #: Is called with the id of such a job before its checkpoints are deleted, because it has ended for good.
    retire: Callable[[str], None] | None = None
    #: The restarts of the job before this process, as far as they are known.
    earlier: EarlierRestarts | None = None
    #: Folder of the checkpoints if the configuration names none; None = a folder that is removed with the job.
    checkpoints: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedProgram:
    """A program that passed all checks that have no side effects."""

    program: Program
    #: Has the decided runtime mode, and no checkpoint interval if no checkpoints are taken.
    configuration: Configuration
    stream_graph: StreamGraph
    dependencies: Dependencies

    @property
    def checkpointing(self) -> bool:
        return self.configuration.contains(options.CHECKPOINTING_INTERVAL)


def start(program: Program, surroundings: Surroundings) -> EmbeddedJobClient:
    """Start a program and return without waiting for it; see `executor.execute_async` for what it raises."""
    checked = check(program)
    warn_of_ineffective(checked.configuration)
    hint_at_local_engine(checked)
    launch = _Launch(checked, surroundings)
    try:
        launch.install_packages()
        launch.locate()
        planned = launch.plan()
        if launch.storage is not None:
            launch.storage.claim()
            planned = launch.plan(planned)
        client = launch.assemble(*planned)
    except BaseException:
        launch.engine.close()
        launch.release()
        raise
    run(client)
    return client


def check(program: Program) -> CheckedProgram:
    """Check a program without side effects.

    Raises InvalidProgramError, UnsupportedError and ConfigurationError.
    """
    mode = runtime_mode(program.configuration, program.transformations.values())
    configuration = effective_configuration(with_runtime_mode(program.configuration, mode))
    _prepare_caches(program, mode)
    stream_graph = generate(program)
    check_supported(program, mode)
    check_commits(program, stream_graph, configuration)
    return CheckedProgram(
        program=program,
        configuration=configuration,
        stream_graph=stream_graph,
        dependencies=dependencies_of(program),
    )


def hint_at_local_engine(checked: CheckedProgram) -> None:
    """Tell the user of a job on Spark without checkpoints, whose input is in the program, that it does not need Spark."""
    sources = [node.operator.source for node in checked.stream_graph.nodes.values() if isinstance(node.operator, SourceConfig)]
    small = all(isinstance(source, Source) and source.is_in_program for source in sources)
    if checked.configuration.get(options.ENGINE) == "spark" and small and not checked.checkpointing:
        notices.tell(
            "All input of this job is in the program: with --engine local (execution.engine: local) it runs in this process, "
            "without the seconds that Spark takes to start."
        )


#: A job's settings with its plan, and the checkpoint that it starts from.
_Planned = tuple[JobSetup, StoredCheckpoint | None]


class _Launch:
    """The start of one job: its resources on this machine, its identity, and the storage of its checkpoints."""

    def __init__(self, checked: CheckedProgram, surroundings: Surroundings) -> None:
        """Create the engine, which starts nothing yet."""
        self._checked = checked
        self._configuration = configuration = checked.configuration
        self._surroundings = surroundings
        #: For large data.
        self._disk = DiskFolder(temporary_folder(configuration), "flinkish-job")
        self.engine = surroundings.make_engine(configuration, surroundings.clock, surroundings.ids)
        self._dependencies = checked.dependencies
        #: Temporary folder for checkpoints, if there is one.
        self._temporary: Path | None = None
        #: The storage of a job that takes checkpoints.
        self.storage: DeltaCheckpointStorage | None = None

    def release(self) -> None:
        """Remove all folders of the job, after its engine was closed."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
        forget_packages(self._dependencies)
        self._disk.remove()

    def install_packages(self) -> None:
        """Install the packages that the tasks need. Raises DependencyError."""
        if self._dependencies.requirements is not None:
            interpreter = self._configuration.get(options.PYTHON_EXECUTABLE)
            self._dependencies = install(self._dependencies, interpreter, self._disk.path() / "packages")
        extend_driver_path(self._dependencies)

    def locate(self) -> None:
        """Determine the identity of the job and open its storage, without claiming it.

        Raises ConfigurationError and CheckpointError.
        """
        checked, surroundings = self._checked, self._surroundings
        store_settings.use(self._configuration, alone=not RUNNING_JOBS.running())
        self._cluster: ClusterRecord | None = None
        if surroundings.job_id is None:
            self._cluster = recovery.cluster_record(self._configuration, checkpointing=checked.checkpointing)
        self._job_id = surroundings.job_id or (surroundings.ids() if self._cluster is None else self._cluster.job_id())
        # In a notebook, a changed program runs again in the same process, and nothing but a person starts it.
        if self._cluster is not None and not notices.is_interactive():
            self._cluster.check_only_job(JobShape.of(checked.stream_graph))
        #: The lineage of the job's checkpoints if it does not start from one.
        self._lineage = LineageId(surroundings.ids())
        if checked.checkpointing:
            self.storage = self._open_storage()

    def _open_storage(self) -> DeltaCheckpointStorage:
        folder = self._surroundings.checkpoints or self._temporary
        if folder is None:
            folder = self._temporary = self.engine.scratch_root() / CHECKPOINTS
            folder.mkdir(parents=True, exist_ok=True)
        return recovery.open_storage(
            self._configuration,
            self._job_id,
            lineage=self._lineage,
            clock=self._surroundings.clock,
            ids=self._surroundings.ids,
            temporary=folder,
        )

    def _open_claimed(self) -> DeltaCheckpointStorage:
        """Open and claim a storage for a job that takes no checkpoints, when a savepoint is requested."""
        opened = self._open_storage()
        opened.claim()
        return opened

    def plan(self, before: _Planned | None = None) -> _Planned:
        """Find the checkpoint that the job starts from, and plan the job so that it fits the checkpoint.

        `before` is the plan before the storage was claimed. It is kept unless another process has completed another checkpoint
        in the meantime. Raises CheckpointError for a checkpoint that is damaged or does not fit, InvalidProgramError for a
        parallelism above the maximum that the checkpoint records, and ConfigurationError for a wrong setting of the job.
        """
        configuration = self._configuration
        restored = recovery.find_checkpoint(configuration, self.storage)
        if before is not None and _source_of(restored) == _source_of(before[1]):
            return before
        execution_plan, restored = self._fit(restored)
        setup = job_setup(
            execution_plan,
            configuration,
            self._job_id,
            self._lineage if self.storage is None else self.storage.lineage,
            self._dependencies,
            self._disk.path() / "disk" if is_batch(configuration) or on_disk(configuration) else None,
            self._checked.program.dead_letters,
        )
        return setup, restored

    def _fit(self, restored: StoredCheckpoint | None) -> tuple[ExecutionPlan, StoredCheckpoint | None]:
        """Plan the program so that it fits a checkpoint. Returns the newest one if that one was removed meanwhile."""
        configuration = self._configuration
        recorded = recovery.recorded_max_parallelism(restored)
        execution_plan = plan(build_job_graph(with_recorded_max_parallelism(self._checked.stream_graph, recorded)))
        if restored is None:
            return execution_plan, None
        ignore = configuration.get(options.SAVEPOINT_IGNORE_UNCLAIMED_STATE)
        try:
            recovery.check_fits(restored, execution_plan.job_graph, allow_unclaimed=ignore)
        except (CorruptCheckpointError, OSError):
            # A job that still runs completes checkpoints, and removes the files of those before.
            newest = recovery.find_checkpoint(configuration, self.storage)
            if _source_of(newest) == _source_of(restored):
                raise
            return self._fit(newest)
        return execution_plan, restored

    def _history(self) -> JobHistory | None:
        """Return the history of the job, stored next to its checkpoints; None if their folder is temporary."""
        directory = self._configuration.get(options.CHECKPOINTS_DIRECTORY)
        if self.storage is None or directory is None:
            return None
        from flinkish.checkpoint.history import JobHistory

        return JobHistory(directory, self._job_id, generation=self.storage.generation, clock=self._surroundings.clock)

    def assemble(self, setup: JobSetup, restored: StoredCheckpoint | None) -> EmbeddedJobClient:
        """Create the JobMaster with its services, and its client."""
        surroundings, job_id = self._surroundings, self._job_id
        retire = surroundings.retire if self._cluster is None else self._cluster.retire
        released = threading.Event()

        def on_released() -> None:
            self.release()
            released.set()
            RUNNING_JOBS.remove(client)

        environment = Environment(
            engine=self.engine,
            clock=surroundings.clock,
            ids=surroundings.ids,
            rng=random.Random(surroundings.ids()),
            print_lines=print_lines,
            tell=notices.tell,
            storage=self.storage,
            # As in Flink, a batch job has no savepoints, because its tasks are not at the same position of the input.
            open_storage=None if is_batch(self._configuration) else self._open_claimed,
            notes=self._history(),
            takers=surroundings.takers,
            retire=None if retire is None else lambda: retire(job_id),
            earlier=surroundings.earlier,
            on_released=on_released,
        )
        client = EmbeddedJobClient(JobMaster(setup, environment, restored=restored), released, _watch.restore_if_idle)
        return client


def run(client: EmbeddedJobClient) -> None:
    """Add the job to the list of running jobs, and run it in its own thread."""
    setup = client.job_master.setup
    RUNNING_JOBS.add(client)
    _log.info("Job %s (%s) is starting.", setup.job_name, setup.job_id)
    threading.Thread(target=client.job_master.run, name=f"{JOB_THREAD}{setup.job_id[:8]}", daemon=True).start()


def print_lines(lines: tuple[str, ...]) -> None:
    """Print the lines of print() sinks in one write; raises PrintError if standard output is closed."""
    if sys.stdout is None:  # it was closed when Python started
        raise PrintError("print() needs a standard output, and it is closed", hint="redirect it, for example to /dev/null.")
    try:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        raise PrintError(f"standard output does not take any more lines: {error}") from error


def _source_of(checkpoint: StoredCheckpoint | None) -> tuple[PurePath, str] | None:
    return None if checkpoint is None else (checkpoint.root, checkpoint.manifest_path)


def _prepare_caches(program: Program, mode: RuntimeExecutionMode) -> None:
    """Assign a folder to cached streams that are still empty; the folder is removed at the end of this process."""
    parent = temporary_folder(program.configuration)
    for transformation in program.transformations.values():
        if isinstance(transformation, CacheTransformation):
            if mode is RuntimeExecutionMode.BATCH:
                transformation.cache.prepare(_caches.setdefault(parent, DiskFolder(parent, "flinkish-cache")).path)
            else:
                _log.warning("The program runs in streaming mode: what cache() was called on is computed, but not kept.")
