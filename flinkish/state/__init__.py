"""Savepoints and checkpoints as data: read their state, and write savepoints, without the program that they are of.

The names are those of Flink's State Processor API where they fit.
"""

from __future__ import annotations

from flinkish.state.bootstrap import (
    BootstrapTransformation,
    KeyedOperatorTransformation,
    KeyedStateBootstrapFunction,
    OneInputOperatorTransformation,
    OperatorTransformation,
    StateBootstrapFunction,
)
from flinkish.state.diff import Change, StateDiff, diff_savepoints
from flinkish.state.reader import OperatorInfo, SavepointReader, StateInfo
from flinkish.state.table import StateTable
from flinkish.state.writer import REMOVE, SavepointWriter

__all__ = [
    "REMOVE",
    "BootstrapTransformation",
    "Change",
    "KeyedOperatorTransformation",
    "KeyedStateBootstrapFunction",
    "OneInputOperatorTransformation",
    "OperatorInfo",
    "OperatorTransformation",
    "SavepointReader",
    "SavepointWriter",
    "StateBootstrapFunction",
    "StateDiff",
    "StateInfo",
    "StateTable",
    "diff_savepoints",
]
