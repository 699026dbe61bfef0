"""The result tables, made from the ledgers: the history of a run is its metrics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowcontrol.job import Job, JobEdge, JobVertex
from flowcontrol.job.checkpoint_control import CheckpointControl
from flowcontrol.job.checkpoint_tables import checkpoint_tables
from flowcontrol.job.failure_control import FailureControl
from flowcontrol.job.figures import input_usages, latency_figures, usage
from flowcontrol.job.restart_table import restart_table
from flowcontrol.job.source_logs import Arrivals
from flowcontrol.live.attempts import SeenAttempts
from flowcontrol.live.history import Channel, History, Row
from flowcontrol.live.seen import reports_of
from flowcontrol.operators.states import SourceLog
from flowcontrol.protocol.queues import DATA
from flowcontrol.protocol.sender_rules import unsent
from flowcontrol.records import RESULTS

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS: Final = 4096
"""Rows of a result table that are Python objects at a time."""


class _Growing:
    """A result table that grows by rows, kept as columns."""

    def __init__(self, name: str) -> None:
        self._schema = RESULTS[name].arrow_schema()
        self._rows: list[Row] = []
        self._batches: list[pa.RecordBatch] = []

    def add(self, rows: Iterator[Row]) -> None:
        """Append rows."""
        self._rows += rows
        if len(self._rows) >= CHUNK_ROWS:
            self._pack()

    def _pack(self) -> None:
        import pyarrow as pa

        self._batches.append(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
        self._rows = []

    def finish(self) -> pa.Table:
        """Return the whole table."""
        import pyarrow as pa

        self._pack()
        return pa.Table.from_batches(self._batches, schema=self._schema).combine_chunks()


@dataclass
class _Did:
    """What a task did in the rounds of a sample.

    Attributes
    ----------
    times_us : list of int
        Busy, idle, back-pressured, microseconds.
    latency : Counter of int
        Records processed, by rounds since their emission.
    taken : int
        Records in by the last round, cumulative.
    """

    times_us: list[int] = field(default_factory=lambda: [0, 0, 0])
    latency: Counter[int] = field(default_factory=Counter)
    taken: int = 0


Doings = dict[tuple[str, int], _Did]


def result_tables(job: Job, history: History) -> dict[str, pa.Table]:
    """Return the tables ``stages``, ``channels`` and ``latency`` of a run, and of checkpoints.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    history : History
        Its ledgers. An interrupted run has fewer rounds.

    Returns
    -------
    dict of str to pyarrow.Table
        With the columns of :data:`flowcontrol.records.RESULTS`; of a job with checkpoints also
        ``checkpoints`` and ``checkpoint_tasks``, of one that may fail ``restarts``.

    Notes
    -----
    A sample that falls inside a round shows the round before; it covers the rounds since the
    sample before, and where there are none it repeats that sample's rates.
    """
    tables = {name: _Growing(name) for name in ("stages", "channels", "latency")}
    for t_s, first, last in job.samples(history.rounds):
        did = _doings(job, history, first, last)
        tables["stages"].add(_stage_rows(job, history, did, (t_s, first, last)))
        tables["latency"].add(_latency_rows(job, did, t_s))
        for link in job.links:
            tables["channels"].add(_channel_rows(history, link, t_s, last))
    found = {name: table.finish() for name, table in tables.items()}
    if job.checkpoints is not None:
        found |= _checkpoints(job, history)
    failures = failures_of(job, history)
    return found if failures is None else found | {"restarts": restart_table(failures)}


def _checkpoints(job: Job, history: History) -> dict[str, pa.Table]:
    """Return the tables of checkpoints: what a coordinator makes of all that was reported.

    What fails takes its part. How far sources are does not matter to it, nor what restarts begin
    from.
    """
    control, attempts = CheckpointControl(job), SeenAttempts(job)
    failures = None if job.faults is None else FailureControl(job, attempts, control)
    rows: dict[str, dict[str, list[Row]]] = {}
    for number in range(history.rounds):
        attempts.look(number, rows)
        control.before_round(number)
        if failures is not None and failures.is_due(number):
            failures.before_round(number)
        rows = history.rows(number)
        control.hear(reports_of(job, rows))
    return checkpoint_tables(job, control.coordinator)


def failures_of(job: Job, history: History) -> FailureControl | None:
    """Return what has failed in a run by its last round, as its first stage noted it.

    Returns
    -------
    FailureControl or None
        None: nothing can fail in the job, or no round is done.
    """
    if job.faults is None or history.rounds == 0:
        return None
    kept = history.tasks(job.stages[0], history.rounds - 1)[0].get("control")
    control = FailureControl(job, SeenAttempts(job))
    if kept is not None:
        control.restore(kept["failures"])
    return control


def _doings(job: Job, history: History, first: int, last: int) -> Doings:
    """Add up what every task did in some rounds."""
    found: Doings = {
        (plan.name, subtask): _Did()
        for plan in job.stages
        for subtask in range(plan.stage.parallelism)
    }
    for number in range(first, last + 1):
        for plan in job.stages:
            for subtask, state in history.tasks(plan, number).items():
                did = found[plan.name, subtask]
                did.times_us = [a + b for a, b in zip(did.times_us, state["times_us"], strict=True)]
                for age, count in state.get("latency", []):
                    did.latency[age] += count
                did.taken = 0 if plan.is_source else state["task"]["taken"]
    return found


def _of(rows: Mapping[Channel, Row], *, sender: int = -1, receiver: int = -1) -> list[Row]:
    """Rows of one subtask's channels."""
    return [row for (s, c), row in rows.items() if sender in (-1, s) and receiver in (-1, c)]


