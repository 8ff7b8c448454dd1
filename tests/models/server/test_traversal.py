"""No name in a path leads to a file: hundreds of ways to leave a folder, in each parameter of each route of each table."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from flinkish.server.logs import Logs
from flinkish.server.rest.app import make_app
from flinkish.server.rest.calls import Call, RestError
from flinkish.server.rest.trust import refused, refused_name
from flinkish.server.session import handlers
from flinkish.server.session.handlers import SessionState
from tests.unit.server.asgi import ask_async, make_state, untouchable_session
from tests.unit.server.support import UNKNOWN
from tests.unit.server.test_trust import all_routes
from tests.unit.server.traversal import IN_NAMES, IN_PATHS

#: Files that were opened, made, renamed or removed while `_watching` is true. A hook of the interpreter cannot be taken away.
_touched: list[object] = []
_watching = False
_TOUCHES = ("open", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "shutil.rmtree")


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if _watching and event in _TOUCHES and threading.current_thread() is threading.main_thread():
        _touched.append((event, arguments[0]))


def test_the_corpus_is_large_enough() -> None:
    assert len(IN_PATHS) >= 200


@pytest.mark.parametrize("before", ["", "/v1", "/jobmanager/logs", "/assets"])
def test_each_is_refused_by_the_rule_alone(before: str) -> None:
    assert [name for name in IN_PATHS if refused(f"{before}/{name}".encode()) is None] == []


def targets() -> list[tuple[str, str]]:
    """Return method and path of each route, with each name of the corpus in each of its parameters."""
    found = []
    for route in all_routes():
        parts = [UNKNOWN if part.startswith(":") else part for part in route.path.split("/")]
        for place, part in enumerate(route.path.split("/")):
            if part.startswith(":"):
                found += [(route.method, "/".join([*parts[:place], name, *parts[place + 1 :]])) for name in IN_PATHS]
    # Files of the page have no parameter.
    return [*found, *(("GET", f"/{prefix}{name}") for prefix in ("", "v1/", "assets/") for name in IN_PATHS)]


def test_no_name_in_a_path_leads_to_a_file() -> None:
    global _watching
    apps = (make_app(make_state()), untouchable_session())

    async def ask_all() -> list[str]:
        wrong = []
        for app, (method, target) in itertools.product(apps, asked):
            answer = await ask_async(app, method, target)
            if not (400 <= answer.status < 500 and answer.is_error):
                wrong.append(f"{method} {target}: {answer.status} {answer.body[:80]!r}")
        return wrong

    asked = targets()
    asyncio.run(ask_async(apps[0], "GET", "/overview"))
    sys.addaudithook(_watch)
    _touched.clear()
    _watching = True
    try:
        wrong = asyncio.run(ask_all())
    finally:
        _watching = False
    assert wrong == []
    assert _touched == []


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/jobs/",
        f"/jobs/{UNKNOWN}/vertices/{UNKNOWN}",
        "/taskmanagers/localhost:8081-a1b2c3/logs/task%201.log",
        "/taskmanagers/[::1]:8081-a1b2c3",
        "/jars/0b9f41a4-5b0e-4a53-9f0c-000000000000_my%20job%20(2).py/run",
        "/jars/%C3%BCbung.py",
        "/assets/page.v1.2.js",
        "/jobmanager/logs/.hidden",
        "/50%25",
    ],
)
def test_names_as_they_should_be_are_looked_at(path: str) -> None:
    assert refused(path.encode()) is None


def test_a_log_is_found_only_by_a_name_of_the_list(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("a")
    (tmp_path / "secret").write_text("secret")
    logs = Logs(more=lambda: [tmp_path / "a.log"])

    assert logs.text("a.log") == "a"
    for name in ("", ".", "..", "secret", "../secret", "a.log\0", str(tmp_path / "a.log"), str(tmp_path / "secret"), *IN_NAMES):
        assert logs.text(name) is None, name


def test_names_of_files_are_refused_for_a_reason() -> None:
    assert refused_name("a" * 255) is None
    assert refused_name("a" * 256) == "a part of it is longer than 255 bytes"
    assert refused_name("..") == "it has a part of dots"
    assert refused_name("%2e") == "it is encoded twice"
    assert refused_name("") == "it has an empty part"
    assert refused(b"jobs") == "it does not begin with a slash"


def _form(name: bytes) -> bytes:
    head = b'--b\r\nContent-Disposition: form-data; name="jarfile"; ' + name + b"\r\n\r\n"
    return head + b"print(1)\r\n--b--\r\n"


def _upload(disposition: bytes) -> str | None:
    """Return the name under which a program is kept; None if it is refused."""
    kept: list[str] = []

    class Keeper:
        settings = SimpleNamespace(submit_enabled=True, root="root")

        def upload(self, name: str, content: bytes) -> SimpleNamespace:
            kept.append(name)
            return SimpleNamespace(id=name)

    state: Any = SessionState(Keeper(), None)  # type: ignore[arg-type]
    call = Call({}, {}, _form(disposition), "multipart/form-data; boundary=b")
    try:
        handlers.upload(state, call)
    except RestError as error:
        return kept[0] if error.status != 400 or kept else None
    return kept[0]


def test_no_name_of_an_uploaded_file_leaves_its_folder() -> None:
    assert _upload(b'filename="job.py"') == "job.py"
    for name in IN_NAMES:
        for suffix in ("", ".py", "/job.py", "%2fjob.py", "\\job.py"):
            whole = name + suffix
            raw = whole.encode("utf-8", "surrogateescape")
            if b"\r" not in raw and b"\n" not in raw:
                assert _upload(b'filename="' + raw + b'"') is None, whole
            assert _upload(b"filename*=UTF-8''" + quote(raw, safe="").encode()) is None, whole
