"""The queries of Nexmark in the DataStream API, one record at a time: each a function from `Streams` to a stream of tuples.

Where SQL updates a row, the stream has another result with the same key, and the last one is valid. Two queries differ from
Flink SQL on purpose: winning bids (q4, q9) are known when an auction ends, as in Apache Beam, so that nothing is taken back; and
amounts in euros are floating point.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

from flinkish.common import Row, Time, TypeInformation, Types
from flinkish.datastream import AggregateFunction, DataStream, ProcessWindowFunction
from flinkish.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from jobs.nexmark.events import BID, Streams
from jobs.nexmark.keyed import (
    SIDE_INPUT,
    STATISTICS,
    AddSideInput,
    AuctionsOfPersons,
    AverageByCategory,
    BidsWithAuctions,
    LastBid,
    PriceStatistics,
    Statistics,
    TopTen,
    WinningBids,
)

LONG, DOUBLE, TEXT = Types.LONG(), Types.DOUBLE(), Types.STRING()
TEN_SECONDS: Final = Time.seconds(10)
EUROS: Final = 0.908

#: Queries that are left out, and why.
LEFT_OUT: Final = {
    "q6": "the average of a seller's last ten closed auctions depends on the order of auctions that close at the same moment; "
    "Flink's Nexmark leaves it out, too, as its SQL cannot compute it from rows that are updated"
}


def tuples(*types: TypeInformation) -> TypeInformation:
    return Types.TUPLE(list(types))


def day(time: int) -> str:
    """Return the date of a time in milliseconds, in UTC."""
    return datetime.fromtimestamp(time // 1_000, UTC).strftime("%Y-%m-%d")


def minute(time: int) -> str:
    return f"{time // 3_600_000 % 24:02}:{time // 60_000 % 60:02}"


def q0(streams: Streams) -> DataStream:
    """Pass through: (auction, bidder, price, time, extra)."""
    types = tuples(LONG, LONG, LONG, LONG, TEXT)
    return streams.bid.map(lambda bid: (bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra), types)


def q1(streams: Streams) -> DataStream:
    """Currency conversion: as q0, with prices in euros."""
    types = tuples(LONG, LONG, DOUBLE, LONG, TEXT)
    return streams.bid.map(lambda bid: (bid.auction, bid.bidder, EUROS * bid.price, bid.date_time, bid.extra), types)


def q2(streams: Streams) -> DataStream:
    """Selection: (auction, price) for every 123rd auction."""
    chosen = streams.bid.filter(lambda bid: bid.auction % 123 == 0)
    return chosen.map(lambda bid: (bid.auction, bid.price), tuples(LONG, LONG))


def q3(streams: Streams) -> DataStream:
    """Local items: (name, city, state, auction) of sellers in Oregon, Idaho and California in category 10."""
    persons = streams.person.filter(lambda person: person.state in ("OR", "ID", "CA")).key_by(lambda p: p.id, LONG)
    auctions = streams.auction.filter(lambda auction: auction.category == 10).key_by(lambda a: a.seller, LONG)
    return persons.connect(auctions).process(AuctionsOfPersons(), tuples(TEXT, TEXT, TEXT, LONG))


def winning_bids(streams: Streams) -> DataStream:
    """Return a pair of rows, auction and winning bid, for each auction that has ended with bids."""
    auctions, bids = streams.auction.key_by(lambda a: a.id, LONG), streams.bid.key_by(lambda b: b.auction, LONG)
    return auctions.connect(bids).process(WinningBids(), WinningBids.TYPE)


def q4(streams: Streams) -> DataStream:
    """Average price for a category: (category, average of the winning bids so far)."""
    categories = winning_bids(streams).key_by(lambda pair: pair[0].category, LONG)
    return categories.process(AverageByCategory(), tuples(LONG, LONG))


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class WithWindow(ProcessWindowFunction[int, tuple, int, TimeWindow]):
    """Emits (key, aggregate, start, end of the window)."""

    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterable[tuple]:
        (value,) = elements
        window = context.window()
        return [(key, value, window.start, window.end)]


_COUNTED: Final = tuples(LONG, LONG, LONG, LONG)


def counts(numbers: DataStream, assigner: Any) -> DataStream:
    """Return (number, count, start, end) for windows: how often each number is there. SQL, too, sends on only what it needs."""
    keyed = numbers.key_by(lambda number: number, LONG)
    return keyed.window(assigner).aggregate(Count(), WithWindow(), Types.LONG(), _COUNTED)


class MostBids(ProcessWindowFunction[tuple, tuple, int, TimeWindow]):
    def process(self, key: int, context: Any, elements: Iterable[tuple]) -> Iterable[tuple]:
        found = list(elements)
        most = max(count for _, count, _, _ in found)
        return [(auction, count, end) for auction, count, _, end in found if count == most]


def q5(streams: Streams) -> DataStream:
    """Hot items: (auction, bids, end) of those with the most bids in the last 10 s, every 2 s."""
    auctions = streams.bid.map(lambda bid: bid.auction, LONG)
    counted = counts(auctions, SlidingEventTimeWindows.of(TEN_SECONDS, Time.seconds(2)))
    by_end = counted.key_by(lambda count: count[3], LONG)
    # All counts of a window have the time of its last millisecond.
    return by_end.window(TumblingEventTimeWindows.of(Time.seconds(2))).process(MostBids(), tuples(LONG, LONG, LONG))


class HighestBids(AggregateFunction):
    """Collects all bids that have the highest price."""

    def create_accumulator(self) -> list[Row]:
        return []

    def add(self, value: Row, accumulator: list[Row]) -> list[Row]:
        if accumulator and value.price < accumulator[0].price:
            return accumulator
        return self.merge(accumulator, [value])

    def get_result(self, accumulator: list[Row]) -> list[Row]:
        return accumulator

    def merge(self, a: list[Row], b: list[Row]) -> list[Row]:
        if not a or not b or a[0].price == b[0].price:
            return a + b
        return a if a[0].price > b[0].price else b


def q7(streams: Streams) -> DataStream:
    """Highest bid: (auction, price, bidder, time, extra) of the highest bids in each 10 s."""
    windows = streams.bid.window_all(TumblingEventTimeWindows.of(TEN_SECONDS))
    highest = windows.aggregate(HighestBids(), accumulator_type=Types.LIST(BID), output_type=Types.LIST(BID))
    return highest.flat_map(
        lambda bids: [(bid.auction, bid.price, bid.bidder, bid.date_time, bid.extra) for bid in bids],
        tuples(LONG, LONG, LONG, LONG, TEXT),
    )


def _new_sellers(persons: Iterable[Row], auctions: Iterable[Row]) -> Iterable[tuple]:
    if any(True for _ in auctions):
        for person in persons:
            yield person.id, person.name, person.date_time // 10_000 * 10_000


def q8(streams: Streams) -> DataStream:
    """New users: (id, name, start) of persons who came and began an auction within the same 10 s."""
    grouped = streams.person.co_group(streams.auction).where(lambda p: p.id, LONG).equal_to(lambda a: a.seller)
    return grouped.window(TumblingEventTimeWindows.of(TEN_SECONDS)).apply(_new_sellers, tuples(LONG, TEXT, LONG))


def q9(streams: Streams) -> DataStream:
    """Winning bids: the fields of the auction, and auction, bidder, price, time and extra of its winning bid."""
    return winning_bids(streams).map(
        lambda pair: (*pair[0], pair[1].auction, pair[1].bidder, pair[1].price, pair[1].date_time, pair[1].extra),
        tuples(LONG, TEXT, TEXT, LONG, LONG, LONG, LONG, LONG, LONG, TEXT, LONG, LONG, LONG, LONG, TEXT),
    )


def q10(streams: Streams) -> DataStream:
    """Log to files: as q0, with date and minute, which are the folders of the files: see buckets.py."""
    return streams.bid.map(
        lambda b: (b.auction, b.bidder, b.price, b.date_time, b.extra, day(b.date_time), minute(b.date_time)),
        tuples(LONG, LONG, LONG, LONG, TEXT, TEXT, TEXT),
    )


def q11(streams: Streams) -> DataStream:
    """User sessions: (bidder, bids, start, end) of the times in which a bidder did not pause for 10 s."""
    return counts(streams.bid.map(lambda bid: bid.bidder, LONG), EventTimeSessionWindows.with_gap(TEN_SECONDS))


def q12(streams: Streams) -> DataStream:
    """Processing time: (bidder, bids, start, end) in each 10 s of processing time."""
    return counts(streams.bid.map(lambda bid: bid.bidder, LONG), TumblingProcessingTimeWindows.of(TEN_SECONDS))


def q13(streams: Streams) -> DataStream:
    """Side input: (auction, bidder, price, time, value), with the value that a table has for the auction."""
    table = {key: f"value {key}" for key in range(10_000)}
    side = streams.env.from_collection([table], Types.MAP(LONG, TEXT)).broadcast(SIDE_INPUT)
    keyed = streams.bid.key_by(lambda bid: bid.auction % 10_000, LONG)
    return keyed.connect(side).process(AddSideInput(), tuples(LONG, LONG, LONG, LONG, TEXT))


def _time_of_day(time: int) -> str:
    hour = time // 3_600_000 % 24
    return "dayTime" if 8 <= hour <= 18 else "nightTime" if hour <= 6 or hour >= 20 else "otherTime"


def q14(streams: Streams) -> DataStream:
    """Calculation: (auction, bidder, price in euros, time of day, time, extra, number of c in it) for some prices."""
    chosen = streams.bid.filter(lambda bid: 1_000_000 < EUROS * bid.price < 50_000_000)
    return chosen.map(
        lambda b: (b.auction, b.bidder, EUROS * b.price, _time_of_day(b.date_time), b.date_time, b.extra, b.extra.count("c")),
        tuples(LONG, LONG, DOUBLE, TEXT, LONG, TEXT, LONG),
    )


def q15(streams: Streams) -> DataStream:
    """Bidding statistics: (day, then as in STATISTICS) after each bid."""
    counted = streams.bid.key_by(lambda bid: day(bid.date_time), TEXT).process(Statistics(), tuples(TEXT, *STATISTICS, LONG))
    return counted.map(lambda found: found[:-1], tuples(TEXT, *STATISTICS))


def q16(streams: Streams) -> DataStream:
    """Channel statistics: (channel, day, minute of the last bid, then as in STATISTICS) after each bid."""
    keyed = streams.bid.key_by(lambda bid: (bid.channel, day(bid.date_time)), tuples(TEXT, TEXT))
    counted = keyed.process(Statistics(), tuples(tuples(TEXT, TEXT), *STATISTICS, LONG))
    return counted.map(lambda found: (*found[0], minute(found[-1]), *found[1:-1]), tuples(TEXT, TEXT, TEXT, *STATISTICS))


def q17(streams: Streams) -> DataStream:
    """Auction statistics: (auction, day, bids, those of the three levels of price, least, most, average, sum) after each bid."""
    keyed = streams.bid.key_by(lambda bid: (bid.auction, day(bid.date_time)), tuples(LONG, TEXT))
    return keyed.process(PriceStatistics(), tuples(LONG, TEXT, *[LONG] * 8))


def q18(streams: Streams) -> DataStream:
    """Last bid: each bid that is the last one of its bidder for its auction so far."""
    return streams.bid.key_by(lambda bid: (bid.bidder, bid.auction), tuples(LONG, LONG)).process(LastBid(), BID)


def q19(streams: Streams) -> DataStream:
    """Top ten: (rank, bid) where a rank among the ten highest bids of an auction has another bid."""
    return streams.bid.key_by(lambda bid: bid.auction, LONG).process(TopTen(), tuples(LONG, BID))


def q20(streams: Streams) -> DataStream:
    """Bids with their auctions: (bid, auction) for auctions of category 10."""
    bids, auctions = streams.bid.key_by(lambda b: b.auction, LONG), streams.auction.key_by(lambda a: a.id, LONG)
    return bids.connect(auctions).process(BidsWithAuctions(), BidsWithAuctions.TYPE)


_CHANNEL_ID: Final = re.compile("(?:&|^)channel_id=([^&]*)")
#: The channels whose ids, their positions, are known.
CHANNEL_IDS: Final = ("apple", "google", "facebook", "baidu")


def _with_channel_id(bid: Row) -> Iterable[tuple]:
    name, found = bid.channel.lower(), None
    if name in CHANNEL_IDS:
        found = str(CHANNEL_IDS.index(name))
    elif match := _CHANNEL_ID.search(bid.url):
        found = match[1]
    if found is not None:
        yield bid.auction, bid.bidder, bid.price, bid.channel, found


def q21(streams: Streams) -> DataStream:
    """Channel id: (auction, bidder, price, channel, id), the id known by the name or found in the URL."""
    return streams.bid.flat_map(_with_channel_id, tuples(LONG, LONG, LONG, TEXT, TEXT))


def q22(streams: Streams) -> DataStream:
    """Directories: (auction, bidder, price, channel, and the three folders in the URL)."""
    return streams.bid.map(
        lambda bid: (bid.auction, bid.bidder, bid.price, bid.channel, *bid.url.split("/")[3:6]),
        tuples(LONG, LONG, LONG, TEXT, TEXT, TEXT, TEXT),
    )


QUERIES: Final[dict[str, Callable[[Streams], DataStream]]] = {
    query.__name__: query
    for query in (q0, q1, q2, q3, q4, q5, q7, q8, q9, q10, q11, q12, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22)
}
