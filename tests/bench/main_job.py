"""What a flight costs the main job, jobs/flight_delays.py, in processor time: `make bench ARGS='--only main-job'`."""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

from tests.bench.keyed_count import environment
from tests.bench.measure import cpu_by_kind, epoch_times

_JOBS = Path(__file__).parents[2] / "jobs"
#: The first epochs read few flights; slot hosts import what they need in them.
_START = 3


def microseconds_a_flight(checkpoint_interval_ms: int) -> dict[str, float]:
    """Run the job over a year of flights; return the processor time after the start by kind of process."""
    sys.path.insert(0, str(_JOBS))
    import flight_delays
    from flight_files import packaged_flights, packaged_weather, read_header

    cache = _JOBS.parent / ".cache"
    flights, weather = packaged_flights(cache), packaged_weather(cache)
    with tempfile.TemporaryDirectory() as folder, epoch_times() as times:
        env = environment("spark")
        flight_delays.set_up(env, checkpoint_interval_ms)
        header = read_header("flights", flights, flight_delays.COLUMNS, "flights")
        flight_delays.build(env, flights.resolve(), header, weather.resolve(), Path(folder), 30)
        client = env.execute_async("main job")
        ended = client.get_job_execution_result()
        start: dict[str, float] = {}
        used: dict[str, float] = {}
        # Slot hosts are gone after the end.
        while not ended.done():
            if len(times.begun) >= _START:
                now = cpu_by_kind()
                start = start or now
                used = {kind: max(used.get(kind, 0.0), now[kind]) for kind in now}
            threading.Event().wait(0.2)
        ended.result()
    records = flights.read_bytes().count(b"\n") - 1
    return {kind: 1e6 * (used[kind] - start.get(kind, 0.0)) / records for kind in used}
