"""A search of 200 runs beside the grid of all 2,000 points, on three scenarios of different kinds.

    python bench/tuning.py [--runs 200] [--seeds 5] [--replayed] [--out out/bench-tuning]

For each scenario a sweep runs every point, and searches with several seeds choose from the same
points. Printed are the best that the grid has and the best of the searches (median, and the worst
seed), for one objective with constraints, and the hypervolume of the front of two objectives as a
share of the grid's. The search with the first seed runs for real; those with further seeds read
what the grid's runs have found, which the first one shows to be the same, point by point. An
interrupted grid goes on where it was. Exit status 1 if a median is worse than the grid.

The goal: at least as good as the grid on all three.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.sweep import sweep
from flowcontrol.experiments.sweep.plan import Point
from flowcontrol.experiments.tune import tune
from flowcontrol.experiments.tune.goals import figures_of
from flowcontrol.experiments.tune.judge import Verdict, axes_of, kept_measures
from flowcontrol.experiments.tune.plan import TunePlan, make_tune_plan
from flowcontrol.experiments.tune.search import Outcome, explore

TM = "taskmanager.network.memory."
EXCLUSIVE = f"options.{TM}buffers-per-channel"
FLOATING = f"options.{TM}floating-buffers-per-gate"
DEBLOATING = f"options.{TM}buffer-debloat.enabled"
SEGMENT = "options.taskmanager.memory.segment-size"
TIMEOUT = "options.execution.buffer-timeout.interval"
INTERVAL = "options.execution.checkpointing.interval"
UNALIGNED = "options.execution.checkpointing.unaligned.enabled"
FLOATS = "1,2,3,4,6,8,12,16,24,32"


def edge(sender: str, receiver: str, partitioner: str = "rebalance", **more: Any) -> dict[str, Any]:
    """Return an edge as a file has it."""
    return {"from": sender, "to": receiver, "partitioner": partitioner, **more}


CHAIN: dict[str, Any] = {
    "schema": 1,
    "name": "chain",
    "duration_s": 6,
    "round_ms": 5,
    "sample_interval_s": 1,
    "cluster": {"task_managers": 3, "network_latency_ms": 5},
    "options": {},
    "stages": [
        {"name": "source", "emit_rate": 1000, "record_bytes": 2000},
        {"name": "map", "service_rate": 1500, "selectivity": 0.5, "record_bytes": 4000},
        {
            "name": "sink",
            "service_rate": [
                {"at_s": 0, "rate": 600},
                {"at_s": 2, "rate": 450},
                {"at_s": 4, "rate": 600},
            ],
        },
    ],
    "edges": [edge("source", "map"), edge("map", "sink")],
}
"""A chain whose sink slows down for a while: buffers, floating ones, timeout, segment size."""

KEYS = {"kind": "zipf", "keys": 100, "exponent": 0.8}
SKEWED: dict[str, Any] = {
    "schema": 1,
    "name": "skewed",
    "duration_s": 6,
    "round_ms": 10,
    "sample_interval_s": 1,
    "cluster": {"task_managers": 2, "network_latency_ms": 5},
    "options": {"execution.buffer-timeout.interval": "20ms"},
    "stages": [
        {"name": "source", "emit_rate": 1000, "record_bytes": 1000},
        {"name": "workers", "service_rate": 300},
        {
            "name": "sink",
            "parallelism": 4,
            "service_rate": [
                {"at_s": 0, "rate": 600},
                {"at_s": 2, "rate": 360},
                {"at_s": 3, "rate": 600},
            ],
        },
    ],
    "edges": [edge("source", "workers"), edge("workers", "sink", "hash", key_distribution=KEYS)],
}
"""Skewed keys behind workers: parallelism, partitioner, debloating, buffers."""

CHECKPOINTED: dict[str, Any] = {
    "schema": 1,
    "name": "checkpointed",
    "duration_s": 12,
    "round_ms": 20,
    "sample_interval_s": 1,
    "cluster": {"task_managers": 2, "network_latency_ms": 5},
    "options": {
        "taskmanager.memory.segment-size": "4kb",
        "execution.buffer-timeout.interval": "20ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "500ms",
    },
    "stages": [
        {"name": "source", "total_rate": 800, "record_bytes": 1000, "placement": [0]},
        {"name": "map", "parallelism": 2, "total_rate": 1500, "placement": [0, 1]},
        {
            "name": "sink",
            "parallelism": 2,
            "total_rate": [
                {"at_s": 0, "rate": 1200},
                {"at_s": 2, "rate": 600},
                {"at_s": 5, "rate": 1200},
            ],
            "placement": [0, 1],
        },
    ],
    "edges": [edge("source", "map"), edge("map", "sink")],
    "failures": [{"at_s": 7, "task_manager": 1}],
}
"""Checkpoints, a slow phase and a failure: interval, alignment, buffers."""


@dataclass(frozen=True)
class Case:
    """A scenario, what is varied, and what is good.

    Attributes
    ----------
    scenario : dict
        As a file has it.
    vary : dict of str to str
        Values of each key, 2,000 combinations.
    limits : tuple of str
        Constraints of the search for the least memory.
    second : tuple of str
        What stands beside the least memory in the search for a front.
    front_limits : tuple of str
        Constraints of that search.
    """

    scenario: dict[str, Any]
    vary: dict[str, str]
    limits: tuple[str, ...]
    second: tuple[str, str]
    front_limits: tuple[str, ...]


CASES = {
    "chain": Case(
        CHAIN,
        {
            EXCLUSIVE: "1:10:10",
            FLOATING: FLOATS,
            TIMEOUT: "5ms,10ms,20ms,50ms,100ms",
            SEGMENT: "4kb,8kb,16kb,32kb",
        },
        ("sink.latency_p99_ms<=100", "sink.rate_in>=485"),
        ("maximise", "sink.rate_in"),
        ("sink.latency_p99_ms<=200",),
    ),
    "skewed": Case(
        SKEWED,
        {
            "stages.workers.parallelism": "3:12:10",
            "edges.0.partitioner": "rebalance,shuffle",
            DEBLOATING: "true,false",
            EXCLUSIVE: "1:10:10",
            FLOATING: "1,4,8,16,32",
        },
        ("sink.latency_p99_ms<=150", "sink.rate_in>=990"),
        ("minimise", "sink.latency_p99_ms"),
        ("sink.rate_in>=990",),
    ),
    "checkpointed": Case(
        CHECKPOINTED,
        {
            INTERVAL: "500ms,700ms,1s,1500ms,2s,2500ms,3s,3500ms,4s,5s",
            UNALIGNED: "true,false",
            EXCLUSIVE: "1:10:10",
            FLOATING: FLOATS,
        },
        ("checkpoint_e2e_p50_ms<=300", "records_reprocessed<=1500", "sink.rate_in>=600"),
        ("minimise", "checkpoint_e2e_p50_ms"),
        ("records_reprocessed<=1500", "sink.rate_in>=600"),
    ),
}
MEMORY = ("minimise", "memory")


def key_of(point: Point) -> str:
    """Return a point as a key of a dict."""
    return json.dumps(point)


def grid_of(case: Case, plans: Sequence[TunePlan], out: Path) -> dict[str, Outcome]:
    """Run every point of a case; return what became of each, with the figures of some plans."""
    swept = sweep(case.scenario, case.vary, out=out, processes=1)
    columns = [varied.column for varied in swept.plan.varied]
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in swept.table.to_pylist():
        rows.setdefault(json.dumps([row[name] for name in columns]), []).append(row)
    measures = [measure for plan in plans for measure in kept(plan)]
    found = {}
    for point in swept.plan.points():
        typed = [v.typed(value) for v, value in zip(swept.plan.varied, point, strict=True)]
        own = rows[json.dumps(typed)]
        scenario, figures = swept.plan.scenario(point), figures_of(own)
        values = {one.name: one.value(scenario, figures) for one in measures}
        found[key_of(point)] = Outcome(point, own[0]["variant"], values, own[0]["bottleneck"])
    return found


def kept(plan: TunePlan) -> Sequence[Any]:
    """Return the figures that a search keeps."""
    return kept_measures(plan.goals, axes_of(plan.goals, plan.example), plan.example)


def planned(case: Case, objectives: Sequence[Any], limits: Sequence[str], **more: int) -> TunePlan:
    """Return the plan of a search of a case."""
    return make_tune_plan(varied_base(case.scenario), case.vary, objectives, limits, **more)


def judged(plan: TunePlan, outcomes: Sequence[Outcome]) -> Verdict:
    """Judge some points by the goals of a plan."""
    return Verdict(plan.goals, axes_of(plan.goals, plan.example), tuple(outcomes))


def replayed(plan: TunePlan, grid: dict[str, Outcome]) -> list[Outcome]:
    """Search with a plan, reading what the grid's runs have found."""
    return explore(plan, lambda points, most: [grid[key_of(one)] for one in points[:most]])


