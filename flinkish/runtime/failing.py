"""Finds the operator and the record of an error from its stack, so that the hot path need not record them.

In the same way it finds the operator that a long epoch is in.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType, GeneratorType
from typing import Any

from flinkish.common.conversion import COMPILED
from flinkish.common.types import Row
from flinkish.runtime.operators.async_wait import Call
from flinkish.runtime.operators.base import Operator

#: Maximum number of characters shown of a record.
_SHOWN = 200

#: Methods of operators, readers and writers that process no record, with a clause for the message.
_WITHOUT_RECORD: Mapping[str, str] = {
    "open": "it was being opened",
    "close": "it was being closed",
    "read": "the source was being read",
    # A generator over the reader's records; its `value` is the record before the failure.
    "_counted": "the source was being read",
    "watermark": "a watermark came",
    "status": "its input became idle or active",
    "end_of_input": "its input ended",
    "finish": "its input ended",
    "end_key": "all records of a key were there",
    "begin_epoch": "timers of processing time were due",
    "before_barrier": "timers or periodic watermarks were due",
    "prepare_snapshot": "a checkpoint was being taken",
    "snapshot_state": "a checkpoint was being taken",
    "prepare_commit": "a checkpoint was being taken",
    "notify_checkpoint_complete": "a checkpoint was complete",
    "notify_checkpoint_aborted": "a checkpoint was aborted",
    "end_epoch": "the micro-batch ended",
    # What operators on columns do with records that have waited for others, whatever it is that comes now.
    **dict.fromkeys(("apply", "flush", "_fold"), "a batch of records was processed"),
    # What an asynchronous operator does before a barrier, and at the end of its input.
    "_drain": "results of asynchronous calls were awaited",
}
#: The modules of edges, by which a record goes on its way to the next operator.
_EDGES = ("flinkish.runtime.channels", "flinkish.runtime.partitioners")
#: Functions, by module, that process a record in a variable `value` and whose `self` is not an operator.
_HELPERS = {
    **dict.fromkeys(_EDGES, ("emit", "emit_run", "_emit_each", "_emit_keyed", "_indexes", "emit_slowly")),
    "flinkish.runtime.operators.source": ("collect",),
    "flinkish.runtime.state.heap.grouped": ("fold",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """The result of a search: `operator` is None if none was created yet; `at` names the record, or says why there is none."""

    operator: Operator | None
    at: str


def failing(error: BaseException) -> Failing:
    """Return the operator that raised an error, itself or in its user code, and its record: the innermost one on the stack."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        # A StopIteration that leaves a generator becomes a RuntimeError (PEP 479), whose stack begins where the next value was
        # requested. The operator that raised it is on the stack of the StopIteration.
        found = failing(error.__cause__)
        if found.operator is not None:
            return found
    operator: Operator | None = None
    at = own = "No record: the operator was being made."
    function = ""
    trace = error.__traceback__
    while trace is not None:
        code, scope = trace.tb_frame.f_code, trace.tb_frame.f_locals
        module = str(trace.tb_frame.f_globals.get("__name__"))
        candidate = scope.get("self")
        if isinstance(candidate, Operator):
            if candidate is not operator:
                operator, at = candidate, "No record: none was being processed."
            at = own = _at(code.co_name, scope) or at
        elif function == "emit_slowly" and code.co_filename == COMPILED:
            at = own  # the operator returned a value of another type than declared
        elif code.co_name in _HELPERS.get(module, ()) and "value" in scope:
            at = _record(scope["value"])
            if module in _EDGES:
                at += "\nIt was on its way to the next operator: the key selector or partitioner may be at fault."
            values = scope.get("values")
            if isinstance(values, GeneratorType) and values.gi_frame is not None:  # the operator is suspended in it
                own = _at("", values.gi_frame.f_locals) or own
        function = code.co_name
        trace = trace.tb_next
    return Failing(operator=operator, at=at)


def working(frame: FrameType | None) -> Operator | None:
    """Return the operator that a running thread is in: the innermost one on its stack; None if there is none."""
    while frame is not None:
        candidate = frame.f_locals.get("self")
        if isinstance(candidate, Operator):
            return candidate
        frame = frame.f_back
    return None


def _at(function: str, scope: Mapping[str, Any]) -> str | None:
    """Return the line about the record from a frame of an operator; None if the frame has no information."""
    if function == "fire":
        return f"No record: a timer or window was due at {_short(scope.get('timestamp'))}, of the key {_short(scope.get('key'))}"
    if function in _WITHOUT_RECORD:
        return f"No record: {_WITHOUT_RECORD[function]}."
    # The result of an asynchronous call may be emitted while another record is processed: the call's own record is meant.
    for name in ("ready", "call"):
        if isinstance(scope.get(name), Call):
            return _record(scope[name].value)
    for name in ("record", "value"):
        if name in scope:
            return _record(scope[name])
    return None


def _record(value: Any) -> str:
    return f"Record: {_short(value)}"


class _Short(reprlib.Repr):
    """A repr of the first few items only, so that it is fast for large records, too."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = self.maxarray = self.maxdeque = 20
        self.maxstring = self.maxlong = self.maxother = _SHOWN

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, bytes | bytearray):
            return repr(x[:_SHOWN]) + ("..." if len(x) > _SHOWN else "")
        if type(x) is Row:
            names = x.get_field_names()
            values = [self.repr1(value, level - 1) for value in x[:]]
            if names is None:
                return f"<Row({', '.join(values)})>"
            return f"Row({', '.join(f'{name}={value}' for name, value in zip(names, values, strict=True))})"
        return repr(x)


def _short(value: Any) -> str:
    """Return the repr of a value in one line of at most 200 characters; the class's name if its repr raises."""
    try:
        text = " ".join(_Short().repr(value).splitlines())
    # Any error of the user's __repr__ must not hide the error that is being reported.
    except BaseException as error:
        text = f"an instance of {type(value).__name__}, whose repr raises {type(error).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
