"""The gate: token, health, pages of other sites, limits, headers of answers; and the walk over all routes."""

from __future__ import annotations

import base64
import importlib
import pkgutil

import pytest
from starlette.types import ASGIApp

import flinkish.server
from flinkish.common import Configuration
from flinkish.common.errors import ConfigurationError
from flinkish.server import server_settings as settings_module
from flinkish.server.rest.app import make_app
from flinkish.server.rest.routes import ROUTES, JobRoute, ServerRoute
from flinkish.server.server_settings import server_settings
from flinkish.server.session.handlers import SESSION_ROUTES, SessionRoute
from tests.unit.server.asgi import ask, make_state, untouchable_session
from tests.unit.server.support import UNKNOWN

Route = ServerRoute | JobRoute | SessionRoute

TOKEN = "a-token-of-some-length"
BEARER = [("authorization", f"Bearer {TOKEN}")]


@pytest.fixture(scope="module")
def app() -> ASGIApp:
    return make_app(make_state())


@pytest.fixture(scope="module")
def closed() -> ASGIApp:
    return make_app(make_state(**{"security.rest.token": TOKEN}))


def basic(credentials: str) -> list[tuple[str, str]]:
    return [("authorization", f"Basic {base64.b64encode(credentials.encode()).decode()}")]


def path_of(route: Route) -> str:
    return "/".join(UNKNOWN if part.startswith(":") else part for part in route.path.split("/"))


def all_routes() -> list[Route]:
    """Return the routes of every table of the server, wherever it is."""
    found: dict[tuple[str, str], Route] = {}
    for module in pkgutil.walk_packages(flinkish.server.__path__, "flinkish.server."):
        if module.name.rpartition(".")[2] != "__main__":
            for value in vars(importlib.import_module(module.name)).values():
                for route in value if isinstance(value, tuple) else ():
                    if isinstance(route, (ServerRoute, JobRoute, SessionRoute)):
                        found[route.method, route.path] = route
    return list(found.values())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 401),
        ([("authorization", "")], 401),
        ([("authorization", "Bearer ")], 401),
        ([("authorization", "Bearer wrong-token-wrong-token")], 401),
        ([("authorization", f"Bearer {TOKEN}x")], 401),
        ([("authorization", f"Bearer {TOKEN[:-1]}")], 401),
        ([("authorization", TOKEN)], 401),
        ([("authorization", f"Token {TOKEN}")], 401),
        ([("authorization", "Bearer \xe4\xff")], 401),
        ([("authorization", "Basic !!")], 401),
        ([("authorization", "Basic /w==")], 401),
        (basic(TOKEN), 401),
        (basic(f"{TOKEN}:"), 401),
        (BEARER * 2, 400),
        ([*BEARER, ("authorization", "Bearer wrong")], 400),
        (BEARER, 200),
        ([("authorization", f"bearer {TOKEN}")], 200),
        (basic(f":{TOKEN}"), 200),
        (basic(f"anybody:{TOKEN}"), 200),
    ],
)
def test_only_the_token_opens(closed: ASGIApp, headers: list[tuple[str, str]], status: int) -> None:
    answer = ask(closed, "GET", "/overview", headers)

    assert answer.status == status
    assert answer.is_error == (status != 200)
    assert ("www-authenticate" in answer.headers) == (status == 401)


def test_all_routes_of_all_tables_answer_only_with_the_token(closed: ASGIApp) -> None:
    listed = {(route.method, route.path) for route in (*ROUTES, *SESSION_ROUTES)}
    assert listed <= {(route.method, route.path) for route in all_routes()}
    for app in (closed, untouchable_session(**{"security.rest.token": TOKEN})):
        for route in all_routes():
            for prefix in ("", "/v1"):
                target = prefix + path_of(route)
                assert ask(app, route.method, target).status == 401, target
                assert ask(app, route.method, target, [("authorization", "Bearer wrong")]).status == 401, target
    for route in ROUTES:
        assert ask(closed, route.method, path_of(route), BEARER).status not in (401, 403), route.path


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "FOO"])
@pytest.mark.parametrize("target", ["/", "/nothing", "/health/", "/health/x", "/healthy", "/v1/health/", "//health", "/v1", "*"])
def test_what_has_no_route_needs_the_token_too(closed: ASGIApp, method: str, target: str) -> None:
    # The page asks for the token, so its files need none: test_page_files.py.
    assert ask(closed, method, target).status == (200 if (method, target) == ("GET", "/") else 401)


