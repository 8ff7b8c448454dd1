from __future__ import annotations

from flinkish.graph.explain import explain_program
from tests.unit.graph.programs import ProgramBuilder


def test_all_layers_are_drawn_as_trees() -> None:
    build = ProgramBuilder()
    left = build.source("A", uid="a", description="all A")
    right = build.source("B", uid="b", slot_sharing_group="other")
    joined = build.keyed_co_process(build.map(left, uid="m"), right, uid="join")
    build.sink(build.side_output(joined, "late"), "Late", uid="late")
    build.sink(joined, uid="print")
    text = explain_program(build.build(job_name="join"), lambda plan: f"MapInArrow on {plan.slots} slots\n")
    assert (
        text
        == """\
== StreamGraph of 'join': 6 operators ==
Source: A  #1, parallelism 2, uid a (all A)
└─ [FORWARD] Map  #3, parallelism 2, uid m
   └─ [HASH] Co-Process  #6, parallelism 2, keyed, uid join
      ├─ [FORWARD, side output 'late'] Sink: Late  #8, parallelism 2, uid late
      └─ [FORWARD] Sink: Print  #9, parallelism 2, uid print
Source: B  #2, parallelism 2, group other, uid b
└─ [HASH] -> #6, see above

== JobGraph: 3 vertices, 2 edges ==
Source: A -> Map  vertex 1, parallelism 2, max parallelism 128, 2 operators
└─ [HASH] Co-Process -> (Sink: Late, Sink: Print)  vertex 6, parallelism 2, max parallelism 128, 3 operators
Source: B  vertex 2, parallelism 2, max parallelism 128, 1 operator
└─ [HASH] -> vertex 6, see above

== ExecutionPlan: 2 levels, 4 slots ==
level 0 (sources)
├─ Source: A -> Map  vertex 1, slots 0-1
├─ Source: B  vertex 2, slots 2-3
├─ sends HASH: vertex 1 -> vertex 6 at level 1
└─ sends HASH: vertex 2 -> vertex 6 at level 1
level 1 (behind an exchange)
└─ Co-Process -> (Sink: Late, Sink: Print)  vertex 6, slots 0-1

== Engine plan ==
MapInArrow on 4 slots
"""
    )


def test_switched_off_chaining_is_said() -> None:
    build = ProgramBuilder()
    build.sink(build.source())
    text = explain_program(build.build(chaining=False))
    assert "2 operators, chaining off ==" in text
    assert "Engine plan" not in text
