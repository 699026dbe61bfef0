"""What a lock-step round costs, beside what Spark itself takes for the same micro-batches.

    ./spark-submit.sh bench/micro_batch.py [--rounds 120] [--repeats 3] [--ahead] [--chain]
        [--long 2000]

Runs alternate between the measured job (two stages, 1, 4 and 16 channels) and its peer
(:mod:`handover`) in one session; each figure is the median over all rounds but the first ones
of each run. Beside it runs the plain chain: ``readStream.format("delta")`` -> foreachBatch Delta
append, which moves the same rows. ``--ahead`` compares a round of a job that runs four at once with
one of a job that runs them one by one, ``--chain`` a round of eight stages in a row with one of
two. ``--long N`` also runs N rounds and prints what a round and a ledger's commit cost in each
quarter. Spark is started as an emulation starts it.
"""
# Read by spark-submit.sh:
# many short jobs

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
sys.path.insert(0, HERE)
# The peer's reader runs in Spark's Python workers too, which inherit this environment.
os.environ["PYTHONPATH"] = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])

from handover import hand_over  # noqa: E402
from measured import note  # noqa: E402
from plain_chain import plain_chain  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from flowcontrol.layout.physical_graph import build_physical_graph  # noqa: E402
from flowcontrol.ledger.ledger import read_history  # noqa: E402
from flowcontrol.live.folder import RunPaths  # noqa: E402
from flowcontrol.run import emulate  # noqa: E402
from flowcontrol.scenario import Scenario, parse_scenario  # noqa: E402
from flowcontrol.spark.session import get_session  # noqa: E402

WARM_UP = 20
ROWS_PER_ROUND = 400
TARGET = 1.4
CHAIN, CHAIN_TARGET = 8, 3.0
AHEAD = 4


def scenario(width: int, rounds: int, stages: int = 2, ahead: int = 1) -> Scenario:
    """Return stages with ``width`` x ``width`` channels between two that never block.

    A message takes ``ahead`` rounds, and each stage has a task manager of its own.
    """
    between = [f"stage-{number}" for number in range(1, stages - 1)]
    names = ["source", *between, "sink"]
    return parse_scenario(
        {
            "schema": 1,
            "name": f"bench-{width * width}",
            "cluster": {"task_managers": stages, "network_latency_ms": 200 * ahead},
            "duration_s": rounds * 0.2,
            "round_ms": 200,
            "sample_interval_s": 10,
            "options": {
                "taskmanager.memory.segment-size": "4kb",
                "taskmanager.network.memory.buffers-per-channel": 16 * ahead,
                "taskmanager.network.memory.floating-buffers-per-gate": 16 * ahead,
                "taskmanager.network.memory.max-buffers-per-channel": 64 * ahead,
                "execution.buffer-timeout.interval": "200ms",
            },
            "stages": [
                {
                    "name": "source",
                    "parallelism": width,
                    "emit_rate": 5 * ROWS_PER_ROUND / width,
                    "record_bytes": 100,
                    "placement": [0] * width,
                },
                *(
                    {"name": name, "parallelism": width, "placement": [place] * width}
                    for place, name in enumerate(names[1:], 1)
                ),
            ],
            "edges": [
                {"from": one, "to": other, "partitioner": "rebalance"}
                for one, other in pairwise(names)
            ],
        }
    )


def lock_step(spark: SparkSession, folder: Path, measured: Scenario) -> list[float]:
    """Run the measured job; return the milliseconds of its rounds, without the first ones."""
    job = build_physical_graph(measured)
    emulate(job.scenario, out=folder, spark=spark)
    history = read_history(RunPaths(folder).ledger(job.links[-1])).to_pylist()
    times = {row["batch_id"]: row["committed_at"] for row in history if row["side"] == "receiver"}
    # The rounds of a batch are committed together.
    ended = sorted({time.timestamp() for time in times.values()})
    return [gap * len(ended) / job.rounds for gap in gaps_ms(ended)]


