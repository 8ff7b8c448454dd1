"""Metrics of user functions and the registry they are read from."""

from __future__ import annotations

import itertools
import logging

import pytest

from flinkish.common.clock import ManualClock
from flinkish.common.errors import InvalidArgumentError
from flinkish.metrics import MetricRegistry
from flinkish.metrics.registry import merge


def test_all_kinds_are_read_by_dotted_name() -> None:
    registry = MetricRegistry(ManualClock())
    group = registry.root.add_group("parser").add_group("file", "a.csv")
    counter = group.counter("errors")
    counter.inc()
    counter.inc(5)
    counter.dec(2)
    group.gauge("size", lambda: 7)
    group.meter("lines").mark_event(120)
    for value in (3, 1, 2):
        group.distribution("length").update(value)
    assert registry.values() == {
        "parser.file.a.csv.errors": 4,
        "parser.file.a.csv.size": 7,
        "parser.file.a.csv.lines": {"count": 120, "rate": 2.0},
        "parser.file.a.csv.length": {"count": 3, "sum": 6, "min": 1, "max": 3},
    }
    assert counter.get_count() == 4


def test_metrics_in_groups_of_a_key_and_a_value_have_labels_and_a_name_without_values() -> None:
    registry = MetricRegistry(ManualClock())
    group = registry.root.add_group("source").add_group("topic", "a.b")
    group.counter("plain")
    group.add_group("inner").add_group("partition", "3").gauge("offset", lambda: 7)
    registry.root.add_group("source").counter("all")
    assert registry.values() == {"source.topic.a.b.plain": 0, "source.topic.a.b.inner.partition.3.offset": 7, "source.all": 0}
    assert registry.labelled() == {
        "source.topic.a.b.plain": ("source.topic.plain", (("topic", "a.b"),)),
        "source.topic.a.b.inner.partition.3.offset": (
            "source.topic.inner.partition.offset",
            (("topic", "a.b"), ("partition", "3")),
        ),
    }


def test_the_same_name_is_the_same_metric_and_a_new_gauge_replaces_the_old() -> None:
    registry = MetricRegistry(ManualClock())
    registry.root.counter("n").inc()
    registry.root.counter("n").inc()
    registry.root.gauge("g", lambda: 1)
    registry.root.gauge("g", lambda: 2)
    assert registry.values() == {"n": 2, "g": 2}


def test_a_name_cannot_be_two_kinds_of_metric() -> None:
    registry = MetricRegistry(ManualClock())
    registry.root.counter("n")
    with pytest.raises(InvalidArgumentError, match="'n' is a Counter already, so it cannot be a Meter"):
        registry.root.meter("n")


def test_the_rate_of_a_meter_forgets_what_is_older_than_its_span() -> None:
    clock = ManualClock()
    meter = MetricRegistry(clock).root.meter("m", 10)
    meter.mark_event(5)
    meter.mark_event(5)
    clock.advance(9_999)
    assert meter.get_rate() == 1.0
    clock.advance(1)
    meter.mark_event()
    assert meter.get_rate() == 0.1
    assert meter.get_count() == 11


def test_a_gauge_that_raises_is_left_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    registry = MetricRegistry(ManualClock())
    registry.root.gauge("bad", lambda: 1 // 0)
    registry.root.counter("good")
    with caplog.at_level(logging.WARNING):
        assert registry.values() == {"good": 0}
        assert registry.values() == {"good": 0}
    assert len(caplog.records) == 1
    assert "bad" in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda root: root.counter(""),
        lambda root: root.add_group(5),
        lambda root: root.add_group("key", 5),
        lambda root: root.gauge("g", 5),
        lambda root: root.meter("m", 0),
    ],
)
def test_wrong_arguments_are_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidArgumentError):
        wrong(MetricRegistry(ManualClock()).root)


def test_a_gauge_takes_no_name_of_another_metric_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    registry = MetricRegistry(ManualClock())
    registry.root.counter("n").inc()
    with pytest.raises(InvalidArgumentError, match="'n' is a Counter already"):
        registry.root.gauge("n", lambda: 1)
    registry.root.gauge("g", lambda: 1)
    registry.root.gauge("g", lambda: 2)
    assert "There is a gauge g already" in caplog.text
    assert registry.values() == {"n": 1, "g": 2}


def test_values_of_subtasks_are_put_together() -> None:
    first = {"n": 1, "m": {"count": 2, "rate": 1.0}, "d": {"count": 1, "sum": 5, "min": 5, "max": 5}}
    second = {"n": 2, "m": {"count": 3, "rate": 0.5}, "d": {"count": 2, "sum": 10, "min": 1, "max": 9}, "only": 7}
    assert merge([first, second]) == {
        "n": 3,
        "m": {"count": 5, "rate": 1.5},
        "d": {"count": 3, "sum": 15, "min": 1, "max": 9},
        "only": 7,
    }
    empty = {"d": {"count": 0, "sum": 0, "min": None, "max": None}}
    assert merge([empty, second])["d"] == merge([second, empty])["d"] == second["d"]
    assert merge([]) == {}


def test_of_metrics_of_one_name_and_several_kinds_one_is_kept() -> None:
    kinds = [{"count": 2, "rate": 1.0}, {"count": 1, "sum": 5, "min": 5, "max": 5}, 7, "text"]
    for first, second in itertools.permutations(kinds, 2):
        assert merge([{"x": first}, {"x": second}]) in ({"x": first}, {"x": second})
