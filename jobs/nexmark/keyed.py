"""The functions with state of Nexmark's queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from flinkish.common import Row, Types
from flinkish.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    RuntimeContext,
)
from flinkish.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from jobs.nexmark.events import AUCTION, BID, PERSON

LONG, TEXT = Types.LONG(), Types.STRING()


class AuctionsOfPersons(KeyedCoProcessFunction):
    """Joins persons with the auctions that they sell, of which some come first."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.person = runtime_context.get_state(ValueStateDescriptor("person", PERSON))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", LONG))

    def process_element1(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> Iterable[tuple]:
        self.person.update(value)
        for auction in self.waiting.get():
            yield value.name, value.city, value.state, auction
        self.waiting.clear()

    def process_element2(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> Iterable[tuple]:
        person = self.person.value()
        if person is None:
            self.waiting.add(value.id)
        else:
            yield person.name, person.city, person.state, value.id


class WinningBids(KeyedCoProcessFunction):
    """Emits an auction and its highest bid, of equal ones the first, when the auction ends; takes auctions, then bids."""

    TYPE: Final = Types.TUPLE([AUCTION, BID])

    def open(self, runtime_context: RuntimeContext) -> None:
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", AUCTION))
        self.best = runtime_context.get_state(ValueStateDescriptor("best", BID))
        self.early = runtime_context.get_list_state(ListStateDescriptor("early", BID))

    def process_element1(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> None:
        self.auction.update(value)
        ctx.timer_service().register_event_time_timer(value.expires)
        for bid in self.early.get():
            self._offer(value, bid)
        self.early.clear()

    def process_element2(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> None:
        auction = self.auction.value()
        if auction is not None:
            self._offer(auction, value)
        else:
            # Its auction may be on its way, but not once the watermark has reached the bid.
            self.early.add(value)
            ctx.timer_service().register_event_time_timer(value.date_time)

    def _offer(self, auction: Row, bid: Row) -> None:
        if auction.date_time <= bid.date_time <= auction.expires:
            best = self.best.value()
            if best is None or (-bid.price, bid.date_time, bid.bidder) < (-best.price, best.date_time, best.bidder):
                self.best.update(bid)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[tuple]:
        auction = self.auction.value()
        if auction is None:
            self.early.update([bid for bid in self.early.get() if bid.date_time > timestamp])
        elif timestamp >= auction.expires:
            best = self.best.value()
            if best is not None:
                yield auction, best
            self.auction.clear()
            self.best.clear()


class AverageByCategory(KeyedProcessFunction):
    """Averages the prices of winning bids, rounded down."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum_and_count = runtime_context.get_state(ValueStateDescriptor("sum and count", Types.TUPLE([LONG, LONG])))

    def process_element(self, value: tuple, ctx: KeyedProcessFunction.Context) -> Iterable[tuple]:
        total, count = self.sum_and_count.value() or (0, 0)
        total, count = total + value[1].price, count + 1
        self.sum_and_count.update((total, count))
        yield ctx.get_current_key(), total // count


#: One entry: the whole table, which arrives as one record, so that bids wait for one record only.
SIDE_INPUT: Final = MapStateDescriptor("side input", TEXT, Types.MAP(LONG, TEXT))
_WAITING: Final = ListStateDescriptor("waiting", BID)


class AddSideInput(KeyedBroadcastProcessFunction):
    """Joins bids with a broadcast table by their key; bids that come before the table wait for it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state(_WAITING)

    def process_element(self, value: Row, ctx: Any) -> Iterable[tuple]:
        table = ctx.get_broadcast_state(SIDE_INPUT).get("table")
        if table is None:
            self.waiting.add(value)
        else:
            yield self._joined(value, table[ctx.get_current_key()])

    def process_broadcast_element(self, value: dict[int, str], ctx: Any) -> Iterable[tuple]:
        ctx.get_broadcast_state(SIDE_INPUT).put("table", value)
        found = []

        def join(key: int, waiting: Any) -> None:
            found.extend(self._joined(bid, value[key]) for bid in waiting.get())
            waiting.clear()

        ctx.apply_to_keyed_state(_WAITING, join)
        return found

    def _joined(self, bid: Row, text: str) -> tuple:
        return bid.auction, bid.bidder, bid.price, bid.date_time, text


def level(price: int) -> int:
    """Return the level of a price: 1, 2 or 3."""
    return 1 if price < 10_000 else 2 if price < 1_000_000 else 3


#: Types of the statistics: bids, different bidders, different auctions; each of all, and of the three levels of price.
STATISTICS: Final = [LONG] * 12


class Statistics(KeyedProcessFunction):
    """Counts bids, different bidders and different auctions; emits (key, the twelve numbers, time of the last bid).

    A bidder or auction is stored with the levels at which it was seen.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counts = runtime_context.get_state(ValueStateDescriptor("counts", Types.LIST(LONG)))
        self.last_time = runtime_context.get_state(ValueStateDescriptor("last time", LONG))
        self.bidders = runtime_context.get_map_state(MapStateDescriptor("bidders", LONG, LONG))
        self.auctions = runtime_context.get_map_state(MapStateDescriptor("auctions", LONG, LONG))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[tuple]:
        counts = list(self.counts.value() or [0] * 12)
        place = level(value.price)
        counts[0] += 1
        counts[place] += 1
        for start, seen, who in ((4, self.bidders, value.bidder), (8, self.auctions, value.auction)):
            levels = seen.get(who) or 0
            if not levels:
                counts[start] += 1
            if not levels & 1 << place:
                counts[start + place] += 1
                seen.put(who, levels | 1 << place)
        last_time = max(value.date_time, self.last_time.value() or 0)
        self.counts.update(counts)
        self.last_time.update(last_time)
        yield (ctx.get_current_key(), *counts, last_time)


class PriceStatistics(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.figures = runtime_context.get_state(ValueStateDescriptor("figures", Types.LIST(LONG)))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[tuple]:
        price = value.price
        bids, *levels, least, most, total = self.figures.value() or [0, 0, 0, 0, price, price, 0]
        levels[level(price) - 1] += 1
        bids, least, most, total = bids + 1, min(least, price), max(most, price), total + price
        self.figures.update([bids, *levels, least, most, total])
        yield (*ctx.get_current_key(), bids, *levels, least, most, total // bids, total)


class LastBid(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", LONG))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[Row]:
        last = self.last.value()
        if last is None or value.date_time >= last:
            self.last.update(value.date_time)
            yield value


class TopTen(KeyedProcessFunction):
    """Keeps the ten highest bids, of equal ones the first; emits (rank, bid) for each rank that has another bid."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.top = runtime_context.get_state(ValueStateDescriptor("top", Types.LIST(BID)))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[tuple]:
        before = self.top.value() or []
        if len(before) == 10 and value.price < before[-1].price:
            return
        top = sorted([*before, value], key=lambda bid: (-bid.price, bid.date_time, bid.bidder))[:10]
        self.top.update(top)
        for rank, bid in enumerate(top, 1):
            if rank > len(before) or before[rank - 1] != bid:
                yield rank, bid


class BidsWithAuctions(KeyedCoProcessFunction):
    """Joins bids with their auctions if these are of category 10; takes bids, then auctions."""

    TYPE: Final = Types.TUPLE([BID, AUCTION])

    def open(self, runtime_context: RuntimeContext) -> None:
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", AUCTION))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", BID))

    def process_element1(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> Iterable[tuple]:
        auction = self.auction.value()
        if auction is None:
            self.waiting.add(value)
        elif auction.category == 10:
            yield value, auction

    def process_element2(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> Iterable[tuple]:
        self.auction.update(value)
        if value.category == 10:
            for bid in self.waiting.get():
                yield bid, value
        self.waiting.clear()
