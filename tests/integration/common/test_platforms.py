"""Systems on which flinkish does not run."""

from __future__ import annotations

from tests.kit.child import python


def test_python_for_windows_is_refused_with_the_way_to_go() -> None:
    code = "import sys; sys.platform = 'win32'; import flinkish"

    result = python("-c", code, status=1)

    assert "ImportError: flinkish runs on Linux and macOS only" in result.stderr
    assert "WSL 2" in result.stderr
