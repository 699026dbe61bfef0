"""The result tables of a reference run, latencies included, made as a live run's are."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.job import Job, Subtask, Work
from flowcontrol.job.reference import run_reference
from flowcontrol.job.source_logs import arrival_rounds
from flowcontrol.live.results import History, result_tables
from flowcontrol.records import LEDGER
from flowcontrol.virtual.replay import read_replayed

Row = dict[str, Any]


class Ages:
    """Follows each record from its source to a sink, by the runs that the subtasks report.

    Attributes
    ----------
    of : dict
        By round, stage and subtask of a sink: how many records of each age, rounds, it took up.
    """

    def __init__(self) -> None:
        self.of: dict[tuple[int, str, int], Counter[int]] = {}
        self._queues: dict[tuple[str, int, int], deque[int]] = defaultdict(deque)

    @staticmethod
    def _emitted(subtask: Subtask, number: int, work: Work) -> list[int]:
        """Return from which round the latency of each record of a source counts."""
        place = subtask.job, subtask.plan, subtask.index
        runs = arrival_rounds(*place, work.first, work.records) or [(number, work.records)]
        return [stamp for stamp, count in runs for _ in range(count)]

    def note(self, subtask: Subtask, number: int, work: Work) -> None:
        """Take notice of a subtask's round."""
        emitted = self._emitted(subtask, number, work) if subtask.plan.is_source else []
        for gate, channel, count in work.takes:
            link, own = subtask.in_links[gate]
            queue = self._queues[link.name, own[channel].sender, subtask.index]
            emitted += [queue.popleft() for _ in range(count)]
        if subtask.plan.is_sink:
            ages = Counter(number - at for at in emitted)
            self.of[number, subtask.plan.name, subtask.index] = ages
        for (link, own), routes, parents in zip(
            subtask.out_links, work.routes, work.parents, strict=True
        ):
            for channel, parent in zip(routes, parents, strict=True):
                key = (link.name, subtask.index, own[channel].receiver)
                self._queues[key].append(emitted[parent])


def reference_tables(job: Job, monkeypatch: pytest.MonkeyPatch) -> dict[str, pa.Table]:
    """Run the reference of a job; return its result tables."""
    ages, step = Ages(), Subtask.step

    def watched(subtask: Subtask, number: int, *seen: Any) -> Work:
        work = step(subtask, number, *seen)
        ages.note(subtask, number, work)
        return work

    ledgers: dict[str, list[Row]] = {link.name: [] for link in job.links}
    with monkeypatch.context() as patch:
        patch.setattr(Subtask, "step", watched)
        for batch in run_reference(job, replayed=read_replayed(job)):
            for link in job.links:
                receiver = job.stage(link.edge.receiver).name
                for side, rows in batch.rows[link.name].items():
                    for row in rows:
                        noted = ages.of.get((batch.number, receiver, row["receiver"]))
                        if side == "receiver" and noted is not None:
                            _add_latency(row, noted)
                        ledgers[link.name].append({**row, "side": side, "batch_id": batch.number})
    schema = LEDGER.arrow_schema()
    tables = {name: pa.Table.from_pylist(rows, schema=schema) for name, rows in ledgers.items()}
    return result_tables(job, History.of_tables(job, tables))


def _add_latency(row: Row, noted: Counter[int]) -> None:
    """Let a sink's task note its ages where a live run's does."""
    if row["task_state"] is not None:
        state = json.loads(row["task_state"])
        state["latency"] = [list(pair) for pair in sorted(noted.items())]
        row["task_state"] = json.dumps(state)
