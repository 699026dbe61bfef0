"""Dumps of a real Flink: what is in them, and that the emulation of the same jobs agrees."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import beside
import dumps
import flink_run
import pytest
import scenario_run
import tables

from flowcontrol.analysis.bottleneck import find_bottleneck
from tests.real_flink import recorded

RATE_SHARE, BLOCKED_MS, IN_FLIGHT_SHARE = 0.03, 60.0, 0.05
"""Of the blocked share up to 50 ms/s are the processor time of a source, which is not emulated."""
IN_FLIGHT_LEAST = 8.0
"""Records by which a hop that is nearly empty may differ: Flink's timers come late."""

QUICK = {"slow-sink", "skewed-hash", "fan-out.more-buffers", "near-and-far"}


def test_there_is_a_dump_of_every_shape_and_every_change() -> None:
    stored = {file.name.removesuffix(".json.gz") for file in dumps.DUMPS.iterdir()}
    assert stored == set(recorded.NAMES)
    assert {file.stem for file in dumps.SHAPES.glob("*.yaml")} == set(dumps.SINK_RATES)


@pytest.mark.parametrize("name", recorded.NAMES)
def test_a_dump_covers_the_settled_part_of_its_run(name: str) -> None:
    found = recorded.polls(name)
    moments = [poll[tables.job_path(poll)]["now"] for poll in found]
    assert len(found) >= 20
    assert moments[-1] - moments[0] >= 30_000
    for fixed in ("/jobmanager/config", f"{tables.job_path(found[0])}/plan", "/taskmanagers"):
        assert fixed in found[0]
    assert f"{tables.job_path(found[0])}/checkpoints" in found[-1]


@pytest.mark.parametrize("shape", dumps.SINK_RATES)
def test_a_change_halves_the_sink_or_doubles_the_buffers(shape: str) -> None:
    as_is, slower, more = (
        recorded.scenario(name) for name in recorded.NAMES if name.partition(".")[0] == shape
    )
    name, rate = dumps.SINK_RATES[shape]
    [before] = {schedule.rate_at(0) for schedule in as_is.stage(name).service_rate or ()}
    [after] = {schedule.rate_at(0) for schedule in slower.stage(name).service_rate or ()}
    assert (after, 2 * after) == (rate, before)
    assert slower.options == as_is.options
    for key in ("exclusive_buffers", "floating_buffers", "max_buffers_per_channel"):
        assert getattr(more.options, key) == 2 * getattr(as_is.options, key)
    assert more.stages == as_is.stages


@pytest.mark.holds("credit", "virtual", "rates, blocked shares and records in flight of a Flink")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else [pytest.mark.long])
        for name in recorded.NAMES
    ],
)
def test_the_emulation_of_a_dumped_job_agrees_with_it(name: str) -> None:
    given = recorded.scenario(name)
    polls = recorded.polls(name)
    theirs = tables.result_tables(polls, [], recorded.start_ms(name), given)
    ours = scenario_run.emulated(given, tables.placement_of(polls[0], given), as_stated=False)
    window = (dumps.SETTLED_S + 0.5, given.duration_s)
    emulated = dict(beside.figures(given, ours, window))
    compared = 0
    for key, measured in beside.figures(given, theirs, window):
        place, figure, _ = key
        apart = abs(emulated[key] - measured)
        if figure == "records":
            assert apart <= RATE_SHARE * measured, (place, measured, emulated[key])
        elif figure == "blocked":
            assert apart <= BLOCKED_MS, (place, measured, emulated[key])
        elif figure == "in flight":
            limit = max(IN_FLIGHT_SHARE * measured, IN_FLIGHT_LEAST)
            assert apart <= limit, (place, measured, emulated[key])
        else:
            continue
        compared += 1
    assert compared >= 5
    assert find_bottleneck(theirs, given).stage == find_bottleneck(ours, given).stage


def run_of(moments_s: list[float]) -> flink_run.FlinkRun:
    """A run with a poll at each of some moments; the first also has what does not change."""
    body = {"plan": {"nodes": []}, "status-counts": {}, "state": "RUNNING"}
    polls: list[dict[str, Any]] = [
        {"/jobs/ab": {**body, "now": 1_000_000 + round(1000 * at)}} for at in moments_s
    ]
    polls[0] |= {"/jobs/ab/plan": {"plan": {"nodes": [1]}}, "/config": {"flink-version": "1.20.1"}}
    polls[-1] |= {"/jobs/ab/checkpoints": {"history": []}}
    return flink_run.FlinkRun(polls, [], 1_000_000, "1.20.1", "17", moments_s[-1], 0, 0)


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_a_dump_holds_the_polls_from_a_moment_on_and_what_does_not_change(
    tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"dump.{suffix}"
    dumps.write_dump(file, run_of([1, 2, 3, 4]), 3)
    content = file.read_bytes()
    found = json.loads(gzip.decompress(content) if suffix.endswith("gz") else content)
    first, last = found["polls"]
    assert first["/jobs/ab"] == {"state": "RUNNING", "now": 1_003_000}
    assert first["/jobs/ab/plan"] == {"plan": {"nodes": [1]}}
    assert first["/config"] == {"flink-version": "1.20.1"}
    assert last["/jobs/ab"]["now"] == 1_004_000
    assert "/jobs/ab/checkpoints" in last


@pytest.mark.parametrize(
    ("late_ms", "latest_ms", "words"),
    [
        (900, 200, None),
        (1100, 20, "threads woke up late for 11.0 % of the time"),
        (300, 300, "a thread woke up 300 ms late"),
    ],
)
def test_a_busy_machine_shows(late_ms: float, latest_ms: float, words: str | None) -> None:
    run = flink_run.FlinkRun([], [], 0, "1.20.1", "17", 10.0, late_ms, latest_ms)
    assert run.disturbance == words


def test_a_disturbed_run_is_made_again_and_the_last_one_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = iter(
        flink_run.FlinkRun([], [], number, "1.20.1", "17", 10.0, late, 0)
        for number, late in enumerate([2000.0, 0.0, 0.0])
    )
    monkeypatch.setattr(flink_run, "run_flink", lambda *_: next(runs))
    assert flink_run.undisturbed({}, "1.20.1", 10).start_ms == 1
    assert "late for 20.0 % of the time. Trying again." in capsys.readouterr().out
