"""A subtask's complete state as a typed value, and back from the ledger rows that hold it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from flowcontrol.job import channel_state as cs
from flowcontrol.job import round_state as rs
from flowcontrol.job.checkpoint_state import checkpoint_state, put_document_back
from flowcontrol.job.exchanged import Incoming, Outgoing
from flowcontrol.job.kept_time import marks_of, put_marks_back, put_time_back, put_window_back
from flowcontrol.job.record_subtask import RecordSubtask
from flowcontrol.job.subtask import Subtask
from flowcontrol.job.time_state import time_state
from flowcontrol.job.window_state import WindowState, window_state
from flowcontrol.job.windowed_task import WindowRows
from flowcontrol.protocol.queues import in_order, refill_queue
from flowcontrol.protocol.rows import fifo_values, refill
from flowcontrol.protocol.state import columns, copied, put_back
from flowcontrol.protocol.states import Message, ReceivedMessage, Subpartition, Task
from flowcontrol.protocol.subpartition_rules import channel_backlog, ready_messages

Row = Mapping[str, Any]


def task_state(
    subtask: Subtask,
    number: int,
    taken: int = 0,
    heard: Mapping[cs.ChannelId, Subpartition] | None = None,
) -> rs.TaskState:
    """Return a copy of a subtask's state after a round.

    Parameters
    ----------
    subtask : Subtask
        After its round.
    number : int
        The round.
    taken : int, default 0
        Records that it took up in it; a source: that it emitted. No ledger holds that.
    heard : mapping of cs.ChannelId to Subpartition, optional
        Its channels at their senders; by default these have heard all that it has told them.
    """
    gates = range(len(subtask.gates))
    busy_us, idle_us, backpressured_us = subtask.times_us
    source = subtask.source
    return rs.TaskState(
        stage=subtask.plan.name,
        subtask=subtask.index,
        task_manager=subtask.plan.stage.placement[subtask.index],
        is_running=subtask.is_running,
        state=Task(**{name: getattr(subtask.task, name) for name in columns(Task)}),
        operators=tuple(map(copied, subtask.operators)),
        taken=taken,
        busy_us=busy_us,
        idle_us=idle_us,
        backpressured_us=backpressured_us,
        union=tuple(fifo_values(subtask.union)),
        gates=tuple(_gate_state(subtask, i, number, heard or {}) for i in gates),
        partitions=tuple(
            _partition_state(subtask, i, number) for i in range(len(subtask.partitions))
        ),
        holds_senders=isinstance(subtask, RecordSubtask) and subtask.held == 1,
        source=None if source is None else copied(source),
        log=None if subtask.log is None else copied(subtask.log),
        controller=None if source is None else deepcopy(subtask.controller_state),
        checkpoints=checkpoint_state(subtask.checkpoints),
        time=None if subtask.time is None else time_state(subtask.time, subtask.task.stamp),
        window=_window_state(subtask.window),
        processor=None if subtask.processor is None else copied(subtask.processor),
    )


def _window_state(rows: WindowRows | None) -> WindowState | None:
    if rows is None:
        return None
    return window_state(rows.held, rows.windows, rows.results, rows.operators)


def _gate_state(
    subtask: Subtask, number: int, round_number: int, heard: Mapping[cs.ChannelId, Subpartition]
) -> cs.GateState:
    (link, own), gate, job = subtask.in_links[number], subtask.gates[number], subtask.job
    channels = []
    for index, channel in enumerate(own):
        state = gate.channels[index]
        name = cs.ChannelId(link.name, channel.sender, channel.receiver)
        arrives = round_number + job.trip(channel)
        channels.append(
            cs.InputChannelState(
                channel.sender,
                channel.receiver,
                channel.is_local,
                copied(state),
                tuple(map(copied, in_order(gate.queues[index]))),
                subtask.taken[number][index],
                tuple(_told(subtask, number, index, heard.get(name), arrives)),
                copied(subtask.grants[number][index])
                if isinstance(subtask, RecordSubtask)
                else None,
            )
        )
    waiting, order = tuple(fifo_values(gate.waiting)), tuple(fifo_values(gate.order))
    pools = copied(gate.pool), copied(gate.segments)
    return cs.GateState(link.name, *pools, waiting, order, tuple(channels))


def _told(
    subtask: Subtask, gate: int, channel: int, sender: Subpartition | None, arrives: int
) -> Iterator[cs.Told]:
    """Yield what a channel's receiver has told its sender, which hears of it in a round."""
    own, rows = subtask.gates[gate].channels[channel], subtask.checkpoints
    if sender is None:
        return
    if sender.announced != own.announced:
        yield cs.AddCredit(own.announced, arrives)
    if rows is not None:
        first = sum(len(before.channels) for before in subtask.gates[:gate])
        told = getattr(rows.channels[first + channel], subtask.job.barrier_cursor)
        if sender.resumed != told:
            yield cs.ResumeConsumption(told, arrives)


