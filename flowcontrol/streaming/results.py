"""The result tables, made from the ledgers: the history of a run is its metrics."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowcontrol.emulation import Job, Link, StagePlan
from flowcontrol.emulation.samples import samples
from flowcontrol.ledger.ledger import read_history
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol.rules import CH_EXCLUSIVE
from flowcontrol.records import RESULTS
from flowcontrol.streaming.paths import RunPaths

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["History", "result_tables"]

Row = dict[str, Any]
Channel = tuple[int, int]


@dataclass
class History:
    """Ledger rows by edge, side and round.

    Attributes
    ----------
    rounds : int
        Rounds that every side of every link has completed.
    sides : dict
        ``sides[edge name][side][round]`` is a mapping from (sender, receiver) to the row.
    """

    rounds: int
    sides: dict[str, dict[str, list[dict[Channel, Row]]]] = field(default_factory=dict)

    @classmethod
    def of_run(cls, job: Job, paths: RunPaths) -> History:
        """Read the ledgers of a run."""
        return cls.of_tables(
            job, {link.name: read_history(paths.ledger(link)) for link in job.links}
        )

    @classmethod
    def of_tables(cls, job: Job, tables: Mapping[str, pa.Table]) -> History:
        """Sort ledger tables, by edge name, into rounds."""
        sides: dict[str, dict[str, list[dict[Channel, Row]]]] = {}
        for link in job.links:
            found: dict[str, dict[int, dict[Channel, Row]]] = {"sender": {}, "receiver": {}}
            for row in tables[link.name].to_pylist():
                batch = found[row["side"]].setdefault(row["batch_id"], {})
                batch[row["sender"], row["receiver"]] = row
            sides[link.name] = {
                side: [rows[number] for number in sorted(rows)] for side, rows in found.items()
            }
        counts = [len(rounds) for link in sides.values() for rounds in link.values()]
        return cls(min(counts, default=0), sides)


def result_tables(job: Job, history: History) -> dict[str, pa.Table]:
    """Return the tables ``stages``, ``channels`` and ``latency`` of a run.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    history : History
        Its ledgers. An interrupted run has fewer rounds.

    Returns
    -------
    dict of str to pyarrow.Table
        With the columns of :data:`flowcontrol.records.RESULTS`.

    Notes
    -----
    A sample that falls inside a round shows the round before; it covers the rounds since the
    sample before, and where there are none it repeats that sample's rates.
    """
    import pyarrow as pa

    rows: dict[str, list[Row]] = {"stages": [], "channels": [], "latency": []}
    sampled = list(samples(job, history.rounds))
    for plan in job.stages:
        for subtask in range(plan.stage.parallelism):
            rows["stages"] += _stage_rows(job, history, plan, subtask, sampled)
            if plan.is_sink:
                rows["latency"] += _latency_rows(job, history, plan, subtask, sampled)
    for t_s, _, last in sampled:
        for link in job.links:
            rows["channels"] += _channel_rows(history, link, t_s, last)
    rows["stages"].sort(key=lambda row: row["t_s"])
    rows["latency"].sort(key=lambda row: row["t_s"])
    return {
        name: pa.Table.from_pylist(found, schema=RESULTS[name].arrow_schema())
        for name, found in rows.items()
    }


def _of(rows: Mapping[Channel, Row], *, sender: int = -1, receiver: int = -1) -> list[Row]:
    """Rows of one subtask's channels."""
    return [row for (s, c), row in rows.items() if sender in (-1, s) and receiver in (-1, c)]


def _state(row: Row) -> dict[str, Any]:
    """A row's channel state; parsed once."""
    if "parsed" not in row:
        row["parsed"] = json.loads(row["channel_state"])
    parsed: dict[str, Any] = row["parsed"]
    return parsed


def _task(history: History, plan: StagePlan, subtask: int, number: int) -> dict[str, Any]:
    """The task's state after a round: it stands on the first row of each of its links."""
    if plan.inputs:
        rows = _of(history.sides[plan.inputs[0].name]["receiver"][number], receiver=subtask)
    else:
        rows = _of(history.sides[plan.outputs[0].name]["sender"][number], sender=subtask)
    row = next(row for row in rows if row["task_state"] is not None)
    if "task" not in row:
        row["task"] = json.loads(row["task_state"])
    task: dict[str, Any] = row["task"]
    return task


