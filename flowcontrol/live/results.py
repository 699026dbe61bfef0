"""The result tables, made from the ledgers: the history of a run is its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from flowcontrol.job import Job, JobEdge, JobVertex
from flowcontrol.job.checkpoint_tables import checkpoint_tables
from flowcontrol.job.delivery_table import delivery_table
from flowcontrol.job.figures import input_usages, latency_figures, put_out_and_pending, usage
from flowcontrol.job.process_table import process_table
from flowcontrol.job.restart_table import restart_table
from flowcontrol.job.sampling import Doing, Sampling, sampling_of
from flowcontrol.job.source_logs import Arrivals, has_log
from flowcontrol.job.timed_settings import has_stamps
from flowcontrol.live.deployments import EDGE_LEVELS, Deployments, failures_of
from flowcontrol.live.history import Channel, History, Row, rows_of, state_of
from flowcontrol.live.retraced import Retraced, retrace
from flowcontrol.live.time_rows import time_table
from flowcontrol.operators.states import SourceLog
from flowcontrol.protocol.queues import SPANNING_DATA
from flowcontrol.protocol.sender_rules import unsent
from flowcontrol.records import MARKER, RECORD, RESULTS

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
    markers : Counter of int
        Latency markers seen, by rounds since they were marked.
    taken : int
        Records in by the last round, cumulative.
    """

    times_us: list[int] = field(default_factory=lambda: [0, 0, 0])
    latency: Counter[int] = field(default_factory=Counter)
    markers: Counter[int] = field(default_factory=Counter)
    taken: int = 0


Doings = dict[tuple[str, int], _Did]


def result_tables(
    job: Job, history: History, retraced: Retraced | None = None
) -> dict[str, pa.Table]:
    """Return the tables ``stages``, ``channels`` and ``latency`` of a run, and of checkpoints.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    history : History
        Its ledgers. An interrupted run has fewer rounds.
    retraced : Retraced, optional
        What the coordinators did; by default it is retraced.

    Returns
    -------
    dict of str to pyarrow.Table
        With the columns of :data:`flowcontrol.records.RESULTS`; of a job with checkpoints also
        ``checkpoints`` and ``checkpoint_tasks``, of one that may fail ``restarts``, of one whose
        records have event times or keys ``time``, of one that stalls ``processes``, and where
        readers may see something else than what was written ``delivery``.
    """
    tables = {name: _Growing(name) for name in ("stages", "channels", "latency")}
    deployed = Deployments(job, history)
    for t_s, first, last in job.samples(history.rounds):
        did = _doings(job, history, first, last)
        tables["stages"].add(_stage_rows(job, history, deployed, did, (t_s, first, last)))
        tables["latency"].add(_latency_rows(job, did, t_s))
        for link in job.links:
            tables["channels"].add(_channel_rows(job, history, deployed, link, t_s, last))
    found = {name: table.finish() for name, table in tables.items()}
    if has_stamps(job):
        found["time"] = time_table(job, history, deployed)
    if job.scenario.has_processes:
        found["processes"] = process_table(job, history.rounds)
    retraced = retrace(job, history) if retraced is None else retraced
    if retraced.checkpoints is not None:
        found |= checkpoint_tables(job, retraced.checkpoints.coordinator)
    if retraced.delivery is not None:
        found["delivery"] = delivery_table(retraced.delivery)
    sampling = sampling_of(job)
    if sampling is not None:
        found["samples"] = _samples(job, history, deployed, sampling)
    failures = failures_of(job, history)
    return found if failures is None else found | {"restarts": restart_table(failures)}


def _samples(job: Job, history: History, deployed: Deployments, sampling: Sampling) -> pa.Table:
    """Sample the rounds of a run that is over, as their ledgers say what tasks did in them."""
    while (number := sampling.next_round) < history.rounds:
        sampling.look(number, partial(_doing, history, deployed, number))
    return sampling.table()


