"""Logs: which are listed, how much is shown, and what is hidden in them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.server import logs
from flinkish.server.logs import MEMORY_NAME, Logs
from tests.unit.server.support import served


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    """A file that the logger `flinkish` writes to."""
    path = tmp_path / "driver.log"
    handler = logging.FileHandler(path)
    logger = logging.getLogger("flinkish")
    logger.addHandler(handler)
    yield path
    logger.removeHandler(handler)
    handler.close()


def test_a_file_that_logging_writes_is_listed_and_shown(log_file: Path) -> None:
    (log_file.parent / "other.log").write_text("not listed")
    with served() as server:
        logging.getLogger("flinkish.test").warning("a message; s3.secret-key=hush-hush")
        listed = server.get("/jobmanager/logs")["logs"]
        text = server.get("/jobmanager/logs/driver.log")

        assert listed[0] == {"name": "driver.log", "size": log_file.stat().st_size, "mtime": listed[0]["mtime"]}
        assert text == "a message; s3.secret-key=******\n" == server.get("/jobmanager/log")
        for name in ("other.log", "..%2Fother.log", str(log_file).replace("/", "%2F"), "%2e%2e", "none.txt"):
            status, answer = server.ask("GET", f"/jobmanager/logs/{name}")
            assert (status >= 400, "not listed" in str(answer)) == (True, False), name


def test_without_a_file_the_last_messages_are_shown() -> None:
    with served() as server:
        logger = logging.getLogger("flinkish.test")
        logger.addHandler(server.state.logs)
        try:
            logger.warning("first %s", "message")
        finally:
            logger.removeHandler(server.state.logs)

        assert MEMORY_NAME in [log["name"] for log in server.get("/jobmanager/logs")["logs"]]
        assert server.get(f"/jobmanager/logs/{MEMORY_NAME}").endswith("flinkish.test - first message\n")


def test_the_main_log_is_one_of_this_process_whatever_further_files_there_are(tmp_path: Path) -> None:
    further = tmp_path / "further.log"
    further.write_text("further")
    found = Logs(more=lambda: [further, tmp_path / "none.log"])
    # Before the messages in memory, there may be files to which pytest writes.
    assert [log.name for log in found.all()][-2:] == [MEMORY_NAME, "further.log"]
    assert found.text("further.log") == "further"


def test_of_a_long_file_only_whole_lines_of_its_end_are_shown(log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LONGEST", 100)
    log_file.write_text("".join(f"password: secret-{number}\n" for number in range(100)) + "the end\n")

    text = Logs().text("driver.log")

    assert text is not None
    assert text.startswith("(the first ")
    assert text.endswith("the end\n")
    assert "secret-" not in text
    assert len(text) < 200


def test_the_end_of_a_long_line_has_no_part_of_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.write_text(f"{'x' * 90} s3.secret-key=hush-hush")

    assert logs.tail(path, 5) == "*****"
    assert logs.tail(tmp_path / "none", 5) == ""
