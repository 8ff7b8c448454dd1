"""Deleting savepoints by requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.waiting import wait_until
from tests.unit.server.support import UNKNOWN, Server, endless_job, make_env, served


def finish(server: Server, path: str, trigger_id: str) -> dict[str, Any]:
    wait_until(f"the end of {path}", lambda: server.get(f"{path}/{trigger_id}")["status"]["id"] == "COMPLETED", 120)
    return dict(server.get(f"{path}/{trigger_id}")["operation"])


def dispose(server: Server, path: object) -> dict[str, Any]:
    status, answer = server.ask("POST", "/v1/savepoint-disposal", {"savepoint-path": str(path)})
    assert status == 200
    return finish(server, "/savepoint-disposal", answer["request-id"])


def test_a_savepoint_is_deleted_unless_a_job_still_needs_it(tmp_path: Path) -> None:
    with served() as server:
        first = endless_job(make_env(tmp_path))
        savepoint = Path(first.trigger_savepoint(str(tmp_path / "kept")).result(120))
        first.cancel().result(120)
        # A job that takes no checkpoint of its own needs it to the end.
        never = make_env(tmp_path, **{"execution.state-recovery.path": str(savepoint), "execution.checkpointing.interval": "1 h"})
        second = endless_job(never)
        try:
            (tmp_path / "link").symlink_to(tmp_path / "kept")
            for path in (savepoint, f"file://{savepoint}", tmp_path / "link" / savepoint.name):
                refused = dispose(server, path)
                assert f"job {second.get_job_id()} was started from it" in refused["failure-cause"]["stack-trace"]
            assert savepoint.is_dir()
            # Its first checkpoint sets the savepoint free.
            _, answer = server.ask("POST", f"/jobs/{second.get_job_id()}/checkpoints")
            assert "checkpointId" in finish(server, f"/jobs/{second.get_job_id()}/checkpoints", answer["request-id"])
            assert dispose(server, savepoint) == {}
        finally:
            second.cancel().result(120)

        assert not savepoint.exists()
        again = dispose(server, savepoint)
        assert again["failure-cause"]["class"] == "ForeignCheckpointError"
        assert "there is no such folder" in again["failure-cause"]["stack-trace"]


@pytest.mark.parametrize("body", [{}, {"savepoint-path": None}, {"savepoint-path": ""}, {"savepoint-path": 3}])
def test_a_disposal_needs_a_path(body: dict[str, Any]) -> None:
    with served() as server:
        assert server.ask("POST", "/savepoint-disposal", body)[0] == 400
        assert server.ask("GET", f"/savepoint-disposal/{UNKNOWN}")[0] == 404
        assert server.ask("GET", "/savepoint-disposal/x")[0] == 400
