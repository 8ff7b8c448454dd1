"""Where the checkpoints of a session's jobs are kept, which its drivers need after a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from flinkish.common import Configuration, options
from flinkish.server import executor
from flinkish.server.session import driver_protocol, reporter
from flinkish.server.session.dispatcher_settings import session_settings
from tests.unit.server.session.support import Member

_INTERVAL = {"execution.checkpointing.interval": "1 s"}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (_INTERVAL, "/session/checkpoints"),
        ({**_INTERVAL, "execution.checkpointing.dir": "/own"}, "/own"),
        ({**_INTERVAL, "state.checkpoints.dir": "/own"}, "/own"),
        ({}, None),
    ],
)
def test_checkpoints_without_a_folder_are_kept_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str], expected: str | None
) -> None:
    assignment = driver_protocol.Assignment(
        job_id="1" * 32,
        driver_id="d",
        reports="127.0.0.1:1",
        storage=str(tmp_path),
        token="t",
        secret="s",
        files=("log", "out"),
        checkpoints="/session/checkpoints",
    )
    environment = {driver_protocol.ASSIGNMENT_VARIABLE: msgspec.json.encode(assignment).decode()}
    # First, so that what is put back after the test is not the driver that it makes: that would run the jobs of later tests.
    monkeypatch.setattr(executor, "session", None)
    driver = reporter.become_driver(environment)
    assert environment == {}
    found = driver._with_checkpoints(Configuration.from_dict(own))
    assert found.get(options.CHECKPOINTS_DIRECTORY) == expected


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({}, True),
        ({"high-availability.storageDir": ""}, True),
        # Executors on other machines may not have the Dispatcher's temporary folder.
        ({"high-availability.storageDir": "", "spark.master": "spark://a:7077"}, False),
        (
            {
                "high-availability.storageDir": "",
                "session.driver.launcher": "spark-submit",
                "session.driver.spark-submit-options": "[--master, 'spark://a:7077']",
            },
            False,
        ),
        ({"spark.master": "spark://a:7077"}, True),
    ],
)
def test_drivers_get_a_folder_for_checkpoints_that_their_tasks_can_access(
    tmp_path: Path, changes: dict[str, str], shared: bool
) -> None:
    configuration = {
        "high-availability.storageDir": str(tmp_path / "ha"),
        "io.tmp.dirs": str(tmp_path),
        "security.checkpoint.hmac-key-file": str(tmp_path / "key"),
        **changes,
    }
    settings = session_settings(Configuration.from_dict({key: value for key, value in configuration.items() if value}))
    assert settings.checkpoints == (settings.root / "checkpoints" if shared else None)
    member = Member(tmp_path)
    member.settings = replace(settings, start_timeout=0, logs=tmp_path / "log")
    member.dispatcher = member.make()
    assert member.submit().assignment.checkpoints == (str(settings.checkpoints) if shared else None)
