"""flinkish state."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flinkish.cli.main import cli
from flinkish.common import Configuration, Types
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.state import KeyedStateBootstrapFunction, OperatorTransformation, SavepointWriter
from flinkish.testing import JobHarness
from tests.kit.stateful import build, savepoint_of, settings_of

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
    described = ["everything", "2", "of", "128", "total", "value", "Long", "with", "keys", "of", "type", "String", "2"]
    # What follows is the size of its files, in bytes.
    assert [line[-1] for line in listed if line[: len(described)] == described] == ["B"]
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


def repaired(folder: Path, old: str, *options: str) -> tuple[Result, list[str]]:
    """Repair a savepoint; return the result, and what differs then."""
    new = str(folder / "repaired")
    result = invoke(folder, "repair", old, new, *options)
    if result.exit_code:
        assert not Path(new).exists()
        return result, []
    found = invoke(folder, "diff", old, new).output.splitlines()
    shutil.rmtree(new)
    return result, [line.strip() for line in found]


def test_a_value_is_repaired(folder: Path, new: str) -> None:
    result, found = repaired(folder, new, "--set", "everything", "total", "odd", "12")

    assert found == ["everything, total: 0 added, 0 removed, 1 changed, 1 same", "~ odd: 4 -> 12"]
    assert result.output.startswith(f"Savepoint written to {folder}/repaired\n")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ["--set", "everything", "order", "odd", '{"id": 9, "tags": []}'],
            '~ odd: {"id":3,"tags":["odd","x"]} -> {"id":9,"tags":[]}',
        ),
        (["--set", "everything", "seen", "odd", "[7]"], "~ odd: [1,3] -> [7]"),
        (["--set", "untyped", "_reduce_state", '[1,"k"]', "5"], '~ [1,"k"]: 4 -> 5'),
        (["--set-entry", "everything", "by-tag", "odd", "tag1", "-1"], "~ odd, tag1: 1 -> -1"),
        (["--delete-key", "sessions", "odd"], "- odd, event, 5999"),
        (["--rename", "sessions", "s"], "s, window-sessions: 2 added, 0 removed, 0 changed, 0 same"),
        (["--remove-operator", "windows"], "windows, window-contents: 0 added, 2 removed, 0 changed, 0 same"),
        (["--max-parallelism", "windows", "64"], "Nothing differs."),
    ],
)
def test_each_repair_changes_what_it_names(folder: Path, new: str, options: list[str], expected: str) -> None:
    _, found = repaired(folder, new, *options)

    assert expected in found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--set", "everything", "total", "odds", "12"], "state 'total' of operator everything has no value for 'odds'"),
        (["--set", "everything", "by-tag", "odd", "12"], "has 2 values for 'odd'"),
        (["--set", "operators", "kept", "odd", "12"], "state 'kept' of operator operators has no key"),
        (["--set", "everything", "total", "odd", "many"], "TypeMismatchError"),
        (["--delete-key", "everything", "odds"], "operator everything has no state and no timer for 'odds'"),
        (["--remove-operator", "nothing"], "no operator with the uid 'nothing'"),
    ],
)
def test_a_repair_that_cannot_be_meant_so_writes_nothing(folder: Path, new: str, options: list[str], expected: str) -> None:
    result, _ = repaired(folder, new, *options)

    assert result.exit_code == 1
    assert expected in result.output


def test_a_wrong_value_is_fixed_as_the_documentation_says(tmp_path: Path) -> None:
    with JobHarness(build, settings=settings_of(tmp_path)) as job:
        job.source("numbers").emit_all([1, 2, 3])
        saved, fixed = job.stop(directory=str(tmp_path)), str(tmp_path / "fixed")

    assert "odd  4" in invoke(tmp_path, "show", "--key", "odd", saved, "everything", "total").output
    assert invoke(tmp_path, "repair", saved, fixed, "--set", "everything", "total", "odd", "40").exit_code == 0
    assert [line.split() for line in invoke(tmp_path, "diff", saved, fixed).output.splitlines()[1:]] == [
        ["~", "odd:", "4", "->", "40"]
    ]
    with JobHarness(build, settings=settings_of(tmp_path), parallelism=2, savepoint=fixed) as job:
        job.source("numbers").emit_all([4, 5])
        assert sorted(record.value for record in job.sink("everything").take_output()) == ["even=6", "odd=45"]


class Seen(KeyedStateBootstrapFunction):
    def open(self, store: Any) -> None:
        self.seen = store.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.update(1)


def test_keys_that_look_alike_are_not_deleted_together(folder: Path, tmp_path: Path) -> None:
    configuration = Configuration.from_dict({"security.checkpoint.hmac-key-file": f"{folder}/key"})
    operator = OperatorTransformation.bootstrap_with([7, "7"]).key_by(lambda key: key).transform(Seen())
    path = SavepointWriter.new_savepoint(configuration=configuration).with_operator("op", operator).write(str(tmp_path / "old"))

    for option in (["--delete-key", "op", "7"], ["--set", "op", "seen", "7", "2"]):
        result = invoke(folder, "repair", path, str(tmp_path / "new"), *option)
        assert result.exit_code == 1
        assert "several keys that are shown as 7: '7', 7" in result.output or "has 2 values for '7'" in result.output
