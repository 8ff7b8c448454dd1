"""Checks of arguments: what passes, and what the error says."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from flinkish.common.arguments import bool_of, instance_of, int_of, names_of, text_of
from flinkish.common.errors import InvalidArgumentError


class Sink:
    pass


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: int_of("count", True), "count must be an int; got True of type bool."),
        (lambda: int_of("count", "1", minimum=1), "count must be an int of at least 1; got '1' of type str."),
        (lambda: int_of("count", 0, minimum=1), "count must be an int of at least 1; got 0 of type int."),
        (lambda: text_of("the path of read()", ""), "the path of read() must be a non-empty str; got '' of type str."),
        (lambda: text_of("name", None, empty=True), "name must be a str; got None of type NoneType."),
        (lambda: names_of("columns", "id"), "columns must be a list of names (str); got 'id' of type str."),
        (lambda: names_of("columns", ["id", 1]), "columns must be a list of names (str); got ['id', 1] of type list."),
        (lambda: names_of("columns", iter("ab")), "columns must be a list of names (str); got <"),  # would be empty afterwards
        (lambda: bool_of("enabled", 1), "enabled must be a bool; got 1 of type int."),
        (lambda: instance_of("sink_to()", 1, Sink), "sink_to() needs a Sink; got 1 of type int."),
        (lambda: instance_of("sink_to()", Sink, Sink), "sink_to() needs a Sink; got the class Sink."),
        (lambda: instance_of("error", 1, OSError), "error must be an OSError; got 1 of type int."),
    ],
)
def test_an_error_names_the_argument_what_it_must_be_and_what_it_is(check: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        check()


def test_what_passes_is_returned() -> None:
    sink = Sink()

    assert (int_of("n", -1), int_of("n", 1, minimum=1)) == (-1, 1)
    assert (text_of("t", "a"), text_of("t", "", empty=True)) == ("a", "")
    assert names_of("c", ["a", "b"]) == ("a", "b")
    assert bool_of("b", False) is False
    assert instance_of("s", sink, Sink, hint="build one.") is sink
