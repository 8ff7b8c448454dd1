"""SocketSource, at a real socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from flinkish.common.configuration import Configuration
from flinkish.common.errors import SourceError
from flinkish.datastream.connectors import socket as socket_module
from flinkish.datastream.connectors.socket import SocketSource


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


def source(server: socket.socket, **options: Any) -> SocketSource:
    return SocketSource("127.0.0.1", server.getsockname()[1], **options)


def take(reader: Any, count: int) -> list[str]:
    """Poll until the given number of lines has arrived, or the input has ended."""
    lines: list[str] = []
    ended = False
    for _ in range(1000):
        if len(lines) >= count or ended:
            return lines
        reader.wait(10_000)
        more, ended = reader.poll(count - len(lines))
        lines.extend(more)
    raise AssertionError(f"only {lines}")


def test_lines_come_as_they_are_sent_and_the_rest_at_the_end(server: socket.socket) -> None:
    reader = source(server).create_driver_reader(Configuration())
    connection, _ = server.accept()
    with connection:
        reader.wait(1)
        assert reader.poll(10) == ([], False)
        connection.sendall(b"one\ntw")
        assert take(reader, 1) == ["one"]
        connection.sendall("o\r\nthr\u00e9\u00e9\nlast".encode())
        assert take(reader, 2) == ["two", "thr\u00e9\u00e9"]
    assert take(reader, 5) == ["last"]
    assert reader.poll(5) == ([], True)
    reader.wait(60_000)
    reader.close()


def test_no_more_is_taken_than_asked_for(server: socket.socket) -> None:
    reader = source(server, delimiter="||").create_driver_reader(Configuration())
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"a||b||c||")
        assert take(reader, 1) == ["a"]
        reader.wait(60_000)
        assert reader.poll(1) == (["b"], False)
    assert take(reader, 5) == ["c"]
    assert reader.poll(5) == ([], True)
    reader.close()


def test_bytes_that_are_no_text_are_replaced_also_where_a_chunk_cuts_a_character(server: socket.socket) -> None:
    reader = source(server).create_driver_reader(Configuration())
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"x\n" + "ü".encode()[:1])
        assert take(reader, 1) == ["x"]
        connection.sendall("ü".encode()[1:] + b"\xff\n")
        assert take(reader, 1) == ["ü\ufffd"]
    reader.close()


def test_a_lost_connection_is_made_again_as_often_as_asked(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_module, "_RETRY_DELAY", 0.0)
    reader = source(server, max_retry=1).create_driver_reader(Configuration())
    for line in ("one", "two"):
        connection, _ = server.accept()
        connection.sendall(line.encode() + b"\n")
        assert take(reader, 1) == [line]
        connection.close()
    assert take(reader, 1) == []
    assert reader.poll(1) == ([], True)
    reader.close()


def test_a_server_that_is_not_there_is_named_with_a_hint(server: socket.socket) -> None:
    port = server.getsockname()[1]
    server.close()
    reader = SocketSource("127.0.0.1", port).create_driver_reader(Configuration())
    reader.wait(10_000)
    with pytest.raises(SourceError, match=rf"cannot connect to 127\.0\.0\.1:{port}"):
        reader.poll(1)
    reader.close()


def test_a_reader_closes_while_it_waits_for_data_for_room_or_for_a_server(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_module, "_MOST_WAITING", 2)
    for data in (b"", b"a\nb\nc\n" * 100_000):
        reader = source(server).create_driver_reader(Configuration())
        connection, _ = server.accept()
        with connection:
            connection.sendall(data)
            if data:
                reader.wait(10_000)
            reader.close()
            assert not reader._thread.is_alive()  # type: ignore[attr-defined]
    server.close()
    reader = SocketSource("127.0.0.1", 1, max_retry=-1).create_driver_reader(Configuration())
    assert reader.poll(1) == ([], False)
    reader.close()
    assert not reader._thread.is_alive()  # type: ignore[attr-defined]
