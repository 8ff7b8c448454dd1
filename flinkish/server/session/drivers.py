"""Requests to the drivers: forwards requests about one job to its driver, and asks several drivers about their jobs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from flinkish.checkpoint.disposal import is_at
from flinkish.checkpoint.opening import table_of
from flinkish.common import options
from flinkish.common.config_file import parse_properties
from flinkish.server.proof import Reply, ask
from flinkish.server.session.dispatcher import Dispatcher
from flinkish.server.session.driver_protocol import Report

_log = logging.getLogger("flinkish.server.session")

#: How long a driver may take to answer, in seconds.
_TIMEOUT = 20.0
#: How long a driver may take if the answers of several are combined, in seconds.
_SHORT_TIMEOUT = 3.0
_POOL = ThreadPoolExecutor(16, thread_name_prefix="flinkish-drivers")


def forward(report: Report, method: str, path: str, query: Mapping[str, str], body: bytes, timeout: float = _TIMEOUT) -> Reply:
    """Forward a request to a driver; raises OSError if the driver does not answer within `timeout` seconds."""
    target = quote(path, safe="/:") + (f"?{urlencode(query)}" if query else "")
    address, token = f"{report.host}:{report.port}", report.token
    return ask(address, method, target, token=token, secret=token, body=body, timeout=timeout)


def ask_each(questions: Sequence[tuple[Report, str]], query: Mapping[str, str]) -> list[tuple[Report, Any]]:
    """Return each driver's answer to a GET of its path, with its report; the drivers are asked at the same time.

    Drivers that do not answer in time, or with an error, are left out.
    """

    def one(question: tuple[Report, str]) -> Any:
        report, path = question
        try:
            reply = forward(report, "GET", path, query, b"", _SHORT_TIMEOUT)
            return msgspec.json.decode(reply.body) if reply.status == 200 else None
        except (OSError, msgspec.MsgspecError) as error:
            _log.info("The driver of job %s did not answer: %s", report.job_id, error)
            return None

    answers = _POOL.map(one, questions)
    return [(report, answer) for (report, _), answer in zip(questions, answers, strict=True) if answer is not None]


def job_that_needs(dispatcher: Dispatcher, root: PurePath) -> str | None:
    """Return the id of a job whose driver, started again, would start from the savepoint at `root`; None = there is none.

    A driver that does not answer counts as one without a checkpoint of its own.
    """
    answers = ask_each([(report, f"/jobs/{report.job_id}/checkpoints") for report in dispatcher.drivers()], {})
    latest = {report.job_id: answer["latest"] for report, answer in answers}
    for entry in dispatcher.jobs():
        if entry.status is not None:
            continue
        known = latest.get(entry.job_id, {"completed": None, "restored": None})
        if known["completed"] is not None:
            continue
        given = parse_properties([*dispatcher.settings.properties, *entry.properties]).get(options.SAVEPOINT_PATH)
        path = given if known["restored"] is None else known["restored"]["external_path"]
        if path is not None and is_at(table_of(path), root):
            return entry.job_id
    return None
