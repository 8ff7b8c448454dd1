"""`flinkish plan`: what a program would take over from a savepoint."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from flinkish.cli.tables import print_table
from flinkish.common import options
from flinkish.common.clock import SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.files import store_settings
from flinkish.common.ids import random_id
from flinkish.program.program import Program

if TYPE_CHECKING:
    from flinkish.jobmaster import upgrade


def show_upgrade(program: Program, against: str, *, open_functions: bool, as_json: bool) -> bool:
    """Print what becomes of each operator and state; return whether the start of the program would be refused.

    Raises the errors of a start: for a program that cannot run, and a checkpoint that is damaged or signed by another key.
    """
    from flinkish.engine.launcher import check
    from flinkish.graph.chaining import build_job_graph
    from flinkish.graph.execution_plan import plan
    from flinkish.graph.stream_graph_generator import with_recorded_max_parallelism
    from flinkish.jobmaster import recovery
    from flinkish.jobmaster.upgrade import compare

    checked = check(program)
    configuration = Configuration(checked.configuration)
    configuration.set(options.SAVEPOINT_PATH, against)
    store_settings.use(configuration)
    checkpoint = recovery.find_checkpoint(configuration, None)
    assert checkpoint is not None
    recorded = recovery.recorded_max_parallelism(checkpoint)
    execution_plan = plan(build_job_graph(with_recorded_max_parallelism(checked.stream_graph, recorded)))
    with tempfile.TemporaryDirectory(prefix="flinkish-plan-") as scratch:
        verdicts = compare(
            checkpoint,
            execution_plan,
            configuration,
            open_functions=open_functions,
            clock=SystemClock(),
            ids=random_id,
            scratch=Path(scratch),
        )
    refused = any(each.is_refused for each in verdicts)
    if as_json:
        click.echo(msgspec.json.encode({"refused": refused, "operators": verdicts}).decode())
    else:
        _print(verdicts, checkpoint.external_path)
    return refused


def _print(verdicts: Sequence[upgrade.OperatorVerdict], where: str) -> None:
    rows = []
    for each in verdicts:
        rows.append([each.uid, "", each.verdict.value, each.name])
        for state in each.states:
            types = [text for text in (state.stored, state.declared) if text is not None]
            rows.append([each.uid, state.name, state.verdict.value, " -> ".join(dict.fromkeys(types))])
    print_table(["UID", "STATE", "VERDICT", "TYPE"], rows, whole="")
    reasons = [reason for each in verdicts for reason in (each.reason, *(state.reason for state in each.states)) if reason]
    if any(each.is_refused for each in verdicts):
        click.echo(f"\nThe start from {where} would be refused:")
    for reason in dict.fromkeys(reasons):
        click.echo(f"- {reason}")
