"""The subtasks of a run in memory, attempt by attempt: stopped, and made anew from a cut."""

from collections.abc import Callable, Sequence

from flowcontrol.job.connected import connect
from flowcontrol.job.cuts import Cuts, Elements, TaskCut, cut_of
from flowcontrol.job.failure_control import ChannelCounts
from flowcontrol.job.fastest import most_emitted
from flowcontrol.job.graph import JobEdge
from flowcontrol.job.job import Job
from flowcontrol.job.new_attempt import Between, begin_from, receive_in_flight
from flowcontrol.job.record_subtask import new_subtask
from flowcontrol.job.replay import NO_ROWS, Replayed
from flowcontrol.job.routing import Output
from flowcontrol.job.subtask import Subtask
from flowcontrol.job.timed_settings import is_timed
from flowcontrol.operators.source_log import lag
from flowcontrol.protocol.rows import fifo_values


class SubtaskAttempts:
    """The subtasks of a job that may fail; :class:`~flowcontrol.job.failure_control.Attempts`.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    subtasks : list of Subtask
        Those of the first attempt, senders before receivers; later ones take their places.
    replayed : Replayed, optional
        What is to be known of replayed rows.

    Attributes
    ----------
    restarted : set of int
        Tasks that began anew since the caller last cleared it: their channels hold nothing.
    """

    def __init__(self, job: Job, subtasks: list[Subtask], replayed: Replayed = NO_ROWS) -> None:
        self.job, self.subtasks, self.restarted = job, subtasks, set[int]()
        self._replayed, self._cuts = replayed, Cuts[TaskCut]()
        self._number = {(one.plan.name, one.index): n for n, one in enumerate(subtasks)}
        for task, subtask in enumerate(subtasks):
            self._listen(task, subtask)

    def is_finished(self, task: int) -> bool:
        """Tell whether a task has processed everything."""
        return self.subtasks[task].task.is_finished == 1

    def source(self, task: int) -> tuple[int, int]:
        """Return how far a source is, and how many records wait in its log; -1: it has none."""
        subtask = self.subtasks[task]
        if subtask.log is None:
            return subtask.task.taken, -1
        return subtask.log.position, lag(subtask.log)

    def position(self, task: int, checkpoint: int) -> int:
        """Return how far a source was when it took a checkpoint, or had finished; 0: no such."""
        subtask, cut = self.subtasks[task], self._cuts.of(checkpoint, task)
        if cut is None and checkpoint >= 0 and self.is_finished(task):
            cut = cut_of(subtask)
        cut = cut or TaskCut()
        return cut.taken if subtask.log is None else cut.position

    def most_emitted(self, task: int) -> int:
        """Return how many records a source emits in a round at most; 0: nobody knows."""
        subtask = self.subtasks[task]
        return most_emitted(self.job, subtask.plan, subtask.index)

    def in_flight(self) -> int:
        """Return how many records are written to channels and not taken up."""
        written = sum(
            o.written for s in self.subtasks for part in s.partitions for o in part.channels
        )
        return written - sum(
            i.processed for s in self.subtasks for g in s.gates for i in g.channels
        )

    def taken(self, task: int) -> int:
        """Return how many records a task has taken up; a source: emitted."""
        return self.subtasks[task].task.taken

    def channels(self) -> ChannelCounts:
        """Return what was put out to each channel, written or pending, and taken up from it."""
        return self._by_channel(
            lambda task: cut_of(self.subtasks[task]), lambda task: self.subtasks[task].outputs
        )

    def cut_channels(self, checkpoint: int) -> ChannelCounts:
        """Return the same of a checkpoint: by the sender's barrier, and by the receiver's cut."""
        return self._by_channel(lambda task: self._cuts.of(checkpoint, task), lambda task: ())

    def _by_channel(
        self, cut: Callable[[int], TaskCut | None], outputs: Callable[[int], Sequence[Output]]
    ) -> ChannelCounts:
        """Return what was put out to each channel and taken from it, by the cuts of its tasks."""
        everyone = range(len(self.subtasks))
        cuts = [cut(task) for task in everyone]
        pending = [[fifo_values(out.pending) for out in outputs(task)] for task in everyone]
        found: dict[str, list[tuple[int, int]]] = {}
        for link in self.job.links:
            sender, receiver = (
                self.job.stage(own) for own in (link.edge.sender, link.edge.receiver)
            )
            number, gate = sender.outputs.index(link), receiver.inputs.index(link)
            counts = found[link.name] = []
            for channel in link.channels:
                task = self._number[sender.name, channel.sender]
                out, into = cuts[task], cuts[self._number[receiver.name, channel.receiver]]
                if out is None or into is None:
                    counts.append((0, 0))
                    continue
                place = link.outgoing(channel.sender).index(channel)
                waits = 0
                if pending[task]:
                    own = 0 if link.edge.partitioner == "broadcast" else place
                    waits = pending[task][number].count(own)
                at = link.incoming(channel.receiver).index(channel)
                counts.append((out.written[number][place] + waits, into.processed[gate][at]))
        return found

    def stop(self, tasks: list[int]) -> None:
        """Have tasks do nothing from this round on."""
        for task in tasks:
            self.subtasks[task].is_running = False  # what it has just sent arrives all the same

    def start(self, tasks: list[int], checkpoint: int, keeps: list[int]) -> None:
        """Have tasks begin anew in this round, from a checkpoint; -1: from the beginning."""
        old = {task: self.subtasks[task] for task in tasks}
        for task in tasks:
            if old[task].task.is_finished == 1:
                self._cuts.finish(task, cut_of(old[task]))
        cuts = {task: self._cuts.of(checkpoint, task) for task in tasks}
        for task in tasks:
            self.subtasks[task] = self._fresh(old[task])
            begin_from(self.subtasks[task], old[task], cuts[task], keeps=task in keeps)
        if is_timed(self.job):
            connect(self.subtasks)
        for task in tasks:
            own = old[task]
            found = None if own.time is None else self._between(own, cuts[task])
            receive_in_flight(self.subtasks[task], cuts[task], self._written, found)
        self._cuts.forget_finished(tasks)
        self.restarted.update(tasks)

    def _between(self, old: Subtask, cut: TaskCut | None) -> Between:
        """Return what says what was in flight to a subtask, by the attempt before."""
        held = old.time
        assert held is not None

        def found(number: int, place: int, written: int) -> tuple[int, Elements]:
            link, own = old.in_links[number]
            sender = self._number[self.job.stage(link.edge.sender).name, own[place].sender]
            time = self.subtasks[sender].time
            if time is None or cut is None or not cut.marks_taken:
                return 0, ()
            marks = time.state.marks
            taken = (
                min(written, cut.processed[number][place]),
                min(marks, cut.marks_taken[number][place]),
            )
            return marks, held.inputs[number][place].between(taken, (written, marks))

        return found

    def forget(self, before: int) -> None:
        """Forget the checkpoints with ids below ``before``."""
        self._cuts.forget(before)

    def _fresh(self, old: Subtask) -> Subtask:
        plan, index = old.plan, old.index
        fresh = new_subtask(self.job, plan, index, **self._replayed.of(plan, index))
        self._listen(self._number[plan.name, index], fresh)
        return fresh

    def _listen(self, task: int, subtask: Subtask) -> None:
        before = subtask.on_snapshot

        def note(checkpoint: int) -> None:
            self._cuts.note(checkpoint, task, cut_of(subtask))
            if before is not None:
                before(checkpoint)

        subtask.on_snapshot = note

    def _written(self, link: JobEdge, sender: int, receiver: int) -> int:
        """Return how many records a subtask has written to a receiver over an edge."""
        subtask = self.subtasks[self._number[self.job.stage(link.edge.sender).name, sender]]
        return written_to(subtask, link.name, receiver)


def written_to(sender: Subtask, edge: str, receiver: int) -> int:
    """Return how many records a subtask has written to a receiver over an edge."""
    for (link, own), part in zip(sender.out_links, sender.partitions, strict=True):
        if link.name == edge:
            for channel, row in zip(own, part.channels, strict=True):
                if channel.receiver == receiver:
                    return row.written
    raise KeyError(f"no channel of {edge} to {receiver}")