def gaps_ms(ended: list[float]) -> list[float]:
    """Milliseconds between the ends of two batches, without the first ones."""
    return [1000 * (b - a) for a, b in zip(ended[WARM_UP:], ended[WARM_UP + 1 :], strict=False)]


def compare(spark: SparkSession, root: Path, rounds: int, repeats: int) -> bool:
    """Print the ratio for 1, 4 and 16 channels; return whether all are within the target."""
    print(
        f"{'channels':>8} {'lock-step ms':>13} {'hand-over ms':>13} {'ratio':>6}  target {TARGET}"
    )
    within = True
    for width in (1, 2, 4):
        ours: list[float] = []
        peers: list[float] = []
        for repeat in range(repeats):
            name = f"{width}-{repeat}"
            rows = max(1, ROWS_PER_ROUND // width)
            peers += gaps_ms(hand_over(spark, root / f"peer-{name}", rounds, width, rows))
            ours += lock_step(spark, root / f"ours-{name}", scenario(width, rounds))
        left, right = statistics.median(ours), statistics.median(peers)
        within &= left / right <= TARGET
        print(f"{width * width:>8} {left:>13.0f} {right:>13.0f} {left / right:>6.2f}", flush=True)
        channels = f"{width * width} channel{'s' * (width > 1)}"
        beside = f"two queries alone, {right:.0f} ms"
        note(channels, left / right, "times", beside=beside, goal=TARGET, is_met="at most")
    plain = gaps_ms(plain_chain(spark, root / "plain", WARM_UP + 15, ROWS_PER_ROUND))
    print(f"plain Delta -> foreachBatch Delta append, 1 stage: {statistics.median(plain):.0f} ms")
    return within


def beside(
    spark: SparkSession,
    root: Path,
    jobs: tuple[Scenario, Scenario],
    repeats: int,
    names: str,
    goal: float | None = None,
) -> float:
    """Run two jobs in turn; print a round of each, and return how many times the other's one is."""
    found: tuple[list[float], list[float]] = [], []
    for repeat in range(repeats):
        for place, job in enumerate(jobs):
            found[place].extend(lock_step(spark, root / f"{place}-{repeat}", job))
    one, other = map(statistics.median, found)
    print(f"{names}: {one:.0f} and {other:.0f} ms a round, {one / other:.2f} times", flush=True)
    what, peer = names.split(", and ")
    of = f"{peer}, {other:.0f} ms a round"
    note(what, one / other, "times", beside=of, goal=goal, is_met="at most")
    return one / other


def grow(spark: SparkSession, root: Path, rounds: int) -> None:
    """Print the cost of a round by quarter of a long run."""
    began = time.monotonic()
    gaps = lock_step(spark, root / "long", scenario(1, rounds))
    quarter = len(gaps) // 4
    medians = [statistics.median(gaps[i * quarter : (i + 1) * quarter]) for i in range(4)]
    text = ", ".join(f"{median:.0f}" for median in medians)
    print(f"{rounds} rounds in {time.monotonic() - began:.0f} s; ms a round by quarter: {text}")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--long", type=int, default=0, metavar="N", help="also run N rounds")
    parser.add_argument("--ahead", action="store_true", help="also several rounds a batch")
    parser.add_argument("--chain", action="store_true", help="also eight stages in a row")
    options = parser.parse_args()
    spark = get_session("bench micro_batch", short_jobs=True)
    root = Path(tempfile.mkdtemp(prefix="flowcontrol-bench-"))
    try:
        within = compare(spark, root, options.rounds, options.repeats)
        rounds, repeats = options.rounds, options.repeats
        if options.ahead:
            jobs = scenario(1, AHEAD * rounds, ahead=AHEAD), scenario(1, rounds)
            beside(spark, root / "ahead", jobs, repeats, f"{AHEAD} rounds a batch, and one")
        if options.chain:
            jobs = scenario(1, rounds, CHAIN), scenario(1, rounds)
            names = f"{CHAIN} stages in a row, and two"
            ratio = beside(spark, root / "chain", jobs, repeats, names, CHAIN_TARGET)
            within &= ratio <= CHAIN_TARGET
        if options.long:
            grow(spark, root, options.long)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
