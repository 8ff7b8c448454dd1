"""What the table of engines names is there, and an engine is all that its entry says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any

import pytest

from flinkish.common import Configuration, options
from flinkish.common.clock import ManualClock
from flinkish.common.engines import DEFAULT_ENGINE, ENGINES, EngineRecord
from flinkish.common.ids import random_id
from flinkish.engine import executor
from flinkish.jobmaster.epochs import Engine


def configuration(engine: str) -> Configuration:
    return Configuration.from_dict({"execution.engine": engine})


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def record(request: pytest.FixtureRequest) -> EngineRecord:
    found: EngineRecord = request.param
    return found


def parameters(function: Callable[..., Any]) -> list[str]:
    return [parameter.annotation for parameter in inspect.signature(function).parameters.values()]


def test_the_factory_of_each_entry_makes_an_engine(record: EngineRecord) -> None:
    engine = executor.create_engine(configuration(record.name), ManualClock(), random_id)
    calls = [name for name, call in vars(Engine).items() if inspect.isfunction(call) and not name.startswith("_")]
    assert sorted(calls) == ["busy_operators", "close", "interrupt", "run_attempt", "scratch_root"]
    for name in calls:
        assert parameters(getattr(engine, name)) == parameters(getattr(Engine, name))[1:]
    engine.close()


def test_what_each_entry_names_beside_the_factory_is_a_function_of_the_right_arguments(record: EngineRecord) -> None:
    plan = executor.engine_plan(configuration(record.name))
    assert plan is None or parameters(plan) == ["ExecutionPlan"]
    if record.shared is not None:
        assert parameters(resolve_name(record.shared)) == ["Configuration"]


def test_options_and_default_are_those_of_the_table(record: EngineRecord) -> None:
    assert configuration(record.name).get(options.ENGINE) == record.name
    assert f"{record.name} ({record.runs_in})" in options.ENGINE.description
    assert Configuration().get(options.ENGINE) == DEFAULT_ENGINE in ENGINES


def make_third(configuration: Configuration, clock: Any, ids: Any) -> Any:
    return ("third", clock, ids)


def plan_of_third(plan: Any) -> str:
    return "third"


def share_third(configuration: Configuration) -> Callable[[], None]:
    shared.append("third")
    return shared.clear


shared: list[str] = []


def test_another_entry_is_another_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    third = replace(
        ENGINES["local"],
        factory=f"{__name__}:make_third",
        plan=f"{__name__}:plan_of_third",
        shared=f"{__name__}:share_third",
    )
    monkeypatch.setattr(executor, "ENGINES", MappingProxyType({"local": third}))
    clock = ManualClock()
    assert executor.create_engine(configuration("local"), clock, random_id) == ("third", clock, random_id)
    plan: Any = executor.engine_plan(configuration("local"))
    assert plan(None) == "third"
    release = executor.hold_shared(configuration("local"))
    assert shared == ["third"]
    release()
    assert shared == []


def test_an_engine_that_shares_nothing_has_nothing_to_give_back() -> None:
    assert ENGINES["local"].shared is None
    executor.hold_shared(configuration("local"))()
