from __future__ import annotations

import logging
from collections import Counter

import pytest

from flinkish.common.clock import ManualClock
from flinkish.common.job_status import JobStatus
from flinkish.jobmaster.execution_graph import (
    EXECUTION_TRANSITIONS,
    JOB_TRANSITIONS,
    ExecutionGraph,
    ExecutionState,
    IllegalTransitionError,
)

from .support import JOB_ID, VERTEX, Notes, Numbers, make_plan


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(5_000)


@pytest.fixture
def graph(clock: ManualClock) -> ExecutionGraph:
    return ExecutionGraph(make_plan(Numbers((0, 5)), Notes(), parallelism=2), JOB_ID, clock)


def test_each_state_has_an_entry_in_its_table() -> None:
    assert set(EXECUTION_TRANSITIONS) == set(ExecutionState)
    assert set(JOB_TRANSITIONS) == set(JobStatus)


def test_terminal_states_are_those_that_nothing_follows() -> None:
    assert {state for state in ExecutionState if state.is_terminal} == {
        ExecutionState.FINISHED,
        ExecutionState.CANCELED,
        ExecutionState.FAILED,
    }
    assert all(status.is_terminal_state() == (not JOB_TRANSITIONS[status]) for status in JobStatus)


def test_a_transition_that_the_table_does_not_have_is_refused(graph: ExecutionGraph) -> None:
    graph.move(VERTEX, 0, ExecutionState.RUNNING)
    assert graph.details().executions[0].state is ExecutionState.CREATED
    with pytest.raises(IllegalTransitionError, match="CREATED -> FINISHED"):
        graph.transition_job(JobStatus.FINISHED)


def test_all_executions_that_may_enter_a_state_do(graph: ExecutionGraph) -> None:
    graph.move(VERTEX, 1, ExecutionState.FAILED)
    graph.transition_all(ExecutionState.SCHEDULED)
    assert Counter(each.state for each in graph.details().executions) == {ExecutionState.SCHEDULED: 1, ExecutionState.FAILED: 1}


def test_the_time_of_each_state_is_noted(graph: ExecutionGraph, clock: ManualClock) -> None:
    clock.advance(70)
    graph.transition_all(ExecutionState.SCHEDULED)
    assert graph.details().executions[0].timestamps == {ExecutionState.CREATED: 5_000, ExecutionState.SCHEDULED: 5_070}


def test_a_new_attempt_begins_with_new_executions(graph: ExecutionGraph) -> None:
    graph.move(VERTEX, 0, ExecutionState.FAILED)
    graph.new_attempt(1)
    execution = graph.details().executions[0]
    assert (execution.state, execution.attempt_number) == (ExecutionState.CREATED, 1)


def test_executions_end_as_canceled_from_every_state(graph: ExecutionGraph) -> None:
    graph.end_executions()
    assert Counter(each.state for each in graph.details().executions) == {ExecutionState.CANCELED: 2}


def test_finishing_twice_is_finishing_once(graph: ExecutionGraph) -> None:
    for state in (ExecutionState.SCHEDULED, ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING):
        graph.transition_all(state)
    graph.move(VERTEX, 0, ExecutionState.FINISHED)
    graph.move(VERTEX, 0, ExecutionState.FINISHED)
    assert Counter(each.state for each in graph.details().executions) == {ExecutionState.FINISHED: 1, ExecutionState.RUNNING: 1}


def test_transitions_are_logged_with_flinks_names(graph: ExecutionGraph, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="flinkish"):
        graph.move(VERTEX, 0, ExecutionState.SCHEDULED)
        graph.transition_job(JobStatus.RUNNING)
    assert [record.getMessage() for record in caplog.records] == [
        "Source: Numbers -> Sink: Notes (1/2)#0 switched from CREATED to SCHEDULED.",
        f"Job test job ({JOB_ID}) switched from state CREATED to RUNNING.",
    ]
