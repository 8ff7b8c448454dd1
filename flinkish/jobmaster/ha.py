"""Finds a job again after its process was killed: high-availability.cluster-id names one job until that job has ended.

The job id is derived from the cluster id and the number of jobs under that id that have ended for good. A new job must not have
the id of an ended one: its checkpoint ids begin again at 1, so sinks would skip its commits as already made.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePath

from flinkish.common.errors import ConfigurationError
from flinkish.common.files.schemes import files_at

_FOLDER = "high-availability"
#: Maximum size of the record in bytes; it contains a few numbers as JSON.
_LIMIT = 1 << 16


class ClusterRecord:
    """Counts the jobs that have ended under a cluster id, in one small file below `directory`."""

    def __init__(self, directory: PurePath, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        name = hashlib.sha256(cluster_id.encode()).hexdigest()[:32]
        self._files = files_at(directory)
        self._inside = f"{_FOLDER}/{name}.json"
        self._file = directory / self._inside

    def job_id(self) -> str:
        """Return the id of the job that runs, or will run, under the cluster id: 32 hexadecimal digits.

        Raises ConfigurationError if the record cannot be read.
        """
        return self._id(self._ended())

    def retire(self, job_id: str) -> None:
        """Record that a job has ended for good, so that the next one gets another id; ignored if it is not the current job."""
        ended = self._ended()
        if job_id != self._id(ended):
            return
        self._files.make_root(sync=True)
        self._files.make_folders(_FOLDER)
        self._files.sync()
        content = json.dumps({"cluster_id": self.cluster_id, "ended": ended + 1}).encode()
        self._files.replace(self._inside, content, sync=True)

    def _ended(self) -> int:
        try:
            content = json.loads(self._files.read(self._inside, limit=_LIMIT))
            ended = content["ended"]
            if content["cluster_id"] != self.cluster_id or not isinstance(ended, int) or isinstance(ended, bool) or ended < 0:
                raise ValueError(f"unexpected content {content!r}")
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"the record of high-availability.cluster-id = {self.cluster_id!r} in {self._file} cannot be read: {error}",
                hint="remove the file to begin with a new job, or choose another cluster id.",
            ) from error
        return ended

    def _id(self, ended: int) -> str:
        return hashlib.sha256(f"flinkish job\0{self.cluster_id}\0{ended}".encode()).hexdigest()[:32]
