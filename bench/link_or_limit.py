"""A link, a static limit, or real-time mode in front of a sink that slows down.

    python bench/link_or_limit.py [--seconds 240] [--repeats 2] [--only limit-slow,link]

Runs ``examples/slow_sink.py`` in each form, with a failure in the slow time, and the same sink in
real-time mode behind a broker of its own; measures what the pipeline costs when nothing comes; and
prints the medians, and by how much the repeats differ. Five minutes a form and repeat.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import note

from link import cpu_s

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "slow_sink.py"

FORMS: dict[str, list[str]] = {
    "plain": ["--plain"],
    "limit-slow": ["--limit", "600kb"],
    "limit-fast": ["--limit", "3200kb"],
    "defaults": ["--defaults"],
    "link": [],
    "real-time": [],
}
"""Arguments of the example. 600 rows take the slow sink 6 s, 3,200 the fast one 2 s."""

ROWS: dict[str, tuple[str, str]] = {
    "slow_batch_median_s": ("batches while the sink is slow, median", "{:.1f} s"),
    "slow_batch_longest_s": ("the same, longest", "{:.1f} s"),
    "largest_batch_rows": ("largest batch", "{:,.0f} rows"),
    "most_between_rows": ("rows that wait in between, at most", "{:,.0f}"),
    "most_between_mb": ("on disk in between, at most", "{:.0f} MB"),
    "last_between_mb": ("the same, at the end", "{:.0f} MB"),
    "latest_row_s": ("latest row", "{:.0f} s"),
    "on_time_after_s": ("rows are on time again", "{:.0f} s after"),
    "lost_s": ("lost with a failure", "{:.0f} s"),
    "doubled_rows": ("rows written twice by it", "{:,.0f}"),
    "idle_cpu": ("processor time when nothing comes, s/s", "{:.2f}"),
}

AGREE = 0.2
"""Part of a figure by which repeats may differ."""

FEW = 5
"""Batches of a slow sink below which their median says nothing."""

IDLE_S = 20.0


def submit(*words: str) -> None:
    """Start a program on Spark and wait for it."""
    command = [str(ROOT / "spark-submit.sh"), *words]
    subprocess.run(command, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)


def kafka(*words: str) -> str:
    """Run ``scripts/kafka.sh``; return what it prints."""
    command = [str(ROOT / "scripts" / "kafka.sh"), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run(form: str, seconds: float, folder: Path) -> dict[str, float]:
    """Run a form once; return its figures."""
    timed = ["--seconds", f"{seconds:g}", "--fail", "--out", str(folder / "out")]
    if form != "real-time":
        submit(str(EXAMPLE), *FORMS[form], *timed)
        submit(__file__, "--idle", form, "--out", str(folder / "idle"))
        idle = json.loads((folder / "idle" / "summary.json").read_text())
        return {**json.loads((folder / "out" / "summary.json").read_text()), **idle}
    broker = ["--dir", str(folder / "broker")]
    servers = kafka("start", *broker).split()[-1]
    try:
        for name in ("in", "out"):
            kafka("topic", name, "1", *broker)
        program = [str(ROOT / "bench" / "real_time_mode.py"), "--servers", servers]
        submit("--jars", kafka("jars").strip(), *program, *timed)
    finally:
        kafka("stop", *broker)
    return dict(json.loads((folder / "out" / "summary.json").read_text()))


def idle(form: str, out: Path) -> None:
    """Start both queries with nothing to read; write what they cost."""
    sys.path.insert(0, str(EXAMPLE.parent))
    import slow_sink

    from flowcontrol.spark.session import get_session

    spark = get_session("link_or_limit.py")
    (out / "in").mkdir(parents=True)
    rows = spark.readStream.schema("customer_id long, text string").json(str(out / "in"))
    if form in ("plain", "limit-slow", "limit-fast"):
        there, _ = slow_sink.plain(rows, out, None)
    else:
        settings = {} if form == "defaults" else slow_sink.SETTINGS
        there, _ = slow_sink.with_link(rows, out, **settings)
    second = there.writeStream.foreachBatch(lambda _, __: None)
    second.option("checkpointLocation", str(out / "second")).start()
    time.sleep(IDLE_S)
    before = cpu_s()
    time.sleep(IDLE_S)
    found = {"idle_cpu": (cpu_s() - before) / IDLE_S}
    for query in spark.streams.active:
        query.stop()
    (out / "summary.json").write_text(json.dumps(found))


def figures(runs: list[dict[str, float]], key: str) -> list[float]:
    """Return what the repeats of a form say; no median of two or three batches."""
    if key == "slow_batch_median_s":
        runs = [one for one in runs if one.get("slow_batches", 0) >= FEW]
    return [one[key] for one in runs if one.get(key) is not None]


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """Return the table of the page: a column a form, medians of its repeats."""
    lines = ["| | " + " | ".join(found) + " |", "| --- |" + " ---: |" * len(found)]
    for key, (text, shape) in ROWS.items():
        cells = []
        for runs in found.values():
            known = figures(runs, key)
            cells.append(shape.format(statistics.median(known)) if known else "-")
        lines.append(f"| {text} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def differences(found: dict[str, list[dict[str, float]]]) -> list[str]:
    """Return the figures whose repeats differ by more than they may."""
    apart = []
    for form, runs in found.items():
        for key, (text, shape) in ROWS.items():
            known = figures(runs, key)
            if known and max(known) - min(known) > AGREE * max(known):
                apart.append(f"{form}, {text}: " + ", ".join(shape.format(one) for one in known))
    return apart


def main() -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240, help="of a run, default 240")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", default=",".join(FORMS), help="forms, with commas between them")
    parser.add_argument("--idle", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.idle:
        idle(options.idle, options.out)
        return 0
    found: dict[str, list[dict[str, float]]] = {form: [] for form in options.only.split(",")}
    for _ in range(options.repeats):
        for form, runs in found.items():  # one after the other, so that all meet the same machine
            with tempfile.TemporaryDirectory(prefix="flowcontrol-bench-") as folder:
                runs.append(run(form, options.seconds, Path(folder)))
            print(form, json.dumps(runs[-1]), flush=True)
    print(table(found))
    apart = differences(found)
    print("\n".join(["", f"repeats that differ by more than {AGREE:.0%}:", *(apart or ["none"])]))
    for form, runs in found.items():
        longest = [one["slow_batch_longest_s"] for one in runs if "slow_batch_longest_s" in one]
        if longest:
            note(f"longest batch of a slow sink, {form}", statistics.median(longest), "s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
