"""`flinkish list`, `cancel`, `stop`, `savepoint`, `checkpoint`: commands about jobs, with the options and output of Flink's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from flinkish.cli.client import ENDED, RefusedError, RestClient, check_job_id, unknown_job, wait_for
from flinkish.cli.connection import Connection, Progress, with_server, with_timeout
from flinkish.cli.tables import duration_text, print_table, restarts_text, time_text
from flinkish.common.errors import InvalidArgumentError, ServerError

_SCHEDULED = frozenset({"INITIALIZING", "CREATED"})
_FORMATS = click.Choice(["canonical", "native"], case_sensitive=False)

_job_argument = click.argument("job", metavar="JOB_ID")
_form_option = click.option(
    "-type", "--type", "form", type=_FORMATS, default="canonical", help="Flink's format; both are the same here."
)
_detached_option = click.option(
    "-detached", "--detached", "detached", is_flag=True, help="Do not wait for the savepoint; print the trigger id."
)


@click.command("list")
@click.option("-a", "--all", "everything", is_flag=True, help="Also show the jobs that have ended.")
@click.option("-r", "--running", is_flag=True, help="Show only running and restarting jobs.")
@click.option("-s", "--scheduled", is_flag=True, help="Show only jobs that have not started yet.")
@with_server
def list_jobs(connection: Connection, *, everything: bool, running: bool, scheduled: bool) -> None:
    """List the jobs of a server with their ids.

    \b
    flinkish list                       running and scheduled jobs of localhost:8081
    flinkish list -a -m host:8081       also those that have ended
    """
    jobs = sorted(connection.client.get("/jobs/overview")["jobs"], key=lambda job: job["start-time"])
    default = not (running or scheduled)
    parts = {"running": running or default, "scheduled": scheduled or default, "terminated": everything}
    titles = {"running": "Running/Restarting Jobs", "scheduled": "Scheduled Jobs", "terminated": "Terminated Jobs"}
    for part, wanted in parts.items():
        chosen = [job for job in jobs if part_of(job["state"]) == part]
        if wanted and chosen:
            click.echo(f" {titles[part]} ".center(62, "-"))
            print_jobs(connection.client, chosen)
        elif wanted:
            click.echo(f"No {part} jobs.")


def part_of(state: str) -> str:
    """Return the section in which Flink's command line lists a job in this state."""
    return "scheduled" if state in _SCHEDULED else "terminated" if state in ENDED else "running"


def print_jobs(client: RestClient, jobs: Sequence[Mapping[str, Any]]) -> None:
    rows = []
    for job in jobs:
        tasks = job["tasks"]
        runs = part_of(job["state"]) == "running"
        rows.append(
            [
                job["jid"],
                job["state"],
                job["name"],
                time_text(job["start-time"]),
                duration_text(job["duration"]),
                f"{tasks['running']}/{tasks['total']}" if runs else str(tasks["total"]),
                *([_last_checkpoint(client, job)] if runs else []),
            ]
        )
    columns = ["JOB ID", "STATE", "NAME", "START", "DURATION", "TASKS", "LAST CHECKPOINT"]
    print_table(columns[: len(rows[0])], rows, whole="JOB ID")
    for job in jobs:
        if "restarts" in job:
            click.echo(f"{job['jid']}: {restarts_text(job['restarts'])}")


def _last_checkpoint(client: RestClient, job: Mapping[str, Any]) -> str:
    try:
        latest = client.get(f"/jobs/{job['jid']}/checkpoints")["latest"]
        times = {
            each["latest_ack_timestamp"]: each["id"] for each in (latest["completed"], latest["savepoint"]) if each is not None
        }
    except (ServerError, KeyError, TypeError):  # the job has just ended, or takes no checkpoints
        return "-"
    if not times:
        return "none yet"
    now, newest = job["start-time"] + job["duration"], max(times)
    return f"{times[newest]}, {duration_text(now - newest)} ago"


