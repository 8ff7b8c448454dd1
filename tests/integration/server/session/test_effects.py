"""Whose processes a dispatcher judges: its own children, and no others with the same id."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from flinkish.engine.processes import this_process
from flinkish.server.session.processes import Command, Processes


def test_a_process_is_not_taken_for_an_earlier_child_with_the_same_id(tmp_path: Path) -> None:
    processes = Processes()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    me = this_process()
    processes._children[me.pid] = child, 5.0

    assert processes.is_alive(me.pid, me.created)
    assert not processes.is_alive(me.pid, 5.0)


def test_children_that_have_ended_are_forgotten_with_the_next_start(tmp_path: Path) -> None:
    processes = Processes()
    files = {"log": tmp_path / "log", "stdout": tmp_path / "out"}
    command = Command(arguments=[sys.executable, "-c", ""], environment={}, folder=tmp_path, **files)
    first, _ = processes.start(command)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    second, created = processes.start(command)

    assert list(processes._children) == [second]
    os.waitid(os.P_PID, second, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(second, created)
