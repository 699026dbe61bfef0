"""A stand-in for Spark: it plans, runs and notes batches as Structured Streaming does.

What it keeps over a crash is what a checkpoint keeps: per query the last offset that is done
and the one that is planned. Everything else is made anew, as in a new process. Partitions and
functions go through pickle, as on their way to an executor.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark import cloudpickle

from flowcontrol.layout.graph import JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import NO_KEYS
from flowcontrol.ledger import exchange
from flowcontrol.ledger.commit import Writer
from flowcontrol.live import planner
from flowcontrol.live.batch import StageBatch
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.replay import staged_rows
from flowcontrol.live.rows import ROUND, SUBTASK, row_schemas
from flowcontrol.live.runtime import rounds_at_once
from flowcontrol.live.source import StageReader
from flowcontrol.spark import crash_points

Offset = dict[str, Any]


class Crash(BaseException):
    """The driver dies here."""


class Crashes:
    """Dies once at every place that is passed: before and after each commit, after each batch.

    Parameters
    ----------
    named : bool, default False
        Also at the named points (:mod:`flowcontrol.spark.crash_points`).
    """

    def __init__(self, *, named: bool = False) -> None:
        self.named = named
        self.places: list[tuple[object, ...]] = []
        self._met: set[tuple[object, ...]] = set()

    def reach(self, *place: object) -> None:
        if place not in self._met:
            self._met.add(place)
            self.places.append(place)
            raise Crash(str(place))


def dying_in(rounds: set[int], *, every: int = 1) -> Crashes:
    """Return what dies at every place of some rounds, named ones too; or at each third, say."""

    class Some(Crashes):
        passed = 0

        def reach(self, *place: object) -> None:
            is_there = place[-1] in rounds or (place[0] == "point" and place[2] in rounds)
            if not is_there or place in self._met:
                return
            self.passed += 1
            if self.passed % every:
                self._met.add(place)
            else:
                super().reach(*place)

    return Some(named=True)


class Rows:
    """The data frame of a batch."""

    def __init__(self, reader: StageReader, partitions: list[Any]) -> None:
        self._reader, self._partitions = reader, partitions

    def collect(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for partition in cloudpickle.loads(cloudpickle.dumps(self._partitions)):
            for batch in self._reader.read(partition):
                found += batch.to_pylist()
        assert all(row.keys() == {"result"} for row in found)
        return found


class Query:
    """One stage: its reader and its function are new, its offsets were in the checkpoint."""

    def __init__(self, driver: Driver, stage: str) -> None:
        self.stage, self._offsets, self._crashes = stage, driver.offsets[stage], driver.crashes
        self._keep = driver.keep
        self._at_once = rounds_at_once(driver.job, driver.job.stage(stage))
        options = {
            "scenario": json.dumps(driver.job.scenario.canonical()),
            "folder": str(driver.paths.root),
            "run_id": "run",
            "stage": stage,
            "columns": json.dumps([*driver.schemas[stage].names, ROUND, SUBTASK]),
        }
        self._reader = StageReader(options)
        self.batch = StageBatch(driver.job, stage, driver.paths, driver.schemas[stage], "run")

    def step(self) -> None:
        """Plan a batch unless one is planned, run it, note its end."""
        done, planned = self._offsets["done"], self._offsets["planned"]
        if planned is None:
            start = done or self._reader.initialOffset()
            end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
            assert start["round"] < end["round"] < start["round"] + 1 + self._at_once
            planned = self._offsets["planned"] = json.loads(json.dumps(end))
            self._keep()
        start = done or self._reader.initialOffset()
        partitions = list(self._reader.partitions(start, planned))
        number = self.done // self._at_once
        self.batch(Rows(self._reader, partitions), number)  # type: ignore[arg-type]
        if self._crashes is not None:
            self._crashes.reach("noted", self.stage, planned["round"])
        self._offsets.update(done=planned, planned=None)
        self._keep()
        self._reader.commit(planned)

    @property
    def done(self) -> int:
        """Rounds of which the end is noted."""
        offset = self._offsets["done"]
        return 0 if offset is None else int(offset["round"]) + 1


class Driver:
    """Runs a job in a folder, and starts again after every crash.

    Parameters
    ----------
    job : Job
        Laid out.
    root : Path
        Folder of the run.
    crashes : Crashes, optional
        Where to die.
    replayed : dict, optional
        Columns of replayed rows, by source.
    watch : callable, optional
        Called after each batch with the stage and its round.
    keeps : bool, default False
        Keep the offsets in the run's folder, as Spark does, for another process to go on from.
    """

    def __init__(
        self,
        job: Job,
        root: Path,
        crashes: Crashes | None = None,
        replayed: dict[str, Any] | None = None,
        watch: Callable[[str, int], None] | None = None,
        keeps: bool = False,
    ) -> None:
        self._watch, self._keeps = watch, keeps
        self.job, self.paths, self.crashes = job, RunPaths(root), crashes
        rows = staged_rows(job, self.paths.replay).keys if replayed else NO_KEYS
        self.schemas = row_schemas(job, replayed or {}, rows)
        self.offsets: dict[str, dict[str, Offset | None]] = {
            plan.name: {"done": None, "planned": None} for plan in job.stages
        }
        self.starts = 0
        if keeps and self._file.exists():
            self.offsets = json.loads(self._file.read_text())

    @property
    def _file(self) -> Path:
        return self.paths.root / "queries" / "offsets.json"

    def keep(self) -> None:
        """Have the offsets survive this process."""
        if self._keeps:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            written = self._file.with_suffix(".new")
            written.write_text(json.dumps(self.offsets))
            written.replace(self._file)

    def run(self) -> None:
        """Run all rounds; the stages take turns, so that nothing ever waits."""
        real = Writer.commit
        crashes = self.crashes

        def commit(writer: Writer, batch_id: int, *files: Any) -> bool:
            if crashes is not None:
                crashes.reach("before", writer.path, writer.app_id, batch_id)
            done = real(writer, batch_id, *files)
            if crashes is not None:
                crashes.reach("after", writer.path, writer.app_id, batch_id)
            return done

        Writer.commit = commit  # type: ignore[method-assign]
        hook = crash_points.hook
        if crashes is not None and crashes.named:
            crash_points.hook = lambda *place: crashes.reach("point", *place)
        try:
            while not self._go_on():
                pass
        finally:
            Writer.commit = real  # type: ignore[method-assign]
            crash_points.hook = hook

    def _go_on(self) -> bool:
        """Start all queries and run them until all is done, or until a crash: then False."""
        self.starts += 1
        queries = [Query(self, plan.name) for plan in self.job.stages]
        try:
            while any(query.done < self.job.rounds for query in queries):
                first = min(queries, key=lambda query: query.done)
                first.step()
                if self._watch is not None:
                    self._watch(first.stage, first.done - 1)
        except Crash:
            return False
        assert all(query.batch.rounds == self.job.rounds for query in queries)
        return True


def die_everywhere(job: Job, runs: ModuleType, tmp_path: Path, at: range | None = None) -> None:
    """Assert that a run whose driver dies at every place is as one whose driver does not.

    Or at every place of some rounds.
    """

    class Some(Crashes):
        def reach(self, *place: object) -> None:
            if at is None or place[-1] in at:
                super().reach(*place)

    crashes = Some()
    killed = Driver(job, tmp_path / "killed", crashes)
    killed.run()
    runs.assert_is_virtual(job, tmp_path / "killed")
    whole = Driver(job, tmp_path / "whole")
    whole.run()
    runs.assert_same_rows(job, tmp_path / "killed", tmp_path / "whole")
    for plan in job.stages:
        if not plan.outputs:
            tables = [tmp_path / run / "output" / plan.name for run in ("killed", "whole")]
            rows, expected = (runs.rows_in_order(table) for table in tables)
            assert len(rows) >= 5
            assert Counter(rows) == Counter(expected)
    # It died at every place there is: each ledger and each round's end, at the least.
    assert killed.starts == len(crashes.places) + 1
    kinds = Counter(place[0] for place in crashes.places)
    ends = {
        plan.name: len(set(last_rounds(job, plan)) & set(at or range(job.rounds)))
        for plan in job.stages
    }
    sides = [end for link in job.links for end in (link.edge.sender, link.edge.receiver)]
    assert kinds["before"] == kinds["after"] >= sum(ends[stage] for stage in sides)
    assert kinds["noted"] == sum(ends.values())
    assert whole.starts == 1


def last_rounds(job: Job, plan: JobVertex) -> list[int]:
    """Return the last round of each batch of a stage."""
    count = rounds_at_once(job, plan)
    return [min(first + count, job.rounds) - 1 for first in range(0, job.rounds, count)]


def run_drawn(job: Job, root: Path, patch: pytest.MonkeyPatch, *, trims: int, at: int) -> list[str]:
    """Run a job as it is laid out, whatever its scenario would give; say ``died`` if it did.

    The driver dies at every place of a round, or of each stage's batch that ends there or soon
    after, and goes on. Logs are trimmed every few rounds.
    """
    shutil.rmtree(root, ignore_errors=True)  # what an example has left that failed
    patch.setattr(exchange, "TRIM_EVERY", trims)
    patch.setattr(planner, "build_physical_graph", lambda _: job)
    crashes = dying_in(set(range(at, at + job.latency)))
    Driver(job, root, crashes).run()
    return ["died"] if crashes.places else []
