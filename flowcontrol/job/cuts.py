"""What tasks held when they took their checkpoints: the state from which an attempt begins.

A cut of a task has the counters that mean something beyond an attempt: how far a source is, what
its operators remember, how many records went to each channel. Buffers, credit and barriers are not
part of it: channels begin anew. What was in flight follows: written by the sender before its
barrier, less what the receiver had processed at its own.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from flowcontrol.job.graph import Channel, JobEdge
from flowcontrol.job.job import Job
from flowcontrol.job.record_subtask import RecordSubtask
from flowcontrol.job.subtask import Subtask
from flowcontrol.operators.states import SOURCE
from flowcontrol.operators.table import AnyOperator
from flowcontrol.protocol.event_time.marks import mark_bytes
from flowcontrol.protocol.queues import DATA
from flowcontrol.protocol.rounds import enqueue_message
from flowcontrol.protocol.sides import KIND_RESTORED
from flowcontrol.protocol.state import assign
from flowcontrol.protocol.states import Message
from flowcontrol.protocol.windows.keeping import kept_state

C = TypeVar("C")

Elements = Sequence[tuple[int, int]]
"""What was in a channel, as :class:`~flowcontrol.job.channel_elements.ChannelElements` says it."""


class Cuts(Generic[C]):
    """The cuts of all tasks by checkpoint, in whatever form a clock has them.

    Notes
    -----
    A task that had finished before a checkpoint took no part in it: its last state counts.
    """

    def __init__(self) -> None:
        self._taken: dict[int, dict[Hashable, C]] = {}
        self._finished: dict[Hashable, C] = {}

    def note(self, checkpoint: int, task: Hashable, cut: C) -> None:
        """Keep what a task held when it took a checkpoint."""
        self._taken.setdefault(checkpoint, {})[task] = cut

    def finish(self, task: Hashable, cut: C) -> None:
        """Keep what a task held when it finished."""
        self._finished[task] = cut

    def of(self, checkpoint: int, task: Hashable) -> C | None:
        """Return what a task restores from a completed checkpoint; None: it begins anew."""
        if checkpoint < 0:
            return None
        taken = self._taken.setdefault(checkpoint, {})
        if task not in taken and task in self._finished:
            taken[task] = self._finished[task]  # a later attempt may finish elsewhere
        return taken.get(task)

    def forget(self, before: int) -> None:
        """Forget the checkpoints with ids below ``before``."""
        for checkpoint in [one for one in self._taken if one < before]:
            del self._taken[checkpoint]

    def forget_finished(self, tasks: Iterable[Hashable]) -> None:
        """Forget that tasks have finished: they were restarted."""
        for task in tasks:
            self._finished.pop(task, None)


@dataclass(frozen=True)
class TaskCut:
    """What a subtask restores.

    Attributes
    ----------
    taken : int
        Records that it had taken up; a source: emitted.
    position : int
        Of a source that reads a log: its offset in it.
    operators : tuple of AnyOperator
        Its operators.
    routed : tuple of tuple of int
        Per partition and channel: records routed to it.
    written : tuple of tuple of int
        Per partition and channel: records written to it.
    processed : tuple of tuple of int
        Per gate and channel: records taken up from it.
    marks : int
        With event time: watermarks and statuses put into each of its channels.
    marks_taken : tuple of tuple of int
        Per gate and channel: those taken from it; empty without event time.
    windows : mapping of str to object, optional
        Its windows, as :func:`~flowcontrol.protocol.windows.keeping.kept_state` has them.
    """

    taken: int = 0
    position: int = 0
    operators: tuple[AnyOperator, ...] = ()
    routed: tuple[tuple[int, ...], ...] = ()
    written: tuple[tuple[int, ...], ...] = ()
    processed: tuple[tuple[int, ...], ...] = ()
    marks: int = 0
    marks_taken: tuple[tuple[int, ...], ...] = ()
    windows: Mapping[str, Any] | None = None


def cut_of(subtask: Subtask) -> TaskCut:
    """Return what a subtask holds now that an attempt may begin from."""
    return TaskCut(
        subtask.task.taken,
        0 if subtask.log is None else subtask.log.position,
        tuple(map(replace, subtask.operators)),
        tuple(tuple(out.router.counts) for out in subtask.outputs),
        tuple(tuple(own.written for own in part.channels) for part in subtask.partitions),
        tuple(tuple(own.processed for own in gate.channels) for gate in subtask.gates),
        0 if subtask.time is None else subtask.time.state.marks,
        _marks_taken(subtask),
        _windows_of(subtask),
    )


def _marks_taken(subtask: Subtask) -> tuple[tuple[int, ...], ...]:
    if subtask.time is None or subtask.checkpoints is None:
        return ()
    channels = iter(subtask.checkpoints.channels)
    return tuple(tuple(next(channels).marks for _ in gate.channels) for gate in subtask.gates)


def _windows_of(subtask: Subtask) -> dict[str, Any] | None:
    """Return the windows of a subtask; one that has finished needs those that it has no more."""
    if subtask.window is None:
        return None
    found = kept_state(subtask.window.windows)
    return {**found, "entries": []} if subtask.task.is_finished == 1 else found


def cut_ends(
    job: Job, cuts: Mapping[tuple[str, int], TaskCut | None], link: JobEdge, channel: Channel
) -> tuple[int, int]:
    """Return what was written to a channel by its sender's cut, and taken up by its receiver's.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    cuts : mapping of (str, int) to TaskCut
        By stage and subtask; None: it has none, and nothing is known of its channels.
    link : JobEdge
        The edge.
    channel : Channel
        Of it.
    """
    sender, receiver = job.stage(link.edge.sender), job.stage(link.edge.receiver)
    out, into = cuts[sender.name, channel.sender], cuts[receiver.name, channel.receiver]
    if out is None or into is None:
        return 0, 0
    place = link.outgoing(channel.sender).index(channel)
    at = link.incoming(channel.receiver).index(channel)
    written = out.written[sender.outputs.index(link)][place]
    return written, into.processed[receiver.inputs.index(link)][at]


def put_cut(subtask: Subtask, cut: TaskCut) -> None:
    """Give a fresh subtask the counters of a cut; what was in flight is not there yet."""
    subtask.task.taken = cut.taken
    if subtask.log is not None:
        subtask.log.position = cut.position
    for operator, kept in zip(subtask.operators, cut.operators, strict=True):
        assign(operator, kept)
    for out, counts in zip(subtask.outputs, cut.routed, strict=True):
        out.emitted = out.router.restore(counts)
    for part, written in zip(subtask.partitions, cut.written, strict=True):
        for own, count in zip(part.channels, written, strict=True):
            own.written = count
    if isinstance(subtask, RecordSubtask):
        subtask.begin_written()
    if subtask.time is not None:
        subtask.time.state.marks = cut.marks
    if cut.windows is not None:
        subtask.begin_windows(cut.windows)


def put_in_flight(
    subtask: Subtask,
    number: int,
    channel: int,
    written: int,
    cut: TaskCut,
    marks: int = 0,
    elements: Elements = (),
) -> None:
    """Give a fresh subtask what was in flight to it in a channel, ahead of everything.

    Parameters
    ----------
    subtask : Subtask
        Changed in place.
    number, channel : int
        Its gate, and the channel of that.
    written : int
        Records that the sender had written to it.
    cut : TaskCut
        The subtask's own.
    marks : int, optional
        Watermarks and statuses that the sender had put into it.
    elements : sequence of (int, int), optional
        With event time: what was in flight, in order; 0 and the stamp of a record, or a mark's kind
        and watermark.

    Notes
    -----
    ``RecoveredInputChannel``; both sides' part of it in one piece, which holds no segment. Under
    at-least-once a task may have processed more than the cut has: that comes again.
    """
    gate, record_bytes = subtask.gates[number], subtask.in_links[number][0].record_bytes
    processed = min(written, cut.processed[number][channel])
    gate.channels[channel].processed = processed
    if isinstance(subtask, RecordSubtask):
        subtask.begin_received(number, channel, written)
    sizes = [mark_bytes(kind) for kind, _ in elements if kind > 0]
    if subtask.checkpoints is not None:
        first = sum(len(before.channels) for before in subtask.gates[:number])
        aligned = subtask.checkpoints.channels[first + channel]
        aligned.arrived = written * record_bytes + sum(sizes)
        if subtask.time is not None:
            aligned.marks = min(marks, cut.marks_taken[number][channel])
            own = subtask.time.inputs[number][channel]
            own.begin_with((processed, aligned.marks), elements)
    if written > processed or sizes:
        records = written - processed
        nbytes = records * record_bytes + sum(sizes)
        message = Message(DATA, records, nbytes, marks=len(sizes))
        subtask.task.queued += records
        enqueue_message(gate, subtask.union, number, channel, message, KIND_RESTORED)


def carry_on(fresh: Subtask, old: Subtask) -> None:
    """Give a fresh subtask what belongs to the machine and not to the attempt: its schedule."""
    fresh.task.draws = old.task.draws
    if fresh.task.kind == SOURCE:
        fresh.task.ready = old.task.ready
    if fresh.log is not None and old.log is not None:
        fresh.log.end = old.log.end
    if fresh.time is not None and old.time is not None:
        fresh.time.blocked_us = old.time.blocked_us
