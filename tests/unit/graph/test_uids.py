from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from flinkish.common.errors import InvalidProgramError
from flinkish.graph.stream_graph import NodeId
from flinkish.graph.stream_graph_generator import generate
from flinkish.program.transformations import TransformationId
from tests.unit.graph.programs import ProgramBuilder


def uid_of_count(change: Callable[[ProgramBuilder, TransformationId, TransformationId], object] | None = None) -> str:
    """Build source -> map -> key_by -> count -> sink, with a change, and return the uid of count."""
    build = ProgramBuilder()
    mapped = build.map(build.source())
    count = build.keyed_process(mapped, "Count")
    build.sink(count)
    if change is not None:
        change(build, mapped, count)
    return generate(build.build()).nodes[NodeId(count)].uid


def test_a_generated_uid_is_32_hex_digits_and_the_same_each_time() -> None:
    assert re.fullmatch("[0-9a-f]{32}", uid_of_count())
    assert uid_of_count() == uid_of_count()


def test_generated_uids_stay_what_they_are_from_release_to_release() -> None:
    # State of running jobs is found by them: whoever changes this value breaks every checkpoint without uids.
    assert uid_of_count() == "e1c99f2a3a8f96de9d3f8e4c53a191df"


@pytest.mark.parametrize(
    "change",
    [
        lambda build, mapped, count: build.change(count, name="Other"),
        lambda build, mapped, count: build.change(count, parallelism=1),
        lambda build, mapped, count: build.change(mapped, parallelism=1),
        lambda build, mapped, count: build.sink(mapped),
        lambda build, mapped, count: build.keyed_process(mapped),
        lambda build, mapped, count: build.map(build.source("Another")),
    ],
    ids=["name", "own parallelism", "parallelism before it", "new sink", "new equal after it", "new source"],
)
def test_a_generated_uid_survives(change: Callable[[ProgramBuilder, TransformationId, TransformationId], object]) -> None:
    assert uid_of_count(change) == uid_of_count()


def test_a_generated_uid_changes_with_the_uid_of_what_is_read() -> None:
    assert uid_of_count(lambda build, mapped, count: build.change(mapped, uid="mapped")) != uid_of_count()


def test_equal_operators_on_the_same_input_get_different_uids() -> None:
    build = ProgramBuilder()
    source = build.source()
    nodes = [build.map(source), build.map(source), build.sink(build.side_output(source, "a")), build.sink(source)]
    graph = generate(build.build())
    assert len({graph.nodes[NodeId(node)].uid for node in nodes}) == 4


def test_a_uid_of_the_user_is_taken_as_it_is_and_renames_no_sibling() -> None:
    def second_map(uid: str | None) -> tuple[str, str]:
        build = ProgramBuilder()
        source = build.source()
        first, second = build.map(source, uid=uid), build.map(source)
        graph = generate(build.build())
        return graph.nodes[NodeId(first)].uid, graph.nodes[NodeId(second)].uid

    assert second_map("mine")[0] == "mine"
    assert second_map("mine")[1] == second_map(None)[1]


def test_the_uid_hash_goes_before_the_uid() -> None:
    digits = "0123456789ABCDEF0123456789abcdef"
    assert uid_of_count(lambda build, _, count: build.change(count, uid="mine", uid_hash=digits)) == digits.lower()


def test_one_uid_for_two_operators_is_refused_naming_both() -> None:
    def same(build: ProgramBuilder, mapped: TransformationId, count: TransformationId) -> None:
        build.change(mapped, uid="same")
        build.change(count, uid="same")

    with pytest.raises(InvalidProgramError, match="operators 'Map' and 'Count' have the same uid 'same'"):
        uid_of_count(same)


def test_an_operator_without_uid_is_refused_where_generating_is_switched_off() -> None:
    build = ProgramBuilder()
    build.map(build.source(uid="source"))
    with pytest.raises(InvalidProgramError, match="operator 'Map' has no uid"):
        generate(build.build(auto_uids=False))
