"""When the next epoch of an attempt is due, and how many records it may read.

`decide` is a pure function of facts. The attempt collects them, waits on its condition as long as the decision says, and checks
again. Only readers that had no records are polled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from flinkish.common.clock import Clock
from flinkish.jobmaster.admission import Admission, EpochCost
from flinkish.jobmaster.job_metrics import JobMetrics
from flinkish.jobmaster.job_sources import JobSources
from flinkish.jobmaster.setup import JobSetup
from flinkish.runtime.protocol import EpochCommand, EpochReport

#: Longest time between two polls of readers that had no records.
_LONGEST_POLL_MS = 1_000
#: Time after which tasks are first asked whether they have written their snapshots; doubled each time.
_FIRST_UPLOAD_WAIT_MS = 50
#: Longest wait for a time of the wall clock before the clock is read again, because it may have been set forward.
_LONGEST_TIMER_WAIT = 60_000


class EpochReason(Enum):
    """The reason for running an epoch; reasons are checked in this order."""

    FIRST = "the attempt begins"
    FAREWELL = "functions learn of the last checkpoint"
    CHECKPOINT = "a checkpoint or savepoint is to be taken"
    INPUT = "there is input"
    TIMER = "a processing-time timer is due"
    UPLOADS = "tasks may have written their snapshots"
    POLL = "readers that had nothing are asked again"
    IDLE = "the engine must not be silent for longer"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFacts:
    """The facts that the decision depends on. Times are milliseconds: `wall` on the wall clock, others on the monotonic one."""

    wall: int
    now: int
    first: bool = False
    #: Whether everything is done except notifying and closing the functions.
    farewell: bool = False
    #: Whether a barrier is to be sent with the next command.
    barrier_due: bool = False
    #: When to check the coordinator again: a checkpoint is due or overdue, or another driver may have taken over the job.
    next_checkpoint: int | None = None
    #: Whether readers have more records, got new splits or must learn that none will come, or a driver source has records.
    input_ready: bool
    #: Whether sources must wait because the client does not take results as fast as they come.
    back_pressured: bool
    #: When the earliest processing-time timer is due, on the wall clock.
    next_timer: int | None
    #: When readers that reported NOTHING_AVAILABLE are to be polled again.
    next_poll: int | None
    #: When to ask tasks again whether they have written their snapshots.
    uploads_due: int | None = None
    #: When an epoch must run at the latest, whatever happens.
    idle_deadline: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFor:
    """Wait until something happens, but at most for the given milliseconds (None = no limit)."""

    timeout: int | None


def decide(facts: EpochFacts) -> EpochReason | WaitFor:
    """Return the reason to run an epoch now, or how long to wait."""
    if facts.first:
        return EpochReason.FIRST
    if facts.farewell:
        return EpochReason.FAREWELL
    if facts.barrier_due:
        return EpochReason.CHECKPOINT
    if facts.input_ready and not facts.back_pressured:
        return EpochReason.INPUT
    if facts.next_timer is not None and facts.next_timer <= facts.wall:
        return EpochReason.TIMER
    if facts.uploads_due is not None and facts.uploads_due <= facts.now:
        return EpochReason.UPLOADS
    if facts.next_poll is not None and facts.next_poll <= facts.now and not facts.back_pressured:
        return EpochReason.POLL
    if facts.idle_deadline is not None and facts.idle_deadline <= facts.now:
        return EpochReason.IDLE
    poll = None if facts.back_pressured else facts.next_poll
    dues = (facts.next_checkpoint, facts.uploads_due, facts.idle_deadline, poll)
    waits = [due - facts.now for due in dues if due is not None]
    if facts.next_timer is not None:
        waits.append(min(_LONGEST_TIMER_WAIT, facts.next_timer - facts.wall))
    return WaitFor(timeout=max(1, min(waits)) if waits else None)


class Pacing:
    """Times of the epochs of one attempt, in milliseconds of the monotonic clock."""

    def __init__(self, setup: JobSetup, clock: Clock, metrics: JobMetrics) -> None:
        self._setup = setup
        self._clock = clock
        self._metrics = metrics
        self._admission = Admission(setup.admission)
        self._began = 0
        self._ended = clock.monotonic()
        self._poll_delay = setup.poll_interval
        #: How long to wait for tasks that write snapshots; None = there are none.
        self._upload_delay: int | None = None
        self._next_timer: int | None = None
        #: Whether tasks of a batch job have records left that they held back.
        self._held = False
        #: Whether the client did not take results as fast as they came, since the end of the last epoch.
        self._client_waits = False
        #: Whether there was nothing to do since the end of the last epoch.
        self.waited = False
        #: Whether the engine has seen input of its own sources that comes with the epoch after the next; set by any thread.
        self.native_arrived = False

    @property
    def credit(self) -> int:
        """How many records each source subtask may read in the next epoch."""
        return self._admission.credit

    def facts(self, sources: JobSources, *, back_pressured: bool) -> EpochFacts:
        """Return the facts about input, timers and idleness for the decision about the next epoch."""
        self._client_waits = self._client_waits or back_pressured
        idle = self._setup.idle_interval
        return EpochFacts(
            wall=self._clock.wall_time(),
            now=self._clock.monotonic(),
            input_ready=self._held or self.native_arrived or sources.input_ready,
            back_pressured=back_pressured,
            next_timer=self._next_timer,
            next_poll=self._ended + self._poll_delay if sources.wants_poll else None,
            uploads_due=None if self._upload_delay is None else self._ended + self._upload_delay,
            idle_deadline=None if idle is None else self._ended + idle,
        )

    def epoch_begins(self, credit: int) -> None:
        """Note that an epoch begins, in which each source subtask may read `credit` records."""
        self._began = self._clock.monotonic()
        self._metrics.epoch_begins(self._began, credit, waited=self.waited)
        self.waited = False

    def epoch_ends(self, command: EpochCommand, reports: Sequence[EpochReport]) -> None:
        """Learn from the reports of an epoch when the next one is due, and how much it may read."""
        ended_before, self._ended = self._ended, self._clock.monotonic()
        elapsed = float(self._ended - self._began)
        busy = self._metrics.add(reports, elapsed, float(self._ended - ended_before), client_waits=self._client_waits)
        self._client_waits = False
        self._held = any(report.holds for report in reports)
        self._next_timer = min((report.next_timer for report in reports if report.next_timer is not None), default=None)
        read = [reader.records for report in reports for reader in report.readers.values()]
        most = max([*read, *(report.released for report in reports)])
        sent = max(sum(metrics.bytes_out for metrics in report.metrics) for report in reports)
        uploading = any(report.uploading for report in reports)
        special = command.barrier is not None or command.epoch == 0
        longer = _FIRST_UPLOAD_WAIT_MS if self._upload_delay is None else min(_LONGEST_POLL_MS, 2 * self._upload_delay)
        self._upload_delay = longer if uploading else None
        self._admission.observe(EpochCost(records=most, busy_ms=busy, elapsed_ms=elapsed, bytes=sent, special=special))
        longest = max(_LONGEST_POLL_MS, self._setup.poll_interval)
        self._poll_delay = self._setup.poll_interval if any(read) else min(longest, 2 * self._poll_delay)
