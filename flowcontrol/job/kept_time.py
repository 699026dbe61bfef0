"""What the rows of a ledger keep of event time where the ends of a channel share no memory.

The stamps of records go with the records. The marks of a round stand in the sender's row of it, the
receiver's row has those that wait with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flowcontrol.job.channel_elements import ChannelElements, Mark
from flowcontrol.job.subtask import Subtask
from flowcontrol.job.timed_task import TimeRows
from flowcontrol.protocol.state import put_back

Marks = list[list[list[Mark]]]
"""By gate or partition, and by channel."""


@dataclass(frozen=True)
class KeptTime:
    """What only a run in several processes keeps of a subtask's event time.

    Attributes
    ----------
    blocked_us : int
        For how long it has been back-pressured so far.
    waiting : list of list of list of Mark
        By gate and channel, the marks that have come and that it has not taken.
    noted : list of list of list of Mark
        By partition and channel, the marks that it put there in the round.
    """

    blocked_us: int
    waiting: Marks
    noted: Marks


def kept_time(subtask: Subtask) -> KeptTime | None:
    """Return what is kept of a subtask after a round; None: its job has no event time."""
    rows = subtask.time
    if rows is None:
        return None
    return KeptTime(rows.blocked_us, *map(_marks, (rows.inputs, rows.outputs)))


def _marks(sides: list[list[ChannelElements]]) -> Marks:
    return [[list(elements.marks) for elements in side] for side in sides]


def marks_of(state: Mapping[str, Any]) -> tuple[Mark, ...]:
    """Return the marks that the state of a channel has, of either side."""
    return tuple(Mark(*kept) for kept in state.get("marks", ()))


def put_marks_back(subtask: Subtask, gate: int, channel: int, state: Mapping[str, Any]) -> None:
    """Give an input channel of a subtask the marks that wait there; what it has taken is there."""
    if subtask.time is not None:
        elements = subtask.time.inputs[gate][channel]
        elements.marks.extend(marks_of(state))
        elements.taken = subtask.gates[gate].channels[channel].processed


def put_time_back(subtask: Subtask, rows: TimeRows, state: Mapping[str, Any]) -> None:
    """Give a subtask the event time that its task's state has; its outputs are restored."""
    put_back(rows.state, state["time"]["state"])
    for channel, kept in zip(rows.channels, state["time"]["channels"], strict=True):
        put_back(channel, kept)
    rows.blocked_us = state.get("blocked_us", 0)
    subtask.task.stamp = state["time"]["stamp"]
    for out, part in zip(subtask.outputs, rows.outputs, strict=True):
        for count, elements in zip(out.router.counts, part, strict=True):
            elements.taken = count
