"""What a lock-step round costs, beside what Spark itself takes for the same micro-batches.

    ./spark-submit.sh bench/micro_batch.py [--rounds 120] [--repeats 3] [--long 2000]

Runs alternate between the measured job (two stages, 1, 4 and 16 channels) and its peer
(:mod:`handover`) in one session; each figure is the median over all rounds but the first ones
of each run. Beside it runs the plain chain: ``readStream.format("delta")`` -> foreachBatch Delta
append, which moves the same rows. ``--long N`` also runs N rounds and prints what a round and a
ledger's commit cost in each quarter.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
sys.path.insert(0, HERE)
# The peer's reader runs in Spark's Python workers too, which inherit this environment.
os.environ["PYTHONPATH"] = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])

from handover import hand_over  # noqa: E402
from measured import note  # noqa: E402
from plain_chain import plain_chain  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from flowcontrol.job import build_physical_graph  # noqa: E402
from flowcontrol.ledger.ledger import read_history  # noqa: E402
from flowcontrol.live.folder import RunPaths  # noqa: E402
from flowcontrol.run import emulate  # noqa: E402
from flowcontrol.scenario import Scenario, parse_scenario  # noqa: E402
from flowcontrol.spark.session import get_session  # noqa: E402

WARM_UP = 20
ROWS_PER_ROUND = 400
TARGET = 1.7


def scenario(width: int, rounds: int) -> Scenario:
    """Return two stages with ``width`` x ``width`` channels that never block."""
    return parse_scenario(
        {
            "schema": 1,
            "name": f"bench-{width * width}",
            "duration_s": rounds * 0.2,
            "round_ms": 200,
            "sample_interval_s": 10,
            "options": {
                "taskmanager.memory.segment-size": "4kb",
                "taskmanager.network.memory.buffers-per-channel": 16,
                "taskmanager.network.memory.floating-buffers-per-gate": 16,
                "taskmanager.network.memory.max-buffers-per-channel": 64,
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
                {"name": "sink", "parallelism": width, "placement": [1] * width},
            ],
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
        }
    )


def lock_step(spark: SparkSession, folder: Path, width: int, rounds: int) -> list[float]:
    """Run the measured job; return the seconds at which the sink committed each round."""
    job = build_physical_graph(scenario(width, rounds))
    emulate(job.scenario, out=folder, spark=spark)
    history = read_history(RunPaths(folder).ledger(job.links[0])).to_pylist()
    times = {r["batch_id"]: r["committed_at"] for r in history if r["side"] == "receiver"}
    return [times[batch].timestamp() for batch in sorted(times)]


def gaps_ms(ended: list[float]) -> list[float]:
    """Milliseconds between the ends of two rounds, without the first ones."""
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
            ours += gaps_ms(lock_step(spark, root / f"ours-{name}", width, rounds))
        left, right = statistics.median(ours), statistics.median(peers)
        within &= left / right <= TARGET
        print(f"{width * width:>8} {left:>13.0f} {right:>13.0f} {left / right:>6.2f}", flush=True)
        channels = f"{width * width} channel{'s' * (width > 1)}"
        beside = f"two queries alone, {right:.0f} ms"
        note(channels, left / right, "times", beside=beside, goal=TARGET, is_met="at most")
    plain = gaps_ms(plain_chain(spark, root / "plain", WARM_UP + 15, ROWS_PER_ROUND))
    print(f"plain Delta -> foreachBatch Delta append, 1 stage: {statistics.median(plain):.0f} ms")
    return within


def grow(spark: SparkSession, root: Path, rounds: int) -> None:
    """Print the cost of a round by quarter of a long run."""
    began = time.monotonic()
    gaps = gaps_ms(lock_step(spark, root / "long", 1, rounds))
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
    options = parser.parse_args()
    spark = get_session("bench micro_batch")
    root = Path(tempfile.mkdtemp(prefix="flowcontrol-bench-"))
    try:
        within = compare(spark, root, options.rounds, options.repeats)
        if options.long:
            grow(spark, root, options.long)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
