"""Takes over open windows of a checkpoint that another version of the program stored in another form, or refuses them by name.

Each form has its own names of states. If a window operator does not request such a state when it is opened, the state would be
lost, so it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from flinkish.common import options
from flinkish.common.errors import ForeignCheckpointError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.runtime.state.backend import TimerTable
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.runtime.state.level_state import OperatorState
from flinkish.runtime.state.tables import Namespaced, namespace_of
from flinkish.udf.state import AggregatingStateDescriptor, MapStateDescriptor, ReducingStateDescriptor

#: Accumulators or lists of records.
CONTENTS = "window-contents"
TIMESTAMPED_CONTENTS = "window-contents-timestamped"
#: The merging windows of a key, with the namespace of the contents of each.
MERGING_SET = "merging-window-set"
#: From the start of each session of a key to its end and accumulator.
SESSIONS = "window-sessions"
#: Beginning of the names of states with the open windows of a number of records.
COUNTED = f"{CONTENTS}-counted"
#: Beginning of the names of states with panes that overlapping windows share.
PANES = "window-panes"

#: The classes of namespaces of timers that a user's function has set.
_VOID: frozenset[type] = frozenset({type(None)})

#: Key, start, end, accumulator.
TakeSession = Callable[[Any, int, int, Any], None]


def panes_name(length: int, offset: int) -> str:
    """Return the name of the state of panes with a length and offset (ms), because other panes contain other records."""
    return f"{PANES}-{length}" + (f"-{offset % length}" if offset % length else "")


def counted_name(size: int, slide: int) -> str:
    """Return the name of the state of open windows of a number of records, because those of another number end elsewhere."""
    return f"{COUNTED}-{size}" + (f"-{slide}" if slide != size else "")


def _kept(name: str) -> str | None:
    """Return a phrase about how a state stores windows; None if it contains none."""
    if name.startswith(PANES):
        return f"in panes that overlapping windows share ({name.removeprefix(PANES).strip('-')} ms)"
    if name.startswith(COUNTED):
        size, _, slide = name.removeprefix(f"{COUNTED}-").partition("-")
        return f"as windows of {size} records" + (f", one every {slide} records" if slide else "")
    return {
        CONTENTS: "window by window",
        TIMESTAMPED_CONTENTS: "window by window with the timestamps of records, as an evictor needs them",
        MERGING_SET: "as windows that are merged",
        SESSIONS: "session by session",
    }.get(name)


def refuse_other_windows(state: OperatorState, own: str, unclaimed: set[str] | None = None) -> None:
    """Refuse a checkpoint with windows in a form that the operator does not read, because they would be lost.

    `own` is the name of the state that it reads; `unclaimed` are names of states, None = those not requested yet. Raises
    ForeignCheckpointError.
    """
    for name in sorted(state.unclaimed() if unclaimed is None else unclaimed):
        kept = _kept(name)
        if kept is not None:
            go_on = "go on with the same assigner, trigger, evictor and kind of function"
            if name.startswith(PANES) != own.startswith(PANES):
                wanted = "true" if name.startswith(PANES) else "false"
                go_on += f", and with {options.SHARE_PANES.key}: {wanted}"
            raise ForeignCheckpointError(
                f"operator {state.uid} cannot go on with its open windows: the checkpoint holds them {kept} (as {name}), but "
                f"this program keeps them {_kept(own)} (as {own})",
                hint=f"{go_on}; or give the operator another uid, to start without windows.",
            )


def refuse_windows(state: OperatorState, timers: TimerTable) -> None:
    """Refuse a checkpoint with windows, for an operator that has none: it would take their timers for those of its function.

    Raises ForeignCheckpointError.
    """
    kept = next(filter(None, map(_kept, sorted(state.unclaimed()))), None)
    if kept is not None or namespace_kinds(timers) - _VOID:
        raise ForeignCheckpointError(
            f"operator {state.uid} cannot go on from the checkpoint, which has open windows or the like of an operator with "
            f"this uid{f', {kept}' if kept else ''}; they would be lost",
            hint="give the operator another uid, to start without them.",
        )


def refuse_timers(state: OperatorState, timers: TimerTable) -> None:
    """Refuse a checkpoint with timers that belong to no window; raises ForeignCheckpointError.

    The sessions of sessions.py have such timers, too: one for each key.
    """
    if SESSIONS not in state.unclaimed() and not _VOID.isdisjoint(namespace_kinds(timers)):
        raise ForeignCheckpointError(
            f"operator {state.uid} cannot go on from the checkpoint, which has timers that an operator with this uid set for "
            "keys; a window operator has timers of windows only, so they would be lost",
            hint="give the operator another uid, to start without them.",
        )


def refuse_other_kind(uid: str, assigner: Any) -> NoReturn:
    """Refuse a checkpoint whose windows are not of the kind that the assigner makes; raises ForeignCheckpointError."""
    raise ForeignCheckpointError(
        f"operator {uid} cannot go on with its open windows: the checkpoint has windows of another kind than {assigner!r}",
        hint="go on with the same assigner, or give the operator another uid, to start without windows.",
    )


def drop_timers(timers: TimerTable) -> None:
    """Drop the timers of windows that are stored in another form from now on."""
    timers.event_time.forget(logged=True)
    timers.processing_time.forget(logged=True)


def namespace_kinds(timers: TimerTable) -> set[type]:
    """Return the classes of the namespaces of all timers; that of None for the void namespace."""
    return {type(namespace_of(address)) for queue in (timers.event_time, timers.processing_time) for _, address in queue}


def merging_set() -> MapStateDescriptor:
    anything = Types.PICKLED_BYTE_ARRAY()
    return MapStateDescriptor(MERGING_SET, anything, anything)


def sessions(fold_type: TypeInformation) -> MapStateDescriptor:
    return MapStateDescriptor(SESSIONS, Types.LONG(), Types.TUPLE([Types.LONG(), fold_type]))


def take_sessions(backend: KeyedStateBackend, fold_type: TypeInformation, take: TakeSession) -> None:
    """Clear the state of sessions, and pass each session to `take`."""
    table, _ = backend.table_of(sessions(fold_type))
    for key in table.addresses():
        backend.current_key = key
        for start, (end, accumulator) in table.entries(key):
            take(key, start, end, accumulator)
        table.clear(key)


def take_merged_windows(
    backend: KeyedStateBackend, contents: ReducingStateDescriptor | AggregatingStateDescriptor, take: TakeSession
) -> None:
    """Clear the state of merging windows and their contents, and pass each non-empty window to `take`."""
    windows, _ = backend.table_of(merging_set())
    accumulators, _ = backend.table_of(contents)
    for key in windows.addresses():
        backend.current_key = key
        for (start, end), namespace in windows.entries(key):
            address = Namespaced(key, namespace)
            accumulator = accumulators.get(address)
            if accumulator is not None:
                take(key, start, end, accumulator)
                accumulators.remove(address)
        windows.clear(key)
