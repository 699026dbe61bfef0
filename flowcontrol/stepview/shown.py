"""The state of a job after a round, as the page shows it: nested mappings of plain values."""

from collections.abc import Mapping
from typing import Any

from flowcontrol.job.channel_state import SubpartitionState
from flowcontrol.job.figures import put_out_and_pending
from flowcontrol.job.job import Job
from flowcontrol.job.round_state import RoundState, TaskState
from flowcontrol.scenario import Edge
from flowcontrol.stepview import names
from flowcontrol.stepview.channels import shown_channel, shown_gate, shown_partition
from flowcontrol.stepview.tasks import (
    connection_name,
    overtaken_of,
    shown_connection,
    shown_managers,
    shown_task,
)

Shown = dict[str, Any]
"""What is shown of a job: by kind of thing, then by name, then by figure."""


def shown_state(job: Job, state: RoundState) -> Shown:
    """Return what the page shows of a job after a round.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    state : RoundState
        Of one of its rounds.

    Returns
    -------
    dict
        ``round`` and ``t_s``, and by name ``tasks``, ``gates``, ``partitions``, ``channels``,
        ``managers`` and ``connections``. Figures of a channel that the table ``channels`` has too
        go by the table's names. In each round there are the same keys.
    """
    return {
        "round": state.number,
        "t_s": state.end_us / 1e6,
        "tasks": {names.name_of(task): shown_task(task) for task in state.tasks},
        "gates": {
            names.gate_name(gate.edge, task.subtask): shown_gate(gate)
            for task in state.tasks
            for gate in task.gates
        },
        "partitions": {
            names.partition_name(part.edge, task.subtask): shown_partition(part)
            for task in state.tasks
            for part in task.partitions
        },
        "channels": _channels(job, state),
        "managers": shown_managers(job, state),
        "connections": {connection_name(one): shown_connection(one) for one in state.connections},
    }


def _channels(job: Job, state: RoundState) -> Shown:
    sizes = {link.name: link.record_bytes for link in job.links}
    edges = {link.name: link.edge for link in job.links}
    senders = {(part.edge, task.subtask): task for task in state.tasks for part in task.partitions}
    receivers = {
        (gate.edge, task.subtask): (task, place)
        for task in state.tasks
        for place, gate in enumerate(task.gates)
    }
    found = {}
    for name, out, into in state.channels():
        receiver, place = receivers[name.edge, name.receiver]
        ins = [channel.sender for channel in receiver.gates[place].channels]
        shown = shown_channel(
            job,
            senders[name.edge, name.sender],
            out,
            receiver,
            (place, ins.index(name.sender)),
            into,
            sizes[name.edge],
            _between_edges(edges, senders[name.edge, name.sender], name.edge, out),
        )
        before = sum(len(gate.channels) for gate in receiver.gates[:place])
        overtaken = overtaken_of(receiver)
        index = before + ins.index(name.sender)
        shown["is_overtaken"] = overtaken[index] if overtaken else 0
        found[names.channel_name(*name)] = shown
    return found


def _between_edges(
    edges: Mapping[str, Edge], task: TaskState, edge: str, out: SubpartitionState
) -> int:
    """Return the records that a stage has put out, and has yet to write to a channel of an edge."""
    own = next(part for part in task.partitions if part.edge == edge)
    first = next(part for part in task.partitions if edges[part.edge].sender == edges[edge].sender)
    if first is own:
        return 0
    waiting = put_out_and_pending(first.pending, own.pending)
    if edges[edge].partitioner == "broadcast":
        return len(waiting)
    return sum(own.subpartitions[place] is out for place in waiting)
