"""Lines of text from a TCP connection, read on the driver.

The source cannot be replayed: when the job fails, lines that were read after the last checkpoint are lost.
"""

from __future__ import annotations

import codecs
import contextlib
import socket
from dataclasses import dataclass
from typing import Final

from flinkish.common.arguments import charset_of, int_of, text_of
from flinkish.common.configuration import Configuration
from flinkish.common.errors import SourceError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.program.sources import Boundedness, DriverReader, DriverSource
from flinkish.program.threaded_reader import ThreadedReader

#: Maximum number of bytes to read from the connection at once.
_CHUNK: Final = 64 * 1024
#: Seconds to wait for a connection, and between two attempts to connect.
_CONNECT_TIMEOUT: Final = 5.0
_RETRY_DELAY: Final = 1.0
#: Seconds to wait for the thread when the job ends; the thread always ends by itself.
_CLOSE_TIMEOUT: Final = 2.0
#: Reading pauses while this many lines or characters are buffered, so that TCP slows down a fast sender.
_MOST_WAITING: Final = 50_000
_MOST_CHARACTERS: Final = 64 << 20


@dataclass(frozen=True)
class SocketSource(DriverSource[str]):
    """Connects to `host`:`port` and emits the text received, cut at `delimiter`, until the other side closes the connection.

    `max_retry`: how often to connect again after that, once per second; -1 = no limit. Bytes that are not valid in UTF-8 (or
    `charset_name`) are replaced, as in Flink. The text after the last delimiter is emitted when the connection ends.
    """

    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    host: str
    port: int
    delimiter: str = "\n"
    max_retry: int = 0
    charset_name: str = "UTF-8"

    def __post_init__(self) -> None:
        text_of("host of SocketSource", self.host)
        text_of("delimiter of SocketSource", self.delimiter)
        int_of("port of SocketSource", self.port, minimum=1, maximum=65535)
        int_of("max_retry of SocketSource (-1 = no limit)", self.max_retry, minimum=-1)
        charset_of("charset_name", self.charset_name)

    def create_driver_reader(self, configuration: Configuration) -> DriverReader:
        return SocketReader(self)

    def produced_type(self) -> TypeInformation:
        return Types.STRING()


class SocketReader(ThreadedReader):
    """Reads the lines of one source."""

    def __init__(self, source: SocketSource) -> None:
        self._source = source
        self._retries_left = source.max_retry
        self._socket: socket.socket | None = None
        super().__init__(f"socket source {source.host}:{source.port}", len, _MOST_WAITING, _MOST_CHARACTERS)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._socket is not None:
                # Wake up the thread if it waits for data.
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_CLOSE_TIMEOUT)

    def _read(self) -> None:
        try:
            while self._read_connection() and self._retry():
                pass
        except SourceError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise SourceError(f"SocketSource cannot read {self._source.host}:{self._source.port}: {reason}") from error

    def _retry(self) -> bool:
        with self._changed:
            if self._retries_left == 0 or self._closed:
                return False
            if self._retries_left > 0:
                self._retries_left -= 1
            self._changed.wait_for(lambda: self._closed, _RETRY_DELAY)
            return not self._closed

    def _read_connection(self) -> bool:
        """Connect and read to the end of the connection; return False if the reader was closed."""
        address = f"{self._source.host}:{self._source.port}"
        try:
            connection = socket.create_connection((self._source.host, self._source.port), timeout=_CONNECT_TIMEOUT)
        except OSError as error:
            if self._retries_left != 0:
                return True
            raise SourceError(
                f"SocketSource cannot connect to {address}: {error.strerror or error}",
                hint=f"is something listening there? For a try: nc -lk {self._source.port}",
            ) from error
        with connection:
            connection.settimeout(None)
            with self._changed:
                if self._closed:
                    return False
                self._socket = connection
            try:
                self._receive(connection)
            except OSError as error:
                if self._retries_left == 0 and not self._closed:
                    raise SourceError(f"SocketSource lost its connection to {address}: {error.strerror or error}") from error
            finally:
                with self._changed:
                    self._socket = None
            return not self._closed

    def _receive(self, connection: socket.socket) -> None:
        decoder = codecs.getincrementaldecoder(self._source.charset_name)("replace")
        delimiter = self._source.delimiter
        rest = ""
        while data := connection.recv(_CHUNK):
            *lines, rest = (rest + decoder.decode(data)).split(delimiter)
            if not self._add([line[:-1] if delimiter == "\n" and line.endswith("\r") else line for line in lines]):
                return
        rest += decoder.decode(b"", True)
        if rest:
            self._add([rest])
