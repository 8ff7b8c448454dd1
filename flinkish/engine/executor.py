"""Runs programs: composes graph, JobMaster and engine. What `program.executor_loader` loads.

`execution.engine` chooses the engine; only that one is imported. A job runs in a daemon thread of this process; what still runs
when the program ends is stopped cleanly.
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
from pathlib import Path

from flinkish.checkpoint.storage import CheckpointStorage, StoredCheckpoint
from flinkish.common import options
from flinkish.common.clock import Clock, SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.ids import IdSource, LineageId, random_id
from flinkish.datastream.execution_mode import RuntimeExecutionMode
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.requirements import install
from flinkish.engine.scratch import DiskFolder, remove_made
from flinkish.engine.signals import SignalWatch, stop_at_exit
from flinkish.engine.support import check_supported
from flinkish.graph import explain as explanation
from flinkish.graph.chaining import build_job_graph
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.plan_json import plan_json
from flinkish.graph.planning import plan
from flinkish.graph.runtime_mode import is_batch, runtime_mode, with_runtime_mode
from flinkish.graph.stream_graph_generator import generate
from flinkish.jobmaster import recovery
from flinkish.jobmaster.delivery import PrintError, Taker
from flinkish.jobmaster.epochs import Engine
from flinkish.jobmaster.job_master import Environment, JobMaster, JobNotes
from flinkish.jobmaster.setup import JobSetup, effective_configuration, job_setup
from flinkish.program.program import Program
from flinkish.program.transformations import CacheTransformation
from flinkish.runtime.dependencies import Dependencies, extend_driver_path, forget_packages

__all__ = ["Surroundings", "execute_async", "execution_plan_json", "explain", "start"]

#: Name of the thread that a job runs in, before the first digits of its id.
JOB_THREAD = "flinkish-job-"

_log = logging.getLogger("flinkish.engine.executor")

_watch = SignalWatch(SystemClock())
#: Where cached streams of this process are kept, by io.tmp.dirs.
_caches: dict[str | None, DiskFolder] = {}
# Called in reverse order: what is stopped removes its own folders.
atexit.register(remove_made)
atexit.register(stop_at_exit, _watch)


def execute_async(program: Program) -> EmbeddedJobClient:
    """Start a program and return without waiting for it.

    Raises here, before anything runs: InvalidProgramError, UnsupportedError, ConfigurationError, and CheckpointError for a
    checkpoint to start from that is damaged or does not fit. All else comes with the result of the job.
    """
    return start(program, Surroundings())


def execution_plan_json(program: Program) -> str:
    """Return the stream graph in the JSON form of Flink's plan visualizer."""
    return plan_json(generate(program))


def explain(program: Program) -> str:
    """Return all layers of a program, down to what the engine runs, as text for people."""
    return explanation.explain_program(program, _engine_plan(program.configuration))


def create_engine(configuration: Configuration, clock: Clock, ids: IdSource) -> Engine:
    """Make the engine that the configuration names; it starts nothing before the first attempt."""
    match configuration.get(options.ENGINE):
        case "local":
            from flinkish.engine.local.engine import LocalEngine

            return LocalEngine(clock=clock, ids=ids)
        case _:
            from flinkish.engine.spark.engine import SparkEngine

            return SparkEngine(configuration, clock=clock, ids=ids)


