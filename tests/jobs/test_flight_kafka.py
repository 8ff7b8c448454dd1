"""publish_flights.py and flight_delays.py --kafka, against a real broker."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import flight_delays as job
import flight_topics
import publish_flights
import pytest
from flight_records import COLUMNS, FlightParser, MessageParser, message_of

from flinkish.common.errors import SinkError
from tests.jobs.conftest import JOBS, NO_FLIGHTS, main, refusal
from tests.jobs.pandas_flights import expected_tables, rows, written_table
from tests.kit import local_broker
from tests.kit.kafka_broker import Broker
from tests.kit.own_process import set_arguments
from tests.kit.waiting import wait_until

DELAY = ("aircraft", "carrier", "flight", "origin", "departure", "late_in", "late_out", "chain", "chain_minutes")


@pytest.fixture
def publish(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that publishes a file to a topic, in this process."""

    def publish(source: Path, topic: str, *arguments: str) -> None:
        at = ("--kafka", kafka.address, "--topic", topic, "--input", source, "--speed-up", "max")
        main(monkeypatch, publish_flights, *at, *arguments)

    return publish


def name_of_topic(tmp_path: Path, what: str = "flights") -> str:
    """Return a name that no other test has."""
    return f"{what}-{tmp_path.parent.name}-{tmp_path.name}"


