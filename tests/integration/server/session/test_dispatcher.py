"""A session cluster whose storage is in S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.server.session.leadership import NotLeaderError
from tests.kit.s3_server import BUCKET, S3Server
from tests.unit.server.session.support import SCRIPT, Member


def test_a_session_in_s3_is_found_again_and_has_one_leader(s3: S3Server, tmp_path: Path) -> None:
    root = {"high-availability.storageDir": f"s3://{BUCKET}/{tmp_path.name}", **s3.settings}
    first = Member(tmp_path, **root)
    second = first.make("http://b:1", first_id=1_000)
    driver = first.submit()
    second.step()
    assert not second.leadership.lead
    first.archive(driver, "FINISHED", **{"/x": 1})
    first.clock.advance(10_001)
    second.step()

    with pytest.raises(NotLeaderError):
        first.dispatcher.upload("late.py", SCRIPT)
    driver.alive = False
    second.step()
    entry = second.job(driver.job_id)
    assert entry is not None
    assert entry.status == "FINISHED"
    archive = second.archive(entry)
    assert archive is not None
    assert archive.find("/x", {}) == b"1"
    # Credentials are in no command line, and those of the Dispatcher are in no driver's properties unless they were given there.
    assert not any(s3.settings["s3.secret-key"] in word for word in driver.command.arguments)
