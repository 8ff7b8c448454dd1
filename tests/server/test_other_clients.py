"""Clients of Flink's REST API that nobody here wrote, unchanged, each in an environment of its own.

They are slow to install, so `-m soak` runs these tests. What became of each call was recorded from real Flink 2.3.0.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.driver import served_job

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1_200)]

_HERE = Path(__file__).parent
#: What calls of the generated client became with real Flink: parsed, not parsed, or an exception of the client.
FLINK = json.loads((_HERE / "clients" / "job_manager_api_flink.json").read_text())
#: Calls with another result here, with the reason.
OTHERWISE = {"get_jar_list": ("404 None", "a driver takes no programs; a session does")}


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of the server of a job that runs, and its id."""
    with served_job(tmp_path) as (_, port, job_id):
        yield f"http://localhost:{port}", job_id


def install(folder: Path, *packages: str) -> Path:
    """Make an environment with packages and return its folder of programs; skips where they cannot be fetched."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        if os.environ.get("CI"):
            raise AssertionError(result.stderr)
        pytest.skip(f"{packages[0]} could not be installed: {result.stderr[-300:]}")
    return folder / "bin"


def run(command: list[str], **environment: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, **environment})
    assert result.returncode == 0, result.stderr[-3_000:]
    return result.stdout


def test_the_generated_client_gets_what_it_gets_from_flink(job: tuple[str, str], tmp_path: Path) -> None:
    programs = install(tmp_path / "venv", "flink-job-manager-api==1.0.2")

    results = json.loads(run([str(programs / "python"), str(_HERE / "clients" / "job_manager_api.py"), *job]))

    expected = FLINK | {name: result for name, (result, _) in OTHERWISE.items()}
    assert results == expected


def test_every_tool_of_the_mcp_server_answers(job: tuple[str, str], tmp_path: Path) -> None:
    programs = install(tmp_path / "venv", "flink-mcp-server==0.4.2", "mcp<2")

    results = json.loads(run([str(programs / "python"), str(_HERE / "clients" / "mcp_server.py"), *job]))

    failed = {name: result for name, result in results.items() if "raises" in str(result)[:10]}
    assert list(failed) == ["list_jars"]
    assert results["cluster_overview"]["slots_total"] == 2
    assert results["list_jobs"][0]["state"] == "RUNNING"
    assert results["diagnose_job"]["state"] == "RUNNING"
    assert results["taskmanagers"][0]["slots"] == 2
    assert len(results["backpressure"]) == 2
    assert results["checkpoint_stats"]["counts"]["completed"] > 0


def test_datahub_ingests_the_job(job: tuple[str, str], tmp_path: Path) -> None:
    programs = install(tmp_path / "venv", "acryl-datahub[flink]==1.7.0.17")
    recipe = {
        "source": {"type": "flink", "config": {"connection": {"rest_api_url": job[0]}}},
        "sink": {"type": "file", "config": {"filename": str(tmp_path / "events.json")}},
    }
    (tmp_path / "recipe.yml").write_text(json.dumps(recipe))

    report = run(
        [str(programs / "datahub"), "ingest", "-c", str(tmp_path / "recipe.yml")],
        DATAHUB_TELEMETRY_ENABLED="false",
        HOME=str(tmp_path),
    )

    assert "Pipeline finished successfully" in report, report[-3_000:]
    events = json.loads((tmp_path / "events.json").read_text())
    infos = [event["aspect"]["json"] for event in events if event["aspectName"] == "dataFlowInfo"]
    assert [info["name"] for info in infos] == ["served job"]
    assert {event["aspectName"] for event in events} >= {"dataJobInfo", "dataProcessInstanceRunEvent"}
