"""Queries of Nexmark whose records stay columns: the same results as in queries.py, as rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkish.common import Time, Types
from flinkish.common.typeinfo import RowTypeInfo
from flinkish.datastream import DataStream, aggregates
from flinkish.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from jobs.nexmark.events import Streams
from jobs.nexmark.keyed import AuctionsOfPersons
from jobs.nexmark.queries import CHANNEL_IDS, EUROS, LONG, TEN_SECONDS, TEXT, HighestBids, MostBids, tuples

_PRICE: Final = pc.field("price") * EUROS


def _whole(expression: Any) -> Any:
    """Return an expression whose value is a LONG, whatever Arrow makes of it."""
    return expression.cast(pa.int64())


def _remainder(dividend: Any, divisor: int) -> Any:
    """Return dividend % divisor, of numbers that are not negative."""
    return dividend - pc.divide_checked(dividend, divisor) * divisor


def _time() -> Any:
    return pc.field("date_time").cast(pa.timestamp("ms", "UTC"))


def _day() -> Any:
    return pc.strftime(_time(), format="%Y-%m-%d")


def q0(streams: Streams) -> DataStream:
    return streams.bid.select("auction", "bidder", "price", "date_time", "extra")


def q1(streams: Streams) -> DataStream:
    return streams.bid.select("auction", "bidder", price=_PRICE, time=pc.field("date_time"), extra=pc.field("extra"))


def q2(streams: Streams) -> DataStream:
    return streams.bid.filter(_remainder(pc.field("auction"), 123) == 0).select("auction", "price")


def q3(streams: Streams) -> DataStream:
    """Choose persons and auctions by columns; join them by records."""
    persons = streams.person.filter(pc.field("state").isin(["OR", "ID", "CA"])).key_by("id")
    auctions = streams.auction.filter(pc.field("category") == 10).key_by("seller")
    return persons.connect(auctions).process(AuctionsOfPersons(), tuples(TEXT, TEXT, TEXT, LONG))


def _counts(bids: DataStream, field: str, assigner: Any) -> DataStream:
    shown = {"start": aggregates.window_start(), "end": aggregates.window_end()}
    return bids.key_by(field).window(assigner).aggregate(key=aggregates.key(), bids=aggregates.count(), **shown)


def _mark(field: str, group: Callable[[Any], Any], batch: pa.RecordBatch) -> pa.RecordBatch:
    _, groups = np.unique(group(batch), return_inverse=True)
    values = batch[field].to_numpy()
    most = np.full(len(batch), np.iinfo(np.int64).min)
    np.maximum.at(most, groups, values)
    return batch.append_column("leads", pa.array(values == most[groups]))


def _leaders(rows: DataStream, field: str, group: Callable[[Any], Any]) -> DataStream:
    """Keep the rows with the greatest value of a field in their group, of those in a batch.

    So few rows are left to be compared with those of all batches, one by one. `group` returns a number for each row of a batch.
    """
    row_type = rows.get_type()
    assert isinstance(row_type, RowTypeInfo)
    names = row_type.get_field_names()
    marked = Types.ROW_NAMED([*names, "leads"], [*row_type.get_field_types(), Types.BOOLEAN()])
    return rows.map_batches(partial(_mark, field, group), marked).filter(pc.field("leads")).select(*names)


def q5(streams: Streams) -> DataStream:
    """Count by columns; find the most in each window by records, from those with the most of a subtask."""
    counted = _counts(streams.bid, "auction", SlidingEventTimeWindows.of(TEN_SECONDS, Time.seconds(2)))
    by_end = (
        _leaders(counted, "bids", lambda batch: batch["end"]).key_by("end").window(TumblingEventTimeWindows.of(Time.seconds(2)))
    )
    return by_end.process(MostBids(), tuples(LONG, LONG, LONG))


def q7(streams: Streams) -> DataStream:
    """Find the highest bids of each batch by columns, and of those the highest of each window by records."""
    bids = streams.bid.select("auction", "price", "bidder", "date_time", "extra")
    leaders = _leaders(bids, "price", lambda batch: batch["date_time"].to_numpy() // 10_000)
    windows = leaders.window_all(TumblingEventTimeWindows.of(TEN_SECONDS))
    found = Types.LIST(leaders.get_type())
    highest = windows.aggregate(HighestBids(), accumulator_type=found, output_type=found)
    return highest.flat_map(lambda bids: map(tuple, bids), tuples(LONG, LONG, LONG, LONG, TEXT))


def q8(streams: Streams) -> DataStream:
    """Count the auctions of each person and window; persons have their names with them, and come once."""
    no_name, none = pc.scalar(pa.scalar(None, pa.string())), pc.scalar(pa.scalar(None, pa.int64()))
    persons = streams.person.select("id", "name", auction=none)
    auctions = streams.auction.select(id=pc.field("seller"), name=no_name, auction=pc.field("id"))
    windows = persons.union(auctions).key_by("id").window(TumblingEventTimeWindows.of(TEN_SECONDS))
    counted = windows.aggregate(
        id=aggregates.key(),
        name=aggregates.first("name"),
        start=aggregates.window_start(),
        auctions=aggregates.count("auction"),
    )
    return counted.filter(pc.field("name").is_valid() & (pc.field("auctions") > 0)).select("id", "name", "start")


def q10(streams: Streams) -> DataStream:
    """Show date and minute as fields, by which a sink makes folders."""
    minute = pc.strftime(_time(), format="%H:%M")
    return streams.bid.select("auction", "bidder", "price", "date_time", "extra", dt=_day(), hm=minute)


def q11(streams: Streams) -> DataStream:
    return _counts(streams.bid, "bidder", EventTimeSessionWindows.with_gap(TEN_SECONDS))


def q12(streams: Streams) -> DataStream:
    return _counts(streams.bid, "bidder", TumblingProcessingTimeWindows.of(TEN_SECONDS))


def _with_value(values: pa.Array, batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column("value", values.take(pa.array(batch["auction"].to_numpy() % len(values))))


def q13(streams: Streams) -> DataStream:
    """Join with the table as a batch of values: it is complete before the first bid, so nothing waits for it."""
    values = pa.array([f"value {key}" for key in range(10_000)])
    types = Types.ROW_NAMED(["auction", "bidder", "price", "date_time", "value"], [LONG, LONG, LONG, LONG, TEXT])
    return streams.bid.select("auction", "bidder", "price", "date_time").map_batches(partial(_with_value, values), types)


def _time_of_day() -> Any:
    hour = _remainder(pc.divide_checked(pc.field("date_time"), 3_600_000), 24)
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


def _one_if(condition: Any) -> Any:
    """Return 1, or null if a condition does not hold: what a count counts."""
    return pc.if_else(condition, 1, pa.scalar(None, pa.int64()))


def q15(streams: Streams) -> DataStream:
    """Show the numbers of each day that had bids in an epoch.

    Each row that is aggregated counts for one number, of its kind: a bid for its level of price, the first bid of a bidder, the
    first one of a bidder at a level, ... . So deduplication counts what is different.
    """
    price = pc.field("price")
    level = pc.if_else(price < 10_000, 1, pc.if_else(price < 1_000_000, 2, 3))
    bids = streams.bid.select("bidder", "auction", day=_day(), level=_whole(level))
    parts = [
        bids.select("day", kind=kind, id=pc.field(name))
        for name, first in (("bidder", 4), ("auction", 8))
        for kind in (pc.scalar(first), pc.field("level") + first)
    ]
    first_ones = parts[0].union(*parts[1:]).key_by(["day", "kind", "id"]).deduplicate().select("day", "kind")
    rows = first_ones.union(bids.select("day", kind=pc.field("level")))
    kind = pc.field("kind")
    marks = {f"n{number}": _one_if(kind == number if number else kind < 4) for number in range(12)}
    counts = {name: aggregates.count(name) for name in marks}
    return rows.select("day", **marks).key_by("day").aggregate(per="epoch", day=aggregates.key(), **counts)


def q17(streams: Streams) -> DataStream:
    """Count the prices of each level by a field that is null for the others; the key is shown as a tuple, and taken apart."""
    price = pc.field("price")
    levels = {"low": price < 10_000, "middle": (price >= 10_000) & (price < 1_000_000), "high": price >= 1_000_000}
    marked = {name: _one_if(condition) for name, condition in levels.items()}
    keyed = streams.bid.select("auction", "price", day=_day(), **marked).key_by(["auction", "day"])
    counts = {name: aggregates.count(name) for name in levels}
    prices = {"least": aggregates.min("price"), "most": aggregates.max("price"), "total": aggregates.sum("price")}
    found = keyed.aggregate(key=aggregates.key(), bids=aggregates.count(), **counts, **prices)
    auction, day = (pc.struct_field(pc.field("key"), position) for position in range(2))
    mean = pc.divide_checked(pc.field("total"), pc.field("bids"))
    shown = {name: pc.field(name) for name in ("bids", *levels, "least", "most")}
    return found.select(auction=auction, day=day, **shown, mean=mean, total=pc.field("total"))


def q18(streams: Streams) -> DataStream:
    """Show, after each bid, the last one of its bidder for its auction; of those at the same time, the first one."""
    return streams.bid.key_by(["bidder", "auction"]).max_by("date_time")


def q21(streams: Streams) -> DataStream:
    names = pa.array(CHANNEL_IDS)
    known = pc.index_in(pc.utf8_lower(pc.field("channel")), value_set=names).cast(pa.string())
    in_url = pc.struct_field(pc.extract_regex(pc.field("url"), pattern="(?:&|^)channel_id=(?P<id>[^&]*)"), 0)
    found = streams.bid.select("auction", "bidder", "price", "channel", id=pc.coalesce(known, in_url))
    return found.filter(pc.is_valid(pc.field("id")))


def q22(streams: Streams) -> DataStream:
    parts = pc.split_pattern(pc.field("url"), pattern="/")
    folders = {f"folder{number}": pc.list_element(parts, number + 3) for number in range(3)}
    return streams.bid.select("auction", "bidder", "price", "channel", **folders)


QUERIES: Final[dict[str, Callable[[Streams], DataStream]]] = {
    query.__name__: query for query in (q0, q1, q2, q3, q5, q7, q8, q10, q11, q12, q13, q14, q15, q17, q18, q21, q22)
}
