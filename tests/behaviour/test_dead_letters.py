"""Dead letters on both engines, across a failure; all else about them is in tests/integration/engine/test_dead_letters.py."""

from __future__ import annotations

import json
from pathlib import Path

from deltalake import DeltaTable

from flinkish.common import Row, Time, Types, WatermarkStrategy
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.window import TumblingEventTimeWindows
from tests.behaviour.test_time import PUNCTUATED
from tests.conftest import MakeEnvironment
from tests.kit.functions import FailOnce
from tests.kit.results import collect

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


def test_late_and_undecodable_records_are_kept_once_across_a_failure(make_env: MakeEnvironment, tmp_path: Path) -> None:
    lines = []
    for time in range(10, 90):
        lines.append(json.dumps({"key": "a", "time": time}))
        if time % 20 == 0:
            lines += [f"bad {time}", json.dumps({"key": "late", "time": time - 15})]
    (tmp_path / "in").write_text("\n".join(lines))
    env = make_env(
        2,
        {
            "pipeline.dead-letters.dir": tmp_path / "dead",
            "execution.checkpointing.interval": "10 ms",
            "execution.epoch.max-records": 30,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "0 s",
        },
    )
    row = Types.ROW_NAMED(["key", "time"], [Types.STRING(), Types.INT()])
    source = FileSource.for_record_stream_format(StreamFormat.json_lines_format(row), str(tmp_path / "in")).build()
    lines_of_json = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").set_parallelism(1)
    pairs = lines_of_json.map(_pair, PAIR).set_parallelism(1)
    failing = pairs.map(FailOnce(tmp_path / "failed", ("a", 70)), PAIR).set_parallelism(1)
    timed = failing.assign_timestamps_and_watermarks(PUNCTUATED).set_parallelism(1)
    windows = timed.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    sums = windows.reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert len(collect(sums)) == 8
    found = DeltaTable(tmp_path / "dead").to_pyarrow_table().to_pylist()
    assert sorted(row["raw"] for row in found if row["kind"] == "undecodable") == [b"bad 20", b"bad 40", b"bad 60", b"bad 80"]
    late = [(json.loads(row["json"]), row["event_time"]) for row in found if row["kind"] == "late"]
    assert sorted(late) == [(["late", time], time) for time in (5, 25, 45, 65)]
    assert all(row["checkpoint_id"] > 0 for row in found)


def _pair(row: Row) -> tuple[str, int]:
    return row.key, row.time