def test_health_needs_no_token_and_says_nothing_else(closed: ASGIApp, app: ASGIApp) -> None:
    for each in (closed, app):
        for path in ("/health", "/v1/health"):
            assert (ask(each, "GET", path).status, ask(each, "GET", path).json) == (200, {"status": "ok"})
    assert ask(closed, "POST", "/health").status == 404
    # A page of another site cannot even see that there is a server.
    assert ask(app, "GET", "/health", [("host", "evil.example")]).status == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost"}, 200),
        ({"host": "LOCALHOST:8081"}, 200),
        ({"host": "127.1.2.3:8081"}, 200),
        ({"host": "[::1]:8081"}, 200),
        ({"host": ""}, 403),
        ({"host": "["}, 403),
        ({"host": "evil.example"}, 403),
        ({"host": "localhost.evil.example"}, 403),
        ({"host": "evil.example@localhost"}, 403),
        ({"host": "localhost@evil.example"}, 403),
        ({"host": "localhost:x"}, 403),
        ({"host": "localhost:99999"}, 403),
        ({"host": "localhost/evil"}, 403),
        ({"host": "localhost, evil.example"}, 403),
        ({"host": "[localhost]"}, 403),
        ({"host": "2130706433"}, 403),
        ({"host": "localhost:1", "origin": "http://localhost:1"}, 200),
        ({"host": "localhost:1", "origin": "http://localhost:2"}, 403),
        ({"host": "localhost", "origin": "null"}, 403),
        ({"host": "localhost", "origin": "http://["}, 403),
        ({"host": "localhost", "origin": "http://evil.example"}, 403),
        ({"host": "localhost", "origin": ""}, 403),
        ({"host": "localhost", "sec-fetch-site": "same-origin"}, 200),
        ({"host": "localhost", "sec-fetch-site": "none"}, 200),
        ({"host": "localhost", "sec-fetch-site": "cross-site"}, 403),
        ({"host": "localhost", "sec-fetch-site": "same-site"}, 403),
        ({"host": "localhost", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, 403),
    ],
)
def test_a_page_of_another_site_gets_no_answer(app: ASGIApp, headers: dict[str, str], status: int) -> None:
    answer = ask(app, "GET", "/overview", headers.items())

    assert (answer.status, answer.is_error) == (status, status != 200)


def test_an_image_of_another_site_cancels_no_job_but_a_link_may_lead_to_the_page(app: ASGIApp) -> None:
    image = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")]
    link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]
    assert ask(app, "GET", f"/jobs/{UNKNOWN}/yarn-cancel", image).status == 403
    assert ask(app, "GET", f"/jobs/{UNKNOWN}/yarn-cancel", link).status == 403
    assert ask(app, "GET", "/", image).status == 403
    assert ask(app, "GET", "/", link).status != 403


@pytest.mark.parametrize("name", ["host", "origin", "authorization", "content-length"])
def test_a_header_that_comes_twice_is_refused(app: ASGIApp, name: str) -> None:
    twice = [("host", "localhost"), (name, "localhost"), (name, "localhost")]
    assert ask(app, "GET", "/overview", twice[1:] if name == "host" else twice).status == 400


def test_long_parts_of_a_request_are_refused(app: ASGIApp) -> None:
    assert ask(app, "GET", f"/jobs/metrics?get={'x' * 16_000}").status == 200
    assert ask(app, "GET", f"/jobs/metrics?get={'x' * 17_000}").status == 414
    assert ask(app, "GET", f"/{'x' * 256}").status == 400
    assert ask(app, "GET", f"/{'x/' * 2_000}").status == 400
    assert ask(app, "GET", "/overview", [("x-long", "x" * 33_000)]).status == 431
    assert ask(app, "GET", "/overview", [(f"x-{number}", "x") for number in range(100)]).status == 431
    assert ask(app, "POST", f"/jobs/{UNKNOWN}/stop", body=b" " * 1_000_001).status == 413


def test_answers_are_not_kept_framed_or_guessed_at_by_browsers(app: ASGIApp) -> None:
    for target in ("/overview", "/nothing", "/health"):
        headers = ask(app, "GET", target).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "access-control-allow-origin" not in headers


def test_other_protocols_than_http_reach_nothing(app: ASGIApp) -> None:
    import asyncio

    async def never(*_: object) -> None:
        raise AssertionError("nothing is read or answered")

    for kind in ("websocket", "lifespan"):
        asyncio.run(app({"type": kind, "path": "/overview", "headers": []}, never, never))  # type: ignore[arg-type]


@pytest.mark.parametrize("token", ["x" * 513, "with blanks in between", "umlaut-\xe4-umlaut-umlaut", "new\nline-new-line-new"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigurationError, match="not shown") as caught:
        server_settings(Configuration.from_dict({"rest.port": "0", "security.rest.token": token}))
    assert token not in str(caught.value)


def test_a_token_on_the_command_line_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Seen:
        def cmdline(self) -> list[str]:
            return ["python", "job.py", f"-Dsecurity.rest.token={TOKEN}"]

    monkeypatch.setattr(settings_module.psutil, "Process", Seen)
    with pytest.raises(ConfigurationError, match="on the command line") as caught:
        server_settings(Configuration.from_dict({"rest.port": "0", "security.rest.token": TOKEN}))
    assert TOKEN not in str(caught.value)
