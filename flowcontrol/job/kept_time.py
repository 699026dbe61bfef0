"""What the rows of a ledger keep of event time where the ends of a channel share no memory.

The stamps of records go with the records. The marks of a round stand in the sender's row of it, the
receiver's row has those that wait with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowcontrol.job.channel_elements import ChannelElements, Mark
from flowcontrol.job.subtask import Subtask
from flowcontrol.job.timed_task import TimeRows
from flowcontrol.job.windowed_task import WindowRows
from flowcontrol.protocol.state import put_back
from flowcontrol.protocol.windows.firing import RESTING

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
    windows : (int, int, (int, int)), optional
        Of a task with windows: round in which these were kept last, the one in which the record
        that it took up last was emitted, and late records and results of attempts before.
    alignment : object, optional
        Of the first subtask of an aligned source: what the coordinators beside it remember.
    batches : object, optional
        Of the first subtask with Spark's windows: what the driver of their query remembers.
    marked_us : list of int, optional
        When the latency markers were marked that it saw in the round; None: its job has none.
    paused_before_us : int
        For how long earlier attempts were paused, beyond its own count.
    """

    blocked_us: int
    waiting: Marks
    noted: Marks
    windows: tuple[int, int, tuple[int, int]] | None = None
    alignment: Any = None
    batches: Any = None
    marked_us: list[int] | None = None
    paused_before_us: int = 0

    def document(self) -> dict[str, Any]:
        """Return what stands with the task's state."""
        found: dict[str, Any] = {"blocked_us": self.blocked_us}
        if self.windows is not None:
            found["kept_in"], found["born"], found["carried"] = self.windows
        if self.alignment is not None:
            found["alignment"] = self.alignment
        if self.batches is not None:
            found["batches"] = self.batches
        if self.marked_us is not None:
            found["marked_us"] = self.marked_us
        if self.paused_before_us > 0:
            found["paused_before_us"] = self.paused_before_us
        return found


def kept_time(subtask: Subtask, alignment: Any = None, batches: Any = None) -> KeptTime | None:
    """Return what is kept of a subtask after a round; None: its job has no event time.

    Parameters
    ----------
    subtask : Subtask
        After the round.
    alignment : object, optional
        What coordinators beside it remember, if its rows keep that.
    batches : object, optional
        What the driver of a query of windows remembers, likewise.
    """
    rows = subtask.time
    if rows is None:
        return None
    own = subtask.window
    windows = None if own is None else (own.kept_in, own.born, own.carried)
    return KeptTime(
        rows.blocked_us,
        _marks(rows.inputs),
        _marks(rows.outputs),
        windows,
        alignment,
        batches,
        list(rows.marked_us) if subtask.task.has_markers == 1 else None,
        rows.paused_before_us,
    )


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
    rows.paused_before_us = state.get("paused_before_us", 0)
    subtask.task.stamp = state["time"]["stamp"]
    count_outputs(subtask, [part["pending"] for part in state["partitions"]])


def count_outputs(subtask: Subtask, pending: Iterable[Sequence[int]] | None = None) -> None:
    """Have what a subtask puts out next be numbered as its channels' records are.

    Parameters
    ----------
    subtask : Subtask
        Its channels have their counts.
    pending : iterable of sequence of int, optional
        Per partition: channels of the records that it has not written yet, and marks among them; by
        default there are none.

    Notes
    -----
    Not what was routed: a source that cannot rewind goes on there, and its channels at a cut.
    """
    if subtask.time is None:
        return
    waiting = [()] * len(subtask.partitions) if pending is None else pending
    for part, entries, out in zip(subtask.partitions, waiting, subtask.time.outputs, strict=True):
        for place, (own, elements) in enumerate(zip(part.channels, out, strict=True)):
            elements.taken = own.written + entries.count(place)


def put_window_back(subtask: Subtask, rows: WindowRows, state: Mapping[str, Any]) -> None:
    """Give a subtask what its task's state has of windows; the windows themselves are elsewhere."""
    put_back(rows.held, state["window"]["held"])
    put_back(rows.windows.store, state["window"]["store"])
    for operator, kept in zip(rows.operators, state["window"]["operators"], strict=True):
        put_back(operator, kept)
    is_under_way = rows.windows.store.phase != RESTING or rows.held.to_give > 0
    subtask.task.is_firing = int(is_under_way)
    subtask.task.yields = rows.held.yields if rows.held.to_give > 0 else 0
    rows.kept_in, rows.born = state.get("kept_in", -1), state.get("born", 0)
    late, fired = state.get("carried", (0, 0))
    rows.carried = late, fired
