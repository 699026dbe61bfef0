"""A run whose rounds limit, and not its job, gets no verdict; one whose network does, has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flowcontrol import emulate, sweep, tune
from flowcontrol.analysis import Bottleneck, find_bottleneck, summarise
from flowcontrol.analysis.causes import find_causes
from flowcontrol.analysis.limits import find_limits
from flowcontrol.analysis.waits import ROUND, is_of_round
from flowcontrol.cli.main import main
from flowcontrol.experiments.advise import advise
from flowcontrol.experiments.capacity import capacity
from flowcontrol.experiments.compare import compare
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import choose_round_us, simulate


def scenario(
    round_ms: float | None = 100, *, task_managers: int = 2, latency_ms: float = 0.1, **keys: Any
) -> Scenario:
    """20,000 records/s of 1 kB, of which the sink takes 15,000.

    Ten buffers of 32 KiB in two rounds of 100 ms are some 1,640 of them, 327 in a latency of 1 s.
    """
    mapping: dict[str, Any] = {
        "schema": 1, "name": "coarse", "duration_s": 20, "round_ms": round_ms,
        "sample_interval_s": 1,
        "cluster": {"task_managers": task_managers, "slots": 2, "network_latency_ms": latency_ms},
        "stages": [{"name": "source", "emit_rate": 20_000, "record_bytes": 1000},
                   {"name": "sink", "service_rate": 15_000}],
        "edges": [{"from": "source", "to": "sink", "partitioner": "forward"}],
        **keys,
    }  # fmt: skip
    return parse_scenario({key: value for key, value in mapping.items() if value is not None})


def verdict(of: Scenario) -> Bottleneck:
    run = simulate(of)
    return find_bottleneck(run.tables, of, round_us=run.round_us)


@pytest.mark.parametrize("system", ["flink", "flink-1.4", "rabbitmq"])
@pytest.mark.parametrize("task_managers", [1, 2])
def test_rounds_that_limit_give_no_verdict(system: str, task_managers: int) -> None:
    """With the rounds that the clock chooses the sink limits, by the rates alone."""
    found = verdict(scenario(task_managers=task_managers, system=system))
    assert (found.stage, found.edge, found.throttle) == (None, None, None)
    assert found.is_of_round
    assert found.sentence.startswith("No verdict: rounds of 100 ms limited this run in ")
    assert verdict(scenario(None, task_managers=task_managers, system=system)).stage == "sink"


@pytest.mark.parametrize("round_ms", [1, 10, 50, 100])
def test_a_network_that_limits_has_its_verdict_whatever_the_rounds(round_ms: float) -> None:
    """A window in two latencies of 50 ms is 3,277 records/s, less than the sink takes."""
    found = verdict(scenario(round_ms, latency_ms=50))
    assert found.edge == "source->sink"
    assert not found.is_of_round


@pytest.mark.parametrize(
    ("stretch", "blocked", "busy", "expected"),
    [
        (1, 0.9, 0.89, False),  # as long as in the job
        (4, 0.75, 0.1, True),  # four times the records are what the sender has
        (3.9, 0.75, 0.1, False),
        (4, 0.9, 0.25, True),  # four times the records are what the receiver takes
        (4, 0.9, 0.24, False),
        (float("inf"), 0.9, 0.1, True),
        (float("inf"), 1.0, 0.0, False),  # nothing moves: no round trip is waited for
    ],
)
def test_a_trip_that_is_shorter_by_as_much_as_is_missing_does_not_limit(
    stretch: float, blocked: float, busy: float, expected: bool
) -> None:
    assert is_of_round(stretch, blocked, busy) is expected


def test_rounds_that_limit_for_a_part_of_the_run_falsify_all_of_it() -> None:
    """The sink limits for 15 s; of the 5 s after it only the rounds do."""
    own = scenario()
    rates = [{"at_s": 0, "rate": 500}, {"at_s": 15, "rate": 15_000}]
    stages = [{"name": "source", "emit_rate": 20_000, "record_bytes": 1000},
              {"name": "sink", "service_rate": rates}]  # fmt: skip
    own = scenario(stages=stages)
    run = simulate(own)
    found = find_bottleneck(run.tables, own)
    assert found.is_of_round
    assert 4 <= found.limited_s <= 6
    assert find_causes(run.tables, own) == []
    assert [one.cause for one in find_causes(run.tables, scenario(stages=stages, round_ms=1))]


def test_rounds_that_limit_another_branch_leave_the_verdict_as_it_is() -> None:
    """One branch waits for its rounds, as before; in the other a sink of 500/s limits."""
    own = scenario()
    stages = [*own.canonical()["stages"], {"name": "other", "emit_rate": 1000},
              {"name": "slow", "service_rate": 500}]  # fmt: skip
    edges = [{"from": "source", "to": "sink"}, {"from": "other", "to": "slow"}]
    own = scenario(
        stages=[{key: one[key] for key in one if key != "placement"} for one in stages],
        edges=[{**edge, "partitioner": "forward"} for edge in edges],
        cluster={"task_managers": 2, "slots": 2, "network_latency_ms": 0.1},
    )
    run = simulate(own)
    limits = find_limits(run.tables, own)
    assert sum(names == ["slow", ROUND] for _, names in limits) > 10
    assert find_bottleneck(run.tables, own, limits).stage == "slow"
    assert [one.stage for one in find_causes(run.tables, own, limits)] == ["slow"]


def test_the_live_clocks_own_rounds_count_too() -> None:
    """Rounds of 500 ms, which no scenario states."""
    run = simulate(scenario(None), round_us=500_000)
    own = scenario(None)
    found = summarise(run.tables, own, clock="live", rounds=40, wall_s=1.0, round_ms=500.0)
    assert found["bottleneck"] is None
    assert found["bottleneck_detail"]["is_of_round"]
    assert found["causes"] == []


def test_the_run_says_so_alone_and_offers_the_chosen_rounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "coarse.yaml", tmp_path / "out"
    options = {"execution.checkpointing.interval": "1s"}
    file.write_text(scenario(options=options).to_yaml())
    command = ["emulate", str(file), "--clock", "virtual", "--quiet", "--out", str(out)]
    assert main(command) == 0
    text = " ".join(capsys.readouterr().out.split())
    _, _, said = text.partition("No verdict: ")
    assert said.startswith("rounds of 100 ms limited this run in all 20 s, not its job.")
    chosen = f"{choose_round_us(scenario(None, options=options)) / 1000:g} ms"
    assert said.partition(" report: ")[0].endswith(
        f"Leave round_ms out (--set round_ms=null), and the virtual clock takes rounds of {chosen}."
    )
    summary = json.loads((out / "summary.json").read_text())
    assert "advice" not in summary
    assert "remedies" not in summary["checkpoints"]
    page = (out / "report.html").read_text()
    assert "What would help" not in page
    assert "What the pools say" not in page
    assert main([*command, "--set", "round_ms=null", "--no-advice", "--overwrite"]) == 0
    assert "Bottleneck: sink" in capsys.readouterr().out


def test_rounds_that_do_not_limit_are_not_mentioned(tmp_path: Path) -> None:
    run = emulate(scenario(1), clock="virtual", out=tmp_path / "out", quiet=True)
    assert run.summary["bottleneck"] == "sink"
    assert "round" not in run.sentence


def test_advice_is_on_the_job_and_not_on_its_rounds(tmp_path: Path) -> None:
    found = advise(scenario(), out=tmp_path / "out", quiet=True)
    assert found.limits == "sink"
    assert found.before.throughput == pytest.approx(15_000, rel=0.01)
    assert "exclusive" not in found.proposals[0].change.name
    assert "subtasks of sink" in found.proposals[0].change.name


def test_a_capacity_is_that_of_the_job() -> None:
    found = capacity(scenario(), "source", quiet=True)
    assert float(found.rate) == pytest.approx(15_000, rel=0.01)
    assert found.limit is not None
    assert found.limit.stage == "sink"


def test_a_comparison_is_of_the_systems_and_not_of_the_rounds(tmp_path: Path) -> None:
    found = compare(
        scenario(), systems=["flink", "rabbitmq"], processes=1, out=tmp_path / "out", quiet=True
    )
    for outcome in found.outcomes:
        assert outcome.figures is not None
        assert outcome.figures.of_limit == pytest.approx(1, abs=0.01)


def test_a_sweep_names_the_rounds_and_a_search_begins_with_them(tmp_path: Path) -> None:
    """Sixteen times the buffers carry what the sink takes; fewer do not, in such rounds."""
    key = "options.taskmanager.network.memory.buffers-per-channel"
    options = {"taskmanager.network.memory.max-buffers-per-channel": 1000}
    own = scenario(options=options)
    swept = sweep(own, {key: [2, 200]}, out=tmp_path / "sweep", processes=1, quiet=True)
    rows = swept.table.to_pandas().groupby("buffers_per_channel")["bottleneck"].unique()
    assert {key: list(names) for key, names in rows.items()} == {2: [ROUND], 200: ["sink"]}
    found = tune(
        own, {key: [2, 200]}, minimise="memory",
        out=tmp_path / "tune", processes=1, quiet=True,
    )  # fmt: skip
    assert found.sentence.startswith("2 of 3 runs were limited by the length of their rounds")
