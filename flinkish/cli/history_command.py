"""`flinkish history`: jobs that have ended, from a server or from the history tables below a checkpoint directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from flinkish.cli.client import RefusedError, RestClient, check_job_id, unknown_job
from flinkish.cli.connection import connect, errors_printed, server_options
from flinkish.cli.job_commands import part_of
from flinkish.cli.tables import duration_text, print_table, size_text, time_text
from flinkish.common.config_file import load_configuration
from flinkish.common.errors import InvalidArgumentError, JobNotFoundError
from flinkish.common.files import store_settings


@click.command()
@click.option(
    "--dir",
    "directory",
    metavar="DIRECTORY",
    help="Read the history tables below this checkpoint directory (execution.checkpointing.dir), without a server.",
)
@click.argument("job", metavar="[JOB_ID]", required=False)
@server_options
def history(directory: str | None, job: str | None, jobmanager: str | None, properties: tuple[str, ...]) -> None:
    """Show the jobs that have ended, or what happened to one job.

    \b
    flinkish history                            ended jobs that a server still knows
    flinkish history JOB_ID                     checkpoints and failures of a job
    flinkish history --dir /data/checkpoints    from history tables, without a server
    """
    with errors_printed():
        if directory is not None:
            if jobmanager is not None:
                raise InvalidArgumentError("flinkish history takes either --dir or -m: tables need no server")
            store_settings.use(load_configuration(properties, environment=os.environ), alone=True)
            if job is None:
                _list_tables(directory)
            else:
                _show_table(directory, job)
            return
        client = connect(jobmanager, properties)
        if job is None:
            _list_ended(client)
        else:
            _show_job(client, check_job_id(job))


def _list_ended(client: RestClient) -> None:
    jobs = [each for each in client.get("/jobs/overview")["jobs"] if part_of(each["state"]) == "terminated"]
    if not jobs:
        click.echo("No terminated jobs.")
        return
    rows = [
        [each["jid"], each["state"], each["name"], time_text(each["start-time"]), time_text(each["end-time"]),
         duration_text(each["duration"])]
        for each in sorted(jobs, key=lambda each: each["end-time"])
    ]  # fmt: skip
    print_table(["JOB ID", "STATE", "NAME", "START", "END", "DURATION"], rows, whole="JOB ID")


def _show_job(client: RestClient, job_id: str) -> None:
    try:
        info = client.get(f"/jobs/{job_id}")
        checkpoints = client.get(f"/jobs/{job_id}/checkpoints")
        failures = client.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
    except RefusedError as error:
        if error.status == 404:
            raise unknown_job(client, job_id) from None
        raise
    click.echo(f"{info['name']} ({job_id}): {info['state']}")
    click.echo(f"from {time_text(info['start-time'])} to {time_text(info['end-time'])}, {duration_text(info['duration'])}")
    counts = checkpoints["counts"]
    click.echo(f"Checkpoints: {counts['completed']} completed, {counts['failed']} failed; {counts['restored']} restored.")
    if checkpoints["history"]:
        columns = ["TIME", "ID", "TYPE", "STATUS", "SIZE", "DURATION", "PATH OR REASON"]
        print_table(columns, [_checkpoint(each) for each in checkpoints["history"]], whole="TIME")
    for failure in failures:
        click.echo(
            f"\n{time_text(failure['timestamp'])} failure:\n{str(failure.get('stacktrace') or failure['exceptionName']).strip()}"
        )


def _checkpoint(entry: Mapping[str, Any]) -> list[str]:
    return [
        time_text(entry["trigger_timestamp"]),
        str(entry["id"]),
        entry["checkpoint_type"],
        entry["status"],
        size_text(entry["state_size"]),
        duration_text(entry["end_to_end_duration"]),
        entry.get("external_path") or entry.get("failure_message") or "",
    ]


def _list_tables(directory: str) -> None:
    from flinkish.checkpoint.history import ENDED, METRICS, jobs_with_history, read_history

    rows = []
    for job_id in jobs_with_history(directory):
        events = read_history(directory, job_id)
        if not events:
            continue
        completed = [event.checkpoint_id for event in events if event.event == "checkpoint completed"]
        failures = sum(event.event == "attempt failed" for event in events)
        # The metrics of a job that has ended are noted after its end.
        last_event = next((event for event in reversed(events) if event.event != METRICS), None)
        last = last_event.message if last_event is not None and last_event.event == ENDED else "-"
        rows.append(
            [job_id, last, time_text(events[0].time), time_text(events[-1].time), str(completed[-1]) if completed else "-",
             str(failures)]
        )  # fmt: skip
    if not rows:
        click.echo(f"No job has a history below {directory}.")
        return
    print_table(["JOB ID", "ENDED", "FIRST EVENT", "LAST EVENT", "LAST CHECKPOINT", "FAILURES"], rows, whole="JOB ID")


def _show_table(directory: str, job: str) -> None:
    from flinkish.checkpoint.history import read_history

    events = read_history(directory, job)
    if not events:
        raise JobNotFoundError(
            f"job {job} has no history below {directory}", hint="`flinkish history --dir DIRECTORY` lists the jobs that have one."
        )
    for event in events:
        number = "" if event.checkpoint_id is None else f" {event.checkpoint_id}"
        click.echo(f"{time_text(event.time)}  {event.event}{number}: {event.message}")
