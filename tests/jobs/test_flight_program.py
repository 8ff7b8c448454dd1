"""flight_delays.py as a program: arguments, input and output that are wrong, what it prints, kill and resume, spark-submit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import flight_delays as job
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.jobs.conftest import JOBS, refusal
from tests.jobs.pandas_flights import expected_tables, rows, written_table

SCRIPT = str(JOBS / "flight_delays.py")
#: The program, and its arguments for the local engine.
LOCAL = (job, "--engine", "local")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--standing-days", "0"], "'0' is not a whole number of at least 1"),
        (["--parallelism", "two"], "'two' is not a whole number"),
        (["--checkpoint-interval", "-5"], "--checkpoint-interval: .*"),
        (["--engine", "flink"], "invalid choice: 'flink'"),
        (["--inptu", "x"], "unrecognized arguments: --inptu x"),
        (["-Dparallelism"], "'parallelism' is not of the form KEY=VALUE"),
        (["-Dexecution.checkpointing.interval=soon"], "execution.checkpointing.interval.*expected a duration"),
        (["-D", "execution.checkpointing.interval=soon"], "execution.checkpointing.interval.*expected a duration"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], what: str
) -> None:
    assert re.search(what, refusal(monkeypatch, capsys, *LOCAL, *arguments))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "there is no such file"),
        (b"", "is empty; expected a CSV with a header"),
        (b"a,b\n1,2\n", "not a CSV of flights"),
        (b"PAR1\x00\xff\xfe\x15\x04", "not a CSV of flights"),
        (b"x" * 300_000, "not a CSV of flights"),
        (b"flight,carrier,origin,dest,dep_delay,arr_delay,time_hour,minute\n", "lacks the column tailnum"),
        (b"flight,carrier,origin,dest,dep_delay,arr_delay\n", "lacks the columns tailnum, time_hour, minute"),
    ],
)
def test_a_file_that_holds_no_flights_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None, what: str
) -> None:
    path = tmp_path / "flights.csv"
    if content is not None:
        path.write_bytes(content)
    assert what in refusal(monkeypatch, capsys, *LOCAL, "--input", path, "--output", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_holds_no_weather_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, clean_sample: Path
) -> None:
    path = tmp_path / "weather.csv"
    for content, what in (
        (None, "there is no such file"),
        ("a,b\n", "--weather .* is not a CSV of weather"),
        ("origin,time_hour,visib,precip\n", "lacks the column wind_speed"),
    ):
        if content is not None:
            path.write_text(content)
        message = refusal(monkeypatch, capsys, *LOCAL, "--input", clean_sample, "--weather", path, "--output", tmp_path / "out")
        assert re.search(what, message)
    assert not (tmp_path / "out").exists()


def test_a_folder_or_a_damaged_archive_as_input_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "is a folder" in refusal(monkeypatch, capsys, *LOCAL, "--input", tmp_path)
    (tmp_path / "flights.csv.gz").write_bytes(b"no archive")
    assert "cannot be read" in refusal(monkeypatch, capsys, *LOCAL, "--input", tmp_path / "flights.csv.gz")


def test_output_that_is_a_file_or_cannot_be_made_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, clean_sample: Path
) -> None:
    (tmp_path / "file").write_text("")
    for output, what in (
        (tmp_path / "file", "is a file"),
        (tmp_path / "file" / "out", "not writable"),
        ("/proc/out", "not writ"),
    ):
        assert what in refusal(monkeypatch, capsys, *LOCAL, "--input", clean_sample, "--output", output)


def test_folders_and_tables_of_others_are_not_touched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, clean_sample: Path
) -> None:
    folder = tmp_path / "aircraft_events"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    assert "is in the way" in refusal(monkeypatch, capsys, *LOCAL, "--input", clean_sample, "--output", tmp_path)
    assert (folder / "notes.txt").read_text() == "mine"
    (folder / "notes.txt").rename(tmp_path / "notes.txt")

    import pyarrow as pa

    write_deltalake(tmp_path / "carrier_statistics", pa.table({"month": ["2013-01"]}))
    assert "has not made" in refusal(monkeypatch, capsys, *LOCAL, "--input", clean_sample, "--output", tmp_path)
    assert DeltaTable(tmp_path / "carrier_statistics").version() == 0


def test_what_a_killed_run_left_in_a_table_s_folder_is_not_in_the_way(tmp_path: Path) -> None:
    from flight_files import check_output

    (tmp_path / "aircraft_events").mkdir()
    (tmp_path / "aircraft_events" / "part-00000-ab-c000.snappy.parquet").write_bytes(b"")
    check_output(tmp_path, job.TABLES)


# -- as a process ------------------------------------------------------------------------------------------------------------


def run(*arguments: str | Path, fault: str | None = None, command: tuple[str, ...] = (sys.executable,)) -> tuple[int, str, str]:
    """Run the script in a process of its own; return code, output and errors."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **({"FLINKISH_FAULT": fault} if fault else {})}
    environment.pop("COLUMNS", None)
    result = subprocess.run(
        [*command, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=240, env=environment, check=False
    )
    return result.returncode, result.stdout, result.stderr


def assert_expected(output: Path, source: Path, weather: Path) -> None:
    for name, expected in expected_tables(source, weather).items():
        written = written_table(output / name)
        assert rows(written) == rows(expected[list(written.columns)]), name


def test_it_prints_progress_and_tables_that_fit_80_columns(clean_sample: Path, weather: Path, tmp_path: Path) -> None:
    code, printed, errors = run("--engine", "local", "--input", clean_sample, "--weather", weather, "--output", tmp_path / "out")
    assert (code, errors) == (0, "")
    lines = printed.splitlines()
    assert max(len(line) for line in lines if not line.startswith("Tables: ")) <= 80, printed
    assert "…" not in printed
    assert lines[0] == "Flight delays: starting"
    assert lines[1].split() == ["time", "event", "time", "read", "too", "late", "cancelled", "checkpoints", "records/s"]
    read = len(clean_sample.read_text().splitlines()) - 1
    last = [line for line in lines if re.match(r" +\d+:\d\d ", line)][-1]
    assert f" {read:,} " in last
    titles = ("Worst chains", "Carriers by airport", "Worst three hours", "Delays by weather", "Busiest hours", "Counts")
    for title in titles:
        assert title in printed
    assert re.search(rf"flights read +│ +{read:,} │", printed)
    assert re.search(r"checkpoints +│ +[1-9]", printed)
    assert re.search(r"records/s.* +│ +[1-9]", printed)
    assert printed.rstrip().endswith(f"Tables: {tmp_path / 'out'}")


def test_an_input_that_breaks_off_ends_the_program_with_lines_instead_of_stack_traces(clean_sample: Path, tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "flights.csv.gz"
    packed.write_bytes(gzip.compress(clean_sample.read_bytes())[:-2_000])
    restarts = ("-Drestart-strategy.type=fixed-delay", "-Drestart-strategy.fixed-delay.delay=10 ms")
    code, _, errors = run("--engine", "local", "--input", packed, "--output", tmp_path / "out", *restarts)
    assert code == 1
    restarted, final = errors.splitlines()
    assert "cut short; It starts again in 10 ms." in restarted
    assert final.startswith("flight_delays.py: ")
    assert "cut short" in final


def test_a_killed_run_with_a_name_goes_on_and_leaves_the_tables_of_one_run(
    clean_sample: Path, weather: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    named = (
        *("--engine", "local", "--input", clean_sample, "--weather", weather, "--output", output),
        *("--checkpoint-interval", "50"),
        "-Dhigh-availability.cluster-id=flights",
        f"-Dexecution.checkpointing.dir={tmp_path / 'checkpoints'}",
        f"-Dsecurity.checkpoint.hmac-key-file={tmp_path / 'key'}",
        "-Dexecution.epoch.max-records=600",
    )
    # After a checkpoint whose rows are in the tables, and before those of a later one are.
    code, _, errors = run(*named, fault="P11:kill9:nth=4")
    assert code == -9, errors
    killed = {name: len(written_table(output / name)) for name in job.TABLES}
    code, _, errors = run(*named)
    assert (code, errors) == (0, "")
    assert_expected(output, clean_sample, weather)
    assert all(0 < killed[name] <= len(written_table(output / name)) for name in ("aircraft_events", "set_aside_flights"))
    assert killed["aircraft_events"] < len(written_table(output / "aircraft_events"))


@pytest.mark.spark
def test_spark_submit_runs_it_with_the_modules_beside_it(clean_sample: Path, weather: Path, tmp_path: Path) -> None:
    submit = (str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2,4]")
    code, printed, errors = run("--input", clean_sample, "--weather", weather, "--output", tmp_path / "out", command=submit)
    assert code == 0, printed + errors
    assert "Worst chains of knock-on delays" in printed
    assert "Traceback" not in errors
    assert_expected(tmp_path / "out", clean_sample, weather)
