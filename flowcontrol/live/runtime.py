"""A stage's state in one process: restored from the ledger, moved on a round at a time.

The reader (which plans a batch) and the foreachBatch function (which runs it) live in two
processes. Both hold a :class:`StageRuntime`; a round is a pure function of the ledger's rows
of the round before, so both come to the same result and nothing but the ledger is shared.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from flowcontrol.job import Incoming, Job, JobEdge, JobVertex, Outgoing, Subtask, Work
from flowcontrol.job.batch_control import BatchControl, window_stages_of
from flowcontrol.job.graph import Channel
from flowcontrol.job.kept_time import KeptTime, kept_time
from flowcontrol.job.record_subtask import new_subtask
from flowcontrol.job.replay import NO_ROWS, Replayed
from flowcontrol.job.snapshot import incoming_of, outgoing_of, restore
from flowcontrol.job.throttling import SourceControl
from flowcontrol.job.timed_settings import has_stamps, is_timed
from flowcontrol.ledger.exchange import ExchangeView
from flowcontrol.ledger.ledger import LedgerView
from flowcontrol.ledger.state_table import KeptCut, StateView
from flowcontrol.live.alignment import StageAlignment, links_of_groups
from flowcontrol.live.attempts import InFlight
from flowcontrol.live.coordination import StageCoordination, is_coordinated
from flowcontrol.live.elements import StageElements
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.marks_in_flight import SentMarks
from flowcontrol.live.replay import staged_rows
from flowcontrol.live.sink_mail import Heard
from flowcontrol.live.window_files import WindowFiles

SIDES = ("sender", "receiver")

Rows = Mapping[Channel, Mapping[str, Any]]
"""The row of each channel of a link that a round sees."""


def links_seen(job: Job, plan: JobVertex) -> tuple[JobEdge, ...]:
    """Return the links whose ledgers a stage reads: its own, or all if it listens to all tasks.

    A throttled source does, and every stage of a job with checkpoints, or that may fail. A source
    that waits for others reads theirs too.
    """
    if is_coordinated(job):
        return job.links
    if plan.is_source and job.scenario.system.throttle != "none":
        return job.links
    own = (*plan.inputs, *plan.outputs)
    return (*own, *(link for link in links_of_groups(job, plan) if link not in own))


class StageRuntime:
    """One stage's subtasks and what its ledgers say.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    stage : str
        Which stage.
    paths : RunPaths
        The run's folder.
    views : dict of str to LedgerView
        The ledger of each link that the stage reads, by edge name (:func:`links_seen`).
    state : StateView, optional
        What is kept of checkpoints; by default it is read off the run's folder.
    exchanges : dict of str to ExchangeView, optional
        The exchange log of each input, by edge name, which a job whose records have stamps reads;
        by default they are read off the run's folder.
    """

    def __init__(
        self,
        job: Job,
        stage: str,
        paths: RunPaths,
        views: dict[str, LedgerView],
        state: StateView | None = None,
        exchanges: dict[str, ExchangeView] | None = None,
    ) -> None:
        self.job, self.paths, self.views = job, paths, views
        self.plan: JobVertex = job.stage(stage)
        self.round = -1
        self.subtasks: list[Subtask] = []
        self.works: list[Work] = []
        self._control: SourceControl | None = None
        self._is_throttled = job.scenario.system.throttle != "none" and self.plan.is_source
        self.coordination: StageCoordination | None = None
        self._state = state
        if state is None and job.checkpoints is not None:
            self._state = StateView(paths.state)
        self.window_files: WindowFiles | None = None
        if self.plan.stage.window is not None:
            self.window_files = WindowFiles(paths.windows(stage))
        self._groups = links_of_groups(job, self.plan)
        self.alignment: StageAlignment | None = None
        self._batches: BatchControl | None = None
        self._elements: StageElements | None = None
        if is_timed(job):
            if not has_stamps(job):
                exchanges = {}
            elif exchanges is None:
                logs = {link.name: paths.exchange(link) for link in self.plan.inputs}
                exchanges = {name: ExchangeView(path) for name, path in logs.items()}
            self._elements = StageElements(self.plan, exchanges)
        self._hears_all = self._is_throttled or is_coordinated(job)

    @cached_property
    def replayed(self) -> Replayed:
        """What the stage knows of replayed rows: of its own, and of those with stamps."""
        if self.plan.stage.input is None and not has_stamps(self.job):
            return NO_ROWS
        return staged_rows(self.job, self.paths.replay)

    def refresh(self) -> None:
        """Read the new commits of all ledgers."""
        for view in self.views.values():
            view.refresh()

    def check_reachable(self) -> None:
        """Verify that the neighbours' next commits can still be read."""
        for view in self.views.values():
            view.check_reachable()

    def is_ready(self, number: int) -> bool:
        """Whether the rows of the round before are there: the neighbours', or all that it hears."""
        before = number - 1
        if self._hears_all:
            views = self.views.values()
            return all(v.last_batch(side) >= before for v in views for side in SIDES)
        others = (self.views[link.name].last_batch("sender") for link in self._groups)
        return min([self._last("sender", "receiver"), *others]) >= before

    def last_committed(self) -> int:
        """Return the last round whose own rows are in all of the ledgers; -1 before the first."""
        return self._last("receiver", "sender")

    def _last(self, of_inputs: str, of_outputs: str) -> int:
        """Return the last round that a side of the inputs and one of the outputs have committed."""
        sides = [(link, of_inputs) for link in self.plan.inputs]
        sides += [(link, of_outputs) for link in self.plan.outputs]
        return min(self.views[link.name].last_batch(side) for link, side in sides)

    def is_committed(self, number: int) -> bool:
        """Whether this stage's own rows of a round are in all of its ledgers."""
        return self.last_committed() >= number

    def advance(self, number: int) -> list[Work]:
        """Run a round; return each subtask's work. The same round again gives the same.

        Parameters
        ----------
        number : int
            The round: the one after the last, or any other, for which the state is then
            restored from the ledger.

        Raises
        ------
        LedgerError
            If the rows of the round before are not there.
        ProtocolError
            If a neighbour broke the protocol.
        """
        if number == self.round:
            return self.works
        if number != self.round + 1 or not self.subtasks:
            self._restore(number - 1)
        if self._elements is not None:
            self._elements.begin_round(self.subtasks)
        incoming, outgoing = self._seen(number)
        self.round = -2  # unfinished: after a failure it must not count as either round
        if self._batches is not None:
            self._batches.before_round(number)
        if self._control is not None:
            self._control.before_round(number, self._everything(number - 1))
        if self.coordination is not None:
            self.coordination.before_round(number, self._everything(number - 1))
            for index in self.restarted:
                incoming[index] = self._incoming(index, number, number, {})
                outgoing[index] = self._outgoing(index, number, number, {})
        if self.alignment is not None:
            own = self.coordination
            renewed = set[int]() if own is None else own.attempts.renewed
            self.alignment.before_round(number, self._sent(number - 1), self.subtasks, renewed)
        self.works = [
            self._run(number, subtask, incoming[subtask.index], outgoing[subtask.index])
            for subtask in self.subtasks
        ]
        self.round = number
        return self.works

    @staticmethod
    def _run(
        number: int,
        subtask: Subtask,
        incoming: list[list[Incoming]],
        outgoing: list[list[Outgoing]],
    ) -> Work:
        """Run a subtask's round; one that is not deployed lets it pass."""
        if subtask.is_running:
            return subtask.step(number, incoming, outgoing)
        subtask.wait(number)
        return subtask.work

    def _restore(self, before: int) -> None:
        plan = self.plan
        self.subtasks = [self._fresh(index) for index in range(plan.stage.parallelism)]
        if self._is_throttled:
            self._control = SourceControl(self.job, self.subtasks)
        if self._groups:
            self.alignment = StageAlignment(self.job, plan)
        if plan.name in window_stages_of(self.job):
            tasks = [subtask.batched() for subtask in self.subtasks]
            self._batches = BatchControl(self.job, {plan.name: tasks})
        if is_coordinated(self.job):
            marks = SentMarks(self.views) if is_timed(self.job) else None
            self.coordination = StageCoordination(
                self.job, plan, self.subtasks, self._fresh, self._state, marks
            )
        if before < 0:
            if self._control is not None:
                self._control.start()
            return
        received = [self.views[link.name].rows("receiver", before) for link in plan.inputs]
        sent = [self.views[link.name].rows("sender", before) for link in plan.outputs]
        for subtask in self.subtasks:
            i = subtask.index
            restore(
                subtask,
                [[row for row in rows if row["receiver"] == i] for rows in received],
                [[row for row in rows if row["sender"] == i] for rows in sent],
            )
            if self.window_files is not None:
                self.window_files.put_back(subtask)
        if self._batches is not None:
            first = next(row for row in received[0] if row["receiver"] == 0)
            self._batches.restore(json.loads(first["task_state"])["batches"])
        if self.alignment is not None:
            self.alignment.resume(row for row in sent[0] if row["sender"] == 0)
        if self._control is not None:
            self._control.resume()
        if self.coordination is not None:
            link, side = (sent, "sender") if plan.is_source else (received, "receiver")
            self.coordination.resume([row for row in link[0] if row[side] == 0])
            for index, found in self.coordination.attempts.in_flight_to.items():
                StageElements.go_on(self.subtasks[index], found.until)

    @property
    def heard(self) -> Heard:
        """What a sink hears by the start of the round."""
        return Heard() if self.coordination is None else self.coordination.mail.heard

    def control_of(self, subtask: Subtask) -> Any:
        """Return what a subtask's rows keep of the coordinators; None of most."""
        return None if self.coordination is None else self.coordination.state_of(subtask)

    @property
    def restarted(self) -> dict[int, int]:
        """Subtasks that began anew before the round, and from which checkpoint; -1: from none."""
        return {} if self.coordination is None else self.coordination.attempts.restarted

    def in_flight_to(self, index: int) -> InFlight | None:
        """Return what was in flight to a subtask when it began anew, if it has not taken it up."""
        own = self.coordination
        return None if own is None else own.attempts.in_flight_to.get(index)

    def emitted_before(self, index: int) -> int:
        """Return how many records earlier attempts of a source's subtask have emitted."""
        own = self.coordination
        return 0 if own is None else own.attempts.emitted.get(index, 0)

    @property
    def noted(self) -> list[KeptCut]:
        """What the subtasks held at the checkpoints that they took in the round."""
        return [] if self.coordination is None else self.coordination.attempts.noted

    def kept_time(self, subtask: Subtask) -> KeptTime | None:
        """Return what a subtask's rows keep of event time; None: its job has none."""
        own = None if self.alignment is None else self.alignment.state_of(subtask)
        query = None if self._batches is None or subtask.index > 0 else self._batches.state()
        return kept_time(subtask, own, query)

    def _sent(self, before: int) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of a round of the sources that it waits for; none before the first."""
        if before < 0:
            return {}
        return {link.name: self.views[link.name].rows("sender", before) for link in self._groups}

    def _everything(self, before: int) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Return the rows of a round of every link, by edge and side; nothing before the first."""
        if before < 0:
            return {}
        return {
            name: {side: view.rows(side, before) for side in SIDES}
            for name, view in self.views.items()
        }

    def _fresh(self, index: int) -> Subtask:
        found = new_subtask(self.job, self.plan, index, **self.replayed.of(self.plan, index))
        if self._elements is not None:
            self._elements.connect(found)
        return found

    def _seen(self, number: int) -> tuple[list[list[list[Incoming]]], list[list[list[Outgoing]]]]:
        """Return what each subtask sees in a round at its gates, and at its partitions."""
        sent = {link.name: self._rows(link, "sender", number) for link in self.plan.inputs}
        heard = {link.name: self._rows(link, "receiver", number) for link in self.plan.outputs}
        begun = {} if self.coordination is None else self.coordination.attempts.last_begun
        every = [(subtask.index, begun.get(subtask.index, 0)) for subtask in self.subtasks]
        return (
            [self._incoming(index, number, begin, sent) for index, begin in every],
            [self._outgoing(index, number, begin, heard) for index, begin in every],
        )

    def _rows(self, link: JobEdge, side: str, number: int) -> Rows:
        """Return the row that a round sees of each channel: as old as its messages take."""
        by_trip: dict[int, dict[tuple[int, int], Mapping[str, Any]]] = {}
        for trip in {self.job.trip(channel) for channel in link.channels}:
            rows = [] if number < trip else self.views[link.name].rows(side, number - trip)
            by_trip[trip] = {(row["sender"], row["receiver"]): row for row in rows}
        return {
            channel: found[channel.sender, channel.receiver]
            for channel in link.channels
            if (found := by_trip[self.job.trip(channel)])
        }

    def _incoming(
        self, index: int, number: int, begin: int, rows: Mapping[str, Rows]
    ) -> list[list[Incoming]]:
        """Return what a subtask's gates see in a round, of an attempt that began in one.

        What was sent before that reaches it no more. Both ends of a channel begin together, and
        agree on what has come before.
        """
        subtask = self.subtasks[index]
        return [
            [
                incoming_of(rows[link.name][channel])
                if self._reaches(channel, number, begin)
                else Incoming(state.arrived, ())
                for channel, state in zip(own, gate.channels, strict=True)
            ]
            for (link, own), gate in zip(subtask.in_links, subtask.gates, strict=True)
        ]

    def _outgoing(
        self, index: int, number: int, begin: int, rows: Mapping[str, Rows]
    ) -> list[list[Outgoing]]:
        """Return what a subtask's partitions see in a round: at first the initial credit."""
        subtask, cursor = self.subtasks[index], self.job.barrier_cursor
        return [
            [
                outgoing_of(rows[link.name][channel], cursor)
                if self._reaches(channel, number, begin)
                else Outgoing(state.announced, 0)
                for channel, state in zip(own, part.channels, strict=True)
            ]
            for (link, own), part in zip(subtask.out_links, subtask.partitions, strict=True)
        ]

    def _reaches(self, channel: Channel, number: int, begin: int) -> bool:
        """Tell whether what is seen in a round is of an attempt that began in another."""
        return number - self.job.trip(channel) >= begin
