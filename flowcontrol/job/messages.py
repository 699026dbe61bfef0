"""One message of the data plane, as a trace has it, and who notes messages as a run goes on."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from flowcontrol.job.channel_state import ChannelId, InputChannelState, SubpartitionState
from flowcontrol.job.round_state import RoundState, TaskState

Direction = Literal["forward", "backward"]

FORWARD: Final = "forward"
"""From the sender of a channel to its receiver."""

BACKWARD: Final = "backward"
"""From the receiver of a channel to its sender."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message from one task manager to another: a row of the table ``messages``.

    Attributes
    ----------
    t_s : float
        When it is sent, emulated seconds: the end of the round in which it is, as in the tables of
        samples; of a PartitionRequest the start of the round with which its channel begins.
    edge : str
        Name of the edge, ``source->sink``; of what a throttle says the stage that says or hears it.
    sender, receiver : int or None
        The subtasks at the ends of the channel; None: there is none at that end.
    direction : {"forward", "backward"}
        From sender to receiver, or back.
    name : str
        What it is called: of Flink one of ``flowcontrol.protocol.frames.Frame``.
    sequence_number : int or None
        Of a BufferResponse: data and events of the channel that were sent before it in the same
        attempt.
    credit : int or None
        Of a PartitionRequest the initial credit, of an AddCredit what it adds, of a BufferResponse
        what it uses: 1, or 0 if it is an event. Buffers; with a transport that counts records,
        records.
    backlog : int or None
        Of a BufferResponse and a BacklogAnnouncement: buffers that wait behind it, as announced.
    bytes : int or None
        Of a BufferResponse its data or its event; of a NewBufferSize the size that it wishes.
    header_bytes : int or None
        All the bytes that it has besides; None where nobody knows them.
    """

    t_s: float
    edge: str
    sender: int | None
    receiver: int | None
    direction: Direction
    name: str
    sequence_number: int | None = None
    credit: int | None = None
    backlog: int | None = None
    bytes: int | None = None
    header_bytes: int | None = None


def outs_of(task: TaskState) -> Iterator[tuple[ChannelId, SubpartitionState]]:
    """Yield the channels that a task writes to."""
    for part in task.partitions:
        for out in part.subpartitions:
            yield ChannelId(part.edge, out.sender, out.receiver), out


def ins_of(task: TaskState) -> Iterator[tuple[ChannelId, InputChannelState]]:
    """Yield the channels that a task reads from."""
    for gate in task.gates:
        for into in gate.channels:
            yield ChannelId(gate.edge, into.sender, into.receiver), into


class Recorder(ABC):
    """Somebody who is shown the state of a job after each round, and says what was sent in it."""

    def begin(self, state: RoundState) -> None:
        """Take a state as that of the round before the first one that is shown.

        Parameters
        ----------
        state : RoundState
            Of a job without checkpoints, failures and jobs that come and go: of those a recorder
            has to be shown the first round too.
        """
        self.look(state)

    @abstractmethod
    def look(self, state: RoundState) -> Sequence[Message]:
        """Return the messages of the round that has led to a state, in the order of the rules.

        Parameters
        ----------
        state : RoundState
            After a round: the one behind that which was shown before, the first one first.
        """
