"""The lines of a split, with the exact byte position after the lines taken, and the base of all readers of lines."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final

from flinkish.common.serialization import WITHOUT_MARK
from flinkish.datastream.connectors.file_system.file_format import COLUMNS_BATCH, SplitReader, open_checked, reading
from flinkish.datastream.connectors.file_system.paths import DamagedFileError, open_bytes
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors

if TYPE_CHECKING:
    import pyarrow as pa

#: Number of bytes to read at once: 256 KiB contain some thousand lines, and fit into the processor's cache.
_CHUNK: Final = 256 * 1024
_BOMS: Final[dict[str, list[tuple[bytes, str]]]] = {
    "utf-16": [(codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
    "utf-32": [(codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")],
    "utf-8-sig": [(codecs.BOM_UTF8, "utf-8")],
}
#: Result for a line without a record.
NO_RECORD: Final = object()


def _detect_encoding(head: bytes, charset: str) -> tuple[str, int]:
    """Return the encoding of a file that begins with `head`, and the length of its byte order mark.

    Without a mark UTF-16 and UTF-32 are big-endian, as in Java.
    """
    name = codecs.lookup(charset).name
    for bom, encoding in _BOMS.get(name, ()):
        if head.startswith(bom):
            return encoding, len(bom)
    return WITHOUT_MARK.get(name, name), 0


def is_byte_oriented(charset: str) -> bool:
    """Return whether every byte 0x0A is a line feed, so that lines can be found from the middle of a file."""
    return not codecs.lookup(charset).name.startswith(("utf-16", "utf-32"))


class _LineReader:
    """Cuts a stream into lines that end with a line feed; the last line may end with the file.

    A region owns the lines whose first byte is in it; the last of these lines may extend beyond the region.
    """

    def __init__(self, file: IO[bytes], encoding: str, start: int, end: int | None) -> None:
        self._file = file
        self._line_feed = "\n".encode(encoding)
        self._end = end
        #: Offset of the next line, and the offset up to which the file was read.
        self.position = self._read = start
        self._lines: list[bytes] = []
        self._index = 0
        file.seek(start)

    def skip_partial_line(self) -> None:
        """Move to the first line that begins at or after the position; a line that begins before it belongs to another region."""
        self._file.seek(self.position - 1)
        self.position += len(self._rest_of_line()) - 1
        self._read = self.position

    def take(self, limit: int) -> list[bytes]:
        """Return up to `limit` lines without their line feeds, at least one unless the region is at its end."""
        if self.exhausted:
            return []
        lines = self._lines[self._index : self._index + limit]
        self._index += len(lines)
        if self._index < len(self._lines):
            self.position += sum(map(len, lines)) + len(lines) * len(self._line_feed)
        else:
            self.position = self._read  # the last line of the file may lack a line feed
        return lines

    @property
    def exhausted(self) -> bool:
        """Whether there is no line left; this may read ahead."""
        if self._index < len(self._lines):
            return False
        data = self._file.read(_CHUNK if self._end is None else min(_CHUNK, max(0, self._end - self._read)))
        if not data:
            return True
        if not data.endswith(self._line_feed):
            data += self._rest_of_line()
        self._read += len(data)
        self._lines, self._index = _split(data, self._line_feed), 0
        return False

    def _rest_of_line(self) -> bytes:
        """Read up to the next line feed, and with it."""
        if self._line_feed == b"\n":
            return self._file.readline()
        rest = b""
        while character := self._file.read(len(self._line_feed)):
            rest += character
            if character == self._line_feed:
                break
        return rest


def _split(data: bytes, line_feed: bytes) -> list[bytes]:
    width = len(line_feed)
    if width == 1:
        lines = data.split(line_feed)
    else:
        # Bytes of two characters may together look like a line feed.
        ends = [found.start() for found in re.finditer(re.escape(line_feed), data) if found.start() % width == 0]
        starts = [0, *(end + width for end in ends)]
        lines = [data[start:end] for start, end in zip(starts, [*ends, len(data)], strict=True)]
    return lines if lines[-1] else lines[:-1]


def decode_lines(lines: list[bytes], encoding: str, *, strip: bool = True) -> list[str | None]:
    """Return the lines as text, None for lines that cannot be decoded. `strip` removes carriage returns at their end."""
    text = _decode("\n".encode(encoding).join(lines), encoding)
    texts: Sequence[str | None] = () if text is None else text.split("\n")
    if len(texts) != len(lines):
        texts = [_decode(line, encoding) for line in lines]
    if strip and (text is None or "\r" in text):
        return [None if line is None else line.removesuffix("\r") for line in texts]
    return list(texts)


def _decode(line: bytes, encoding: str) -> str | None:
    try:
        return line.decode(encoding)
    except UnicodeDecodeError:
        return None


class LineSource(_LineReader):
    """The lines of a split, with their positions."""

    def __init__(self, split: FileSourceSplit, charset: str, *, strip_bom: bool = False) -> None:
        """Open the file; raise SourceError if it is missing, damaged, or shorter than when it was found."""
        self._split = split
        self._line = split.line
        self.path = split.path
        file = open_checked(split)
        try:
            if strip_bom and codecs.lookup(charset).name == "utf-8":
                charset = "utf-8-sig"
            self.encoding, self._content_start = _detect_encoding(file.read(4), charset)
            start = split.offset if split.position is None else split.position
            end = None if split.length is None else split.offset + split.length
            super().__init__(file, self.encoding, max(start, self._content_start), end)
            if split.position is None and split.offset > self._content_start:
                self.skip_partial_line()
        except DamagedFileError:
            file.close()
            raise

    def first_line(self, skip: Callable[[bytes], bool]) -> bytes | None:
        """Return the first line for which `skip` is False, such as a header; None if there is none. Keeps the position."""
        with open_bytes(self.path) as file:
            reader = _LineReader(file, self.encoding, self._content_start, None)
            return next((line for [line] in iter(partial(reader.take, 1), []) if not skip(line)), None)

    @property
    def at_file_start(self) -> bool:
        """Whether no line of the file was taken yet."""
        return self.position == self._content_start

    def take(self, limit: int) -> list[bytes]:
        """Return up to `limit` lines; an empty list at the end. Raises SourceError."""
        with reading(self.path):
            lines = super().take(limit)
        if self._line is not None:
            self._line += len(lines)
        return lines

    def line_number(self, back: int) -> int:
        """Return the number (from 1) of the line taken `back` lines ago (1 = the last one). This is slow, so for errors only."""
        if self._line is None:
            with open_bytes(self.path) as file:
                before = _LineReader(file, self.encoding, 0, self.position)
                self._line = sum(map(len, iter(partial(before.take, _CHUNK), [])))
        return self._line - back + 1

    def split(self) -> FileSourceSplit:
        return replace(self._split, position=self.position, line=self._line)

    def close(self) -> None:
        self._file.close()


class LineSplitReader(SplitReader):
    """Base of the readers of all formats of lines."""

    #: Returns the records of some lines as columns, None if they must be parsed one by one. None = no columns are wanted.
    batch: Callable[[list[bytes]], pa.RecordBatch | None] | None = None

    def __init__(self, source: LineSource, errors: RecordErrors) -> None:
        self._source = source
        self._errors = errors

    def read(self, limit: int) -> Any:
        while lines := self._source.take(limit if self.batch is None else min(limit, COLUMNS_BATCH)):
            found = None if self.batch is None else self.batch(lines)
            if found is None:
                found = self.records(lines)
            if len(found):
                return found
        return ()

    def records(self, lines: list[bytes]) -> Sequence[Any]:
        """Return the records of some lines; for a bad line, the result of the error policy, if it has one."""
        records = []
        for index, line in enumerate(lines):
            try:
                record = self.parse(line)
            except Exception as error:
                # Without dead letters, an error of other kinds is one of the program.
                if not isinstance(error, ValueError) and not self._errors.keeps:
                    raise
                reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                number = self._source.line_number(len(lines) - index)
                record = self._errors.handle(path=self._source.path, line=number, reason=reason, record=line)
                if record is None:
                    continue
            if record is not NO_RECORD:
                records.append(record)
        return records

    def parse(self, line: bytes) -> Any:
        """Return the record of a line, or NO_RECORD; raise ValueError with the reason for a bad one."""
        raise NotImplementedError

    def decoded(self, line: bytes) -> str:
        """Return a line as text; raise ValueError if it is not text."""
        text = _decode(line, self._source.encoding)
        if text is None:
            raise ValueError(self.undecodable)
        return text

    @property
    def undecodable(self) -> str:
        """The reason for a line that is not text."""
        return f"the line is not text in the character set {self._source.encoding}"

    def split(self) -> FileSourceSplit:
        return self._source.split()

    @property
    def finished(self) -> bool:
        return self._source.exhausted

    def close(self) -> None:
        self._source.close()
