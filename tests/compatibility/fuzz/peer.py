"""PyFlink in a process of its own, which runs several programs as one job: a job takes seconds, whatever it holds.

Where such a job fails, its halves run by themselves, until it is clear which program was it.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.compatibility.fuzz.pipeline import Pipeline

HERE = Path(__file__).parent
#: Programs in one job.
_TOGETHER = 12
#: Jobs of one process: it keeps threads of each.
_JOBS = 5
#: Seconds; some programs never end there.
_LIMIT = 150
#: Modules that the programs need, with PyFlink's names.
_MODULES = ("kit.py", "fuzz/__init__.py", "fuzz/vocabulary.py", "fuzz/pipeline.py")
_RUNNER = """
import json, sys
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.data_stream import CloseableIterator
from tests.compatibility.fuzz.pipeline import Pipeline

for line in sys.stdin:
    try:
        pipelines = [Pipeline.of(found) for found in json.loads(line)]
        env = StreamExecutionEnvironment.get_execution_environment(pipelines[0].settle(Configuration()))
        env.set_parallelism(pipelines[0].parallelism)
        collected = {}
        for index, pipeline in enumerate(pipelines):
            stream = pipeline.build(env)
            if pipeline.printed:
                stream.print(f"program {index}")
            else:
                collected[index] = CloseableIterator(stream._j_data_stream.collectAsync(), stream.get_type())
        job = env.execute_async()
        results = {index: [repr(record) for record in records] for index, records in collected.items()}
        job.get_job_execution_result().result()
        found = {"results": results}
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if "Error" in line or "Exception" in line]
        found = {"error": (lines or [repr(error)])[-1][:200]}
    print("END " + json.dumps(found), flush=True)
"""


class PyFlink:
    """PyFlink by the Python that has it; a context manager."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None
        self._jobs = 0
        for name in _MODULES:
            path = Path(self._folder.name, "tests", "compatibility", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (HERE.parent / name).read_text(encoding="utf-8")
            path.write_text(re.sub(r"\bflinkish\b", "pyflink", text), encoding="utf-8")
        Path(self._folder.name, "runner.py").write_text(_RUNNER, encoding="utf-8")

    def __enter__(self) -> PyFlink:
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop()
        self._folder.cleanup()

    def answers(self, pipelines: list[Pipeline]) -> Iterator[tuple[Pipeline, dict[str, Any]]]:
        """Yield each program with its results, or its error; not in their order, and without those that differ if run twice."""
        alike: dict[str, list[Pipeline]] = {}
        for pipeline in pipelines:
            wrong = pipeline.family == "mismatches"
            settings = sorted(pipeline.settings.items())
            alike.setdefault(f"{pipeline.mode} {pipeline.parallelism} {settings} {wrong}", []).append(pipeline)
        for group in alike.values():
            # In batch mode a task waits for its slot, and for the reader of its results: several programs may wait for ever.
            # And most mismatches fail.
            count = 1 if group[0].mode == "batch" or group[0].family == "mismatches" else _TOGETHER
            for start in range(0, len(group), count):
                together = group[start : start + count]
                found = list(self._answers(together))
                if together[0].mode == "stepped":
                    # Watermarks come by the clock: what a busy machine changes is no answer.
                    again = {id(pipeline): answer for pipeline, answer in self._answers(together)}
                    found = [(pipeline, answer) for pipeline, answer in found if again[id(pipeline)] == answer]
                yield from found

    def _answers(self, group: list[Pipeline]) -> Iterator[tuple[Pipeline, dict[str, Any]]]:
        found = self._run(group)
        if "results" in found:
            for index, pipeline in enumerate(group):
                yield pipeline, {"results": pipeline.arranged(found["results"].get(str(index), []))}
        elif len(group) == 1:
            yield group[0], found
        else:
            half = len(group) // 2
            yield from self._answers(group[:half])
            yield from self._answers(group[half:])

    def _run(self, group: list[Pipeline]) -> dict[str, Any]:
        """Run one job; return the results of its programs by their numbers, or its error."""
        if self._jobs == _JOBS:
            self._stop()
        process = self._process or self._start()
        self._jobs += 1
        assert process.stdin is not None
        process.stdin.write(json.dumps([pipeline.to_json() for pipeline in group]).encode() + b"\n")
        process.stdin.flush()
        printed: dict[str, list[str]] = {}
        for line in self._lines(process):
            if line.startswith("END "):
                found: dict[str, Any] = json.loads(re.sub(r" object at 0x\w+", "", line.removeprefix("END ")))
                if "results" in found:
                    found["results"].update(printed)
                return found
            if match := re.fullmatch(r"program (\d+)> (.*)", line):
                printed.setdefault(match[1], []).append(match[2])
        self._stop()
        return {"error": f"no end within {_LIMIT} s"}

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterator[str]:
        """Yield what the process writes, until it ends or takes too long."""
        assert process.stdout is not None
        deadline, rest = time.monotonic() + _LIMIT, b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                if selector.select(left):
                    read = os.read(process.stdout.fileno(), 1 << 16)
                    if not read:
                        return
                    *lines, rest = (rest + read).split(b"\n")
                    yield from (line.decode() for line in lines)

    def _start(self) -> subprocess.Popen[bytes]:
        # PyFlink starts its workers by the name `python`.
        path = os.pathsep.join([str(Path(self._python).parent), os.environ["PATH"]])
        utf_8 = "-Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8"
        environment = {**os.environ, "PATH": path, "COMPATIBILITY_PAUSE": "0.2", "JAVA_TOOL_OPTIONS": utf_8, "PYTHONPATH": "."}
        self._process = subprocess.Popen(
            [self._python, "runner.py"],
            cwd=self._folder.name,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process, self._jobs = None, 0
