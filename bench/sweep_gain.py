"""What a sweep gains on two cores over one, beside what two processes gain over one.

    ./spark-submit.sh bench/sweep_gain.py [--variants 120] [--repeats 5]

The same variants four times a repeat, in turn: in one process, shared out to two that know nothing
of each other, as a sweep on Spark with one core and with two. Every run is a process of its own;
its time starts when everything is loaded and ends with its last variant, a sweep's with its table
and report. Gains are ratios of medians. The goal: the sweep's is at least 0.9 of the processes'.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measured import note

from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.executor import warm_up
from flowcontrol.experiments.sweep import sweep
from flowcontrol.experiments.sweep.plan import make_plan
from flowcontrol.experiments.sweep.store import run_variant
from flowcontrol.experiments.sweep.variants import check_variants, into_chunks
from flowcontrol.memory.parts import EVERYTHING

ROOT = Path(__file__).resolve().parent.parent

GOAL = 0.9

SCENARIO: dict[str, Any] = {
    "schema": 1,
    "name": "gain",
    "duration_s": 60,
    "round_ms": 1,
    "sample_interval_s": 1,
    "stages": [
        {"name": "source", "parallelism": 2, "emit_rate": 5000, "record_bytes": 1000},
        {"name": "map", "parallelism": 2, "service_rate": 8000},
        {"name": "sink", "parallelism": 2, "service_rate": 6000},
    ],
    "edges": [
        {"from": "source", "to": "map", "partitioner": "rebalance"},
        {"from": "map", "to": "sink", "partitioner": "rebalance"},
    ],
}


def vary(variants: int) -> dict[str, Any]:
    """Return the keys of a number of variants; their costs differ by the rates."""
    return {"stages.sink.service_rate": [1000 + 100 * number for number in range(variants)]}


def run_share(variants: int, share: int, shares: int) -> float:
    """Run a share of the variants in this process; return the seconds."""
    plan = make_plan(varied_base(SCENARIO), list(vary(variants).items()))
    checked = check_variants(plan)
    shuffled = [variant for chunk in into_chunks(checked, 1, 1) for variant in chunk]
    run_variant(plan, shuffled[0], None)
    wait_for_start()
    began = time.monotonic()
    for variant in shuffled[share::shares]:
        run_variant(plan, variant, None)
    return time.monotonic() - began


def run_sweep(variants: int, cores: int) -> float:
    """Sweep on Spark with a number of cores; return the seconds."""
    from pyspark.sql import SparkSession

    settings = "--conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--master local[{cores}] {settings} pyspark-shell"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_CONF_DIR"] = str(ROOT / "flowcontrol" / "spark" / "conf")
    spark = SparkSession.builder.getOrCreate()
    root = Path(tempfile.mkdtemp(prefix="flowcontrol-bench-"))
    try:
        sweep(SCENARIO | {"duration_s": 1}, vary(8), out=root / "first", spark=spark)
        wait_for_start()
        began = time.monotonic()
        sweep(SCENARIO, vary(variants), out=root / "gain", spark=spark)
        return time.monotonic() - began
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


def wait_for_start() -> None:
    """Say that everything is loaded, and wait until all others are as far."""
    print("ready", flush=True)
    sys.stdin.readline()


def timed(*children: list[str]) -> float:
    """Run children at the same time; return the seconds of the one that took longest."""
    command = [sys.executable, str(Path(__file__).resolve())]
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen([*command, *words], stdin=pipe, stdout=pipe, text=True)
        for words in children
    ]
    for child in started:
        if child.stdout is None or child.stdout.readline() != "ready\n":
            raise SystemExit("a child failed")
    for child in started:
        if child.stdin is not None:
            child.stdin.write("go\n")
            child.stdin.close()
    return max(float(child.stdout.read()) for child in started if child.stdout is not None)


def compare(variants: int, repeats: int) -> float:
    """Print every repeat and the medians; return the ratio of the gains."""
    count = ["--variants", str(variants)]
    runs = {
        "1 process": [[*count, "--share", "0/1"]],
        "2 processes": [[*count, "--share", "0/2"], [*count, "--share", "1/2"]],
        "sweep, 1 core": [[*count, "--cores", "1"]],
        "sweep, 2 cores": [[*count, "--cores", "2"]],
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    print(f"{variants} variants, seconds")
    print("  ".join(f"{name:>14}" for name in runs))
    for _ in range(repeats):
        for name, children in runs.items():
            times[name].append(timed(*children))
        print("  ".join(f"{times[name][-1]:>14.2f}" for name in runs), flush=True)
    one, two, sweep_one, sweep_two = (statistics.median(times[name]) for name in runs)
    peer, ours = one / two, sweep_one / sweep_two
    print(f"median gain of two processes {peer:.2f}, of the sweep {ours:.2f}")
    note(
        f"{variants:,} variants",
        ours / peer,
        "times",
        beside=f"two processes, {peer:.2f}",
        goal=GOAL,
    )
    print(f"ratio {ours / peer:.2f} (goal: at least {GOAL})")
    return ours / peer


def main() -> int:
    """Run the benchmark, or one of its children."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--share", help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.share:
        share, shares = map(int, options.share.split("/"))
        print(run_share(options.variants, share, shares))
        return 0
    if options.cores:
        print(run_sweep(options.variants, options.cores))
        return 0
    warm_up(EVERYTHING)
    return 0 if compare(options.variants, options.repeats) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
