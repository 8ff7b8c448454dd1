"""Windows as namespaces of state and timers, and the merging windows of a key.

A namespace is plain data, so that a checkpoint can be read without unpickling. Merged windows use the namespace of one of them
for their contents, so a growing session moves no contents. The mapping from windows to these namespaces is map state of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from typing import Any

from flinkish.common.errors import InvalidProgramError, StateError
from flinkish.graph.windows import SESSIONS
from flinkish.runtime.operators.window.restored import merging_set
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.udf.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    MergingWindowAssigner,
    TimeWindow,
    TimeWindowSerializer,
    Window,
    WindowAssigner,
)

#: (start, end) of a TimeWindow, the id of a CountWindow, "" for the GlobalWindow, the serialized bytes of any other.
Namespace = Any

_GLOBAL = ""
_KINDS: dict[type, type] = {TimeWindowSerializer: tuple, CountWindowSerializer: int, GlobalWindowSerializer: str}


class WindowNamespaces:
    """Translates between windows and namespaces for one assigner."""

    def __init__(self, assigner: WindowAssigner[Any, Any]) -> None:
        self._assigner = assigner
        self._serializer: Any = None

    def of(self, window: Window) -> Namespace:
        kind = window.__class__
        if kind is TimeWindow:
            return window.start, window.end  # type: ignore[attr-defined]
        if kind is CountWindow:
            return window.id  # type: ignore[attr-defined]
        if kind is GlobalWindow:
            return _GLOBAL
        stream = BytesIO()
        self._serializer_of(kind).serialize(window, stream)
        return stream.getvalue()

    def window(self, namespace: Namespace) -> Any:
        kind = namespace.__class__
        if kind is tuple:
            return TimeWindow(*namespace)
        if kind is int:
            return CountWindow(namespace)
        if kind is str:
            return GlobalWindow()
        return self._serializer_of(Window).deserialize(BytesIO(namespace))

    def kind(self) -> type | None:
        """Return the class of the assigner's namespaces; None if its serializer does not tell."""
        serializer = self._assigner.get_window_serializer()
        return next((kind for of, kind in _KINDS.items() if isinstance(serializer, of)), None)

    def _serializer_of(self, kind: type) -> Any:
        if self._serializer is None:
            self._serializer = self._assigner.get_window_serializer()
            if self._serializer is None:
                raise InvalidProgramError(
                    f"{type(self._assigner).__name__}.get_window_serializer() returned None, "
                    f"but windows of class {kind.__name__} need one.",
                    hint="return a TypeSerializer that writes and reads the window.",
                )
        return self._serializer


#: merged window, windows merged into it, namespace of its contents, namespaces whose contents have to be moved there
OnMerge = Callable[[Namespace, Sequence[Namespace], Namespace, Sequence[Namespace]], None]


class MergingWindows:
    """The windows of the current key."""

    def __init__(
        self,
        assigner: MergingWindowAssigner[Any, Any],
        backend: KeyedStateBackend,
        namespaces: WindowNamespaces,
        on_merge: OnMerge,
    ) -> None:
        self._assigner = assigner
        self._namespaces = namespaces
        self._on_merge = on_merge
        self._state = backend.get_map_state(merging_set())
        self._decide = self._decide_sessions if type(assigner) in SESSIONS else self._decide_by_assigner

    def state_window(self, window: Namespace) -> Namespace | None:
        """Return the namespace of a window's contents; None if there is no such window."""
        return self._state.get(window)

    def take(self, window: Namespace) -> None:
        """Add a window of a checkpoint that does not touch others; its contents are stored under its own namespace."""
        self._state.put(window, window)

    def retire(self, window: Namespace) -> None:
        self._state.remove(window)

    def add(self, new: Namespace) -> Namespace:
        """Add a window, merge windows if necessary, and return the resulting window."""
        windows = list(self._state.keys())
        result = new
        for merge_result, merged in self._decide(windows, new):
            if new in merged:
                result = merge_result
                merged = [window for window in merged if window != new or new in windows]
            self._merge(merge_result, merged)
        if not self._state.contains(result):
            self._state.put(result, result)
        return result

    def _merge(self, result: Namespace, merged: list[Namespace]) -> None:
        if merged == [result]:
            # The new window lies within an existing one.
            return
        state_windows = [self._state.get(window) for window in merged]
        if None in state_windows or not merged:
            raise StateError(
                f"{type(self._assigner).__name__}.merge_windows() merged a window that was not among those it was given: "
                f"{[self._namespaces.window(window) for window in merged]}"
            )
        for window in merged:
            self._state.remove(window)
        self._state.put(result, state_windows[0])
        self._on_merge(result, merged, state_windows[0], state_windows[1:])

    @staticmethod
    def _decide_sessions(windows: list[Namespace], new: Namespace) -> Iterable[tuple[Namespace, list[Namespace]]]:
        """Decide like TimeWindow.merge_windows, given that existing windows do not touch each other.

        Windows are merged in order of time, as in sessions.py; in Flink the order is that of a hash set.
        """
        start, end = new
        touching = sorted([window for window in windows if window[0] <= end and window[1] >= start])
        if not touching:
            return ()
        result = (min(start, *(window[0] for window in touching)), max(end, *(window[1] for window in touching)))
        return ((result, [*touching, new] if new not in touching else touching),)

    def _decide_by_assigner(self, windows: list[Namespace], new: Namespace) -> Iterable[tuple[Namespace, list[Namespace]]]:
        decisions = _Decisions()
        candidates = windows if new in windows else [*windows, new]
        self._assigner.merge_windows([self._namespaces.window(window) for window in candidates], decisions)
        of = self._namespaces.of
        return [(of(result), [of(window) for window in merged]) for merged, result in decisions.taken]


class _Decisions(MergingWindowAssigner.MergeCallback[Any]):
    def __init__(self) -> None:
        self.taken: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.taken.append((list(to_be_merged), merge_result))