def _doing(history: History, deployed: Deployments, number: int, plan: JobVertex) -> list[Doing]:
    """Return what the tasks of a vertex did in a round."""
    return [
        Doing(
            not deployed.is_gone(plan.name, subtask, number) and state["task"]["is_finished"] == 0,
            state["times_us"][2],
        )
        for subtask, state in sorted(history.tasks(plan, number).items())
    ]


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
                did.markers.update(number - us // job.round_us for us in state.get("marked_us", []))
                did.taken = 0 if plan.is_source else state["task"]["taken"]
    return found


def _stage_rows(
    job: Job, history: History, deployed: Deployments, did: Doings, sample: tuple[float, int, int]
) -> Iterator[Row]:
    t_s, first, last = sample
    seconds = (last - first + 1) * job.round_us / 1e6
    for plan in job.stages:
        before = history.taken(plan, first - 1)
        logs = _logs(job, history, plan, last)
        for subtask in range(plan.stage.parallelism):
            own = did[plan.name, subtask]
            carried = deployed.carried(plan.name, subtask, last)
            then = deployed.carried(plan.name, subtask, first - 1)
            taken, sent = own.taken + carried[0], history.sent(plan, subtask, last) + carried[1]
            taken_before = before.get(subtask, 0) + then[0]
            sent_before = history.sent(plan, subtask, first - 1) + then[1]
            levels = {
                **_input_levels(history, plan, subtask, last),
                **_output_levels(history, plan, subtask, last),
            }
            if deployed.is_gone(plan.name, subtask, last):
                levels = dict.fromkeys(levels, 0)
            busy, idle, blocked = (time_us / seconds / 1000 for time_us in own.times_us)
            yield {
                "t_s": t_s,
                "stage": plan.name,
                "subtask": subtask,
                "records_in": taken,
                "records_out": sent,
                "rate_in": (taken - taken_before) / seconds,
                "rate_out": (sent - sent_before) / seconds,
                "busy_ms_per_s": busy,
                "idle_ms_per_s": idle,
                "backpressured_ms_per_s": blocked,
                **levels,
                **_log_levels(job, plan, subtask, logs.get(subtask), last),
            }


def _input_levels(history: History, plan: JobVertex, subtask: int, number: int) -> Row:
    """Usages and queues of a subtask's gates (reference section 10)."""
    queued = exclusive = exclusive_used = floating = floating_used = 0
    for link in plan.inputs:
        rows = rows_of(history.sides[link.name]["receiver"][number], receiver=subtask)
        sent = history.sides[link.name]["sender"][number]
        floating += rows[0]["pool_size"]
        floating_used += rows[0]["pool_used"]
        for row in rows:
            state = state_of(row)
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
    return sum(message["kind"] <= SPANNING_DATA for message in queue)


def _output_levels(history: History, plan: JobVertex, subtask: int, number: int) -> Row:
    """Usages and queues of a subtask's result partitions."""
    size = used = queued = 0
    for link in plan.outputs:
        rows = rows_of(history.sides[link.name]["sender"][number], sender=subtask)
        size += rows[0]["pool_size"]
        used += rows[0]["pool_used"]
        queued += sum(state_of(row)["channel"]["buffers"] for row in rows)
    return {
        "out_pool_usage": float(usage(np.array([used]), np.array([size]))[0]),
        "output_queue_buffers": queued,
        "output_pool_size": size,
        "output_pool_used": used,
    }


def _logs(job: Job, history: History, plan: JobVertex, number: int) -> dict[int, SourceLog]:
    """Logs of a source's subtasks after a round; those of a stage without one are none."""
    if not has_log(job, plan):
        return {}
    return {i: SourceLog(**state["log"]) for i, state in history.tasks(plan, number).items()}


def _log_levels(job: Job, plan: JobVertex, subtask: int, log: SourceLog | None, number: int) -> Row:
    """What waits in the log of a subtask after a round, and for how long."""
    arrivals = Arrivals.read_from(job, plan, subtask)
    found = (0, 0.0)
    if arrivals is not None and log is not None:
        found = arrivals.levels(log, (number + 1) * job.round_us)
    return dict(zip(("lag_records", "lag_s"), found, strict=True))


def _between_edges(job: Job, history: History, link: JobEdge, number: int) -> Counter[Channel]:
    """Count the records that a stage has put out, and has yet to write to an edge, by channel."""
    plan = next(plan for plan in job.stages if link in plan.outputs)
    first = next(own for own in plan.outputs if own.edge.sender == link.edge.sender)
    found: Counter[Channel] = Counter()
    if first is link:
        return found
    places = plan.outputs.index(first), plan.outputs.index(link)
    for subtask, state in history.tasks(plan, number).items():
        pending = (state["partitions"][place]["pending"] for place in places)
        own = [(one.sender, one.receiver) for one in link.channels if one.sender == subtask]
        for place in put_out_and_pending(*pending):
            found.update(own if link.edge.partitioner == "broadcast" else [own[place]])
    return found


def _channel_rows(
    job: Job, history: History, deployed: Deployments, link: JobEdge, t_s: float, number: int
) -> Iterator[Row]:
    sent, received = (history.sides[link.name][side][number] for side in ("sender", "receiver"))
    waiting = _between_edges(job, history, link, number)
    for channel in link.channels:
        out = sent[channel.sender, channel.receiver]
        into = received[channel.sender, channel.receiver]
        state = state_of(into)
        flying = state_of(out)["channel"]["written"] - state["channel"]["processed"]
        flying += waiting[channel.sender, channel.receiver]
        row = {
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
        ends = (link.edge.sender, channel.sender), (link.edge.receiver, channel.receiver)
        if any(deployed.is_gone(*end, number) for end in ends):
            row |= dict.fromkeys(EDGE_LEVELS, 0)
        yield row


def _latency_rows(job: Job, did: Doings, t_s: float) -> Iterator[Row]:
    """Yield the latencies of records at sinks, then those of markers behind the sources."""
    sources = {plan.name for plan in job.stages if plan.is_source}
    seen = [(RECORD, place, own.latency) for place, own in did.items()]
    seen += [(MARKER, place, own.markers) for place, own in did.items() if place[0] not in sources]
    for kind, (stage, subtask), latency in seen:
        if latency:
            ages, counts = np.array(sorted(latency.items())).T
            one = np.zeros(1, np.int64)
            found = latency_figures(ages, counts, one, job.round_us / 1000)
            figures = {name: value for name, [value] in found.items()}
            yield {"t_s": t_s, "stage": stage, "subtask": subtask, "kind": kind, **figures}
