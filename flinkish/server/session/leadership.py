"""Takes, keeps and gives up the lead of a session, and stores entries in the name of the leader.

The leader regularly writes a record to the session's folder. Clocks of two machines are never compared. A waiting Dispatcher
takes over when it has seen the same record for longer than the lease by its own clock; a leader that could not write for the
length of the lease by its own clock stops leading. The new leader claims the registry, which fences the earlier leader even if
that has not noticed the change.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from flinkish.checkpoint.job_table import brief
from flinkish.common.clock import Clock
from flinkish.common.errors import FlinkishError, StaleGenerationError
from flinkish.engine.processes import this_process
from flinkish.server.session.dispatcher_settings import SessionSettings
from flinkish.server.session.driver_protocol import LeaderRecord, Report
from flinkish.server.session.entries import Entry, JobEntry, ProgramEntry, key_of
from flinkish.server.session.processes import Processes, is_running
from flinkish.server.session.registry import Registry
from flinkish.server.session.storage import SessionStorage

_log = logging.getLogger("flinkish.server.session")


class NotLeaderError(FlinkishError, RuntimeError):
    """Another Dispatcher leads the session, or none does: yet, or because the session's storage does not work."""

    def __init__(self, leader: str | None, trouble: str | None = None) -> None:
        if trouble is not None:
            why = f"{trouble}. It tries again until that is remedied; jobs that run continue"
        else:
            why = "nobody leads the session yet; ask again in a moment" if leader is None else f"the session's leader is {leader}"
        super().__init__(f"this Dispatcher does not lead: {why}.")


@dataclass(slots=True)
class Watch:
    """A waiting Dispatcher's view of the leader; times are monotonic milliseconds."""

    lease: int
    #: The location of this Dispatcher; see `processes.Location`.
    host: str
    #: Tells by id and start time whether a process of that location runs.
    is_alive: Callable[[int, float], bool]
    _seen: tuple[int, int] | None = None
    _since: int = 0

    def is_free(self, record: LeaderRecord | None, now: int) -> bool:
        """Return whether there is no leader any more, so that this Dispatcher may take over."""
        if record is None or record.ended:
            return True
        if is_running(record.host, self.host, lambda: self.is_alive(record.pid, record.created)) is False:
            return True
        seen = (record.generation, record.beat)
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since > self.lease


@dataclass(slots=True)
class Lease:
    """The leader's own view of its lease; times are monotonic milliseconds."""

    lease: int
    #: When the last successful write of the record began.
    renewed: int

    def is_due(self, now: int) -> bool:
        """Return whether it is time to write the record again."""
        return now - self.renewed >= self.lease // 5

    def is_lost(self, now: int) -> bool:
        """Return whether the lease has expired, so that another Dispatcher may already lead."""
        return now - self.renewed >= self.lease


@dataclass(slots=True)
class Live:
    """The leader's knowledge about a job that is not in the job's entry."""

    report: Report | None = None
    #: When the driver last reported, or could first have reported, in monotonic milliseconds.
    heard: int = 0
    #: Whether a client waits for its start, and gets the error if it fails.
    awaited: bool = False
    #: The last error about it, which is logged once.
    error: str | None = None


@dataclass(slots=True)
class Lead:
    """The state of a leader."""

    registry: Registry
    record: LeaderRecord
    lease: Lease
    programs: dict[str, ProgramEntry] = field(default_factory=dict)
    jobs: dict[str, JobEntry] = field(default_factory=dict)
    live: dict[str, Live] = field(default_factory=dict)


