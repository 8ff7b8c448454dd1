"""What a type checker says to programs: which records a stream has, and what does not fit."""

from __future__ import annotations

import re
from pathlib import Path

from flinkish.common import TypeInformation, Types
from flinkish.datastream import DataStream, KeyedStream
from flinkish.datastream.closeable_iterator import CloseableIterator
from flinkish.datastream.windowed_stream import WindowedStream
from tests.integration.datastream.typed import inferred
from tests.kit.child import python
from tests.unit.datastream.helpers import make_env

_FOLDER = Path(__file__).with_name("typed")
_ROOT = Path(__file__).parents[3]


def _complaints() -> set[tuple[str, int, str]]:
    """Return mypy's errors about the programs: file, line and code."""
    # With the settings and the cache of `make check`, mypy need not analyse flinkish a second time.
    options = ["--config-file=setup.cfg", "--no-error-summary"]
    run = python("-m", "mypy", *options, _FOLDER, folder=_ROOT, status=None)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = set()
    for line in run.stdout.splitlines():
        match = re.fullmatch(r".*?([^/]+\.py):(\d+): error: .* +\[([\w-]+)\]", line)
        assert match or ": note: " in line, run.stdout
        if match:
            found.add((match[1], int(match[2]), match[3]))
    return found


def test_mypy_infers_the_records_of_streams_and_refuses_what_does_not_fit() -> None:
    wrong = (_FOLDER / "wrong.py").read_text().splitlines()
    expected = {
        ("wrong.py", number, code)
        for number, line in enumerate(wrong, 1)
        for code in line.partition("  # E: ")[2].split(", ")
        if code
    }

    assert len(expected) > 5
    # One run for both files, as most of its time goes into flinkish itself; no complaint is about inferred.py.
    assert _complaints() == expected


def test_the_inferred_programs_can_be_built() -> None:
    env = make_env()
    numbers, words = env.from_collection([1]), env.from_collection(["a"])

    inferred.sources(env)
    inferred.operators(numbers, words)
    inferred.declared(numbers, words)
    inferred.keyed(numbers, words)
    inferred.two_streams(numbers, words, env.from_collection([("a", "b")]))
    inferred.windows(numbers)
    inferred.results(numbers)
    inferred.untyped(env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()])))


def test_type_parameters_are_of_no_effect_at_run_time() -> None:
    stream = make_env().from_collection([1])

    assert DataStream[int].__origin__ is DataStream  # type: ignore[attr-defined]
    assert TypeInformation[int].__origin__ is TypeInformation  # type: ignore[attr-defined]
    assert KeyedStream[int, str] == KeyedStream[int, str]
    assert WindowedStream[int, str] is not None
    assert CloseableIterator[int] is not None
    assert type(stream) is DataStream
    assert isinstance(stream.key_by(lambda number: number), DataStream)
