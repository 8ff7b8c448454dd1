"""Flink's own web page, as its jar has it, in a real browser over a server of flinkish.

The page of the standard output is left out: as in Flink, it is a 404 where nobody writes it into a file.
"""

from __future__ import annotations

import http.client
import time
import zipfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.kit.http import replying
from tests.kit.jars import MissingJarsError, fetch, jar_folder
from tests.server.browser import Browser, need_browser
from tests.server.page_jobs import failing_job, running_job
from tests.unit.server.support import served

# It fetches a jar and opens thirty pages.
pytestmark = pytest.mark.soak

JARS = jar_folder("flink-page", "2.3.0")
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


class Relay:
    """Serves the files of the jar, and passes all other requests on to the server of flinkish."""

    def __init__(self, files: dict[str, bytes], port: int) -> None:
        self._files = files
        self._port = port
        self.answers: list[tuple[int, str, str]] = []

    def reply(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, str, bytes]:
        path = request.path.partition("?")[0]
        file = self._files.get("/index.html" if path == "/" else path)
        if request.command == "GET" and file is not None:
            return 200, TYPES.get(Path(path).suffix, "text/html" if path == "/" else "application/octet-stream"), file
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        try:
            kind = {"Content-Type": request.headers["Content-Type"]} if "Content-Type" in request.headers else {}
            connection.request(request.command, request.path, body, kind)
            answer = connection.getresponse()
            self.answers.append((answer.status, request.command, request.path))
            return answer.status, answer.headers.get("Content-Type", ""), answer.read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    need_browser()
    try:
        fetch("flink-page", JARS)
    except MissingJarsError as error:
        pytest.skip(f"Flink's page is not there and could not be fetched: {error}")
    with zipfile.ZipFile(next(JARS.glob("*flink-runtime-web*.jar"))) as jar:
        return {name.removeprefix("web"): jar.read(name) for name in jar.namelist() if name.startswith("web/")}


def test_flinks_own_page_shows_the_jobs_and_cancels_one(files: dict[str, bytes], tmp_path: Path) -> None:
    with served() as server, replying((relay := Relay(files, server.port)).reply) as port:
        folders = [tmp_path / name for name in ("running", "failing", "browser")]
        for folder in folders:
            folder.mkdir()
        failing, running = failing_job(folders[1]), running_job(folders[0])
        browser = Browser(folders[2])
        try:
            job, failed = str(running.get_job_id()), str(failing.get_job_id())
            vertices = server.get(f"/jobs/{job}")["vertices"]
            vertex = next(each["id"] for each in vertices if "delay" in each["name"])
            at_job, at_vertex = f"job/running/{job}", f"job/running/{job}/overview/{vertex}"
            manager = server.get("/taskmanagers")["taskmanagers"][0]["id"]
            problems = []
            for place, texts in {
                "overview": ["Available Task Slots", "flight delays", "nightly import"],
                "job/running": ["flight delays"],
                "job/completed": ["nightly import", "FAILED"],
                f"{at_job}/overview": ["delay per airport", "Source: flights", "Backpressured"],
                f"{at_vertex}/detail": ["delay per airport"],
                f"{at_vertex}/subtasks": ["RUNNING", "Records Received"],
                f"{at_vertex}/taskmanagers": ["RUNNING"],
                f"{at_vertex}/watermarks": ["Datetime of Watermark Timestamp"],
                f"{at_vertex}/accumulators": ["Accumulators"],
                f"{at_vertex}/metrics": ["Metrics"],
                f"{at_vertex}/backpressure": ["Back Pressure Status"],
                f"{at_vertex}/flamegraph": ["Flame"],
                # The bars and their names are drawn on a canvas.
                f"{at_job}/timeline": ["Vertex TimeLine"],
                f"{at_job}/exceptions": ["Exception History"],
                f"job/completed/{failed}/exceptions": ["flight 5 has no number"],
                f"{at_job}/checkpoints": ["Latest Completed Checkpoint", "Checkpoint Counts"],
                f"{at_job}/configuration": ["Execution configuration", "Restart"],
                "task-manager": ["Data Port", "Free Slots"],
                f"task-manager/{manager}/metrics": ["Memory"],
                f"task-manager/{manager}/log-list": ["Log"],
                f"task-manager/{manager}/thread-dump": ["Thread Dump"],
                "job-manager/metrics": ["Memory"],
                "job-manager/config": ["rest.port"],
                "job-manager/log": ["Log"],
                "job-manager/thread-dump": ["Thread Dump"],
            }.items():
                browser.open("about:blank")
                browser.console()
                relay.answers.clear()
                browser.open(f"http://localhost:{port}/#/{place}")
                problems += look(
                    browser, relay, place.replace(job, "JOB").replace(failed, "FAILED").replace(vertex, "VERTEX"), texts
                )
            assert problems == [], "\n".join(problems)

            browser.open(f"http://localhost:{port}/#/{at_job}/overview")
            browser.click("a", "Cancel Job")
            browser.click("button", "Yes")
            browser.wait_text("CANCELED")
            assert server.get(f"/jobs/{job}/status") == {"status": "CANCELED"}
        finally:
            browser.close()
            if not running.get_job_status().result(120).is_terminal_state():
                running.cancel().result(120)


def look(browser: Browser, relay: Relay, place: str, texts: list[str]) -> list[str]:
    """Return what is wrong with a page: missing texts, errors in the console, requests that the server did not answer well."""
    deadline = time.monotonic() + 30
    missing = texts
    while missing and time.monotonic() < deadline:
        # The editor that shows tracebacks has spaces that do not break.
        shown = browser.text().lower().replace("\N{NO-BREAK SPACE}", " ")
        missing = [text for text in texts if text.lower() not in shown]
        time.sleep(0.1)
    found = [f"{place}: {text!r} is not shown: {browser.text()[-400:]!r}" for text in missing]
    found += [f"{place}: {status} {method} {path}" for status, method, path in relay.answers if status >= 400]
    return found + [f"{place}: {message}" for message in browser.console()]
