"""Random jobs whose sources replay rows into windows: what the tests of several folders draw."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.scenario import Scenario, parse_scenario

EPOCHS_MS = (0, 1_356_998_400_000, -86_400_000_000)
"""Around which event times are: of the run, of 2013, before 1970."""
AGGREGATES = (
    {"s": "sum(x)", "a": "avg(x)"},
    {"n": "count", "lo": "min(w)", "hi": "max(w)"},
    {"n": "count", "least": "min(w)", "whole": "sum(size)", "mean": "avg(x)"},
)
_SHARES = ("key_weights", "channel_weights", "key_distribution")


@st.composite
def replayed(draw: Any, scenario: Scenario, folder: Path) -> Scenario:
    """Have the sources of a scenario with windows replay rows, of which windows see the keys.

    Parameters
    ----------
    draw : callable
        Of Hypothesis.
    scenario : Scenario
        With windows; those behind another get one subtask.
    folder : Path
        Of the inputs.
    """
    mapping, round_s = scenario.canonical(), scenario.live_round_us / 1e6
    receivers = {edge["to"] for edge in mapping["edges"]}
    has_times = draw(st.sampled_from([True, True, False]))
    epoch, step = draw(st.sampled_from(EPOCHS_MS)), max(1, round(1000 * round_s))
    windows = {stage["name"] for stage in mapping["stages"] if stage.get("window") is not None}
    for stage in mapping["stages"]:
        if stage["name"] not in receivers:
            _replay(draw, stage, folder, epoch, step, has_times=has_times)
        if stage["name"] not in windows:
            continue
        into = [edge for edge in mapping["edges"] if edge["to"] == stage["name"]]
        stage["window"].pop("keys", None)
        if not windows & set(scenario.upstream(stage["name"])):
            stage["window"]["aggregate"] = draw(st.sampled_from(AGGREGATES))
        is_keyed = all(edge["from"] not in receivers for edge in into) and draw(st.booleans())
        for edge in into:
            for key in _SHARES:
                edge.pop(key, None)
            edge["partitioner"] = "hash" if is_keyed else "global"
            if is_keyed:
                edge["key"] = draw(st.sampled_from(["city", "size"]))
    return parse_scenario(mapping)


def _replay(
    draw: Any, stage: dict[str, Any], folder: Path, epoch: int, step: int, *, has_times: bool
) -> None:
    """Give a source rows: some out of order, some without a key or a value."""
    count = draw(st.sampled_from([1, 40, 400]))
    numbers = draw(st.randoms(use_true_random=False))
    behind = draw(st.sampled_from([0, 3, 30]))
    rows = range(count)
    columns = {
        "at": pa.array(
            [epoch + step * i // 4 - step * numbers.randint(0, behind) for i in rows],
            pa.timestamp("ms"),
        ),
        "city": [numbers.choice(["Rome", "Bonn", "Oslo", None]) for _ in rows],
        "size": [numbers.randint(1, 9) for _ in rows],
        "x": pa.array([numbers.choice([0.1, 2.5, -3.0, None]) for _ in rows], pa.float64()),
        "w": pa.array([numbers.choice([7, -7, None]) for _ in rows], pa.int64()),
    }
    path = folder / f"{stage['name']}.parquet"
    pq.write_table(pa.table(columns), path)
    stage["input"] = {"format": "parquet", "path": str(path)}
    stage["input"] |= draw(st.sampled_from([{"key": "city"}, {"key": "city"}, {}]))
    if has_times and stage.get("event_time") is not None:
        stage["event_time"] = {"column": "at"}


@st.composite
def jobs(
    draw: Any, random_jobs: ModuleType, random_windows: ModuleType, shape: Any, folder: Path
) -> Job:
    """A random job of replayed rows with windows."""
    scenario = draw(random_jobs.scenarios(shape))
    found = draw(random_windows.windowed(scenario))
    return random_jobs.laid_out(draw(replayed(found, folder)))
