"""Runs the job of three levels (levels_job.py) on a cluster, stops its tasks at chosen moments, and checks its results."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from deltalake import DeltaTable

from flinkish.common.files import store_settings
from tests.cluster import levels_job
from tests.cluster.standalone import Cluster, Job, Worker
from tests.kit.s3_server import BUCKET, S3Server
from tests.kit.waiting import wait_until

_JOB = Path(levels_job.__file__)
#: The same job as a program whose import is to be sent with it: executors have it from nowhere else.
PROGRAM = """
import sys

import levels_job

levels_job.main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
"""


class Levels:
    """A run of the job of three levels."""

    def __init__(
        self,
        cluster: Cluster,
        s3: S3Server,
        tmp_path: Path,
        *,
        records: int,
        script: Path = _JOB,
        options: Sequence[str] = (),
        python: str | None = None,
        settings: Mapping[str, str | None] = MappingProxyType({}),
        **environment: str,
    ) -> None:
        """Start nothing yet; a setting of None is left out."""
        self.cluster = cluster
        self.records = records
        self.root = f"s3://{BUCKET}/{tmp_path.name}-{os.getpid()}"
        self.table = f"{self.root}/table"
        self.markers = tmp_path / "markers"
        self.markers.mkdir()
        all_settings = {
            "execution.epoch.target-duration": "300 ms",
            "execution.checkpointing.interval": "1500 ms",
            "execution.checkpointing.dir": f"{self.root}/checkpoints",
            "execution.checkpointing.savepoint-dir": f"{self.root}/savepoints",
            "high-availability.storageDir": f"{self.root}/records",
            "high-availability.cluster-id": "levels",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "20",
            "restart-strategy.fixed-delay.delay": "100 ms",
            "security.checkpoint.hmac-key-file": str(tmp_path / "keys" / "key"),
            **s3.settings,
            **settings,
        }
        arguments = (self.table, str(records), str(self.markers))
        given = {key: value for key, value in all_settings.items() if value is not None}
        self.job = Job(cluster, script, *arguments, settings=given, options=options, python=python, **environment)

    def rows(self) -> list[tuple[int, int, int]]:
        """Return the rows of the table; none if there is no table yet."""
        storage = store_settings.storage_options(self.root)
        if not DeltaTable.is_deltatable(self.table, storage_options=storage):
            return []
        table = DeltaTable(self.table, storage_options=storage).to_pyarrow_table()
        return list(zip(*(table[name].to_pylist() for name in ("v", "n", "m")), strict=True))

    def wait_for_rows(self, number: int) -> None:
        """Wait until the table has at least this number of rows."""
        self.job.wait_until(f"{number} rows", lambda: len(self.rows()) >= number)

    @contextlib.contextmanager
    def lingering(self, moment: str) -> Iterator[Worker]:
        """Have a task linger at a moment of the job until the end of the block, and wait until it does; yield its worker."""
        with self.asked_for(moment):
            yield self.wait_for(moment)

    @contextlib.contextmanager
    def asked_for(self, moment: str) -> Iterator[None]:
        """Have a task linger at a moment of the job until the end of the block, if the moment comes."""
        (self.markers / moment).unlink(missing_ok=True)
        wanted = self.markers / f"{moment}.wanted"
        wanted.touch()
        try:
            yield
        finally:
            wanted.unlink()

    def wait_for(self, moment: str) -> Worker:
        """Wait until a task lingers at a moment, and return its worker."""
        self.job.wait_until(moment, (self.markers / moment).exists)
        name = (self.markers / moment).read_text()
        return next(worker for worker in self.cluster.workers if worker.machine.name == name)

    def wait_for_progress(self) -> None:
        """Wait until the table has more rows than now."""
        self.wait_for_rows(len(self.rows()) + 1)

    def restart_when_killed(self, verb: str) -> None:
        """Wait until the driver is gone, and start the same job again."""
        wait_until("the driver is gone", lambda: self.job.process.poll() is not None, 600, report=self.job.report)
        self.job.start(verb)

    def survive(self, events: Iterable[Callable[[], None]]) -> None:
        """Have one event happen after the other, with progress behind each; the job ends with an exact result."""
        for event in events:
            print(event.__name__, flush=True)
            event()
            self.wait_for_progress()
        self.job.assert_finished(900)
        self.assert_exact()

    def assert_exact(self) -> None:
        """Each number was counted once for its key and for its other key, and is in the table once."""
        rows = self.rows()
        assert sorted(v for v, _, _ in rows) == list(range(self.records))
        for place, keys in ((1, levels_job.KEYS), (2, levels_job.OTHER_KEYS)):
            for key in range(keys):
                counts = sorted(row[place] for row in rows if row[0] % keys == key)
                assert counts == list(range(1, len(counts) + 1)), (place, key)
