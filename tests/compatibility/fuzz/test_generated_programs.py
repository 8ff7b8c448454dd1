"""Generated programs give what they gave with PyFlink 2.3.0, or differ by a rule. `record.py` made and recorded them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from tests.compatibility.fuzz.generator import FAMILIES, VERSION, generate
from tests.compatibility.fuzz.pipeline import MODES, Pipeline
from tests.compatibility.fuzz.record import agree, outcome, recorded
from tests.compatibility.fuzz.rules import RULES, Rule, rule_of
from tests.conftest import MakeEnvironment

RECORDED = recorded()


def fault(line: dict[str, Any], found: dict[str, Any]) -> str | None:
    """Return what is wrong with an outcome, if anything is."""
    if "here" not in line:
        return None if agree(found, line) else "it does not give what PyFlink gives"
    if agree(found, line):
        return "there is no difference any more"
    if rule_of(Pipeline.of(line["program"]), found, line) is None:
        return "no rule says why it differs"
    return None if found.get("results") == line["here"] else "it differs, but not as recorded"


@pytest.mark.parametrize("family", [family.__name__ for family in FAMILIES])
def test_generated_programs_give_what_pyflink_gives(family: str) -> None:
    wrong, count = [], 0
    for line in RECORDED:
        if line["program"]["family"] == family:
            pipeline, count = Pipeline.of(line["program"]), count + 1
            found = outcome(pipeline)
            if why := fault(line, found):
                recorded_here = {name: line.get(name) for name in ("results", "error", "here")}
                wrong.append(f"# seed {line['seed']}: {why}\n{pipeline}# recorded {recorded_here}\n# found {found}\n")
    assert not wrong, f"{len(wrong)} of {count} programs of {family}, the shortest:\n{min(wrong, key=len)}"
    assert count


def test_each_rule_is_needed() -> None:
    used: dict[Rule | None, int] = defaultdict(int)
    for line in RECORDED:
        if "here" in line:
            found = {"error": "refused"} if line["here"] is None else {"results": line["here"]}
            used[rule_of(Pipeline.of(line["program"]), found, line)] += 1
    assert used.keys() == set(RULES)


def test_a_seed_gives_the_program_that_was_recorded_for_it() -> None:
    for line in RECORDED:
        if line["version"] == VERSION:
            assert generate(line["seed"]).to_json() == line["program"], line["seed"]


#: Programs that run as one job on Spark, in each mode.
_ON_SPARK = 15


def indexed(pipeline: Pipeline, env: Any, index: int) -> Any:
    return pipeline.build(env).map(lambda value: (index, repr(value)))


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("mode", MODES)
def test_programs_give_the_same_as_one_job_on_spark(mode: str, make_env: MakeEnvironment) -> None:
    chosen: list[tuple[Pipeline, list[str]]] = []
    families: dict[str, int] = defaultdict(int)
    for line in RECORDED:
        pipeline = Pipeline.of(line["program"])
        expected = line.get("here", line.get("results"))
        alone = pipeline.printed or pipeline.settings or pipeline.parallelism > 1
        if pipeline.mode == mode and expected and not alone and families[pipeline.family] < _ON_SPARK // 3:
            families[pipeline.family] += 1
            chosen.append((pipeline, expected))
    chosen = chosen[:_ON_SPARK]
    assert len(chosen) > 3
    env = make_env(1, MODES[mode])
    first, *more = [indexed(pipeline, env, index) for index, (pipeline, _) in enumerate(chosen)]
    found: dict[int, list[str]] = defaultdict(list)
    for index, text in first.union(*more).execute_and_collect():
        found[index].append(text)
    for index, (pipeline, expected) in enumerate(chosen):
        assert pipeline.arranged(found[index]) == expected, str(pipeline)
