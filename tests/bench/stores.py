"""What a checkpoint costs in an object store beside a folder: one state file, kept, committed, and the one before cleaned."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from flinkish.common.configuration import Configuration
from flinkish.common.files import store_settings
from tests.bench.measure import median
from tests.integration.checkpoint.test_s3_storage import make, take
from tests.kit import fake_clouds, s3_server


def milliseconds(directory: str, checkpoints: int) -> float:
    """Return the median time of a checkpoint in milliseconds."""
    storage = make(directory)
    storage.claim()
    times = []
    for checkpoint_id in range(1, checkpoints + 1):
        started = time.perf_counter()
        take(storage, checkpoint_id)
        storage.clean_up(())
        times.append(1_000 * (time.perf_counter() - started))
    return median(times)


def in_s3(checkpoints: int) -> float:
    """Return the same in a server of S3 on this machine."""
    with s3_server.running() as server:
        store_settings.use(server.configuration)
        try:
            return milliseconds("s3://bucket/bench", checkpoints)
        finally:
            store_settings.use(Configuration())


def requests(checkpoints: int) -> float:
    """Return the number of requests of one checkpoint."""
    with tempfile.TemporaryDirectory() as folder, fake_clouds.running(Path(folder)) as cloud:
        store_settings.use(cloud.configuration)
        try:
            milliseconds("gs://bucket/bench", 1)
            begun = len(cloud.requests)
            milliseconds("gs://bucket/more", checkpoints)
            return (len(cloud.requests) - begun) / checkpoints
        finally:
            store_settings.use(Configuration())
