"""The job scripts as modules, and a sample of their data."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.own_process import set_arguments

ROOT = Path(__file__).resolve().parents[2]
JOBS = ROOT / "jobs"
# As python does for a script: what lies beside it can be imported.
sys.path.insert(0, str(JOBS))

#: Every so many-th aircraft is in the sample, with all its flights of the year.
_EVERY = 80
#: All flights of this day too: one left 21 hours late, so that event time was far ahead of those that came after it.
_BAD_DAY = "2013-01-09T"
#: Lines that are no flights; the last one is no text.
NO_FLIGHTS = (
    b"no flight at all",
    b"2013,1,1,1,2,3",
    b'2013,6,1,NA,600,x,NA,815,NA,B6,1,N1,"JFK",BOS,NA,187,6,0,2013-06-01T10:00:00Z',
    b"2013,7,1,\xff\xfe",
)


def main(monkeypatch: pytest.MonkeyPatch, script: Any, *arguments: str | Path) -> None:
    """Run a program in this process."""
    set_arguments(monkeypatch, script.__file__, *arguments)
    script.main()


def refusal(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: Any,
    *arguments: str | Path,
    hint: bool = False,
) -> str:
    """Run a program with what it must refuse; return its one line, and one with a hint if there must be one."""
    with pytest.raises(SystemExit) as ended:
        main(monkeypatch, script, *arguments)
    code = ended.value.code
    message = code if isinstance(code, str) else capsys.readouterr().err
    assert message.startswith(f"{Path(script.__file__).name}: ")
    assert len(message.strip().splitlines()) == 1 + hint
    return message


@pytest.fixture(scope="session")
def flights() -> Path:
    """All flights of the year, as `make run` reads them."""
    from flight_files import packaged_flights

    return packaged_flights(ROOT / ".cache")


@pytest.fixture(scope="session")
def clean_sample(flights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All flights of some aircraft, those of a bad day, and cancelled ones that never got an aircraft; about 6,000."""
    header, *lines = flights.read_text(encoding="utf-8").splitlines()
    column = header.split(",").index
    aircraft = sorted({fields[column("tailnum")] for fields in csv.reader(lines)} - {"NA"})
    chosen = set(aircraft[::_EVERY])
    sample = [
        line
        for line, fields in zip(lines, csv.reader(lines), strict=True)
        if fields[column("tailnum")] in chosen
        or fields[column("time_hour")].startswith(_BAD_DAY)
        or (fields[column("tailnum")] == "NA" and fields[column("day")] == "9")
    ]
    path = tmp_path_factory.mktemp("sample") / "clean.csv"
    path.write_text("\n".join([header, *sample]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weather of the first three days of each month, in the order of the package: airport after airport."""
    from flight_files import packaged_weather

    header, *lines = packaged_weather(ROOT / ".cache").read_text(encoding="utf-8").splitlines()
    day = header.split(",").index("day")
    path = tmp_path_factory.mktemp("weather") / "weather.csv"
    chosen = [line for line in lines if int(line.split(",")[day]) <= 3]
    path.write_text("\n".join([header, *chosen]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def sample(clean_sample: Path) -> Path:
    """The sample with lines among it that are no flights."""
    lines = clean_sample.read_bytes().splitlines()
    for place, line in zip((5, 600, 1_500, 3_000), NO_FLIGHTS, strict=True):
        lines.insert(place, line)
    path = clean_sample.with_name("sample.csv")
    path.write_bytes(b"\n".join(lines))
    return path
