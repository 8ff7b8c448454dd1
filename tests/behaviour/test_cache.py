"""DataStream.cache(): records that later jobs of the program read again, on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import DataStream, MapFunction, OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkish.datastream.functions import ProcessFunction
from tests.conftest import MakeEnvironment
from tests.kit.environments import env_of
from tests.kit.functions import Second
from tests.kit.results import collect

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Computing(MapFunction):
    """Creates a file for each record that it computes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def map(self, value: Any) -> Any:
        number = sum(1 for _ in self.folder.glob(f"{value[1]}-*"))
        (self.folder / f"{value[1]}-{number}").touch()
        return value


class WithTime(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield (*value, ctx.timestamp())


@pytest.fixture
def batch(make_env: MakeEnvironment) -> StreamExecutionEnvironment:
    # Small epochs: the records come in several files.
    return make_env(2, {"execution.epoch.max-records": 5}).set_runtime_mode(RuntimeExecutionMode.BATCH)


@pytest.fixture
def computed(tmp_path: Path) -> Path:
    (tmp_path / "computed").mkdir()
    return tmp_path / "computed"


def pairs(env: StreamExecutionEnvironment, computed: Path) -> DataStream:
    records = [(name, number) for number, name in enumerate("abcabcabca")]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    timed = env.from_collection(records, PAIR).assign_timestamps_and_watermarks(strategy)
    return timed.rebalance().map(Computing(computed), PAIR)


def times_computed(computed: Path) -> set[int]:
    numbers = [path.name.split("-")[0] for path in computed.iterdir()]
    return {numbers.count(number) for number in numbers}


def test_a_cached_stream_is_computed_once_until_it_is_invalidated(batch: StreamExecutionEnvironment, computed: Path) -> None:
    cached = pairs(batch, computed).cache()
    sums = [("a", 18), ("b", 12), ("c", 15)]

    # Used twice by the job that fills it.
    first = cached.key_by(lambda value: value[0], Types.STRING()).sum(1)
    both = first.union(cached.filter(lambda value: value[1] > 8))
    assert sorted(collect(both)) == sorted([*sums, ("a", 9)])
    assert times_computed(computed) == {1}

    # Read again, with the times of the records.
    assert sorted(collect(cached.process(WithTime()))) == [(n, t, t) for t, n in sorted(enumerate("abcabcabca"), key=_by_name)]
    assert times_computed(computed) == {1}

    cached.invalidate()
    assert sorted(collect(cached.key_by(lambda value: value[0], Types.STRING()).sum(1))) == sums
    assert times_computed(computed) == {2}
    batch.close()


def _by_name(indexed: tuple[int, str]) -> tuple[str, int]:
    return indexed[1], indexed[0]


EVEN = OutputTag("even", Types.LONG())


class Parted(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Any:
        yield (EVEN, value) if value % 2 == 0 else value


class Fails(MapFunction):
    def map(self, value: Any) -> Any:
        raise RuntimeError("computed")


def make_local(**settings: Any) -> StreamExecutionEnvironment:
    """Return an environment on the local engine: the outcomes of these tests are decided before a job reaches an engine."""
    return env_of(settings).set_runtime_mode(RuntimeExecutionMode.BATCH)


@pytest.fixture
def local() -> Iterator[StreamExecutionEnvironment]:
    env = make_local()
    yield env
    env.close()


def test_a_side_output_can_be_cached(local: StreamExecutionEnvironment) -> None:
    cached = local.from_collection([1, 2, 3, 4], Types.LONG()).process(Parted(), Types.LONG()).get_side_output(EVEN).cache()
    assert [collect(cached), collect(cached.map(lambda value: -value))] == [[2, 4], [-2, -4]]


def test_a_job_that_fails_leaves_the_cache_empty(local: StreamExecutionEnvironment, computed: Path) -> None:
    cached = pairs(local, computed).cache()
    with pytest.raises(RuntimeError, match="computed"):
        collect(cached.map(Fails()))
    failed = times_computed(computed)
    assert len(collect(cached)) == 10
    assert len(collect(cached)) == 10
    assert times_computed(computed) <= {times + 1 for times in (*failed, 0)}


def test_what_is_lost_of_a_cache_is_computed_again(tmp_path: Path, computed: Path) -> None:
    env = make_local(**{"io.tmp.dirs": str(tmp_path / "tmp")})
    cached = pairs(env, computed).cache()
    collect(cached)
    (file,) = (path for path in (tmp_path / "tmp").rglob("stream-*/0-*"))
    file.write_bytes(file.read_bytes()[:-1])
    assert len(collect(cached)) == 10
    assert times_computed(computed) == {2}
    env.close()
    assert list((tmp_path / "tmp").rglob("stream-*")) == []


def test_in_streaming_mode_a_cache_is_read_but_not_filled(local: StreamExecutionEnvironment, computed: Path) -> None:
    cached = pairs(local, computed).cache()
    local.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    assert [len(collect(cached)) for _ in range(2)] == [10, 10]
    assert times_computed(computed) == {2}
    local.set_runtime_mode(RuntimeExecutionMode.BATCH)
    collect(cached)
    local.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    assert len(collect(cached)) == 10
    assert times_computed(computed) == {3}
