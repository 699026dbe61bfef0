"""The tasks of a run on the live clock, attempt by attempt, as one stage has them.

The stage knows the other tasks by the ledgers' rows of the round before, and its own subtasks
besides. What they begin from stands in the table of the run's state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flowcontrol.job import Job, JobVertex, Subtask
from flowcontrol.job.channel_elements import Mark
from flowcontrol.job.checkpointed_task import task_number
from flowcontrol.job.cuts import Elements, TaskCut, cut_ends, cut_of
from flowcontrol.job.failure_control import ChannelCounts
from flowcontrol.job.kept_cuts import cut_document, cut_from
from flowcontrol.job.kept_time import count_outputs
from flowcontrol.job.new_attempt import Between, begin_from, receive_in_flight
from flowcontrol.job.state_sizes import task_states
from flowcontrol.ledger.state_table import KeptCut, StateView
from flowcontrol.live.marks_in_flight import (
    SentMarks,
    WaitingMarks,
    elements_of,
    waiting_document,
    waiting_from,
)
from flowcontrol.live.seen import Rows, SeenTasks


class SeenAttempts:
    """The tasks of a job by the ledgers alone: nothing is stopped, and nothing begins.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    """

    def __init__(self, job: Job) -> None:
        self.job, self.number = job, 0
        self._rows: Rows = {}
        self._seen: SeenTasks | None = None

    def look(self, number: int, rows: Rows) -> None:
        """Take the rows of the round before; they are read when somebody asks.

        Parameters
        ----------
        number : int
            The round that is about to run.
        rows : mapping
            Of all edges; none before the first round.
        """
        self.number, self._rows, self._seen = number, rows, None

    @property
    def seen(self) -> SeenTasks:
        """What these rows show, and what has begun anew since."""
        if self._seen is None:
            self._seen = SeenTasks(self.job, self._rows)
        return self._seen

    def is_finished(self, task: int) -> bool:
        """Tell whether a task has processed everything."""
        return self.seen.tasks[task].is_finished

    def source(self, task: int) -> tuple[int, int]:
        """Return how far a source is, and how many records wait in its log; -1: it has none."""
        return self.seen.source(task)

    def position(self, task: int, checkpoint: int) -> int:
        """Return how far a source was when it took a checkpoint: not known here, so 0."""
        return 0

    def most_emitted(self, task: int) -> int:
        """Return how many records a source emits in a round at most; 0: nobody knows."""
        return self.seen.most_emitted(task)

    def in_flight(self) -> int:
        """Return how many records are written to channels and not taken up."""
        return self.seen.in_flight()

    def taken(self, task: int) -> int:
        """Return how many records a task has taken up; a source: emitted."""
        return self.seen.tasks[task].taken

    def channels(self) -> ChannelCounts:
        """Return what was put out to each channel, written or pending, and taken up from it."""
        return self.seen.channels()

    def cut_channels(self, checkpoint: int) -> ChannelCounts:
        """Return the same of a checkpoint: not known here, so nothing."""
        return {}

    def stop(self, tasks: list[int]) -> None:
        """Do nothing: the rows of the rounds to come show it."""

    def start(self, tasks: list[int], checkpoint: int, keeps: list[int]) -> None:
        """Do nothing: the rows of the rounds to come show it."""


class InFlight(NamedTuple):
    """What was in flight to a subtask when it began anew.

    Attributes
    ----------
    began : int
        Round from which its latency counts: that in which the checkpoint was triggered.
    until : list of list of int
        Per gate and channel: number of the record behind the last one.
    """

    began: int
    until: list[list[int]]


class StageAttempts(SeenAttempts):
    """The tasks of a job, of which one stage's are stopped and begin anew here.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        The stage.
    subtasks : list of Subtask
        Its subtasks, by index; those of later attempts take their places.
    fresh : callable
        Given an index, returns a new subtask.
    state : StateView, optional
        What is kept of checkpoints; None: the job has none.
    began : callable, optional
        Given a checkpoint, returns the round in which it was triggered.
    sent : SentMarks, optional
        Of a job with event time: the marks that the senders before the stage have put out.

    Attributes
    ----------
    restarted : dict of int to int
        Own subtasks that began anew before this round, and from which checkpoint; -1: from the
        beginning. Their channels hold nothing.
    renewed : set of int
        All tasks that began anew before this round.
    last_begun : dict of int to int
        Own subtasks that ever began anew, and the round in which each did so last.
    noted : list of KeptCut
        What own subtasks held at the checkpoints that they took in this round.
    in_flight_to : dict of int to InFlight
        Own subtasks to which records were in flight that they have not taken up.
    emitted : dict of int to int
        Of a source: how many records the earlier attempts of own subtasks have emitted.
    begun : list of dict
        What the restarts before this round began from, for the tables of the run: the checkpoint,
        the ``positions`` of its sources, and its ``channels``.
    """

    def __init__(
        self,
        job: Job,
        plan: JobVertex,
        subtasks: list[Subtask],
        fresh: Callable[[int], Subtask],
        state: StateView | None = None,
        began: Callable[[int], int] | None = None,
        sent: SentMarks | None = None,
    ) -> None:
        super().__init__(job)
        self.in_flight_to: dict[int, InFlight] = {}
        self.emitted: dict[int, int] = {}
        self.begun: list[dict[str, Any]] = []
        self._began, self._sent = began, sent
        self.restarted, self.noted = dict[int, int](), list[KeptCut]()
        self.renewed = set[int]()
        self.last_begun = dict[int, int]()
        self._plan, self._subtasks, self._fresh, self._state = plan, subtasks, fresh, state
        self._first = task_number(job, plan, 0)
        self._sizes = task_states(job)[self._first : self._first + len(subtasks)]
        self._kept: dict[int, dict[int, TaskCut]] = {}
        self._waiting: dict[tuple[int, int], WaitingMarks] = {}
        for subtask in subtasks:
            self._listen(subtask)

    def look(self, number: int, rows: Rows) -> None:
        """Take the rows of the round before, of which nothing has been made yet."""
        super().look(number, rows)
        self.restarted.clear()
        self.noted.clear()
        self.begun.clear()
        self.renewed.clear()
        self._kept.clear()
        self._waiting.clear()
        if self._sent is not None:
            self._sent.forget()
        for index in [index for index in self.in_flight_to if self._has_taken(index)]:
            del self.in_flight_to[index]

    def own(self, task: int) -> Subtask | None:
        """Return the subtask that a task is; None of another stage's."""
        index = task - self._first
        return self._subtasks[index] if 0 <= index < len(self._subtasks) else None

    def position(self, task: int, checkpoint: int) -> int:
        """Return how far a source was when it took a checkpoint, or had finished; 0: no such."""
        cut = self._cut(checkpoint, task) or TaskCut()
        return cut.taken if self.seen.tasks[task].log is None else cut.position

    def stop(self, tasks: list[int]) -> None:
        """Have tasks do nothing from this round on."""
        for subtask in filter(None, map(self.own, tasks)):
            subtask.is_running = False
            subtask.rest()

    def start(self, tasks: list[int], checkpoint: int, keeps: list[int]) -> None:
        """Have tasks begin anew in this round, from a checkpoint; -1: from the beginning."""
        self._describe(tasks, checkpoint)
        cuts = {task: self._cut(checkpoint, task) for task in tasks}
        own = {task: subtask for task in tasks if (subtask := self.own(task)) is not None}
        for task, old in own.items():
            if cuts[task] is not None and task not in self._kept_of(checkpoint):
                self._note(old, checkpoint)  # it had finished: its end counts, next time too
            fresh = self._subtasks[old.index] = self._fresh(old.index)
            self._listen(fresh)
            if self._plan.is_source:
                self.emitted[old.index] = max(self.emitted.get(old.index, 0), old.task.taken)
            begin_from(fresh, old, cuts[task], keeps=task in keeps)
            count_outputs(fresh)
            if fresh.time is not None and old.time is not None:
                fresh.time.carry_on(old.time)
            if fresh.window is not None and old.window is not None:
                fresh.window.carry_on(old.window)
        self.seen.begin(cuts, keeps)
        self.renewed.update(tasks)
        for task, old in own.items():
            fresh = self._subtasks[old.index]
            between = None if fresh.time is None else self._between(fresh, cuts[task], checkpoint)
            receive_in_flight(fresh, cuts[task], self.seen.written, between)
            self.restarted[old.index] = checkpoint
            self.last_begun[old.index] = self.number
            if self._began is not None and checkpoint >= 0:
                self.in_flight_to[old.index] = InFlight(
                    self._began(checkpoint),
                    [
                        [self.seen.written(link, own.sender, own.receiver) for own in channels]
                        for link, channels in fresh.in_links
                    ],
                )
            else:
                self.in_flight_to.pop(old.index, None)

    def _between(self, fresh: Subtask, cut: TaskCut | None, checkpoint: int) -> Between:
        """Return what says what was in flight to a subtask that begins anew from a cut."""
        waiting = self._waiting.get((checkpoint, self._first + fresh.index))

        def found(number: int, place: int, written: int) -> tuple[int, Elements]:
            link, own = fresh.in_links[number]
            channel = own[place].sender, own[place].receiver
            assert cut is not None
            processed = min(written, cut.processed[number][place])
            marks, between = self.seen.marks_of(link, channel[0]), list[Mark]()
            count = max(0, marks - cut.marks_taken[number][place])
            if count > 0 and waiting is not None and self._sent is not None:
                at = number, place
                between = self._sent.first(link.name, channel, waiting, at, count)
            return marks, elements_of(processed, written, between)

        return found

    def cut_channels(self, checkpoint: int) -> ChannelCounts:
        """Return what was written to each channel by its sender's cut, and taken up by its own."""
        kept = {} if checkpoint < 0 else self._kept_of(checkpoint)
        cuts = {
            (plan.name, index): kept.get(task)
            for task, (plan, index) in enumerate(self.seen.places)
        }
        return {
            link.name: [cut_ends(self.job, cuts, link, channel) for channel in link.channels]
            for link in self.job.links
        }

    def _describe(self, tasks: list[int], checkpoint: int) -> None:
        """Note what a restart begins from: the table of the run's state forgets it."""
        sources = [task for task in tasks if self.seen.places[task][0].is_source]
        positions = [[task, self.position(task, checkpoint)] for task in sources]
        channels = self.cut_channels(checkpoint)
        self.begun.append({"checkpoint": checkpoint, "positions": positions, "channels": channels})

    def _has_taken(self, index: int) -> bool:
        """Tell whether a subtask has taken up what was in flight to it."""
        return all(
            own.processed >= until
            for gate, ends in zip(
                self._subtasks[index].gates, self.in_flight_to[index].until, strict=True
            )
            for own, until in zip(gate.channels, ends, strict=True)
        )

    # ------------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """Return what the rounds to come need, as JSON takes it."""
        return {
            "in_flight_to": [[index, *found] for index, found in self.in_flight_to.items()],
            "emitted": [list(pair) for pair in self.emitted.items()],
            "last_begun": [list(pair) for pair in self.last_begun.items()],
            "begun": self.begun,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        self.in_flight_to = {index: InFlight(*found) for index, *found in state["in_flight_to"]}
        self.emitted = dict(state["emitted"])
        self.last_begun = dict(state["last_begun"])

    # ------------------------------------------------------------------ what is kept

    def _cut(self, checkpoint: int, task: int) -> TaskCut | None:
        """Return what a task restores from a completed checkpoint; None: it begins anew."""
        if checkpoint < 0:
            return None
        kept = self._kept_of(checkpoint)
        if task in kept:
            return kept[task]
        if not self.is_finished(task):
            return None
        own = self.own(task)
        return self.seen.cut_of(task) if own is None else cut_of(own)

    def _kept_of(self, checkpoint: int) -> dict[int, TaskCut]:
        """Return what the table holds of a checkpoint, by task."""
        if checkpoint not in self._kept:
            found: dict[int, TaskCut] = {}
            if self._state is not None:
                self._state.refresh()
                for one in self._state.cuts(checkpoint):
                    plan = self.job.stage(one.stage)
                    task = task_number(self.job, plan, one.subtask)
                    document = json.loads(one.cut)
                    found[task] = cut_from(document, plan)
                    self._waiting[checkpoint, task] = waiting_from(one.batch_id, document)
            self._kept[checkpoint] = found
        return self._kept[checkpoint]

    def _listen(self, subtask: Subtask) -> None:
        subtask.on_snapshot = lambda checkpoint: self._note(subtask, checkpoint)

    def _note(self, subtask: Subtask, checkpoint: int) -> None:
        nbytes = sum(self._sizes[subtask.index].full(subtask.task.taken)) + subtask.window_bytes()
        document = cut_document(cut_of(subtask)) | waiting_document(subtask)
        text = json.dumps(document, separators=(",", ":"))
        where = checkpoint, self._plan.name, subtask.index, self.number
        self.noted.append(KeptCut(*where, nbytes, text))
