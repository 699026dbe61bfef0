"""What a reader of a sink's table may see, worked out from the input and from a run in memory.

Rows that sources make have numbers: 0, 1, 2 ... of each subtask. A checkpoint that is complete has
the effects of all records that its sources had emitted when they took it, and of no other: behind
aligned barriers a version of the table holds these, each once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from flowcontrol.layout.job import Job
from flowcontrol.ledger.ledger import LedgerView
from flowcontrol.live.folder import RunPaths
from flowcontrol.protocol.checkpoints.barriers import TAKEN
from flowcontrol.results.running import step
from modules import load

runs: Any = load("tests/live/runs.py")

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
    furthest : list of Counter
        By round: how many it has emitted in any attempt. A source without a log that was put back
        late may end before it is there again.
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
    furthest: list[Counter[tuple[str, int]]] = field(default_factory=list)
    written: Counter[int] = field(default_factory=Counter)
    cut_rounds: int = 0
    waiting: int = 0

    @classmethod
    def of(cls, job: Job) -> Oracle:
        coordination, found = runs.virtual_run(job).coordination, cls()
        before: dict[tuple[str, int], int] = {}
        taken_in: dict[int, int] = {}
        for after in step(job):
            found.furthest.append(found.furthest[-1].copy() if found.furthest else Counter())
            for task in after.tasks:
                plan, own = job.stage(task.stage), (task.stage, task.subtask)
                start, before[own] = before.get(own, 0), task.state.taken
                if plan.is_source:
                    found.emitted[own] = task.state.taken
                    most = max(found.furthest[-1][own], task.state.taken)
                    found.furthest[-1][own] = most
                for report in [] if task.checkpoints is None else task.checkpoints.reports:
                    if report.kind == TAKEN and plan.is_source:
                        found.cuts.setdefault(report.checkpoint, {})[own] = report.records
                    elif report.kind == TAKEN and not plan.outputs:
                        taken_in.setdefault(report.checkpoint, after.number)
                        found.written[report.checkpoint] += report.records
                        found.cut_rounds += start < report.records < task.state.taken
        control = coordination.control
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
        return numbers(self.emitted | self.cuts.get(checkpoint, {}))


def numbers(counts: Mapping[tuple[str, int], int]) -> set[Number]:
    """Return the first so many rows of each subtask of the sources."""
    return {(*source, n) for source, count in counts.items() for n in range(count)}


def rows_of(table: DeltaTable) -> Counter[Number]:
    """Return the rows of a version of a sink's table, and how often each is there."""
    found: Counter[Number] = Counter()
    for uri in table.file_uris():
        rows = pq.read_table(Path(uri.removeprefix("file://")), partitioning=None)
        names = rows.column_names[:3]
        assert names == ["source", "source_subtask", "number"]
        found.update(zip(*(rows.column(name).to_pylist() for name in names), strict=True))
    return found


def versions(path: Path, application: str) -> Iterator[tuple[int, Counter[Number]]]:
    """Yield the checkpoint and the rows of each version of a sink's table that has any."""
    for version in range(DeltaTable(str(path)).version() + 1):
        table = DeltaTable(str(path), version=version)
        checkpoint = table.transaction_version(application)
        if checkpoint is not None:
            yield checkpoint, rows_of(table)


def committed(job: Job, root: Path) -> list[int]:
    """Return what the table ``delivery`` of a run says that readers see, sample by sample."""
    found = runs.live_results(job, root)["delivery"]
    sums: Counter[float] = Counter()
    for row in found.to_pylist():
        sums[row["t_s"]] += row["committed"]
    return list(sums.values())


class Reader:
    """Polls a sink's table while a run writes it, and counts what it must not have seen.

    Parameters
    ----------
    path : Path
        The table.
    oracle : Oracle
        Of the job.

    Attributes
    ----------
    looks, changes : int
        How often it looked, and found another version.
    early : int
        Rows of which no checkpoint had been complete by then.
    doubled : int
        Rows beyond the first of their number.
    taken_back : int
        Rows that it had seen and did not find any more.
    """

    def __init__(self, path: Path, oracle: Oracle) -> None:
        self._path, self._oracle, self._version = path, oracle, -1
        self.looks = self.changes = self.early = self.doubled = self.taken_back = 0
        self._seen: Counter[Number] = Counter()

    @property
    def found(self) -> tuple[int, int, int]:
        """What it must not have seen: early, doubled, taken back."""
        return self.early, self.doubled, self.taken_back

    def look(self, newest: Callable[[], int]) -> None:
        """Look at the table.

        Parameters
        ----------
        newest : callable
            Asked afterwards; returns the newest round that the sink may have begun.
        """
        if not (self._path / "_delta_log" / f"{0:020}.json").exists():
            return
        self.looks += 1
        table = DeltaTable(str(self._path))
        if table.version() == self._version:
            return
        self.changes += 1
        self._version, rows, number = table.version(), rows_of(table), newest()
        complete = [n for n, heard in self._oracle.heard.items() if heard <= number]
        allowed = self._oracle.before(max(complete)) if complete else set()
        self.early += len(rows.keys() - allowed)
        self.doubled += sum(count - 1 for count in rows.values())
        self.taken_back += (self._seen - rows).total()
        self._seen = rows


class Poller(Thread):
    """Has a reader look again and again, beside the processes that write.

    Parameters
    ----------
    reader : Reader
        Who looks.
    job : Job
        The job.
    sink : str
        Whose table it is.
    paths : RunPaths
        Of the run.
    """

    def __init__(self, reader: Reader, job: Job, sink: str, paths: RunPaths) -> None:
        super().__init__(daemon=True)
        self._reader, self._ledgers = (
            reader,
            [paths.ledger(link) for link in job.stage(sink).inputs],
        )
        self._views: list[LedgerView] = []
        self._ends = Event()

    def run(self) -> None:
        """Look until it is to end."""
        while not self._ends.wait(0.02):
            self._reader.look(self._newest)

    def _newest(self) -> int:
        """Return the round behind the last one that a ledger of the sink has."""
        if not self._views:
            self._views = [LedgerView(path) for path in self._ledgers]
        for view in self._views:
            view.refresh(at_once=True)
        return max(view.last_batch("receiver") for view in self._views) + 1

    def end(self) -> None:
        """Look once more, and end."""
        self._ends.set()
        self.join()
        self._reader.look(self._newest)
