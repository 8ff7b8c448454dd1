"""What a call raises is handed back, whatever it is, but for what flinkish itself raises to end a task."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flinkish.common.closing import Unwinding, close_all, raised_by


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(2), KeyboardInterrupt(), StopIteration(), GeneratorExit()])
def test_what_a_call_raises_is_returned(error: BaseException) -> None:
    assert raised_by(fail, error) is error
    assert raised_by(fail, error=error) is error


def test_a_call_that_raises_nothing_gives_none_whatever_it_returns() -> None:
    assert raised_by(lambda: ValueError("a result")) is None


def test_what_ends_a_task_goes_on() -> None:
    with pytest.raises(Unwinding):
        raised_by(fail, Unwinding())


class Thing:
    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close


def test_all_are_closed_and_the_first_error_has_the_others_as_notes() -> None:
    closed: list[int] = []
    things = [
        Thing(lambda: closed.append(1)),
        Thing(lambda: fail(ValueError("first"))),
        Thing(lambda: closed.append(2)),
        Thing(lambda: fail(SystemExit("second"))),
    ]
    with pytest.raises(ValueError, match="first") as caught:
        close_all(things)
    assert closed == [1, 2]
    assert caught.value.__notes__ == ["Thing.close() failed as well: SystemExit: second"]


def test_closing_stops_where_a_task_is_ended() -> None:
    closed: list[int] = []
    with pytest.raises(Unwinding):
        close_all([Thing(lambda: fail(Unwinding())), Thing(lambda: closed.append(1))])
    assert closed == []
