"""Spark's own positions: read for a checkpoint, and written for a query that goes on from there."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.common.errors import EngineError
from flinkish.common.ids import OperatorUid
from flinkish.engine.spark.native import NativeInput, positions, seed
from flinkish.jobmaster.epochs import NativePosition

FILES, TABLE = OperatorUid("files"), OperatorUid("table")


def native(uid: OperatorUid, *sources: int) -> NativeInput:
    frame: Any = None
    return NativeInput(uid=uid, frame=frame, edge=-2, targets=(0,), sources=range(sources[0], sources[-1] + 1))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_each_data_frame_has_the_offsets_and_files_of_its_own_sources(tmp_path: Path) -> None:
    write(tmp_path / "offsets" / "7", 'v1\n{"conf":{}}\n{"tick":1}\n{"logOffset":3}\n-\n{"v":5}')
    write(tmp_path / "sources" / "1" / "3", "seen")
    write(tmp_path / "sources" / "1" / ".3.crc", "sum")
    write(tmp_path / "sources" / "3" / "log" / "0", "other")
    found = positions(tmp_path, 7, [native(FILES, 1, 2), native(TABLE, 3)])
    assert found[FILES].offsets == ('{"logOffset":3}', None)
    assert found[TABLE].offsets == ('{"v":5}',)
    assert {name: zlib.decompress(content) for name, content in found[FILES].files().items()} == {"0/3": b"seen"}
    assert list(found[TABLE].files()) == ["0/log/0"]


def test_what_a_compacted_file_contains_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "offsets" / "1", "v1\n{}\ntick\nx")
    for name in ("7", "8", "9.compact", "10", "11"):
        write(tmp_path / "sources" / "1" / name, name)
    assert sorted(positions(tmp_path, 1, [native(FILES, 1)])[FILES].files()) == ["0/10", "0/11", "0/9.compact"]


def test_a_query_is_seeded_in_the_order_of_its_own_plan_and_a_new_source_begins_anew(tmp_path: Path) -> None:
    write(tmp_path / "offsets" / "0", 'v1\n{"conf":{}}\n{"tick":2}')
    write(tmp_path / "offsets" / ".0.crc", "sum")
    start = NativePosition(offsets=("a", None), files=lambda: {"1/5": zlib.compress(b"five")})
    seed(tmp_path, [native(TABLE, 1), native(FILES, 2, 3)], {FILES: start})
    assert (tmp_path / "offsets" / "0").read_text().split("\n")[2:] == ['{"tick":2}', "-", "a", "-"]
    assert (tmp_path / "sources" / "3" / "5").read_bytes() == b"five"
    assert not (tmp_path / "offsets" / ".0.crc").exists()


def test_a_socket_of_spark_begins_anew_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "offsets" / "0", "v1\n{}\ntick")
    both = replace(native(FILES, 1, 2), unrepeatable=frozenset({2}))
    seed(tmp_path, [both], {FILES: NativePosition(offsets=("a", "7"), files=dict)})
    assert (tmp_path / "offsets" / "0").read_text().split("\n")[2:] == ["tick", "a", "-"]
    assert "files: what Spark's socket source got after the checkpoint is lost" in caplog.text


def test_a_position_of_another_number_of_sources_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "offsets" / "0", "v1\n{}\nticks")
    with pytest.raises(EngineError, match="has 2 streaming sources; in the checkpoint it had 1"):
        seed(tmp_path, [native(FILES, 1, 2)], {FILES: NativePosition(offsets=("a",), files=dict)})
