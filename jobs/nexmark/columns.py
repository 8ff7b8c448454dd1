"""Queries of Nexmark whose records stay columns: the same results as in queries.py, as rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flinkish.common import Time
from flinkish.datastream import DataStream, aggregates
from flinkish.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from jobs.nexmark.events import Streams
from jobs.nexmark.queries import EUROS, LONG, TEN_SECONDS, MostBids, tuples

_PRICE: Final = pc.field("price") * EUROS


def _whole(expression: Any) -> Any:
    """Return an expression whose value is a LONG, whatever Arrow makes of it."""
    return expression.cast(pa.int64())


def _remainder(dividend: Any, divisor: int) -> Any:
    """Return dividend % divisor, of numbers that are not negative."""
    return dividend - pc.divide(dividend, divisor) * divisor


def q0(streams: Streams) -> DataStream:
    return streams.bid.select("auction", "bidder", "price", "date_time", "extra")


def q1(streams: Streams) -> DataStream:
    return streams.bid.select("auction", "bidder", price=_PRICE, time=pc.field("date_time"), extra=pc.field("extra"))


def q2(streams: Streams) -> DataStream:
    return streams.bid.filter(_remainder(pc.field("auction"), 123) == 0).select("auction", "price")


def _counts(bids: DataStream, field: str, assigner: Any) -> DataStream:
    shown = {"start": aggregates.window_start(), "end": aggregates.window_end()}
    return bids.key_by(field).window(assigner).aggregate(key=aggregates.key(), bids=aggregates.count(), **shown)


def q5(streams: Streams) -> DataStream:
    """Count by columns; find the most in each window by records."""
    counted = _counts(streams.bid, "auction", SlidingEventTimeWindows.of(TEN_SECONDS, Time.seconds(2)))
    by_end = counted.key_by("end").window(TumblingEventTimeWindows.of(Time.seconds(2)))
    return by_end.process(MostBids(), tuples(LONG, LONG, LONG))


def q11(streams: Streams) -> DataStream:
    return _counts(streams.bid, "bidder", EventTimeSessionWindows.with_gap(TEN_SECONDS))


def q12(streams: Streams) -> DataStream:
    return _counts(streams.bid, "bidder", TumblingProcessingTimeWindows.of(TEN_SECONDS))


def _time_of_day() -> Any:
    hour = _remainder(pc.divide(pc.field("date_time"), 3_600_000), 24)
    night = pc.if_else((hour <= 6) | (hour >= 20), "nightTime", "otherTime")
    return pc.if_else((hour >= 8) & (hour <= 18), "dayTime", night)


def q14(streams: Streams) -> DataStream:
    chosen = streams.bid.filter((_PRICE > 1_000_000) & (_PRICE < 50_000_000))
    return chosen.select(
        "auction",
        "bidder",
        price=_PRICE,
        time_of_day=_time_of_day(),
        time=pc.field("date_time"),
        extra=pc.field("extra"),
        count=_whole(pc.count_substring(pc.field("extra"), pattern="c")),
    )


def q17(streams: Streams) -> DataStream:
    """Count the prices of each level by a field that is null for the others; the key is shown as a tuple, and taken apart."""
    price = pc.field("price")
    levels = {"low": price < 10_000, "middle": (price >= 10_000) & (price < 1_000_000), "high": price >= 1_000_000}
    marked = {name: pc.if_else(condition, 1, pa.scalar(None, pa.int64())) for name, condition in levels.items()}
    date = pc.strftime(pc.field("date_time").cast(pa.timestamp("ms", "UTC")), format="%Y-%m-%d")
    keyed = streams.bid.select("auction", "price", day=date, **marked).key_by(["auction", "day"])
    counts = {name: aggregates.count(name) for name in levels}
    prices = {"least": aggregates.min("price"), "most": aggregates.max("price"), "total": aggregates.sum("price")}
    found = keyed.aggregate(key=aggregates.key(), bids=aggregates.count(), **counts, **prices)
    auction, day = (pc.struct_field(pc.field("key"), position) for position in range(2))
    mean = pc.divide(pc.field("total"), pc.field("bids"))
    shown = {name: pc.field(name) for name in ("bids", *levels, "least", "most")}
    return found.select(auction=auction, day=day, **shown, mean=mean, total=pc.field("total"))


def q22(streams: Streams) -> DataStream:
    parts = pc.split_pattern(pc.field("url"), pattern="/")
    folders = {f"folder{number}": pc.list_element(parts, number + 3) for number in range(3)}
    return streams.bid.select("auction", "bidder", "price", "channel", **folders)


QUERIES: Final[dict[str, Callable[[Streams], DataStream]]] = {
    query.__name__: query for query in (q0, q1, q2, q5, q11, q12, q14, q17, q22)
}
