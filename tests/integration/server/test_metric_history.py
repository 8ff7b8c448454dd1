"""The figures of the last hour."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flinkish.server.state import MetricHistory
from tests.kit.waiting import wait_until
from tests.unit.server.support import endless_job, make_env, served


def test_the_figures_of_a_job_are_kept_also_after_its_end(tmp_path: Path) -> None:
    with served() as server:
        client = endless_job(make_env(tmp_path))
        job_id = str(client.get_job_id())
        path = f"/jobs/{job_id}/metrics/history"
        wait_until("records", lambda: server.get(f"/jobs/{job_id}")["vertices"][1]["metrics"]["read-records"] > 0)
        assert server.get(path)["times"] == []
        server.jobs.sample()
        server.jobs.sample()
        shown = server.get(path)
        vertex = server.get(f"/jobs/{job_id}")["vertices"][1]["id"]
        client.cancel().result(120)
        # A job that has ended has no new figures.
        server.jobs.sample()
        ended = server.get(path)

    assert (shown["interval"], len(shown["times"]), sorted(shown["times"])) == (10_000, 2, shown["times"])
    assert all(len(each["values"]) == 2 for each in shown["series"])
    found = {(each["vertex"], each["metric"]): each for each in shown["series"]}
    assert found[None, "numRestarts"]["values"] == [0, 0]
    rate = found[vertex, "numRecordsInPerSecond"]
    assert rate["aggregation"] == "sum"
    assert rate["values"][-1] > 0
    assert 0 <= found[vertex, "busyTimeMsPerSecond"]["values"][-1] <= 1000
    assert ended["times"] == shown["times"]


def test_only_the_last_hour_is_kept(tmp_path: Path) -> None:
    with served() as server:
        client = endless_job(make_env(tmp_path))
        job = server.jobs.get(str(client.get_job_id()))
        assert job is not None
        view = job.view()
        client.cancel().result(120)
    history = MetricHistory()
    for number in range(1_000):
        history.add(replace(view, now=10_000 * number))

    times = history.answer(view).times

    assert (len(times), times[0], times[-1]) == (360, 6_400_000, 9_990_000)
