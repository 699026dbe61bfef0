"""Messages of the data plane, who notes them, and what failures make of them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from flowcontrol.layout.job import Job
from flowcontrol.trace.round_state import RoundState, TaskState

# --- One message of the data plane, as a trace has it, and who notes messages as a run goes on


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
        What it is called: of Flink one of ``flowcontrol.protocol.network.events.Frame``.
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


class Recorder(ABC):
    """Somebody who is shown the state of a job after each round, and says what was sent in it."""

    def begin(self, state: RoundState) -> None:
        """Take a state as that of the round before the first one that is shown.

        ``state``: of a job without checkpoints, failures and jobs that come and go: of those a
        recorder has to be shown the first round too.
        """
        self.look(state)

    @abstractmethod
    def look(self, state: RoundState) -> Sequence[Message]:
        """Return the messages of the round that has led to a state, in the order of the rules.

        ``state``: after a round: the one behind that which was shown before, the first one first.
        """


# --- Which tasks of a job stop or begin in a round, and which fail: what their channels make of
# it.
#
# Only what a state shows, and what the scenario plans: who decides is
# flowcontrol.control.failures.


TaskKey = tuple[str, int]
"""A task by its stage, of a chain the first one, and its subtask."""


class Changes(NamedTuple):
    """What happened to tasks at the beginning of a round."""

    stopped: list[TaskKey]  # Those that stopped, in the order of the job
    begun: list[TaskKey]  # Those that began, perhaps anew, in the order of the job
    failed: set[TaskKey]  # Of those that stopped, the ones that failed by themselves
    died: set[int]  # Task managers that died


class Processes:
    """The tasks of a job, and the task managers in which they run."""

    def __init__(self, job: Job) -> None:
        self._running: dict[TaskKey, bool] = {}
        self._finished: dict[TaskKey, bool] = {}
        self._dead = set[int]()
        self._failing: dict[int, set[TaskKey]] = {}
        self._dying: dict[int, set[int]] = {}
        for failure in () if job.faults is None else job.faults.failures:
            number = -(-failure.at_us // job.round_us)
            if failure.task_manager is not None:
                self._dying.setdefault(number, set()).add(failure.task_manager)
            elif failure.stage is not None and failure.subtask is not None:
                key = (job.stage(failure.stage).name, failure.subtask)
                self._failing.setdefault(number, set()).add(key)

    def lives(self, manager: int) -> bool:
        """Tell whether a task manager is there; one that died comes back with its first task."""
        return manager not in self._dead

    def look(self, state: RoundState) -> Changes:
        """Return what has changed since the state before; in the first one tasks begin."""
        died = self._dying.get(state.number, set())
        self._dead |= died
        stopped, begun = list[TaskKey](), list[TaskKey]()
        for task in state.tasks:
            key = task.stage, task.subtask
            was_running = self._running.get(key, False)
            is_anew = self._finished.get(key, False) and not _is_finished(task)
            if was_running and (not task.is_running or is_anew):
                stopped.append(key)
            if task.is_running and (not was_running or is_anew):
                begun.append(key)
                self._dead.discard(task.task_manager)
            self._running[key], self._finished[key] = task.is_running, _is_finished(task)
        return Changes(stopped, begun, self._failing.get(state.number, set()), died)


def _is_finished(task: TaskState) -> bool:
    return task.state.is_finished == 1
