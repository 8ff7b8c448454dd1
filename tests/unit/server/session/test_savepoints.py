"""Which job of a session still needs a savepoint that is to be deleted."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.server.proof import Reply
from flinkish.server.session import drivers

JOB = "a" * 32


def needing(
    monkeypatch: pytest.MonkeyPatch, root: Path, *, latest: Any, status: str | None = None, properties: tuple[str, ...] = ()
) -> str | None:
    """Ask for a session with one job; `latest` is what its driver answers, None = it does not answer."""
    entry = SimpleNamespace(job_id=JOB, status=status, properties=properties)
    settings = SimpleNamespace(properties=("parallelism.default=2",))
    dispatcher: Any = SimpleNamespace(jobs=lambda: [entry], drivers=lambda: [entry], settings=settings)

    def forward(*_: Any) -> Reply:
        if latest is None:
            raise OSError("nobody there")
        return Reply(200, json.dumps({"latest": latest}).encode(), "application/json")

    monkeypatch.setattr(drivers, "forward", forward)
    return drivers.job_that_needs(dispatcher, root)


def test_a_job_needs_its_savepoint_until_its_first_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = (f"execution.state-recovery.path=file://{tmp_path}/one",)
    here, other = tmp_path / "one", tmp_path / "two"
    restored = {"external_path": str(here)}
    none_yet = {"completed": None, "restored": restored}

    assert needing(monkeypatch, here, latest=none_yet) == JOB
    assert needing(monkeypatch, other, latest=none_yet) is None
    assert needing(monkeypatch, here, latest={"completed": {"id": 8}, "restored": restored}) is None
    assert needing(monkeypatch, here, latest={"completed": None, "restored": None}, properties=given) == JOB
    # A driver that was lost may start from it at any moment.
    assert needing(monkeypatch, here, latest=None, properties=given) == JOB
    assert needing(monkeypatch, other, latest=None, properties=given) is None
    assert needing(monkeypatch, here, latest=None) is None
    assert needing(monkeypatch, here, latest=none_yet, status="FINISHED") is None
    # The driver has started again, from a checkpoint of its own.
    own = {"completed": None, "restored": {"external_path": f"{tmp_path}/checkpoints/{JOB}/state@3"}}
    assert needing(monkeypatch, here, latest=own, properties=given) is None
