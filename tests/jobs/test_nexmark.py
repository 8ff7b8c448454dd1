"""The queries of Nexmark give what plain Python computes from the same events, and the events are as Nexmark's."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from flinkish.common.serialization import Encoder
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import FileSink
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.graph.chaining import build_job_graph
from flinkish.graph.columns import calls_nothing, working_on_columns
from flinkish.graph.stream_graph import StreamGraph, StreamNode
from flinkish.graph.stream_graph_generator import generate
from jobs.nexmark import __main__ as measure
from jobs.nexmark import by_number, columns, events, on_bytewax, queries, spark
from jobs.nexmark import kafka as into_kafka
from jobs.nexmark.buckets import ByMinute
from tests.conftest import MakeEnvironment, locally
from tests.kit.kafka_broker import Broker
from tests.kit.own_process import set_arguments
from tests.kit.results import collect, collect_each, visible

EVENTS = 4_010
SEED = 7
#: Events in a second of event time: some windows of 10 s, or more than a day.
RATES = (100, 0.04)
#: q12 depends on processing time and has a test of its own.
CHECKED = sorted(set(queries.QUERIES) - {"q12"})

Record = dict[str, Any]


class Expected:
    """What queries give, computed from all events at once."""

    def __init__(self, rate: float) -> None:
        kinds = (events.PERSONS, events.AUCTIONS, events.BIDS)
        self.persons, self.auctions, self.bids = (
            kind.batch(np.arange(kind.count(EVENTS)), SEED, rate).to_pylist() for kind in kinds
        )
        self.person = {person["id"]: person for person in self.persons}
        self.auction = {auction["id"]: auction for auction in self.auctions}

    def winners(self) -> dict[int, Record]:
        found: dict[int, Record] = {}
        for bid in sorted(self.bids, key=lambda b: (-b["price"], b["date_time"], b["bidder"])):
            auction = self.auction.get(bid["auction"])
            if auction and auction["date_time"] <= bid["date_time"] <= auction["expires"]:
                found.setdefault(bid["auction"], bid)
        return found

    def windows(self, bids: Iterable[Record], size: int, slide: int) -> dict[int, list[Record]]:
        """Return bids by the end of their windows."""
        found = defaultdict(list)
        for bid in bids:
            first = bid["date_time"] // slide * slide + slide
            for end in range(first, first + size, slide):
                found[end].append(bid)
        return found

    def q0(self) -> list[Any]:
        return [(b["auction"], b["bidder"], b["price"], b["date_time"], b["extra"]) for b in self.bids]

    def q1(self) -> list[Any]:
        return [(a, b, 0.908 * price, *rest) for a, b, price, *rest in self.q0()]

    def q2(self) -> list[Any]:
        return [(b["auction"], b["price"]) for b in self.bids if b["auction"] % 123 == 0]

    def q3(self) -> list[Any]:
        found = [(self.person.get(a["seller"]), a["id"]) for a in self.auctions if a["category"] == 10]
        return [(p["name"], p["city"], p["state"], a) for p, a in found if p and p["state"] in {"OR", "ID", "CA"}]

    def q4(self) -> list[Any]:
        prices = defaultdict(list)
        for auction, bid in self.winners().items():
            prices[self.auction[auction]["category"]].append(bid["price"])
        return [(category, sum(found) // len(found)) for category, found in prices.items()]

    def q5(self) -> list[Any]:
        found = []
        for end, bids in self.windows(self.bids, 10_000, 2_000).items():
            counts = Counter(bid["auction"] for bid in bids)
            found += [(auction, count, end) for auction, count in counts.items() if count == max(counts.values())]
        return found

    def q7(self) -> list[Any]:
        found = []
        for bids in self.windows(self.bids, 10_000, 10_000).values():
            most = max(bid["price"] for bid in bids)
            found += [
                tuple(b[n] for n in ("auction", "price", "bidder", "date_time", "extra")) for b in bids if b["price"] == most
            ]
        return found

    def q8(self) -> list[Any]:
        sold = {(auction["seller"], auction["date_time"] // 10_000) for auction in self.auctions}
        starts = [(p, p["date_time"] // 10_000) for p in self.persons]
        return [(p["id"], p["name"], start * 10_000) for p, start in starts if (p["id"], start) in sold]

    def q9(self) -> list[Any]:
        names = ("auction", "bidder", "price", "date_time", "extra")
        return [(*self.auction[a].values(), *(bid[name] for name in names)) for a, bid in self.winners().items()]

    def q10(self) -> list[Any]:
        times = [datetime.fromtimestamp(row[3] / 1_000, UTC) for row in self.q0()]
        return [(*row, f"{time:%Y-%m-%d}", f"{time:%H:%M}") for row, time in zip(self.q0(), times, strict=True)]

    def q11(self) -> list[Any]:
        found = []
        for bidder, bids in groupby(sorted((b["bidder"], b["date_time"]) for b in self.bids), key=lambda pair: pair[0]):
            times = [time for _, time in bids]
            starts = [place for place, time in enumerate(times) if place == 0 or time - times[place - 1] > 10_000]
            for start, stop in zip(starts, [*starts[1:], len(times)], strict=True):
                found.append((bidder, stop - start, times[start], times[stop - 1] + 10_000))
        return found

    def q13(self) -> list[Any]:
        return [(*row[:4], f"value {row[0] % 10_000}") for row in self.q0()]

    def q14(self) -> list[Any]:
        found = []
        for auction, bidder, price, time, extra in self.q1():
            hour = datetime.fromtimestamp(time / 1_000, UTC).hour
            kind = "nightTime" if hour in (*range(7), *range(20, 24)) else "otherTime" if hour in (7, 19) else "dayTime"
            if 1_000_000 < price < 50_000_000:
                found.append((auction, bidder, price, kind, time, extra, sum(letter == "c" for letter in extra)))
        return found

    def _statistics(self, bids: Sequence[Record]) -> tuple[int, ...]:
        levels = [
            bids,
            [b for b in bids if b["price"] < 10_000],
            [b for b in bids if 10_000 <= b["price"] < 1_000_000],
            [b for b in bids if b["price"] >= 1_000_000],
        ]
        counts = [len(level) for level in levels]
        return (*counts, *(len({b[name] for b in level}) for name in ("bidder", "auction") for level in levels))

    def _by(self, *names: str) -> dict[Any, list[Record]]:
        """Return bids by some fields; `day` is the date."""
        found = defaultdict(list)
        for bid, (*_, day, _minute) in zip(self.bids, self.q10(), strict=True):
            found[tuple({**bid, "day": day}[name] for name in names)].append(bid)
        return found

    def q15(self) -> list[Any]:
        return [(*key, *self._statistics(bids)) for key, bids in self._by("day").items()]

    def q16(self) -> list[Any]:
        minute = "{:%H:%M}"
        return [
            (*key, minute.format(datetime.fromtimestamp(bids[-1]["date_time"] / 1_000, UTC)), *self._statistics(bids))
            for key, bids in self._by("channel", "day").items()
        ]

    def q17(self) -> list[Any]:
        found = []
        for key, bids in self._by("auction", "day").items():
            prices = [b["price"] for b in bids]
            least, most, mean = min(prices), max(prices), sum(prices) // len(prices)
            found.append((*key, *self._statistics(bids)[:4], least, most, mean, sum(prices)))
        return found

    def q18(self) -> list[Any]:
        return [tuple(bids[-1].values()) for bids in self._by("bidder", "auction").values()]

    def q19(self) -> list[Any]:
        found = []
        for bids in self._by("auction").values():
            top = sorted(bids, key=lambda b: (-b["price"], b["date_time"], b["bidder"]))[:10]
            found += [(rank, tuple(bid.values())) for rank, bid in enumerate(top, 1)]
        return found

    def q20(self) -> list[Any]:
        pairs = [(bid, self.auction.get(bid["auction"])) for bid in self.bids]
        return [(tuple(b.values()), tuple(a.values())) for b, a in pairs if a and a["category"] == 10]

    def q21(self) -> list[Any]:
        found = []
        for b in self.bids:
            known = ["Apple", "Google", "Facebook", "Baidu"]
            _, text, number = b["url"].partition("&channel_id=")
            if b["channel"] in known or text:
                channel_id = str(known.index(b["channel"])) if b["channel"] in known else number
                found.append((b["auction"], b["bidder"], b["price"], b["channel"], channel_id))
        return found

    def q22(self) -> list[Any]:
        folders = [b["url"].removeprefix("https://www.nexmark.com/").removesuffix("/item.htm?query=1") for b in self.bids]
        rows = zip(self.bids, folders, strict=True)
        return [(b["auction"], b["bidder"], b["price"], b["channel"], *path.split("/")[:3]) for b, path in rows]


#: What identifies a result that later ones of the same identity replace.
KEYS: dict[str, Any] = {
    "q4": lambda row: row[0],
    "q15": lambda row: row[0],
    "q16": lambda row: row[:2],
    "q17": lambda row: row[:2],
    "q18": lambda row: (row[0], row[1]),
    "q19": lambda row: (row[0], row[1][0]),
}


def plain(value: Any) -> Any:
    """Return rows and lists as tuples."""
    return tuple(map(plain, value)) if hasattr(value, "__iter__") and not isinstance(value, str) else value


def valid(query: str, results: Iterable[Any]) -> list[Any]:
    """Return the valid results in some order: those that no later one replaces."""
    rows = [plain(row) for row in results]
    key = KEYS.get(query)
    return sorted(rows if key is None else {key(row): row for row in rows}.values())


def check(
    make_env: MakeEnvironment, names: Sequence[str], rate: float, forms: Any = queries.QUERIES, streams_of: Any = events.Streams
) -> None:
    env = make_env(settings={"execution.windows.share-panes": rate == RATES[0]})  # as in the measurement
    streams = streams_of(env, EVENTS, SEED, rate)
    found = collect_each(**{name: forms[name](streams) for name in names})
    expected = Expected(rate)
    for name in names:
        wanted = sorted(getattr(expected, name)())
        assert valid(name, found[name]) == wanted, name
        # At the low rate, nobody sells within 10 s of coming.
        assert wanted or (name == "q8" and rate < 1), name


@locally
@pytest.mark.parametrize("rate", RATES)
def test_queries_give_what_plain_python_computes(make_env: MakeEnvironment, rate: float) -> None:
    check(make_env, CHECKED, rate)


@locally
@pytest.mark.parametrize("rate", RATES)
def test_queries_on_columns_give_the_same(make_env: MakeEnvironment, rate: float) -> None:
    check(make_env, [name for name in columns.QUERIES if name != "q12"], rate, columns.QUERIES)


@locally
def test_queries_give_the_same_from_streams_by_number(make_env: MakeEnvironment) -> None:
    check(make_env, CHECKED, RATES[0], streams_of=by_number.StreamsByNumber)


def test_pyflink_gets_the_same_arguments_and_its_error_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ncat jobs/nexmark/queries.py > $OUT/queries.py; echo $@ > $OUT/arguments; echo RECORDS 46 1.5\n")
    python.chmod(0o755)
    monkeypatch.setenv(by_number.PYTHON, str(python))
    monkeypatch.setenv("OUT", str(tmp_path))
    assert by_number.measure("q0", 50, seed=7, parallelism=3, interval=10) == (46, 1.5)
    assert (tmp_path / "arguments").read_text().split() == ["-m", "jobs.nexmark.by_number", "q0", "50", "7", "3", "10"]
    assert "from pyflink.common import" in (tmp_path / "queries.py").read_text()
    python.write_text("#!/bin/sh\necho no such module >&2\n")
    with pytest.raises(by_number.PyFlinkError, match="no such module"):
        by_number.measure("q0", 50, seed=7, parallelism=3, interval=10)


def test_bytewax_runs_a_process_for_each_worker_and_its_error_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$PWD" "$@" >> $OUT/arguments; echo ROWS 5 >&2\n')
    python.chmod(0o755)
    monkeypatch.setenv(on_bytewax.PYTHON, str(python))
    monkeypatch.setenv("OUT", str(tmp_path))
    rows, seconds = on_bytewax.measure("q5", tmp_path / "files", workers=2, interval=10)
    assert rows == 10
    assert seconds > 0
    prepared, *workers = (tmp_path / "arguments").read_text().splitlines()
    assert re.fullmatch(r".* -m bytewax\.recovery \S+ 2", prepared)
    flow = rf"-m bytewax\.run on_bytewax:flow\('q5', '{tmp_path}/files', 2\) -r \S+ -s 10 -b 0"
    for number, line in enumerate(sorted(workers, key=lambda line: line.partition(" -i ")[2])):
        assert re.fullmatch(rf".*/jobs/nexmark {flow} -i {number} -a 127\.0\.0\.1:\d+;127\.0\.0\.1:\d+", line)
    python.write_text("#!/bin/sh\ntest $2 = bytewax.recovery || { echo no such module >&2; exit 1; }\n")
    with pytest.raises(on_bytewax.BytewaxError, match="no such module"):
        on_bytewax.measure("q5", tmp_path / "files", workers=1, interval=10)


def test_queries_on_columns_are_not_taken_apart() -> None:
    for name, query in columns.QUERIES.items():
        env = StreamExecutionEnvironment.get_execution_environment()
        query(events.Streams(env, EVENTS, SEED)).sink_to(DiscardingSink())
        graph = generate(env._program(None))
        records = [node.name for node in nodes_on_records(graph)]
        # The leaders of batches are compared one by one, and chosen rows are joined so.
        leaders = {"q5": ["TumblingEventTimeWindows"], "q7": ["TumblingEventTimeWindows", "FlatMap"]}
        after = (leaders | {"q3": ["Keyed Co-Process"]}).get(name)
        assert records == ([*after, "Sink: Writer"] if after else []), name
        # Then the first epoch reads more, unless there is a function for batches.
        assert calls_nothing(build_job_graph(graph), batch=False) is (after is None and name != "q13"), name


def nodes_on_records(graph: StreamGraph) -> list[StreamNode]:
    reasons = working_on_columns(build_job_graph(graph), batch=graph.batch)
    return [node for node in graph.nodes.values() if reasons[node.id] is not None]


@locally
def test_windows_of_processing_time_count_each_bid_once(make_env: MakeEnvironment) -> None:
    # In streaming mode, the last window has no result, as the input ends before the window does.
    env = make_env(settings={"execution.runtime-mode": "BATCH"})
    for query in (queries.q12, columns.q12):
        counts: Counter[int] = Counter()
        for bidder, count, start, end in collect(query(events.Streams(env, EVENTS, SEED))):
            assert end - start == 10_000
            counts[bidder] += count
        assert counts == Counter(bid["bidder"] for bid in Expected(1).bids)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_queries_give_the_same_on_spark(make_env: MakeEnvironment) -> None:
    check(make_env, ["q5", "q8"], RATES[0])
    check(make_env, ["q1", "q5", "q7"], RATES[0], columns.QUERIES)


@locally
def test_queries_give_the_same_from_topics_that_the_generator_has_filled(
    kafka: Broker, make_env: MakeEnvironment, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    prefix = kafka.create_topic(1)
    for name in ("persons", "auctions", "bids"):
        kafka.create_topic(2, into_kafka.topic_of(prefix, name))
    monkeypatch.setattr(into_kafka, "Streams", partial(events.Streams, rate=RATES[0]))
    arguments = ("--brokers", kafka.address, "--topics", prefix, "--events", str(EVENTS), "--seed", str(SEED))
    set_arguments(monkeypatch, into_kafka.__file__, *arguments, "--engine", engine)
    into_kafka.main()
    streams = into_kafka.StreamsFromKafka(make_env(), kafka.address, prefix)
    found = collect_each(q3=queries.q3(streams), q8=queries.q8(streams), q5=columns.QUERIES["q5"](streams))
    for name, results in found.items():
        assert valid(name, results) == sorted(getattr(Expected(RATES[0]), name)()), name


@locally
def test_bids_are_written_to_folders_of_their_minutes(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(parallelism=2)
    sink = FileSink.for_row_format(str(tmp_path / "log"), Encoder.simple_string_encoder())
    bids = queries.q10(events.Streams(env, 500, SEED, rate=1))
    bids.sink_to(sink.with_bucket_assigner(ByMinute()).build())
    env.execute("q10")
    files = visible(tmp_path / "log")
    lines = [(f"{path.parent.parent.name}/{path.parent.name}", path.read_text().count("\n")) for path in files]
    found: Counter[str] = Counter()
    for folder, count in lines:
        found[folder] += count
    times = events.BIDS.batch(np.arange(events.BIDS.count(500)), SEED, rate=1)["date_time"].to_pylist()
    assert found == Counter(f"dt=2015-07-15/hm=00:{(time - events.BASE_TIME) // 60_000:02}" for time in times)


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_others_bids() -> None:
    kinds = (events.PERSONS, events.AUCTIONS, events.BIDS)
    for count, expected in ((0, (0, 0, 0)), (1, (1, 0, 0)), (3, (1, 2, 0)), (5, (1, 3, 1)), (101, (3, 6, 92))):
        assert tuple(kind.count(count) for kind in kinds) == expected
    times = [kind.batch(np.arange(kind.count(1_000)), SEED, 1_000)["date_time"].to_pylist() for kind in kinds]
    assert sorted(time for each in times for time in each) == list(range(events.BASE_TIME, events.BASE_TIME + 1_000))


@pytest.mark.parametrize("kind", [events.PERSONS, events.AUCTIONS, events.BIDS])
def test_an_event_depends_on_its_number_and_the_seed_only(kind: events.Kind) -> None:
    whole = kind.batch(np.arange(100), SEED)
    assert kind.batch(np.arange(40, 60), SEED) == whole.slice(40, 20)
    assert kind.batch(np.arange(100), SEED + 1) != whole


def test_half_of_the_bids_and_three_quarters_of_bidders_and_sellers_are_hot() -> None:
    numbers = np.arange(50_000, 90_000)
    bids, auctions = events.BIDS.batch(numbers, SEED), events.AUCTIONS.batch(numbers, SEED)

    def share_of_hot(column: Any, place: int) -> float:
        return float(np.mean((column.to_numpy() - events.FIRST_ID) % 100 == place))

    # One in a hundred of the others has that number by chance.
    assert share_of_hot(bids["auction"], 0) == pytest.approx(0.505, abs=0.02)
    assert share_of_hot(bids["bidder"], 1) == pytest.approx(0.7525, abs=0.02)
    assert share_of_hot(auctions["seller"], 0) == pytest.approx(0.7525, abs=0.02)
    sizes = np.mean([len(text) for text in bids["extra"].to_pylist()])
    assert sizes == pytest.approx(68, abs=2)


@pytest.mark.parametrize(("count", "readers"), [(10, 3), (9, 3), (2, 5), (0, 2), (7, 1)])
def test_readers_go_through_time_together(count: int, readers: int) -> None:
    numbers = events.in_turn(np.arange(count), count, readers)
    assert sorted(numbers) == list(range(count))
    size, larger = divmod(count, readers)
    assert list(numbers[: size + (larger > 0)]) == list(range(0, count, readers))


@pytest.mark.spark
def test_spark_itself_finds_the_same(spark_session: SparkSession, tmp_path: Path) -> None:
    rate = RATES[0]
    spark.write(tmp_path / "files", EVENTS, SEED, rate)
    expected = Expected(rate)
    for name in ("q2", "q3", "q8", "q10", "q13", "q14", "q17", "q20", "q22"):
        rows = spark.QUERIES[name](spark.Tables(spark_session, tmp_path / "files", EVENTS))
        if name == "q8":
            rows = rows.selectExpr("id", "name", "unix_millis(start)")
        spark.start(name, rows, "memory", tmp_path / name).awaitTermination()
        wanted = sorted(getattr(expected, name)())
        if name == "q8":  # the last window is not complete
            wanted = [row for row in wanted if row[2] < expected.bids[-1]["date_time"] // 10_000 * 10_000]
        assert valid(name, spark_session.table(name).collect()) == wanted, name


def test_the_measurement_prints_a_table_and_writes_its_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["--engine", "local", "--queries", "q0,q8,q10", "--events", "1000"]
    for file in ("figures.json", "figures.csv"):
        set_arguments(monkeypatch, measure.__file__, *arguments, "--output", tmp_path / file)
        measure.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[1:7]] == [
        ["q0", "flinkish", "920"],
        ["q0", "columns", "920"],
        ["q8", "flinkish", "80"],
        ["q8", "columns", "80"],
        ["q10", "flinkish", "920"],
        ["q10", "columns", "920"],
    ]
    written = json.loads((tmp_path / "figures.json").read_text())
    assert [(row["query"], row["events"], row["small_events"]) for row in written] == [
        ("q0", 920, 92), ("q0", 920, 92), ("q8", 80, 8), ("q8", 80, 8), ("q10", 920, 92), ("q10", 920, 92)
    ]  # fmt: skip
    assert (tmp_path / "figures.csv").read_text().splitlines()[1].startswith("q0,flinkish,920,")


@pytest.mark.spark
def test_spark_itself_is_measured_in_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_arguments(monkeypatch, measure.__file__, "--engine", "local", "--queries", "q2", "--events", "1000", "--with-spark")
    measure.main()
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines()[3:4]] == [["q2", "spark", "920"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--queries", "q6"], "q6 is left out: the average"), (["--queries", "q0,q99"], "'q99' is none of q0"),
     (["--events", "10"], "--events must be at least 500"),
     (["--with-pyflink"], "needs the environment variable PYFLINK_PYTHON"),
     (["--with-bytewax"], "needs the environment variable BYTEWAX_PYTHON")],
)  # fmt: skip
def test_arguments_that_are_wrong_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    set_arguments(monkeypatch, measure.__file__, *arguments)
    for name in (by_number.PYTHON, on_bytewax.PYTHON):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit):
        measure.main()
    assert message in capsys.readouterr().err
