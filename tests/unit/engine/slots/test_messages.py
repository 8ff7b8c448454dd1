"""What goes between an engine and a slot host arrives as it was."""

from __future__ import annotations

import threading
from multiprocessing import Pipe

import pytest

from flinkish.engine.slots import messages
from flinkish.engine.slots.messages import Call, PackedFrames, Reply
from flinkish.runtime.protocol import Frame

SLOT_VALUES = (17, 5, 9)


def some_frames(count: int, size: int = 3) -> list[Frame]:
    return [Frame(i % 3, 1 + i % 2, i, i % 4, i // 4, bytes([i % 256]) * (size * (i % 3))) for i in range(count)]


def _unpacked(parts: list[PackedFrames]) -> list[Frame]:
    frames = []
    for packed in parts:
        slots = [SLOT_VALUES.index(value) for value in packed.ints(0)]
        frames += [frame._replace(slot=slot) for slot, frame in zip(slots, packed.frames(0), strict=True)]
    return frames


@pytest.mark.parametrize("count", [1, 2, 5, 300])
def test_packed_frames_come_out_as_they_went_in(count: int) -> None:
    frames = some_frames(count)
    assert _unpacked(list(messages.pack(frames, SLOT_VALUES))) == frames


def test_frames_are_chosen() -> None:
    frames = some_frames(9)
    (packed,) = messages.pack(frames, SLOT_VALUES)
    assert _unpacked([packed.select([index % 2 == 1 for index in range(9)])]) == frames[1::2]
    assert packed.select([True] * 9) is packed
    assert packed.select([False] * 9).rows == 0


def test_no_frames_make_no_part() -> None:
    assert list(messages.pack([], SLOT_VALUES)) == []


def test_many_bytes_are_cut_into_parts() -> None:
    frames = some_frames(50, size=20)
    parts = list(messages.pack(frames, SLOT_VALUES, 100))
    assert len(parts) > 1
    assert all(len(part.data) <= 100 for part in parts)
    assert _unpacked(parts) == frames


def test_a_frame_larger_than_a_part_is_a_part_of_its_own() -> None:
    frames = [Frame(0, 1, 0, 0, n, b"x" * 30) for n in range(2)]
    assert [part.rows for part in messages.pack(frames, SLOT_VALUES, 10)] == [1, 1]


@pytest.mark.parametrize("state", [None, b"", b"log"])
def test_a_call_tells_no_state_from_empty_state(state: bytes | None) -> None:
    frames = list(messages.pack(some_frames(7), SLOT_VALUES))
    call = Call(level=2, command=b"command", command_file=None, state=state, frames=frames)
    near, far = Pipe()
    with near, far:
        messages.send_call(near, call)
        assert messages.receive_call(far) == call


def test_a_reply_larger_than_the_socket_buffer_arrives() -> None:
    frames = list(messages.pack(some_frames(2000, size=5000), SLOT_VALUES))
    reply = Reply(state=b"s" * 1_000_000, report=b"report", frames=frames)
    near, far = Pipe()
    with near, far:
        sender = threading.Thread(target=messages.send_reply, args=(near, reply))
        sender.start()
        assert messages.receive_reply(far) == reply
        sender.join()


def test_a_defect_arrives_as_text() -> None:
    near, far = Pipe()
    with near, far:
        messages.send_reply(near, Reply(error="Traceback ..."))
        assert messages.receive_reply(far).error == "Traceback ..."


def test_a_closed_connection_is_an_end_of_file() -> None:
    near, far = Pipe()
    near.close()
    with far, pytest.raises(EOFError):
        messages.receive_call(far)
