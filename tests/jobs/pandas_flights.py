"""What flight_delays.py must come to, computed another way: with pandas, over the whole file at once.

To check a run over all data: `python -m tests.jobs.pandas_flights FLIGHTS.csv WEATHER.csv OUTPUT`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from deltalake import DeltaTable

_HOURS = pd.Timedelta(hours=12)
_DAY = pd.Timedelta(days=1)
_HOUR = pd.Timedelta(hours=1)
#: How long a window of three hours is corrected, and when days begin.
_LATENESS = pd.Timedelta(hours=3)
_MIDNIGHT = pd.Timedelta(hours=5)


def expected_tables(path: Path, weather: Path, standing_days: int = 30) -> dict[str, pd.DataFrame]:
    """Return the tables for files of flights and of weather without malformed lines."""
    flights = pd.read_csv(path, keep_default_na=False, na_values={"dep_delay": "NA", "arr_delay": "NA", "tailnum": "NA"})
    flights["scheduled"] = pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(flights["minute"], unit="min")
    flights["departure"] = flights["scheduled"] + pd.to_timedelta(flights["dep_delay"], unit="min")
    cancelled = flights["dep_delay"].isna()
    departed = flights[~cancelled].copy()
    # The watermark a flight meets is that of the flights before it in the file.
    latest = departed["departure"].cummax().dt.floor("10min")
    departed["watermark"] = latest.shift() - _HOURS
    too_late = departed["departure"] < departed["watermark"]
    final_watermark = latest.max() - _HOURS - pd.Timedelta(milliseconds=1)
    followed = _followed(departed[~too_late])
    hours = _hours(departed)
    return {
        "aircraft_events": pd.concat(
            [_knock_on(followed), _standing(followed, pd.Timedelta(days=standing_days), final_watermark)], ignore_index=True
        ),
        "carrier_statistics": _statistics(followed),
        "airport_delays": _three_hours(departed),
        "late_departures": _late_departures(departed),
        "weather_delays": _weather(hours, weather),
        "busiest_hours": _busiest(hours),
        "set_aside_flights": pd.concat(
            [_aside(flights[cancelled], "cancelled"), _aside(departed[too_late], "too late")], ignore_index=True
        ),
    }


def _followed(flights: pd.DataFrame) -> pd.DataFrame:
    flights = flights.sort_values(["tailnum", "departure"], kind="stable")
    aircraft = flights.groupby("tailnum")
    rotation = flights["departure"] - aircraft["departure"].shift() <= _DAY
    flights["late_in"] = aircraft["arr_delay"].shift().where(rotation).fillna(0).astype(int)
    flights["knock_on"] = (flights["late_in"] >= 15) & (flights["dep_delay"] >= 15)
    flights["next"] = aircraft["departure"].shift(-1)
    return flights


def _knock_on(followed: pd.DataFrame) -> pd.DataFrame:
    # A chain is a stretch of knock-on delays of one aircraft: it begins where the flight before was none.
    begins = ~(followed["knock_on"].shift(fill_value=False) & (followed["tailnum"] == followed["tailnum"].shift()))
    events = followed.assign(chain_id=begins.cumsum())[followed["knock_on"]]
    chains = events.groupby("chain_id")
    return _events(
        events,
        kind="knock-on",
        late_in=events["late_in"],
        late_out=events["dep_delay"].astype(int),
        chain=chains.cumcount() + 1,
        chain_minutes=chains["dep_delay"].cumsum().astype(int),
        standing_days=None,
    )


def _standing(followed: pd.DataFrame, limit: pd.Timedelta, final_watermark: pd.Timestamp) -> pd.DataFrame:
    due = followed["departure"] + limit
    stood = followed[(due <= final_watermark) & ~(followed["next"] <= due)]
    return _events(stood, kind="standing", late_in=None, late_out=None, chain=None, chain_minutes=None, standing_days=limit.days)


def _events(flights: pd.DataFrame, *, kind: str, **figures: object) -> pd.DataFrame:
    columns = {
        "kind": kind,
        "aircraft": flights["tailnum"],
        "carrier": flights["carrier"],
        "flight": flights["flight"],
        "origin": flights["origin"],
        "departure": flights["departure"],
        **figures,
    }
    return pd.DataFrame(columns, index=flights.index).astype(dict.fromkeys(figures, "Int64"))


def _statistics(followed: pd.DataFrame) -> pd.DataFrame:
    flights = followed.assign(
        month=followed["departure"].dt.strftime("%Y-%m"),
        late=followed["dep_delay"] >= 15,
        minutes=followed["dep_delay"].clip(lower=0),
    )
    groups = flights.groupby(["month", "origin", "carrier"])
    return groups.agg(
        flights=("late", "size"),
        late=("late", "sum"),
        knock_on=("knock_on", "sum"),
        delay_minutes=("minutes", "sum"),
        worst_delay=("dep_delay", "max"),
    ).reset_index()


def _in_windows(departed: pd.DataFrame) -> pd.DataFrame:
    """Return each departure once for each of its windows of three hours, in the order of the file within each window.

    The job's watermark is a millisecond before the one here, and so is the last timestamp of a window before its end.
    """
    hour = departed["departure"].dt.floor("h")
    windows = pd.concat([departed.assign(window_start=hour - back * _HOUR) for back in range(3)])
    windows = windows.rename_axis("flight_index").sort_index(kind="stable").reset_index()
    windows["window_end"] = windows["window_start"] + 3 * _HOUR
    windows["fired"] = windows["window_end"] <= windows["watermark"]
    windows["gone"] = windows["window_end"] + _LATENESS <= windows["watermark"]
    return windows


def _three_hours(departed: pd.DataFrame) -> pd.DataFrame:
    """Return what each window has when it fires: once when its time has come, and again for each departure after that."""
    windows = _figures(_in_windows(departed).query("not gone"))
    running = windows.groupby(["origin", "window_start"])
    last_on_time = windows[~windows["fired"]].drop_duplicates(["origin", "window_start"], keep="last")
    fires = windows["fired"] | windows.index.isin(last_on_time.index)
    sums = {
        "origin": windows["origin"],
        "window_start": windows["window_start"],
        "window_end": windows["window_end"],
        "flights": running.cumcount() + 1,
        "late": running["late"].cumsum(),
        "delay_minutes": running["minutes"].cumsum(),
        "worst_delay": running["dep_delay"].cummax(),
    }
    return pd.DataFrame(sums)[fires]


def _late_departures(departed: pd.DataFrame) -> pd.DataFrame:
    late = departed[_in_windows(departed).groupby("flight_index")["gone"].all()]
    return pd.DataFrame({"origin": late["origin"], "departure": late["departure"], "delay": late["dep_delay"]})


def _hours(departed: pd.DataFrame) -> pd.DataFrame:
    hour = departed["departure"].dt.floor("h")
    in_time = _figures(departed.assign(hour=hour)[~(hour + _HOUR <= departed["watermark"])])
    return _sums(in_time, ["origin", "hour"])


def _weather(hours: pd.DataFrame, path: Path) -> pd.DataFrame:
    weather = pd.read_csv(path, na_values=["NA"], float_precision="round_trip")
    readings = pd.DataFrame(
        {
            "origin": weather["origin"],
            "hour": pd.to_datetime(weather["time_hour"], utc=True).dt.floor("h"),
            "wind_speed": weather["wind_speed"],
            "visibility": weather["visib"],
            "precipitation": weather["precip"],
        }
    )
    return hours.merge(readings, on=["origin", "hour"])


def _busiest(hours: pd.DataFrame) -> pd.DataFrame:
    together = hours.groupby("hour")[["flights", "late", "delay_minutes"]].sum().reset_index()
    together["day"] = (together["hour"] - _MIDNIGHT).dt.strftime("%Y-%m-%d")
    return together.sort_values(["flights", "hour"], ascending=[False, True]).drop_duplicates("day")


def _figures(flights: pd.DataFrame) -> pd.DataFrame:
    return flights.assign(late=flights["dep_delay"] >= 15, minutes=flights["dep_delay"].clip(lower=0))


def _sums(flights: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    sums = {"flights": ("late", "size"), "late": ("late", "sum"), "delay_minutes": ("minutes", "sum")}
    return flights.groupby(keys).agg(**sums).reset_index()


def _aside(flights: pd.DataFrame, reason: str) -> pd.DataFrame:
    columns = {
        "reason": reason,
        "aircraft": flights["tailnum"],
        "carrier": flights["carrier"],
        "flight": flights["flight"],
        "origin": flights["origin"],
        "destination": flights["dest"],
        "scheduled": flights["scheduled"],
        "line": None,
    }
    return pd.DataFrame(columns, index=flights.index)


def rows(table: pd.DataFrame) -> list[tuple[object, ...]]:
    """Return the rows of a table in an order of their own, with None for what is missing."""
    plain = table.astype(object).where(table.notna(), None)
    return sorted((tuple(map(_plain, row)) for row in plain.itertuples(index=False)), key=str)


def _plain(value: object) -> object:
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def written_table(path: Path) -> pd.DataFrame:
    """Return a Delta table as it was written."""
    return DeltaTable(path).to_pandas()


def main(source: str, weather: str, output: str) -> int:
    differences = 0
    for name, expected in expected_tables(Path(source), Path(weather)).items():
        table = written_table(Path(output) / name)
        same = rows(table) == rows(expected[list(table.columns)])
        differences += not same
        print(f"{name}: {len(table):,} rows, {len(expected):,} expected: {'equal' if same else 'DIFFERENT'}")
    return differences


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
