"""Handlers of savepoints, checkpoints and stops: one starts the operation, another one returns its result.

As in Flink, a request for a job that does not run is accepted, and the result of the operation is a failure.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from flinkish.checkpoint import disposal
from flinkish.common.completable_future import CompletableFuture
from flinkish.common.errors import CheckpointError, InvalidArgumentError, JobNotFoundError
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.server.answers.operations import (
    CheckpointRequest,
    DisposalRequest,
    OperationResult,
    SavepointRequest,
    StopRequest,
    Triggered,
)
from flinkish.server.operations import OperationKey
from flinkish.server.rest.calls import HEX_ID, Call, RestError
from flinkish.server.state import ServerState

#: Kinds of operations. Clients request the result of a stop as if it were a savepoint.
SAVEPOINT, CHECKPOINT, DISPOSAL, DATA_SET = "savepoint", "checkpoint", "savepoint disposal", "data set"


def trigger_savepoint(state: ServerState, call: Call) -> Triggered:
    request = call.read(SavepointRequest)

    def begin() -> CompletableFuture[Any]:
        client = _running(state, call)
        future = client.trigger_savepoint(request.target_directory)
        if request.cancel_job:
            # As in Flink, the job continues if its savepoint fails.
            future.add_done_callback(lambda done: client.job_master.cancel() if done.exception() is None else None)
        return future

    return _start(state, call, SAVEPOINT, begin, request.triggerId, result="location")


def stop(state: ServerState, call: Call) -> Triggered:
    request = call.read(StopRequest)

    def begin() -> CompletableFuture[str]:
        return _running(state, call).stop_with_savepoint(request.drain, request.targetDirectory)

    return _start(state, call, SAVEPOINT, begin, request.triggerId, result="location")


def trigger_checkpoint(state: ServerState, call: Call) -> Triggered:
    trigger_id = call.read(CheckpointRequest).triggerId
    return _start(state, call, CHECKPOINT, lambda: _running(state, call).trigger_checkpoint(), trigger_id, result="checkpointId")


def dispose_savepoint(state: ServerState, call: Call) -> Triggered:
    path = call.read(DisposalRequest).savepoint_path
    if not path:
        raise RestError(400, "Field savepoint-path must not be omitted or be null.")

    def begin() -> CompletableFuture[None]:
        done: CompletableFuture[None] = CompletableFuture()
        # In a thread of its own, because there may be many files on slow storage.
        threading.Thread(target=_dispose, args=(state, path, done), name="flinkish-disposal", daemon=True).start()
        return done

    return _start(state, call, DISPOSAL, begin)


def _dispose(state: ServerState, path: str, done: CompletableFuture[None]) -> None:
    try:
        root = disposal.savepoint_root(path)
        job_id = _needing(state, root) if state.needing_savepoint is None else state.needing_savepoint(root)
        if job_id is not None:
            raise CheckpointError(
                f"the savepoint {path!r} is not deleted: job {job_id} was started from it and would restart from it",
                hint="wait for the first checkpoint of that job, or stop it.",
            )
        disposal.dispose(path)
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(None)


def _needing(state: ServerState, root: PurePath) -> str | None:
    """Return the id of a job of this process that would restart from the savepoint at `root` after a failure, or None."""
    for job in state.jobs.all():
        client = job.client
        needed = None if client is None else client.job_master.checkpoints.restore_point()
        if needed is not None and disposal.is_at(needed.root, root):
            return job.job_id
    return None


def delete_data_set(state: ServerState, call: Call) -> Triggered:
    data_set = call.id("datasetid")

    def begin() -> CompletableFuture[Any]:
        raise InvalidArgumentError(f"there is no data set {data_set} in the cluster: cached streams belong to their programs")

    return _start(state, call, DATA_SET, begin)


def result_of(kind: str) -> Callable[[ServerState, Call], OperationResult]:
    """Return a handler that answers with the result of an operation of a kind."""

    def handler(state: ServerState, call: Call) -> OperationResult:
        job_id, trigger_id = _job_id(call), call.id("triggerid")
        found = state.operations.result(OperationKey(kind, job_id, trigger_id))
        if found is None:
            raise RestError(404, f"There is no {kind} operation with triggerId={trigger_id}.")
        return found

    return handler


def _start(
    state: ServerState,
    call: Call,
    kind: str,
    begin: Callable[[], CompletableFuture[Any]],
    trigger_id: str | None = None,
    *,
    result: str | None = None,
) -> Triggered:
    if trigger_id is not None and not HEX_ID.fullmatch(trigger_id):
        raise RestError(400, f"triggerId must be 32 hexadecimal digits; got {trigger_id[:80]!r}.")
    key = OperationKey(kind, _job_id(call), trigger_id or secrets.token_hex(16))
    state.operations.start(key, begin, result)
    return Triggered(request_id=key.trigger_id)


def _job_id(call: Call) -> str | None:
    return call.id("jobid") if "jobid" in call.path else None


def _running(state: ServerState, call: Call) -> EmbeddedJobClient:
    job_id = call.id("jobid")
    job = state.jobs.get(job_id)
    if job is None or job.client is None:
        raise JobNotFoundError(f"could not find a running job {job_id}", hint="GET /jobs lists the jobs.")
    return job.client
