"""Processes are told apart by pid and start time, also after the machine's clock was set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from flinkish.engine.processes import ProcessId
from flinkish.engine.scratch import make_folder, remove_orphans


def _set_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the system say that it has booted at another time, as it does after its clock was set."""
    at = psutil.boot_time() + seconds
    for place in ("psutil._pslinux.boot_time", "psutil.boot_time"):
        monkeypatch.setattr(place, lambda: at)


@pytest.mark.parametrize("seconds", [-3_600, 5])
def test_a_process_is_the_same_after_the_clock_was_set(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    me = ProcessId.of(os.getpid())
    assert me is not None
    _set_clock(monkeypatch, seconds)

    assert me.is_alive()
    assert ProcessId.of(os.getpid()) == me


def test_a_folder_in_use_is_no_orphan_after_the_clock_was_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(tmp_path, "flinkish-test")
    _set_clock(monkeypatch, 60)

    remove_orphans(tmp_path, "flinkish-test")

    assert folder.exists()


def test_a_process_that_has_ended_is_not_alive_even_if_nobody_has_waited_for_it() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = ProcessId.of(child.pid)
    assert found is not None
    assert found.is_alive()
    assert found.started_since_boot()

    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert not found.is_alive()
    child.wait()
    assert ProcessId.of(child.pid) is None