def _engine_plan(configuration: Configuration) -> Callable[[ExecutionPlan], str] | None:
    if configuration.get(options.ENGINE) == "local":
        return None
    from flinkish.engine.spark.explain import spark_plan_text

    return spark_plan_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a job takes from where it runs; the test kit gives others."""

    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = random_id
    make_engine: Callable[[Configuration, Clock, IdSource], Engine] = create_engine
    #: Who takes what sinks send to the driver on further channels.
    takers: Mapping[str, Taker] = field(default_factory=dict)
    #: The job's id, which makes it go on from its last checkpoint; None: what the configuration says.
    job_id: str | None = None
    #: Where checkpoints are kept if the configuration names no folder; None: in one that ends with the job.
    checkpoints: Path | None = None


def start(program: Program, surroundings: Surroundings) -> EmbeddedJobClient:
    """Start a program like `execute_async`."""
    clock, ids = surroundings.clock, surroundings.ids
    mode = runtime_mode(program.configuration, program.transformations.values())
    configuration = effective_configuration(with_runtime_mode(program.configuration, mode))
    checkpointing = configuration.contains(options.CHECKPOINTING_INTERVAL)
    _prepare_caches(program, mode)
    # Built once without regard to a checkpoint, so that a wrong program is refused before storage is touched or claimed.
    build_job_graph(generate(program))
    check_supported(program, mode)
    dependencies = Dependencies.of(program)
    disk = DiskFolder(configuration.get(options.TMP_DIRS), "flinkish-job")
    engine = surroundings.make_engine(configuration, clock, ids)
    opened = False
    try:
        if dependencies.requirements is not None:
            dependencies = install(dependencies, configuration.get(options.PYTHON_EXECUTABLE), disk.path() / "packages")
        extend_driver_path(dependencies)
        if surroundings.job_id is not None:
            identity = recovery.Identity(job_id=surroundings.job_id, cluster=None)
        else:
            identity = recovery.identify(configuration, checkpointing=checkpointing, ids=ids)
        temporary = _TemporaryFolder(engine)
        new_lineage = LineageId(ids())

        def open_storage() -> CheckpointStorage:
            folder = surroundings.checkpoints or temporary.path()
            return recovery.open_storage(
                configuration, identity.job_id, lineage=new_lineage, clock=clock, ids=ids, temporary=folder
            )

        def open_claimed() -> CheckpointStorage:
            opened = open_storage()
            opened.claim()
            return opened

        def prepare(restored: StoredCheckpoint | None) -> JobSetup:
            """Plan the job. Raises what refuses the program: it does not fit the checkpoint, or a setting is wrong."""
            stream_graph = generate(program, recorded_max_parallelism=recovery.recorded_max_parallelism(restored))
            execution_plan = plan(build_job_graph(stream_graph))
            if restored is not None:
                ignore = configuration.get(options.SAVEPOINT_IGNORE_UNCLAIMED_STATE)
                recovery.check_fits(restored, execution_plan.job_graph, allow_unclaimed=ignore)
            spill = disk.path() / "spill" if is_batch(configuration) else None
            lineage = new_lineage if storage is None else storage.lineage
            return job_setup(execution_plan, configuration, identity.job_id, lineage, dependencies, spill)

        storage = open_storage() if checkpointing else None
        restored = recovery.find_checkpoint(configuration, storage)
        setup = prepare(restored)
        if storage is not None:
            # Last of all: from here on a process that runs this job is refused, so a program that is refused must not get here.
            storage.claim()
            before, restored = restored, recovery.find_checkpoint(configuration, storage)
            if _source_of(before) != _source_of(restored):  # that process has completed another one meanwhile
                setup = prepare(restored)
        cluster = identity.cluster
        released = threading.Event()
        job: list[EmbeddedJobClient] = []

        def on_released() -> None:
            temporary.remove()
            forget_packages(dependencies)
            disk.remove()
            released.set()
            _watch.released(job[0])

        job_master = JobMaster(
            setup,
            Environment(
                engine=engine,
                clock=clock,
                ids=ids,
                rng=random.Random(ids()),
                print_lines=print_lines,
                storage=storage,
                # As in Flink there are no savepoints of a batch: its tasks do not hold the same position of the input.
                open_storage=None if is_batch(configuration) else open_claimed,
                notes=_notes(configuration, identity.job_id, storage, clock),
                takers=surroundings.takers,
                retire=None if cluster is None else lambda: cluster.retire(identity.job_id),
                on_released=on_released,
            ),
            restored=restored,
        )
        opened = True
    finally:
        if not opened:
            engine.close()
            forget_packages(dependencies)
            disk.remove()
    client = EmbeddedJobClient(job_master, released, _watch.restore_if_idle)
    job.append(client)
    _watch.add(client)
    _log.info("Job %s (%s) is starting.", setup.job_name, setup.job_id)
    threading.Thread(target=job_master.run, name=f"{JOB_THREAD}{setup.job_id[:8]}", daemon=True).start()
    return client


def _source_of(checkpoint: StoredCheckpoint | None) -> tuple[Path, str] | None:
    return None if checkpoint is None else (checkpoint.root, checkpoint.manifest_path)


def _prepare_caches(program: Program, mode: RuntimeExecutionMode) -> None:
    """Give cached streams that are still empty a folder; it ends with this process, as they do."""
    parent = program.configuration.get(options.TMP_DIRS)
    for transformation in program.transformations.values():
        if isinstance(transformation, CacheTransformation):
            if mode is RuntimeExecutionMode.BATCH:
                transformation.cache.prepare(_caches.setdefault(parent, DiskFolder(parent, "flinkish-cache")).path)
            else:
                _log.warning("The program runs in streaming mode: what cache() was called on is computed, but not kept.")


def _notes(configuration: Configuration, job_id: str, storage: CheckpointStorage | None, clock: Clock) -> JobNotes | None:
    """Return where people find what happened: beside the checkpoints, if those have a folder that lasts."""
    directory = configuration.get(options.CHECKPOINTS_DIRECTORY)
    if storage is None or directory is None:
        return None
    from flinkish.checkpoint.history import JobHistory

    return JobHistory(directory, job_id, generation=storage.generation, clock=clock)


def print_lines(lines: tuple[str, ...]) -> None:
    """Print what print() sinks sent, in one go; raises PrintError if standard output is closed."""
    try:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        raise PrintError(f"standard output does not take any more lines: {error}") from error


class _TemporaryFolder:
    """Where checkpoints of a job without execution.checkpointing.dir are kept, for as long as it runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._path: Path | None = None

    def path(self) -> Path:
        if self._path is None:
            self._path = self._engine.scratch_root() / "checkpoints"
            self._path.mkdir(parents=True, exist_ok=True)
        return self._path

    def remove(self) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
