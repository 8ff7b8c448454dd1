"""DeltaSource and DeltaSink with tables in an object store."""

from __future__ import annotations

import itertools
import json
import logging
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.table import TableAlterer, TableMerger, TableOptimizer

from flinkish.common import Row, RowKind, Types
from flinkish.common.configuration import Configuration
from flinkish.common.errors import (
    ForeignCheckpointError,
    InvalidArgumentError,
    SinkError,
    SourceChangedError,
    SourceError,
)
from flinkish.common.files import store_settings
from flinkish.common.files.object_store import ObjectFiles
from flinkish.common.files.schemes import files_at
from flinkish.common.files.store_settings import storage_options
from flinkish.datastream.connectors import DeltaSink, DeltaSource
from flinkish.datastream.connectors.delta import table as table_module
from flinkish.datastream.connectors.delta.log import DeltaLog
from flinkish.testing import CrashPoint, JobHarness
from tests.integration.datastream.connectors.delta.test_source import EXPECTED, KINDS, TABLES, as_spark_shows
from tests.integration.engine.test_dead_letters import OPTION, emit, rows_in, sums
from tests.kit.fake_clouds import Cloud
from tests.kit.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server
from tests.unit.datastream.connectors.fakes import Checkpoint, FakeEnumeratorContext, SinkRun, SourceRun

PAIR = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])
_numbers = itertools.count()


@pytest.fixture
def root(s3: S3Server, tmp_path: Path) -> str:
    """Return the URI of a table that does not exist."""
    return f"s3://{BUCKET}/delta-{tmp_path.parent.name}-{next(_numbers)}/t"


def store(root: str) -> ObjectFiles:
    files = files_at(root)
    assert isinstance(files, ObjectFiles)
    return files


def upload(folder: Path, root: str) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store(root).put(path.relative_to(folder).as_posix(), path.read_bytes())


def bounded(root: str) -> Any:
    return DeltaSource.for_bounded_row_data(root)


def rows_of(root: str) -> list[Any]:
    return sorted(map(tuple, SourceRun(bounded(root).build(), credit=1000).values()), key=str)


def row(kind: RowKind, k: str, v: int = 0) -> Row:
    made = Row(k=k, v=v)
    made.set_row_kind(kind)
    return made


# -- reading -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["deletion_vectors", "column_mapping_by_id", "change_feed_partitioned"])
def test_versions_and_changes_of_a_table_of_spark_are_read(table: str, root: str) -> None:
    upload(TABLES / table, root)
    for version, rows in EXPECTED[table]["rows"].items():
        found = [as_spark_shows(row) for row in SourceRun(bounded(root).version_as_of(int(version)).build()).values()]
        assert sorted(found) == sorted(json.dumps(json.loads(row), separators=(",", ":"), ensure_ascii=False) for row in rows)
    changes = EXPECTED[table].get("changes")
    if changes is not None:
        source = bounded(root).read_change_feed().starting_version(int(min(changes, key=int))).build()
        kinds = sorted(str(row.get_row_kind()) for row in SourceRun(source).values())
        assert kinds == sorted(str(KINDS[json.loads(each)["_change_type"]]) for feed in changes.values() for each in feed)


def test_columns_in_row_groups_are_read_by_few_requests(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"a": range(30_000), "wide": [f"{i:0500}" for i in range(30_000)]})
    write_deltalake(root, rows, storage_options=storage_options(root))
    (size,) = pa.table(DeltaTable(root, storage_options=storage_options(root)).get_add_actions()).column("size_bytes").to_pylist()
    asked: list[int] = []
    read_range = ObjectFiles.read_range

    def counted(self: ObjectFiles, inside: str, start: int, end: int, *rest: Any) -> bytes:
        asked.append(end - start)
        return read_range(self, inside, start, end, *rest)

    monkeypatch.setattr(ObjectFiles, "read_range", counted)
    source = bounded(root).column_names("a").build()
    assert len(SourceRun(source, credit=10_000).values()) == 30_000
    assert len(asked) <= 4
    assert sum(asked) < size / 2