def _state(row: Row) -> dict[str, Any]:
    """A row's channel state; parsed once."""
    if "parsed" not in row:
        row["parsed"] = json.loads(row["channel_state"])
    parsed: dict[str, Any] = row["parsed"]
    return parsed


def _stage_rows(
    job: Job, history: History, did: Doings, sample: tuple[float, int, int]
) -> Iterator[Row]:
    t_s, first, last = sample
    seconds = (last - first + 1) * job.round_us / 1e6
    for plan in job.stages:
        before = _taken(history, plan, first - 1)
        logs = _logs(history, plan, last)
        for subtask in range(plan.stage.parallelism):
            own = did[plan.name, subtask]
            taken, sent = own.taken, _sent(history, plan, subtask, last)
            sent_before = _sent(history, plan, subtask, first - 1)
            busy, idle, blocked = (time_us / seconds / 1000 for time_us in own.times_us)
            yield {
                "t_s": t_s,
                "stage": plan.name,
                "subtask": subtask,
                "records_in": taken,
                "records_out": sent,
                "rate_in": (taken - before.get(subtask, 0)) / seconds,
                "rate_out": (sent - sent_before) / seconds,
                "busy_ms_per_s": busy,
                "idle_ms_per_s": idle,
                "backpressured_ms_per_s": blocked,
                **_input_levels(history, plan, subtask, last),
                **_output_levels(history, plan, subtask, last),
                **_log_levels(job, plan, subtask, logs.get(subtask), last),
            }


def _taken(history: History, plan: JobVertex, number: int) -> dict[int, int]:
    """Records in by the end of a round, cumulative, by subtask."""
    if plan.is_source or number < 0:
        return {}
    return {i: state["task"]["taken"] for i, state in history.tasks(plan, number).items()}


def _sent(history: History, plan: JobVertex, subtask: int, number: int) -> int:
    """Records out by the end of a round, cumulative."""
    if plan.is_sink or number < 0:
        return 0
    rows = _of(history.sides[plan.outputs[0].name]["sender"][number], sender=subtask)
    return sum(_state(row)["channel"]["written"] for row in rows)


