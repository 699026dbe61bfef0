"""A real Flink's checkpoints beside the emulation's: measured, emulated, error of each figure.

    python bench/real_flink/compare.py [FOLDER] [RUN | JOB | MODE ...]

FOLDER holds what ``measure.py`` wrote; by default that is ``measured/`` beside this file. Each run
is emulated on the virtual clock from the very scenario that Flink ran. Status 1 if a figure is not
within its tolerance. docs/explanation/real-flink.md says what is run and what the figures mean.

Checkpoints of the warm-up are left out on both sides. Of the others, a duration is the median,
since a pause of the machine spoils single ones; bytes are the mean, since they come in whole
buffers, and the phase of a checkpoint decides how many.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runs import HERE, WARM_UP_S, RunName, chosen, scenario

MEASURED = HERE / "measured"

E2E_SHARE, TASK_SHARE, BYTES_SHARE = 0.03, 0.05, 0.05
FLOOR_MS = 15.0
"""What a duration may differ by at least: a checkpoint that meets no data takes Flink so long, in
calls, mails and threads that write. The emulation takes a round for each of these."""
FLOOR_BYTES = FLOOR_MS * 500 * 1017 / 1000
"""What the bytes of a checkpoint may differ by at least, if it persists any: what the slow stage of
every job, 500 records of 1,017 bytes a second, drains before a timeout that comes so late."""
TASK_FLOOR_BYTES = 32768.0
"""What the bytes of one task may differ by at least: one buffer more or less before the barrier."""

INTERVAL_SHARES = (-0.01, -0.005, 0.0, 0.005, 0.01)
"""The emulation runs once with each of these shares on the interval, and all checkpoints count. A
real one's triggers and rates waver by themselves, so that its checkpoints meet all phases of the
buffers. Exact ones may meet a few of them again and again: the median of a start delay is 254 ms at
an interval of 4,050 ms, 296 at one of 4,011."""

INTERVAL = "execution.checkpointing.interval"

WHOLE = "checkpoint"
OF_CHECKPOINTS = ("e2e_ms", "persisted_bytes")
OF_TASKS = (
    "e2e_ms",
    "start_delay_ms",
    "alignment_ms",
    "async_ms",
    "processed_bytes",
    "persisted_bytes",
)
"""Figures that are compared. The synchronous part of a task without state takes no time."""


AT_THE_SENDER = {"e2e_ms", "async_ms", "persisted_bytes"}
"""Figures of tasks that are not compared where local barriers overtake. What waits in a local
channel is its sender's output in Flink: the sender persists it, and waits for a timeoutable barrier
until that is polled. The emulation counts the same bytes at the receiver."""


@dataclass(frozen=True)
class Row:
    """One figure of a run.

    Attributes
    ----------
    run, place, figure : str
        Which run, ``checkpoint`` or ``stage/subtask``, and the column.
    measured, emulated : float
        Over the checkpoints after the warm-up; ms or bytes.
    tolerance : float
        By how much they may differ, in the same unit.
    """

    run: str
    place: str
    figure: str
    measured: float
    emulated: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the difference is within the tolerance."""
        return abs(self.emulated - self.measured) <= self.tolerance


def tolerance(place: str, figure: str, measured: float) -> float:
    """Return by how much the emulation may differ, in the figure's unit."""
    if figure.endswith("_ms"):
        return max((E2E_SHARE if place == WHOLE else TASK_SHARE) * measured, FLOOR_MS)
    if place == WHOLE:
        return max(BYTES_SHARE * measured, FLOOR_BYTES) if measured > 0 else 0.0
    return max(BYTES_SHARE * measured, TASK_FLOOR_BYTES)


def typical(figure: str, values: list[float]) -> float:
    """Return the median of durations, the mean of bytes."""
    return float((statistics.median if figure.endswith("_ms") else statistics.fmean)(values))


