"""JobExecutionResult."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkish.common.job_id import JobID


class JobExecutionResult:
    """The result of a finished job: id, run time and user metrics."""

    def __init__(self, job_id: JobID, net_runtime: int, accumulators: Mapping[str, Any] | None = None) -> None:
        """Make a result; `net_runtime` is in milliseconds."""
        self._job_id = job_id
        self._net_runtime = net_runtime
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """Return the job's id."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return how long the job ran, in milliseconds."""
        return self._net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the user metric with this name, None if there is none."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return user metrics by name."""
        return dict(self._accumulators)

    def __repr__(self) -> str:
        values = "".join(f", {name}={value!r}" for name, value in self._accumulators.items())
        return f"<JobExecutionResult of job {self._job_id}: ran {self._net_runtime} ms{values}>"

    def __str__(self) -> str:
        lines = [
            "Program execution finished",
            f"Job with JobID {self._job_id} has finished.",
            f"Job Runtime: {self._net_runtime} ms",
        ]
        if self._accumulators:
            lines.append("Accumulator Results: ")
            lines.extend(f"- {name}: {value}" for name, value in self._accumulators.items())
        return "\n".join(lines)
