"""Finds a job again after its process was killed: high-availability.cluster-id names one job until that job has ended.

The job id is derived from the cluster id and the number of jobs under that id that have ended for good. A new job must not have
the id of an ended one: its checkpoint ids begin again at 1, so sinks would skip its commits as already made.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from flinkish.common.errors import ConfigurationError
from flinkish.common.files.schemes import files_at
from flinkish.common.ids import OperatorUid
from flinkish.graph.stream_graph import StreamGraph
from flinkish.program.operators import SourceConfig
from flinkish.program.state_kinds import source_kind

_FOLDER = "high-availability"
#: Maximum size of the record in bytes; it contains a few numbers as JSON.
_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True)
class YarnAttempt:
    """YARN's attempt to run an application whose driver is this process. Lost and failed drivers are started again by YARN."""

    application: str
    number: int

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> YarnAttempt | None:
        """Return the attempt that the variables of an environment describe; None if YARN did not start this process."""
        # Hadoop's ContainerId: container_[e<epoch>_]<cluster's time>_<application>_<attempt>_<container>.
        found = re.fullmatch(r"container_(?:e\d+_)?(\d+_\d+)_(\d+)_\d+", environment.get("CONTAINER_ID", ""))
        return None if found is None else cls(f"application_{found[1]}", int(found[2]))


@dataclass(frozen=True, slots=True)
class JobShape:
    """The identity of a job among the jobs of one program."""

    name: str
    uids: frozenset[OperatorUid]
    #: The uids of the sources, and the kinds of their positions (program/state_kinds.py).
    sources: frozenset[tuple[OperatorUid, str]]

    @classmethod
    def of(cls, graph: StreamGraph) -> JobShape:
        nodes = graph.nodes.values()
        sources = [(node.uid, source_kind(node.operator.source)) for node in nodes if isinstance(node.operator, SourceConfig)]
        return cls(graph.job_name, frozenset(node.uid for node in nodes), frozenset(sources))


#: The jobs that have ended in this process under each cluster id, by the file of its record.
_ended: dict[PurePath, set[JobShape]] = {}


class ClusterRecord:
    """Counts the jobs that have ended under a cluster id, in one small file below `directory`.

    If YARN starts a driver again after its job has ended, such as one that was canceled, the driver must not begin a new job.
    """

    def __init__(self, directory: PurePath, cluster_id: str, attempt: YarnAttempt | None = None) -> None:
        self.cluster_id = cluster_id
        self._attempt = attempt
        self._shape: JobShape | None = None
        name = hashlib.sha256(cluster_id.encode()).hexdigest()[:32]
        self._files = files_at(directory)
        self._inside = f"{_FOLDER}/{name}.json"
        self._file = directory / self._inside

    def job_id(self) -> str:
        """Return the id of the job that runs, or will run, under the cluster id: 32 hexadecimal digits.

        Raises ConfigurationError if the record cannot be read, or if YARN starts the driver again of a job that has ended.
        """
        ended, application = self._read()
        attempt = self._attempt
        if attempt is not None and attempt.number > 1 and attempt.application == application:
            raise ConfigurationError(
                f"the job of high-availability.cluster-id = {self.cluster_id!r} has ended, and YARN started its driver again "
                f"(attempt {attempt.number} of {application}); it is not run a second time",
                hint="the log of the previous attempt says how the job ended; to run it again, submit it again.",
            )
        return self._id(ended)

    def check_only_job(self, shape: JobShape) -> None:
        """Refuse a job if an earlier job of this program has ended under the cluster id: it would take over its positions.

        Were the process killed now, the first job of the next start would resume from the checkpoint of this one, as only the
        number of ended jobs tells the two apart. That is refused then if this job has sources that the other one does not have.
        Flink runs one job per program with high availability.

        Raises ConfigurationError.
        """
        others = (before for before in _ended.get(self._file, ()) if before != shape and shape.sources <= before.sources)
        before = next(others, None)
        if before is not None:
            raise ConfigurationError(
                f"job {shape.name!r} cannot run under high-availability.cluster-id = {self.cluster_id!r}: this program has run "
                f"another job under it, {before.name!r}, with the same uids of sources; after a crash that job would resume from "
                "the checkpoint of this one",
                hint="a cluster id names one job: give each job of a program its own, in the configuration of its environment.",
            )
        self._shape = shape

    def retire(self, job_id: str) -> None:
        """Record that a job has ended for good, so that the next one gets another id; ignored if it is not the current job."""
        ended, _ = self._read()
        if job_id != self._id(ended):
            return
        self._files.make_root(sync=True)
        self._files.make_folders(_FOLDER)
        self._files.sync()
        content = {"cluster_id": self.cluster_id, "ended": ended + 1}
        if self._attempt is not None:
            content["application"] = self._attempt.application
        self._files.replace(self._inside, json.dumps(content).encode(), sync=True)
        if self._shape is not None:
            _ended.setdefault(self._file, set()).add(self._shape)

    def _read(self) -> tuple[int, str | None]:
        """Return the number of ended jobs, and the application of YARN to which the last one of them belonged."""
        try:
            content = json.loads(self._files.read(self._inside, limit=_LIMIT))
            ended, application = content["ended"], content.get("application")
            if content["cluster_id"] != self.cluster_id or not isinstance(ended, int) or isinstance(ended, bool) or ended < 0:
                raise ValueError(f"unexpected content {content!r}")
        except FileNotFoundError:
            return 0, None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"the record of high-availability.cluster-id = {self.cluster_id!r} in {self._file} cannot be read: {error}",
                hint="remove the file to begin with a new job, or choose another cluster id.",
            ) from error
        return ended, application

    def _id(self, ended: int) -> str:
        return hashlib.sha256(f"flinkish job\0{self.cluster_id}\0{ended}".encode()).hexdigest()[:32]
