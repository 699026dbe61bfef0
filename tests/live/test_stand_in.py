"""Jobs that only the long form runs on Spark, on the stand-in for it: the same ledgers and tables.

What Spark adds, queries and their checkpoints, is the same for every job; what a stage does in a
round is not, and runs here as it does there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import load_scenario
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
runs = load("tests/live/runs.py")

CONF = Path(__file__).resolve().parents[2] / "conf"

agrees: Any = load("tests/live/test_virtual_agrees.py")
systems: Any = load("tests/live/test_other_systems.py")

EVERYTHING = {"floating", "waiting", "no credit", "blocked"}
SEEN = {"local": {"blocked"}, "large": EVERYTHING, "rescale": EVERYTHING}
"""What a run of each case must have been through to count."""


SHARING = {
    "cpu-bound": {"duration_s": 2, "round_ms": 200},
    "head-of-line": {"duration_s": 3, "round_ms": 250},
    "shared-producer": {"duration_s": 3, "round_ms": 250},
    "word-count": {"duration_s": 2, "round_ms": 250},
}
"""Scenarios whose tasks share processors or connections, or are chains."""


@pytest.mark.parametrize("name", list(SEEN))
def test_a_case_runs_alike_on_both_clocks(name: str, tmp_path: Path) -> None:
    job = runs.job_of(getattr(cases, name.upper()))
    driver.Driver(job, tmp_path).run()
    ledgers = runs.assert_is_virtual(job, tmp_path)
    assert runs.saw(ledgers) == SEEN[name]
    came = runs.rows_in_order(tmp_path / "output" / "sink")
    due = [
        (edge.split("->")[0], sender, number)
        for (edge, sender, _), numbers in runs.delivered(job, ledgers).items()
        for number in numbers
    ]
    assert len(came) > 10
    assert sorted(came) == sorted(due)


@pytest.mark.parametrize("name", ["pid_rate", "hop_hysteresis", "aimd_rate", "static_admission"])
def test_another_system_runs_alike_on_both_clocks(name: str, tmp_path: Path) -> None:
    """Also after drivers that die while records wait in the logs of the sources."""
    job = runs.job_of({**cases.STAGES, "system": systems.SYSTEMS[name]})
    driver.Driver(job, tmp_path, driver.dying_in({4, 9})).run()
    ledgers = runs.assert_is_virtual(job, tmp_path)
    assert [row["sent"] for row in ledgers["source->map"] if row["side"] == "sender"][-1] > 0


@pytest.mark.parametrize("name", ["fan-in", "gc-pause", "two-sites"])
def test_a_scenario_runs_alike_on_both_clocks(name: str, tmp_path: Path) -> None:
    changed = agrees.SHORTENED[name]
    job = build_physical_graph(load_scenario(CONF / f"{name}.yaml", overrides=changed))
    driver.Driver(job, tmp_path).run()
    ledgers = runs.assert_is_virtual(job, tmp_path)
    assert runs.saw(ledgers) == EVERYTHING


@pytest.mark.parametrize("name", list(SHARING))
def test_what_tasks_share_is_alike_on_both_clocks(name: str, tmp_path: Path) -> None:
    """Also after a driver that dies in the middle."""
    job = build_physical_graph(load_scenario(CONF / f"{name}.yaml", overrides=SHARING[name]))
    driver.Driver(job, tmp_path, driver.dying_in({6})).run()
    ledgers = runs.assert_is_virtual(job, tmp_path)
    assert any(row["rows"] > 0 for rows in ledgers.values() for row in rows)
