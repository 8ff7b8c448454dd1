"""What goes between shim and slot host arrives as it was."""

from __future__ import annotations

import threading
from multiprocessing import Pipe

import pytest

from flinkish.engine.spark import shim, wire
from flinkish.engine.spark.wire import Call, PackedFrames, Reply
from flinkish.runtime.protocol import Frame

_SLOT_VALUES = (17, 5, 9)


def _frames(count: int, size: int = 3) -> list[Frame]:
    return [Frame(i % 3, 1 + i % 2, i, i % 4, i // 4, bytes([i % 256]) * (size * (i % 3))) for i in range(count)]


def _unpacked(parts: list[PackedFrames]) -> list[Frame]:
    frames = []
    for packed in parts:
        slots = [_SLOT_VALUES.index(value) for value in packed.ints(0)]
        frames += [frame._replace(slot=slot) for slot, frame in zip(slots, packed.frames(0), strict=True)]
    return frames


@pytest.mark.parametrize("count", [1, 2, 5, 300])
def test_packed_frames_come_out_as_they_went_in(count: int) -> None:
    frames = _frames(count)
    assert _unpacked(list(wire.pack(frames, _SLOT_VALUES))) == frames


def test_no_frames_make_no_part() -> None:
    assert list(wire.pack([], _SLOT_VALUES)) == []


def test_many_bytes_are_cut_into_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_PART_BYTES", 100)
    frames = _frames(50, size=20)
    parts = list(wire.pack(frames, _SLOT_VALUES))
    assert len(parts) > 1
    assert all(len(part.data) <= 100 for part in parts)
    assert _unpacked(parts) == frames


def test_a_frame_larger_than_a_part_is_a_part_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_PART_BYTES", 10)
    frames = [Frame(0, 1, 0, 0, n, b"x" * 30) for n in range(2)]
    assert [part.rows for part in wire.pack(frames, _SLOT_VALUES)] == [1, 1]


@pytest.mark.parametrize("state", [None, b"", b"log"])
def test_a_call_tells_no_state_from_empty_state(state: bytes | None) -> None:
    frames = list(wire.pack(_frames(7), _SLOT_VALUES))
    call = Call(level=2, command=b"command", command_file=None, state=state, frames=frames)
    near, far = Pipe()
    with near, far:
        wire.send_call(near, call)
        assert wire.receive_call(far) == call


def test_a_reply_larger_than_the_socket_buffer_arrives() -> None:
    frames = list(wire.pack(_frames(2000, size=5000), _SLOT_VALUES))
    reply = Reply(state=b"s" * 1_000_000, report=b"report", frames=frames)
    near, far = Pipe()
    with near, far:
        sender = threading.Thread(target=wire.send_reply, args=(near, reply))
        sender.start()
        assert wire.receive_reply(far) == reply
        sender.join()


def test_a_defect_arrives_as_text() -> None:
    near, far = Pipe()
    with near, far:
        wire.send_reply(near, Reply(error="Traceback ..."))
        assert wire.receive_reply(far).error == "Traceback ..."


def test_a_closed_connection_is_an_end_of_file() -> None:
    near, far = Pipe()
    near.close()
    with far, pytest.raises(EOFError):
        wire.receive_call(far)


def test_arrow_and_pandas_rows_hold_the_same() -> None:
    (packed,) = wire.pack(_frames(9), _SLOT_VALUES)
    rows = shim._arrow(packed).to_pylist()
    assert rows == shim._pandas(packed).to_dict("records")
    assert rows[1] == {"slot": 5, "level": 2, "edge": 1, "channel": 1, "seq": 0, "body": b"\x01\x01\x01"}
    assert shim._pack(shim._pandas(packed)) == packed


@pytest.mark.parametrize("command", [b"", b"\x00\xff" * 100])
def test_a_command_in_the_property_is_decoded_to_the_same_bytes(command: bytes) -> None:
    assert shim.decode_command(shim.encode_command(command)) == (command, None)


def test_a_command_in_a_file_is_decoded_to_its_path() -> None:
    assert shim.decode_command(shim.encode_command_file("/scratch/a:b")) == (b"", "/scratch/a:b")
