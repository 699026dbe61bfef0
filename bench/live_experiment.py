"""How long a live emulation takes, from its command to its report: conf/experiment.yaml.

    python bench/live_experiment.py [--repeats 3] [--seconds 100]

Each run is ``./spark-submit.sh pipelines/emulate.py`` and its peer, in turn: two queries of Spark
that do as many micro-batches as the run has and only hand a number to each other
(:mod:`handover`), in a process of its own, with the same settings of Spark. The scenario runs as it
stands, and with Flink's own buffers and no stated latency, where each round is a micro-batch. A
short run before, not counted, leaves the archive of classes that both read (scripts/classes.sh).
The goals for 100 emulated seconds on two cores are 60 and 100 s. Exits with 1 if one is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import note

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.live.runtime import rounds_at_once
from flowcontrol.scenario import load_scenario

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = "conf/experiment.yaml"
FOR_SECONDS = 100
MEMORY = "options.taskmanager.network.memory"
FORMS: dict[str, tuple[float, tuple[str, ...]]] = {
    "": (60.0, ()),
    ", Flink's buffers and no latency": (
        100.0,
        (
            "cluster.network_latency_ms=0",
            "options.taskmanager.memory.segment-size=32kb",
            f"{MEMORY}.buffers-per-channel=2",
            f"{MEMORY}.floating-buffers-per-gate=8",
            f"{MEMORY}.max-buffers-per-channel=10",
        ),
    ),
}
"""The goal of each form of the scenario, and what it sets."""
PEER = """# many short jobs
import sys
from pathlib import Path
from handover import hand_over
from flowcontrol.spark.session import get_session
spark = get_session("bench live_experiment", short_jobs=True)
hand_over(spark, Path(sys.argv[1]), int(sys.argv[2]), 1, 300)
spark.stop()
"""
"""Three rounds at the full rate of the scenario have 300 rows; Spark is started as for a run."""


def batches_of(overrides: tuple[str, ...]) -> int:
    """Return how many micro-batches the stage has that does most of them."""
    job = build_physical_graph(load_scenario(ROOT / SCENARIO, overrides=overrides))
    return max(-(-job.rounds // rounds_at_once(job, stage)) for stage in job.stages)


def timed(words: list[str]) -> float:
    """Run ``spark-submit.sh`` with arguments; return its seconds."""
    path = os.pathsep.join([str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")])
    began = time.monotonic()
    subprocess.run(
        [str(ROOT / "spark-submit.sh"), *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - began


def leave_archive(out: Path) -> None:
    """Run a second, and wait for the archive, which Java writes after the end; some write none."""
    timed(["pipelines/emulate.py", SCENARIO, "--set", "duration_s=1", "--out", str(out), "--quiet"])
    folder = Path(sys.prefix, "flowcontrol", "shared-classes")
    for _ in range(60):
        if any(path.open("rb").read(1) > b"\0" for path in folder.glob("*.jsa")):
            break
        time.sleep(1.0)


def compare(
    form: str, overrides: tuple[str, ...], folder: Path, repeats: int
) -> tuple[float, float, int]:
    """Time a form of the scenario and its peer in turn; return the medians, and the batches."""
    batches, peer = batches_of(overrides), folder / "peer.py"
    peer.write_text(PEER, encoding="utf-8")
    settings = [word for one in overrides for word in ("--set", one)]
    ours, peers = list[float](), list[float]()
    for repeat in range(repeats):
        out, other = folder / f"ours-{batches}-{repeat}", folder / f"peer-{batches}-{repeat}"
        words = ["pipelines/emulate.py", SCENARIO, *settings, "--out", str(out), "--quiet"]
        ours.append(timed(words))
        peers.append(timed([str(peer), str(other), str(batches)]))
        print(f"{SCENARIO}{form}: {ours[-1]:.1f} s; {batches} bare batches: {peers[-1]:.1f} s")
    return statistics.median(ours), statistics.median(peers), batches


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=FOR_SECONDS, help="emulated")
    options = parser.parse_args()
    is_missed = False
    with tempfile.TemporaryDirectory(prefix="flowcontrol-bench-") as name:
        folder = Path(name)
        leave_archive(folder / "first")
        for form, (most_s, own) in FORMS.items():
            overrides = (f"duration_s={options.seconds}", *own)
            took, bare, batches = compare(form, overrides, folder, options.repeats)
            goal = most_s if options.seconds == FOR_SECONDS else None
            what = f"{options.seconds} emulated seconds, from start to report{form}"
            print(f"{what}: {took:.1f} s, {took / bare:.2f} times its peer")
            note(what, took, "s", goal=goal, is_met="at most")
            beside = f"{batches} bare micro-batches of two queries, {bare:.0f} s"
            note("the same", took / bare, "times", beside=beside)
            is_missed |= goal is not None and took > goal
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
