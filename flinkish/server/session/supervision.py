"""Decides what to do about a job whose driver may be gone, and which ended jobs to remove. Pure decisions, without I/O.

The decision depends on: whether the driver's process is running, how long the driver has been silent, whether the job has ended
for good (the driver wrote that to the session's folder), whether it was cancelled, and how often it was started again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flinkish.jobmaster.exception_history import series_began
from flinkish.server.answers.jobs import RestartsInfo
from flinkish.server.session.driver_protocol import FINAL, Report
from flinkish.server.session.entries import JobEntry

#: Pauses before the second, third, ... start within the window, in milliseconds: they double up to the maximum.
_FIRST_PAUSE, _LONGEST_PAUSE = 1_000, 30_000
#: How long a driver without a known process may take to report, in milliseconds: the Dispatcher was killed while starting it.
UNKNOWN_PATIENCE = 5_000
#: How long to wait for the end of a driver that was killed, in milliseconds: one that waits for a dead file server does not end.
_KILL_PATIENCE = 10_000
#: States of a job that its driver is ending, or has ended.
_ENDING = ("CANCELLING", "FAILING", *FINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the configuration; times are milliseconds."""

    heartbeat_timeout: int
    max_restarts: int
    restart_window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The observed state of a driver; times are milliseconds."""

    #: Whether its process is running; None = unknown, because it is in another place or its id was not stored.
    alive: bool | None
    #: Time since its last report; if it has never reported, time since it could have done so.
    silent: int
    #: The final state that the driver wrote to the session's folder; None = it wrote none.
    ended: str | None
    #: The current time since the epoch.
    now: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start a driver; `kill` = first kill the old one, which is running but silent, and decide again when it is gone."""

    kill: bool


@dataclass(frozen=True, slots=True)
class Close:
    """The job has ended in this state."""

    status: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The job has failed, because its driver was lost too often."""

    reason: str


Decision = Keep | Start | Close | Fail


def decide(entry: JobEntry, sight: Sight, limits: Limits) -> Decision:
    driver, patient = entry.driver, sight.silent <= patience(entry, limits)
    if driver is not None and not driver.condemned and sight.alive is not False and patient:
        return Keep()
    if sight.ended is not None:
        return Close(sight.ended)
    dies = driver is None or not driver.condemned or sight.silent <= patience(entry, limits) + _KILL_PATIENCE
    if sight.alive is True and dies:
        # Before anything else: it may run on, and the end that it may write until its death must be seen.
        return Start(kill=True)
    if entry.cancelling:
        return Close("CANCELED")
    if entry.driver is None:
        return Start(kill=False)
    recent = [at for at in entry.restarts if sight.now - at < limits.restart_window]
    if len(recent) >= limits.max_restarts:
        minutes = limits.restart_window / 60_000
        return Fail(f"its driver was lost {len(recent) + 1} times within {minutes:g} min (session.driver.max-restarts)")
    # The clock may have been put back since the last start.
    if recent and 0 <= sight.now - recent[-1] < _pause(len(recent)):
        return Keep()
    return Start(kill=False)


def patience(entry: JobEntry, limits: Limits) -> int:
    """Return how long the driver of a job may be silent, in milliseconds."""
    if entry.driver is None or entry.driver.pid is None:
        return min(limits.heartbeat_timeout, UNKNOWN_PATIENCE)
    return limits.heartbeat_timeout


def must_not_run(before: Report | None, report: Report) -> bool:
    """Tell whether a driver must end because its job was cancelled before it was known to run in this driver.

    `before` is the driver's last report, None = this is the first one that was taken. A job that is known to run is cancelled
    by its driver.
    """
    if before is not None and before.summary is not None:
        return False
    return report.status is None and (report.summary is None or report.summary.state not in _ENDING)


def expired(jobs: Iterable[JobEntry], now: int, *, capacity: int, expiration: int) -> Sequence[JobEntry]:
    """Return the jobs that ended more than `expiration` milliseconds ago, or are not among the last `capacity` that ended."""
    ended = sorted(((job.ended, job) for job in jobs if job.ended is not None), key=lambda each: each[0], reverse=True)
    return [job for rank, (at, job) in enumerate(ended) if rank >= capacity or now - at > expiration]


def restarts_after_loss(known: RestartsInfo | None, now: int) -> RestartsInfo:
    """Return the restarts of a job whose driver is lost and which is started again now, in milliseconds since the epoch."""
    count, began = 0, now
    if known is not None:
        count, last = known.count, known.last_failure_time
        began = series_began(known.restarting_since or last, last, now)
    return RestartsInfo(
        count=count + 1,
        last_failure="the job's driver was lost",
        last_failure_time=now,
        restarting_since=began if began < now else None,
    )


def _pause(restarts: int) -> int:
    """Return the minimum time before the next start after this number of restarts, in milliseconds."""
    return int(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (restarts - 1)))