@click.command()
@click.option("--stdout", "output", is_flag=True, help="Print the standard output of the job's driver instead.")
@click.argument("job", metavar="JOB")
@with_server
def logs(connection: Connection, *, job: str, output: bool) -> None:
    """Print the end of the log of a job's driver, also after the end of the job. JOB is the job's id or its name.

    \b
    flinkish logs JOB_ID
    flinkish logs --stdout "flight delays"
    """
    client = connection.client
    job_id = _id_of(client, job)
    known = {each["name"] for each in client.get("/jobmanager/logs")["logs"]}
    name = f"driver-{job_id}.{'out' if output else 'log'}"
    if name not in known and not any(each["id"] == job_id for each in client.get("/jobs")["jobs"]):
        raise unknown_job(client, job_id)
    # A server that does not know it by its name is the job's own.
    click.echo(
        client.text(f"/jobmanager/logs/{name}" if name in known else f"/jobmanager/{'stdout' if output else 'log'}"), nl=False
    )


def _id_of(client: RestClient, job: str) -> str:
    """Return the id of a job that is given by its name or its id; raises InvalidArgumentError if several jobs have the name."""
    found = [each["jid"] for each in client.get("/jobs/overview")["jobs"] if each["name"] == job]
    if len(found) > 1:
        raise InvalidArgumentError(f"several jobs are called {job!r}: {', '.join(found)}", hint="give the id of one of them.")
    return str(found[0]) if found else check_job_id(job)


@click.command()
@click.option(
    "-s",
    "--withSavepoint",
    "savepoint",
    is_flag=False,
    flag_value="",
    metavar="[DIRECTORY]",
    help="Take a savepoint first, below DIRECTORY or execution.checkpointing.savepoint-dir. Deprecated: use `flinkish stop`.",
)
@click.argument("job", metavar="JOB_ID", required=False)
@with_timeout
@with_server
def cancel(connection: Connection, *, job: str | None, savepoint: str | None) -> None:
    """Cancel a job.

    \b
    flinkish cancel JOB_ID
    flinkish cancel -s /savepoints JOB_ID
    """
    if savepoint and job is None:  # as in Flink: if -s is followed by one argument only, it is the job id
        savepoint, job = "", savepoint
    if job is None:
        raise InvalidArgumentError("Missing JobID. Specify a JobID to cancel a job.", hint="`flinkish list` prints the ids.")
    job_id = check_job_id(job)
    if savepoint is None:
        click.echo(f"Cancelling job {job_id}.")
        _cancel(connection.client, job_id)
        click.echo(f"Cancelled job {job_id}.")
        return
    place = f"to {savepoint}" if savepoint else "to the default savepoint directory"
    click.echo('DEPRECATION WARNING: Cancelling a job with savepoint is deprecated. Use "stop" instead.', err=True)
    click.echo(f"Cancelling job {job_id} with a savepoint {place}.")
    body = {"target-directory": savepoint or None, "cancel-job": True, "formatType": "CANONICAL"}
    result = _operation(connection, job_id, "savepoints", body, what=f"the savepoint of job {job_id}")
    click.echo(f"Cancelled job {job_id}. Savepoint stored in {result['location']}.")


def _cancel(client: RestClient, job_id: str) -> None:
    try:
        client.patch(f"/jobs/{job_id}?mode=cancel")
    except RefusedError as error:
        if error.status == 404:
            raise unknown_job(client, job_id) from None
        if error.status == 409:
            raise ServerError(f"job {job_id} has already ended: {error.text}") from None
        raise


@click.command()
@click.option(
    "-d", "--drain", is_flag=True, help="Let event time end first, so that all timers fire and all windows are complete."
)
@click.option("-p", "--savepointPath", "directory", metavar="DIRECTORY", help="Folder for the savepoint.")
@_form_option
@_detached_option
@_job_argument
@with_timeout
@with_server
def stop(connection: Connection, *, job: str, directory: str | None, drain: bool, form: str, detached: bool) -> None:
    """Stop a job with a savepoint, from which `flinkish run -s PATH` resumes it.

    \b
    flinkish stop JOB_ID                                    savepoint below execution.checkpointing.savepoint-dir
    flinkish stop --drain -p s3://bucket/savepoints JOB_ID  ends event time first
    """
    job_id = check_job_id(job)
    click.echo(f'{"Draining" if drain else "Suspending"} job "{job_id}" with a {form.upper()} savepoint.')
    body = {"targetDirectory": directory, "drain": drain, "formatType": form.upper()}
    if detached:
        click.echo(f"Triggering stop-with-savepoint in detached mode for job {job_id}.")
        trigger_id = _trigger(connection.client, job_id, "stop", body)
        click.echo(f"Successfully trigger stop-with-savepoint in detached mode, triggerId: {trigger_id}")
        return
    click.echo(f"Triggering stop-with-savepoint for job {job_id}.")
    result = _operation(connection, job_id, "stop", body, what=f"the stop of job {job_id}", read="savepoints")
    click.echo(f"Savepoint completed. Path: {result['location']}")


