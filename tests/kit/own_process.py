"""What a test changes of the process that it runs in; monkeypatch undoes it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from flinkish.common.config_file import PROPERTIES_VARIABLE


def set_arguments(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> None:
    """Give this process another command line; the first argument is the script."""
    monkeypatch.setattr(sys, "argv", [str(argument) for argument in arguments])


def keep_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo after the test what running a script changes."""
    set_arguments(monkeypatch, *sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setenv(PROPERTIES_VARIABLE, "")


def set_temporary_folder(monkeypatch: pytest.MonkeyPatch, folder: str | Path) -> None:
    """Have temporary files made in this folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