def _stage_rows(
    job: Job, history: History, plan: StagePlan, subtask: int, sampled: list[tuple[float, int, int]]
) -> list[Row]:
    found: list[Row] = []
    for t_s, first, last in sampled:
        seconds = (last - first + 1) * job.round_us / 1e6
        counts = _counts(history, plan, subtask, last)
        before = _counts(history, plan, subtask, first - 1) if first else (0, 0)
        times = [_task(history, plan, subtask, n)["times_us"] for n in range(first, last + 1)]
        busy, idle, blocked = (sum(part) / seconds / 1000 for part in zip(*times, strict=True))
        found.append(
            {
                "t_s": t_s,
                "stage": plan.name,
                "subtask": subtask,
                "records_in": counts[0],
                "records_out": counts[1],
                "rate_in": (counts[0] - before[0]) / seconds,
                "rate_out": (counts[1] - before[1]) / seconds,
                "busy_ms_per_s": busy,
                "idle_ms_per_s": idle,
                "backpressured_ms_per_s": blocked,
                **_input_levels(history, plan, subtask, last),
                **_output_levels(history, plan, subtask, last),
            }
        )
    return found


def _counts(history: History, plan: StagePlan, subtask: int, number: int) -> tuple[int, int]:
    """Records in and out, cumulative."""
    taken = 0 if plan.is_source else _task(history, plan, subtask, number)["task"][r.TASK_IN]
    if plan.is_sink:
        return taken, 0
    rows = _of(history.sides[plan.outputs[0].name]["sender"][number], sender=subtask)
    return taken, sum(_state(row)["row"][r.OUT_RECORDS] for row in rows)


def _input_levels(history: History, plan: StagePlan, subtask: int, number: int) -> Row:
    """Usages and queues of a subtask's gates (reference section 10)."""
    queued = exclusive = exclusive_used = floating = floating_used = 0
    for link in plan.inputs:
        rows = _of(history.sides[link.name]["receiver"][number], receiver=subtask)
        sent = history.sides[link.name]["sender"][number]
        floating += rows[0]["pool_size"]
        floating_used += rows[0]["pool_used"]
        for row in rows:
            state = _state(row)
            queued += len(state["records"])
            if state["local"]:
                queued += sent[row["sender"], row["receiver"]]["backlog"]
            exclusive += row["exclusive"]
            exclusive_used += row["exclusive"] - max(0, state["row"][CH_EXCLUSIVE])
    total = exclusive + floating
    return {
        "in_pool_usage": (exclusive_used + floating_used) / total if total else 0.0,
        "floating_buffers_usage": floating_used / floating if floating else 0.0,
        "exclusive_buffers_usage": exclusive_used / exclusive if exclusive else 0.0,
        "input_queue_buffers": queued,
    }


def _output_levels(history: History, plan: StagePlan, subtask: int, number: int) -> Row:
    """Usages and queues of a subtask's result partitions."""
    size = used = queued = 0
    for link in plan.outputs:
        rows = _of(history.sides[link.name]["sender"][number], sender=subtask)
        size += rows[0]["pool_size"]
        used += rows[0]["pool_used"]
        queued += sum(_state(row)["row"][r.OUT_BUFFERS] for row in rows)
    return {
        "out_pool_usage": used / size if size else 0.0,
        "output_queue_buffers": queued,
        "output_pool_size": size,
        "output_pool_used": used,
    }


def _channel_rows(history: History, link: Link, t_s: float, number: int) -> list[Row]:
    sent, received = (history.sides[link.name][side][number] for side in ("sender", "receiver"))
    found = []
    for channel in link.channels:
        out = sent[channel.sender, channel.receiver]
        into = received[channel.sender, channel.receiver]
        state = _state(into)
        flying = _state(out)["row"][r.OUT_RECORDS] - state["cursors"][r.IN_TAKEN]
        found.append(
            {
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
                "exclusive_free": state["row"][CH_EXCLUSIVE],
                "floating_held": into["floating_held"],
                "queued": len(state["records"]),
                "in_flight_records": flying,
                "in_flight_bytes": flying * link.record_bytes,
            }
        )
    return found


def _latency_rows(
    job: Job, history: History, plan: StagePlan, subtask: int, sampled: list[tuple[float, int, int]]
) -> list[Row]:
    found = []
    for t_s, first, last in sampled:
        counts: dict[int, int] = defaultdict(int)
        for number in range(first, last + 1):
            for age, count in _task(history, plan, subtask, number).get("latency", []):
                counts[age] += count
        total = sum(counts.values())
        if total:
            ages = sorted(counts.items())
            figures = {"mean_ms": sum(age * count for age, count in ages) / total}
            for name, share in (("p50_ms", 50), ("p90_ms", 90), ("p99_ms", 99), ("max_ms", 100)):
                figures[name] = float(_rank(ages, -(-total * share // 100)))
            in_ms = {name: value * job.round_us / 1000 for name, value in figures.items()}
            found.append(
                {"t_s": t_s, "stage": plan.name, "subtask": subtask, "count": total, **in_ms}
            )
    return found


def _rank(ages: list[tuple[int, int]], rank: int) -> int:
    """Value of the given rank (nearest-rank percentile)."""
    for age, count in ages:
        rank -= count
        if rank <= 0:
            return age
    return ages[-1][0]
