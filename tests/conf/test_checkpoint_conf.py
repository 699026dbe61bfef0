"""The scenarios on checkpoints show what their first lines say, on the virtual clock."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flowcontrol.analysis import summarise
from flowcontrol.run.remedies import add_remedies
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual import simulate

CONF = Path(__file__).resolve().parents[2] / "conf"
KINDS = ["aligned", "unaligned", "timeout", "fails"]
RATE = 200
"""What the sinks take, records/s."""
RECORD_BYTES = 200
ROUND_MS = 100.0


class Shown:
    """Tables and summary of a run, and the words of its first lines on one line."""

    def __init__(self, name: str, *overrides: str) -> None:
        path = CONF / f"{name}.yaml"
        scenario = load_scenario(path, overrides=overrides)
        run = simulate(scenario)
        self.checkpoints = run.tables["checkpoints"].to_pandas()
        self.tasks = run.tables["checkpoint_tasks"].to_pandas()
        self.channels = run.tables["channels"].to_pandas()
        self.stages = run.tables["stages"].to_pandas()
        self.restarts = run.tables["restarts"].to_pandas()
        self.summary = summarise(
            run.tables, scenario, clock="virtual", rounds=run.rounds, wall_s=1.0, round_ms=ROUND_MS
        )
        if not overrides:
            add_remedies(self.summary, scenario)
        comment = [line for line in path.read_text().splitlines() if line.startswith("#")]
        self.text = re.sub(r"\s+", " ", " ".join(line.lstrip("# ") for line in comment))

    def says(self, *texts: str) -> None:
        for text in texts:
            assert text in self.text

    @property
    def remedies(self) -> dict[str, Any]:
        return {one["name"]: one for one in self.summary["checkpoints"]["remedies"]}

    def in_flight(self, moment_s: float, edge: str | None = None) -> int:
        """Records in flight at a sample, on one edge or on all."""
        rows = self.channels[self.channels.t_s == moment_s]
        if edge is not None:
            rows = rows[rows.edge == edge]
        return int(rows.in_flight_records.sum())


@cache
def show(kind: str, *overrides: str) -> Shown:
    return Shown(f"checkpoint-{kind}", *overrides)


def seconds(shown: Shown) -> pd.Series[float]:
    assert (shown.checkpoints.status == "completed").all()
    assert len(shown.checkpoints) == 4
    return shown.checkpoints.e2e_ms / 1000


def test_they_are_one_job_with_different_options() -> None:
    def of(kind: str) -> list[str]:
        lines = (CONF / f"checkpoint-{kind}.yaml").read_text().splitlines()
        own = "execution.checkpointing.", "name: ", "#"
        return [line for line in lines if not line.strip().startswith(own)]

    assert [of(kind) for kind in KINDS[1:]] == [of("aligned")] * 3


def test_aligned_takes_the_time_of_what_is_in_flight_ahead() -> None:
    """In flight over the drain rate, and at most three rounds for the messages."""
    shown = show("aligned")
    shown.says("some 1,100 records of 200 bytes", "At 200/s that is 5.5 s")
    for row in shown.checkpoints.itertuples():
        ahead = shown.in_flight(row.triggered_s)
        assert ahead == pytest.approx(1100, rel=0.08)
        assert shown.in_flight(row.triggered_s, "source->map") == pytest.approx(ahead / 3, rel=0.15)
        assert 0 < row.e2e_ms - 1000 * ahead / RATE <= 3 * ROUND_MS
        assert row.persisted_bytes == 0
    assert seconds(shown).median() == pytest.approx(5.35, abs=0.05)
    sinks = shown.tasks[shown.tasks.stage == "sink"]
    assert (sinks.start_delay_ms > 0.85 * sinks.e2e_ms).all()
    assert shown.summary["checkpoints"]["cause"]["kind"] == "in_flight"


def test_aligned_says_what_helps() -> None:
    shown = show("aligned")
    shown.says("unaligned checkpoints, debloating and half the buffers", "0.5 s, 2.7 s and 2.45 s")
    medians = {name: one["e2e"]["p50_ms"] for name, one in shown.remedies.items()}
    del medians["the scenario as it is"]
    assert medians == {
        "unaligned checkpoints": 500, "buffer debloating": 2700, "half the buffers": 2450
    }  # fmt: skip


def test_aligned_takes_longer_behind_a_slower_sink() -> None:
    show("aligned").says("sink.total_rate=100 makes it 8 s", "sink.total_rate=800 0.6 s")
    slower = show("aligned", "sink.total_rate=100").checkpoints
    assert slower[slower.status == "completed"].e2e_ms.median() == 8000
    assert seconds(show("aligned", "sink.total_rate=800")).median() == 0.6


def test_unaligned_persists_what_the_barriers_overtake() -> None:
    shown = show("unaligned")
    shown.says("takes 0.5 s, five rounds of messages", "some 219 KiB")
    assert (seconds(shown) == 5 * ROUND_MS / 1000).all()
    assert shown.checkpoints.is_unaligned.all()
    persisted = shown.checkpoints.persisted_bytes
    assert (persisted / 1024).mean() == pytest.approx(219, abs=3)
    for row in shown.checkpoints.itertuples():
        ahead = shown.in_flight(row.triggered_s) * RECORD_BYTES
        assert row.persisted_bytes == pytest.approx(ahead, rel=0.1)


def test_unaligned_never_stops_the_sinks() -> None:
    shown = show("unaligned")
    shown.says("The sinks never stop")
    sinks = shown.stages[(shown.stages.stage == "sink") & (shown.stages.t_s > 2)]
    assert (sinks.busy_ms_per_s == 1000).all()
    aligned = show("aligned").stages
    assert (aligned[(aligned.stage == "sink") & (aligned.t_s > 2)].busy_ms_per_s < 900).any()


def test_unaligned_takes_no_longer_behind_a_slower_sink() -> None:
    show("unaligned").says("no longer if the sink gets slower still")
    assert (seconds(show("unaligned", "sink.total_rate=100")) == 0.5).all()


def test_a_slow_upload_takes_longest() -> None:
    show("unaligned").says("cluster.upload_bytes_per_s=50000")
    found = show("unaligned", "cluster.upload_bytes_per_s=50000").summary["checkpoints"]
    assert found["cause"]["kind"] == "upload"


def test_a_timeout_overtakes_what_is_left() -> None:
    shown = show("timeout")
    shown.says("takes 2.3 s: the 2 s and three rounds", "some 150 KiB")
    assert (seconds(shown) == 2 + 3 * ROUND_MS / 1000).all()
    persisted = shown.checkpoints.persisted_bytes / 1024
    assert persisted.mean() == pytest.approx(152, abs=3)
    assert (persisted < show("unaligned").checkpoints.persisted_bytes.min() / 1024).all()
    # Most of what is persisted lay before the sinks: the maps had their barriers in time.
    maps = shown.tasks[shown.tasks.stage == "map"]
    assert maps.persisted_bytes.sum() < 0.1 * shown.tasks.persisted_bytes.sum()


def test_a_barrier_that_comes_in_time_costs_no_bytes() -> None:
    show("timeout").says("With a fast sink nothing would be", "sink.total_rate=800")
    quick = show("timeout", "sink.total_rate=800")
    assert (seconds(quick) < 2).all()
    assert not quick.checkpoints.is_unaligned.any()


def test_none_completes_under_a_short_timeout() -> None:
    shown = show("fails")
    shown.says("None of 4 checkpoints completes", "1,066 records", "5.3 s of their work")
    assert list(shown.checkpoints.status) == ["expired"] * 4
    assert (shown.checkpoints.e2e_ms == 3000).all()
    assert len(shown.restarts) == 0
    sentences = shown.summary["checkpoints"]["sentences"]
    assert "waited for sink" in sentences[1]
    assert "1,066 records were in flight on the way to it" in sentences[1]
    assert "5.3 s, with a timeout of 3 s" in sentences[1]


def test_what_helps_completes_all() -> None:
    remedies = show("fails").remedies
    show("fails").says("with unaligned checkpoints, with debloating and with half the buffers")
    assert remedies.pop("the scenario as it is")["completed"] == 0
    assert len(remedies) == 3
    assert {one["completed"] for one in remedies.values()} == {4}


def test_flinks_default_fails_the_job_again_and_again() -> None:
    key = "options.execution.checkpointing.tolerable-failed-checkpoints=0"
    show("fails").says(key, "begins anew, is as slow as before, and fails again")
    restarts = show("fails", key).restarts
    assert len(restarts) == 3
    assert restarts.checkpoint_id.isna().all()
