"""What a reader of a sink's table may see, worked out from the input and from a run in memory.

Rows that sources make have numbers: 0, 1, 2 ... of each subtask. A checkpoint that is complete has
the effects of all records that its sources had emitted when they took it, and of no other: behind
aligned barriers a version of the table holds these, each once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from flowcontrol.job import Job
from flowcontrol.job.checkpoint_control import CheckpointControl
from flowcontrol.job.reference import run_reference
from flowcontrol.protocol.checkpoints.barriers import TAKEN

Number = tuple[str, int, int]
"""A row: source, subtask of it, number."""

CHECKPOINTING = "execution.checkpointing."


def exactly_once(
    case: dict[str, Any], *, ends_s: float, mode: dict[str, Any] | None = None, **sink: Any
) -> dict[str, Any]:
    """Return a case with sources that end, checkpoints, and sinks that write exactly once."""
    stages = []
    for stage in case["stages"]:
        own = {name: value for name, value in stage.items() if name != "selectivity"}
        if "emit_rate" in stage:
            rate = stage["emit_rate"]
            own["emit_rate"] = [{"at_s": 0, "rate": rate}, {"at_s": ends_s, "rate": 0}]
        if "output" in stage:
            own |= {"guarantee": "exactly-once", **sink}
        stages.append(own)
    options = {**case["options"], f"{CHECKPOINTING}interval": "300ms", **(mode or {})}
    return {**case, "stages": stages, "options": options}


@dataclass
class Oracle:
    """What a run in memory says of a job's checkpoints.

    Attributes
    ----------
    heard : dict of int to int
        By checkpoint that completed: the round in which tasks hear of it.
    cuts : dict of int to dict
        By checkpoint: how many rows each subtask of a source had emitted when it took it.
    emitted : dict
        How many rows each subtask of a source has emitted by the end.
    written : dict of int to int
        By checkpoint: how many rows the subtasks of all sinks had taken up when they took it.
    cut_rounds : int
        How often a subtask of a sink had rows of a round before a checkpoint, and rows behind it.
    waiting : int
        Most checkpoints that a sink had taken and not heard to be complete.
    """

    heard: dict[int, int] = field(default_factory=dict)
    cuts: dict[int, dict[tuple[str, int], int]] = field(default_factory=dict)
    emitted: dict[tuple[str, int], int] = field(default_factory=dict)
    written: Counter[int] = field(default_factory=Counter)
    cut_rounds: int = 0
    waiting: int = 0

    @classmethod
    def of(cls, job: Job) -> Oracle:
        control, found = CheckpointControl(job), cls()
        before: dict[tuple[str, int], int] = {}
        taken_in: dict[int, int] = {}
        for after in run_reference(job, checkpoints=control):
            for task in after.state.tasks:
                plan, own = job.stage(task.stage), (task.stage, task.subtask)
                start, before[own] = before.get(own, 0), task.state.taken
                if plan.is_source:
                    found.emitted[own] = task.state.taken
                for report in [] if task.checkpoints is None else task.checkpoints.reports:
                    if report.kind == TAKEN and plan.is_source:
                        found.cuts.setdefault(report.checkpoint, {})[own] = report.records
                    elif report.kind == TAKEN and plan.is_sink:
                        taken_in.setdefault(report.checkpoint, after.number)
                        found.written[report.checkpoint] += report.records
                        found.cut_rounds += start < report.records < task.state.taken
        for number in control.coordinator.ids:
            own_statistics = control.coordinator.statistics(number)
            if own_statistics.status == "completed" and own_statistics.ended is not None:
                found.heard[number] = own_statistics.ended // job.round_us + control.latency
        for number, heard in found.heard.items():
            waits = [n for n, taken in taken_in.items() if n >= number and taken < heard]
            found.waiting = max(found.waiting, len(waits))
        return found

    def before(self, checkpoint: int) -> set[Number]:
        """Return the rows that sources had emitted when they took a checkpoint.

        A source that had finished before has emitted all.
        """
        cut = self.emitted | self.cuts.get(checkpoint, {})
        return {(*source, n) for source, count in cut.items() for n in range(count)}


def rows_of(table: DeltaTable) -> Counter[Number]:
    """Return the rows of a version of a sink's table, and how often each is there."""
    found: Counter[Number] = Counter()
    for uri in table.file_uris():
        rows = pq.read_table(Path(uri.removeprefix("file://")), partitioning=None)
        assert rows.column_names == ["source", "source_subtask", "number"]
        found.update(
            zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True)
        )
    return found


def versions(path: Path, application: str) -> Iterator[tuple[int, Counter[Number]]]:
    """Yield the checkpoint and the rows of each version of a sink's table that has any."""
    for version in range(DeltaTable(str(path)).version() + 1):
        table = DeltaTable(str(path), version=version)
        checkpoint = table.transaction_version(application)
        if checkpoint is not None:
            yield checkpoint, rows_of(table)


class Reader:
    """Polls a sink's table while a run writes it, and notes what it must not have seen.

    Parameters
    ----------
    path : Path
        The table.
    oracle : Oracle
        Of the job.
    """

    def __init__(self, path: Path, oracle: Oracle) -> None:
        self._path, self._oracle, self._version = path, oracle, -1
        self.looks, self.early, self.doubled, self.taken_back = 0, 0, 0, 0
        self._seen: Counter[Number] = Counter()

    def look(self, number: int) -> None:
        """Look at the table while a round of the sink is the newest that may have been begun."""
        if not (self._path / "_delta_log").exists():
            return
        self.looks += 1
        table = DeltaTable(str(self._path))
        if table.version() == self._version:
            return
        self._version, rows = table.version(), rows_of(table)
        complete = [n for n, heard in self._oracle.heard.items() if heard <= number]
        allowed = self._oracle.before(max(complete)) if complete else set()
        self.early += len(rows.keys() - allowed)
        self.doubled += sum(count - 1 for count in rows.values())
        self.taken_back += len(self._seen - rows)
        self._seen = rows
