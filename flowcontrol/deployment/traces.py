"""Messages of a job: of its control plane, and of one channel."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from flowcontrol.errors import ProtocolError, RunError
from flowcontrol.graphs.execution import ExecutionGraph, Subtask
from flowcontrol.layout.job import Job
from flowcontrol.protocol.control.calls import ControlTask
from flowcontrol.protocol.control.plane import MOST_LATENCY, ControlPlane
from flowcontrol.protocol.network.events import ExpectedSequence, Frame
from flowcontrol.records import MESSAGES
from flowcontrol.results.control_run import ControlMessage, control_messages_of
from flowcontrol.results.run import Run
from flowcontrol.trace.message_table import Window, read_messages
from flowcontrol.trace.messages import Message

# --- The control plane of a job, from the start of its task managers to the return of its slots.


MICROSECONDS: Final = 1_000_000


def control_trace(
    eg: ExecutionGraph,
    placed: Mapping[Subtask, tuple[int, int]],
    checkpoints: int = 3,
    duration_s: float = 60,
    latency_ms: float = 0,
) -> list[ControlMessage]:
    """Return what goes between client, resource manager, JobMaster and task executors.

    Names are Flink's, sizes those of :mod:`flowcontrol.protocol.control.calls`. All tasks
    acknowledge a checkpoint as soon as the sources can have heard of it: how long barriers take
    is a matter of the data plane.

    - ``placed``: task manager and slot of every subtask, as
      :func:`~flowcontrol.deployment.assign_slots` returns it. A task manager without a slot in use
      is not in the trace.
    - ``duration_s``: when it is cancelled, seconds after the start of the task managers.
    - ``latency_ms``: of a call, and of its answer, at most 1000.

    In order of time; of one time in the order in which they are made. Raises ValueError if a number
    is out of range, if a subtask has no place or is unknown, or if the job does not run yet when
    its first checkpoint is due.
    """
    _check_scenario(eg, placed, checkpoints, duration_s, latency_ms)
    tasks = control_tasks(eg, placed)
    end, latency = round(duration_s * MICROSECONDS), round(latency_ms * 1000)
    plane = ControlPlane(tasks, latency)
    plane.lead_resources()
    for name in dict.fromkeys(task.executor for task in sorted(tasks, key=lambda t: t.place)):
        plane.start_executor(name)
    plane.submit()
    first = end // (checkpoints + 1)
    while not plane.is_running():
        plane.step()
        if plane.now >= first:
            raise ValueError(
                f"duration_s is {duration_s:g}: the job does not run yet at {first / 1e6:g} s: "
                "choose a longer one"
            )
    for number in range(1, checkpoints + 1):
        at = end * number // (checkpoints + 1)
        plane.at(at, partial(_trigger, plane, number))
        plane.at(at + latency, partial(_acknowledge, plane, number))
    plane.at(end, partial(_cancel, plane))
    plane.run(end)
    while not plane.is_over():
        plane.step()
    return control_messages_of(plane.log)


def control_tasks(
    eg: ExecutionGraph, placed: Mapping[Subtask, tuple[int, int]]
) -> list[ControlTask]:
    """Return the subtasks of a job as its control plane sees them, in the order of the graph."""
    regions = {task: number for number, own in enumerate(eg.regions()) for task in own}
    readers = {edge.target for edge in eg.edges}
    return [
        ControlTask(
            name,
            subtask,
            *placed[name, subtask],
            region=regions[name, subtask],
            is_source=name not in readers,
            channels=len(eg.channels(name, subtask))
            + sum(eg.subpartitions(edge, subtask) for edge in eg.edges if edge.source == name),
            operators=len(eg.job.vertex(name).operators),
        )
        for name, subtask in eg.subtasks
    ]


def _trigger(plane: ControlPlane, checkpoint: int) -> None:
    plane.do(plane.master.trigger(checkpoint))


def _acknowledge(plane: ControlPlane, checkpoint: int) -> None:
    for number in range(len(plane.tasks)):
        plane.do(plane.acknowledge(number, checkpoint))


def _cancel(plane: ControlPlane) -> None:
    plane.do(plane.master.cancel())


def _check_scenario(
    eg: ExecutionGraph,
    placed: Mapping[Subtask, tuple[int, int]],
    checkpoints: int,
    duration_s: float,
    latency_ms: float,
) -> None:
    if checkpoints < 0:
        raise ValueError(f"checkpoints is {checkpoints}: needs at least 0")
    if not 0 < duration_s < float("inf"):
        raise ValueError(f"duration_s is {duration_s}: needs more than 0")
    if not 0 <= latency_ms * 1000 <= MOST_LATENCY:
        most = MOST_LATENCY // 1000
        raise ValueError(f"latency_ms is {latency_ms}: needs 0 to {most}")
    for task in eg.subtasks:
        if task not in placed:
            raise ValueError(f"subtask {task} has no place: assign_slots gives every one a slot")
    for task in placed:
        if task not in eg.subtasks:
            raise ValueError(f"{task} is not a subtask of the job")


# --- The messages of one channel of a run, in order, their sequence numbers checked.


def data_trace(run: Run, edge: str, sender: int = 0, receiver: int = 0) -> list[Message]:
    """Return what went between the two ends of a channel.

    Parameters
    ----------
    run : Run
        What :func:`flowcontrol.emulate` or :func:`flowcontrol.virtual.simulate` returns. With a
        ``trace`` in its scenario the messages are those of its table ``messages``; without one the
        whole run is run again to see them, which takes longer than it did.
    edge : str
        Name of the edge, ``source->sink``.
    sender, receiver : int, default 0
        The subtasks at the ends of the channel.

    Returns
    -------
    list of Message
        In the order in which they were sent; none if both ends are on one task manager, as the
        consumer then reads the producer's subpartition.

    Raises
    ------
    ValueError
        If the job has no such channel.
    RunError
        If the trace of the scenario leaves the edge out, or the run cannot be run again.
    ProtocolError
        If a sequence number is missing, doubled or out of order.
    """
    _check(run.job, edge, sender, receiver)
    found = [
        one
        for one in _messages(run, edge)
        if (one.edge, one.sender, one.receiver) == (edge, sender, receiver)
    ]
    check_sequence(found)
    return found


def check_sequence(messages: Iterable[Message]) -> None:
    """Read the messages of one channel as its receiver does; they may begin in mid-run.

    Raises ProtocolError if a sequence number is not the one expected, with both.
    """
    expected: ExpectedSequence | None = None
    for one in messages:
        if one.name == Frame.PARTITION_REQUEST:
            expected = ExpectedSequence()
        elif one.sequence_number is not None:
            expected = expected or ExpectedSequence(one.sequence_number)
            try:
                expected.receive(one.sequence_number)
            except ProtocolError as error:
                place = f"channel {one.sender} to {one.receiver} of {one.edge} at {one.t_s:g} s"
                raise ProtocolError(f"{place}: {error}") from error


def _messages(run: Run, edge: str) -> list[Message]:
    trace = run.job.scenario.trace
    if MESSAGES.name in run.tables:
        if trace is not None and trace.edges and edge not in trace.edges:
            shown = ", ".join(trace.edges)
            text = f"the run's trace leaves {edge} out: it has {shown}"
            raise RunError(f"{text}; name the edge in trace.edges, or leave these out")
        return read_messages(run.tables[MESSAGES.name])
    if run.again is None:
        raise RunError(
            "the run has no messages: state trace in its scenario, as trace: {from_s: 0}"
        )
    return run.again(Window(0, run.job.scenario.duration_us, frozenset({edge})))


def _check(job: Job, edge: str, sender: int, receiver: int) -> None:
    """Refuse a channel that is not there."""
    for link in job.links:
        if link.name == edge:
            if all((one.sender, one.receiver) != (sender, receiver) for one in link.channels):
                pairs = ", ".join(f"{one.sender} to {one.receiver}" for one in link.channels[:8])
                more = ", ..." if len(link.channels) > 8 else ""
                text = f"{edge} has no channel {sender} to {receiver}: it has {pairs}{more}"
                raise ValueError(text)
            return
    raise ValueError(
        f"{edge!r} is not an edge of the job: it has {', '.join(o.name for o in job.links)}"
    )
