"""Requests to the drivers: forwards requests about one job to its driver, and collects the answers of all drivers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlencode

import msgspec

from flinkish.server.session.calls import Reply, ask
from flinkish.server.session.driver_protocol import Report

_log = logging.getLogger("flinkish.server.session")

#: How long a driver may take to answer, in seconds.
_TIMEOUT = 20.0
#: How long a driver may take if the answers of several are combined, in seconds.
_SHORT_TIMEOUT = 3.0
_MOST_AT_ONCE = 16


def forward(report: Report, method: str, path: str, query: Mapping[str, str], body: bytes, timeout: float = _TIMEOUT) -> Reply:
    """Forward a request to a driver; raises OSError if the driver does not answer within `timeout` seconds."""
    target = quote(path, safe="/:") + (f"?{urlencode(query)}" if query else "")
    address, token = f"{report.host}:{report.port}", report.token
    return ask(address, method, target, token=token, secret=token, body=body, timeout=timeout)


class Drivers:
    """Sends requests to several drivers at the same time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="flinkish-drivers")

    def ask_each(self, questions: Sequence[tuple[Report, str]], query: Mapping[str, str]) -> list[tuple[Report, object]]:
        """Return each driver's answer to a GET of its path, with its report.

        Drivers that do not answer in time, or with an error, are left out.
        """

        def one(question: tuple[Report, str]) -> object | None:
            report, path = question
            try:
                reply = forward(report, "GET", path, query, b"", _SHORT_TIMEOUT)
                return msgspec.json.decode(reply.body) if reply.status == 200 else None
            except (OSError, msgspec.MsgspecError) as error:
                _log.info("The driver of job %s did not answer: %s", report.job_id, error)
                return None

        reports = [report for report, _ in questions]
        answers = self._pool.map(one, questions)
        return [(report, answer) for report, answer in zip(reports, answers, strict=True) if answer is not None]