def figures(run: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return all figures of a run in the form that ``measure.py`` writes, by place and name.

    Raises
    ------
    ValueError
        If no checkpoint was triggered after the warm-up.
    """
    steady = [n for n, at in enumerate(run["checkpoints"]["triggered_s"]) if at >= WARM_UP_S]
    if not steady:
        raise ValueError(f"no checkpoint after the warm-up of {WARM_UP_S:g} s; run for longer")
    places: dict[str, tuple[dict[str, list[Any]], tuple[str, ...]]]
    places = {WHOLE: (run["checkpoints"], OF_CHECKPOINTS)}
    for task, columns in run["tasks"].items():
        places[task] = columns, OF_TASKS
    return {
        (place, figure): typical(figure, [columns[figure][n] for n in steady])
        for place, (columns, names) in places.items()
        for figure in names
    }


def from_tables(checkpoints: list[dict[str, Any]], tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return rows of the tables ``checkpoints`` and ``checkpoint_tasks`` as ``measure.py`` writes.

    Only completed checkpoints count.
    """
    done = {row["checkpoint_id"]: row for row in checkpoints if row["status"] == "completed"}
    whole = {
        column: [done[key][column] for key in sorted(done)]
        for column in ("triggered_s", *OF_CHECKPOINTS)
    }
    by_task: dict[str, dict[str, list[Any]]] = {}
    for row in sorted(tasks, key=lambda row: int(row["checkpoint_id"])):
        if row["checkpoint_id"] in done:
            kept = by_task.setdefault(f"{row['stage']}/{row['subtask']}", {})
            for column in OF_TASKS:
                kept.setdefault(column, []).append(row[column])
    return {"checkpoints": whole, "tasks": by_task}


def emulated(run: RunName) -> dict[str, Any]:
    """Run the scenario on the virtual clock; its checkpoints as ``measure.py`` writes them."""
    import flowcontrol

    found: dict[str, list[dict[str, Any]]] = {"checkpoints": [], "checkpoint_tasks": []}
    for number, share in enumerate(INTERVAL_SHARES):
        stated = scenario(run)
        interval_ms = int(stated["options"][INTERVAL].removesuffix("ms"))
        stated["options"][INTERVAL] = f"{round(interval_ms * (1 + share))}ms"
        with tempfile.TemporaryDirectory() as folder:
            result = flowcontrol.emulate(
                stated, out=Path(folder) / "run", clock="virtual", quiet=True
            )
            for name, rows in found.items():
                for row in result.tables[name].to_pylist():
                    row["checkpoint_id"] += number * 1_000_000
                    rows.append(row)
    return from_tables(found["checkpoints"], found["checkpoint_tasks"])


def rows(run: RunName, measured: Mapping[str, Any], model: Mapping[str, Any]) -> Iterator[Row]:
    """Yield every figure of a run, measured beside emulated."""
    found = figures(model)
    overtakes_locally = run.job == "local-chain" and run.mode != "aligned"
    for (place, figure), value in figures(measured).items():
        if overtakes_locally and place != WHOLE and figure in AT_THE_SENDER:
            continue
        limit = tolerance(place, figure, value)
        yield Row(str(run), place, figure, value, found[place, figure], limit)


def read(folder: Path, run: RunName) -> dict[str, Any]:
    """Return what was measured."""
    kept: dict[str, Any] = json.loads((folder / f"{run}.json").read_text(encoding="utf-8"))
    return kept


def show(found: list[Row]) -> None:
    """Print the rows and how many of them hold."""
    print(
        f"{'run':<28}{'place':<12}{'figure':<17}"
        f"{'measured':>11}{'emulated':>11}{'error':>10}{'allowed':>10}"
    )
    for row in found:
        print(
            f"{row.run:<28}{row.place:<12}{row.figure:<17}{row.measured:>11.1f}"
            f"{row.emulated:>11.1f}{row.emulated - row.measured:>+10.1f}{row.tolerance:>10.1f}"
            + ("" if row.holds else "  MISSED")
        )
    print(f"{sum(row.holds for row in found)} of {len(found)} figures are within their tolerances")


def main(arguments: list[str]) -> int:
    """Compare the runs that are named, or all; 0 if all figures are within their tolerances."""
    is_folder = bool(arguments) and Path(arguments[0]).is_dir()
    folder = Path(arguments.pop(0)) if is_folder else MEASURED
    found: list[Row] = []
    for run in chosen(arguments):
        found += rows(run, read(folder, run), emulated(run))
    show(found)
    return 0 if found and all(row.holds for row in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
