from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flinkish.graph.chaining import build_job_graph
from flinkish.graph.stream_graph_generator import generate
from flinkish.program import executor_loader

README = Path(__file__).parents[3] / "README.md"


class RecordingExecutor:
    """Keeps the programs instead of running them."""

    def __init__(self) -> None:
        self.programs: list[Any] = []

    def execute_async(self, program: Any) -> Any:
        self.programs.append(program)
        return _Finished()


class _Finished:
    def get_job_execution_result(self) -> _Finished:
        return self

    def result(self) -> None:
        return None


@pytest.fixture
def executor() -> Any:
    executor: Any = RecordingExecutor()
    before = executor_loader.replace_executor(executor)
    yield executor
    executor_loader.replace_executor(before)


def _examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_the_program_of_the_readme_can_be_built(executor: RecordingExecutor) -> None:
    program, _ = _examples()
    exec(compile(program, str(README), "exec"), {"__name__": "readme"})
    (built,) = executor.programs
    assert built.job_name == "silence"
    job_graph = build_job_graph(generate(built))
    assert next(iter(job_graph.vertices.values())).name == "Source: Collection Source"
    assert job_graph.edges[-1].partitioner.partitioning.value == "HASH"


@pytest.mark.usefixtures("executor")
def test_the_test_of_the_readme_passes() -> None:
    namespace: dict[str, Any] = {"__name__": "readme"}
    for example in _examples():
        exec(compile(example, str(README), "exec"), namespace)


def test_every_make_target_of_the_readme_exists() -> None:
    named = set(re.findall(r"make ([a-z-]+)", README.read_text()))
    defined = set(re.findall(r"^([a-z-]+):", (README.parent / "Makefile").read_text(), flags=re.MULTILINE))
    assert named <= defined


def test_every_file_that_the_readme_links_to_exists() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", README.read_text()):
        assert (README.parent / link.partition("#")[0]).exists(), link
