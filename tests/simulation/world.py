"""A simulated world: one seed decides all that happens in it, step by step."""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import struct
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any, cast
from unittest import mock

from flinkish.checkpoint import checkpoint_files, savepoints
from flinkish.checkpoint import manifest as manifests
from flinkish.checkpoint.checkpoint_settings import CheckpointSettings, JobEnd, Retention
from flinkish.checkpoint.manifest import Manifest
from flinkish.checkpoint.signing import Signature, SigningKey
from flinkish.common.clock import ManualClock
from flinkish.common.closing import Unwinding
from flinkish.common.files import schemes
from flinkish.common.files.schemes import root_of
from flinkish.runtime import uploads
from tests.kit.backends import BACKENDS
from tests.simulation.drivers import Driver
from tests.simulation.invariants import Invariants, Violation
from tests.simulation.store import SimulatedFiles, Store
from tests.simulation.tasks import Command, Report, Slot, Thread
from tests.unit.checkpoint.support import JOB

#: One world in this many keeps state in a backend of flinkish, with files in Parquet, and takes four times as long.
WITH_BACKENDS = 50
#: How deep one process may be interrupted by others while it is in the middle of an operation.
_DEEPEST = 2


class Crash(Unwinding):
    """The process that did this has ended."""


@dataclass(slots=True)
class Rates:
    """How often things go wrong."""

    #: Of an operation of the storage: an error before or after its effect, the end of the process, others acting in between.
    fault: float = 0.0
    crash: float = 0.0
    interruption: float = 0.0
    #: Of an acknowledgement.
    late: float = 0.0
    repeated: float = 0.0
    #: Of an epoch of a slot: its process dies, or its result is lost.
    host: float = 0.0
    #: Of a call.
    driver_part: float = 0.0
    sink: float = 0.0

    @staticmethod
    def chosen(rng: random.Random) -> Rates:
        """Return rates of which some are 0, so that each fault happens alone as well as with all others."""
        most = {
            "fault": 0.01, "crash": 0.002, "interruption": 0.02, "late": 0.3, "repeated": 0.3, "host": 0.05,
            "driver_part": 0.05, "sink": 0.1,
        }  # fmt: skip
        return Rates(**{each.name: rng.choice((0, 0.3, 1)) * most[each.name] for each in fields(Rates)})


