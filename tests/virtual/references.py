"""The result tables of a run on the live clock whose ledgers are in memory: no Delta, no rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import read_replayed
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.history import Observed
from flowcontrol.live.runtime import StageRuntime
from flowcontrol.live.stage_rows import with_texts

Rows = list[dict[str, Any]]


class MemoryLedger:
    """A ledger of a link: rows by side and round."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], Rows] = {}

    def add(self, number: int, rows: Mapping[str, Rows]) -> None:
        """Add the rows of a round, by side."""
        for side, own in rows.items():
            self._rows[side, number] = own

    def rows(self, side: str, number: int) -> Rows:
        """Return a side's rows of a round."""
        return self._rows[side, number]


class MemoryLedgers(dict[str, MemoryLedger]):
    """All ledgers of a run; read like its history."""

    rounds = 0

    def round_rows(self, number: int) -> dict[str, dict[str, Rows]]:
        """Return the rows of a round, by edge name and side."""
        sides = "sender", "receiver"
        return {
            name: {side: own.rows(side, number) for side in sides} for name, own in self.items()
        }


class _History:
    def __init__(self, ledgers: MemoryLedgers) -> None:
        self.rounds, self.rows = ledgers.rounds, ledgers.round_rows


class _NoCuts:
    """A table of the state that nobody needs: no process begins anew."""

    def refresh(self) -> None: ...

    def all_cuts(self, is_needed: Any) -> list[Any]:
        return []


def observed(job: Job, restarts_every: int = 0) -> Observed:
    """Run a job stage by stage, by rows of ledgers alone; return what is observed of it.

    Each stage begins anew from its rows every so many rounds, of a job that cannot fail.
    """
    replayed, ledgers = read_replayed(job), MemoryLedgers()
    for link in job.links:
        ledgers[link.name] = MemoryLedger()

    def stages() -> list[StageRuntime]:
        made = []
        for plan in job.stages:
            views: Any = ledgers
            state: Any = _NoCuts()
            runtime = StageRuntime(job, plan.name, RunPaths(Path()), views, state)
            runtime.replayed = replayed
            made.append(runtime)
        return made

    running = stages()
    for number in range(job.rounds):
        if restarts_every and number % restarts_every == 0:
            running = stages()
        for runtime in running:
            runtime.advance(number)
            rows = with_texts(runtime.plan, runtime.kept(number), ())
            for link in runtime.plan.inputs:
                ledgers[link.name].add(number, {"receiver": rows[link.name]})
            for link in runtime.plan.outputs:
                ledgers[link.name].add(number, {"sender": rows[link.name]})
    ledgers.rounds = job.rounds
    history: Any = _History(ledgers)
    found = Observed(job, replayed, history)
    found.run(lambda rounds, records: None)
    return found


def live_tables(job: Job, restarts_every: int = 0) -> dict[str, pa.Table]:
    """Return the result tables of such a run."""
    return observed(job, restarts_every).result_tables()
