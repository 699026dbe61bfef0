"""What a subtask and its neighbours see of each other in a round, and the rows that it moves."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from flowcontrol.job.channel_elements import Mark
from flowcontrol.protocol.states import Message

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Incoming:
    """What a receiver sees of one channel's sender: its state a round ago.

    Attributes
    ----------
    sent : int
        Messages ever sent.
    messages : sequence of Message
        Those of that round, in order.
    marks : sequence of Mark
        What it put between records of the channel in that round; empty where both ends have one
        memory.
    """

    sent: int
    messages: Sequence[Message]
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Outgoing:
    """What a sender sees of one channel's receiver: its cursors a round ago."""

    announced: int
    consumed: int
    resumed: int = 0


@dataclass
class Work:
    """What a subtask did in a round, as far as rows have to move.

    Attributes
    ----------
    takes : list of (int, int, int)
        Runs of records taken up, in order: gate, channel of the gate, records. Empty for a
        source.
    first, records : int
        Number of the first record taken up (a source: emitted) in the round, and how many.
    routes : list of ndarray of int64
        Per output edge: subpartition of each output record, in order.
    parents : list of ndarray of int64
        Per output edge: which of the records taken up each output record is made of; of a task with
        windows, which of its results.
    """

    takes: list[tuple[int, int, int]] = field(default_factory=list)
    first: int = 0
    records: int = 0
    routes: list[Ints] = field(default_factory=list)
    parents: list[Ints] = field(default_factory=list)


def note_run(takes: list[tuple[int, int, int]], gate: int, channel: int, count: int) -> None:
    """Append a run of records, joined to the last one where it is of the same channel."""
    if takes and takes[-1][:2] == (gate, channel):
        takes[-1] = (gate, channel, takes[-1][2] + count)
    else:
        takes.append((gate, channel, count))
