"""Open windows of a checkpoint that another version of the program kept in another way: taken over, or refused by name.

Each way of keeping windows has states of its own name. What a window operator does not ask for when it is opened, and is such a
state, would be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkish.common import options
from flinkish.common.errors import ForeignCheckpointError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.state import AggregatingStateDescriptor, MapStateDescriptor, ReducingStateDescriptor
from flinkish.runtime.protocol import MAX_WATERMARK
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.runtime.state.tables import Namespaced
from flinkish.runtime.state.timers import InternalTimerService

#: Accumulators or lists of records.
CONTENTS = "window-contents"
TIMESTAMPED_CONTENTS = "window-contents-timestamped"
#: Which windows of a key there are, where they are merged, and in which namespace the contents of each lie.
MERGING_SET = "merging-window-set"
#: From the start of each session of a key to its end and accumulator.
SESSIONS = "window-sessions"
_PANES = "window-panes"

#: Key, start, end, accumulator.
TakeSession = Callable[[Any, int, int, Any], None]


def panes_name(length: int, offset: int) -> str:
    """Return the name of the state of panes of a length and offset (ms): others hold other records."""
    return f"{_PANES}-{length}" + (f"-{offset % length}" if offset % length else "")


def _kept(name: str) -> str | None:
    """Return in words how windows are kept in a state; None if it holds none."""
    if name.startswith(_PANES):
        return f"in panes that overlapping windows share ({name.removeprefix(_PANES).strip('-')} ms)"
    return {
        CONTENTS: "window by window",
        TIMESTAMPED_CONTENTS: "window by window with the timestamps of records, as an evictor needs them",
        MERGING_SET: "as windows that are merged",
        SESSIONS: "session by session",
    }.get(name)


def refuse_other_windows(uid: str, unclaimed: set[str], own: str) -> None:
    """Refuse to go on from a checkpoint that holds windows in a form that the operator does not read: they would be lost.

    `own` is the name of the state that it does read. Raises ForeignCheckpointError.
    """
    for name in sorted(unclaimed):
        kept = _kept(name)
        if kept is not None:
            go_on = "go on with the same assigner, trigger, evictor and kind of function"
            if name.startswith(_PANES) != own.startswith(_PANES):
                wanted = "true" if name.startswith(_PANES) else "false"
                go_on += f", and with {options.SHARE_PANES.key}: {wanted}"
            raise ForeignCheckpointError(
                f"operator {uid} cannot go on with its open windows: the checkpoint holds them {kept} (as {name}), but this "
                f"program keeps them {_kept(own)} (as {own})",
                hint=f"{go_on}; or give the operator another uid, to start without windows.",
            )


def drop_timers(timers: InternalTimerService) -> None:
    """Drop the timers of windows that are kept in another way from now on."""
    timers.advance_watermark(MAX_WATERMARK, _ignore)
    timers.advance_processing_time(MAX_WATERMARK, _ignore)


def _ignore(timestamp: int, key: Any, namespace: Any) -> None:
    pass


def merging_set() -> MapStateDescriptor:
    """Return the descriptor of the windows of a key that are merged."""
    anything = Types.PICKLED_BYTE_ARRAY()
    return MapStateDescriptor(MERGING_SET, anything, anything)


def sessions(fold_type: TypeInformation) -> MapStateDescriptor:
    """Return the descriptor of the sessions of a key, with accumulators of a type."""
    return MapStateDescriptor(SESSIONS, Types.LONG(), Types.TUPLE([Types.LONG(), fold_type]))


def take_sessions(backend: KeyedStateBackend, fold_type: TypeInformation, take: TakeSession) -> None:
    """Empty the state of sessions, giving each away."""
    table, _ = backend.table_of(sessions(fold_type))
    for key in table.addresses():
        backend.current_key = key
        for start, (end, accumulator) in table.entries(key):
            take(key, start, end, accumulator)
        table.clear(key)


def take_merged_windows(
    backend: KeyedStateBackend, contents: ReducingStateDescriptor | AggregatingStateDescriptor, take: TakeSession
) -> None:
    """Empty the state of windows that are merged, and their contents, giving each away that has any."""
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
