"""A round of tasks as ledger rows, and back: what they publish, and the columns of the contract.

A side's row of a channel holds the columns that the contract names, and in ``channel_state`` the
rest of that side. The first row of each subtask, on the first edge of its stage, has in
``task_state`` what belongs to no channel; that of the stage's first subtask has besides, under
``stage``, what the stage's tasks have published together, and what acts between its rounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy import typing as npt

from flowcontrol.kernel import views as v
from flowcontrol.kernel.waits import waiting_from
from flowcontrol.layout.graph import Channel, JobEdge, JobVertex, Member
from flowcontrol.layout.job import Job
from flowcontrol.ledger.audit_rules import unseen_messages
from flowcontrol.live.replica import Replica
from flowcontrol.live.shares import ChannelShare, Machines, Shares, TaskShare, waiting_in
from flowcontrol.memory.fields import ABSENT
from flowcontrol.memory.places import Places
from flowcontrol.protocol.network.partition_kinds import PIPELINED
from flowcontrol.protocol.network.subpartition_rules import channel_backlog, ready_messages
from flowcontrol.state.network import CheckpointReport
from flowcontrol.state.queues import SPANNING_DATA
from flowcontrol.state.rows import TAKEN_FLOATING
from flowcontrol.systems.transports.rules import rules_of_kind
from flowcontrol.trace.channel_state import credit_at_sender
from flowcontrol.trace.round_state import Result

# --- What a subtask did in a round, as far as rows have to move; read off the kernel's journal.


Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EdgeWork:
    """Records that went out over an edge."""

    routes: Ints  # Subpartition of each, in order
    # Which of the records taken up each is made of; of a task with windows, which of its results.
    parents: Ints
    first: tuple[int, ...]  # Number of the first one on each channel
    emitted: tuple[int, ...]  # How many went to each channel


@dataclass(frozen=True)
class Take:
    """A run of records taken up from a channel."""

    gate: int  # gate, channel: which: a gate of the task, and a channel of that
    channel: int
    first: int  # Number of the first one on the channel
    records: int  # How many
    # Of records that a destination has stored: see :class:`flowcontrol.kernel.ages.Move`.
    due: int = -1
    heard: int = -1
    attempts: int = 0


@dataclass(frozen=True)
class WindowWork:
    """What windows did."""

    results: Sequence[Result]  # What they put out
    born: Sequence[int]  # Of each, from which round its latency counts
    # Records that came too late for every window: of each, how many the task had taken up then.
    late: Sequence[int]


@dataclass(frozen=True)
class SubtaskRound:
    """What a subtask did in a round."""

    job: Job  # The scenario, laid out
    plan: JobVertex  # Its stage
    index: int  # Which subtask of it
    taken: int  # Records that it has taken up so far (a source: emitted)
    # Number of the first record taken up (a source: emitted), and how many.
    first: int
    records: int
    takes: Sequence[Take]  # Where they came from, in order; nothing of a source
    edges: Sequence[EdgeWork]  # By output edge
    # By gate and channel: buffers consumed so far, and records read of the one in hand.
    consumed: Sequence[Sequence[int]]
    read: Sequence[Sequence[int]]
    reports: Sequence[CheckpointReport] = ()  # What it told the coordinator
    # By sink that writes a table (:func:`writers_of`): which of the records taken up each row is
    # made of; of a task with windows, which of its results.
    sinks: Sequence[Ints] = ()
    window: WindowWork | None = None  # None: its stage has no window
    # Of a task that calls a service, which records have left its queue, in order; of a sink with
    # requests and an output, which its destination has stored. ``records`` is how many, and what
    # goes out is made of them. None of another task.
    answered: Sequence[Take] | None = None
    cuts: Mapping[int, int] = field(default_factory=dict)  # Of those, how many before a checkpoint


def writers_of(plan: JobVertex) -> list[Member]:
    """Return the sinks of a task that write a table; what its windows put out is one of its own."""
    return [
        member
        for member in plan.members
        if member.is_sink and member.stage.output is not None and member.stage.window is None
    ]


Row = dict[str, Any]
Rows = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""Ledger rows of a round by edge and side."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


class StageRows:
    """Makes the ledger rows of a stage."""

    def __init__(self, job: Job, plan: JobVertex, replica: Replica) -> None:
        self._job, self._plan, self._replica = job, plan, replica
        self._memory = memory = replica.memory
        self._first = memory.places.tasks[plan.name]
        records = job.record_transport
        self._announces = records is None or rules_of_kind(records.kind).announces
        self._counts_records = records is not None
        self._has_credits = not self._counts_records and memory.head.is_tcp == 0

    def make(
        self, shares: Shares, works: Sequence[SubtaskRound], between: Any
    ) -> dict[str, list[Row]]:
        """Return the rows of the round that the tasks have just run, by edge.

        ``between``: what acts between the rounds of the stage, as JSON takes it.

        By edge; ``task_state`` is not a text yet (:func:`with_texts`).
        """
        found: dict[str, list[Row]] = {
            link.name: [] for link in (*self._plan.inputs, *self._plan.outputs)
        }
        for done in works:
            share = shares.tasks[self._first + done.index]
            state: dict[str, Any] | None = _filled(share, "inputs", "outputs")
            if state is not None and done.index == 0:
                state["stage"] = {**stage_document(shares), "between": between}
            ins, outs = enumerate(self._plan.inputs), enumerate(self._plan.outputs)
            sides = [(link, self._of_gate(done, gate, link, share)) for gate, link in ins]
            sides += [(link, self._of_partition(done, at, link, share)) for at, link in outs]
            for link, rows in sides:
                rows[0]["task_state"], state = state, None
                found[link.name] += rows
        return found

    def _of_gate(
        self, done: SubtaskRound, number: int, link: JobEdge, share: TaskShare
    ) -> list[Row]:
        m, places = self._memory.head, self._memory.places
        gate = v.gate_of(m, places.gates[link.name, done.index])
        first = v.gate_row(m, places.gates[link.name, done.index]).first_channel
        taken = [0] * len(gate.channels)
        for take in done.takes:
            if take.gate == number:
                taken[take.channel] += take.records
        task, rows = v.task_row(m, self._first + done.index), list[Row]()
        waiting = {} if done.answered is None else waiting_from(m, task)
        for place, channel in enumerate(link.incoming(done.index)):
            into, queue = gate.channels[place], gate.queues[place]
            used = sum(one.buffer == TAKEN_FLOATING for one in waiting_in(queue))
            in_hand = task.left + task.marks + task.goes_on > 0
            is_read = in_hand and task.gate == number and task.channel == place
            used += is_read and task.buffer == TAKEN_FLOATING
            own = share.inputs[first + place]
            has_one = self._announces and (self._counts_records or not channel.is_local)
            shown = self._shown_of_input(channel, into, queue, task, is_read)
            state = {**_filled(own), "processed": into.processed, "shown": shown}
            if first + place in waiting:
                state["waits_from"] = waiting[first + place]
            rows.append(
                {
                    **_row(link, channel, gate.pool, taken[place], state),
                    "announced": into.announced if has_one else into.arrived,
                    "consumed": into.consumed,
                    "exclusive": max(0, into.initial),
                    "floating_held": into.floating + used,
                }
            )
        return rows

    def _of_partition(
        self, done: SubtaskRound, number: int, link: JobEdge, share: TaskShare
    ) -> list[Row]:
        m, places = self._memory.head, self._memory.places
        part = v.partition_of(m, places.partitions[link.name, done.index])
        row = v.partition_row(m, places.partitions[link.name, done.index])
        first = row.first_channel
        has_backlog = self._has_credits and row.kind <= PIPELINED
        emitted, rows = done.edges[number].emitted, []
        for place, channel in enumerate(link.outgoing(done.index)):
            out = part.channels[place]
            ready, own = ready_messages(out), share.outputs[first + place]
            shown = self._shown_of_output(channel, out, row, place, own.messages)
            state = {**_filled(own), "written": out.written, "shown": shown}
            rows.append(
                {
                    **_row(link, channel, part.pool, emitted[place], state),
                    "written": out.sent + ready,
                    "released": out.sent + ready,
                    "sent": out.sent,
                    "credit": credit_at_sender(self._job, channel.is_local, out),
                    "backlog": channel_backlog(out) if has_backlog else ready,
                }
            )
        return rows

    def _shown_of_input(
        self, channel: Channel, into: Any, queue: Any, task: Any, is_read: bool
    ) -> dict[str, Any]:
        """Return what the audit reads of a channel at its receiver."""
        waiting = sum(one.records for one in waiting_in(queue))
        if self._job.faults is not None and is_read:
            waiting += task.left
        announced = into.arrived if channel.is_local else into.announced
        counts = [announced, into.consumed, max(0, into.initial), into.processed]
        shown = {"state": counts, "waiting": waiting, **self._shown(channel, task)}
        return shown if self._has_credits else shown | {"grant": 1}

    def _shown_of_output(
        self, channel: Channel, out: Any, row: Any, place: int, messages: list[list[int]]
    ) -> dict[str, Any]:
        """Return what the audit reads of a channel at its sender.

        The turn of its connection comes behind the round, so the next row has what that has sent.
        """
        m, memory = self._memory.head, self._memory
        lent = memory.values(row.held + place * row.held_width, row.held_width)
        has_turn = out.connection >= 0 and not self._replica.sees_turns
        messages = [*self._replica.machines.sent.get(row.first_channel + place, ()), *messages]
        spilled = {"is_spilled": True} if row.kind > PIPELINED else {}
        return {
            "state": [out.sent, out.announced, m[row.routed + place]],
            "buffers": out.buffers + sum(lent),
            "unseen": unseen_messages(out, row.pool.size),
            "messages": [one[1] for one in messages if one[0] <= SPANNING_DATA],
            "overdraft": row.pool.max_overdraft,
            **({"has_turn": True} if has_turn else {}),
            **spilled,
            **self._shown(channel, v.task_row(m, row.task)),
        }

    def _shown(self, channel: Channel, task: Any) -> dict[str, Any]:
        return {
            "is_local": channel.is_local,
            "is_gone": task.status == ABSENT,
            "trip": self._job.trip(channel),
            **({"may_shrink": True} if self._job.scenario.shares_memory else {}),
        }


def _row(link: JobEdge, channel: Channel, pool: Any, count: int, state: Any) -> Row:
    """Return what both sides have of a channel; ``count`` records went over it in the round."""
    return {
        "sender": channel.sender,
        "receiver": channel.receiver,
        "pool_used": pool.in_use,
        "pool_size": pool.size,
        "rows": count,
        "bytes": count * link.record_bytes,
        "channel_state": _encode(state),
        "task_state": None,
    }


def _filled(share: ChannelShare | TaskShare | Shares, *but: str) -> dict[str, Any]:
    """Return the fields of a share that hold something, but for some."""
    return {name: value for name, value in vars(share).items() if value and name not in but}


def stage_document(shares: Shares) -> dict[str, Any]:
    """Return what the tasks of a stage have published together; results of windows are rows."""
    own = _filled(shares, "tasks", "machines", "results")
    machines = {key: value for key, value in vars(shares.machines).items() if value is not True}
    return {**own, **({"machines": machines} if machines["cells"] or machines["wakes"] else {})}


def shares_of(job: Job, places: Places, rows: Rows) -> Shares:
    """Return what tasks have published in a round, as far as rows have it.

    ``rows``: ledger rows of the round, by edge and side.
    """
    found = Shares()
    for link in job.links:
        sides = rows.get(link.name, {})
        for side, stage, numbers in (
            ("receiver", link.edge.receiver, places.ins[link.name]),
            ("sender", link.edge.sender, places.outs[link.name]),
        ):
            first = places.tasks[job.stage(stage).name]
            for row, at in _numbered(link, sides.get(side, ()), numbers):
                own = found.tasks.setdefault(first + row[side], TaskShare())
                state = json.loads(row["channel_state"])
                for shown in ("processed", "written", "shown", "waits_from"):
                    state.pop(shown, None)
                channels = own.inputs if side == "receiver" else own.outputs
                channels[at] = ChannelShare(**state)
                _read_task(found, own, row["task_state"])
    return found


def _numbered(
    link: JobEdge, rows: Iterable[Mapping[str, Any]], numbers: Any
) -> Iterable[tuple[Mapping[str, Any], int]]:
    place = {(one.sender, one.receiver): i for i, one in enumerate(link.channels)}
    for row in rows:
        yield row, int(numbers[place[row["sender"], row["receiver"]]])


def _read_task(found: Shares, own: TaskShare, text: str | None) -> None:
    if text is None:
        return
    state = json.loads(text)
    own.cells, own.wake = state.get("cells", []), state.get("wake", 0)
    own.runs, own.cuts = state.get("runs", []), state.get("cuts", [])
    if (stage := state.get("stage")) is not None:
        del stage["between"]
        machines = Machines(**stage.pop("machines", {}))
        found.add(Shares(machines=machines, **stage))


def side_of_state(plan: JobVertex) -> str:
    """Return on which side of its first link a stage's rows have its tasks' states."""
    return "sender" if plan.is_source else "receiver"


def with_texts(
    plan: JobVertex, rows: Mapping[str, Sequence[Row]], sinks: Sequence[Any]
) -> dict[str, list[Row]]:
    """Return rows whose states are texts, with what the rules of sinks keep of each subtask."""
    side = side_of_state(plan)
    found: dict[str, list[Row]] = {}
    for name, own in rows.items():
        for row in own:
            state = row["task_state"]
            if state is not None and sinks:
                state = {**state, "sink": sinks[row[side]]}
            text = None if state is None else _encode(state)
            found.setdefault(name, []).append({**row, "task_state": text})
    return found


def between_of(rows: Rows, edge: str) -> Any:
    """Return what acts between the rounds of a stage, by its rows of its first edge."""
    for side in rows[edge].values():
        for row in side:
            if row["task_state"] is not None:
                state = json.loads(row["task_state"])
                if "stage" in state:
                    return state["stage"]["between"]
    return None


def released_of(row: Mapping[str, Any]) -> int:
    """Return how many records of a channel its receiver will not read again, by its row there."""
    state = json.loads(row["channel_state"])
    count: int = state.get("waits_from", count_of(row, "processed"))
    return count


def count_of(row: Mapping[str, Any], name: str) -> int:
    """Return a count of a channel, ``written`` or ``processed``, by its row of that side."""
    state = json.loads(row["channel_state"])
    count: int = state.get("channel", state)[name]
    return count
