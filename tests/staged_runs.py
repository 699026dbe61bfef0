"""A job run stage by stage in memory: its state after each round, and that as rows of ledgers.

The rows have the columns of the contract, and beside them a subtask's complete state by name, which
tests read: ``channel_state`` the rest of a channel, and on the first row of each subtask and edge
``task_state`` the rest of the subtask.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from functools import cached_property, partial
from typing import Any

from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import Replayed, read_replayed
from flowcontrol.live.whole import Staged
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.state.declared import as_dict
from flowcontrol.state.network import Task
from flowcontrol.state.rows import TAKEN_FLOATING
from flowcontrol.systems.transports.rules import rules_of_kind
from flowcontrol.trace.channel_state import GateState, InputChannelState, PartitionState
from flowcontrol.trace.round_state import RoundState, TaskState

FEW = {"runs": 1 << 16, "spills": 1 << 12, "windows": 1 << 12, "results": 1 << 13, "kept": 1 << 13}
"""Entries of logs; a run ends with an error when one is full."""

Rows = list[dict[str, Any]]
"""Ledger rows of one side of an edge."""


def receiver_rows(job: Job, task: TaskState, gate_number: int, text: str) -> Rows:
    """Return a subtask's rows of one of its gates: what the receiver's side owns."""
    record_bytes = job.stage(task.stage).inputs[gate_number].record_bytes
    gate, first = task.gates[gate_number], _first_channel(task, gate_number)
    rows = []
    for index, channel in enumerate(gate.channels):
        used = sum(message.buffer == TAKEN_FLOATING for message in channel.queue)
        reading = _is_read(task.state, gate_number, index)
        used += reading and task.state.buffer == TAKEN_FLOATING
        state = {
            "local": channel.is_local,
            "channel": as_dict(channel.state),
            "queue": [as_dict(message) for message in channel.queue],
        }
        if job.latency > 1 and not channel.is_local:
            state["trip"] = job.latency
        if channel.grant is not None:
            state["grant"] = as_dict(channel.grant)
        if task.checkpoints is not None:
            state["aligned"] = as_dict(task.checkpoints.channels[first + index])
        if job.faults is not None:
            is_read = _is_read(task.state, gate_number, index)
            state |= {"gone": _gone(task), "reading": task.state.left * is_read}
        rows.append(
            {
                "sender": channel.sender,
                "receiver": channel.receiver,
                "announced": _announced(job, channel),
                "consumed": channel.state.consumed,
                "exclusive": max(0, channel.state.initial),
                "floating_held": channel.state.floating + used,
                "pool_used": gate.pool.in_use,
                "pool_size": gate.pool.size,
                "rows": channel.taken,
                "bytes": channel.taken * record_bytes,
                "channel_state": _text(state),
                "task_state": text if index == 0 else None,
            }
        )
    return rows


def _first_channel(task: TaskState, gate: int) -> int:
    """Return how many input channels the gates before one have."""
    return sum(len(before.channels) for before in task.gates[:gate])


def _announced(job: Job, channel: InputChannelState) -> int:
    """Return the grant as its sender is to see it; where there is none, what has arrived."""
    records = job.record_transport
    has_one = not channel.is_local if records is None else rules_of_kind(records.kind).announces
    return channel.state.announced if has_one else channel.state.arrived


def sender_rows(job: Job, task: TaskState, number: int, after: int | None, text: str) -> Rows:
    """Return a subtask's rows of one of its partitions: what the sender's side owns.

    ``after`` is the round: a row has what that sent; by default it has all that is under way.
    """
    record_bytes = job.stage(task.stage).outputs[number].record_bytes
    part = task.partitions[number]
    rows = []
    for index, channel in enumerate(part.subpartitions):
        own, written = channel.state, channel.state.sent + channel.ready
        trip = 1 if channel.is_local else job.latency
        state = {
            "local": channel.is_local,
            "channel": as_dict(own),
            "queue": [as_dict(message) for message in channel.finished],
            "held": channel.lent,
            "routed": channel.routed,
            "messages": [
                as_dict(sent.message)
                for sent in channel.under_way
                if after is None or not 0 <= sent.arrives < after + trip
            ],
        }
        if trip > 1:
            state["trip"] = trip
        if job.faults is not None:
            state["gone"] = _gone(task)
        rows.append(
            {
                "sender": channel.sender,
                "receiver": channel.receiver,
                "written": written,
                "released": written,
                "sent": own.sent,
                "credit": channel.credit,
                "backlog": channel.backlog,
                "pool_used": part.pool.in_use,
                "pool_size": part.pool.size,
                "rows": channel.emitted,
                "bytes": channel.emitted * record_bytes,
                "channel_state": _text(state),
                "task_state": text if index == 0 else None,
            }
        )
    return rows


def round_rows(
    job: Job, tasks: Iterable[TaskState], number: int | None = None
) -> dict[str, dict[str, Rows]]:
    """Return the ledger rows of a round, by edge name, then side ("sender" or "receiver").

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    tasks : iterable of TaskState
        All subtasks after the round.
    number : int, optional
        The round, where their states have everything that is under way, and not only what it sent.
    """
    found: dict[str, dict[str, Rows]] = {
        link.name: {"sender": [], "receiver": []} for link in job.links
    }
    for task in tasks:
        text = _text(_task_document(job, task))
        for place, gate in enumerate(task.gates):
            found[gate.edge]["receiver"] += receiver_rows(job, task, place, text)
        for place, part in enumerate(task.partitions):
            found[part.edge]["sender"] += sender_rows(job, task, place, number, text)
    return found


def _gone(task: TaskState) -> int:
    """Tell whether a task is not deployed: 1 if so."""
    return int(not task.is_running)


def _is_read(task: Task, gate: int, channel: int) -> bool:
    in_hand = task.left + task.marks + task.goes_on > 0
    return in_hand and task.gate == gate and task.channel == channel


def _task_document(job: Job, task: TaskState) -> dict[str, Any]:
    """Return what a subtask's first row of an edge holds of the subtask."""
    state: dict[str, Any] = {
        "task": as_dict(task.state),
        "operators": [as_dict(operator) for operator in task.operators],
        "union": task.union,
        "times_us": [task.busy_us, task.idle_us, task.backpressured_us],
        "gates": [_kept(gate, "waiting", "order") for gate in task.gates],
        "partitions": [_kept(part, "pending", "left_bytes") for part in task.partitions],
    }
    if job.record_transport is not None:
        state["held"] = int(task.holds_senders)
    if task.source is not None:
        state["source"] = as_dict(task.source)
        state["controller"] = task.controller
    if task.log is not None:
        state["log"] = as_dict(task.log)
    if task.checkpoints is not None:
        state["checkpoints"] = asdict(task.checkpoints)
        del state["checkpoints"]["channels"]
        if task.checkpoints.aside is None:
            del state["checkpoints"]["aside"]
    if task.time is not None:
        channels = [as_dict(channel) for channel in task.time.channels]
        own = {"state": as_dict(task.time.state), "channels": channels, "stamp": task.time.stamp}
        state["time"] = own
    if task.window is not None:
        state["window"] = {
            "held": as_dict(task.window.held),
            "store": as_dict(task.window.store),
            "operators": [as_dict(operator) for operator in task.window.operators],
        }
    return state


