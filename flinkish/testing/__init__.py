"""Tools for tests of programs: harnesses run single operators, or pieces of a program, step by step and without an engine."""

from flinkish.runtime.elements import EndOfInput, Watermark, WatermarkStatus
from flinkish.testing.harness import OneInputHarness, OutputElement, StreamRecord, TwoInputHarness
from flinkish.testing.snapshots import HarnessSnapshot, StateEntry

__all__ = [
    "EndOfInput",
    "HarnessSnapshot",
    "OneInputHarness",
    "OutputElement",
    "StateEntry",
    "StreamRecord",
    "TwoInputHarness",
    "Watermark",
    "WatermarkStatus",
]