@click.command()
@click.option("-d", "--dispose", metavar="PATH", help="Delete the savepoint PATH instead.")
@_form_option
@_detached_option
@click.argument("job", metavar="[JOB_ID", required=False)
@click.argument("directory", metavar="[DIRECTORY]]", required=False)
@with_timeout
@with_server
def savepoint(
    connection: Connection, *, dispose: str | None, job: str | None, directory: str | None, form: str, detached: bool
) -> None:
    """Take a savepoint of a job, which continues; or delete a savepoint.

    \b
    flinkish savepoint JOB_ID                       below execution.checkpointing.savepoint-dir
    flinkish savepoint JOB_ID s3://bucket/folder
    flinkish savepoint -d /savepoints/savepoint-1b2c3d-0123456789ab
    """
    if dispose is not None:
        if job is not None:
            raise InvalidArgumentError(f"flinkish savepoint -d {dispose} takes no job; got {job!r}")
        click.echo(f"Disposing savepoint '{dispose}'.")
        trigger_id = connection.client.post("/savepoint-disposal", {"savepoint-path": dispose})["request-id"]
        _wait(connection, f"/savepoint-disposal/{trigger_id}", f"the disposal of {dispose}")
        click.echo(f"Savepoint '{dispose}' disposed.")
        return
    if job is None:
        raise InvalidArgumentError(
            "Missing JobID. Specify a Job ID to trigger a savepoint.", hint="`flinkish list` prints the ids."
        )
    job_id = check_job_id(job)
    body = {"target-directory": directory, "cancel-job": False, "formatType": form.upper()}
    if detached:
        click.echo(f"Triggering savepoint in detached mode for job {job_id}.")
        click.echo(f"Successfully trigger manual savepoint, triggerId: {_trigger(connection.client, job_id, 'savepoints', body)}")
        return
    click.echo(f"Triggering savepoint for job {job_id}.")
    result = _operation(connection, job_id, "savepoints", body, what=f"the savepoint of job {job_id}")
    click.echo(f"Savepoint completed. Path: {result['location']}")
    click.echo("You can resume your program from this savepoint with the run command.")


@click.command()
@click.option("-full", "--full", "full", is_flag=True, help="Take a full checkpoint, also if checkpoints are incremental.")
@_job_argument
@with_timeout
@with_server
def checkpoint(connection: Connection, *, job: str, full: bool) -> None:
    """Take a checkpoint of a job now.

    \b
    flinkish checkpoint JOB_ID
    """
    job_id = check_job_id(job)
    click.echo(f"Triggering checkpoint for job {job_id}.")
    body = {"checkpointType": "FULL" if full else "CONFIGURED"}
    result = _operation(connection, job_id, "checkpoints", body, what=f"the checkpoint of job {job_id}")
    click.echo(f"Checkpoint{'(FULL)' if full else ''} {result['checkpointId']} for job {job_id} completed.")
    click.echo("You can resume your program from this checkpoint with the run command.")


def _trigger(client: RestClient, job_id: str, path: str, body: Mapping[str, Any]) -> str:
    """Start an operation on a job and return its id.

    Raises JobNotFoundError or ServerError for a job that is unknown or has ended; the server would accept the request, and only
    its result would fail.
    """
    state = next((job["state"] for job in client.get("/jobs/overview")["jobs"] if job["jid"] == job_id), None)
    if state is None:
        raise unknown_job(client, job_id)
    if state in ENDED:
        raise ServerError(f"job {job_id} has already ended: it is {state}")
    return str(client.post(f"/jobs/{job_id}/{path}", body)["request-id"])


def _operation(
    connection: Connection, job_id: str, path: str, body: Mapping[str, Any], *, what: str, read: str | None = None
) -> Mapping[str, Any]:
    """Start an operation on a job, wait for it and return its result; raises CheckpointError if it fails."""
    trigger_id = _trigger(connection.client, job_id, path, body)
    return _wait(connection, f"/jobs/{job_id}/{read or path}/{trigger_id}", what)


def _wait(connection: Connection, path: str, what: str) -> Mapping[str, Any]:
    return wait_for(connection.client, path, what=what, timeout=connection.timeout, progress=Progress(what[0].upper() + what[1:]))
