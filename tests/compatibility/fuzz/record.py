"""Compares generated programs with PyFlink: python -m tests.compatibility.fuzz.record compare PYTHON FIRST_SEED COUNT [--keep]

PYTHON is the interpreter of an environment with apache-flink 2.3.0. Programs on which the two do not agree are printed, unless a
rule says why; --keep adds programs and answers to those that the tests replay. `review` runs these again, without PyFlink, and
writes what now comes here where a rule says why it differs. `shrink PYTHON SEED` looks for a smaller program that differs.
"""

from __future__ import annotations

import argparse
import io
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinkish.common import Configuration
from flinkish.common.errors import FlinkishError
from flinkish.datastream import StreamExecutionEnvironment
from tests.compatibility.fuzz.generator import VERSION, generate
from tests.compatibility.fuzz.peer import PyFlink
from tests.compatibility.fuzz.pipeline import Pipeline
from tests.compatibility.fuzz.rules import rule_of

ANSWERS = Path(__file__).parent / "answers.jsonl"


def recorded() -> list[dict[str, Any]]:
    """Return what was recorded: seed and version of the generator, program, and results or error."""
    return [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()] if ANSWERS.exists() else []


def outcome(pipeline: Pipeline) -> dict[str, Any]:
    """Run a program on the local engine; return its results as text, or its error."""
    try:
        env = StreamExecutionEnvironment.get_execution_environment(
            pipeline.settle(Configuration.from_dict({"execution.engine": "local"}))
        )
        env.set_parallelism(pipeline.parallelism)
        stream = pipeline.build(env)
        if pipeline.printed:
            stream.print()
            with redirect_stdout(io.StringIO()) as output:
                env.execute()
            results = output.getvalue().splitlines()
        else:
            with stream.execute_and_collect() as records:
                results = [repr(record) for record in records]
    except FlinkishError as error:
        return {"error": str(error)}
    return {"results": pipeline.arranged(results)}


def agree(found: dict[str, Any], answer: dict[str, Any]) -> bool:
    """Return whether both gave the same; of errors, that there is one."""
    return "error" in found if "error" in answer else found.get("results") == answer["results"]


def judged(line: dict[str, Any]) -> str | None:
    """Note in a line what comes here, if a rule says why it differs; return what is wrong if no rule does."""
    pipeline = Pipeline.of(line["program"])
    found = outcome(pipeline)
    line.pop("here", None)
    if agree(found, line):
        return None
    if rule_of(pipeline, found, line) is None:
        return f"# seed {line['seed']}\n{pipeline}# PyFlink {answer_of(line)}\n# here    {found}\n"
    line["here"] = found.get("results")
    return None


def answer_of(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("results", "error") if name in line}


def compare(python: str, seeds: range, family: str | None, keep: bool) -> None:
    """Run programs with PyFlink and here."""
    chosen = {seed: generate(seed) for seed in seeds}
    lines = [
        {"seed": seed, "version": VERSION, "program": pipeline.to_json()}
        for seed, pipeline in chosen.items()
        if family in (None, pipeline.family)
    ]
    by_program = {json.dumps(line["program"]): line for line in lines}
    compared, wrong = 0, 0
    with PyFlink(python) as pyflink:
        for pipeline, answer in pyflink.answers([Pipeline.of(line["program"]) for line in by_program.values()]):
            line = by_program[json.dumps(pipeline.to_json())] | answer
            why = judged(line)
            compared, wrong = compared + 1, wrong + (why is not None)
            if why is not None:
                print(why, flush=True)
            elif keep:
                with ANSWERS.open("a", encoding="utf-8") as file:
                    file.write(written(line))
    print(f"{compared} of {len(lines)} programs compared, {wrong} disagreements without a rule")


def written(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def smaller(pipeline: Pipeline) -> Iterator[Pipeline]:
    """Yield programs with one record or one step less."""
    for number, one in enumerate(pipeline.inputs):
        for index in range(len(one.records)):
            less = replace(one, records=one.records[:index] + one.records[index + 1 :])
            yield replace(pipeline, inputs=[*pipeline.inputs[:number], less, *pipeline.inputs[number + 1 :]])
    for index in range(len(pipeline.steps)):
        yield replace(pipeline, steps=pipeline.steps[:index] + pipeline.steps[index + 1 :])


def shrink(python: str, seed: int) -> None:
    """Print the smallest program found that differs without a rule, as the one of a seed does."""
    pipeline = generate(seed)
    runs = "results" in outcome(pipeline)
    with PyFlink(python) as pyflink:
        while True:
            candidates = [one for one in smaller(pipeline) if ("results" in outcome(one)) == runs]
            for candidate, answer in pyflink.answers(candidates):
                if why := judged({"seed": seed, "program": candidate.to_json(), **answer}):
                    print(why, flush=True)
                    pipeline = candidate
                    break
            else:
                return


def review() -> None:
    """Run what was recorded again, and write anew what comes here where it differs by a rule."""
    lines = recorded()
    for line in lines:
        if why := judged(line):
            print(why)
    ANSWERS.write_text("".join(map(written, lines)), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    hunt = commands.add_parser("compare")
    hunt.add_argument("python")
    hunt.add_argument("first", type=int)
    hunt.add_argument("count", type=int)
    hunt.add_argument("--family")
    hunt.add_argument("--keep", action="store_true")
    smallest = commands.add_parser("shrink")
    smallest.add_argument("python")
    smallest.add_argument("seed", type=int)
    commands.add_parser("review")
    arguments = parser.parse_args()
    # So that PyFlink ends as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if arguments.command == "review":
        review()
    elif arguments.command == "shrink":
        shrink(arguments.python, arguments.seed)
    else:
        compare(arguments.python, range(arguments.first, arguments.first + arguments.count), arguments.family, arguments.keep)


if __name__ == "__main__":
    main()