def _input_levels(history: History, plan: JobVertex, subtask: int, number: int) -> Row:
    """Usages and queues of a subtask's gates (reference section 10)."""
    queued = exclusive = exclusive_used = floating = floating_used = 0
    for link in plan.inputs:
        rows = _of(history.sides[link.name]["receiver"][number], receiver=subtask)
        sent = history.sides[link.name]["sender"][number]
        floating += rows[0]["pool_size"]
        floating_used += rows[0]["pool_used"]
        for row in rows:
            state = _state(row)
            queued += _buffers(state["queue"])
            if state["local"]:
                out = sent[row["sender"], row["receiver"]]
                queued += unsent(out["released"], out["sent"])
            exclusive += row["exclusive"]
            exclusive_used += row["exclusive"] - max(0, state["channel"]["exclusive"])
    levels = np.array([[exclusive], [exclusive_used], [floating], [floating_used]])
    usages = {name: float(found[0]) for name, found in input_usages(*levels).items()}
    return {**usages, "input_queue_buffers": queued}


def _buffers(queue: list[Row]) -> int:
    """Messages of a queue that are no events."""
    return sum(message["kind"] == DATA for message in queue)


def _output_levels(history: History, plan: JobVertex, subtask: int, number: int) -> Row:
    """Usages and queues of a subtask's result partitions."""
    size = used = queued = 0
    for link in plan.outputs:
        rows = _of(history.sides[link.name]["sender"][number], sender=subtask)
        size += rows[0]["pool_size"]
        used += rows[0]["pool_used"]
        queued += sum(_state(row)["channel"]["buffers"] for row in rows)
    return {
        "out_pool_usage": float(usage(np.array([used]), np.array([size]))[0]),
        "output_queue_buffers": queued,
        "output_pool_size": size,
        "output_pool_used": used,
    }


def _logs(history: History, plan: JobVertex, number: int) -> dict[int, SourceLog]:
    """Logs of a source's subtasks after a round; those of a stage without one are none."""
    if not plan.stage.reads_log:
        return {}
    return {i: SourceLog(**state["log"]) for i, state in history.tasks(plan, number).items()}


def _log_levels(job: Job, plan: JobVertex, subtask: int, log: SourceLog | None, number: int) -> Row:
    """What waits in the log of a subtask after a round, and for how long."""
    arrivals = Arrivals.of(job, plan, subtask)
    found = (0, 0.0)
    if arrivals is not None and log is not None:
        found = arrivals.levels(log, (number + 1) * job.round_us)
    return dict(zip(("lag_records", "lag_s"), found, strict=True))


def _channel_rows(history: History, link: JobEdge, t_s: float, number: int) -> Iterator[Row]:
    sent, received = (history.sides[link.name][side][number] for side in ("sender", "receiver"))
    for channel in link.channels:
        out = sent[channel.sender, channel.receiver]
        into = received[channel.sender, channel.receiver]
        state = _state(into)
        flying = _state(out)["channel"]["written"] - state["channel"]["processed"]
        yield {
            "t_s": t_s,
            "edge": link.name,
            "sender": channel.sender,
            "receiver": channel.receiver,
            "written": out["written"],
            "released": out["released"],
            "announced": out["released"] if channel.is_local else into["announced"],
            "sent": out["sent"],
            "consumed": into["consumed"],
            "credit": out["credit"],
            "backlog": out["backlog"],
            "exclusive_free": state["channel"]["exclusive"],
            "floating_held": into["floating_held"],
            "queued": _buffers(state["queue"]),
            "in_flight_records": flying,
            "in_flight_bytes": flying * link.record_bytes,
        }


def _latency_rows(job: Job, did: Doings, t_s: float) -> Iterator[Row]:
    sinks = [plan for plan in job.stages if plan.is_sink]
    for plan in sinks:
        for subtask in range(plan.stage.parallelism):
            latency = did[plan.name, subtask].latency
            if latency:
                ages, counts = np.array(sorted(latency.items())).T
                figures = latency_figures(ages, counts, job.round_us / 1000)
                yield {"t_s": t_s, "stage": plan.name, "subtask": subtask, **figures}
