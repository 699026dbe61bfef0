"""What the page shows of a round equals the tables of the run, and what the state says."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from flowcontrol.records import RESULTS
from flowcontrol.results.running import step
from flowcontrol.run.emulate import emulate
from flowcontrol.stepview.film import film
from flowcontrol.stepview.shown import leaves, shown_state
from modules import load

jobs = load("tests/stepview/jobs.py")

FIGURES = [
    column.name
    for column in RESULTS["channels"].columns
    if column.name not in {"t_s", "edge", "sender", "receiver"}
]

RUNS = [
    ("FORWARD", {"system": "flink"}),
    ("FORWARD", {"system": "flink-1.4"}),
    ("BARRIERS", {"system": "flink"}),
    ("BARRIERS", {"system": "arroyo", "options": {}}),
]


@pytest.mark.parametrize(("name", "changes"), RUNS, ids=lambda value: str(value)[:40])
def test_figures_of_channels_are_those_of_the_table(
    name: str, changes: dict[str, Any], tmp_path: Any
) -> None:
    mapping = {**getattr(jobs, name), "round_ms": 5, **changes}
    run = emulate(mapping, clock="virtual", out=tmp_path / "run", quiet=True)
    job = jobs.job_of(mapping)
    own = film("own", job, step(job), 0)
    rows = run.tables["channels"].to_pylist()
    assert len({row["t_s"] for row in rows}) == 12
    is_used = set()
    for row in rows:
        state = own.states[round(row["t_s"] * 1e6) // job.round_us - 1]
        channel = state["channels"][f"{row['edge']}:{row['sender']}:{row['receiver']}"]
        assert {f: channel[f] for f in FIGURES} == {f: row[f] for f in FIGURES}, row
        is_used |= {figure for figure in FIGURES if row[figure]}
    assert {"sent", "consumed", "queued", "in_flight_bytes"} <= is_used


def test_every_buffer_is_a_cell() -> None:
    """Cells of a channel add up to its counters, and those of a gate to its pools."""
    job = jobs.job_of(jobs.BARRIERS)
    met = set()
    for state in jobs.film_of(job, 0, 700).states:
        for name, channel in state["channels"].items():
            waiting = [cell for cell in channel["out"] if cell[0] == "finished"]
            wire = [cell for cell in channel["wire"] if cell[0] == "wire"]
            queued = [cell for cell in channel["queue"] if cell[0] in {"exclusive", "floating"}]
            reading = (channel["reading"] or ["none"])[0]
            free = channel["exclusive_free"] + channel["floating_free"]
            if name in {"A->B:1:0", "A->B:1:1"}:
                assert not wire, name
                assert not queued, name
                assert not channel["floating_free"], name
                met.add("local") if channel["queue"] else None
                continue
            in_use = len(queued) + (reading in {"exclusive", "floating"})
            told = sum(cell[1] for cell in channel["told"] if cell[0] == "AddCredit")
            assert channel["credit"] + told + len(wire) + in_use >= 2
            assert free + in_use == 2 + channel["floating_held"], name
            assert channel["credit"] + told + len(wire) == free
            met |= {cell[0] for cell in channel["out"] + channel["wire"] + channel["queue"]}
            met |= {"told"} if told else set()
            met |= {"waits"} if len(waiting) > 5 else set()
        for gate in state["gates"].values():
            assert gate["in_use"] <= gate["size"] == 8
    assert met >= {"open", "finished", "wire", "exclusive", "floating", "overtaking", "told"}
    assert "waits" in met


def test_a_state_has_the_same_figures_in_every_round() -> None:
    job = jobs.job_of(jobs.BARRIERS)
    states = islice(step(job), 0, None, 97)
    paths = [[path for path, _ in leaves(shown_state(job, state))] for state in states]
    assert len(paths) > 10
    assert all(own == paths[0] for own in paths)
