"""The lines of a split, for the readers of all formats of lines."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import replace
from typing import IO, Any

from flinkish.common.errors import SourceError
from flinkish.datastream.connectors.file_system.file_format import SplitReader, open_checked
from flinkish.datastream.connectors.file_system.lines import LineReader, count_lines, detect_encoding
from flinkish.datastream.connectors.file_system.paths import DamagedFileError, open_bytes
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors


class LineSource:
    """The lines of a split, with their positions."""

    def __init__(self, split: FileSourceSplit, charset: str, *, strip_bom: bool = False) -> None:
        """Open the file; raise SourceError if it is missing, damaged, or shorter than when it was found."""
        self._split = split
        self._line = split.line
        self.path = split.path
        self.file = open_checked(split)
        try:
            head = self.file.read(4)
            self.encoding, bom = detect_encoding(head, charset)
            if strip_bom and not bom and head.startswith(codecs.BOM_UTF8) and self.encoding == "utf-8":
                bom = len(codecs.BOM_UTF8)
            start = split.offset if split.position is None else split.position
            self._content_start = bom
            end = None if split.length is None else split.offset + split.length
            self._reader = LineReader(self.file, self.encoding, max(start, bom), end)
            if split.position is None and split.offset > bom:
                self._reader.skip_partial_line()
        except DamagedFileError:
            self.file.close()
            raise

    def first_line(self, skip: Callable[[bytes], bool]) -> bytes | None:
        """Return the first line for which `skip` is False, such as a header; None if there is none. Keeps the position."""
        with open_bytes(self.path) as file:
            reader = LineReader(file, self.encoding, self._content_start, None)
            while lines := reader.take(1):
                if not skip(lines[0]):
                    return lines[0]
        return None

    @property
    def at_file_start(self) -> bool:
        """Whether no line of the file was taken yet."""
        return self._reader.position == self._content_start

    def take(self, limit: int) -> list[bytes]:
        """Return up to `limit` lines; an empty list at the end."""
        try:
            lines = self._reader.take(limit)
        except OSError as error:
            raise SourceError(f"FileSource cannot read {self.path}: {error.strerror or error}") from error
        if self._line is not None:
            self._line += len(lines)
        return lines

    @property
    def exhausted(self) -> bool:
        return self._reader.exhausted

    def line_number(self, back: int) -> int:
        """Return the number (from 1) of the line taken `back` lines ago (1 = the last one). This is slow, so for errors only."""
        if self._line is None:
            with open_bytes(self.path) as file:
                lines = count_lines(file, self.encoding, self._reader.position)
                # The last line of a file may lack a line feed.
                self._line = lines if self._ends_with_line_feed(file) else lines + 1
        return self._line - back + 1

    def _ends_with_line_feed(self, file: IO[bytes]) -> bool:
        line_feed = "\n".encode(self.encoding)
        file.seek(max(0, self._reader.position - len(line_feed)))
        return file.read(len(line_feed)) == line_feed

    def split(self) -> FileSourceSplit:
        return replace(self._split, position=self._reader.position, line=self._line)

    def close(self) -> None:
        self.file.close()


class LineSplitReader(SplitReader):
    """Base of the readers of all formats of lines."""

    def __init__(self, source: LineSource, errors: RecordErrors) -> None:
        self._source = source
        self._errors = errors

    def split(self) -> FileSourceSplit:
        return self._source.split()

    @property
    def finished(self) -> bool:
        return self._source.exhausted

    def close(self) -> None:
        self._source.close()

    def _bad_line(self, reason: str, line: bytes, back: int) -> Any:
        """Handle a bad record, the line taken `back` lines ago."""
        number = self._source.line_number(back)
        return self._errors.handle(path=self._source.path, line=number, reason=reason, record=line)

    @property
    def _undecodable(self) -> str:
        return f"the line is not text in the character set {self._source.encoding}"
