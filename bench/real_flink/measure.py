"""Runs the jobs on a real Flink, one after the other, and writes what it measured.

    python bench/real_flink/measure.py OUT [RUN | JOB | MODE ...]

``bench/real_flink/run.sh`` compiles the job first, and compares afterwards. Each run leaves
``OUT/<run>.json``: what `Runner` wrote, columns in the place of rows.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flink_run import VERSIONS, go_first, java
from runs import WARM_UP_S, RunName, chosen, flink_job, scenario

from flowcontrol.scenario import parse_scenario

ATTEMPTS = 3
"""So often a run is made until nothing disturbs it."""

RATE_SHARE = 0.002
"""By how much the slowest subtask may miss its rate."""

LATE_MS = 10
"""A source begins a checkpoint later than this only if the machine had no processor for it: it
waits for no data. One in ten may."""

TASK_COLUMNS = (
    "e2e_ms",
    "start_delay_ms",
    "alignment_ms",
    "sync_ms",
    "async_ms",
    "processed_bytes",
    "persisted_bytes",
)
CHECKPOINT_COLUMNS = ("triggered_s", "e2e_ms", "processed_bytes", "persisted_bytes")


def columns(measured: dict[str, Any]) -> dict[str, Any]:
    """Return a measurement with a list for each column, one entry a checkpoint."""
    checkpoints = measured["checkpoints"]
    tasks: dict[str, dict[str, list[Any]]] = {}
    for checkpoint in checkpoints:
        for task in checkpoint["tasks"]:
            name = f"{task['stage']}/{task['subtask']}"
            kept = tasks.setdefault(name, {column: [] for column in TASK_COLUMNS})
            for column in TASK_COLUMNS:
                kept[column].append(task[column])
    whole = {column: [row[column] for row in checkpoints] for column in CHECKPOINT_COLUMNS}
    rates = {task: round(rate, 2) for task, rate in measured["records_per_s"].items()}
    return {**measured, "records_per_s": rates, "checkpoints": whole, "tasks": tasks}


def write(measured: dict[str, Any], path: Path) -> None:
    """Write a measurement, a line for each column."""
    text = json.dumps(measured, indent=1)
    # A list on one line: the file is read, and its changes are.
    lists = text.split("[")
    joined = [lists[0]]
    for part in lists[1:]:
        inside, _, rest = part.partition("]")
        joined.append(" ".join(inside.split()) + "]" + rest)
    path.write_text("[".join(joined) + "\n", encoding="utf-8")


def disturbance(measured: Mapping[str, Any], stated: Mapping[str, Any]) -> str | None:
    """Return what shows that the machine was busy with something else; None if nothing does.

    Parameters
    ----------
    measured : mapping
        As `columns` returns it.
    stated : mapping
        The scenario. Its slowest subtask is never without input, so it keeps its rate.
    """
    rates = {
        f"{stage.name}/{subtask}": float(schedule.rate_at(0))
        for stage in parse_scenario(stated).stages[1:]
        for subtask, schedule in enumerate(stage.service_rate or ())
    }
    slow = min(rates, key=rates.__getitem__)
    found = measured["records_per_s"][slow]
    if abs(found - rates[slow]) > RATE_SHARE * rates[slow]:
        return f"{slow} processed {found:g} records/s of {rates[slow]:g}"
    steady = [n for n, at in enumerate(measured["checkpoints"]["triggered_s"]) if at >= WARM_UP_S]
    sources = (name for name in measured["tasks"] if name not in rates)
    delays = [measured["tasks"][name]["start_delay_ms"][n] for name in sources for n in steady]
    if (late := statistics.quantiles(delays, n=10)[-1]) > LATE_MS:
        return f"one source in ten began its checkpoint {late:g} ms late or more"
    return None


def measure(run: RunName, out: Path) -> None:
    """Run a job on Flink, again if the machine was busy, and write ``OUT/<run>.json``."""
    for attempt in range(1, ATTEMPTS + 1):
        measured = columns(run_flink(run))
        write(measured, out / f"{run}.json")
        if (disturbed := disturbance(measured, scenario(run))) is None:
            return
        again = "Run it again on an idle machine." if attempt == ATTEMPTS else "Trying again."
        print(f"{run} was disturbed: {disturbed}. {again}", flush=True)


def run_flink(run: RunName) -> dict[str, Any]:
    """Run a job on Flink once; what `Runner` wrote."""
    with tempfile.TemporaryDirectory() as folder:
        job, rows = Path(folder) / "job.json", Path(folder) / "rows.json"
        job.write_text(json.dumps(flink_job(run)), encoding="utf-8")
        command = java(VERSIONS["1.20"], "Runner", str(job), str(rows))
        subprocess.run(command, check=True, preexec_fn=go_first)
        reported: dict[str, Any] = json.loads(rows.read_text(encoding="utf-8"))
        return reported


def main(arguments: list[str]) -> None:
    """Measure the runs that are named, or all."""
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    runs = chosen(arguments[1:])
    for number, run in enumerate(runs, 1):
        print(f"Flink runs {run} ({number} of {len(runs)})", flush=True)
        measure(run, out)


if __name__ == "__main__":
    main(sys.argv[1:])