def _kept(side: GateState | PartitionState, *names: str) -> dict[str, Any]:
    """Return the pool of a gate or a partition, and some of its other fields."""
    pools = {"pool": as_dict(side.pool), "segments": as_dict(side.segments)}
    return pools | {name: getattr(side, name) for name in names}


_encode = json.JSONEncoder(separators=(",", ":")).encode


def _text(state: Any) -> str:
    return _encode(state)


# ---------------------------------------------------------------------- runs


class RoundRows:
    """Rows of one round: by edge name, then side; and the state that they hold.

    ``rows`` may be what makes them when somebody asks for them.
    """

    def __init__(self, number: int, rows: Any, state: RoundState) -> None:
        self.number, self._rows, self.state = number, rows, state

    @cached_property
    def rows(self) -> dict[str, dict[str, Rows]]:
        return self._rows() if callable(self._rows) else self._rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RoundRows):
            return NotImplemented
        mine, others = (self.number, self.state), (other.number, other.state)
        return mine == others and self.rows == other.rows

    __hash__ = None  # type: ignore[assignment]


def staged(job: Job, replayed: Replayed | None = None) -> Staged:
    """Return a job that is run stage by stage, before its first round."""
    rows = replayed or read_replayed(job)
    sizes = LogSizes.of_processes(job, rows.keys)
    # Jobs of tests are small, and a round of a whole job compares all of its memory.
    few = {name: min(entries, FEW[name]) for name, entries in asdict(sizes).items() if name in FEW}
    return Staged(job, rows, replace(sizes, **few))


def run_staged(
    job: Job, replayed: Replayed | None = None, *, restarts: int = 0
) -> Iterator[RoundRows]:
    """Run a job stage by stage; yield the rows and the state of each round.

    All stages begin anew every ``restarts`` rounds from what they have published; never with 0.
    """
    yield from _go_on(job, staged(job, replayed), 0, restarts)


def resumed(job: Job, after: int, replayed: Replayed | None = None) -> Iterator[RoundRows]:
    """Run a job likewise, but begin anew after some rounds from what these have published.

    Yields the rounds behind those.
    """
    own = staged(job, replayed)
    for _ in range(after):
        own.run()
    own.restart()
    yield from _go_on(job, own, after)


def _go_on(job: Job, own: Staged, first: int, restarts: int = 0) -> Iterator[RoundRows]:
    for number in range(first, job.rounds):
        if restarts and number and number % restarts == 0:
            own.restart()
        state = own.run()
        yield RoundRows(number, partial(round_rows, job, state.tasks, number), state)
