"""What a simulated job computes, as plain Python: the truth that its state is compared with."""

from __future__ import annotations

from typing import Protocol

#: Count and sum of the records of a key.
Value = tuple[int, int]
Content = dict[int, Value]


class Values(Protocol):
    """State of the records' keys."""

    def get(self, key: int) -> Value | None: ...

    def put(self, key: int, value: Value) -> None: ...

    def remove(self, key: int) -> None: ...


def key_of(record: int) -> int:
    return record * 7 % 11


def process(state: Values, record: int) -> None:
    """Process one record; a record is its own position in the input."""
    key = key_of(record)
    if record % 13 == 12:
        state.remove(key)
    else:
        count, total = state.get(key) or (0, 0)
        state.put(key, (count + 1, total + record))


class _Plain:
    def __init__(self, content: Content) -> None:
        self.content = dict(content)

    def get(self, key: int) -> Value | None:
        return self.content.get(key)

    def put(self, key: int, value: Value) -> None:
        self.content[key] = value

    def remove(self, key: int) -> None:
        self.content.pop(key, None)


_KNOWN: list[Content] = [{}]


def content_after(position: int) -> Content:
    """Return the state after the records before a position."""
    while len(_KNOWN) <= position:
        state = _Plain(_KNOWN[-1])
        process(state, len(_KNOWN) - 1)
        _KNOWN.append(state.content)
    return _KNOWN[position]
