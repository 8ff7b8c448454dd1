"""The lines in a region of a file, with the exact byte position after the lines taken."""

from __future__ import annotations

import codecs
from typing import IO, Final

#: Number of bytes to read at once: 256 KiB contain some thousand lines, and fit into the processor's cache.
_CHUNK: Final = 256 * 1024
_BOMS: Final[dict[str, list[tuple[bytes, str]]]] = {
    "utf-16": [(codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
    "utf-32": [(codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")],
    "utf-8-sig": [(codecs.BOM_UTF8, "utf-8")],
}
_WITHOUT_BOM: Final = {"utf-16": "utf-16-be", "utf-32": "utf-32-be", "utf-8-sig": "utf-8"}


def detect_encoding(head: bytes, charset: str) -> tuple[str, int]:
    """Return the encoding of a file that begins with `head`, and the length of its byte order mark.

    Without a mark UTF-16 and UTF-32 are big-endian, as in Java.
    """
    name = codecs.lookup(charset).name
    for bom, encoding in _BOMS.get(name, ()):
        if head.startswith(bom):
            return encoding, len(bom)
    return _WITHOUT_BOM.get(name, name), 0


def is_byte_oriented(charset: str) -> bool:
    """Return whether every byte 0x0A is a line feed, so that lines can be found from the middle of a file."""
    return not codecs.lookup(charset).name.startswith(("utf-16", "utf-32"))


class LineReader:
    """Cuts a stream into lines that end with a line feed; the last line may end with the file.

    A region owns the lines whose first byte is in it; the last of these lines may extend beyond the region.
    """

    def __init__(self, file: IO[bytes], encoding: str, start: int, end: int | None) -> None:
        self._file = file
        self._line_feed = "\n".encode(encoding)
        self._end = end
        #: Offset of the next line.
        self.position = start
        self._lines: list[bytes] = []
        self._index = 0
        self._tail = b""
        self._at_end = False
        #: Whether the last line of the file, if it has been read, lacks a line feed.
        self._unterminated = False
        file.seek(start)

    def skip_partial_line(self) -> None:
        """Move to the first line that begins at or after the position; a line that begins before it belongs to another region."""
        if self.position == 0:
            return
        width = len(self._line_feed)
        self.position -= width
        self._file.seek(self.position)
        end, self._end = self._end, None
        self.take(1)
        self._end = end
        self._limit()

    def take(self, limit: int) -> list[bytes]:
        """Return up to `limit` lines without their line feeds, at least one unless the region is at its end."""
        if self._index >= len(self._lines) and not self._fill():
            return []
        lines = self._lines[self._index : self._index + limit]
        self._index += len(lines)
        self.position += sum(map(len, lines)) + len(lines) * len(self._line_feed)
        if self._unterminated and self._at_end and self._index >= len(self._lines):
            self.position -= len(self._line_feed)
        return lines

    @property
    def exhausted(self) -> bool:
        """Whether there is no line left; this may read ahead."""
        return self._index >= len(self._lines) and not self._fill()

    def _fill(self) -> bool:
        if self._at_end or (self._end is not None and self.position >= self._end):
            return False
        parts = [self._tail]
        while True:
            chunk = self._file.read(_CHUNK)
            if not chunk:
                self._at_end = True
                rest = b"".join(parts)
                self._unterminated = bool(rest)
                self._tail = b""
                self._lines = [rest] if rest else []
                break
            parts.append(chunk)
            # The end of a chunk may cut a line feed of several bytes, so all buffered data is searched.
            data = b"".join(parts) if len(self._line_feed) > 1 or self._line_feed in chunk else None
            lines = None if data is None else self._split(data)
            if lines is not None:
                self._lines, self._tail = lines
                break
            if data is not None:
                parts = [data]
        self._index = 0
        self._limit()
        return self._index < len(self._lines)

    def _split(self, data: bytes) -> tuple[list[bytes], bytes] | None:
        """Return the complete lines and the rest; None if there is no complete one."""
        if len(self._line_feed) == 1:
            *lines, tail = data.split(self._line_feed)
            return (lines, tail) if lines else None
        width = len(self._line_feed)
        lines = []
        start = found = 0
        while (found := data.find(self._line_feed, found)) >= 0:
            if found % width:  # bytes of two characters that together look like a line feed
                found += 1
                continue
            lines.append(data[start:found])
            start = found = found + width
        return (lines, data[start:]) if lines else None

    def _limit(self) -> None:
        """Drop the lines that begin at the region's end or after it."""
        if self._end is None:
            return
        width = len(self._line_feed)
        position = self.position
        remaining = len(self._lines) - self._index
        if position + sum(map(len, self._lines[self._index :])) + remaining * width <= self._end:
            return
        for index in range(self._index, len(self._lines)):
            if position >= self._end:
                del self._lines[index:]
                self._at_end = True
                self._unterminated = False
                return
            position += len(self._lines[index]) + width


def decode_lines(lines: list[bytes], encoding: str, *, strip: bool = True) -> list[str | None]:
    """Return the lines as text, None for lines that cannot be decoded. `strip` removes carriage returns at their end."""
    try:
        text = "\n".encode(encoding).join(lines).decode(encoding)
    except UnicodeDecodeError:
        return [_decode(line, encoding, strip) for line in lines]
    texts: list[str | None] = text.split("\n")  # type: ignore[assignment]
    if len(texts) != len(lines):
        return [_decode(line, encoding, strip) for line in lines]
    if strip and "\r" in text:
        return [line[:-1] if line is not None and line.endswith("\r") else line for line in texts]
    return texts


def _decode(line: bytes, encoding: str, strip: bool) -> str | None:
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError:
        return None
    return text[:-1] if strip and text.endswith("\r") else text


def count_lines(file: IO[bytes], encoding: str, end: int) -> int:
    """Return the number of lines that end before offset `end`; for error messages only, as it reads the file up to there."""
    file.seek(0)
    line_feed = "\n".encode(encoding)
    lines = 0
    while end > 0 and (chunk := file.read(min(_CHUNK, end))):
        end -= len(chunk)
        lines += chunk.count(line_feed)
    return lines
