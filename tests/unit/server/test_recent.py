"""Answers are given again only while many clients ask, for a moment, and not after a change."""

from __future__ import annotations

import asyncio

import pytest

from flinkish.common.clock import ManualClock
from flinkish.server.rest import app as app_module
from flinkish.server.rest.app import BUSY, RecentAnswers, make_app
from tests.unit.server.asgi import ask, ask_async, make_state
from tests.unit.server.support import UNKNOWN


def busy(recent: RecentAnswers) -> None:
    for _ in range(BUSY):
        recent.find("/other")


def test_few_clients_always_get_a_new_answer() -> None:
    recent = RecentAnswers(ManualClock(10_000), 3_000)
    for _ in range(BUSY - 1):
        recent.keep("/jobs/overview", b"old")
        assert recent.find("/jobs/overview") is None
    assert recent.find("/jobs/overview") == b"old"


def test_many_clients_get_an_answer_that_is_at_most_a_second_old() -> None:
    clock = ManualClock(10_000)
    recent = RecentAnswers(clock, 3_000)
    busy(recent)
    recent.keep("/a", b"a")
    clock.advance(999)
    assert recent.find("/a") == b"a"
    assert recent.find("/b") is None
    clock.advance(1)
    assert recent.find("/a") is None


def test_the_interval_of_the_page_is_the_oldest_if_it_is_shorter() -> None:
    clock = ManualClock(10_000)
    recent = RecentAnswers(clock, 200)
    busy(recent)
    recent.keep("/a", b"a")
    clock.advance(200)
    assert recent.find("/a") is None


def test_a_second_without_many_requests_ends_it() -> None:
    clock = ManualClock(10_000)
    recent = RecentAnswers(clock, 3_000)
    busy(recent)
    clock.advance(2_000)
    recent.keep("/a", b"a")
    assert recent.find("/a") is None


def test_nothing_is_given_again_after_a_change_and_little_is_kept() -> None:
    recent = RecentAnswers(ManualClock(10_000), 3_000)
    busy(recent)
    recent.keep("/a", b"a")
    recent.forget()
    assert recent.find("/a") is None
    recent.keep("/long", b"x" * 300_000)
    assert recent.find("/long") is None
    for number in range(300):
        recent.keep(f"/{number}", b"x")
    assert recent.find("/0") is None
    assert recent.find("/299") == b"x"


def test_many_pages_share_one_answer_until_something_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    state = make_state()
    app = make_app(state)

    async def many() -> set[bytes]:
        return {(await ask_async(app, "GET", "/jobs/overview")).body for _ in range(3 * BUSY)}

    calls: list[int] = []
    encode = app_module.encode
    monkeypatch.setattr(app_module, "encode", lambda answer: (calls.append(1), encode(answer))[1])
    assert asyncio.run(many()) == {b'{"jobs":[]}'}
    assert len(calls) < 2 * BUSY
    made = len(calls)
    ask(app, "POST", f"/jobs/{UNKNOWN}/stop")
    ask(app, "GET", "/jobs/overview")
    assert len(calls) == made + 2
    # The answer to a path that no page asks for is never reused, and neither is that for an unknown job.
    for _ in range(2):
        made = len(calls)
        assert ask(app, "GET", "/config").status == 200
        assert len(calls) == made + 1
