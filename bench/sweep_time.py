"""How long a sweep of many variants takes, from the command to its report.

    python bench/sweep_time.py [--variants 10000] [--cores 2] [--repeats 1]

The variants of conf/three-stages.yaml: rates of its sink while it is slow, and buffers a channel.
A sweep is a command of its own, with its start, check, table and report: on Spark, and in
processes without Spark. Only the kernel is compiled before. The goal: two minutes on two cores.
Printed besides is the processor time of a variant in processes, which does not depend on what else
runs; that of Spark's Python workers nobody waits for, so it is not known here.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import note

from flowcontrol.experiments.executor import warm_up
from flowcontrol.memory.parts import EVERYTHING

ROOT = Path(__file__).resolve().parent.parent
GOAL_S = 120.0
FOR_VARIANTS = 10_000
BUFFERS = 20


def command(variants: int, cores: int, folder: Path, *, on_spark: bool) -> list[str]:
    """Return the command of a sweep of so many variants; a multiple of 20."""
    rates = variants // BUFFERS
    vary = [
        f"stages.sink.service_rate.1.rate=100:{99 + rates}:{rates}",
        "options.taskmanager.network.memory.buffers-per-channel="
        + ",".join(str(count) for count in range(2, 2 + BUFFERS)),
    ]
    start = (
        [str(ROOT / "spark-submit.sh"), "--master", f"local[{cores}]", "pipelines/sweep.py"]
        if on_spark
        else [sys.executable, "-m", "flowcontrol", "sweep", "--processes", str(cores)]
    )
    vary_words = [word for one in vary for word in ("--vary", one)]
    return [*start, "conf/three-stages.yaml", *vary_words, "--out", str(folder), "--quiet"]


def run(variants: int, cores: int, *, on_spark: bool) -> tuple[float, float]:
    """Run a sweep; return its seconds, and the processor time of all its processes, s."""
    with tempfile.TemporaryDirectory(prefix="flowcontrol-bench-") as name:
        words = command(variants, cores, Path(name) / "sweep", on_spark=on_spark)
        before, began = _cpu_s(), time.monotonic()
        subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - began, _cpu_s() - before


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--variants", type=int, default=FOR_VARIANTS)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", choices=["spark", "processes"])
    options = parser.parse_args()
    warm_up(EVERYTHING)
    is_met = True
    for name, on_spark in (("spark", True), ("processes", False)):
        if options.only not in {None, name}:
            continue
        variants, cores = options.variants, options.cores
        runs = [run(variants, cores, on_spark=on_spark) for _ in range(options.repeats)]
        took, cpu = (statistics.median(column) for column in zip(*runs, strict=True))
        each_ms = 1000 * cpu / variants
        where = f"local[{cores}]" if on_spark else f"{cores} processes"
        used = "" if on_spark else f", {each_ms:.1f} ms of processor time a variant"
        print(f"{variants:,} variants, {where}: {took:.1f} s{used}, all included", flush=True)
        goal = GOAL_S * variants / FOR_VARIANTS if cores == 2 else None
        what = f"{variants:,} variants of conf/three-stages.yaml, {where}"
        note(what, took, "s", goal=goal, is_met="at most")
        if not on_spark:
            note(f"{where}: processor time of a variant, all included", each_ms, "ms")
        is_met &= goal is None or took <= goal
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
