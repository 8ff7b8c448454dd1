"""Runs a whole job in virtual time: the test decides what its sources emit and when, and what happens to the job."""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from flinkish.common.clock import SystemClock
from flinkish.common.closing import Unwinding
from flinkish.common.completable_future import CompletableFuture
from flinkish.common.configuration import Configuration
from flinkish.common.engines import ENGINES
from flinkish.common.errors import CheckpointError, InvalidArgumentError, InvalidProgramError
from flinkish.common.ids import CheckpointId, random_id
from flinkish.common.job_execution_result import JobExecutionResult
from flinkish.common.job_status import JobStatus
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkish.engine import executor, launcher
from flinkish.engine.executor import create_engine, hold_shared
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.jobmaster.program_parts import listens_to_checkpoints
from flinkish.program import executor_loader
from flinkish.runtime import faults
from flinkish.testing import steps
from flinkish.testing.collecting_sink import CollectingSink
from flinkish.testing.scripted_source import ScriptedSource
from flinkish.testing.steps import CrashPoint
from flinkish.testing.virtual_clock import VirtualClock

__all__ = ["JobHarness", "SimulatedCrash"]

MadeT = TypeVar("MadeT")

#: Interval of events that should happen only when the test requests them.
_NEVER = "3650 d"


class SimulatedCrash(Unwinding):
    """Unwinds a job whose driver dies at a crash point; no code on the way may handle it as an error."""


