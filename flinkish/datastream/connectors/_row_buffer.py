"""Rows that are not in a file yet: those of the current epoch on the heap, earlier ones encoded in a writer's list state.

A file in a columnar format cannot be appended to, and an epoch is much shorter than a checkpoint interval. So rows are kept in
state until a checkpoint, or until there are enough for a file. An epoch costs only as much as the rows that it adds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from flinkish.common.typeinfo import Types
from flinkish.program.sinks import SinkWriter, SinkWriterContext, WriterCommitT
from flinkish.udf.state import ListStateDescriptor

#: A buffer of this many rows or bytes is written to a file before the checkpoint, as it is in memory and in the state's log.
BUFFER_ROWS: Final = 100_000
BUFFER_BYTES: Final = 64 * 1024 * 1024

GroupT = TypeVar("GroupT")
FileT = TypeVar("FileT")


def bytes_state(name: str) -> ListStateDescriptor:
    return ListStateDescriptor(name, Types.PRIMITIVE_ARRAY(Types.BYTE()))


class RowBuffer(Generic[GroupT]):
    """Buffers rows by group, such as a partition; groups are plain data that MessagePack can encode."""

    def __init__(
        self,
        context: SinkWriterContext,
        name: str,
        group_type: Any,
        encode: Callable[[Sequence[Any]], bytes],
        *,
        most_rows: int | None = None,
    ) -> None:
        self._most_rows = most_rows
        self._state = context.get_list_state(bytes_state(name))
        self._decoder: msgspec.msgpack.Decoder[tuple[GroupT, int, bytes]] = msgspec.msgpack.Decoder(tuple[group_type, int, bytes])
        self._encode = encode
        self._open: dict[GroupT, list[Any]] = {}
        #: Chunks of this epoch that were encoded before its end: group, number of rows, chunk.
        self._closed: list[tuple[GroupT, int, bytes]] = []
        self._count()

    def _count(self) -> None:
        self._rows = self._bytes = 0
        for item in self._state.get():
            _, rows, chunk = self._decoder.decode(item)
            self._rows += rows
            self._bytes += len(chunk)

    def sizes(self) -> dict[GroupT, int]:
        """Return the number of bytes of each sealed group."""
        sizes: dict[GroupT, int] = {}
        for item in self._state.get():
            group, _, chunk = self._decoder.decode(item)
            sizes[group] = sizes.get(group, 0) + len(chunk)
        return sizes

    def group(self, group: GroupT) -> list[Any]:
        """Return the list to which rows of a group are appended in this epoch; it is valid until `seal`."""
        rows = self._open.get(group)
        if rows is None:
            rows = self._open[group] = []
        return rows

    def add_chunk(self, group: GroupT, rows: int, chunk: bytes) -> None:
        """Append rows of a group that are encoded already; lists that `group` has returned are no longer valid."""
        self._close()
        self._closed.append((group, rows, chunk))

    def _close(self) -> None:
        self._closed += [(group, len(rows), self._encode(rows)) for group, rows in self._open.items()]
        self._open.clear()

    def seal(self) -> None:
        """Encode the rows of this epoch into the state."""
        self._close()
        for closed in self._closed:
            self._state.add(msgspec.msgpack.encode(closed))
            self._rows += closed[1]
            self._bytes += len(closed[2])
        self._closed.clear()

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full, so that it should be written to files now."""
        return self._rows >= (BUFFER_ROWS if self._most_rows is None else self._most_rows) or self._bytes >= BUFFER_BYTES

    def take(self, keep: Container[GroupT] = ()) -> dict[GroupT, list[bytes]]:
        """Return the encoded chunks of each group in their order, and remove them from the buffer; groups in `keep` stay."""
        self.seal()
        groups: dict[GroupT, list[bytes]] = {}
        kept = []
        for item in self._state.get():
            group, _, chunk = self._decoder.decode(item)
            if group in keep:
                kept.append(item)
            else:
                groups.setdefault(group, []).append(chunk)
        if groups:
            self._state.update(kept)
            self._count()
        return groups


class BufferedWriter(SinkWriter[Any, WriterCommitT], Generic[WriterCommitT, GroupT, FileT]):
    """A writer that puts the rows of its buffer into files at a checkpoint, or when the buffer is full.

    `name`: the beginning of the names of its states; `rows` ends the name of the rows' state. `encode` makes a chunk of rows of
    one group; `make_files` makes files of the chunks.
    """

    def __init__(
        self,
        context: SinkWriterContext,
        name: str,
        group_type: Any,
        file_type: type[FileT],
        encode: Callable[[Sequence[Any]], bytes],
        make_files: Callable[[dict[GroupT, list[bytes]]], Sequence[FileT]],
        *,
        rows: str = "rows",
    ) -> None:
        self._buffer: RowBuffer[GroupT] = RowBuffer(context, f"{name}.{rows}", group_type, encode)
        self._make_files = make_files
        self._file_state = context.get_list_state(bytes_state(f"{name}.files"))
        self._files = [msgspec.msgpack.decode(item, type=file_type) for item in self._file_state.get()]

    def end_epoch(self) -> None:
        self._seal()
        if self._buffer.is_full:
            self._empty_buffer()

    def flush(self, end_of_input: bool) -> None:
        self._seal()
        self._empty_buffer()

    def _seal(self) -> None:
        self._buffer.seal()

    def _empty_buffer(self) -> None:
        groups = self._buffer.take()
        if groups:
            self._files.extend(self._make_files(groups))
            self._file_state.update([msgspec.msgpack.encode(file) for file in self._files])

    def _take_files(self) -> list[FileT]:
        """Return the files since the last checkpoint, and forget them."""
        files, self._files = self._files, []
        if files:
            self._file_state.clear()
        return files
