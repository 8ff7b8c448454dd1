"""The programs in jobs/examples: they print what the same programs print on PyFlink 2.3.0 (record_examples.py)."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from flinkish.datastream import DataStream, StreamExecutionEnvironment
from tests.conftest import MakeEnvironment, locally
from tests.jobs.record_examples import EXAMPLES, expected, names
from tests.kit.own_process import set_arguments

sys.path.insert(0, str(EXAMPLES))

#: In these no order is promised: results of keys in batch mode, and of calls that end when they end.
UNORDERED = ("async_with_retries", "word_count")
#: Those that write files when they are told to.
WRITING = sorted(name for name in names() if "--output" in (EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))


#: In these windows of several keys end at one moment, in any order; the third field is when.
AT_ONE_MOMENT = ("sliding_time_window", "tumbling_time_window")


def in_order(name: str, lines: list[str]) -> list[str]:
    """Return the lines with those sorted that have no order among them."""
    if name in UNORDERED:
        return sorted(lines)
    if name in AT_ONE_MOMENT:
        return [line for _, together in groupby(lines, key=lambda line: line.split(",")[2]) for line in sorted(together)]
    return lines


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str | Path, engine: str = "local") -> None:
    """Run an example in this process."""
    set_arguments(monkeypatch, EXAMPLES / f"{name}.py", f"-Dexecution.engine={engine}", *arguments)
    importlib.import_module(name).main()


def written(folder: Path) -> list[str]:
    """Return the lines of all files that a sink has finished."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert all(path.name.startswith("results") and path.suffix == ".txt" for path in files)
    return [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def test_there_is_a_record_of_each_example() -> None:
    assert len(names()) >= 10
    assert all(expected(name) for name in names())


@pytest.mark.parametrize("name", names())
def test_an_example_prints_what_it_prints_on_flink(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run(monkeypatch, name)
    assert in_order(name, capsys.readouterr().out.splitlines()) == in_order(name, expected(name))


@pytest.mark.parametrize("name", WRITING)
def test_an_example_writes_what_it_would_print(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    run(monkeypatch, name, "--output", tmp_path / "out")
    assert in_order(name, written(tmp_path / "out")) == in_order(name, expected(name))


@locally
def test_words_of_files_are_counted_in_batch_mode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str) -> None:
    texts, output = tmp_path / "texts", tmp_path / "out"
    texts.mkdir()
    for number, text in enumerate(["salt and sand", "sand and sea\nand sky"]):
        (texts / f"{number}.txt").write_text(text + "\n", encoding="utf-8")
    run(monkeypatch, "word_count", "--input", texts, "--output", output, engine=engine)
    assert sorted(written(output)) == ["(and,3)", "(salt,1)", "(sand,2)", "(sea,1)", "(sky,1)"]


def results_of() -> dict[str, list[Callable[[StreamExecutionEnvironment], DataStream]]]:
    """Return the functions that make the results of each example, in the order in which it prints them."""
    modules = {name: importlib.import_module(name) for name in names()}
    basic = modules["basic_operations"]
    return {
        "async_with_retries": [modules["async_with_retries"].moods],
        "basic_operations": [
            lambda env, operation=operation: operation(env.from_collection(basic.PARCELS, basic.PARCEL))
            for operation in (basic.wrapped, basic.heavy, basic.sum_by_city)
        ],
        "event_time_timer": [modules["event_time_timer"].silent_machines],
        "process_json_data": [modules["process_json_data"].stops_in_zone_1],
        "session_with_dynamic_gap_window": [modules["session_with_dynamic_gap_window"].lights],
        "session_with_gap_window": [modules["session_with_gap_window"].paths],
        "sliding_time_window": [modules["sliding_time_window"].means],
        "state_access": [modules["state_access"].odometers],
        "tumbling_count_window": [modules["tumbling_count_window"].crates],
        "tumbling_time_window": [modules["tumbling_time_window"].visitors_by_door],
    }


def test_all_streaming_examples_as_one_job_print_what_they_print_on_flink(
    make_env: MakeEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env = make_env(parallelism=1)
    programs = results_of()
    assert {*programs, "word_count"} == set(names())
    for name, functions in programs.items():
        for place, function in enumerate(functions):
            function(env).print(f"{name} {place}")
    env.execute("all examples")
    printed: dict[str, list[str]] = defaultdict(list)
    for line in sorted(capsys.readouterr().out.splitlines(), key=lambda line: line.partition("> ")[0]):
        label, _, text = line.partition("> ")
        printed[label.partition(" ")[0]].append(text)
    for name in programs:
        assert in_order(name, printed[name]) == in_order(name, expected(name)), name


def process(*command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=240, env=environment, check=False)


def test_an_example_runs_as_a_script() -> None:
    result = process(sys.executable, EXAMPLES / "session_with_dynamic_gap_window.py", "-Dexecution.engine=local")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == expected("session_with_dynamic_gap_window")
