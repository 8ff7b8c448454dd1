"""A topic to a topic on Quix Streams, in a process of its own, with the Python that QUIX_PYTHON names: each key with its count.

    kafka_quix.py BROKERS SOURCE TARGET MESSAGES FOLDER

Ends after so many messages; prints its seconds. Messages have no keys, so Quix writes them to a topic of its own first, by key.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from quixstreams import Application, State  # type: ignore[import-not-found]


def main(brokers: str, source: str, target: str, messages: str, folder: str) -> None:
    app = Application(
        broker_address=brokers,
        consumer_group=f"quix-{target}",
        auto_offset_reset="earliest",
        auto_create_topics=True,
        state_dir=folder,
        loglevel="WARNING",
        commit_interval=1.0,
        consumer_extra_config={"fetch.queue.backoff.ms": 5},
    )
    left = int(messages)

    def count(value: str, state: State) -> str:
        nonlocal left
        number = state.get("count", 0) + 1
        state.set("count", number)
        left -= 1
        if left == 0:
            app.stop()
        return f"{value[-4:]} {number}"

    def key(value: str) -> Any:
        return value[-4:]

    frame = app.dataframe(app.topic(source, value_deserializer="str", key_deserializer="bytes"))
    frame = frame.group_by(
        key, name="key", value_serializer="str", value_deserializer="str", key_serializer="str", key_deserializer="str"
    )
    frame.apply(count, stateful=True).to_topic(app.topic(target, value_serializer="str", key_serializer="str"))
    started = time.perf_counter()
    app.run()
    print("SECONDS", time.perf_counter() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
