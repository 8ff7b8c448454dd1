"""A Kafka broker on this machine for trying things, until Ctrl-C: `make kafka`. Its topics are gone when it ends."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

from tests.kit.jars import MissingJarsError
from tests.kit.kafka_broker import own_broker


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="make kafka")
    parser.add_argument("--port", type=int, default=9092, help="default: 9092")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME", help="create a topic; may be given several times")
    arguments = parser.parse_args()
    port: int = arguments.port
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as error:
        print(
            f"make kafka: port {port} cannot be used: {error}; choose another one: make kafka ARGS='--port 9192'", file=sys.stderr
        )
        return 1
    # A signal ends the wait below; the broker ends with this process, however that ends.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="flinkish-kafka-") as folder,
            own_broker(Path(folder, "broker"), port=port) as broker,
        ):
            for topic in arguments.topic:
                broker.create_topic(1, topic)
            print(f"Kafka is at localhost:{port} until Ctrl-C; its topics are gone then.", flush=True)
            while broker.runs():
                time.sleep(0.5)
            print(f"make kafka: the broker ended:\n{broker.log()[-3000:]}", file=sys.stderr)
            return 1
    except MissingJarsError as error:
        print(f"make kafka: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Kafka has ended.")
        return 0


if __name__ == "__main__":
    sys.exit(main())
