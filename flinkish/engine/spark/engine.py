"""The Spark engine: each attempt of a job is one Structured Streaming query."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from flinkish.common import notices, options, pickling
from flinkish.common.clock import Clock, SystemClock
from flinkish.common.closing import raised_by
from flinkish.common.configuration import Configuration
from flinkish.common.errors import CloseTimeoutError, EngineError
from flinkish.common.ids import IdSource, random_id
from flinkish.common.paths import hadoop_url
from flinkish.engine import dependencies
from flinkish.engine.scratch import CHECKPOINTS, DiskFolder, remove_made
from flinkish.engine.slots import hosts
from flinkish.engine.slots.messages import busy_file
from flinkish.engine.spark import shim, spark_settings
from flinkish.engine.spark.failures import LOST_EXECUTOR, hint_for, of_ended_jvm, summarize
from flinkish.engine.spark.jvm import watch
from flinkish.engine.spark.log_suppression import scheduler_is_idle, silence_shutdown, suppress_jvm_logs
from flinkish.engine.spark.native import Arrivals, NativeInput, native_inputs, positions, seed
from flinkish.engine.spark.query import ActionFailed, Ready, Rows, Turnstile, build, describe, slot_values
from flinkish.engine.spark.scratch import (
    check_cluster_settings,
    check_own_folders,
    make_own_folder,
    make_scratch_folder,
    uri_in_own,
    url_in_jvm,
)
from flinkish.engine.spark.session import HeldSession, hold_session, job_session, list_query, release_session, workers_like_driver
from flinkish.engine.spark.spark_settings import SparkSettings
from flinkish.jobmaster.epochs import EpochLoop
from flinkish.runtime.protocol import EpochReport, TaskProgram

_log = logging.getLogger(__name__)

_SLOT_TASK = "flinkish.runtime.slot:hosted"
#: The folder in an executor's working folder to which Spark unpacks the program's own modules.
_OWN_MODULES = "flinkish-program"
#: Archives of Python files that Spark sends: they must be there as long as the session, which may be the user's.
_SENT_FILES = DiskFolder(None, "flinkish-sent")
#: Seconds between two checks that the query and the JVM are alive, while no event arrives.
_LOOK_S = 0.5
_POLL_S = 0.002
_STOP_TIMEOUT_MS = 8_000
#: Spark kills the worker of a cancelled task after 2 s.
_TASKS_TIMEOUT_MS = 3_000
#: The scheduler forgets a task a moment before it logs its end.
_TASK_LOG_S = 0.2
_SCHEDULER_TIMEOUT_MS = 2_000
#: Seconds between two checks whether an epoch has begun; a host ends after ten minutes without a call or a touched program file.
_SIGN_OF_LIFE_S = 60.0
#: Spark's message for a job when the JVM has begun to shut down, which takes some time.
_SHUT_DOWN = "SparkContext was shut down"
_JVM_SHUTDOWN_MS = 10_000
#: Time that a JVM may take to end after its connection broke.
_JVM_END_MS = 2_000
#: Time that slot hosts get to close user functions before they are killed, because a cancellation must be over within 10 s. At
#: the normal end of a job, functions are closed in its last epoch.
_HOST_GRACE_MS = 3_000


class SparkEngine:
    """Runs attempts in the user's running Spark session, or in one that is created when needed and stopped by `close`.

    `task` names the class that slot hosts run (tests give another).
    """

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        clock: Clock | None = None,
        ids: IdSource = random_id,
        task: str = _SLOT_TASK,
    ) -> None:
        self._settings = SparkSettings.of(configuration)
        self._clock = clock or SystemClock()
        self._ids = ids
        self._task = task
        self._held: HeldSession | None = None
        #: Read by any thread.
        self._attempt: _Attempt | None = None
        self._scratch_root: Path | None = None
        #: The driver's folder of those that its JVM and the executors have in their working folders, if none is shared.
        self._own_folders: Path | None = None
        self._attempts = 0
        #: The session whose executors were sent Python files and modules, and the entries of sys.path; see `_send`.
        self._sent: tuple[HeldSession | None, tuple[str, ...]] = None, ()
        self._end_watch: Callable[[], None] = lambda: None

    def run_attempt(self, program: TaskProgram, loop: EpochLoop) -> None:
        """Run epochs until the loop ends, or `interrupt` is called; see `Engine.run_attempt`."""
        held = self._session()
        speculation = held.setting("spark.speculation", "false") == "true"
        check_cluster_settings(held.master, self._settings.scratch_dir, speculation=speculation)
        own = None
        if not spark_settings.is_one_machine(held.master) and self._settings.scratch_dir is None:
            temporary = program.configuration.get(options.CHECKPOINTS_DIRECTORY) is None
            check_own_folders(program, temporary_checkpoints=temporary and (self.scratch_root() / CHECKPOINTS).exists())
            self._attempts += 1
            if self._own_folders is None:
                self._own_folders = make_own_folder(hosts.working_folder(held.jvm))
            own = self._own_folders / str(self._attempts)
        needed = program.dependencies
        sent = self._send(held, () if own is None else needed.python_files, needed.own_modules)
        self._attempt = _Attempt(
            held,
            program,
            loop,
            key=self._ids(),
            task=self._task,
            clock=self._clock,
            close_timeout=self._settings.close_timeout,
            own=own,
            sent=sent,
        )
        try:
            self._attempt.run()
        finally:
            self._attempt = None

    def interrupt(self) -> None:
        """Make the running attempt end: its action is cancelled; without an action, it ends at the next micro-batch."""
        attempt = self._attempt
        if attempt is not None:
            attempt.interrupt()

    def busy_operators(self) -> Sequence[str]:
        """Return the operators that the slot hosts name; none if executors share no folder with the driver."""
        attempt = self._attempt
        return () if attempt is None else attempt.busy_operators()

    def scratch_root(self) -> Path:
        """Return this engine's own folder; the first call creates it and removes the folders of killed processes."""
        if self._scratch_root is None:
            self._scratch_root = make_scratch_folder(self._settings.scratch_dir)
        return self._scratch_root

    def close(self) -> None:
        """Stop the session if it was made here, and remove the scratch root."""
        self._end_watch()
        if self._held is not None:
            release_session(self._held)
            self._held = None
        for folder in (self._scratch_root, self._own_folders):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        self._scratch_root = self._own_folders = None

    def _session(self) -> HeldSession:
        if self._held is not None and not self._held.answers():
            # Its JVM may be about to end; only after that can another one be started.
            self._held.await_end(_JVM_SHUTDOWN_MS)
            release_session(self._held)
            self._held = None
        if self._held is None:
            self._held = hold_session(self._settings)
            page = self._held.session.sparkContext.uiWebUrl
            if page is not None:
                notices.tell(f"Spark's page: {page} (its input and process rates count rows inside flinkish, not your records)")
            if "PYSPARK_GATEWAY_PORT" in os.environ:
                silence_shutdown(self._held.session.sparkContext._gateway)
                self._end_watch = watch(self._held.jvm, self._clean_up_after_jvm)
        return self._held

    def _send(self, held: HeldSession, files: tuple[str, ...], modules: str | None) -> tuple[str, ...]:
        """Have Spark unpack Python files and the program's own modules on other machines, also for executors that come later.

        Returns the entries of sys.path, relative to the executors' working folders: the files come first, as if they were staged,
        then the modules, as on the driver. The job's folders are removed with it, but executors that come later, for other jobs,
        get the files as well.
        """
        if spark_settings.is_one_machine(held.master):
            return ()
        if self._sent[0] is not held:
            context, entries = held.session.sparkContext, list[str]()
            if files:
                name = f"flinkish-files-{self._ids()}"
                archive = _SENT_FILES.path() / f"{name}.zip"
                entries += [f"{name}/{entry}" for entry in dependencies.pack_python_files(files, archive)]
                context.addArchive(f"{archive.as_uri()}#{name}")
            if modules is not None:
                context.addArchive(f"{Path(modules).resolve().as_uri()}#{_OWN_MODULES}")
                entries.append(_OWN_MODULES)
            self._sent = held, tuple(entries)
        return self._sent[1]

    def _clean_up_after_jvm(self) -> None:
        attempt = self._attempt
        if attempt is not None:
            attempt.clean_up(grace_ms=1_000)
        remove_made()


