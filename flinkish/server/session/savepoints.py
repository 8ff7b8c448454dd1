"""Finds the jobs of a session that still need the savepoint that they were started from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from flinkish.checkpoint.disposal import is_at
from flinkish.checkpoint.opening import table_of
from flinkish.common import options
from flinkish.common.config_file import parse_properties
from flinkish.server.session.dispatcher import Dispatcher
from flinkish.server.session.drivers import forward
from flinkish.server.session.entries import JobEntry

#: How long a driver may take for its answer, in seconds.
_TIMEOUT = 5.0


def job_that_needs(dispatcher: Dispatcher, root: PurePath) -> str | None:
    """Return the id of a job whose driver, started again, would start from the savepoint at `root`; None = there is none.

    A driver that does not answer counts as one without a checkpoint of its own.
    """
    for entry in dispatcher.jobs():
        if entry.status is not None:
            continue
        latest = _latest(dispatcher, entry)
        if latest.get("completed") is not None:
            continue
        restored = latest.get("restored")
        path = _given(dispatcher, entry) if restored is None else restored["external_path"]
        if path is not None and is_at(table_of(path), root):
            return entry.job_id
    return None


def _latest(dispatcher: Dispatcher, entry: JobEntry) -> Mapping[str, Any]:
    report = dispatcher.driver(entry)
    if report is None:
        return {}
    try:
        reply = forward(report, "GET", f"/jobs/{entry.job_id}/checkpoints", {}, b"", _TIMEOUT)
        found: Mapping[str, Any] = msgspec.json.decode(reply.body)["latest"] if reply.status == 200 else {}
        return found
    except (OSError, msgspec.MsgspecError):
        return {}


def _given(dispatcher: Dispatcher, entry: JobEntry) -> str | None:
    configuration = parse_properties([*dispatcher.settings.properties, *entry.properties])
    return configuration.get(options.SAVEPOINT_PATH)