class World:
    """See the package's docstring. `run` takes all steps and checks the invariants after each of them."""

    def __init__(self, seed: int, scratch: str) -> None:
        """`scratch` is a folder for state backends."""
        self.seed = seed
        rng = self.rng = random.Random(seed)
        self.trace: list[str] = []
        self.counts: Counter[str] = Counter()
        self.clock = ManualClock(1_000)
        self._ids = itertools.count(1)
        self.store = Store(self)
        self.directory = "s3://world"
        self.savepoints = "s3://savepoints"
        self.table: PurePath = root_of(self.directory) / JOB / "state"
        self.root = str(self.table)
        self.rates = Rates.chosen(rng)
        #: How often a slot writes a snapshot within the epoch of its barrier.
        self.quickness = rng.choice((0.0, 0.3, 0.8))
        self.durable = rng.random() < 0.5
        self.backend = None if seed % WITH_BACKENDS else sorted(BACKENDS)[seed // WITH_BACKENDS % len(BACKENDS)]
        self.scratch = scratch
        self.largest = rng.randint(1, 3)
        self.most_drivers = rng.randint(1, 3)
        self.end = rng.choice((JobEnd.CANCELED, JobEnd.FINISHED))
        self.settings = CheckpointSettings(
            interval=rng.choice((20, 50)),
            timeout=rng.choice((60, 200, 1_000)),
            min_pause=rng.choice((0, 0, 30)),
            max_concurrent=rng.randint(1, 3),
            asynchronous=rng.random() < 0.9,
            incremental=rng.random() < 0.6,
            tolerable_failures=rng.choice((-1, -1, 0, 2)),
            num_retained=rng.randint(1, 3),
            retention=Retention.RETAIN_ON_CANCELLATION,
            savepoint_directory=self.savepoints,
        )
        self.invariants = Invariants(self)
        self.drivers: list[Driver] = []
        self._numbers = itertools.count(1)
        #: Upload threads of slots, also of those whose driver has gone.
        self.threads: list[Thread] = []
        #: Those who act now, the innermost last; each is in the middle of something.
        self._acting: list[Driver | Slot] = []
        self._dead: set[int] = set()
        #: How often something has gone wrong or acted in between.
        self.disturbances = 0
        #: How many of the next operations of the storage fail, because it is down.
        self._outage = 0
        self.finishing = False
        self.quiet = False

    # -- steps ---------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Take all steps; raises Violation with the seed and the trace."""
        try:
            for _ in range(self.rng.choice((20, 40, 40, 80))):
                self.step()
                self.invariants.check()
                if self.invariants.ended:
                    break
            self.finish()
        except Exception as error:
            raise Violation(f"seed {self.seed}: {error!r}; {self}\n  " + "\n  ".join(self.trace)) from error

    def __str__(self) -> str:
        return (
            f"{self.rates}, {self.settings}, durable={self.durable}, backend={self.backend}, "
            f"at most {self.most_drivers} drivers, at most {self.largest} slots"
        )

    def step(self) -> None:
        """Let something happen."""
        free = [driver for driver in self.drivers if driver.alive and driver not in self._acting]
        busy = [driver for driver in self.drivers if driver.alive]
        choice = self.rng.random()
        if not self.invariants.ended and (not busy or (choice < 0.03 and len(busy) < self.most_drivers)):
            self._start_driver()
        elif choice < 0.55 and free:
            self._act(self.rng.choice(free), "advance")
        elif choice < 0.8:
            self._upload()
        elif choice < 0.95 or not free:
            self.clock.advance(self.rng.choice((1, 10, 30, 30, 100)))
        else:
            self._rare(self.rng.choice(free))

    def _rare(self, driver: Driver) -> None:
        what = self.rng.choice(
            ("checkpoint", "savepoint", "savepoint", "stop", "drain", "look", "restart", "kill", "host", "gone")
        )
        if what in ("checkpoint", "savepoint", "stop", "drain"):
            self._act(driver, "request", what)
        elif what == "look":
            self._act(driver, "look")
        elif what == "restart" and driver.attempt is not None:
            self._act(driver, "end_attempt")
        elif what == "kill" and self.rng.random() < 0.5:
            self._note(f"{driver} is killed")
            self._bury(driver)
        elif what == "host" and driver.attempt is not None:
            slot = self.rng.choice(driver.attempt.slots)
            if slot not in self._acting:
                self._note(f"{slot} dies")
                slot.die()
        elif what == "gone":
            self.threads = [thread for thread in self.threads if self._is_current(thread) or self.rng.random() < 0.5]

    def _is_current(self, thread: Thread) -> bool:
        return any(driver.attempt is not None and thread.slot in driver.attempt.slots for driver in self.drivers)

    def _start_driver(self) -> None:
        driver = Driver(self, next(self._numbers))
        self.drivers.append(driver)
        self.count("driver")
        self._act(driver, "advance")

    def _act(self, driver: Driver, what: str, *arguments: str) -> None:
        self._note(f"{driver}: {what} {' '.join(arguments)}")
        self._acting.append(driver)
        try:
            getattr(driver, what)(*arguments)
        except Crash:
            self._note(f"{driver} crashes")
            self._bury(driver)
        finally:
            self._acting.remove(driver)

    def _bury(self, driver: Driver) -> None:
        self.count("driver crash")
        driver.alive = False
        self._dead.add(id(driver))

    def _upload(self) -> None:
        ready = [thread for thread in self.threads if thread.queue and thread.slot not in self._acting]
        if ready:
            thread = self.rng.choice(ready)
            self._note(f"{thread.slot} uploads")
            with self._as(thread.slot):
                thread.advance()

    @contextlib.contextmanager
    def _as(self, slot: Slot) -> Iterator[None]:
        """Act as the process of a slot, which may end by that."""
        self._acting.append(slot)
        try:
            yield
        except Crash:
            self._note(f"{slot} crashes")
            self.count("host crash")
            slot.die()
        finally:
            self._acting.remove(slot)

    def run_slot(self, slot: Slot, command: Command, blob: bytes) -> tuple[Report, bytes]:
        """Run an epoch in a slot, again if its process dies or its result is lost."""
        if slot.thread not in self.threads:
            self.threads.append(slot.thread)
        while True:
            if self.happens(self.rates.host):
                self.count("host crash")
                slot.die()
            result = None
            with self._as(slot):
                result = slot.run(command, blob)
            if result is not None and not self.happens(self.rates.host):
                return result
            self.count("epoch repeated")
            self.disturbances += 1

    def wait(self, futures: Collection[Future[Any]], seconds: float | None) -> tuple[set[Future[Any]], set[Future[Any]]]:
        """Stand in for concurrent.futures.wait in Uploads: the slot that acts waits for its thread."""
        slot = cast(Slot, self._acting[-1])
        while slot.thread.queue and (seconds is None or self.rng.random() < self.quickness):
            slot.thread.advance()
        done = {future for future in futures if future.done()}
        return done, set(futures) - done

    def job_ends(self, driver: Driver) -> None:
        """The job was stopped by a savepoint; its checkpoints are deleted, or they stay, and the job may be started again."""
        self._note(f"{driver}: the job was stopped, {self.end.value}")
        if self.end is JobEnd.FINISHED and driver.generation == self.invariants.generation:
            self.invariants.ended = True

    # -- operations of the storage ---------------------------------------------------------------------------------------------

    def before(self, operation: str, path: str) -> None:
        """See Observer."""
        if not self._acting:
            return
        actor = self._acting[-1]
        if id(actor) in self._dead:
            raise Crash
        if self.quiet:
            return
        chance, rates = self.rng.random(), self.rates
        if self._outage:
            self._outage -= 1
            self._fail("before", operation, path)
        elif chance < rates.interruption and len(self._acting) <= _DEEPEST:
            self._interrupt(actor, operation, path)
        elif chance > 1 - rates.fault / 2:
            self._fail("before", operation, path)

    def after(self, operation: str, path: str) -> None:
        """See Observer."""
        if operation == "log":
            self.invariants.logged(path)
        elif operation == "remove":
            actor = self._acting[-1] if self._acting else None
            self.invariants.removed(path, actor.number if isinstance(actor, Driver) else None)
        if not self._acting or self.quiet:
            return
        chance, rates = self.rng.random(), self.rates
        if chance < rates.crash:
            self.disturbances += 1
            self._note(f"end after {operation} {path}")
            raise Crash
        if chance > 1 - rates.fault * 2:
            self._fail("after", operation, path)

    def _fail(self, when: str, operation: str, path: str) -> None:
        self.disturbances += 1
        self.count(f"fault {when} {operation}")
        if not self._outage and self.rng.random() < 0.3:
            self._outage = self.rng.randint(1, 8)
        self._note(f"fault {when} {operation} {path}")
        raise OSError(5, f"simulated fault {when} {operation}", path)

    def _interrupt(self, actor: Driver | Slot, operation: str, path: str) -> None:
        """Let others act while this process stands still in the middle of something."""
        self.disturbances += 1
        self.count("interruption")
        self._note(f"{actor} stands still before {operation} {path}")
        for _ in range(self.rng.randint(1, 12)):
            alive = [driver for driver in self.drivers if driver.alive]
            if not self.invariants.ended and len(alive) < self.most_drivers and self.rng.random() < 0.15:
                self._start_driver()
            self.step()
        self._note(f"{actor} goes on")

    # -- the end -------------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """End all faults; the last driver takes a checkpoint, cleans up, and nothing is lost or left."""
        self.quiet = True
        if not self.invariants.ended:
            for driver in self.drivers:
                if driver.alive:
                    self._act(driver, "advance")
        self.invariants.check()
        if self.invariants.ended:
            self._outlive()
        else:
            self._complete()
        self.invariants.savepoints_restore()
        self.invariants.check()

    def _outlive(self) -> None:
        """Zombies of a job whose table was deleted do not bring it back."""
        if self.root in self.store.entries:
            return  # a fault came in between
        self.count("deleted")
        for _ in range(10):
            for driver in self.drivers:
                if driver.alive and driver.coordinator is not None:
                    self._act(driver, "advance")
            self._upload()
            self.clock.advance(50)
        self.invariants.nothing_appears_again()

    def _complete(self) -> None:
        for driver in self.drivers:
            driver.alive = False
        self.rates = Rates()
        self._start_driver()
        driver = self.drivers[-1]
        self.invariants.check()
        before = max(self.invariants.completed, default=0)
        self.finishing = True
        for _ in range(60):
            self._act(driver, "advance")
            self.invariants.check()
            while any(thread.queue for thread in self.threads):
                self._upload()
            self.clock.advance(30)
            if max(self.invariants.completed, default=0) > before + 1:
                break
        else:
            self.invariants.violated("no checkpoint completes, though nothing fails any more")
        attempt = driver.attempt
        if attempt is None or driver.coordinator is None:
            self.invariants.violated(f"{driver} has ended, though nothing fails any more")
            return
        driver.end_attempt()
        for _ in range(2):
            driver.storage.clean_up(())
        self.invariants.nothing_is_lost(attempt.position)
        self.invariants.nothing_is_left()

    # -- small things --------------------------------------------------------------------------------------------------------

    def happens(self, rate: float) -> bool:
        return rate > 0 and self.rng.random() < rate

    def ids(self) -> str:
        """Return the next id; see IdSource."""
        return f"{next(self._ids):032x}"[::-1]

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def _note(self, what: str) -> None:
        self.trace.append(f"{'  ' * len(self._acting)}{self.clock.monotonic()} {what}")


# -- what worlds replace in flinkish -----------------------------------------------------------------------------------------


def _plain_manifest(manifest: Manifest, key: SigningKey) -> tuple[bytes, int]:
    data = manifests.encode(manifest)
    signature = key.sign(data)
    return struct.pack("<16s32s", signature.key_id.encode(), signature.mac) + data, 2


def _unpack_plain(content: bytes, *, where: str) -> tuple[bytes, Signature]:
    key_id, mac = struct.unpack_from("<16s32s", content)
    return content[48:], Signature(key_id.decode(), mac)


@contextlib.contextmanager
def simulated() -> Iterator[None]:
    """Within it, worlds can be run: nothing is written to disk, nothing sleeps, nothing is logged."""
    logging.disable(logging.CRITICAL)
    try:
        # The modules' names only: other threads of the process, such as Py4J's, would spin without time.sleep itself.
        with mock.patch("flinkish.checkpoint.checkpoint_files.time"), mock.patch("flinkish.checkpoint.delta_storage.time"):
            yield
    finally:
        logging.disable(logging.NOTSET)


def run(seed: int) -> World:
    """Run the world of a seed, within `simulated`; raises Violation."""
    with contextlib.ExitStack() as patches:
        world = World(seed, patches.enter_context(tempfile.TemporaryDirectory()) if seed % WITH_BACKENDS == 0 else "")
        patches.enter_context(mock.patch.dict(schemes._STORES, s3=lambda root: SimulatedFiles(world.store, root)))
        patches.enter_context(mock.patch.object(uploads, "wait", world.wait))
        if world.backend is None:
            patches.enter_context(mock.patch.object(savepoints, "manifest_rows", _plain_manifest))
            patches.enter_context(mock.patch.object(checkpoint_files, "_unpack", _unpack_plain))
        world.run()
    return world