def volume(verdict: Verdict, worst: tuple[float, float]) -> float:
    """Return the area that a front dominates up to a point that is worse than all of it."""
    area, height = 0.0, worst[1]
    for one in verdict.front:
        x, y = (axis.cost(one) for axis in verdict.axes)
        if x < worst[0] and y < height:
            area += (worst[0] - x) * (height - y)
            height = y
    return area


def measure(name: str, case: Case, options: argparse.Namespace) -> bool:
    """Print a case; return whether the searches are as good as the grid."""
    more = {"runs": options.runs}
    single = [
        planned(case, [MEMORY], case.limits, seed=seed, **more)
        for seed in range(1, options.seeds + 1)
    ]
    double = [
        planned(case, [MEMORY, case.second], case.front_limits, seed=seed, **more)
        for seed in range(1, options.seeds + 1)
    ]
    began = time.monotonic()
    grid = grid_of(case, (single[0], double[0]), options.out / f"grid-{name}")
    took = time.monotonic() - began
    whole = judged(single[0], list(grid.values()))
    if whole.best is None:
        raise SystemExit(f"{name}: no point of the grid satisfies the constraints")
    least = whole.axes[0].cost(whole.best)
    print(
        f"\n{name}: grid of {len(grid):,} points ({took:.0f} s here), {options.runs} runs a search"
    )
    print(f"  minimise memory, {', '.join(case.limits)}: {len(whole.feasible):,} points satisfy it")
    founds = [replayed(plan, grid) for plan in single]
    if not options.replayed:
        check_real(case, options, founds[0], name)
    costs, firsts = [], []
    for plan, found in zip(single, founds, strict=True):
        verdict = judged(plan, found)
        costs.append(verdict.axes[0].cost(verdict.best) if verdict.best else float("inf"))
        firsts.append(found.index(verdict.best) + 1 if verdict.best else 0)
    print(f"    grid    {least:>12,.0f} bytes")
    print(
        f"    search  {statistics.median(costs):>12,.0f} bytes median, {max(costs):,.0f} worst of "
        f"{len(costs)} seeds; found in run {statistics.median(firsts):.0f} (median), "
        f"{max(firsts)} (last)"
    )
    front = judged(double[0], list(grid.values()))
    worst = tuple(max(axis.cost(one) for one in front.feasible) for axis in front.axes)
    whole_area = volume(front, (worst[0], worst[1]))
    shares = [
        volume(judged(plan, replayed(plan, grid)), (worst[0], worst[1])) / whole_area
        for plan in double
    ]
    print(
        f"  front of memory and {case.second[1]}, {', '.join(case.front_limits)}: "
        f"{len(front.front)} points"
    )
    print(
        f"    search  {statistics.median(shares):.4%} of the grid's hypervolume, median; "
        f"{min(shares):.4%} worst"
    )
    return statistics.median(costs) <= least


def check_real(
    case: Case, options: argparse.Namespace, replay: Sequence[Outcome], name: str
) -> None:
    """Search for real with the first seed; it must find what the replay does, point by point."""
    began = time.monotonic()
    found = tune(
        case.scenario,
        case.vary,
        minimise="memory",
        subject_to=case.limits,
        runs=options.runs,
        out=options.out / f"tune-{name}",
        processes=1,
    )
    took = time.monotonic() - began
    real = [(one.variant, one.values["memory"]) for one in found.verdict.outcomes]
    same = real == [(one.variant, one.values["memory"]) for one in replay]
    if not same:
        raise SystemExit(f"{name}: the search for real ran other points than its replay")
    print(f"    for real, seed 1: {len(real)} runs in {took:.0f} s, the points of its replay")


def main() -> int:
    """Measure all cases; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--replayed", action="store_true", help="run no search for real")
    parser.add_argument("--out", type=Path, default=Path("out/bench-tuning"))
    parser.add_argument("--only", choices=list(CASES), action="append")
    options = parser.parse_args()
    good = [measure(name, CASES[name], options) for name in options.only or CASES]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
