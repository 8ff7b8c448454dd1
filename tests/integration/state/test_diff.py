"""What differs between two savepoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.common.errors import InvalidArgumentError
from flinkish.state import Change, SavepointReader, StateDiff, diff_savepoints
from tests.integration.state.test_reader import configuration
from tests.kit.stateful import savepoint_of


@pytest.fixture(scope="module")
def diffs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], StateDiff]:
    """The differences between the numbers 1 to 3 and 1 to 4 by state, at different parallelisms."""
    folder = tmp_path_factory.mktemp("diff")
    old = savepoint_of(folder, [1, 2, 3])
    new = savepoint_of(folder, [1, 2, 3, 4], parallelism=3)
    readers = (SavepointReader.read(path, configuration(folder)) for path in (old, new))
    return {(diff.uid, diff.name): diff for diff in diff_savepoints(*readers)}


def counts(diff: StateDiff) -> tuple[int, int, int, int]:
    return diff.added, diff.removed, diff.changed, diff.same


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("total", [Change("~", {"key": "even"}, {"value": 2}, {"value": 6})]),
        ("by-tag", [Change("+", {"key": "even", "map_key": "tag4"}, None, {"value": 4})]),
        ("seen", [Change("~", {"key": "even"}, {"value": [2]}, {"value": [2, 4]})]),
        ("timers", [Change("+", {"key": "even", "domain": "event", "timestamp": 1_000_004}, None, None)]),
        ("expiring", [Change("~", {"key": "even"}, {"value": 2, "last_used": 0}, {"value": 4, "last_used": 0})]),
    ],
)
def test_keys_are_compared(diffs: dict[tuple[str, str], StateDiff], name: str, expected: list[Change]) -> None:
    diff = diffs["everything", name]

    assert list(diff.changes()) == expected
    assert counts(diff)[:3] == tuple(sum(change.sign == sign for change in expected) for sign in "+-~")
    assert diff.same > 0
    assert not diff.is_same


def test_windows_are_compared_by_key_and_window(diffs: dict[tuple[str, str], StateDiff]) -> None:
    assert list(diffs["windows", "window-contents"].changes()) == [
        Change("~", {"key": "even", "window_start": 0, "window_end": 10_000}, {"value": (2, 1)}, {"value": (6, 2)})
    ]


def test_elements_of_lists_are_compared_wherever_they_are(diffs: dict[tuple[str, str], StateDiff]) -> None:
    assert list(diffs["operators", "kept"].changes()) == [Change("+", {"value": 4}, None, None)]
    assert counts(diffs["operators", "kept"]) == (1, 0, 0, 3)
    assert diffs["ruled", "rules"].is_same


def test_an_opaque_value_is_compared_too(diffs: dict[tuple[str, str], StateDiff]) -> None:
    (change,) = diffs["everything", "cart"].changes()
    assert change.address == {"key": "even"}
    assert "Cart" in repr(change.old)


def test_what_neither_has_is_refused(tmp_path: Path) -> None:
    reader = SavepointReader.read(savepoint_of(tmp_path, [1]), configuration(tmp_path))

    with pytest.raises(InvalidArgumentError, match="neither has an operator with the uid 'nothing'"):
        diff_savepoints(reader, reader, "nothing")
    with pytest.raises(InvalidArgumentError, match="neither has a state 'nothing' of operator everything"):
        diff_savepoints(reader, reader, "everything", "nothing")
    assert [diff.name for diff in diff_savepoints(reader, reader, "everything", "sum") if diff.is_same] == ["sum"]
