"""The messages of one channel of a run, in order, their sequence numbers checked."""

from collections.abc import Iterable

from flowcontrol.errors import ProtocolError, RunError
from flowcontrol.layout.job import Job
from flowcontrol.protocol.network.events import ExpectedSequence, Frame
from flowcontrol.records import MESSAGES
from flowcontrol.results.run import Run
from flowcontrol.trace.message_table import Window, read_messages
from flowcontrol.trace.messages import Message


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
