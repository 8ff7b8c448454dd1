"""FileSource on object stores: lists that lag behind, reads by ranges, names, formats."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkish.common.errors import ForeignCheckpointError, InvalidArgumentError, SourceError
from flinkish.common.files.schemes import files_at
from flinkish.common.time import Duration
from flinkish.common.typeinfo import Types
from flinkish.datastream.connectors.file_system import FileEnumeratorProvider, FileSource, StreamFormat
from flinkish.datastream.connectors.file_system.paths import objects_below, open_ahead
from flinkish.datastream.connectors.file_system.splits import FileEnumeratorState, FileSourceSplit
from flinkish.datastream.formats.parquet import ParquetColumnarRowInputFormat
from tests.kit.fake_clouds import Cloud
from tests.kit.s3_server import S3Server
from tests.unit.datastream.connectors.fakes import FakeEnumeratorContext, SourceRun, stored
from tests.unit.datastream.connectors.file_system.test_file_source import text_source


@pytest.fixture
def bucket(clouds: Cloud) -> Iterator[Cloud]:
    """The stand-in for clouds, without objects in `gs://in`."""
    yield clouds
    for name in [name for name in clouds.objects if name.startswith("in/")]:
        del clouds.objects[name]
    clouds.unlisted.clear()
    clouds.ghosts.clear()


def put(cloud: Cloud, key: str, content: bytes) -> None:
    cloud.objects[f"in/{key}"] = (content, next(cloud.numbers))


def requested(cloud: Cloud, begin: int) -> list[str]:
    return [asked.get("range", "") for method, _, asked in cloud.requests[begin:] if method == "GET" and "range" in asked]


def test_objects_are_read_in_the_order_of_their_paths_and_hidden_and_empty_ones_left_out(bucket: Cloud) -> None:
    for key in ("d/b/2", "d/a", "d/b/1", "d/b-x", "d/.hidden", "d/_SUCCESS", "d/_tmp/x", "d/b", "e"):
        put(bucket, key, f"{key}\n".encode())
    put(bucket, "d/", b"")  # as consoles mark folders
    put(bucket, "d/empty/", b"")
    assert SourceRun(text_source("gs://in/d")).values() == ["d/a", "d/b", "d/b/1", "d/b/2", "d/b-x"]
    assert SourceRun(text_source("gs://in/d/b/1", "gs://in/d/b", "gs://in/e")).values() == ["d/b/1", "d/b/2", "e"]


@pytest.mark.parametrize("name", ["a b", "100%", "a%20b", "a#b?c", "ü", "x=1*~[y]", "\\", "a.gz.txt"])
def test_any_name_is_read_as_it_is(bucket: Cloud, name: str) -> None:
    put(bucket, f"names/{name}/{name}", b"right")
    assert SourceRun(text_source(f"gs://in/names/{name}")).values() == ["right"]


@pytest.mark.parametrize("block_size", [None, 7, 64])
def test_every_line_is_read_once_however_the_object_is_cut_and_the_readers_restarted(
    bucket: Cloud, block_size: int | None
) -> None:
    lines = [f"line {i} " + "ü" * (i % 5) for i in range(30)]
    put(bucket, "lines/a", "\n".join(lines).encode())
    source = text_source("gs://in/lines", block_size=block_size)
    assert sorted(SourceRun(source, 2, credit=4, restart_readers=True).values()) == sorted(lines)


def test_compressed_objects_are_decompressed(bucket: Cloud) -> None:
    content = "".join(f"{i}\n" for i in range(5_000)).encode()
    zstd = pa.BufferOutputStream()
    with pa.CompressedOutputStream(zstd, "zstd") as stream:
        stream.write(content)
    packed = {"a.gz": gzip.compress(content), "b.bz2": bz2.compress(content), "c.zst": zstd.getvalue().to_pybytes()}
    for name, data in packed.items():
        put(bucket, f"packed/{name}", data)
        values = SourceRun(text_source(f"gs://in/packed/{name}"), credit=1_000, restart_readers=True).values()
        assert values == [str(i) for i in range(5_000)], name


def test_a_parquet_object_is_cut_at_row_groups_and_only_its_columns_are_requested(bucket: Cloud) -> None:
    table = pa.table({"a": list(range(20_000)), "b": ["x" * 100 + str(i) for i in range(20_000)]})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=5_000, compression="none", use_dictionary=False)
    put(bucket, "table/t.parquet", buffer.getvalue())
    format_ = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["a"], [Types.LONG()]), batch_size=1_000)
    source = (
        FileSource.for_bulk_file_format(format_, "gs://in/table")
        .set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator(1))
        .build()
    )
    begin = len(bucket.requests)
    run = SourceRun(source, 2, credit=5_000)
    assert sorted(row[0] for row in run.values()) == list(range(20_000))
    spans = [tuple(map(int, each.removeprefix("bytes=").split("-"))) for each in requested(bucket, begin)]
    assert sum(last - first + 1 for first, last in spans) < len(buffer.getvalue()) / 2
    assert len(spans) < 30


def test_csv_and_json_objects_have_the_records_of_files(bucket: Cloud) -> None:
    put(bucket, "json/a", b'{"a": 1}\n{"a": 2}\n')
    source = FileSource.for_record_stream_format(StreamFormat.json_lines_format(), "gs://in/json").build()
    assert SourceRun(source).values() == [{"a": 1}, {"a": 2}]
    put(bucket, "csv/a", b"1,x\n2,y\n")
    columns = Types.ROW_NAMED(["n", "t"], [Types.INT(), Types.STRING()])
    source = FileSource.for_record_stream_format(StreamFormat.csv_format(columns, header=False), "gs://in/csv").build()
    assert [tuple(row) for row in SourceRun(source).values()] == [(1, "x"), (2, "y")]


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(bucket: Cloud) -> None:
    put(bucket, "changed", b"old " * 3_000_000)
    with open_ahead("gs://in/changed") as file:
        assert file.read(4) == b"old "
        put(bucket, "changed", b"new " * 3_000_000)
        with pytest.raises(OSError, match="it was replaced while it was read"):
            file.read()
    put(bucket, "gone/a", b"1\n2\n")
    context = FakeEnumeratorContext()
    source = text_source("gs://in/gone")
    enumerator = source.create_enumerator(context)
    enumerator.start()
    del bucket.objects["in/gone/a"]
    enumerator.handle_split_request(0)
    with pytest.raises(SourceError, match=r"gs://in/gone/a is gone"):
        source._settings.format.open(context.assigned[0][0], None)  # type: ignore[arg-type]


def test_places_that_cannot_be_read_are_named(bucket: Cloud) -> None:
    with pytest.raises(SourceError, match=r"no object is at gs://in/nothing or below it"):
        text_source("gs://in/nothing").validate()
    put(bucket, "odd/a//b", b"1")
    with pytest.raises(SourceError, match=r"cannot read gs://in/odd: .*empty path segment"):
        text_source("gs://in/odd").validate()
    for text in ("gs:///a", "gs://in/a//b", "gs://in/../b", "gs://me:hush@in/a", "abfss://data/a"):
        with pytest.raises(InvalidArgumentError, match=r"the path of FileSource '(gs|abfss)://.*expected") as error:
            text_source(text)
        assert "hush" not in str(error.value)


def test_delta_tables_are_no_folders_of_objects(bucket: Cloud) -> None:
    put(bucket, "tables/t/_delta_log/0.json", b"{}")
    put(bucket, "tables/t/x/part.parquet", b"x")
    for path in ("gs://in/tables", "gs://in/tables/t", "gs://in/tables/t/x"):
        with pytest.raises(SourceError, match=r"Delta table gs://in/tables/t|gs://in/tables/t is a Delta table"):
            text_source(path).validate()


def monitored(path: str) -> FileSource:
    return (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), path)
        .monitor_continuously(Duration.of_seconds(1))
        .build()
    )


def names(splits: list[FileSourceSplit]) -> list[str]:
    return [Path(split.path).name for split in splits]


def test_discovery_by_lists_that_lag_behind_loses_and_doubles_nothing(bucket: Cloud) -> None:
    source = monitored("gs://in/live")
    source.validate()  # nothing is there yet
    context = FakeEnumeratorContext()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    for number in range(6):
        put(bucket, f"live/{number}", b"x\n")
    bucket.unlisted |= {f"in/live/{number}" for number in (0, 2, 4)}  # the older ones are shown later than the newer ones
    context.run_calls()
    enumerator.handle_split_request(0)
    assert names(context.assigned.pop(0)) == ["1", "3", "5"]
    checkpoint = stored(enumerator.snapshot_state(1), FileEnumeratorState)
    bucket.unlisted -= {"in/live/2"}
    bucket.unlisted |= {"in/live/3"}  # the next answer is even older in part
    restored = source.restore_enumerator(context := FakeEnumeratorContext(), checkpoint)
    restored.start()
    context.run_calls()
    bucket.unlisted.clear()
    context.run_calls()
    context.run_calls()
    restored.handle_split_request(0)
    assert names(context.assigned.pop(0)) == ["2", "0", "4"]
    for number in range(6):  # what was read is archived: the path itself disappears, and comes back
        del bucket.objects[f"in/live/{number}"]
        bucket.ghosts.add(f"in/live/{number}")
    context.run_calls()
    bucket.ghosts.clear()
    context.run_calls()
    put(bucket, "live/6", b"x\n")
    context.run_calls()
    restored.handle_split_request(0)
    assert names(context.assigned.pop(0)) == ["6"]


def test_a_split_of_another_place_in_a_checkpoint_is_refused(bucket: Cloud) -> None:
    put(bucket, "mine/a", b"x\n")
    source = text_source("gs://in/mine")
    split = source._settings.format.whole("gs://in/mine/a", 2)
    source.check_restored([split], None, trusted=False)
    for path in ("gs://in/mine/../other/a", "gs://other/mine/a", "/etc/passwd", "gs://in/mine/_x/a", "gs://in/mine//a"):
        with pytest.raises(ForeignCheckpointError, match="which is not below gs://in/mine"):
            source.check_restored([source._settings.format.whole(path, 2)], None, trusted=False)


def test_s3_is_read_with_the_names_of_hadoop(s3: S3Server) -> None:
    files = files_at("s3://bucket/lines")
    files.make_root(sync=False)
    with files.create("a") as file:
        file.write(b"one\ntwo\n")
    assert objects_below("s3://bucket/lines") == {"s3://bucket/lines/a": 8}
    assert SourceRun(text_source("s3a://bucket/lines", "s3://bucket/lines/a", block_size=3)).values() == ["one", "two"]
    files.remove_all()
