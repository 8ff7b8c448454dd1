"""Windows as namespaces of state and timers: plain data, so that a checkpoint can be read without unpickling."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from flinkish.common.errors import InvalidProgramError
from flinkish.udf.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
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
        """Return the namespace of a window."""
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
        """Return the window of a namespace."""
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
