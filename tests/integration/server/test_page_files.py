"""The files of the page: which there are, with which headers, and that nothing else can be reached."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import flinkish.server.web
from flinkish.server.web import page_files
from tests.unit.server.support import Server, served

TOKEN = "a-token-of-some-length"
FOLDER = Path(flinkish.server.web.__file__).parent
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(token=TOKEN) as each:
        yield each


def fetch(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def test_every_file_is_served_as_it_is_without_the_token(server: Server) -> None:
    on_disk = {f"/{file.relative_to(FOLDER)}" for kind in TYPES for file in FOLDER.rglob(f"*.{kind}")}
    assert set(page_files()) == on_disk | {"/"}
    assert {"/index.html", "/style.css", "/js/app.js"} <= on_disk

    for path in on_disk:
        status, headers, content = fetch(server, path)
        assert (status, content) == (200, (FOLDER / path[1:]).read_bytes()), path
        assert headers["content-type"].split(";")[0] == TYPES[path.rpartition(".")[2]]
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
    assert fetch(server, "/")[2] == (FOLDER / "index.html").read_bytes()


def test_a_file_that_the_browser_has_is_not_sent_again(server: Server) -> None:
    _, headers, _ = fetch(server, "/style.css")

    assert fetch(server, "/style.css", If_None_Match=headers["etag"])[::2] == (304, b"")
    assert fetch(server, "/style.css", If_None_Match='"old"')[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/__init__.py",
        "/js",
        "/js/",
        "/js/../style.css",
        "/../web/style.css",
        "/js/%2e%2e/style.css",
        "/..%2f..%2f..%2fsetup.cfg",
        "//etc/passwd",
        "/js/app.js%00",
        "/style.css/",
        "/STYLE.CSS",
        "/v1/style.css",
    ],
)
def test_a_path_that_is_not_that_of_a_file_needs_the_token_and_leads_nowhere(server: Server, path: str) -> None:
    assert fetch(server, path)[0] in (400, 401)
    assert fetch(server, path, Authorization=f"Bearer {TOKEN}")[0] in (400, 404)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_a_file_can_only_be_read(server: Server, method: str) -> None:
    assert fetch(server, "/index.html", method)[0] == 401
    assert fetch(server, "/index.html", method, Authorization=f"Bearer {TOKEN}")[0] == 404


def test_a_file_is_not_shown_to_pages_of_other_sites(server: Server) -> None:
    assert fetch(server, "/index.html", Origin="http://elsewhere.example")[0] == 403


def test_the_page_needs_nothing_but_its_own_files() -> None:
    files = page_files()
    for path, file in files.items():
        text = file.content.decode()
        addresses = re.findall(r"https?://[^\s\"']+", text)
        assert all(address.startswith("http://www.w3.org/") for address in addresses), (path, addresses)
        for module in re.findall(r'from "\./([^"]+)"', text):
            assert f"/js/{module}" in files, (path, module)
        assert not re.search(r"\.innerHTML|insertAdjacentHTML|document\.write|\beval\(", text), path


def test_the_wheel_has_every_file() -> None:
    setup = (Path(__file__).parents[3] / "setup.cfg").read_text()
    packed = re.search(r"flinkish\.server\.web =\n((?:    \S+\n)+)", setup)
    assert packed is not None
    found = {file for pattern in packed[1].split() for file in FOLDER.glob(pattern)}
    assert {f"/{file.relative_to(FOLDER)}" for file in found} | {"/"} == set(page_files())
