"""Groups are read and written as Spark's own serializer does it, by which a change of PySpark's is noticed."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.serializers import SpecialLengths, read_int, write_int
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer
from pyspark.sql.streaming.state import GroupState

from flinkish.common.errors import EngineError
from flinkish.engine.slots.messages import PackedFrames, pack_columns
from flinkish.engine.spark.groups import SCHEMA, STATE_SCHEMA, Group, OnGroups, read_groups, to_arrow

#: Slot, level, edge, channel, seq, body.
Rows = list[tuple[int, int, int, int, int, bytes]]
ROWS: dict[int, Rows] = {
    7: [(7, 1, 2, 3, 4, b"one"), (7, 2, 2, 3, 5, b""), (7, 1, -1, 0, 0, b"\x00\xff")],
    9: [(9, 1, 0, 0, 0, b"alone")],
}
STATES = {7: b"state of seven", 9: None}
PROPERTIES = {
    "batchProcessingTimeMs": 5, "eventTimeWatermarkMs": -1, "timeoutConf": "NoTimeout", "hasTimedOut": False,
    "watermarkPresent": False, "updated": False, "removed": False, "timeoutTimestamp": -1,
}  # fmt: skip


def packed(rows: Rows) -> PackedFrames:
    *ints, bodies = zip(*rows, strict=True)
    return pack_columns(ints, bodies)


def unpacked(rows: pa.RecordBatch) -> Rows:
    return [tuple(row.values()) for row in rows.to_pylist()]


def sent(parts: list[list[tuple[int, Rows, bool]]]) -> io.BytesIO:
    """Return what the JVM sends: in each batch, parts of groups, and whether a part is the last one of its group."""
    batches = []
    for part in parts:
        rows = to_arrow(packed([row for _, some, _ in part for row in some]))
        described: list[dict[str, Any] | None] = []
        start = 0
        for slot, some, last in part:
            state = STATES[slot]
            described.append(
                {
                    "properties": json.dumps(PROPERTIES | {"defined": state is not None}),
                    "keyRowAsUnsafe": bytes([slot]), "object": pickle.dumps((state,)) if state else None,
                    "startOffset": start, "numRows": len(some), "isLastChunk": last,
                }
            )  # fmt: skip
            start += len(some)
        described += [None] * (rows.num_rows - len(described))
        batches.append(rows.append_column("!__state__!", pa.array(described)))
    stream = io.BytesIO()
    with pa.RecordBatchStreamWriter(stream, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    stream.seek(0)
    return stream


ONE_BATCH = [[(7, ROWS[7], True), (9, ROWS[9], True)]]
SEVERAL = [[(7, ROWS[7][:1], False)], [(7, ROWS[7][1:], True), (9, ROWS[9], True)]]


def of_spark() -> Any:
    """Return Spark's own serializer with the arguments that its worker gives it."""
    return ApplyInPandasWithStateSerializer(
        timezone="UTC", safecheck=True, assign_cols_by_name=True, prefer_int_ext_dtype=False, state_object_schema=STATE_SCHEMA,
        arrow_max_records_per_batch=10_000, prefers_large_var_types=False, int_to_decimal_coercion_enabled=False,
    )  # fmt: skip


@pytest.mark.parametrize("parts", [ONE_BATCH, SEVERAL], ids=["one batch", "several"])
def test_groups_are_those_that_spark_reads(parts: list[list[tuple[int, Rows, bool]]]) -> None:
    read = [
        (group.slot_value, group.state, [row for frames in group.frames for row in unpacked(to_arrow(frames))])
        for group in read_groups(sent(parts))
    ]
    assert read == [(slot, STATES[slot], rows) for slot, rows in ROWS.items()]
    of_spark_: list[tuple[bytes | None, Rows]] = []
    for chunks, state in of_spark().load_stream(sent(parts)):
        frame = pd.concat([pd.concat(series, axis=1) for series, _ in chunks])
        of_spark_.append((state.get[0] if state.exists else None, list(frame.itertuples(index=False, name=None))))
    assert of_spark_ == [(state, rows) for _, state, rows in read]


