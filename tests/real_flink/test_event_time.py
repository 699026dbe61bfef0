"""Flink's records have the event times and keys of the emulation; its figures agree with it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import beside
import numpy as np
import pyarrow as pa
import pytest
import refusals
import times
import translate

import report
from conf_list import CONF
from flowcontrol.errors import ScenarioError
from flowcontrol.protocol.event_time import ID_BITS
from flowcontrol.results.windows import table_name
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import as_base, as_scenario
from flowcontrol.virtual import simulate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "real-flink.md"
SHAPES = sorted(file.stem for file in report.TIMED_SHAPES.iterdir())
KEPT = report.read(report.TIMED)


def shape(name: str, **changes: Any) -> Scenario:
    """A shape, or a scenario of conf/, as Flink runs it: without rounds."""
    file = (CONF if name in report.TIMED_OF_CONF else report.TIMED_SHAPES) / f"{name}.yaml"
    stated = dict(as_base(file).mapping)
    return as_scenario({key: stated[key] for key in stated if key != "round_ms"}, changes)


@cache
def emulated(name: str) -> dict[str, pa.Table]:
    """The tables of a shape on the virtual clock."""
    return simulate(shape(name)).tables


@cache
def figures(name: str) -> dict[tuple[Any, ...], float]:
    scenario = shape(name)
    return {
        (*window, place, figure): value
        for window in beside.windows(scenario)
        for (place, figure, _), value in beside.figures(scenario, emulated(name), window)
    }


def stamps(scenario: Scenario, source: str) -> list[np.ndarray]:
    """Event times and ids of each subtask, as Flink reads them."""
    [found] = [one for one in translate.flink_job(scenario)["stages"] if one["name"] == source]
    texts = found["event_times"]["stamps"]
    return [np.frombuffer(base64.b64decode(text), ">i8").astype(np.int64) for text in texts]


def key_of(keys: dict[str, Any], numbers: np.ndarray) -> np.ndarray:
    """The name of the key of each id, as ``IdKeys`` finds it."""
    names = np.array(keys["names"])
    if not keys["firsts"]:
        return names[numbers * len(names) >> ID_BITS]
    return names[np.searchsorted(keys["firsts"], numbers, side="right") - 1]


@pytest.mark.parametrize(("name", "source"), [("tumbling", "orders"), ("slow-count", "orders")])
def test_records_of_a_log_have_the_times_and_keys_of_the_emulation(name: str, source: str) -> None:
    scenario = shape(name)
    [stage] = [one for one in translate.flink_job(scenario)["stages"] if one["window"]]
    window, keys = stage["window"], stage["window"]["keys"]
    every = np.concatenate(stamps(scenario, source))
    ends_ms = ((every >> ID_BITS) // window["size_ms"] + 1) * window["size_ms"]
    names, counts = key_of(keys, every & (1 << ID_BITS) - 1), dict[tuple[str, int], int]()
    for place in zip(names.tolist(), ends_ms.tolist(), strict=True):
        counts[place] = counts.get(place, 0) + 1
    results = emulated(name)[table_name("count")].to_pandas()
    assert len(results) > 500
    for row in results.itertuples():
        assert counts[row.key, round(row.window_end * 1000)] == row.n


def test_records_that_a_rate_makes_are_stamped_when_they_are_emitted() -> None:
    scenario = shape("idle", **{"sensors.event_time.offset_s": [0, -2]})
    assert not translate.flink_job(scenario)["stages"][0]["event_times"]["are_whole"]
    first, second = (own >> ID_BITS for own in stamps(scenario, "sensors"))
    assert (first.min(), first.max()) == (-500, 0)
    assert (second.min(), second.max()) == (-2500, -2000)


def test_a_source_has_its_watermarks_and_its_group() -> None:
    stages = translate.flink_job(shape("alignment"))["stages"]
    assert stages[0]["watermark"] == {
        "delay_ms": 500, "punctuated": False, "idle_ms": None,
        "alignment": {"group": "topics", "drift_ms": 3000, "interval_ms": 530},
    }  # fmt: skip
    assert stages[2]["watermark"] is None
    assert stages[2]["window"]["keys"] == {
        "names": [str(rank) for rank in range(1, 51)],
        "firsts": [],
    }


def test_flink_probes_as_often_as_the_emulation() -> None:
    key = "pipeline.auto-watermark-interval"
    given = {f'options."{key}"': "50ms"}
    assert translate.flink_options(shape("tumbling"))[key] == "200ms"
    assert translate.flink_options(shape("tumbling", **given))[key] == "50ms"


def test_a_job_without_event_time_has_none_of_it() -> None:
    job = translate.flink_job(as_scenario("conf/three-stages.yaml"))
    lacking = ("event_times", "watermark", "window")
    assert all(stage[key] is None for stage in job["stages"] for key in lacking)
    assert not any(stage["have_ids"] for stage in job["stages"])
    assert times.metrics(job["stages"]) == []
    assert "pipeline.auto-watermark-interval" not in job["options"]


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        ({"count.window.trigger": "processing_time"}, "stages[1].window.trigger", "the watermark"),
        ({"orders.record_bytes": 28}, "stages[0].record_bytes", "and its id is 29 bytes at least"),
        ({"time_model": "spark"}, "time_model", "use flink"),
        (
            {"count.window.trigger": {"count": 5}, "count.window.accumulate": False},
            "stages[1].window.accumulate",
            "what a count leaves over",
        ),
        (
            {"count.requests": {"style": "await", "latency_ms": 5}},
            "stages[1].requests",
            "use two stages",
        ),
    ],
)
def test_what_does_not_follow_watermarks_is_refused(
    changes: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        refusals.check(shape("slow-count", **changes))
    [problem] = [one for one in refused.value.problems if one.place == place]
    assert words in problem.message


def test_the_table_time_has_what_metrics_and_the_program_say() -> None:
    scenario = shape("alignment")
    readings = [
        (at_s, {("clicks", 0): {"Source__clicks.currentOutputWatermark": mark},
                ("count", 0): {"count.currentInputWatermark": -(2.0**63),
                               "count_window.numLateRecordsDropped": 7.0}})
        for at_s, mark in ((1.0, 400.0), (2.0, 900.0))
    ]  # fmt: skip
    windows = [
        {"t_s": at, "stage": "count", "subtask": 0, "open_windows": at, "fired": 5} for at in (1, 2)
    ]
    pauses = [
        {"t_s": at, "stage": "clicks", "subtask": 0, "paused_ms": 300.0 * at} for at in (1, 2)
    ]
    table = times.time_table(readings, scenario, windows, pauses)
    assert table.column_names == emulated("alignment")["time"].column_names
    rows = {(row["t_s"], row["stage"]): row for row in table.to_pylist()}
    assert rows[2.0, "clicks"]["watermark_s"] == 0.9
    assert rows[2.0, "clicks"]["watermark_lag_ms"] == pytest.approx(1100)
    assert rows[2.0, "clicks"]["paused_ms_per_s"] == pytest.approx(300)
    assert rows[2.0, "count"]["watermark_s"] is None
    assert rows[2.0, "count"]["late_records"] == 7
    assert rows[2.0, "count"]["window_state_bytes"] == 200


def test_results_of_a_global_window_have_no_bounds() -> None:
    scenario = shape("slow-count", **{"count.window": {"kind": "global", "trigger": {"count": 5}}})
    refusals.check(scenario)
    never = 2**63 - 1
    found = times.result_tables(scenario, {"count/0": [[never, never, "3", 5, 1.5]]})
    [row] = found["output/count"].to_pylist()
    expected = {"window_start": None, "window_end": None, "key": "3", "n": 5, "emitted_s": 1.5}
    assert row == expected


def test_windows_are_exact_where_no_record_can_be_late() -> None:
    exact = {name for name in SHAPES if any(map_exact(shape(name)))}
    assert exact == {*SHAPES} - {"counted", "idle", "late"}


def map_exact(scenario: Scenario) -> Iterator[bool]:
    for stage in scenario.stages:
        yield times.is_exact(scenario, stage)


def test_every_shape_is_measured() -> None:
    assert set(KEPT) >= {f"{name} {version}" for name in SHAPES for version in ("1.20.1", "2.3.0")}


WITHIN = {
    "watermark lag": (0.05, 200),
    "open windows": (0.08, 3),
    "in a result": (0.02, 0.2),
    "delay p50": (0.08, 200),
    "late": (0.06, 0),
}
"""By figure, how far both sides may differ: of the measured one, and at least; 200 ms: a probe."""

APART = {"alignment", "slow-sink", "watermark-lag"}
"""Scenarios in which the emulation differs from Flink, as the page says."""


@pytest.mark.holds("credit", "virtual", "watermarks and windows of a real Flink")
@pytest.mark.parametrize("run", [run for run in KEPT if run.split()[0] not in APART])
def test_watermarks_lag_and_windows_fire_as_on_flink(run: str) -> None:
    apart = [
        row
        for row in KEPT[run]
        if row[3] in WITHIN
        and abs(row[5] - row[4]) > max(WITHIN[row[3]][0] * row[4], WITHIN[row[3]][1])
    ]
    assert apart == []


@pytest.mark.parametrize("run", KEPT)
def test_what_is_kept_is_what_the_emulation_makes_of_it(run: str) -> None:
    kept = {tuple(row[:4]): row[5] for row in KEPT[run] if row[3] != "windows"}
    assert kept == pytest.approx(figures(run.split()[0]), rel=1e-4, abs=1e-4, nan_ok=True)


def test_the_page_has_the_table() -> None:
    table = "\n".join([report.HEAD_OF_TIME, *report.lines_of_time(KEPT)])
    assert table in PAGE.read_text(encoding="utf-8")
