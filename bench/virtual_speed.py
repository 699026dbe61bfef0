"""How quick the virtual clock is, beside SimPy and Ciw on the same job in the same run.

    python bench/virtual_speed.py [--repeats 5] [--seconds 20]

1. A chain of three stages on one core: buffer transfers per second of wall time, alternating,
   medians. A transfer is a buffer that went from one task to the next. SimPy has two forms: a store
   per buffer pool, and a leaner one with a store per edge (:mod:`simpy_chain`).
2. Four stages of eight subtasks with every feature on.
3. Cost of a channel in a round, and memory of a channel, from 1 to 1,000,000 channels; each in a
   process of its own.
4. A stretch in which nothing happens.

The compiled kernel is timed after one call that warms it up. Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import ciw_chain
import simpy_chain
from measured import note
from virtual_jobs import CHAIN, chain, idle, square, wide

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario
from flowcontrol.virtual import run_job
from flowcontrol.virtual.choose import choose_round_us

ROUND_MS = 1
"""Of the chain: 9 buffers a round and edge, where credit is for 32 in two rounds."""

RATIO_GOAL = 180
WIDE_GOAL = 20_000_000
AGREE = 0.02
"""Relative difference of two models' transfers per emulated second that is let pass: the first
moments, in which pools fill."""

_NOTED = 316
"""Squares from this side on are noted."""

SIDES = (1, 3, 10, 32, 100, 316, 1000)
CHANNEL_ROUNDS = 5_000_000
MOST_ROUNDS = 100_000
LEAST_ROUNDS = 20
FEW_ROUNDS = 10
FEW_GOAL_S = 3.0
"""Of a million channels: laying them out, and the first rounds."""

Runner = Callable[[], tuple[int, float]]


def run_all(scenario: Scenario) -> Run:
    """Run a scenario."""
    job = build_physical_graph(scenario, round_us=choose_round_us(scenario))
    return run_job(job)


def ours(scenario: Scenario) -> tuple[int, float]:
    """Run a scenario; return its transfers and the seconds that the whole call took."""
    began = time.perf_counter()
    run = run_all(scenario)
    return run.transfers, time.perf_counter() - began


def compare(seconds: float, repeats: int) -> bool:
    """Print transfers per second of the kernel and of its peers."""
    job = CHAIN._asdict()
    runners: dict[str, tuple[float, Runner]] = {
        "virtual clock": (50 * seconds, partial(ours, chain(50 * seconds, round_ms=ROUND_MS))),
        "its own round": (seconds, partial(ours, chain(seconds))),
        "SimPy": (seconds, partial(simpy_chain.run, seconds, **job)),
        "SimPy, lean": (seconds, partial(simpy_chain.run, seconds, **job, is_lean=True)),
        "Ciw": (seconds / 4, partial(ciw_chain.run, seconds / 4, **job)),
    }
    own = run_all(chain(1.0))  # compiles, or loads what was compiled
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in runners}
    for _ in range(repeats):
        for name, (_, run) in runners.items():
            found[name].append(run())
    speed = {
        name: statistics.median(done / took for done, took in results)
        for name, results in found.items()
    }
    print(f"three stages, medians of {repeats}, alternating; rounds of {ROUND_MS:g} ms, or of the")
    print(f"{own.round_us / 1000:g} ms that the clock chooses when none is stated")
    print(f"{'':<16}{'transfers/s':>14}{'per emulated s':>16}{'virtual clock is':>18}")
    flows = {name: found[name][0][0] / emulated for name, (emulated, _) in runners.items()}
    for name, value in speed.items():
        factor = speed["virtual clock"] / value
        print(f"{name:<16}{value:>14,.0f}{flows[name]:>16,.0f}{factor:>14,.0f} x")
    ratio = speed["virtual clock"] / speed["SimPy"]
    lean = speed["virtual clock"] / speed["SimPy, lean"]
    agree = all(abs(flow / flows["SimPy"] - 1) < AGREE for flow in flows.values())
    print(f"goal: {RATIO_GOAL} x SimPy: {ratio:,.0f} x, lean {lean:,.0f} x")
    note("three stages", ratio, "times", beside="SimPy", goal=RATIO_GOAL)
    note("three stages", lean, "times", beside="the leanest form of it in SimPy")
    ciw = speed["virtual clock"] / speed["Ciw"]
    note("three stages", ciw, "times", beside="Ciw")
    note("three stages", speed["virtual clock"] / 1e6, "million buffers/s")
    if not agree:
        print(f"the models do not move the same buffers: {flows}")
    return agree and ratio >= RATIO_GOAL


def run_wide(repeats: int) -> bool:
    """Print transfers per second of four stages of eight subtasks."""
    run_all(wide(0.1))
    results = [ours(wide(2.0)) for _ in range(repeats)]
    value = statistics.median(done / took for done, took in results)
    print(
        f"\n4 stages x 8 subtasks, every feature on: {value:,.0f} transfers/s of {results[0][0]:,}"
    )
    print(f"goal: {WIDE_GOAL:,}")
    what = "4 stages of 8 subtasks, every feature on"
    note(what, value / 1e6, "million buffers/s", goal=WIDE_GOAL / 1e6)
    return value >= WIDE_GOAL


def measure_square(side: int) -> None:
    """Print one line of the table; run in a process of its own, for the memory."""
    channels = side * side
    rounds = max(LEAST_ROUNDS, min(MOST_ROUNDS, CHANNEL_ROUNDS // channels))
    run_all(square(1, 10))
    before = peak_bytes()
    began = time.perf_counter()
    job = build_physical_graph(square(side, rounds), round_us=1000)
    laid_out_s = time.perf_counter() - began
    few = run_job(replace(job, rounds=FEW_ROUNDS))
    began = time.perf_counter()
    run = run_job(replace(job, rounds=FEW_ROUNDS + rounds))
    whole_s = time.perf_counter() - began
    grown = peak_bytes() - before
    step = 1e9 * (run.wall_s - few.wall_s) / (channels * rounds)
    moved = (run.transfers - few.transfers) / (channels * rounds)
    peak = f"{grown / channels:,.0f}" if grown > 0 else "-"
    print(
        f"{channels:>10,}{rounds:>9,}{step:>13.1f}{moved:>13.2f}{peak:>12}"
        f"{laid_out_s:>10.2f}{few.wall_s:>10.2f}{whole_s:>10.2f}",
        flush=True,
    )
    if side >= _NOTED:
        goal = FEW_GOAL_S if side == SIDES[-1] else None
        for what, took_s in (
            ("laying them out", laid_out_s),
            (f"the first {FEW_ROUNDS} rounds", few.wall_s),
        ):
            note(f"{channels:,} channels: {what}", took_s, "s", goal=goal, is_met="at most")


def peak_bytes() -> int:
    """Return the most memory that this process has held, bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run_squares() -> None:
    """Print the cost of a channel in a round, and the memory of a channel.

    Memory is what the process grew by, tables included; it is not seen beside what the compiler
    left when channels are few.
    """
    print("\ncost by number of channels, rounds of 1 ms, seconds of wall time")
    heads = ("rounds", "ns/ch-round", "moved/ch-r.", "bytes/ch.", "lay out", "10 rounds", "all")
    widths = (9, 13, 13, 12, 10, 10, 10)
    print(
        "  channels" + "".join(h.rjust(w) for h, w in zip(heads, widths, strict=True)), flush=True
    )
    for side in SIDES:
        subprocess.run([sys.executable, __file__, "--square", str(side)], check=True)


def run_idle(repeats: int) -> None:
    """Print what a stretch costs in which nothing happens."""
    busy = statistics.median(ours(idle(10, 10))[1] for _ in range(repeats))
    long = statistics.median(ours(idle(1000, 10))[1] for _ in range(repeats))
    print("\nchain, rounds of 1 ms, the source emits for 10 s")
    quiet_ns, busy_ns = (long - busy) / 990_000 * 1e9, busy / 10_000 * 1e9
    print(f"10 s emulated: {busy:.3f} s; 1,000 s emulated: {long:.3f} s")
    print(f"a round costs {quiet_ns:.1f} ns idle, {busy_ns:.0f} ns busy")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="emulated, of SimPy")
    parser.add_argument("--square", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.square:
        measure_square(options.square)
        return 0
    met = compare(options.seconds, max(3, options.repeats))
    met = run_wide(max(3, options.repeats)) and met
    run_squares()
    run_idle(3)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