def read_udfs(function: OnGroups) -> Any:
    """Stand in for the function of Spark's worker that reads functions and makes their serializer."""
    ser = of_spark()
    pickle.loads(pickle.dumps(function))
    return ser


def answers(written: io.BytesIO) -> tuple[pa.Schema, Rows, list[dict[str, Any]]]:
    """Return what the JVM takes of a stream: rows and states."""
    written.seek(0)
    assert read_int(written) == SpecialLengths.START_ARROW_STREAM
    reader = pa.ipc.open_stream(written)
    rows: Rows = []
    states = []
    for batch in reader:
        assert batch.num_rows, "the JVM looks for the counts in the first row"
        counts = batch.column(0)[0].as_py()
        rows += [tuple(row.values()) for row in batch.column(1).to_pylist()[: counts["dataCount"]]]
        states += batch.column(2).to_pylist()[: counts["stateCount"]]
    for state in states:
        state["properties"] = json.loads(state["properties"])
        state["object"] = state["object"] and pickle.loads(state["object"])
    return reader.schema, rows, states


def answer(group: Group) -> Iterator[PackedFrames]:
    """Send the rows back one by one and an empty part; the slot with a state keeps it, the other one gets one."""
    yield from (packed([row]) for row in ROWS[group.slot_value])
    yield pack_columns([[]] * 5, [])
    if group.state is None:
        group.state = b"new"


def answer_of_spark(serializer: Any, stream: io.BytesIO, out: io.BytesIO) -> None:
    def results() -> Iterator[Any]:
        for chunks, state in serializer.load_stream(stream):
            frames = [pd.concat(series, axis=1) for series, _ in chunks]
            if not state.exists:
                state.update((b"new",))
            yield [((frames, state), SCHEMA)]

    serializer.dump_stream(results(), out)


@pytest.mark.parametrize("parts", [ONE_BATCH, SEVERAL], ids=["one batch", "several"])
def test_answers_are_those_that_spark_writes(parts: list[list[tuple[int, Rows, bool]]]) -> None:
    ours, theirs = io.BytesIO(), io.BytesIO()
    serializer = read_udfs(OnGroups(answer))
    assert list(serializer.load_stream(sent(parts))) == []
    serializer.dump_stream(iter(()), ours)
    answer_of_spark(of_spark(), sent(parts), theirs)
    schema, rows, states = answers(ours)
    assert (schema, rows, states) == answers(theirs)
    assert rows == [row for some in ROWS.values() for row in some]
    assert [(state["object"], state["properties"]["updated"]) for state in states] == [((STATES[7],), False), ((b"new",), True)]


def fail(group: Group) -> Iterator[PackedFrames]:
    raise RuntimeError("on purpose")


def test_nothing_is_written_before_the_first_answer() -> None:
    written = io.BytesIO()
    serializer = read_udfs(OnGroups(fail))
    serializer.load_stream(sent(ONE_BATCH))
    with pytest.raises(RuntimeError, match="on purpose"):
        serializer.dump_stream(iter(()), written)
    assert written.getvalue() == b""


def fail_after_rows(group: Group) -> Iterator[PackedFrames]:
    yield packed(ROWS[group.slot_value])
    raise RuntimeError("on purpose")


def test_an_error_follows_the_end_of_the_answers() -> None:
    written = io.BytesIO()
    serializer = read_udfs(OnGroups(fail_after_rows))
    serializer.load_stream(sent(ONE_BATCH))
    with pytest.raises(RuntimeError, match="on purpose"):
        serializer.dump_stream(iter(()), written)
    write_int(SpecialLengths.PYTHON_EXCEPTION_THROWN, written)
    assert answers(written)[1:] == (ROWS[7], [])
    assert read_int(written) == SpecialLengths.PYTHON_EXCEPTION_THROWN


def test_rows_that_are_cut_off_are_an_error() -> None:
    with pytest.raises(EngineError, match="only a part of the rows"):
        list(read_groups(sent([[(7, ROWS[7], False)]])))


def test_a_worker_that_reads_rows_by_itself_is_refused() -> None:
    with pytest.raises(EngineError, match="Spark's Python worker reads rows in a way"):
        OnGroups(answer)(None, iter(()), GroupState.__new__(GroupState))
