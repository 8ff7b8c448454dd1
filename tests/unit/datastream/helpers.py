"""What the tests of the API share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinkish.common.completable_future import CompletableFuture
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.program.program import Program


def make_env(**settings: str) -> StreamExecutionEnvironment:
    """Return an environment that no configuration file or command line has to do with; `__` in a name stands for a dot."""
    from flinkish.common import Configuration

    return StreamExecutionEnvironment(Configuration.from_dict({key.replace("__", "."): value for key, value in settings.items()}))


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2, 3])


class FakeClient:
    """A client of a job that emits given records and then ends, or fails."""

    def __init__(self, records: list[Any], error: Exception | None = None) -> None:
        self.records = records
        self.error = error
        self.cancelled = 0

    def collect_results(self) -> Iterator[Any]:
        yield from self.records
        if self.error is not None:
            raise self.error

    def cancel(self) -> CompletableFuture[None]:
        self.cancelled += 1
        return CompletableFuture.completed(None)

    def get_job_execution_result(self) -> CompletableFuture[str]:
        return CompletableFuture.failed(self.error) if self.error else CompletableFuture.completed("result")


class FakeExecutor:
    """Notes the programs it is given."""

    def __init__(self, client: FakeClient | None = None) -> None:
        self.client = client or FakeClient([])
        self.programs: list[Program] = []

    def execute_async(self, program: Program) -> FakeClient:
        self.programs.append(program)
        return self.client

    def execution_plan_json(self, program: Program) -> str:
        self.programs.append(program)
        return "{}"

    def explain(self, program: Program) -> str:
        self.programs.append(program)
        return "plan"
