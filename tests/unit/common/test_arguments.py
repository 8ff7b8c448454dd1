"""Checks of arguments: what passes, and what the error says."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from flinkish.common.arguments import bool_of, bytes_of, callable_of, instance_of, int_of, names_of, number_of, text_of
from flinkish.common.errors import InvalidArgumentError


class Sink:
    pass


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: int_of("count", True), "count must be an int; got True of type bool."),
        (lambda: int_of("count", "1", minimum=1), "count must be an int of at least 1; got '1' of type str."),
        (lambda: int_of("count", 0, minimum=1), "count must be an int of at least 1; got 0 of type int."),
        (lambda: int_of("port", 70_000, maximum=65_535), "port must be an int of at most 65535; got 70000 of type int."),
        (lambda: int_of("scale", -1, minimum=0, maximum=9), "scale must be an int from 0 to 9; got -1 of type int."),
        (lambda: number_of("factor", True), "factor must be a number; got True of type bool."),
        (lambda: number_of("factor", 0, above=0), "factor must be a number greater than 0; got 0 of type int."),
        (lambda: number_of("factor", float("nan"), above=0), "factor must be a number greater than 0; got nan of type float."),
        (lambda: bytes_of("delimiter", "\n"), "delimiter must be bytes; got '\\n' of type str."),
        (lambda: callable_of("gauge()", 1), "gauge() needs a function; got 1 of type int."),
        (lambda: callable_of("delta", 1, "a function of two records"), "delta must be a function of two records; got 1 of type"),
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
    assert (int_of("n", 9, maximum=9), number_of("x", 0.5, above=0), bytes_of("b", bytearray(b"a"))) == (9, 0.5, b"a")
    assert callable_of("f", len) is len
    assert instance_of("s", sink, Sink, hint="build one.") is sink
