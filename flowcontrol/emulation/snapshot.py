"""A subtask's complete state as ledger rows, and back.

Cursors are what is audited; the complete state is what a run resumes from. A side's row of a
channel holds both: the columns that the contract names, ``channel_state`` (the rest of that
channel) and, on the first row of each subtask and link, ``task_state`` (the rest of the
subtask). All of it is integers and lists, so equal states are equal text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from flowcontrol.emulation.record_subtask import RecordSubtask
from flowcontrol.emulation.rows import fifo_values, refill
from flowcontrol.emulation.subtask import Incoming, Outgoing, Subtask
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol.queues import in_order, refill_queue
from flowcontrol.protocol.rules import TAKEN_FLOATING, credit_of
from flowcontrol.protocol.state import put_back
from flowcontrol.protocol.states import InputChannel, Message, ReceivedMessage

__all__ = ["incoming_of", "outgoing_of", "receiver_rows", "restore", "sender_rows"]

Row = Mapping[str, Any]


def receiver_rows(subtask: Subtask, gate_number: int, latency: Any = None) -> list[dict[str, Any]]:
    """Return a subtask's rows of one of its gates: what the receiver's side owns.

    Parameters
    ----------
    subtask : Subtask
        After its round.
    gate_number : int
        Which gate.
    latency : object, optional
        Of a sink: pairs of rounds since emission and records, kept with the task's state.

    Returns
    -------
    list of dict
        A row per channel, in gate order.
    """
    link, own = subtask.in_links[gate_number]
    gate = subtask.gates[gate_number]
    rows = []
    for index, channel in enumerate(own):
        own_state, waiting = gate.channels[index], in_order(gate.queues[index])
        reading = _is_read(subtask, gate_number, index)
        used = sum(message.buffer == TAKEN_FLOATING for message in waiting)
        used += reading and subtask.task.buffer == TAKEN_FLOATING
        announced = _announced(subtask, channel.is_local, own_state)
        state = {
            "local": channel.is_local,
            "channel": asdict(own_state),
            "queue": [asdict(message) for message in waiting],
        }
        if isinstance(subtask, RecordSubtask):
            state["grant"] = asdict(subtask.grants[gate_number][index])
        rows.append(
            {
                "sender": channel.sender,
                "receiver": channel.receiver,
                "announced": announced,
                "consumed": own_state.consumed,
                "exclusive": max(0, own_state.initial),
                "floating_held": own_state.floating + used,
                "pool_used": gate.pool.in_use,
                "pool_size": gate.pool.size,
                "rows": subtask.taken[gate_number][index],
                "bytes": subtask.taken[gate_number][index] * link.record_bytes,
                "channel_state": _text(state),
                "task_state": _text(_task_state(subtask, latency)) if index == 0 else None,
            }
        )
    return rows


def _announced(subtask: Subtask, is_local: bool, channel: InputChannel) -> int:
    """Return the grant as its sender is to see it; where there is none, what has arrived."""
    counted = isinstance(subtask, RecordSubtask)
    if subtask.job.scenario.system.transport == "unbounded" or (is_local and not counted):
        return channel.arrived
    return channel.announced


def sender_rows(subtask: Subtask, number: int) -> list[dict[str, Any]]:
    """Return a subtask's rows of one of its partitions: what the sender's side owns."""
    link, own = subtask.out_links[number]
    part = subtask.partitions[number]
    rows = []
    for index, channel in enumerate(own):
        row = part.channels[index]
        ready = r.ready_messages(part, index)
        if isinstance(subtask, RecordSubtask):
            has_credit, backlog = subtask.job.has_grants, ready
        else:
            has_credit, backlog = not channel.is_local, r.channel_backlog(row)
        credit = credit_of(row.announced, row.sent) if has_credit else 0
        state = {
            "local": channel.is_local,
            "channel": asdict(row),
            "queue": [asdict(message) for message in in_order(part.queues[index])],
            "held": fifo_values(part.held[index]),
            "routed": subtask.routers[number].counts[index],
            "messages": [asdict(message) for message in subtask.messages[number][index]],
        }
        rows.append(
            {
                "sender": channel.sender,
                "receiver": channel.receiver,
                "written": row.sent + ready,
                "released": row.sent + ready,
                "sent": row.sent,
                "credit": credit,
                "backlog": backlog,
                "pool_used": part.pool.in_use,
                "pool_size": part.pool.size,
                "rows": subtask.routed[number][index],
                "bytes": subtask.routed[number][index] * link.record_bytes,
                "channel_state": _text(state),
                "task_state": _text(_task_state(subtask)) if index == 0 else None,
            }
        )
    return rows


def _is_read(subtask: Subtask, gate: int, channel: int) -> bool:
    task = subtask.task
    return task.left > 0 and task.gate == gate and task.channel == channel


def _task_state(subtask: Subtask, latency: Any = None) -> dict[str, Any]:
    state: dict[str, Any] = {
        "task": asdict(subtask.task),
        "union": fifo_values(subtask.union),
        "times_us": list(subtask.times_us),
        "gates": [
            {
                "pool": asdict(gate.pool),
                "segments": asdict(gate.segments),
                "waiting": fifo_values(gate.waiting),
                "order": fifo_values(gate.order),
            }
            for gate in subtask.gates
        ],
        "partitions": [
            {
                "pool": asdict(part.pool),
                "segments": asdict(part.segments),
                "pending": list(pending),
                "left_bytes": left,
            }
            for part, pending, left in zip(
                subtask.partitions, subtask.pending, subtask.left_bytes, strict=True
            )
        ],
    }
    if isinstance(subtask, RecordSubtask):
        state["held"] = subtask.held
    if subtask.source is not None:
        state["source"] = asdict(subtask.source)
        state["controller"] = subtask.controller_state
    if latency is not None:
        state["latency"] = latency
    return state


def restore(
    subtask: Subtask, received: Iterable[Iterable[Row]], sent: Iterable[Iterable[Row]]
) -> None:
    """Put a fresh subtask into the state that its ledger rows of one batch hold.

    Parameters
    ----------
    subtask : Subtask
        Fresh; changed in place.
    received, sent : iterable of iterable of mapping
        Its rows per gate and per partition, in the order in which they were made.
    """
    task_state: dict[str, Any] | None = None
    for number, (gate, rows) in enumerate(zip(subtask.gates, received, strict=True)):
        for index, row in enumerate(rows):
            task_state = task_state or _loads(row["task_state"])
            state = json.loads(row["channel_state"])
            put_back(gate.channels[index], state["channel"])
            refill_queue(gate.queues[index], [ReceivedMessage(**kept) for kept in state["queue"]])
            if isinstance(subtask, RecordSubtask):
                put_back(subtask.grants[number][index], state["grant"])
    for number, rows in enumerate(sent):
        part, counts = subtask.partitions[number], []
        for index, row in enumerate(rows):
            task_state = task_state or _loads(row["task_state"])
            state = json.loads(row["channel_state"])
            put_back(part.channels[index], state["channel"])
            if not isinstance(subtask, RecordSubtask):
                part.counts[index] = state["channel"]["buffers"] + sum(state["held"])
            refill_queue(part.queues[index], [Message(**kept) for kept in state["queue"]])
            refill(part.held[index], state["held"])
            counts.append(state["routed"])
        subtask.routers[number].restore(counts)
    _restore_task(subtask, task_state or {})


def _restore_task(subtask: Subtask, state: Mapping[str, Any]) -> None:
    put_back(subtask.task, state["task"])
    refill(subtask.union, state["union"])
    if isinstance(subtask, RecordSubtask):
        subtask.held = state["held"]
    if subtask.source is not None:
        put_back(subtask.source, state["source"])
        subtask.controller_state = state["controller"]
    for gate, values in zip(subtask.gates, state["gates"], strict=True):
        put_back(gate.pool, values["pool"])
        put_back(gate.segments, values["segments"])
        refill(gate.waiting, values["waiting"])
        refill(gate.order, values["order"])
    for number, values in enumerate(state["partitions"]):
        part = subtask.partitions[number]
        put_back(part.pool, values["pool"])
        put_back(part.segments, values["segments"])
        subtask.pending[number] = list(values["pending"])
        subtask.left_bytes[number] = values["left_bytes"]


def incoming_of(row: Row) -> Incoming:
    """Read what a receiver needs off the sender's row of a round ago."""
    messages = json.loads(row["channel_state"])["messages"]
    return Incoming(row["sent"], [Message(**kept) for kept in messages])


def outgoing_of(row: Row) -> Outgoing:
    """Read what a sender needs off the receiver's row of a round ago."""
    return Outgoing(row["announced"], row["consumed"])


def _text(state: Any) -> str:
    return json.dumps(state, separators=(",", ":"))


def _loads(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)
