"""Aligned sources against the closed forms of the model: who is paused for how long, how far ahead.

Sources read logs that are written at 1,000 records/s, so one that reads r records/s while something
waits moves through r / 1,000 s of event time each second.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.trace.round_state import RoundState
from flowcontrol.virtual import simulate

WRITTEN = 1000
PROBE_S = 0.2
ROUND_S = 0.01


def scenario(
    sources: dict[str, dict[str, Any]],
    *,
    drift_s: float | None,
    interval_s: float = 0.5,
    duration_s: float = 60,
    latency_ms: float = 0,
) -> Scenario:
    """Sources that read logs, each of them aligned with the others, before one sink."""
    mark: dict[str, Any] = {"delay_s": 0}
    if drift_s is not None:
        mark["alignment"] = {"group": "g", "max_drift_s": drift_s, "interval_s": interval_s}
    stages = [
        {"name": name, "arrival_rate": WRITTEN, "record_bytes": 100, "event_time": {},
         "watermark": mark, **own}
        for name, own in sources.items()
    ]  # fmt: skip
    return parse_scenario(
        {
            "schema": 1,
            "name": "alignment",
            "duration_s": duration_s,
            "round_ms": 1000 * ROUND_S,
            "sample_interval_s": 0.1,
            "cluster": {"task_managers": 1, "network_latency_ms": latency_ms},
            "options": {"taskmanager.memory.segment-size": "4kb"},
            "stages": [*stages, {"name": "sink"}],
            "edges": [{"from": name, "to": "sink"} for name in sources],
        }
    )


def times(given: Scenario) -> pd.DataFrame:
    """The table ``time`` of a run, a column of each figure and stage."""
    frame = simulate(given, track=False).tables["time"].to_pandas()
    figures = ["watermark_s", "paused_ms_per_s", "is_idle"]
    return frame.pivot(index="t_s", columns="stage", values=figures)


def pair(slow: float, fast: float, ahead_s: float) -> dict[str, dict[str, Any]]:
    """A slow source, and one that begins ahead of it, so that its log has filled when it may go."""
    return {
        "slow": {"emit_rate": slow * WRITTEN},
        "fast": {"emit_rate": fast * WRITTEN, "event_time": {"offset_s": ahead_s}},
    }


@pytest.mark.parametrize(
    ("slow", "fast", "drift_s", "interval_s", "latency_ms"),
    [
        (0.5, 2, 2, 0.5, 0),
        pytest.param(0.5, 0.75, 2, 1, 0, marks=pytest.mark.long),
        (0.25, 2, 0.5, 0.2, 0),
        pytest.param(1, 4, 3, 1, 0, marks=pytest.mark.long),
        (1, 1.25, 2, 0.5, 150),
        (0.8, 3, 1, 0.05, 60),
    ],
)
def test_the_paused_share_is_what_the_slowest_leaves_of_its_own_rate(
    slow: float, fast: float, drift_s: float, interval_s: float, latency_ms: float
) -> None:
    """1 - slowest / own, within a cycle of pause and run; the slowest is never paused.

    Nor is it ever further ahead than the drift and what it reads until the next probe; and by as
    much as the slowest gains in two intervals, and until it hears of that, it may be short of it.
    """
    ahead_s = 4 + drift_s
    given = scenario(
        pair(slow, fast, ahead_s), drift_s=drift_s, interval_s=interval_s, latency_ms=latency_ms
    )
    found = times(given)
    steady = found[found.index > (ahead_s + 1) / slow + 3]
    assert len(steady) > 300
    share = steady["paused_ms_per_s"]["fast"].mean() / 1000
    cycle_s = max(interval_s, PROBE_S * fast / slow)
    assert share == pytest.approx(1 - slow / fast, abs=cycle_s / (len(steady) * 0.1) + 0.01)
    assert found["paused_ms_per_s"]["slow"].max() == 0
    lead = steady["watermark_s"]["fast"] - steady["watermark_s"]["slow"]
    hearing_s = 2 * interval_s + 2 * max(ROUND_S, latency_ms / 1000) + ROUND_S
    assert lead.max() <= drift_s + fast * (PROBE_S + ROUND_S)
    assert lead.max() > drift_s - slow * hearing_s
    assert lead.min() >= drift_s - slow * (hearing_s + PROBE_S) - 0.01


def test_without_alignment_it_goes_as_far_ahead_as_its_log_lets_it() -> None:
    found = times(scenario(pair(0.5, 2, 6), drift_s=None))
    last = found.iloc[-1]
    assert last["watermark_s"]["fast"] - last["watermark_s"]["slow"] == pytest.approx(36, abs=0.3)
    assert found["paused_ms_per_s"].to_numpy().max() == 0


def test_what_it_does_not_read_waits_in_its_log() -> None:
    """Of 60 s it may read 60 s x 0.5, and what the drift lets it read, and begins 2 s ahead."""
    tables = simulate(scenario(pair(0.5, 2, 2), drift_s=6)).tables
    stages = tables["stages"].to_pandas()
    last = stages[(stages["stage"] == "fast") & (stages["t_s"] == 60)].iloc[0]
    assert last["lag_records"] == pytest.approx(WRITTEN * (60 - 30 - 4), abs=WRITTEN)
    assert last["backpressured_ms_per_s"] == 0
    assert last["busy_ms_per_s"] + last["idle_ms_per_s"] == pytest.approx(1000)


def test_until_the_first_answer_nobody_holds_it_back() -> None:
    """One interval and two ways: then the bound is the drift and what it reads meanwhile.

    The reports of half an interval are answered after a whole one.
    """
    sources = {"slow": {"emit_rate": 0.25 * WRITTEN}, "fast": {"emit_rate": WRITTEN}}
    found = times(scenario(sources, drift_s=0.25, interval_s=1, duration_s=20))
    lead = (found["watermark_s"]["fast"] - found["watermark_s"]["slow"]).dropna()
    assert 0.25 + PROBE_S + ROUND_S < 0.75 - PROBE_S <= lead.max()
    assert lead.max() <= 0.25 + 1 * (1 + 2 * ROUND_S + PROBE_S)
    early = found[found.index <= 1.0]
    assert early["paused_ms_per_s"]["fast"].max() == 0
    assert lead.iloc[-50:].max() <= 0.25 + PROBE_S + ROUND_S


@pytest.mark.parametrize("ends", ["idle", "finished"])
def test_who_is_idle_or_has_ended_holds_nobody_back(ends: str) -> None:
    rate = [{"at_s": 0, "rate": 100}, {"at_s": 5, "rate": 0}]
    if ends == "idle":  # it has not ended: a record comes in the end
        rate.append({"at_s": 55, "rate": 100})
    mark = {"delay_s": 0, "idle_after_s": 4,
            "alignment": {"group": "g", "max_drift_s": 2, "interval_s": 0.5}}  # fmt: skip
    slow = {"arrival_rate": rate, "emit_rate": WRITTEN, "watermark": mark}
    found = times(scenario({"slow": slow, "fast": {"emit_rate": WRITTEN}}, drift_s=2))
    paused = found["paused_ms_per_s"]["fast"]
    waiting = paused[(found.index > 7.5) & (found.index < 9)]
    assert waiting.min() == (pytest.approx(1000) if ends == "idle" else 0)
    later = paused[(found.index > 11) & (found.index < 60)]
    assert len(later) > 400
    assert later.max() == 0
    assert paused[found.index < 7].max() == 0


def test_a_pause_is_no_idleness() -> None:
    """Its clock stands meanwhile: however long it waits for the slowest, it is not idle."""
    given = pair(0.1, 1, 5)
    mark = {"delay_s": 0, "idle_after_s": 1,
            "alignment": {"group": "g", "max_drift_s": 0.5, "interval_s": 0.5}}  # fmt: skip
    given["fast"]["watermark"] = mark
    found = times(scenario(given, drift_s=0.5))
    assert found["paused_ms_per_s"]["fast"].mean() > 800
    assert not found["is_idle"]["fast"].any()


def test_a_source_that_makes_its_records_makes_none_while_it_is_paused() -> None:
    """Its records happen when they are made: it waits until the slowest is where it was."""
    slow = {"emit_rate": WRITTEN}
    fast = {"arrival_rate": None, "emit_rate": 100, "event_time": {"offset_s": 10}}
    tables = simulate(scenario({"slow": slow, "fast": fast}, drift_s=2)).tables
    frame = tables["time"].to_pandas().pivot(index="t_s", columns="stage", values="watermark_s")
    steps = frame["fast"].dropna().drop_duplicates()
    assert len(steps) < 60 / 8 * 8
    emitted = tables["stages"].to_pandas()
    last = emitted[(emitted["stage"] == "fast") & (emitted["t_s"] == 60)].iloc[0]
    assert 0 < last["records_out"] < 100 * 60 * 0.3


def test_a_paused_reader_is_idle_also_where_its_rate_is_nothing(clocks: ModuleType) -> None:
    """What its log holds waits for the group, also while the source stands still."""
    mapping = scenario(pair(0.5, 2, 6), drift_s=1, duration_s=4).canonical()
    mapping["stages"][1]["stalls"] = [{"at_s": 2.005, "for_s": 1}]
    job, idle = build_physical_graph(parse_scenario(mapping)), []

    def look(state: RoundState) -> None:
        task = state.tasks[1]
        if task.time.state.aligned.is_paused == 1 and 201 <= state.number < 300:
            assert task.log.end > task.state.taken
            idle.append(task.idle_us)

    clocks.compare(job, every=(1, 3), look=look)
    assert len(idle) > 50
    assert set(idle) == {10_000}


@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_a_restart_takes_no_pause_back(*, has_checkpoints: bool) -> None:
    """What a source was paused for counts on, attempt by attempt, as all cumulative figures do."""
    mapping = scenario(pair(0.5, 2, 6), drift_s=2, duration_s=30).canonical()
    mapping["failures"] = [{"at_s": at_s, "stage": "fast", "subtask": 0} for at_s in (14.02, 20.04)]
    mapping["options"] |= {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 9,
        "restart-strategy.fixed-delay.delay": "50ms",
    }
    if has_checkpoints:
        mapping["options"]["execution.checkpointing.interval"] = "500ms"
    given = parse_scenario(mapping)
    tables = simulate(given, track=False).tables
    assert len(tables["restarts"]) == 2
    frame = tables["time"].to_pandas()
    assert frame["paused_ms_per_s"].min() >= 0
    assert frame["paused_ms_per_s"].max() == pytest.approx(1000)


def test_a_pause_is_a_share_of_the_rounds_that_a_sample_covers() -> None:
    """Of 33.3 ms, 3 or 4 between two samples; one that is paused throughout is so 1,000 ms/s."""
    mapping = scenario(pair(0.1, 1, 6), drift_s=0.5, duration_s=10).canonical()
    given = parse_scenario({**mapping, "round_ms": 33.3})
    paused = times(given)["paused_ms_per_s"]["fast"]
    assert paused.iloc[-30:].tolist() == pytest.approx([1000] * 30)


def test_subtasks_of_one_source_wait_for_one_another() -> None:
    """A group may be one source: its subtasks are the members."""
    sources = {"topic": {"parallelism": 2, "emit_rate": [0.5 * WRITTEN, 2 * WRITTEN],
                         "event_time": {"offset_s": [0, 4]}}}  # fmt: skip
    given = scenario(sources, drift_s=1)
    frame = simulate(given, track=False).tables["time"].to_pandas()
    rows = frame[(frame["stage"] == "topic") & (frame["t_s"] > 12)]
    shares = rows.groupby("subtask")["paused_ms_per_s"].mean()
    assert shares[0] == 0
    assert shares[1] == pytest.approx(750, abs=20)


def test_groups_do_not_wait_for_one_another() -> None:
    given = pair(0.5, 2, 6)
    given["fast"]["watermark"] = {
        "delay_s": 0, "alignment": {"group": "other", "max_drift_s": 6, "interval_s": 0.5}
    }  # fmt: skip
    assert times(scenario(given, drift_s=6))["paused_ms_per_s"].to_numpy().max() == 0


def test_a_drift_below_an_interval_has_sources_wait_for_their_own_reports() -> None:
    """Of a group that could all go on at 1 s/s each goes on by the drift in each interval.

    Each is paused when it reports, half an interval before it is answered.
    """
    given: dict[str, dict[str, Any]] = {name: {"emit_rate": WRITTEN} for name in ("slow", "fast")}
    found = times(scenario(given, drift_s=0.5, interval_s=1))
    speed = found["watermark_s"]["slow"].iloc[-1] / 60
    assert speed == pytest.approx(0.5, rel=0.02)
    assert found["paused_ms_per_s"]["slow"].mean() > 200