def test_an_old_list_hides_no_version_from_a_source(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def append(number: int) -> None:
        write_deltalake(root, pa.table({"v": [number]}), mode="append", storage_options=storage_options(root))

    append(0)
    append(1)
    old = {"_delta_log": store(root).names("_delta_log")}
    real = ObjectFiles.names

    def stale(self: ObjectFiles, inside: str = "") -> list[str]:
        return old[inside] if inside in old else real(self, inside)

    monkeypatch.setattr(ObjectFiles, "names", stale)
    append(2)
    assert DeltaLog(root).newest() == 2
    assert rows_of(root) == [(0,), (1,), (2,)]
    context = FakeEnumeratorContext()
    enumerator = DeltaSource.for_continuous_row_data(root).build().create_enumerator(context)
    enumerator.start()
    append(3)
    context.run_calls()
    enumerator.handle_split_request(0)
    assert {split.version for split in context.assigned[0]} == {2, 3}
    assert enumerator.snapshot_state(1).version == 4
    # Not even a list from before the table, or one of versions that were cleaned up since.
    old["_delta_log"] = []
    assert DeltaLog(root).newest() == 3
    DeltaTable(root, storage_options=storage_options(root)).create_checkpoint()
    for version in range(3):
        store(root).remove(f"_delta_log/{version:020}.json")
    for names in ([f"{1:020}.json"], []):
        old["_delta_log"] = names
        assert DeltaLog(root).newest() == 3


def test_a_file_that_vacuum_removed_ends_the_job_even_while_it_is_read(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"v": range(10)})
    write_deltalake(root, rows, storage_options=storage_options(root))
    source = bounded(root).build()
    (path,) = [name for name in store(root).names() if name.endswith(".parquet")]
    content, _ = store(root).read_with_time(path)
    read_range = ObjectFiles.read_range

    def removed(self: ObjectFiles, inside: str, start: int, end: int, *rest: Any) -> bytes:
        if end < len(content) - 8:  # not the footer
            self.remove(inside)
        return read_range(self, inside, start, end, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectFiles, "read_range", removed)
        with pytest.raises(SourceChangedError, match=r"s3://.*\.parquet is gone"):
            SourceRun(source).values()
    with pytest.raises(SourceChangedError, match=r"s3://.*\.parquet is gone"):
        SourceRun(source).values()


def test_a_split_of_a_file_elsewhere_is_refused(root: str) -> None:
    write_deltalake(root, pa.table({"v": [1]}), storage_options=storage_options(root))
    source = bounded(root).build()
    context = FakeEnumeratorContext()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    enumerator.handle_split_request(0)
    (split,) = context.assigned[0]
    source.check_restored([split], None, trusted=False)
    for path in ("../other/x.parquet", "/x.parquet", "a/../../x.parquet", "a//x.parquet"):
        object.__setattr__(split, "path", path)
        with pytest.raises(ForeignCheckpointError, match="no file of the Delta table s3://"):
            source.check_restored([split], None, trusted=False)


# -- writing -----------------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for kill -9."""


#: Everything that leaves a trace in the store.
EFFECTS: list[tuple[Any, str]] = [
    (ObjectFiles, "put"),
    (ObjectFiles, "remove"),
    (DeltaTable, "create"),
    (DeltaTable, "create_write_transaction"),
    (TableMerger, "execute"),
    (TableOptimizer, "compact"),
    (TableAlterer, "add_columns"),
]


