"""The virtual clock of this checkout beside that of an older commit, alternating in one run.

    python bench/virtual_beside.py [REVISION] [--repeats 7]

The older commit is the one before issue 18 unless another is given.

1. A chain of three stages, four stages of eight subtasks with every feature on, and the first two
   minutes of conf/payments.yaml, 60,000 records/s: processor time of a run whose kernel is
   compiled, medians and quartiles. Each run is a process of its own.
2. What the first run of a job under credits takes where nothing is compiled: imports, compilation
   and two emulated seconds, processor time.

The older commit is checked out into a temporary folder; both use this Python and its libraries,
and each a kernel cache of its own. Exits with 1 if the chain is more than 5 % slower, if the wide
job is not 1.7 times as quick, or if the first run takes more than 15 s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measured import note

ROOT = Path(__file__).resolve().parent.parent

PAYMENTS = f"load_scenario({str(ROOT / 'conf' / 'payments.yaml')!r}, overrides=('duration_s=120',))"
JOBS = {"chain": "chain(400.0, round_ms=1)", "4 x 8": "wide(16.0)", "payments": PAYMENTS}
TIMED = """
import time
from flowcontrol.scenario import load_scenario
from virtual_jobs import chain, wide
try:
    from flowcontrol.layout.physical_graph import build_physical_graph
except ImportError:  # older commits have it here
    from flowcontrol.job import build_physical_graph
from flowcontrol.virtual import run_job
from flowcontrol.virtual.choose import choose_round_us
scenario = {job}
job = build_physical_graph(scenario, round_us=choose_round_us(scenario))
run_job(job)
began = time.process_time()
transfers = run_job(job).transfers
print(time.process_time() - began, transfers)
"""
FIRST = """
import time
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual import simulate
simulate(load_scenario("conf/experiment.yaml", overrides=("duration_s=2",)))
print(time.process_time(), 0)
"""
BEFORE = "e7f4c756"
"""The commit before issue 18."""
SLOWER = 1.05
QUICKER = 1.7
FIRST_S = 15.0


def measured(tree: Path, cache: Path, code: str) -> float:
    """Run code on a checkout; return the processor time that it prints, s."""
    paths = os.pathsep.join([str(tree), str(tree / "bench")])
    env = {**os.environ, "PYTHONPATH": paths, "FLOWCONTROL_CACHE": str(cache)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0])


def quartiles(values: list[float]) -> str:
    """Return median and quartiles as text."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:8.3f} ({low:.3f} to {high:.3f})"


def compare(trees: dict[str, Path], code: str, folder: Path, repeats: int) -> dict[str, float]:
    """Print what a piece of code takes on each checkout; return the medians, s."""
    found: dict[str, list[float]] = {name: [] for name in trees}
    for number in range(repeats):
        for name, tree in trees.items():
            fresh = code is FIRST
            cache = folder / f"cache-{name}-{number}" if fresh else folder / f"cache-{name}"
            found[name].append(measured(tree, cache, code))
    for name, values in found.items():
        print(f"  {name:12}{quartiles(values)} s", flush=True)
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "revision", nargs="?", default=BEFORE, help="a commit of this repository (%(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as name:
        folder, old = Path(name), Path(name) / "old"
        add = [*git, "add", "--quiet", "--detach", str(old), options.revision]
        subprocess.run(add, check=True)
        try:
            trees = {options.revision: old, "this": ROOT}
            ratios = {}
            for job, call in JOBS.items():
                print(f"{job}, processor time of a run")
                found = compare(trees, TIMED.format(job=call), folder, options.repeats)
                ratios[job] = found[options.revision] / found["this"]
                print(f"  {ratios[job]:.3f} times as quick")
                goal = QUICKER if job == "4 x 8" else None
                note(job, ratios[job], "times as quick", beside=options.revision, goal=goal)
            print("first run of conf/experiment.yaml for 2 s, nothing compiled")
            first = compare(trees, FIRST, folder, max(2, options.repeats // 3))["this"]
            what = "first run where nothing is compiled"
            note(what, first, "s of processor time", goal=FIRST_S, is_met="at most")
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    is_slow = ratios["chain"] * SLOWER < 1 or ratios["4 x 8"] < QUICKER
    return int(is_slow or first > FIRST_S)


if __name__ == "__main__":
    sys.exit(main())
