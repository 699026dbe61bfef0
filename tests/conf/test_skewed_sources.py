"""The scenario of skewed sources shows what its first lines say, on the virtual clock."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from flowcontrol.scenario import load_scenario
from flowcontrol.virtual import simulate

PATH = Path(__file__).resolve().parents[2] / "conf" / "skewed-sources.yaml"
UNALIGNED = tuple(f"stages.{name}.watermark.alignment=null" for name in ("orders", "clicks"))


@cache
def run(overrides: tuple[str, ...] = ()) -> dict[str, pd.DataFrame]:
    """Tables of a run."""
    tables = simulate(load_scenario(PATH, overrides=overrides)).tables
    return {name: tables[name].to_pandas() for name in ("stages", "time", "output/count")}


def of(stage: str, name: str = "time", overrides: tuple[str, ...] = ()) -> pd.DataFrame:
    frame = run(overrides)[name]
    return frame[frame["stage"] == stage].set_index("t_s")


def text() -> str:
    return " ".join(line.lstrip("# ") for line in PATH.read_text().splitlines())


def test_the_faster_one_is_paused_for_what_the_slower_leaves_of_its_rate() -> None:
    assert "1 - 1.25 / 5 = 75 %" in text()
    paused = of("clicks")["paused_ms_per_s"]
    assert paused.loc[30.0:88.0].mean() == pytest.approx(750, abs=15)
    assert paused.loc[97.0:].max() == paused.loc[:20.0].max() == 0
    assert of("orders")["paused_ms_per_s"].max() == 0
    lead = of("clicks")["watermark_s"] - of("orders")["watermark_s"]
    assert lead.loc[30.0:].max() <= 3 + 5 * 0.25
    assert of("orders", "stages")["lag_records"].loc[98.0] > 0
    assert of("orders", "stages")["lag_records"].loc[101.0] == 0


def test_less_of_its_records_wait_as_state() -> None:
    aligned, without = of("count"), of("count", overrides=UNALIGNED)
    assert "no more than 3 windows are open, of 200 keys each: 59 KB" in text()
    assert aligned["open_windows"].max() <= 600
    assert aligned["window_state_bytes"].max() == pytest.approx(58_700, rel=0.02)
    assert "11 windows, 212 KB" in text()
    assert 10 * 200 < without["open_windows"].max() <= 11 * 200
    assert without["window_state_bytes"].max() == pytest.approx(212_000, rel=0.02)
    assert without.loc[110.0:]["open_windows"].max() == aligned.loc[110.0:]["open_windows"].max()
    lag = of("clicks", "stages")["lag_records"], of("clicks", "stages", UNALIGNED)["lag_records"]
    assert lag[0].loc[60.0] > 2500
    assert lag[1].loc[60.0] == 0


def test_the_answers_are_the_same() -> None:
    """Alignment changes when records are read, and no result: nothing was late either way."""
    answers = [run(which)["output/count"] for which in ((), UNALIGNED)]
    keys = ["window_start", "key"]
    ended = [one[one["window_end"] < 100] for one in answers]
    values = [one.sort_values(keys).drop(columns="emitted_s").reset_index(drop=True)
              for one in ended]  # fmt: skip
    pd.testing.assert_frame_equal(*values)
    assert len(values[0]) > 5000
    assert of("count")["late_records"].max() == 0
