"""What each form of CheckpointFiles must fulfil: on a folder and in an object store."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flinkish.common.files.checkpoint_files import CheckpointFiles, StoreReference
from flinkish.common.files.local import LocalFiles
from flinkish.common.files.object_store import ObjectFiles
from flinkish.common.files.schemes import files_at, is_reference, root_of

_NUMBERS = itertools.count()


@pytest.fixture(params=["folder", "s3", "gs", "abfss"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CheckpointFiles]:
    """Return the files below a root that is made, in a folder that others may use as well."""
    if request.param in ("s3", "gs", "abfss"):
        request.getfixturevalue("s3" if request.param == "s3" else "clouds")
    number = next(_NUMBERS)
    roots = {
        "folder": str(tmp_path / "a" / "table"),
        "s3": f"s3://bucket/contract-{number}/a/table",
        "gs": f"gs://bucket/contract-{number}/a/table",
        "abfss": f"abfss://data@mine.dfs.core.windows.net/contract-{number}/a/table",
    }
    made = files_at(roots[request.param])
    made.make_root(sync=True)
    yield made
    made.remove_all()


def write(files: CheckpointFiles, inside: str, content: bytes = b"content") -> None:
    with files.create(inside) as file:
        file.write(content)


def test_what_is_written_is_read(files: CheckpointFiles) -> None:
    files.make_folder("chk-1")
    with files.create("chk-1/part") as file:
        file.write(b"one")
        file.write(memoryview(b" two"))
        file.sync()
        assert files.read("chk-1/part", limit=100) == b"one two"
        file.write(b" three")
    files.sync("chk-1/part")
    files.sync("chk-1")
    files.sync()
    assert files.size("chk-1/part") == 13
    assert files.read("chk-1/part", limit=13) == b"one two three"
    with files.open("chk-1/part") as stream:
        assert (stream.read(3), stream.read(), stream.read()) == (b"one", b" two three", b"")
    with pytest.raises(OSError, match="expected at most 12"):
        files.read("chk-1/part", limit=12)


def test_a_name_is_taken_once(files: CheckpointFiles) -> None:
    write(files, "part", b"first")
    with pytest.raises(FileExistsError):
        files.create("part")
    assert files.read("part", limit=100) == b"first"
    files.make_folder("chk-1")
    with pytest.raises(FileExistsError):
        files.make_folder("chk-1")

    def attempt(_: int) -> bool:
        try:
            write(files, "raced")
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(64))) == 1


def test_nothing_is_made_in_a_folder_that_is_not_there(files: CheckpointFiles) -> None:
    with pytest.raises(FileNotFoundError):
        files.create("chk-1/part")
    with pytest.raises(FileNotFoundError):
        files.make_folder("chk-1/inner")
    files.remove_all()
    for make in (lambda: files.create("part"), lambda: files.make_folder("chk-1"), lambda: files.make_folders("chk-1")):
        with pytest.raises(FileNotFoundError):
            make()
    assert not files.exists("")


def test_what_is_not_there_is_said_not_to_be(files: CheckpointFiles) -> None:
    assert (files.exists("x"), files.is_folder("x"), files.exists(""), files.is_folder()) == (False, False, True, True)
    for call in (
        lambda: files.size("x"),
        lambda: files.read("x", limit=1),
        lambda: files.open("x"),
        lambda: files.remove("x"),
        lambda: files.names("x"),
        lambda: files.remove_empty_folders("x"),
    ):
        with pytest.raises(FileNotFoundError):
            call()


def test_folders_and_their_files_are_listed(files: CheckpointFiles) -> None:
    files.make_folders("chk-1/inner")
    files.make_folders("chk-1/inner")
    files.make_folders("chk-10")
    for name in ("top", "chk-1/a", "chk-1/inner/b"):
        write(files, name)
    assert sorted(files.names()) == ["chk-1", "chk-10", "top"]
    assert sorted(files.names("chk-1")) == ["a", "inner"]
    assert sorted(files.files_below("chk-1")) == ["chk-1/a", "chk-1/inner/b"]
    assert list(files.files_below("chk-10")) == []
    assert (files.is_folder("chk-1/inner"), files.is_folder("chk-1/a"), files.exists("chk-1/a")) == (True, False, True)


def test_a_file_is_replaced_in_one_step_and_leaves_no_draft(files: CheckpointFiles) -> None:
    for content in (b"old", b"new"):
        files.replace("_latest.json", content, sync=True, draft=".7")
        assert files.read("_latest.json", limit=10) == content
    assert files.names() == ["_latest.json"]


def test_folders_are_removed_only_when_no_file_is_in_them(files: CheckpointFiles) -> None:
    files.make_folders("chk-1/inner")
    write(files, "chk-1/inner/a")
    with pytest.raises(OSError, match="not empty"):
        files.remove_empty_folders("chk-1")
    with pytest.raises(OSError, match="not empty"):
        files.remove_empty_folders("")
    assert list(files.files_below("chk-1")) == ["chk-1/inner/a"]
    files.remove("chk-1/inner/a")
    files.remove_empty_folders("chk-1")
    assert files.names() == []
    files.remove_empty_folders("")
    assert not files.exists("")


def test_a_folder_is_renamed_with_all_that_is_in_it(files: CheckpointFiles) -> None:
    files.make_folders("_delta_log/inner")
    write(files, "_delta_log/inner/0.json")
    write(files, "other")
    files.rename("_delta_log", "_deleted")
    assert not files.exists("_delta_log")
    assert list(files.files_below("_deleted")) == ["_deleted/inner/0.json"]
    assert files.read("other", limit=10) == b"content"


def test_removing_all_leaves_the_neighbours(files: CheckpointFiles) -> None:
    neighbour = files_at(files.root.parent / "table-2")
    neighbour.make_root(sync=False)
    write(neighbour, "part")
    files.make_folders("chk-1")
    write(files, "chk-1/part")
    files.remove_all()
    assert not files.exists("")
    assert neighbour.read("part", limit=10) == b"content"
    neighbour.remove_all()


@pytest.mark.parametrize("inside", ["../part", "chk-1/../../part", "/part", "chk-1/./part"])
def test_nothing_outside_of_the_root_is_touched(files: CheckpointFiles, inside: str) -> None:
    files.make_folder("chk-1")
    parent = files_at(files.root.parent)
    write(parent, "part", b"mine")
    for call in (
        lambda: files.read(inside, limit=10),
        lambda: files.open(inside),
        lambda: files.size(inside),
        lambda: files.create(inside),
        lambda: files.replace(inside, b"x", sync=False),
        lambda: files.remove(inside),
        lambda: files.make_folders(inside),
    ):
        with pytest.raises(OSError, match="plain relative path"):
            call()
    assert parent.read("part", limit=10) == b"mine"
    parent.remove("part")


def test_a_removed_file_does_not_come_back_when_its_writer_closes_it(files: CheckpointFiles) -> None:
    with files.create("part") as file:
        file.write(b"late")
        files.remove("part")
    assert not files.exists("part")


def test_a_reference_names_the_form(tmp_path: Path) -> None:
    assert isinstance(files_at(str(tmp_path)), LocalFiles)
    assert isinstance(files_at(tmp_path), LocalFiles)
    assert isinstance(files_at("s3://a/b"), ObjectFiles)
    assert isinstance(files_at("s3:/a/b"), LocalFiles)  # a folder of an odd name
    assert (root_of("/a/b"), is_reference("ftp://host/a")) == (Path("/a/b"), False)
    root = root_of("s3://a/b")
    assert (str(root), str(root / "c"), str(root.parent)) == ("s3://a/b", "s3://a/b/c", "s3://a")
    assert (root / "c/d").relative_to(root).as_posix() == "c/d"
    assert pickle.loads(pickle.dumps(root)) == root == StoreReference("s3://a/b")
    assert files_at(root).root is root