@dataclass(eq=False)
class _Attempt:
    """One query: started, fed with commands epoch by epoch, stopped."""

    held: HeldSession
    program: TaskProgram
    loop: EpochLoop
    _: KW_ONLY
    key: str
    task: str
    clock: Clock
    close_timeout: int
    #: The driver's folder of the attempt if executors share none with it; theirs have the same name, and that of its parent.
    own: Path | None = None
    sent: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._interrupted = threading.Event()
        self._in_action = False
        self._cut_short = False
        self._lock = threading.Lock()
        self._hushed = False
        self._unhush = contextlib.ExitStack()
        self._query: StreamingQuery | None = None
        #: Takes the query off the list of the user's session.
        self._unlist: Callable[[], None] = lambda: None
        self._program_file = self.program.scratch / "program"
        self._turnstile = Turnstile(self.program.scratch if self.own is None else None)
        self._epochs = 0
        self._over = threading.Event()
        self._folder = (self.program.scratch if self.own is None else self.own) / "spark"
        self._inputs: tuple[NativeInput, ...] = ()

    def run(self) -> None:
        """Run until the loop ends or an interrupt; raises EngineError."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._unhush.close)
            stack.callback(self._await_scheduler)
            stack.callback(self._clean_up_after_tasks)
            stack.callback(self.clean_up, grace_ms=_HOST_GRACE_MS)
            stack.callback(self._stop)
            try:
                self._start()
                stack.callback(self._over.set)
                threading.Thread(target=self._show_life, name="flinkish-sign-of-life", daemon=True).start()
                self._run_epochs()
            except (Py4JError, ConnectionError) as error:
                raise self._error("Spark did not answer", error) from error

    def interrupt(self) -> None:
        """Make `run` end; called by another thread."""
        self._interrupted.set()
        self._cancel_action()

    def busy_operators(self) -> Sequence[str]:
        files = busy_file(str(self._program_file), "*")
        names = set()
        for file in files.parent.glob(files.name):
            with contextlib.suppress(OSError):
                names.add(file.read_text())
        return sorted(names - {""})

    def _hush(self) -> None:
        """Keep the JVM quiet until the attempt has ended."""
        with self._lock:
            if not self._hushed:
                self._hushed = True
                self._unhush.enter_context(suppress_jvm_logs(self.held.session.sparkContext._jvm))

    def clean_up(self, *, grace_ms: int) -> None:
        """End the slot hosts and remove the scratch folder."""
        self._end_hosts(grace_ms)
        self.program.remove_folders()
        if self.own is not None:
            shutil.rmtree(self.own, ignore_errors=True)

    def _end_hosts(self, grace_ms: int) -> None:
        self._program_file.unlink(missing_ok=True)  # from now on no shim starts a host, and hosts on other machines end
        hosts.close_hosts(self.program.attempt_id, grace_ms=grace_ms)

    def _start(self) -> None:
        program = self.program
        program.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        one_machine = spark_settings.is_one_machine(self.held.master)
        work = None
        if self.own is None:
            work = dependencies.stage(program.dependencies, program.scratch, copy=not one_machine)
        config = hosts.HostConfig(
            attempt_id=program.attempt_id,
            key=self.key,
            program_file=str(self._program_file),
            one_machine=one_machine and self.own is None,
            task=self.task,
            slot_values=slot_values(program.plan.slots),
            path=tuple(sys.path) if one_machine else (),
            sent=self.sent,
            python=dependencies.interpreter(program.configuration.get(options.PYTHON_EXECUTABLE), work),
            uses_arrow=program.uses_arrow,
        )
        dumped = pickling.dump_program(program)
        self._program_file.write_bytes(dumped)
        if self.own is not None:
            own = hosts.OwnFolder(name=self.own.parent.name, attempt=int(self.own.name), program=dumped)
            config = replace(config, own_folder=own)
        try:
            self._inputs = inputs = native_inputs(program.plan)
            users = inputs[0].frame.sparkSession if inputs else None
            session = job_session(self.held, program.plan.slots, users)
            starts = self.loop.native_starts() if inputs else {}
            if starts:
                self._write(self._rows(session, config, idle=True)).format("noop").trigger(availableNow=True).queryName(
                    f"{program.job_name}: positions of its sources"
                ).start().awaitTermination()
                seed(self._folder, inputs, starts)
            rows = self._rows(session, config, inputs)
            self._query = self._write(rows).foreachBatch(self._turnstile).queryName(program.job_name).start()
            self._unlist = list_query(users or self.held.session, self._query)
            if inputs:
                arrivals = Arrivals(self._query, session.sparkContext._jvm)
                self._turnstile.look = arrivals, self.loop.native_arrived
        except EngineError:
            raise
        except Exception as error:
            raise self._error("The Spark query did not start", error) from error

    def _rows(
        self, session: SparkSession, config: hosts.HostConfig, inputs: Sequence[NativeInput] = (), *, idle: bool = False
    ) -> DataFrame:
        with workers_like_driver(session.sparkContext):
            in_place = not spark_settings.is_one_machine(self.held.master)
            return build(session, config, len(self.program.plan.levels), inputs, in_place=in_place, idle=idle)

    def _write(self, rows: DataFrame) -> DataStreamWriter:
        if self.own is not None:
            place = uri_in_own(self.own.parent, self._folder)
        elif spark_settings.is_local(self.held.master):
            place = url_in_jvm(self.held.session.sparkContext, self._folder.resolve())
        else:
            place = hadoop_url(self._folder.resolve())
        return rows.writeStream.outputMode("append").option("checkpointLocation", place)

    def _run_epochs(self) -> None:
        while True:
            ready = self._await(Ready)
            if self._interrupted.is_set():
                return
            if self._inputs:
                assert isinstance(ready, Ready)
                self.loop.native_reads(positions(self._folder, ready.batch_id, self._inputs))
            command = self.loop.begin_epoch()
            if command is None or self._interrupted.is_set():
                return
            self._epochs += 1
            self._in_action = True
            self._turnstile.send(pickling.dumps(command), describe(self.program.job_name, command))
            event = self._await(Rows, ActionFailed, limit=self.close_timeout if command.farewell else 0)
            self._in_action = False
            match event:
                case Rows(rows=rows):
                    reports = self._reports(rows)
                    self._check_stages()
                    self.loop.finish_epoch(reports)
                    if self.loop.over:
                        return  # without waiting for one more micro-batch
                case ActionFailed(error=error):
                    self._cut_short = True
                    if self._interrupted.is_set():
                        return
                    raise self._error(f"Epoch {command.epoch} failed on Spark", error) from error
                case _:
                    raise AssertionError(event)

    def _show_life(self) -> None:
        """Touch the program file while no epoch begins, because one takes long, or the driver is busy between two.

        So a host without calls knows that the attempt continues. If epochs do begin and a host still has no calls, its slot has
        moved to another executor, and the host must end.
        """
        seen = -1
        while not self._over.wait(_SIGN_OF_LIFE_S):
            if self._epochs == seen:
                with contextlib.suppress(OSError):
                    os.utime(self._program_file)
            seen = self._epochs

    def _await(self, *kinds: type[Ready] | type[Rows] | type[ActionFailed], limit: int = 0) -> Ready | Rows | ActionFailed:
        """Wait for the next event from the query; `limit` is the maximum duration of the last epoch of a job in milliseconds."""
        began = self.clock.monotonic()
        overdue = False
        while True:
            try:
                event = self._turnstile.events.get(timeout=_LOOK_S)
            except queue.Empty:
                self._look()
                overdue = overdue or (bool(limit) and self.clock.monotonic() - began > limit)
                if overdue:
                    self._cancel_action()
                continue
            assert isinstance(event, kinds), f"expected {kinds}, got {event}"
            if overdue and isinstance(event, ActionFailed):
                self._cut_short = True
                raise CloseTimeoutError(
                    f"close() of a user function, sink or reader has not returned within {limit} ms at the end of the job.",
                    hint=f"{options.TASK_CANCELLATION_TIMEOUT.key} says how long it may take; 0 is without limit.",
                )
            return event

    def _look(self) -> None:
        """Raise if no event can arrive any more; cancel again if the interrupt came before the action had begun."""
        if not self.held.jvm.is_alive():
            raise self._jvm_gone("The epoch did not end")
        query = self._query
        assert query is not None
        if not query.isActive:
            failure = query.exception()
            raise self._error("The Spark query ended by itself", failure or RuntimeError("without an error"))
        if self._interrupted.is_set():
            self._cancel_action()

    def _cancel_action(self) -> None:
        query = self._query
        if query is not None and self._in_action:
            self._hush()
            with contextlib.suppress(Exception):
                self.held.session.sparkContext.cancelJobGroup(str(query.runId))

    def _reports(self, rows: list[tuple[int, int, bytes]]) -> list[EpochReport]:
        defects = [body.decode() for _, kind, body in rows if kind == shim.DEFECT]
        if defects:
            raise EngineError(f"A slot host failed within flinkish itself:\n{defects[0]}", hint="please report this.")
        return [pickling.loads(body) for _, _, body in rows]

    def _check_stages(self) -> None:
        """Fail the attempt if a stage was run again after a lost executor.

        A rerun of level k may order its output differently, but some slots of level k + 1 may already have read the first output.
        So the job recovers from the last checkpoint. With a local master, no stage is run again.
        """
        query = self._query
        if spark_settings.is_local(self.held.master) or query is None:
            return
        tracker = self.held.session.sparkContext.statusTracker()
        jobs = tracker.getJobIdsForGroup(str(query.runId))
        info = tracker.getJobInfo(max(jobs)) if jobs else None
        stages = [tracker.getStageInfo(stage) for stage in (info.stageIds if info else ())]
        if any(stage is not None and stage.currentAttemptId > 0 for stage in stages):
            raise EngineError(f"{LOST_EXECUTOR}, and a part of it was run again.", hint=hint_for(LOST_EXECUTOR))

    def _error(self, what: str, error: BaseException) -> EngineError:
        broken = isinstance(error, ConnectionError) or (isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError))
        if broken or _SHUT_DOWN in str(error):
            # The JVM is ending, and closes its sockets a moment before it counts as ended.
            self._wait_until(lambda: False, _JVM_END_MS if broken else _JVM_SHUTDOWN_MS)
        if not self.held.jvm.is_alive():
            return self._jvm_gone(what)
        text = str(error)
        return EngineError(f"{what}: {summarize(text)}", hint=hint_for(text))

    def _jvm_gone(self, what: str) -> EngineError:
        return of_ended_jvm(what, self.held.jvm.pid, self.held.await_end(_JVM_END_MS))

    def _stop(self) -> None:
        """Stop the query without messages; release a waiting callback once the query has ended.

        Spark fails with a StackOverflowError if `query.stop()` is called while an action runs, or if a callback is released into
        an action while the query stops.
        """
        query = self._query
        if query is None or not self.held.jvm.is_alive():
            self._turnstile.release()
            return
        self._turnstile.look = None
        self._hush()
        stopper = threading.Thread(target=raised_by, args=(query.stop,), name="flinkish-stop", daemon=True)
        stopper.start()
        try:
            if not self._in_action and not self._cut_short:
                self._end_hosts(_HOST_GRACE_MS)  # no task calls them any longer: they end at the same time as the query
            self._wait_until(lambda: not query.isActive, _STOP_TIMEOUT_MS)
        finally:
            self._turnstile.release()
        stopper.join(_STOP_TIMEOUT_MS / 1000)
        self._unlist()
        if stopper.is_alive():
            _log.warning("The Spark query %s has not ended %d ms after it was stopped.", query.name, _STOP_TIMEOUT_MS)

    def _clean_up_after_tasks(self) -> None:
        """Wait until the tasks of a cancelled action have ended, and remove files that late tasks created.

        Each task logs a stack trace at its end, which must be suppressed. The wait is limited, as other jobs may run tasks, too.
        """
        if not self._cut_short or not self.held.jvm.is_alive():
            return
        jsc: Any = self.held.session.sparkContext._jsc
        self._wait_until(
            lambda: not any(executor.numRunningTasks() for executor in jsc.sc().statusTracker().getExecutorInfos()),
            _TASKS_TIMEOUT_MS,
        )
        threading.Event().wait(_TASK_LOG_S)
        self.clean_up(grace_ms=0)

    def _await_scheduler(self) -> None:
        """Wait until Spark has handled that the query was stopped; only then may the JVM write messages again.

        The wait is limited, as other jobs may keep Spark's scheduler busy.
        """
        if self._hushed:
            self._wait_until(lambda: scheduler_is_idle(self.held.session.sparkContext), _SCHEDULER_TIMEOUT_MS)

    def _wait_until(self, condition: Callable[[], bool], timeout_ms: int) -> None:
        """Wait until a condition holds or cannot be checked any more, such as when the JVM has ended."""
        deadline = self.clock.monotonic() + timeout_ms
        pause = threading.Event()

        def over() -> bool:
            with contextlib.suppress(Exception):
                return condition()
            return True

        while not over() and self.held.jvm.is_alive() and self.clock.monotonic() < deadline:
            pause.wait(_POLL_S)
