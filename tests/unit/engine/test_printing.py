"""The lines of print() sinks go to the standard output, or the job fails."""

from __future__ import annotations

import sys

import pytest

from flinkish.engine.launcher import print_lines
from flinkish.jobmaster.delivery import PrintError


def test_printing_without_a_standard_output_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # as after `python job.py >&-`
    with pytest.raises(PrintError, match=r"needs a standard output, and it is closed\nHint: redirect it"):
        print_lines(("a",))
