"""Savepoints and checkpoints as data: read their state, and write savepoints, without the program that they are of.

The names are those of Flink's State Processor API where they fit.
"""

from __future__ import annotations

from flinkish.state.diff import Change, StateDiff, diff_savepoints
from flinkish.state.reader import OperatorInfo, SavepointReader, StateInfo
from flinkish.state.table import StateTable

__all__ = ["Change", "OperatorInfo", "SavepointReader", "StateDiff", "StateInfo", "StateTable", "diff_savepoints"]
