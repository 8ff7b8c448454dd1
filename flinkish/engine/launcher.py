"""Starts a program as a job, in steps: check, acquire, locate, plan, claim, assemble, run.

Each step takes the results of earlier steps. All checks that may refuse a program come before `claim`, because from then on
another process that runs the same job is refused. The graph is generated once, in `check`.
"""

from __future__ import annotations

import atexit
import logging
import random
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import notices, options
from flinkish.common.clock import Clock, SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.files import store_settings
from flinkish.common.ids import IdSource, LineageId, random_id
from flinkish.common.interactive import is_interactive
from flinkish.engine.dependencies import dependencies_of, extend_driver_path, forget_packages
from flinkish.engine.ineffective import warn_of_ineffective
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.job_list import RUNNING_JOBS
from flinkish.engine.requirements import install
from flinkish.engine.scratch import CHECKPOINTS, DiskFolder, remove_made, temporary_folder
from flinkish.engine.signals import SignalWatch, stop_at_exit
from flinkish.engine.support import check_commits, check_supported
from flinkish.graph.chaining import build_job_graph
from flinkish.graph.execution_plan import plan
from flinkish.graph.runtime_mode import is_batch, runtime_mode, with_runtime_mode
from flinkish.graph.stream_graph import StreamGraph
from flinkish.graph.stream_graph_generator import (
    generate,
    with_recorded_max_parallelism,
)
from flinkish.jobmaster import recovery
from flinkish.jobmaster.delivery import PrintError, Taker
from flinkish.jobmaster.epochs import Engine
from flinkish.jobmaster.exception_history import EarlierRestarts
from flinkish.jobmaster.ha import JobShape
from flinkish.jobmaster.job_master import Environment, JobMaster
from flinkish.jobmaster.setup import JobSetup, effective_configuration, job_setup
from flinkish.program.execution_mode import RuntimeExecutionMode
from flinkish.program.operators import SourceConfig
from flinkish.program.program import Program
from flinkish.program.sources import Source
from flinkish.program.transformations import CacheTransformation
from flinkish.runtime.protocol import Dependencies

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
# These are called in reverse order, so that stopped jobs remove their own folders first.
atexit.register(remove_made)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources of a job on this machine, from before its first attempt until its end."""

    engine: Engine
    #: For large data.
    disk: DiskFolder
    #: Includes the folder of installed packages.
    dependencies: Dependencies
    temporary: _TemporaryFolder

    def release(self) -> None:
        """Remove all folders of the job, after its engine was closed."""
        self.temporary.remove()
        forget_packages(self.dependencies)
        self.disk.remove()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedJob:
    """The identity of a job, and the location of its checkpoints."""

    identity: recovery.Identity
    #: The lineage of its checkpoints if it does not start from one.
    lineage: LineageId
    #: Opens the storage without claiming it.
    open_storage: Callable[[], DeltaCheckpointStorage]
    #: The storage of a job that takes checkpoints.
    storage: DeltaCheckpointStorage | None

    def open_claimed(self) -> DeltaCheckpointStorage:
        """Open and claim a storage for a job that takes no checkpoints, when a savepoint is requested."""
        opened = self.open_storage()
        opened.claim()
        return opened


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """The plan to run, and the checkpoint that it starts from."""

    setup: JobSetup
    restored: StoredCheckpoint | None


def start(program: Program, surroundings: Surroundings) -> EmbeddedJobClient:
    """Start a program and return without waiting for it; see `executor.execute_async` for what it raises."""
    checked = check(program)
    warn_of_ineffective(checked.configuration)
    hint_at_local_engine(checked)
    resources = acquire(checked, surroundings)
    try:
        located = locate(checked, resources, surroundings)
        planned = plan_job(checked, resources, located)
        claimed = claim(checked, resources, located, planned)
        client = assemble(checked, resources, located, claimed, surroundings)
    except BaseException:
        resources.engine.close()
        resources.release()
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


def acquire(checked: CheckedProgram, surroundings: Surroundings) -> Resources:
    """Create the engine, which starts nothing yet, and install the packages that the tasks need.

    Raises DependencyError.
    """
    configuration, dependencies = checked.configuration, checked.dependencies
    disk = DiskFolder(temporary_folder(configuration), "flinkish-job")
    engine = surroundings.make_engine(configuration, surroundings.clock, surroundings.ids)
    resources = Resources(engine=engine, disk=disk, dependencies=dependencies, temporary=_TemporaryFolder(engine))
    try:
        if dependencies.requirements is not None:
            interpreter = configuration.get(options.PYTHON_EXECUTABLE)
            resources = replace(resources, dependencies=install(dependencies, interpreter, disk.path() / "packages"))
        extend_driver_path(resources.dependencies)
    except BaseException:
        engine.close()
        resources.release()
        raise
    return resources


def locate(checked: CheckedProgram, resources: Resources, surroundings: Surroundings) -> LocatedJob:
    """Determine the identity of the job and open its storage, without claiming it.

    Raises ConfigurationError and CheckpointError.
    """
    configuration, clock, ids = checked.configuration, surroundings.clock, surroundings.ids
    store_settings.use(configuration, alone=not RUNNING_JOBS.running())
    if surroundings.job_id is not None:
        identity = recovery.Identity(job_id=surroundings.job_id, cluster=None)
    else:
        identity = recovery.identify(configuration, checkpointing=checked.checkpointing, ids=ids)
        # In a notebook, a changed program runs again in the same process, and nothing but a person starts it.
        if identity.cluster is not None and not is_interactive():
            identity.cluster.check_only_job(JobShape.of(checked.stream_graph))
    lineage = LineageId(ids())

    def open_storage() -> DeltaCheckpointStorage:
        folder = surroundings.checkpoints or resources.temporary.path()
        return recovery.open_storage(configuration, identity.job_id, lineage=lineage, clock=clock, ids=ids, temporary=folder)

    return LocatedJob(
        identity=identity,
        lineage=lineage,
        open_storage=open_storage,
        storage=open_storage() if checked.checkpointing else None,
    )


def plan_job(checked: CheckedProgram, resources: Resources, located: LocatedJob) -> PlannedJob:
    """Find the checkpoint that the job starts from, and plan the job so that it fits the checkpoint.

    Raises CheckpointError for a checkpoint that is damaged or does not fit, InvalidProgramError for a parallelism above the
    maximum that the checkpoint records, and ConfigurationError for a wrong setting of the job.
    """
    restored = recovery.find_checkpoint(checked.configuration, located.storage)
    return PlannedJob(setup=_set_up(checked, resources, located, restored), restored=restored)


def claim(checked: CheckedProgram, resources: Resources, located: LocatedJob, planned: PlannedJob) -> PlannedJob:
    """Take over the job from any other process; plan it again if that process has completed another checkpoint in the meantime.

    Raises CheckpointError.
    """
    if located.storage is None:
        return planned
    located.storage.claim()
    restored = recovery.find_checkpoint(checked.configuration, located.storage)
    if _source_of(restored) == _source_of(planned.restored):
        return planned
    return PlannedJob(setup=_set_up(checked, resources, located, restored), restored=restored)


def assemble(
    checked: CheckedProgram, resources: Resources, located: LocatedJob, planned: PlannedJob, surroundings: Surroundings
) -> EmbeddedJobClient:
    """Create the JobMaster with its services, and its client."""
    configuration, identity = checked.configuration, located.identity
    retire = surroundings.retire if identity.cluster is None else identity.cluster.retire
    released = threading.Event()

    def on_released() -> None:
        resources.release()
        released.set()
        RUNNING_JOBS.remove(client)

    job_master = JobMaster(
        planned.setup,
        Environment(
            engine=resources.engine,
            clock=surroundings.clock,
            ids=surroundings.ids,
            rng=random.Random(surroundings.ids()),
            print_lines=print_lines,
            tell=notices.tell,
            storage=located.storage,
            # As in Flink, a batch job has no savepoints, because its tasks are not at the same position of the input.
            open_storage=None if is_batch(configuration) else located.open_claimed,
            notes=_notes(configuration, identity.job_id, located.storage, surroundings.clock),
            takers=surroundings.takers,
            retire=None if retire is None else lambda: retire(identity.job_id),
            earlier=surroundings.earlier,
            on_released=on_released,
        ),
        restored=planned.restored,
    )
    client = EmbeddedJobClient(job_master, released, _watch.restore_if_idle)
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


def _set_up(checked: CheckedProgram, resources: Resources, located: LocatedJob, restored: StoredCheckpoint | None) -> JobSetup:
    configuration = checked.configuration
    stream_graph = with_recorded_max_parallelism(checked.stream_graph, recovery.recorded_max_parallelism(restored))
    execution_plan = plan(build_job_graph(stream_graph))
    if restored is not None:
        ignore = configuration.get(options.SAVEPOINT_IGNORE_UNCLAIMED_STATE)
        recovery.check_fits(restored, execution_plan.job_graph, allow_unclaimed=ignore)
    return job_setup(
        execution_plan,
        configuration,
        located.identity.job_id,
        located.lineage if located.storage is None else located.storage.lineage,
        resources.dependencies,
        resources.disk.path() / "spill" if is_batch(configuration) else None,
        checked.program.dead_letters,
    )


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


def _notes(configuration: Configuration, job_id: str, storage: DeltaCheckpointStorage | None, clock: Clock) -> JobHistory | None:
    """Return the history of a job, stored next to its checkpoints; None if their folder is temporary."""
    directory = configuration.get(options.CHECKPOINTS_DIRECTORY)
    if storage is None or directory is None:
        return None
    from flinkish.checkpoint.history import JobHistory

    return JobHistory(directory, job_id, generation=storage.generation, clock=clock)


class _TemporaryFolder:
    """The folder for checkpoints of a job without execution.checkpointing.dir, which exists while the job runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._path: Path | None = None

    def path(self) -> Path:
        if self._path is None:
            self._path = self._engine.scratch_root() / CHECKPOINTS
            self._path.mkdir(parents=True, exist_ok=True)
        return self._path

    def remove(self) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
