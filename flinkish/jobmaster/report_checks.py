"""Checks that an epoch's reports are complete and come from processes of the driver's own versions."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import flinkish
from flinkish.common import pickling
from flinkish.common.errors import EngineError
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.runtime.protocol import EpochCommand, EpochReport


def check_complete(plan: ExecutionPlan, command: EpochCommand, reports: Sequence[EpochReport]) -> None:
    """Raise EngineError if a report is missing. Spark's own check (of state commits) is off, for a clean stop."""
    expected = {(level, slot) for level in range(len(plan.levels)) for slot in range(plan.slots)}
    got = {(report.level, report.slot) for report in reports if report.epoch == command.epoch}
    if got != expected or len(reports) != len(expected):
        raise EngineError(
            f"epoch {command.epoch} of attempt {command.attempt_number}: {len(reports)} reports came back, expected one of each "
            f"of {len(expected)} (level, slot); missing: {sorted(expected - got)}"
        )
    for report in reports:
        if report.process:
            _check_versions(report)


def _check_versions(report: EpochReport) -> None:
    """Raise if a slot host's versions differ from the driver's, because they exchange pickled objects."""
    minor = ".".join(platform.python_version().split(".")[:2])
    for name, ours in (("python", minor), ("flinkish", flinkish.__version__), ("cloudpickle", pickling.CLOUDPICKLE_VERSION)):
        theirs = report.process.get(name)
        if theirs is not None and theirs != ours and not str(theirs).startswith(f"{ours}."):
            raise EngineError(
                f"slot {report.slot} runs {name} {theirs}, the driver {ours}",
                hint="driver and executors must have the same versions; set PYSPARK_PYTHON, or send one environment to all.",
            )