class Leadership:
    """Whether one member of a session leads, and what it knows of another leader.

    `look` is called by one thread. The others may be called from any; `store` and `forget` with `lock` held.
    """

    def __init__(
        self,
        settings: SessionSettings,
        storage: SessionStorage,
        processes: Processes,
        clock: Clock,
        lock: threading.RLock,
        *,
        address: str,
        reports: str,
    ) -> None:
        """Prepare a member that clients reach at `address` (a URL) and drivers at `reports` (host and port)."""
        self._settings = settings
        self._storage = storage
        self._clock = clock
        self._lock = lock
        self._watch = Watch(settings.lease, processes.location, processes.is_alive)
        #: The record of this member, apart from the generation.
        self._own = LeaderRecord(
            generation=0,
            address=address,
            reports=reports,
            host=processes.location,
            pid=os.getpid(),
            created=this_process().created,
        )
        #: The state of this member as the leader; None = it does not lead.
        self.lead: Lead | None = None
        self._leader: LeaderRecord | None = None
        #: Why this member, which would lead, cannot: its last attempt to write to the storage has failed.
        self._trouble: str | None = None

    @property
    def leader(self) -> str | None:
        """The address of the leader, if it is another Dispatcher."""
        record = self._leader
        return None if record is None or record.ended or self._is_own(record) else record.address

    def leading(self) -> Lead:
        """Return the state of the leader; raises NotLeaderError if this member does not lead."""
        lead = self.lead
        if lead is None:
            raise NotLeaderError(self.leader, self._trouble)
        if lead.lease.is_lost(self._clock.monotonic()):
            # Another Dispatcher may lead already: reports that were taken here would be missing there.
            raise NotLeaderError(None, self._trouble)
        return lead

    def look(self) -> Lead | None:
        """Take the lead if it is free, or renew the lease if that is due; return the lead that this member had and still has.

        Raises OSError and RegistryError if the storage does not work.
        """
        try:
            lead = self._look()
        except (OSError, FlinkishError) as error:
            self._trouble = f"the session's storage {self._settings.root} cannot be read or written: {brief(error)}"
            raise
        if self.lead is not None or self.leader is not None:
            self._trouble = None
        return lead

    def _look(self) -> Lead | None:
        now = self._clock.monotonic()
        lead = self.lead
        if lead is None:
            self._leader = self._storage.leader()
            # The newest record is this member's own if it has lost its lease and no other member has taken over.
            if self._is_own(self._leader) or self._watch.is_free(self._leader, now):
                self._take()
            return None
        if lead.lease.is_lost(now):
            self._step_down("its lease was not renewed in time")
            return None
        if lead.lease.is_due(now):
            self._renew(lead, now)
        return lead if self.lead is lead else None

    def resign(self) -> None:
        """Stop leading, so that another Dispatcher can take over immediately; drivers and jobs continue. Raises OSError."""
        with self._lock:
            lead, self.lead = self.lead, None
        if lead is not None:
            self._storage.write_leader(msgspec.structs.replace(lead.record, beat=lead.record.beat + 1, ended=True))

    def store(self, lead: Lead, entry: Entry) -> None:
        """Store an entry and take it over; raises NotLeaderError, RegistryError."""
        with self._fenced():
            lead.registry.put(entry)
        _take_over(lead, entry)

    def settle(self, lead: Lead) -> None:
        """Undo commits that may have arrived although they were reported as failed; raises the same errors as `store`."""
        with self._fenced():
            lead.registry.settle()

    def forget(self, lead: Lead, entry: Entry) -> None:
        """Remove an entry; raises the same errors as `store`."""
        with self._fenced():
            lead.registry.remove(key_of(entry))
        if isinstance(entry, ProgramEntry):
            lead.programs.pop(entry.id, None)
        else:
            lead.jobs.pop(entry.job_id, None)
            lead.live.pop(entry.job_id, None)

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        """Step down and raise NotLeaderError if another Dispatcher has claimed the registry."""
        try:
            yield
        except StaleGenerationError as error:
            self._step_down(str(error))
            raise NotLeaderError(None) from error

    def _take(self) -> None:
        now = self._clock.monotonic()
        registry = Registry(self._settings.root, self._settings.key, self._clock)
        entries = registry.claim()
        record = msgspec.structs.replace(self._own, generation=registry.generation)
        self._storage.write_leader(record)
        self._storage.forget_leaders(record.generation)
        lead = Lead(registry=registry, record=record, lease=Lease(self._settings.lease, now))
        for entry in entries.values():
            _take_over(lead, entry)
        # From now on, drivers can report; the claim may have taken longer than they may be silent.
        lead.live = {job_id: Live(heard=self._clock.monotonic()) for job_id in lead.jobs}
        with self._lock:
            self.lead = lead
        running = sum(entry.status is None for entry in lead.jobs.values())
        _log.info("This Dispatcher leads as generation %d; %d jobs are to run.", registry.generation, running)

    def _is_own(self, record: LeaderRecord | None) -> bool:
        return record is not None and msgspec.structs.replace(record, generation=0, beat=0, ended=False) == self._own

    def _renew(self, lead: Lead, now: int) -> None:
        latest = self._storage.leader()
        if latest is not None and latest.generation > lead.record.generation:
            self._leader = latest
            self._step_down(f"generation {latest.generation} leads")
            return
        lead.record = msgspec.structs.replace(lead.record, beat=lead.record.beat + 1)
        self._storage.write_leader(lead.record)
        lead.lease.renewed = now

    def _step_down(self, why: str) -> None:
        _log.warning("This Dispatcher does not lead any more: %s.", why)
        with self._lock:
            self.lead = None


def _take_over(lead: Lead, entry: Entry) -> None:
    if isinstance(entry, ProgramEntry):
        lead.programs[entry.id] = entry
    else:
        lead.jobs[entry.job_id] = entry
