"""The change data feed of a Delta table is merged into a copy by a job that is killed at random: run by -m soak.

FLINKISH_SEED chooses what happens (printed; the same seed makes the same choices), FLINKISH_SOAK_CYCLES how often it is killed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.seeds import chosen_seed
from tests.kit.tables import rows_of
from tests.recovery.processes import fatal, running

pytestmark = [pytest.mark.soak, pytest.mark.kill, pytest.mark.timeout(0)]

_SEED = chosen_seed()
_CYCLES = int(os.environ.get("FLINKISH_SOAK_CYCLES", "20"))
_KINDS = {"insert": "+I", "update_preimage": "-U", "update_postimage": "+U", "delete": "-D"}


def rows(table: Path) -> list[tuple[Any, ...]]:
    return sorted(rows_of(table))


def wanted_changes(table: Path) -> Counter[tuple[Any, ...]]:
    """Return what the log must hold, by deltalake's own reader."""
    feed = pa.table(DeltaTable(str(table)).load_cdf(starting_version=0))
    return Counter((_KINDS[row["_change_type"]], row["id"], row["n"]) for row in feed.to_pylist())


def change(table: Path, rng: random.Random) -> None:
    """Make one more version."""
    known = [row[0] for row in rows(table)]
    new = [rng.randrange(1_000) for _ in range(rng.randrange(1, 60))]
    source = pa.table({"id": pa.array(sorted(set(new)), pa.int64())}).append_column(
        "n", pa.array([rng.randrange(10**6) for _ in set(new)], pa.int64())
    )
    merger = DeltaTable(str(table)).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    match rng.randrange(4):
        case 0 if known:
            DeltaTable(str(table)).delete(f"id % 7 = {rng.randrange(7)}")
        case 1 if known:
            DeltaTable(str(table)).update({"n": "n + 1"}, predicate=f"id % 5 = {rng.randrange(5)}")
        case 2:
            DeltaTable(str(table)).optimize.compact()
        case _:
            merger.when_matched_update({"n": "s.n"}).when_not_matched_insert({"id": "s.id", "n": "s.n"}).execute()


@pytest.mark.parametrize("on", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_copy_kept_by_merge_loses_nothing_and_doubles_nothing(on: str, tmp_path: Path) -> None:
    print(f"FLINKISH_SEED={_SEED}")
    rng = random.Random(f"{_SEED} {on}")
    source, copy, log = tmp_path / "source", tmp_path / "copy", tmp_path / "log"
    start = pa.table({"id": pa.array(range(300), pa.int64()), "n": pa.array([0] * 300, pa.int64())})
    write_deltalake(str(source), start, configuration={"delta.enableChangeDataFeed": "true"})
    longest = 6.0 if on == "local" else 25.0
    for cycle in range(_CYCLES + 1):
        parallelism = rng.randint(1, 4)
        fault = fatal(rng, 4) if rng.random() < 0.5 and cycle < _CYCLES else None
        command = [f"--engine={on}", f"--output={tmp_path}", f"--parallelism={parallelism}"]
        if cycle == _CYCLES:
            command.append("--records=1000")  # tens of thousands of changes are left on a busy machine
        with running(*command, log=tmp_path / f"out {cycle}", fault=fault, script="delta_feed_job.py") as job:
            if cycle == _CYCLES:
                job.wait_until("the copy is complete", lambda: rows(copy) == rows(source), 600)
                job.wait_until("the log is complete", lambda: len(rows(log)) >= wanted_changes(source).total(), 120)
                break
            begun, patience = rng.random() < 0.8, rng.uniform(1.0, longest)
            if begun and on == "spark" and fault is None:  # a busy machine may take a minute to start Spark
                before = len(rows(log))
                DeltaTable(str(source)).update({"n": "n + 1"})
                write_deltalake(str(source), pa.table({"id": [10_000 + cycle], "n": [0]}), mode="append")
                job.wait_until("the first rows", lambda before=before: len(rows(log)) > before, 300)
            status = job.work_for(patience, lambda: change(source, rng) if rng.random() < 0.3 else None)
            print(f"cycle {cycle}: parallelism {parallelism}, {fault}, after {patience:.1f} s, {status}")
            assert status in (None, -9), job.report()
            job.kill_all()
        seen = Counter(rows(log))
        assert seen <= wanted_changes(source), f"doubled or made up: {seen - wanted_changes(source)}"
    assert Counter(rows(log)) == wanted_changes(source)
    assert rows(copy) == rows(source)
    print(f"{DeltaTable(str(source)).version()} versions, {len(rows(log))} changes, {DeltaTable(str(copy)).version()} merges")
