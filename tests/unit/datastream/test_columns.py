"""What programs say about columns: which operators work on them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest

from flinkish.common import Configuration, Duration, Row, Time, Types, WatermarkStrategy
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.datastream import DataStream, OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment, aggregates
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flinkish.graph.chaining import build_job_graph
from flinkish.graph.explain import explain_program
from flinkish.graph.stream_graph_generator import generate
from flinkish.server.views.jobs import plan_of

ROW = Types.ROW_NAMED(["key", "value", "name"], [Types.LONG(), Types.DOUBLE(), Types.STRING()])
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_source(NumberSequenceSource(0, 9), WatermarkStrategy.no_watermarks(), "numbers")


def rows(env: StreamExecutionEnvironment) -> DataStream:
    return numbers(env).map_batches(lambda batch: batch, ROW)


def drawn(env: StreamExecutionEnvironment) -> str:
    return explain_program(env._program(None)).split("\n\n")[0]


def marks(env: StreamExecutionEnvironment) -> dict[str, str]:
    """Return what explain says about columns, by the name of the operator."""
    drawing = drawn(env).splitlines()[1:]
    return {
        line.split("  #")[0].split("] ")[-1]: line.split(", uid ")[1].partition(", ")[2].partition(" (Window(")[0]
        for line in drawing
    }


def test_operators_on_columns_are_marked_and_the_others_have_a_reason(env: StreamExecutionEnvironment) -> None:
    high = rows(env).filter(pc.field("value") > 1.0)
    by_field = high.key_by("key").aggregate(key=aggregates.key(), total=aggregates.sum("value")).name("by field")
    by_field.sink_to(DiscardingSink()).name("drop")
    high.key_by(lambda row: row.key + 1).aggregate(total=aggregates.sum("value")).name("by function").print()
    high.key_by(["key", "name"]).aggregate(key=aggregates.key(), total=aggregates.sum("value")).name("by two fields").print()
    key_type = Types.ROW([Types.LONG(), Types.STRING()])
    high.key_by(["key", "name"], key_type).aggregate(total=aggregates.sum("value")).name("by a row").print()
    high.key_by("key").aggregate(last=aggregates.last("name")).name("last").sink_to(DiscardingSink())
    high.key_by("key").sum("value").name("sum").sink_to(DiscardingSink())
    high.key_by("key").max_by("name").name("max by name").sink_to(DiscardingSink())
    high.key_by("key").deduplicate().name("first").sink_to(DiscardingSink())
    high.key_by("key").deduplicate(Time.seconds(5)).name("first in 5 s").sink_to(DiscardingSink())
    greatest = high.key_by("key").top_n(3, "value").name("greatest")
    greatest.key_by("name").deduplicate().name("after changes").sink_to(DiscardingSink()).name("changes")
    high.shuffle().select("key").name("shuffled").sink_to(DiscardingSink())
    high.map(len, Types.LONG()).name("mapped").sink_to(DiscardingSink())
    found = marks(env)
    assert {found[name] for name in ("Source: numbers", "Map Batches", "Filter", "by field", "Sink: drop")} == {"columns"}
    other = "records: the key is no integer or text in a field, nor several of them; key_by(field) keeps columns"
    assert found["by function"] == found["by a row"] == other
    assert found["by two fields"] == "columns"
    assert found["Sink: Print to Std. Out"] == "records: the sink writes records"
    assert found["last"] == "columns"
    assert found["sum"] == found["first"] == found["greatest"] == "columns"
    assert found["after changes"] == found["Sink: changes"] == "records: its input is records"
    assert found["first in 5 s"] == "records: its time-to-live looks at each record"
    assert found["max by name"] == "records: max_by('name') looks at each record"
    assert found["mapped"].startswith("records: calls ")
    assert found["shuffled"] == "columns"


def test_a_side_output_is_records(env: StreamExecutionEnvironment) -> None:
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner("key")
    late = OutputTag("late", ROW)
    windows = (
        rows(env).assign_timestamps_and_watermarks(by_time).key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(5)))
    )
    totals = windows.side_output_late_data(late).aggregate(key=aggregates.key(), total=aggregates.sum("value")).name("totals")
    side = totals.get_side_output(late).key_by("key").deduplicate().name("late ones")
    side.sink_to(DiscardingSink()).name("drop")
    found = marks(env)
    assert (found["totals"], found["late ones"], found["Sink: drop"]) == ("columns", *["records: its input is records"] * 2)


def test_a_program_without_columns_is_drawn_as_before(env: StreamExecutionEnvironment) -> None:
    numbers(env).map(str, Types.STRING()).print()
    assert "records" not in drawn(env)


def test_windows_say_why_they_take_records(env: StreamExecutionEnvironment) -> None:
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner("key")
    timed = rows(env).assign_timestamps_and_watermarks(by_time)
    tumbling = timed.key_by("name").window(TumblingEventTimeWindows.of(Time.seconds(5)))
    tumbling.aggregate(total=aggregates.sum("value")).name("tumbling").sink_to(DiscardingSink())
    sessions = timed.key_by("name").window(EventTimeSessionWindows.with_gap(Time.seconds(5)))
    sessions.aggregate(total=aggregates.sum("value")).name("sessions").sink_to(DiscardingSink())
    counts = timed.key_by("name").count_window(3)
    counts.aggregate(total=aggregates.sum("value")).name("counts").sink_to(DiscardingSink())
    overlapping = timed.key_by("name").count_window(3, 2)
    overlapping.aggregate(total=aggregates.sum("value")).name("overlapping").sink_to(DiscardingSink())
    every_second = timed.key_by("name").window(TumblingEventTimeWindows.of(Time.seconds(5))).trigger(CountTrigger.of(2))
    every_second.aggregate(total=aggregates.sum("value")).name("every second").sink_to(DiscardingSink())
    over_all = timed.key_by("name").window(GlobalWindows.create()).trigger(CountTrigger.of(2))
    over_all.aggregate(total=aggregates.sum("value")).name("global").sink_to(DiscardingSink())
    sessions.reduce(lambda one, other: one).name("reduce").sink_to(DiscardingSink())
    by_function = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda row, _: row.key)
    rows(env).assign_timestamps_and_watermarks(by_function).name("function").sink_to(DiscardingSink())
    by_text = WatermarkStrategy.no_watermarks().with_timestamp_assigner("name")
    rows(env).assign_timestamps_and_watermarks(by_text).name("text").sink_to(DiscardingSink())
    found = marks(env)
    assert found["tumbling"] == "columns"
    assert found["sessions"] == "columns"
    assert found["counts"] == "columns"
    assert found["overlapping"] == "columns"
    assert found["global"] == "columns"
    known = (
        "tumbling and sliding windows of time or of a number of records, and sessions with a fixed gap, with the default trigger"
    )
    assert found["every second"] == f"records: only {known}, and global windows with a CountTrigger work on columns"
    assert found["reduce"].startswith("records: the windows call a function for each record")
    assert found["function"] == "records: a function assigns event times; with_timestamp_assigner(field) would not"
    assert found["text"] == "records: the field 'name' with the event time is no integer"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda stream: stream.key_by("nothing"), r"key_by\('nothing'\): there is no such field"),
        (lambda stream: stream.key_by(7), r"key_by\(7\): there is no such field"),
        (lambda stream: stream.select(), r"select\(\) needs at least one field"),
        (lambda stream: stream.select("nothing"), r"there are no fields \['nothing'\]; the records have \['key', "),
        (lambda stream: stream.select(twice="key"), r"select\(\): twice must be a Expression|select\(\): twice"),
        (lambda stream: stream.select(twice=pc.field("nothing")), "cannot be computed for the columns"),
        (lambda stream: stream.filter(pc.field("value") + 1), "must be Boolean"),
        (lambda stream: stream.filter(pc.field("name") > 1), "cannot be computed for the columns"),
        (lambda stream: stream.key_by("key").aggregate(), "needs at least one aggregate"),
        (lambda stream: stream.key_by("key").aggregate(key=aggregates.key()), "something to compute of the records"),
        (lambda stream: stream.key_by("key").aggregate(total=sum), "total must be an aggregate; got <built-in function sum>"),
        (lambda stream: stream.key_by("key").aggregate(total=aggregates.sum("name")), "needs a field of numbers"),
        (lambda stream: stream.key_by("key").aggregate(total=aggregates.sum("nothing")), "there is no such field"),
        (lambda stream: stream.key_by("key").aggregate(start=aggregates.window_start(), n=aggregates.count()), "are for windows"),
        (
            lambda stream: stream.key_by("key").count_window(5).aggregate(end=aggregates.window_end(), n=aggregates.count()),
            "of time",
        ),
        (lambda stream: stream.key_by("key").aggregate(per="batch", n=aggregates.count()), "per must be 'record' or 'epoch'"),
        (lambda stream: stream.map_batches(len, batch_format="polars"), "batch_format must be 'pyarrow' or 'pandas'"),
        (lambda stream: stream.map(len).map_batches(len), "needs records of a declared type that Arrow has, too"),
        (lambda stream: stream.map(len).select("key"), "needs records of a declared type that Arrow has, too"),
    ],
)
def test_what_cannot_be_is_refused(env: StreamExecutionEnvironment, build: Callable[[DataStream], Any], message: str) -> None:
    with pytest.raises((InvalidProgramError, InvalidArgumentError), match=message):
        build(rows(env))


def test_a_window_takes_a_function_or_aggregates_but_not_both(env: StreamExecutionEnvironment) -> None:
    windows = rows(env).key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(5)))
    with pytest.raises(InvalidArgumentError, match="either a function, with its types, or named aggregates"):
        windows.aggregate(None, None, None, Types.LONG(), n=aggregates.count())  # type: ignore[call-overload]


def test_a_key_that_is_a_field_has_its_type(env: StreamExecutionEnvironment) -> None:
    assert rows(env).key_by("name").get_type().get_field_types()[0] == Types.STRING()  # type: ignore[attr-defined]
    assert env.from_collection([("a", 1)], PAIR).key_by(1).get_type().get_field_types()[0] == Types.LONG()  # type: ignore[attr-defined]


def test_the_page_shows_which_operators_are_columns(env: StreamExecutionEnvironment) -> None:
    rows(env).key_by("key").aggregate(n=aggregates.count()).map(str, Types.STRING()).print()
    graph = build_job_graph(generate(env._program(None)))
    shown = [node.description for node in plan_of(graph, Configuration(), "job").plan.nodes]
    assert "Source: numbers (columns)<br/>+- Map Batches (columns)<br/>" in shown
    assert any(text.startswith("Aggregate (columns)<br/>+- Map (records: calls ") for text in shown)


def test_windows_that_the_general_operator_runs_are_not_called_columns(env: StreamExecutionEnvironment) -> None:
    keyed = rows(env).key_by("key")
    with_gaps = keyed.window(SlidingEventTimeWindows.of(Time.seconds(1), Time.seconds(2)))
    with_gaps.aggregate(n=aggregates.count()).name("gaps").sink_to(DiscardingSink())
    for_ever = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).allowed_lateness(2**62)
    for_ever.aggregate(n=aggregates.count()).name("for ever").sink_to(DiscardingSink())
    found = marks(env)
    assert {found[name] for name in ("gaps", "for ever")} == {
        "records: only tumbling and sliding windows of time or of a number of records, and sessions with a fixed gap, with the "
        "default trigger, and global windows with a CountTrigger work on columns"
    }


def test_a_key_without_a_type_that_is_shown_needs_records(env: StreamExecutionEnvironment) -> None:
    keyed = rows(env).key_by(lambda row: row.key)
    keyed.aggregate(key=aggregates.key(), n=aggregates.count()).name("shown").sink_to(DiscardingSink())
    keyed.aggregate(n=aggregates.count()).name("not shown").sink_to(DiscardingSink())
    found = marks(env)
    assert found["shown"] == "records: the key has no declared type, but is shown"
    assert found["not shown"] == "columns"


def test_aggregates_say_why_they_take_records(env: StreamExecutionEnvironment) -> None:
    times = Types.ROW_NAMED(["at"], [Types.LIST(Types.SQL_TIMESTAMP())])
    row_type = Types.ROW_NAMED(
        ["key", "name", "times", "object"], [Types.LONG(), Types.STRING(), times, Types.PICKLED_BYTE_ARRAY()]
    )
    keyed = numbers(env).map(lambda number: Row(number, "", None, None), row_type).key_by("key")
    why = {
        "max('name') looks at each record": aggregates.max("name"),
        "max_by('key') looks at each record": aggregates.max_by("key", by="name"),
        "last('object') takes values that no column holds": aggregates.last("object"),
        "state cuts times in nested fields to milliseconds": aggregates.max_by("times", by="key"),
        "its input is records": aggregates.max_by("name", by="key"),
    }
    for reason, aggregate in why.items():
        keyed.aggregate(found=aggregate).name(reason).sink_to(DiscardingSink())
    rows(env).key_by("key").aggregate(n=aggregates.count()).sink_to(DiscardingSink())
    found = marks(env)
    assert {name: found[name] for name in why} == {reason: f"records: {reason}" for reason in why}


def test_a_plan_makes_no_generator_of_the_program(env: StreamExecutionEnvironment) -> None:
    def supplier() -> Any:
        raise AssertionError("only tasks make generators")

    timed = rows(env).assign_timestamps_and_watermarks(WatermarkStrategy.for_generator(supplier))
    timed.name("timed").sink_to(DiscardingSink())
    assert marks(env)["timed"] == "records: the program's own generator of watermarks looks at each record"


def test_batch_mode_sorts_records(env: StreamExecutionEnvironment) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    rows(env).filter(pc.field("value") > 1.0).key_by("key").aggregate(total=aggregates.sum("value")).name("sums").print()
    found = marks(env)
    assert found["Filter"] == "columns"
    assert "batch mode sorts records by key" in found["sums"]
