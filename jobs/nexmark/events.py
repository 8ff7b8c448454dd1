"""The data of Nexmark: persons, auctions and bids of an auction house, each a pure function of the number of its event.

Of each 50 events, the first is a person, the next three are auctions and the other 46 bids. Ratios, sizes and values are those of
Nexmark's generator with its default configuration (Apache Beam, github.com/nexmark/nexmark):

- half of the bids are for the hot auction, the first of the last hundred; the others for one of the last hundred, or for one of
  the next ten, which are not there yet;
- three quarters of the bids come from the hot bidder, and three quarters of the auctions from the hot seller, each one of the
  last hundred persons; the others from one of the last thousand, or of the next ten;
- prices are 10 to the power of 0 to 6, in cents;
- an auction ends at a random time, on average when a hundred others have begun.

Event time is that of 10,000 events a second, unless another rate is given. Texts are chosen from a few thousand random ones;
Nexmark makes a new text for each event.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import DataStream, StreamExecutionEnvironment

EVENTS_PER_SECOND: Final = 10_000
#: Time of the first event: 2015-07-15T00:00Z, in milliseconds.
BASE_TIME: Final = 1_436_918_400_000
FIRST_ID: Final = 1_000
FIRST_CATEGORY: Final = 10

_ROUND: Final = 50
_HOT: Final = 100
_LEAD: Final = 10
_IN_FLIGHT_AUCTIONS: Final = 100
_ACTIVE_PERSONS: Final = 1_000
#: Events in which as many auctions begin as are in flight.
_EVENTS_OF_AUCTIONS: Final = _IN_FLIGHT_AUCTIONS * _ROUND // 3
_POOL: Final = 4_096
_CHANNELS: Final = 10_000

_LONG, _TEXT = Types.LONG(), Types.STRING()
PERSON: Final = Types.ROW_NAMED(
    ["id", "name", "email_address", "credit_card", "city", "state", "date_time", "extra"],
    [_LONG, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT, _LONG, _TEXT],
)
AUCTION: Final = Types.ROW_NAMED(
    ["id", "item_name", "description", "initial_bid", "reserve", "date_time", "expires", "seller", "category", "extra"],
    [_LONG, _TEXT, _TEXT, _LONG, _LONG, _LONG, _LONG, _LONG, _LONG, _TEXT],
)
BID: Final = Types.ROW_NAMED(
    ["auction", "bidder", "price", "channel", "url", "date_time", "extra"], [_LONG, _LONG, _LONG, _TEXT, _TEXT, _LONG, _TEXT]
)

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Draw:
    """Random values for events; each purpose has a number of its own."""

    events: Numbers
    seed: int
    #: Events in a second of event time.
    rate: float

    def time(self, later: int = 0) -> Numbers:
        """Return the time of each event, or of the one that is this many events later."""
        return BASE_TIME + ((self.events + later) * 1_000 / self.rate).astype(np.int64)

    def bits(self, purpose: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Return 64 random bits for each event, by SplitMix64's mixing of its number."""
        bits = self.events.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits += np.uint64((self.seed * 1_000_003 + purpose) * 0xD1342543DE82EF95 % 2**64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
        return bits ^ (bits >> np.uint64(31))

    def below(self, purpose: int, limit: Numbers | int) -> Numbers:
        """Return a random number from 0 to limit - 1 for each event."""
        return (self.bits(purpose) >> np.uint64(1)).astype(np.int64) % limit

    def price(self, purpose: int) -> Numbers:
        share = (self.bits(purpose) >> np.uint64(11)) / 2**53
        return np.rint(10 ** (share * 6) * 100).astype(np.int64)

    def text(self, purpose: int, pool: pa.Array) -> pa.Array:
        return pool.take(pa.array(self.below(purpose, len(pool))))


def _random(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng([seed, *purpose.encode()])


def _letters(rng: np.random.Generator, alphabet: str, lengths: Numbers) -> pa.Array:
    """Return random texts of some lengths."""
    letters = np.resize(np.frombuffer(alphabet.encode(), np.uint8), 256)[np.frombuffer(rng.bytes(lengths.sum()), np.uint8)]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(letters))


@lru_cache
def _texts(seed: int, purpose: str, least: int, most: int) -> pa.Array:
    """Return a pool of random texts of some lengths."""
    rng = _random(seed, purpose)
    return _letters(rng, string.ascii_lowercase + " ", rng.integers(least, most + 1, _POOL))


def _extra(seed: int, purpose: str, size: int) -> pa.Array:
    """Return texts that fill records to their average size, a fifth more or less."""
    return _texts(seed, purpose, size * 4 // 5, size * 6 // 5)


@lru_cache
def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """Return the names and URLs of channels, the four hot ones last; nine in ten of the others have their number in the URL."""
    rng = _random(seed, "channels")
    parts = _letters(rng, string.ascii_lowercase + "_", np.full(_CHANNELS + 4, 15))
    ids = rng.integers(1 << 31, size=len(parts))
    unknown = rng.integers(10, size=len(parts)) == 0
    unknown[_CHANNELS:] = True
    numbers = pc.binary_join_element_wise("&channel_id=", pa.array(ids).cast(pa.string()), "")
    pages = pc.binary_join_element_wise("item.htm?query=1", pc.if_else(unknown, "", numbers), "")
    folders = [pc.utf8_slice_codeunits(parts, start, start + 5) for start in (0, 5, 10)]
    urls = pc.binary_join_element_wise("https://www.nexmark.com", *folders, pages, "/")
    names = [f"channel-{number}" for number in range(_CHANNELS)]
    return pa.array([*names, "Google", "Facebook", "Baidu", "Apple"]), urls


def _last_person(events: Numbers) -> Numbers:
    return events // _ROUND


def _last_auction(events: Numbers) -> Numbers:
    return events // _ROUND * 3 + np.clip(events % _ROUND - 1, -1, 2)


def _someone(draw: Draw, purpose: int, hot: int) -> Numbers:
    """Return the hot person in three of four cases, otherwise one of the active ones or the next."""
    last = _last_person(draw.events)
    active = np.minimum(last + 1, _ACTIVE_PERSONS)
    other = last + 1 - active + draw.below(purpose, active + _LEAD)
    return FIRST_ID + np.where(draw.below(purpose + 1, 4) > 0, last // _HOT * _HOT + hot, other)


@lru_cache
def _person_texts(seed: int) -> list[pa.Array]:
    """Return pools of names, addresses, cards, cities and states."""
    rng = _random(seed, "persons")
    first_names = ["Ada", "Alan", "Barbara", "Dennis", "Edsger", "Grace", "Jim", "Ken", "Leslie", "Margaret", "Tony"]
    last_names = ["Bell", "Codd", "Gray", "Hopper", "Kay", "Knuth", "Perlis", "Stone"]
    cities = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
    users = pc.replace_substring(_texts(seed, "email", 7, 7), " ", "_")
    hosts = pc.utf8_rtrim(pc.utf8_slice_codeunits(users, 0, 5), "_")
    numbers = [_letters(rng, string.digits, np.full(_POOL, 4)) for _ in range(4)]
    return [
        pa.array([f"{first} {last}" for first in first_names for last in last_names]),
        pc.binary_join_element_wise(users, pc.binary_join_element_wise(hosts, ".com", ""), "@"),
        pc.binary_join_element_wise(*numbers, " "),
        pa.array(cities),
        pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"]),
    ]


def _person(draw: Draw) -> list[Any]:
    texts = [draw.text(purpose, pool) for purpose, pool in enumerate(_person_texts(draw.seed))]
    return [FIRST_ID + _last_person(draw.events), *texts, draw.time(), draw.text(9, _extra(draw.seed, "person", 120))]


def _auction(draw: Draw) -> list[Any]:
    time = draw.time()
    horizon = draw.time(_EVENTS_OF_AUCTIONS) - time
    first_bid = draw.price(14)
    return [
        FIRST_ID + _last_auction(draw.events),
        draw.text(10, _texts(draw.seed, "item", 3, 20)),
        draw.text(11, _texts(draw.seed, "description", 3, 100)),
        first_bid,
        first_bid + draw.price(15),
        time,
        time + 1 + draw.below(16, horizon * 2),
        _someone(draw, 12, hot=0),
        FIRST_CATEGORY + draw.below(17, 5),
        draw.text(18, _extra(draw.seed, "auction", 400)),
    ]


def _bid(draw: Draw) -> list[Any]:
    last = _last_auction(draw.events)
    least = np.maximum(last - _IN_FLIGHT_AUCTIONS, 0)
    other = least + draw.below(20, last - least + 1 + _LEAD)
    auction = FIRST_ID + np.where(draw.below(21, 2) > 0, last // _HOT * _HOT, other)
    hot_channel = draw.below(24, 2) > 0
    channel = pa.array(np.where(hot_channel, _CHANNELS + draw.below(25, 4), draw.below(26, _CHANNELS)))
    names, urls = _channels(draw.seed)
    return [
        auction,
        _someone(draw, 22, hot=1),  # not the hot seller
        draw.price(27),
        names.take(channel),
        urls.take(channel),
        draw.time(),
        draw.text(28, _extra(draw.seed, "bid", 68)),
    ]


@dataclass(frozen=True)
class Kind:
    """Persons, auctions or bids: the places that they have among each 50 events, their type, and how they are made."""

    first: int
    each: int
    record_type: Any
    make: Callable[[Draw], list[Any]]

    def count(self, events: int) -> int:
        """Return how many there are among the first events."""
        return events // _ROUND * self.each + min(max(events % _ROUND - self.first, 0), self.each)

    def batch(self, numbers: Numbers, seed: int, rate: float = EVENTS_PER_SECOND) -> pa.RecordBatch:
        """Return those with some numbers; the first one has the number 0."""
        events = numbers // self.each * _ROUND + self.first + numbers % self.each
        columns = [column if isinstance(column, pa.Array) else pa.array(column) for column in self.make(Draw(events, seed, rate))]
        return pa.record_batch(columns, list(self.record_type.get_field_names()))


PERSONS: Final = Kind(0, 1, PERSON, _person)
AUCTIONS: Final = Kind(1, 3, AUCTION, _auction)
BIDS: Final = Kind(4, 46, BID, _bid)
#: By the names of their streams.
KINDS: Final = {"persons": PERSONS, "auctions": AUCTIONS, "bids": BIDS}


def in_turn(numbers: Numbers, count: int, readers: int) -> Numbers:
    """Return other numbers, so that each of `readers` equal ranges of 0 to count - 1 goes through all of time.

    The first range gets 0, readers, 2 * readers, ..., the second one 1, readers + 1, ... . Otherwise the second of two readers
    would be half of the time ahead, and all that it has read would wait for the watermark.
    """
    size, larger = divmod(count, readers)
    # The first `larger` ranges have one number more than the others.
    cut = larger * (size + 1)
    early = numbers < cut
    reader = np.where(early, numbers // (size + 1), larger + (numbers - cut) // max(size, 1))
    position = np.where(early, numbers % (size + 1), (numbers - cut) % max(size, 1))
    return position * readers + reader


def _batch(kind: Kind, total: int, readers: int, seed: int, rate: float, first: int, count: int) -> pa.RecordBatch:
    return kind.batch(in_turn(np.arange(first, first + count), total, readers), seed, rate)


class Streams:
    """The streams that queries read: the persons, auctions and bids among the first events, with their event times."""

    def __init__(self, env: StreamExecutionEnvironment, events: int, seed: int = 1, rate: float = EVENTS_PER_SECOND) -> None:
        self.env = env
        self._events, self._seed, self._rate = events, seed, rate
        #: How many records the query reads, of the streams that it uses.
        self.records = 0

    @cached_property
    def person(self) -> DataStream:
        return self._stream(PERSONS, "persons")

    @cached_property
    def auction(self) -> DataStream:
        return self._stream(AUCTIONS, "auctions")

    @cached_property
    def bid(self) -> DataStream:
        return self._stream(BIDS, "bids")

    def _stream(self, kind: Kind, name: str) -> DataStream:
        from flinkish.datastream.connectors import BatchGeneratorSource  # which PyFlink lacks, see by_number.py

        total = kind.count(self._events)
        self.records += total
        make = partial(_batch, kind, total, self.env.get_parallelism(), self._seed, self._rate)
        by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("date_time")
        return self.env.from_source(BatchGeneratorSource(make, total, kind.record_type), by_time, name).uid(name)
