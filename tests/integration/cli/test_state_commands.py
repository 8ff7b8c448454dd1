"""flinkish state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flinkish.cli.main import cli
from tests.kit.stateful import savepoint_of

pytestmark = pytest.mark.usefixtures("same_logging")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def old(folder: Path) -> str:
    return savepoint_of(folder, [1, 2, 3])


@pytest.fixture(scope="module")
def new(folder: Path) -> str:
    return savepoint_of(folder, [1, 2, 3, 4])


def invoke(folder: Path, command: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["state", command, f"-Dsecurity.checkpoint.hmac-key-file={folder}/key", *arguments])


def lines(result: Result, code: int = 0) -> list[list[str]]:
    assert result.exit_code == code, result.output
    return [line.split() for line in result.output.splitlines()]


def test_the_states_of_a_savepoint_are_listed(folder: Path, new: str) -> None:
    listed = lines(invoke(folder, "list", new))

    assert listed[0][:2] == ["savepoint", "1"]
    assert listed[0][-4:] == ["signed", "by", "our", "key"]
    assert [
        "everything",
        "2",
        "of",
        "128",
        "total",
        "value",
        "Long",
        "with",
        "keys",
        "of",
        "type",
        "String",
        "2",
        "55",
        "B",
    ] in listed
    assert ["numbers", "2", "of", "128", "splits"] in [line[:5] for line in listed]
    assert {line[0] for line in lines(invoke(folder, "list", new, "windows"))[2:]} == {"windows"}


def test_the_values_of_a_state_are_shown(folder: Path, new: str) -> None:
    shown = lines(invoke(folder, "show", new, "everything", "by-tag"))

    assert shown[0] == ["KEY", "MAP_KEY", "VALUE"]
    assert sorted(shown[1:]) == [["even", "tag2", "2"], ["even", "tag4", "4"], ["odd", "tag1", "1"], ["odd", "tag3", "3"]]


def test_all_states_of_one_key_are_shown_as_json(folder: Path, new: str) -> None:
    shown = [json.loads(line) for line in invoke(folder, "show", "--json", "--key", "odd", new, "everything").output.splitlines()]

    by_state = {each.pop("state"): each for each in shown}
    assert by_state["total"] == {"key": "odd", "value": 4}
    assert by_state["order"] == {"key": "odd", "value": {"id": 3, "tags": ["odd", "x"]}}
    assert by_state["cart"]["value"].startswith("<pickled: tests.kit.stateful.Cart; ")
    assert {each["key"] for each in by_state.values()} == {"odd"}


def test_long_states_are_cut_and_say_so(folder: Path, new: str) -> None:
    shown = invoke(folder, "show", "-n", "1", new, "everything", "by-tag").output

    assert "The first 1 of 4 rows; --rows shows more, --json all.\n" in shown


def test_windows_are_shown(folder: Path, new: str) -> None:
    shown = lines(invoke(folder, "show", "--windows", new, "sessions"))

    assert sorted(shown[2:]) == [["even", "2000", "9000", "6"], ["odd", "1000", "8000", "4"]]


def test_what_differs_is_shown_by_key(folder: Path, old: str, new: str) -> None:
    result = invoke(folder, "diff", old, new, "everything")

    assert result.exit_code == 1
    assert "everything, total: 0 added, 0 removed, 1 changed, 1 same\n  ~ even: 2 -> 6\n" in result.output
    assert "everything, by-tag: 1 added, 0 removed, 0 changed, 3 same\n  + even, tag4: 4\n" in result.output
    assert "  ~ even: 2 (last used 0) -> 4 (last used 0)\n" in result.output


def test_differences_are_printed_as_json(folder: Path, old: str, new: str) -> None:
    result = invoke(folder, "diff", "--json", old, new, "everything", "total")

    assert [json.loads(line) for line in result.output.splitlines()] == [
        {"uid": "everything", "state": "total", "sign": "~", "key": "even", "old": {"value": 2}, "new": {"value": 6}}
    ]


def test_long_differences_are_cut_and_say_so(folder: Path, old: str, new: str) -> None:
    result = invoke(folder, "diff", "-n", "0", old, new, "everything", "total")

    assert result.output.splitlines()[1:] == ["  ... 1 more; --rows shows more, --json all."]


def test_a_savepoint_does_not_differ_from_itself(folder: Path, new: str) -> None:
    result = invoke(folder, "diff", new, new)

    assert (result.exit_code, result.output) == (0, "Nothing differs.\n")


def test_errors_are_printed_without_a_traceback(folder: Path, new: str) -> None:
    result = invoke(folder, "show", new, "nothing")

    assert result.exit_code == 1
    assert result.output.startswith("InvalidArgumentError: ")
    assert "no operator with the uid 'nothing'" in result.output