def _partition_state(subtask: Subtask, number: int, round_number: int) -> cs.PartitionState:
    (link, own), part = subtask.out_links[number], subtask.partitions[number]
    out = subtask.outputs[number]
    subpartitions = tuple(
        cs.SubpartitionState(
            channel.sender,
            channel.receiver,
            channel.is_local,
            copied(part.channels[index]),
            tuple(map(copied, in_order(part.queues[index]))),
            tuple(fifo_values(part.held[index])),
            ready_messages(part.channels[index]),
            ready_messages(part.channels[index])
            if isinstance(subtask, RecordSubtask)
            else channel_backlog(part.channels[index]),
            cs.credit_at_sender(subtask.job, channel.is_local, part.channels[index]),
            out.router.counts[index],
            subtask.routed[number][index],
            tuple(
                cs.MessageUnderWay(copied(message), round_number + subtask.job.trip(channel))
                for message in subtask.messages[number][index]
            ),
        )
        for index, channel in enumerate(own)
    )
    pending = tuple(fifo_values(out.pending))
    pools = copied(part.pool), copied(part.segments)
    return cs.PartitionState(link.name, *pools, pending, out.left_bytes, subpartitions)


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
    place = 0
    for number, (gate, rows) in enumerate(zip(subtask.gates, received, strict=True)):
        for index, row in enumerate(rows):
            task_state = task_state or _loads(row["task_state"])
            state = json.loads(row["channel_state"])
            put_back(gate.channels[index], state["channel"])
            refill_queue(gate.queues[index], [ReceivedMessage(**kept) for kept in state["queue"]])
            if isinstance(subtask, RecordSubtask):
                put_back(subtask.grants[number][index], state["grant"])
            if subtask.checkpoints is not None:
                put_back(subtask.checkpoints.channels[place], state["aligned"])
            put_marks_back(subtask, number, index, state)
            place += 1
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
        out = subtask.outputs[number]
        out.emitted = out.router.restore(counts)
    _restore_task(subtask, task_state or {})


def _restore_task(subtask: Subtask, state: Mapping[str, Any]) -> None:
    put_back(subtask.task, state["task"], Task)
    for operator, values in zip(subtask.operators, state["operators"], strict=True):
        put_back(operator, values)
    refill(subtask.union, state["union"])
    if isinstance(subtask, RecordSubtask):
        subtask.held = state["held"]
    if subtask.source is not None:
        put_back(subtask.source, state["source"])
        subtask.controller_state = state["controller"]
    if subtask.log is not None:
        put_back(subtask.log, state["log"])
    if subtask.time is not None:
        put_time_back(subtask, subtask.time, state)
    if subtask.window is not None:
        put_window_back(subtask, subtask.window, state)
    if subtask.checkpoints is not None:
        put_document_back(subtask.checkpoints, state["checkpoints"])
        own = subtask.checkpoints.state
        if subtask.plan.is_source and own.has_ended == 1 and own.data_open == 1:
            subtask.task.limit = subtask.task.taken  # a savepoint has stopped it
    for gate, values in zip(subtask.gates, state["gates"], strict=True):
        put_back(gate.pool, values["pool"])
        put_back(gate.segments, values["segments"])
        refill(gate.waiting, values["waiting"])
        refill(gate.order, values["order"])
    for number, values in enumerate(state["partitions"]):
        part = subtask.partitions[number]
        put_back(part.pool, values["pool"])
        put_back(part.segments, values["segments"])
        out = subtask.outputs[number]
        refill(out.pending, values["pending"])
        out.left_bytes = values["left_bytes"]
        subtask.task.is_pending |= int(bool(values["pending"]))


def incoming_of(row: Row) -> Incoming:
    """Read what a receiver needs off the sender's row of a round ago."""
    state = json.loads(row["channel_state"])
    return Incoming(row["sent"], [Message(**kept) for kept in state["messages"]], marks_of(state))


def outgoing_of(row: Row, cursor: str = "") -> Outgoing:
    """Read what a sender needs off the receiver's row of a round ago.

    Parameters
    ----------
    row : mapping
        Of the receiver.
    cursor : str, default ""
        What it hears of its barriers (:attr:`flowcontrol.job.Job.barrier_cursor`).
    """
    resumed = json.loads(row["channel_state"])["aligned"][cursor] if cursor else 0
    return Outgoing(row["announced"], row["consumed"], resumed)


def _loads(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)
