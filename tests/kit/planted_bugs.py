"""Bugs to be planted in flinkish, by which a checker is checked; and those of state that two checkers notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkish.runtime.state import restore
from flinkish.runtime.state.heap import changes, grouped, snapshot, tables, timers

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
Bugs = dict[str, tuple[Plant, str]]


def registry() -> tuple[Bugs, Callable[[str], Callable[[Plant], Plant]]]:
    """Return bugs by name, each with a note, and a decorator that adds one with its note."""
    bugs: Bugs = {}

    def bug(note: str) -> Callable[[Plant], Plant]:
        def register(plant: Plant) -> Plant:
            bugs[plant.__name__] = plant, note
            return plant

        return register

    return bugs, bug


def part_of_the_state_is_not_restored(patch: Patch) -> None:
    in_groups = restore._in_groups

    def all_but_one(table: Any, request: Any) -> Any:
        chosen = in_groups(table, request)
        return chosen[1:] if chosen.num_rows and chosen["key_group"][0].as_py() >= 0 else chosen

    patch.setattr(restore, "_in_groups", all_but_one)


def incremental_checkpoints_forget_what_was_removed(patch: Patch) -> None:
    split = changes.split
    for user in (grouped, timers, tables):
        patch.setattr(user, "split", lambda *arguments: (split(*arguments)[0], []))


def changes_before_a_checkpoint_that_failed_are_forgotten(patch: Patch) -> None:
    patch.setattr(snapshot, "joined", lambda parts: parts[-1] if parts else {})
