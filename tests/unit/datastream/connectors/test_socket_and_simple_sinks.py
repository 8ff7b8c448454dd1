"""SocketSource, PrintSink, CollectSink, DiscardingSink."""

from __future__ import annotations

import pytest

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.typeinfo import Types
from flinkish.common.types import Row
from flinkish.datastream.connectors.collect import CollectSink
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.print import PrintSink, line_prefix
from flinkish.datastream.connectors.socket import SocketSource
from tests.unit.datastream.connectors.fakes import SinkRun


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidProgramError, match="port"):
        SocketSource("localhost", 70_000)
    with pytest.raises(InvalidArgumentError, match="delimiter"):
        SocketSource("localhost", 1, delimiter="")
    with pytest.raises(InvalidArgumentError, match="host"):
        SocketSource("", 1)
    with pytest.raises(InvalidArgumentError, match="'hex' is not a character set"):
        SocketSource("localhost", 1, charset_name="hex")


@pytest.mark.parametrize(
    ("identifier", "parallelism", "prefix"), [(None, 1, ""), (None, 2, "2> "), ("id", 1, "id> "), ("id", 2, "id:2> ")]
)
def test_printed_lines_begin_as_flink_s(identifier: str | None, parallelism: int, prefix: str) -> None:
    assert line_prefix(identifier, 1, parallelism) == prefix


def test_print_sends_the_text_of_records_once_an_epoch() -> None:
    run = SinkRun(PrintSink(), Types.TUPLE([Types.STRING(), Types.INT()]), parallelism=2).epoch([("a", 1), ("b", 2), ("c", 3)])
    run.epoch([])
    assert [context.sent for context in run.contexts] == [[("print", ["1> (a,1)", "1> (c,3)"])], [("print", ["2> (b,2)"])]]


def test_collect_sends_records_as_they_are() -> None:
    run = SinkRun(CollectSink()).epoch([Row(1), None])
    run.epoch([2])
    assert run.contexts[0].sent == [("collect", [Row(1), None]), ("collect", [2])]


def test_discarding_keeps_nothing() -> None:
    run = SinkRun(DiscardingSink()).epoch([1, 2])
    assert (run.contexts[0].sent, run.states) == ([], [{}])