class JobHarness:
    """Runs a program as a job, in virtual time, and lets the test say what happens.

    `program(env, job)` builds the job, each time that it is started: with sources from `job.source(name)`, sinks from
    `job.sink(name)`, and any others. It must not execute it. The job starts at once and then does nothing by itself: time stands
    still, sources give nothing. What the test says of sources is handed over together, in one epoch, as soon as it looks at an
    output, moves the time, takes a checkpoint, or calls `settle`.

    Both engines behave the same, also in time: the driver, whose clock is the test's, sends the time to the tasks. Only waits in
    user code (time.sleep, timeouts of asynchronous calls) take real time, on both engines.

    Unless `settings` or the program say otherwise, some settings differ from a job's defaults: checkpoints are on, but taken only
    by `checkpoint`; the first failure ends the job; sources that have nothing are not asked again by the clock.
    `timeout` is how many seconds of real time a step may take.

    Example:

        >>> from flinkish.common import Types, WatermarkStrategy
        >>> from flinkish.common.time import Time
        >>> from flinkish.datastream.window import TumblingEventTimeWindows
        >>> from flinkish.testing import CrashPoint, JobHarness
        >>> def program(env, job):
        ...     words = env.from_source(job.source("words", Types.STRING()), WatermarkStrategy.no_watermarks(), "words")
        ...     ones = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0])
        ...     windows = ones.window(TumblingEventTimeWindows.of(Time.seconds(10)))
        ...     windows.reduce(lambda a, b: (a[0], a[1] + b[1])).sink_to(job.sink("counts"))
        >>> with JobHarness(program, parallelism=2) as job:
        ...     words, counts = job.source("words"), job.sink("counts")
        ...     words.emit("be", 1_000)
        ...     words.emit("be", 2_000)
        ...     _ = job.checkpoint()
        ...     words.watermark(10_000)
        ...     counts.take_output()
        ...     job.crash(CrashPoint.AFTER_COMMIT)
        ...     job.restart(parallelism=3)
        ...     _ = job.finish()
        ...     counts.committed()
        [StreamRecord(value=('be', 2), timestamp=9999)]
        [StreamRecord(value=('be', 2), timestamp=9999)]
    """

    def __init__(
        self,
        program: Callable[[StreamExecutionEnvironment, JobHarness], object],
        *,
        engine: str = "local",
        parallelism: int = 1,
        max_parallelism: int = 128,
        settings: Mapping[str, Any] | None = None,
        start_time: int = 0,
        savepoint: str | None = None,
        timeout: float = 120.0,
    ) -> None:
        if engine not in ENGINES:
            raise InvalidArgumentError(f"engine must be {' or '.join(map(repr, ENGINES))}; got {engine!r}")
        self.parallelism = parallelism
        self._program = program
        self._engine = engine
        self._max_parallelism = max_parallelism
        self._settings = dict(settings or {})
        #: Maximum seconds of real time for a step.
        self.timeout = timeout
        self._savepoint = savepoint
        self._job_id = random_id()
        self._clock = VirtualClock(self._job_id, start_time)
        self._folder = Path(tempfile.mkdtemp(prefix="flinkish-job-harness-"))
        # The key that signs checkpoints of this harness; written without waiting for the disk.
        (self._folder / "key").touch(mode=0o600)
        (self._folder / "key").write_bytes(secrets.token_bytes(32))
        self._sources: dict[str, ScriptedSource] = {}
        self._sinks: dict[str, CollectingSink] = {}
        self._client: EmbeddedJobClient | None = None
        self._started = threading.Event()
        #: Whether the harness itself ends the job, which is not an end for the test.
        self._dying = False
        self._closed = False
        self._release_shared: Callable[[], None] = lambda: None
        try:
            # Kept for all starts of the job.
            self._release_shared = hold_shared(self._configuration())
            self._launch()
        except BaseException:
            self.close()
            raise

    def source(
        self, name: str, type_info: TypeInformation | None = None, *, splits: int = 1, bounded: bool = False
    ) -> ScriptedSource:
        """Return the source of that name. The first call, in the program, creates it; later calls need only the name.

        With a type, records are converted to it like those of from_collection. `bounded` only affects the runtime mode AUTOMATIC.
        """
        source = self._made("source", self._sources, name, lambda: ScriptedSource(name, type_info, splits, bounded))
        if not source.is_like(type_info, splits, bounded):
            raise InvalidArgumentError(f"source {name!r} was made with another type, number of splits or boundedness before")
        return source

    def sink(self, name: str) -> CollectingSink:
        """Return the sink of that name. The first call, in the program, creates it."""
        return self._made("sink", self._sinks, name, lambda: CollectingSink(name, self._settle_if_running))

    def _made(self, kind: str, known: dict[str, MadeT], name: str, make: Callable[[], MadeT]) -> MadeT:
        if name not in known:
            if self._started.is_set():
                raise InvalidArgumentError(f"the program has no {kind} {name!r}; it has {sorted(known)}")
            known[name] = make()
        return known[name]

    @property
    def client(self) -> EmbeddedJobClient:
        """The client of the last started run of the job: status, metrics, accumulators."""
        assert self._client is not None
        return self._client

    @property
    def processing_time(self) -> int:
        """The job's wall clock in milliseconds; it begins at `start_time`, which is 0 by default."""
        return self._clock.wall_time()

    def settle(self) -> None:
        """Pass the pending records of sources to the job, and wait until the job has nothing more to do at the current time.

        Raises JobExecutionError if the job has failed, and TimeoutError with the job's stack if it does not become idle.
        """
        if self._closed:
            raise InvalidArgumentError("the harness is closed")
        if not self._is_running():
            raise InvalidArgumentError("the job has ended", hint="restart(savepoint=path) starts it from a savepoint.")
        self._hand_over()

    def advance(self, milliseconds: int) -> None:
        """Advance processing time. Timers, checkpoints and ends of pauses that are due in between happen in order, at their time.

        At the new time one more epoch runs, in which sources check their idleness and periodic generators emit.
        """
        if milliseconds < 0:
            raise InvalidArgumentError(f"time cannot go back; got {milliseconds} ms")
        self.settle()
        target = self._clock.wall_time() + milliseconds
        while self._is_running():
            wanted = [self._clock.next_deadline(), *(source.resumes_at for source in self._sources.values())]
            due = min((time for time in wanted if time is not None and time <= target), default=None)
            if due is None:
                break
            self._clock.move_to(max(self._clock.wall_time(), due))
            self._hand_over()
        self._clock.move_to(target)
        if self._is_running():
            self._hand_over(epoch=True)

    def checkpoint(self) -> int:
        """Take a checkpoint after the pending records of sources; return its id.

        Raises CheckpointError if it does not complete, and InvalidArgumentError in batch mode, which has none.
        """
        self.settle()
        taken = self._trigger_checkpoint()
        self._settle()
        if not taken.done():
            raise CheckpointError(f"no checkpoint was taken: the job is {self.client.get_job_status().result().name}")
        completed = taken.result()
        if self._is_running() and listens_to_checkpoints(self.client.job_master.setup.plan.job_graph):
            self._hand_over(epoch=True)
        return completed

    def savepoint(self, directory: str | None = None) -> str:
        """Take a savepoint below `directory`, by default in a folder that is removed with the harness; return its path."""
        self.settle()
        path = self.client.trigger_savepoint(directory)
        self._settle()
        return path.result(0)

    def stop(self, *, drain: bool = False, directory: str | None = None) -> str:
        """Stop the job with a savepoint and return its path; `drain` ends all sources first, so that timers and windows fire."""
        self.settle()
        path = self.client.stop_with_savepoint(drain, directory)
        self._settle()
        return path.result(self.timeout)

    def crash(self, at: CrashPoint | None = None) -> None:
        """Let the driver's process die, and start the job again from its last checkpoint, if there is one.

        It dies at once, or at a point of a checkpoint that is taken for this purpose. Sources emit records after the last
        checkpoint again. The death is simulated: the job is unwound and writes nothing more, but user functions are closed.
        """
        self.settle()
        match at:
            case None:
                self._suspend("the test has it crash")
            case CrashPoint.DURING_RESTORE:
                self.checkpoint()
                self._suspend("the test has it crash")
                with faults.call_at(at.value, self._die):
                    self._launch()
            case _:
                self._crash_in_checkpoint(at)
        self._launch()

    def restart(self, *, parallelism: int | None = None, savepoint: str | None = None) -> None:
        """Stop the job if it has not failed, and start the program again from its last checkpoint, or from a savepoint.

        Sources emit records after that checkpoint again. The program is built again, at this or another parallelism. A job that
        has finished or was stopped can only be started from a savepoint.
        """
        if self._is_running():
            self.settle()
            if self._is_running():
                self._suspend("the test restarts it")
        elif savepoint is None and self.client.job_master.status is JobStatus.FINISHED:
            raise InvalidArgumentError("the job has finished", hint="restart(savepoint=path) starts it from a savepoint.")
        if parallelism is not None:
            self.parallelism = parallelism
        if savepoint is not None:
            self._savepoint = savepoint
            self._job_id = random_id()
            self._clock = VirtualClock(self._job_id, self._clock.wall_time())
        self._launch()

    def finish(self) -> JobExecutionResult:
        """Process the rest of the script, end all sources, wait until the job has ended, and return its result."""
        self.settle()
        for source in self._sources.values():
            source.end()
        if self._is_running():
            self._hand_over()
        if self._is_running():
            raise InvalidProgramError(
                "the job also has sources that are not those of the harness, and has not ended with the latter",
                hint="stop() ends any job; a pause of a source lasts until the time is moved by advance().",
            )
        return self.client.get_job_execution_result().result(self.timeout)

    def play(self, script: Iterable[steps.Step]) -> None:
        """Play the steps in order; steps such as `Emit` name their source. Raises InvalidArgumentError for `LoseHeap`."""
        for step in script:
            match step:
                case steps.Advance(milliseconds=milliseconds):
                    self.advance(milliseconds)
                case steps.Settle():
                    self.settle()
                case steps.TakeCheckpoint():
                    self.checkpoint()
                case steps.Crash(at=at):
                    self.crash(at)
                case steps.Restart(parallelism=parallelism):
                    self.restart(parallelism=parallelism)
                case steps.LoseHeap():
                    text = "LoseHeap is a step for the harness of an operator"
                    raise InvalidArgumentError(text, hint="Crash loses a whole job.")
                case _:
                    self.source(step.source).do(step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel the job if it runs, and remove its files."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._client is not None:
                self._client.job_master.cancel()
                self._await_end()
        finally:
            self._release_shared()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment(self._configuration())
        env.set_parallelism(self.parallelism)
        env.set_max_parallelism(self._max_parallelism)
        before = executor_loader.replace_executor(_Refusal())
        try:
            self._program(env, self)
        finally:
            executor_loader.replace_executor(before)
        self._dying = False
        self._started.clear()
        self._client = launcher.start(
            env._program("harness"),
            launcher.Surroundings(
                clock=self._clock,
                # The engine itself waits for processes and Spark, which takes real time.
                make_engine=lambda configuration, _, ids: create_engine(configuration, SystemClock(), ids),
                takers={sink.destination: sink.take for sink in self._sinks.values()},
                job_id=self._job_id,
                checkpoints=self._folder / "checkpoints",
            ),
        )
        self._client.job_master.result.add_done_callback(lambda _: self._clock.wake_test())
        self._started.set()
        self._settle()

    def _configuration(self) -> Configuration:
        settings = {
            "execution.engine": self._engine,
            "execution.checkpointing.interval": _NEVER,
            # Files are written in real time, which a job whose clock stands still does not notice.
            "execution.checkpointing.asynchronous": False,
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.checkpointing.savepoint-dir": self._folder / "savepoints",
            "execution.epoch.poll-interval": _NEVER,
            "execution.epoch.idle-interval": _NEVER,
            "execution.progress.interval": 0,
            "restart-strategy.type": "none",
            "security.checkpoint.hmac-key-file": self._folder / "key",
            **self._settings,
        }
        if self._savepoint is not None:
            settings["execution.state-recovery.path"] = self._savepoint
        return Configuration.from_dict({key: str(value) for key, value in settings.items()})

    def _is_running(self) -> bool:
        return self._client is not None and not self._client.job_master.result.done()

    def _settle_if_running(self) -> None:
        if self._is_running() and not self._closed:
            self._hand_over()

    def _hand_over(self, *, epoch: bool = False) -> None:
        """Pass the pending records of sources to the job, and settle; with `epoch`, an epoch runs in any case."""
        now = self._clock.wall_time()
        news = [source.release(now) for source in self._sources.values()]
        enumerators = [source.enumerator for source in self._sources.values() if source.enumerator is not None]
        if enumerators and (epoch or any(news)):

            def deliver(nothing: None, error: BaseException | None) -> None:
                # All at once, because records that sources get at one time must be in one epoch.
                for enumerator in enumerators:
                    enumerator.deliver(always=epoch)

            enumerators[0].context.call_async(lambda: None, deliver)
        self._settle()

    def _settle(self) -> None:
        result = self.client.job_master.result
        if not self._clock.settle(result.done, self.timeout):
            raise TimeoutError(f"the job has not come to rest within {self.timeout:g} s; it is at\n{self._stack()}")
        if result.done():
            self._await_end()
            error = result.exception()
            if error is not None and not self._dying:
                raise error

    def _stack(self) -> str:
        frames = sys._current_frames()
        jobs = [thread for thread in threading.enumerate() if thread.name == f"{launcher.JOB_THREAD}{self._job_id[:8]}"]
        return "".join(line for thread in jobs for line in traceback.format_stack(frames.get(thread.ident or 0)))

    def _await_end(self) -> None:
        """Wait for a job that has ended or is about to; this also restores the signal handlers."""
        with suppress(Exception):
            self.client.get_job_execution_result().result(self.timeout)

    def _suspend(self, why: str) -> None:
        self._dying = True
        self.client.job_master.cancel(suspend=True, why=why)
        self._await_end()

    def _die(self) -> None:
        """Unwind the job; called by the job's thread, perhaps before the test's thread knows that the job was started."""
        self._started.wait()
        self._dying = True
        self.client.job_master.cancel(suspend=True, why="the test has it crash")
        raise SimulatedCrash

    def _crash_in_checkpoint(self, at: CrashPoint) -> None:
        with faults.call_at(at.value, self._die):
            self._trigger_checkpoint()
            self._settle()
        if self._is_running():
            raise CheckpointError(f"the job did not come to {at.name}: the checkpoint was not taken, or failed before")

    def _trigger_checkpoint(self) -> CompletableFuture[CheckpointId]:
        if not self.client.job_master.setup.checkpointing:
            raise InvalidArgumentError("the job takes no checkpoints: it runs in batch mode, or its settings say so")
        return self.client.trigger_checkpoint()


class _Refusal:
    """Replaces the executor while the program under test is built."""

    def execute_async(self, program: Any) -> Any:
        raise InvalidProgramError(
            "the program under test called execute(); the harness runs it",
            hint="build the job in a function of its own, without execute(), and call that.",
        )

    execution_plan_json = staticmethod(executor.execution_plan_json)
    explain = staticmethod(executor.explain)