def start(script: str, *arguments: str | Path, fault: str | None = None) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **({"FLINKISH_FAULT": fault} if fault else {})}
    return subprocess.Popen(
        [sys.executable, str(JOBS / script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def messages_in(kafka: Broker, topic: str) -> int:
    """Return how many messages a topic has that may not exist yet."""
    return len(kafka.read(topic)) if topic in kafka.admin().list_topics(timeout=60).topics else 0


def delays_of(messages: list[Any]) -> list[tuple[Any, ...]]:
    """Return the rows in messages of the topic of delays, in an order of their own."""
    found = []
    for message in messages:
        delay = json.loads(message.value())
        assert message.key() == delay["aircraft"].encode()
        delay["departure"] = datetime.fromisoformat(delay["departure"])
        found.append(tuple(delay[name] for name in DELAY))
    return sorted(found, key=str)


# -- messages ----------------------------------------------------------------------------------------------------------------


def test_a_message_holds_a_flight_as_its_line_does(clean_sample: Path) -> None:
    header, *lines = clean_sample.read_text().splitlines()
    parser = FlightParser(next(csv.reader([header])))
    for line in lines[:1_000]:
        message = message_of(parser.fields(line))
        assert MessageParser().read(message) == parser.read(line)
    # The last one is a flight that was cancelled and has no aircraft.
    assert json.loads(message_of(["NA", "8", "NA", "EWR", "BOS", "NA", "", "2013-01-01T10:00:00Z", "05"])) == {
        "carrier": "NA",
        "flight": 8,
        "tailnum": None,
        "origin": "EWR",
        "dest": "BOS",
        "dep_delay": None,
        "arr_delay": None,
        "time_hour": "2013-01-01T10:00:00Z",
        "minute": 5,
    }


@pytest.mark.parametrize(
    "message",
    [
        "",
        "no JSON",
        "null",
        "[1]",
        "{}",
        "[" * 100_000,
        '{"carrier": "B6"}',
        '{"carrier": {}, "flight": 1, "tailnum": "N1", "origin": "JFK", "dest": "BOS", "dep_delay": 1, "arr_delay": 1, '
        '"time_hour": "2013-01-01T10:00:00Z", "minute": 5}',
        '{"carrier": "B6", "flight": 1, "tailnum": "N1", "origin": "JFK", "dest": "BOS", "dep_delay": NaN, "arr_delay": 1, '
        '"time_hour": "2013-01-01T10:00:00Z", "minute": 5}',
        '{"carrier": "B6", "flight": 1, "tailnum": "N1", "origin": "JFK", "dest": "BOS", "dep_delay": 1, "arr_delay": 1, '
        '"time_hour": 20130101, "minute": true}',
    ],
)
def test_a_message_that_is_not_a_flight_is_set_aside_as_it_is(message: str) -> None:
    row = MessageParser().read(message)
    assert (row["reason"], row["line"]) == ("malformed", message)  # type: ignore[call-overload]


def test_disorder_holds_flights_back_for_at_most_its_time_and_depends_on_the_seed_only() -> None:
    flights = [publish_flights.Message(60 * number, None, str(number).encode()) for number in range(1_000)]

    def order(most: int, seed: int) -> list[int]:
        return [int(message.value) for message in publish_flights.held_back(flights, most, seed)]

    assert order(0, 1) == list(range(1_000))
    assert order(600, 1) == order(600, 1) != order(600, 2)
    assert sorted(order(600, 1)) == list(range(1_000))
    latest = -1
    behind = []
    for number in order(600, 1):
        latest = max(latest, number)
        behind.append(latest - number)
    assert 5 < max(behind) <= 10
    dues = [message.due for message in publish_flights.held_back(flights, 600, 1)]
    assert dues == sorted(dues)


@pytest.mark.parametrize(
    ("speed_up", "pace"),
    [
        (86_400.0, "86,400 times as fast as scheduled (a year takes 0:06:05 h)"),
        (365.0, "365 times as fast as scheduled (a year takes 1 day, 0:00:00 h)"),
        (float("inf"), "as fast as possible"),
    ],
)
def test_the_first_line_says_how_long_a_year_of_flights_takes(speed_up: float, pace: str) -> None:
    assert publish_flights._pace(speed_up) == pace


# -- the whole way -----------------------------------------------------------------------------------------------------------


def test_flights_go_through_kafka_once_although_the_job_is_killed(
    kafka: Broker, publish: Any, clean_sample: Path, weather: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, delays = name_of_topic(tmp_path), name_of_topic(tmp_path, "delays")
    publish(clean_sample, topic, "--disorder", "90", "--seed", "7")
    header, *lines = clean_sample.read_text().splitlines()
    assert "partitions: 1; as fast as possible, disorder up to 90 minutes with seed 7" in capsys.readouterr().out

    # What came into the topic, as a file: the truth is computed from that.
    messages = kafka.read(topic)
    in_order = [json.loads(message.value()) for message in messages]
    assert len(in_order) == len(lines)
    published = tmp_path / "published.csv"
    with published.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(["NA" if value is None else value for value in flight.values()] for flight in in_order)
    parser = FlightParser(next(csv.reader([header])))
    of_lines = [parser.read(line) for line in lines]
    of_messages = [MessageParser().read(message.value().decode()) for message in messages]
    assert of_messages != of_lines
    assert sorted(map(repr, of_messages)) == sorted(map(repr, of_lines))

    output = tmp_path / "out"
    arguments = [
        *("--engine", "local", "--kafka", kafka.address, "--flights-topic", topic, "--delays-topic", delays, "--bounded"),
        *("--weather", weather, "--output", output, "--checkpoint-interval", "50"),
        *("-Dhigh-availability.cluster-id=flights", f"-Dexecution.checkpointing.dir={tmp_path / 'checkpoints'}"),
        *(f"-Dsecurity.checkpoint.hmac-key-file={tmp_path / 'key'}", "-Dexecution.epoch.max-records=600"),
    ]
    # After a checkpoint whose delays are in the topic, and before those of a later one are.
    killed = start("flight_delays.py", *arguments, fault="P11:kill9:nth=6")
    _, errors = killed.communicate(timeout=120)
    assert killed.returncode == -9, errors
    before = len(kafka.read(delays))
    resumed = start("flight_delays.py", *arguments)
    printed, errors = resumed.communicate(timeout=120)
    assert (resumed.returncode, errors) == (0, "")
    assert "Worst chains of knock-on delays" in printed
    assert printed.rstrip().endswith(f"Topic: {delays} at {kafka.address}")

    expected = expected_tables(published, weather)
    for name in job.TABLES:
        written = written_table(output / name)
        assert rows(written) == rows(expected[name][list(written.columns)]), name
    events = expected["aircraft_events"]
    knock_on = [
        tuple(value if isinstance(value, str | datetime) else int(value) for value in row)
        for row in rows(events[events["kind"] == "knock-on"][list(DELAY)])
    ]
    got = delays_of(kafka.read(delays))
    assert 0 < before < len(got)
    assert got == sorted(knock_on, key=str)


def test_the_job_follows_a_topic_until_it_is_stopped(
    kafka: Broker, publish: Any, clean_sample: Path, weather: Path, tmp_path: Path
) -> None:
    topic, delays = name_of_topic(tmp_path), name_of_topic(tmp_path, "delays")
    kafka.create_topic(3, topic)
    running = start(
        "flight_delays.py",
        *("--engine", "local", "--kafka", kafka.address, "--flights-topic", topic, "--delays-topic", delays),
        *("--weather", weather, "--output", tmp_path / "out", "--checkpoint-interval", "100"),
    )
    with running:
        try:
            publish(clean_sample, topic, "--partitions", "3")
            wait_until("knock-on delays", lambda: messages_in(kafka, delays) > 10)
            running.send_signal(signal.SIGINT)
            printed, errors = running.communicate(timeout=120)
        finally:
            running.kill()
    assert running.returncode == 130, errors
    assert errors == ""
    assert printed.rstrip().endswith("Stopped. The tables hold what was committed up to the last checkpoint.")
    # All partitions have flights, and those of an aircraft are in one.
    owners: dict[bytes, set[int]] = {}
    for message in kafka.read(topic):
        owners.setdefault(message.key(), set()).add(message.partition())
    assert {number for numbers in owners.values() for number in numbers} == {0, 1, 2}
    assert all(len(numbers) == 1 for numbers in owners.values())


def test_lines_that_are_no_flights_are_published_as_they_are_and_set_aside(
    kafka: Broker, publish: Any, sample: Path, weather: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, delays = name_of_topic(tmp_path), name_of_topic(tmp_path, "delays")
    publish(sample, topic, "--flights", "2000")
    kafka.produce(topic, [{"value": None}])
    main(
        monkeypatch,
        job,
        *("--engine", "local", "--kafka", kafka.address, "--flights-topic", topic, "--delays-topic", delays, "--bounded"),
        *("--weather", weather, "--output", tmp_path / "out"),
    )
    aside = written_table(tmp_path / "out" / "set_aside_flights")
    malformed = list(aside[aside["reason"] == "malformed"]["line"])
    assert len(malformed) == 4
    assert NO_FLIGHTS[0].decode() in malformed
    assert sum('"dep_delay": "x"' in line for line in malformed) == 1
    assert sum(f"{topic}-0" in line for line in malformed) == 1  # the message without a value


# -- what goes wrong ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def nowhere() -> str:
    """An address at which no broker is."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("script", "arguments", "what"),
    [
        (publish_flights, [], "the following arguments are required: --kafka"),
        (publish_flights, ["--kafka", "localhost"], "'localhost' is not of the form HOST:PORT"),
        (publish_flights, ["--kafka", "localhost:9092,other:kafka"], "'other:kafka' is not of the form HOST:PORT"),
        (publish_flights, ["--kafka", "localhost:9092", "--topic", "my flights"], "'my flights' is not a name of a topic"),
        (publish_flights, ["--kafka", "localhost:9092", "--speed-up", "0"], "'0' is neither a number above 0 nor max"),
        (publish_flights, ["--kafka", "localhost:9092", "--speed-up", "nan"], "'nan' is neither a number above 0 nor max"),
        (publish_flights, ["--kafka", "localhost:9092", "--disorder", "-5"], "--disorder"),
        (publish_flights, ["--kafka", "localhost:9092", "--seed", "x"], "invalid int value: 'x'"),
        (publish_flights, ["--kafka", "localhost:9092", "--partitions", "0"], "'0' is not a whole number of at least 1"),
        (publish_flights, ["--kafka", "localhost:9092", "--input", "/there/is/none.csv"], "there is no such file"),
        (job, ["--kafka", "localhost"], "is not of the form HOST:PORT"),
        (job, ["--kafka", "localhost:9092", "--input", "x.csv"], "not allowed with argument"),
        (job, ["--bounded"], "--bounded is only for --kafka"),
        (
            job,
            ["--kafka", "localhost:9092", "--delays-topic", "flights"],
            "--delays-topic must be another one than --flights-topic",
        ),
        (job, ["--flights-topic", "x"], "--flights-topic is only for --kafka"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], script: Any, arguments: list[str], what: str
) -> None:
    message = refusal(monkeypatch, capsys, script, *arguments)
    assert what in message
    assert len(message.strip().splitlines()) == 1


@pytest.mark.parametrize("script", [publish_flights, job])
def test_brokers_that_cannot_be_reached_are_named(
    script: Any,
    nowhere: str,
    clean_sample: Path,
    weather: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(flight_topics, "_ANSWER_S", 0.5)
    rest = ("--input", clean_sample) if script is publish_flights else ("--weather", weather, "--output", tmp_path / "out")
    message = refusal(monkeypatch, capsys, script, "--kafka", nowhere, *rest, hint=True)
    assert f"Kafka at {nowhere} cannot be reached" in message
    assert "are the brokers running" in message
    assert "Traceback" not in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("script", [publish_flights, job])
def test_a_missing_client_is_named_with_what_installs_it(
    script: Any, clean_sample: Path, weather: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    rest = ("--input", clean_sample) if script is publish_flights else ("--weather", weather)
    message = refusal(monkeypatch, capsys, script, "--kafka", "localhost:1", *rest, hint=True)
    assert "confluent-kafka" in message
    assert "pip install 'flinkish[kafka]'" in message


def test_a_topic_that_is_missing_or_full_is_named_with_what_to_do(
    kafka: Broker,
    publish: Any,
    clean_sample: Path,
    weather: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = name_of_topic(tmp_path)
    message = refusal(
        monkeypatch, capsys, job, "--kafka", kafka.address, "--flights-topic", topic, "--weather", weather, hint=True
    )
    assert f"there is no topic {topic!r} at {kafka.address}" in message
    assert f"publish_flights.py --kafka {kafka.address} --topic {topic}" in message
    publish(clean_sample, topic, "--flights", "10", "--partitions", "2")
    at = ("--kafka", kafka.address, "--topic", topic, "--input", clean_sample)
    message = refusal(monkeypatch, capsys, publish_flights, *at)
    assert re.search(rf"topic {topic!r} has 10 messages already.*--replace", message)
    message = refusal(monkeypatch, capsys, publish_flights, *at, "--partitions", "3")
    assert f"topic {topic!r} has 2 partitions, not 3" in message
    publish(clean_sample, topic, "--flights", "5", "--replace")
    assert [message.partition() for message in kafka.read(topic)] == [0] * 5


def test_publishing_keeps_the_pace_and_stops_at_ctrl_c(kafka: Broker, clean_sample: Path, tmp_path: Path) -> None:
    topic = name_of_topic(tmp_path)
    # Ten minutes of the schedule in a second: after the flights of 5:15 and 5:29 on the first day come minutes without any.
    arguments = ("--kafka", kafka.address, "--topic", topic, "--input", clean_sample, "--speed-up", "600")
    running = start("publish_flights.py", *arguments)
    try:
        wait_until("the first flight", lambda: messages_in(kafka, topic) > 0)
        running.send_signal(signal.SIGINT)
        printed, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    count = len(kafka.read(topic))
    assert (running.returncode, errors) == (130, "")
    assert printed.rstrip().endswith(f"Stopped. {count:,} flights are in topic {topic!r} at {kafka.address}.")
    assert count < 100


def test_publishing_ends_with_an_error_if_the_brokers_are_lost(nowhere: str) -> None:
    publisher = publish_flights.Publisher(nowhere, "flights", timeout_ms=200)
    publisher.publish(publish_flights.Message(0, b"N1", b"{}"))

    def wait_for_all() -> None:
        while publisher.pending():
            publisher.wait(0.1)

    with pytest.raises(
        SinkError, match=r"^0 flights were published, but the next one was not taken by .*\n.*the brokers running"
    ):
        wait_for_all()


def test_times_of_the_schedule_are_never_taken_back() -> None:
    lines = [b"B6,1,N1,JFK,BOS,0,0,2013-01-01T10:00:00Z,30", b"x", b"B6,1,N1,JFK,BOS,0,0,2013-01-01T10:00:00Z,15"]
    start_ms = int(datetime(2013, 1, 1, 10, 30, tzinfo=UTC).timestamp() * 1000)
    found = list(publish_flights.messages(lines, COLUMNS))
    assert [(message.due, message.key) for message in found] == [(start_ms, b"N1"), (start_ms, None), (start_ms, b"N1")]
    assert found[1].value == b"x"


def test_a_broker_to_try_things_with_names_the_port_that_is_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        set_arguments(monkeypatch, "local_broker", "--port", str(port))
        assert local_broker.main() == 1
    assert f"make kafka: port {port} cannot be used" in capsys.readouterr().err
