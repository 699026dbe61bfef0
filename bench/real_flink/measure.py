"""Runs the jobs on a real Flink, one after the other, and writes what it measured.

    python bench/real_flink/measure.py OUT [RUN | JOB | MODE ...]

``bench/real_flink/run.sh`` compiles the job first, and compares afterwards. Each run leaves
``OUT/<run>.json``: what `Runner` wrote, columns in the place of rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from runs import HERE, RunName, chosen, flink_job, scenario

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


def measure(run: RunName, out: Path) -> None:
    """Run a job on Flink and write ``OUT/<run>.json``."""
    classpath = (HERE / "target" / "classpath").read_text(encoding="utf-8").strip()
    with tempfile.TemporaryDirectory() as folder:
        job, rows = Path(folder) / "job.json", Path(folder) / "rows.json"
        job.write_text(json.dumps(flink_job(scenario(run))), encoding="utf-8")
        command = [
            "java",
            "-Xmx1g",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            *("-cp", f"{HERE / 'target' / 'classes'}:{classpath}"),
            *("Runner", str(job), str(rows)),
        ]
        subprocess.run(command, check=True)
        write(columns(json.loads(rows.read_text(encoding="utf-8"))), out / f"{run}.json")


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