def kill_after(patch: pytest.MonkeyPatch, nth: int) -> list[str]:
    """Have the process killed after the nth effect; returns the effects up to there."""
    seen: list[str] = []

    def then_killed(real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            result = real(*arguments, **options)
            seen.append(name)
            if len(seen) == nth:
                raise Killed
            return result

        return call

    for owner, name in EFFECTS:
        wrapped = then_killed(getattr(owner, name), name)
        patch.setattr(owner, name, staticmethod(wrapped) if name == "create" else wrapped)
    return seen


def run_with_restarts(sink: DeltaSink, batches: list[list[Row]]) -> int:
    """Run checkpoints, and continue from the last one that was complete whenever the process is killed."""
    run, last, kills = SinkRun(sink, PAIR), None, 0
    while last is None or last.id < len(batches):
        try:
            done: Checkpoint = run.checkpoint(batches[0 if last is None else last.id], commit=False)
            last = done
            run.commit(done)
        except (Killed, SinkError):
            kills += 1
            run = SinkRun(sink, PAIR)
            if last is not None:
                run.restore(last)
                run.next_checkpoint = last.id + 1
    return kills


class Faults:
    """Stands between the clients and the server, and drops one request, or the answer to it."""

    def __init__(self, s3: S3Server) -> None:
        self.seen: list[str] = []
        self.nth = 0
        self.happens = False
        faults = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer is one packet

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                drop = False
                if self.command == "PUT":
                    faults.seen.append(self.path)
                    drop = len(faults.seen) == faults.nth
                if not drop or faults.happens:
                    server = HTTPConnection("127.0.0.1", s3.port)
                    server.request(self.command, self.path, body, dict(self.headers))
                    answer = server.getresponse()
                    content = answer.read()
                    server.close()
                if drop:
                    self.close_connection = True
                    return
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Faults:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.parametrize("happens", [False, True])
def test_rows_come_once_whatever_request_or_answer_is_lost(happens: bool, root: str, s3: S3Server) -> None:
    with Faults(s3) as faults:
        faults.happens = happens
        store_settings.use(Configuration.from_dict({**s3.settings, "s3.endpoint": faults.endpoint}))
        while True:
            faults.nth, faults.seen = faults.nth + 1, []
            table = f"{root}{faults.nth}"
            run_with_restarts(DeltaSink(table, partition_by=["k"]), [[Row(k="a/ü %2F", v=1)], [Row(k=None, v=2)]])
            assert rows_of(table) == [("a/ü %2F", 1), (None, 2)], faults.seen
            # The first three are a data file, the table, and a commit; clients repeat a request that had no effect.
            if len(faults.seen) < faults.nth or (faults.nth == 3 and not happens):
                break
    if not happens:
        return
    assert [path.rpartition("/")[2] for path in faults.seen if "_delta_log" in path] == [f"{n:020}.json" for n in range(3)]
    assert len(faults.seen) == 5


APPENDED = [[Row(k=f"{n}", v=i) for n in range(2)] for i in range(2)]
MERGED = [
    [row(RowKind.INSERT, "a", 1), row(RowKind.INSERT, "b", 1)],
    [row(RowKind.UPDATE_AFTER, "a", 2), row(RowKind.DELETE, "b"), row(RowKind.INSERT, "c", 1)],
]


@pytest.mark.parametrize("merging", [False, True])
def test_rows_come_once_wherever_the_process_is_killed(merging: bool, root: str) -> None:
    for nth in itertools.count(1):
        table = f"{root}{nth}"
        if merging:
            sink = DeltaSink(table, upsert_keys=["k"], compact_every=2)
            batches, wanted = MERGED, [("a", 2), ("c", 1)]
        else:
            columns = Schema.from_arrow(pa.schema({"k": pa.string()}))
            DeltaTable.create(table, columns, storage_options=storage_options(table))
            sink = DeltaSink(table, add_columns=True)
            batches, wanted = APPENDED, sorted((row.k, row.v) for batch in APPENDED for row in batch)
        with pytest.MonkeyPatch.context() as patch:
            seen = kill_after(patch, nth)
            kills = run_with_restarts(sink, batches)
        assert rows_of(table) == wanted, (nth, seen)
        if nth > 1:  # staged files of an attempt without any checkpoint remain
            assert not [name for name in store(table).files_below("") if name.startswith("_flinkish/")]
        if not kills:
            break
    effects = {"create", "put", "execute", "remove", "compact"} if merging else {"put", "add_columns", "create_write_transaction"}
    assert set(seen) == effects
    assert nth > 5


def test_rows_go_into_tables_that_deltalake_has_to_write(root: str) -> None:
    upload(TABLES / "column_mapping_by_id", root)
    before = len(rows_of(root))
    row_type = Types.ROW_NAMED(["id", "label"], [Types.INT(), Types.STRING()])
    run = SinkRun(DeltaSink(root), row_type).after([Row(id=100, label="new")])
    assert len(rows_of(root)) == before + 1
    assert (100, "new") in rows_of(root)
    run = SinkRun(DeltaSink(root, overwrite=True), row_type)
    run.lineage = "other"
    run.checkpoint([Row(id=1, label="only")])
    assert rows_of(root) == [(1, "only")]


def test_the_log_is_summarized_so_that_commits_read_few_entries(root: str) -> None:
    run = SinkRun(DeltaSink(root), PAIR).after([Row(k="a", v=1)])
    for _ in range(7):
        write_deltalake(root, pa.table({"k": ["b"], "v": [2]}), mode="append", storage_options=storage_options(root))
    run.checkpoint([Row(k="c", v=3)])
    assert DeltaLog(root).summarized() == 0
    last = run.checkpoint([Row(k="d", v=4)])
    assert (DeltaLog(root).newest(), DeltaLog(root).summarized()) == (10, 10)
    run.restore(last).checkpoint([Row(k="e", v=5)])
    assert len(rows_of(root)) == 11


def test_old_lists_hide_no_commit_from_a_sink(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SinkRun(DeltaSink(root), PAIR).after([Row(k="a", v=1)])
    last = run.checkpoint([Row(k="b", v=2)])
    left = [2]

    class Old(DeltaTable):
        """Opens the version that an old list ends with."""

        def __init__(self, path: str, version: int | None = None, **options: Any) -> None:
            left[0] -= 1
            super().__init__(path, version=1 if left[0] >= 0 else version, **options)

    monkeypatch.setattr(table_module, "DeltaTable", Old)
    monkeypatch.setattr(table_module, "_WAITS", (0.0, 0.0, 0.0))
    run.restore(last)  # recognizes both commits
    assert left[0] < 0
    assert rows_of(root) == [("a", 1), ("b", 2)]
    left[0] = 1_000
    with pytest.raises(SinkError, match="list of its log ends with version 1, and later versions exist"):
        run.checkpoint([Row(k="c", v=3)])


@pytest.mark.parametrize("scheme", ["gs", "abfss"])
def test_tables_of_other_stores_are_written_and_read_and_an_unlisted_commit_is_not_repeated(
    scheme: str, clouds: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = {"gs": "gs://delta/t", "abfss": "abfss://delta@mine.dfs.core.windows.net/a/t"}[scheme]
    try:
        sink = DeltaSink(root, upsert_keys=["k"])
        sink.validate(PAIR)
        run = SinkRun(sink, PAIR).after([Row(k="a", v=1)])
        last = run.checkpoint([Row(k="a", v=2), Row(k="b", v=1)])
        assert rows_of(root) == [("a", 2), ("b", 1)]
        versions = DeltaLog(root).newest()
        mine = [name for name in clouds.objects if name.startswith("delta/")]
        (entry,) = [name for name in mine if name.endswith(f"{versions:020}.json")]
        clouds.unlisted.add(entry)
        monkeypatch.setattr(table_module, "_WAITS", (0.0, 0.0))
        with pytest.raises(SinkError, match=f"list of its log ends with version {versions - 1}, and later versions exist"):
            run.restore(last)
        assert rows_of(root) == [("a", 2), ("b", 1)]
        clouds.unlisted.clear()
        run.restore(last)
        assert DeltaLog(root).newest() == versions
        run.checkpoint([row(RowKind.DELETE, "a")])
        assert rows_of(root) == [("b", 1)]
    finally:
        clouds.unlisted.clear()
        for name in [name for name in clouds.objects if name.startswith("delta/")]:
            del clouds.objects[name]


@pytest.mark.parametrize("path", ["s3://", "s3://bucket", "s3://bucket/a%20b", "s3://bucket/../a", "s3://AKID:hush@bucket/a"])
def test_names_that_clients_read_differently_are_refused(path: str, s3: S3Server) -> None:
    for make in (DeltaSink, DeltaSource.for_bounded_row_data, DeltaSource.for_continuous_row_data):
        if path == "s3://bucket":
            make(path)  # a table may be a whole bucket
            continue
        with pytest.raises(InvalidArgumentError, match="expected s3://bucket/path") as error:
            make(path)
        assert "hush" not in str(error.value)


def test_a_table_in_the_folder_of_another_one_is_refused(root: str) -> None:
    write_deltalake(root, pa.table({"v": [1]}), storage_options=storage_options(root))
    with pytest.raises(SinkError, match="in the folder of the Delta table s3://"):
        DeltaSink(f"{root}/inner/table").validate(PAIR)


def test_errors_of_a_store_are_one_line_without_credentials(s3: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sink, source = DeltaSink("s3://no-bucket/t"), DeltaSource.for_bounded_row_data("s3://no-bucket/t")
    with pytest.raises(SourceError, match=r"s3://no-bucket/t: .*NoSuchBucket") as of_source:
        source.build()
    with pytest.raises(SinkError, match=r"s3://no-bucket/t: .*NoSuchBucket") as of_sink:
        sink.validate(PAIR)
    answer = DeltaError(
        f"Generic S3 error\n\x1b[31m↳\x1b[0m Error performing PUT http://host/t?sig={SECRET_KEY}&x=1 - 403 Forbidden\n"
        f"<?xml version='1.0'?><Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId></Error>"
    )
    refused = table_module.sink_error("DeltaSink cannot commit", answer)
    assert str(refused) == (
        "DeltaSink cannot commit: Generic S3 error: Error performing PUT http://host/t - 403 Forbidden (SignatureDoesNotMatch)"
    )
    assert refused.__cause__ is None
    shown = caplog.text + "".join(
        str(each) + repr(each) for each in (of_source.value, of_sink.value, refused, sink, source, vars(sink), vars(source))
    )
    assert "\n" not in str(of_sink.value).partition("\nHint")[0]
    assert SECRET_KEY not in shown
    assert ACCESS_KEY not in shown


def test_dead_letters_are_kept_once_in_an_object_store(root: str, s3: S3Server) -> None:
    with JobHarness(sums, settings={OPTION: root, **s3.settings}) as job:
        job.source("pairs").watermark(29)
        emit(job, 1)
        job.crash(CrashPoint.AFTER_SINK_COMMIT)
        emit(job, 2)
        job.settle()
        job._settings.pop(OPTION)
        job.crash(CrashPoint.BEFORE_SINK_COMMIT)
    assert rows_in(DeltaTable(root, storage_options=storage_options(root)), "position") == [1, 2, None, None]
