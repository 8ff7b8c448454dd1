"""JSON text: it is parsed once, then passed on as Python objects, which need no declared type.

Run it with `python jobs/examples/process_json_data.py [-Dexecution.engine=local]`.
"""

from __future__ import annotations

import json
from typing import Any

from flinkish.datastream import DataStream, StreamExecutionEnvironment

STOPS = [
    (1, '{"line": "tram 3", "riders": 41, "stop": {"name": "Harbour", "zone": 1}}'),
    (2, '{"line": "bus 17", "riders": 9, "stop": {"name": "Old Mill", "zone": 2}}'),
    (3, '{"line": "tram 3", "riders": 38, "stop": {"name": "Castle", "zone": 1}}'),
    (4, '{"line": "ferry", "riders": 120, "stop": {"name": "Harbour", "zone": 1}}'),
]


def with_room(stop: tuple[int, str]) -> tuple[int, dict[str, Any]]:
    """Parse a stop and note how many of 60 seats are free."""
    number, text = stop
    data = json.loads(text)
    data["free"] = max(0, 60 - data["riders"])
    return number, data


def stops_in_zone_1(env: StreamExecutionEnvironment) -> DataStream:
    """Return the stops in the first zone."""
    return env.from_collection(STOPS).map(with_room).filter(lambda stop: stop[1]["stop"]["zone"] == 1)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    stops_in_zone_1(env).print()
    env.execute("JSON")


if __name__ == "__main__":
    main()
