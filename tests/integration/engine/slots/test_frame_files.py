"""Frames that wait in files for the other slots of a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.engine.slots import frame_files
from flinkish.engine.slots.frame_files import FrameFiles
from flinkish.runtime.protocol import Frame

LARGE = [bytes([0x80]) + bytes([number]) * 100_000 for number in range(3)]


def frames(*bodies: bytes) -> list[Frame]:
    return [Frame(1, 2, 3, 4, seq, body) for seq, body in enumerate(bodies)]


def test_large_bodies_are_read_as_they_were_written_and_small_ones_stay(tmp_path: Path) -> None:
    sender, receiver = FrameFiles(tmp_path / "frames", 0), FrameFiles(tmp_path / "frames", 1)
    sender.begin_epoch(7)
    sent = sender.put(frames(LARGE[0], b"\x80small", LARGE[1], LARGE[2]))
    assert [len(frame.body) > 1_000 for frame in sent] == [False] * 4
    assert sent[1].body == b"\x80small"
    receiver.begin_epoch(7)
    # A task that Spark repeats reads them again, in any order.
    for order in (sent, sent[::-1]):
        assert sorted(receiver.get(order)) == sorted(frames(LARGE[0], b"\x80small", LARGE[1], LARGE[2]))


def test_few_bytes_need_no_file(tmp_path: Path) -> None:
    files = FrameFiles(tmp_path / "frames", 0)
    files.begin_epoch(0)
    assert files.put(frames(LARGE[0][:50_000])) == frames(LARGE[0][:50_000])
    assert list((tmp_path / "frames").iterdir()) == []


def test_files_go_with_their_epoch_even_if_another_process_wrote_them(tmp_path: Path) -> None:
    folder = tmp_path / "frames"
    first, other = FrameFiles(folder, 1), FrameFiles(folder, 11)
    for files in (first, other):
        files.begin_epoch(9)
        files.put(frames(*LARGE))
    assert len(list(folder.iterdir())) == 2
    replaced = FrameFiles(folder, 1)
    replaced.begin_epoch(9)
    assert len(list(folder.iterdir())) == 2  # the tasks of this epoch may still read them
    replaced.begin_epoch(10)
    assert [path.name[:3] for path in folder.iterdir()] == ["11-"]  # slot 11 has not begun its next epoch


def test_what_cannot_be_written_goes_through_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FrameFiles(tmp_path / "frames", 0)
    files.begin_epoch(0)
    (tmp_path / "frames").rmdir()
    assert files.put(frames(*LARGE)) == frames(*LARGE)


def test_a_file_that_is_gone_or_cut_off_is_an_error(tmp_path: Path) -> None:
    files = FrameFiles(tmp_path / "frames", 0)
    files.begin_epoch(0)
    sent = files.put(frames(*LARGE))
    (path,) = (tmp_path / "frames").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(OSError, match="was cut off: bytes 200002 to 300003 are not there"):
        files.get(sent)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        files.get(sent)


def test_no_body_begins_as_a_reference() -> None:
    from flinkish.runtime.elements import EndOfInput, cut_body, encode_body

    whole = encode_body([EndOfInput()])
    pieces = cut_body(b"\x80" * (9 << 20))
    assert frame_files._MARK not in {body[:1] for body in (whole, *pieces)}
