"""What the readers of a job's sinks see, on either clock: from reports, notifications, restarts.

It is told of what happens in any order, each with its round, and works it off in the order of the
rounds when all of it is known (:meth:`DeliveryControl.advance`). So it depends on what happened and
not on when a clock looked. The account of a sink subtask is a ``Delivery``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from flowcontrol.control.attempts import KernelAttempts
from flowcontrol.control.checkpoints import CheckpointControl
from flowcontrol.control.commits import Commits
from flowcontrol.control.delivery_sinks import Counts, SinkAccount, rows_of_inputs, sink_groups
from flowcontrol.control.failures import FailureControl, Watcher
from flowcontrol.control.task_orders import COMPLETED, Restart, TaskOrder
from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.barriers import COMMITS, FINISHED, TAKEN, WRITES
from flowcontrol.protocol.commits.transactions import Guarantee
from flowcontrol.state.declared import Kept, cell
from flowcontrol.state.network import CheckpointReport

SAMPLE, STOP, RESTART, HEARD, WROTE, TOOK, ENDED = range(7)
"""What happens, in the order in which things of one round do; STOP and RESTART as told."""

_CLASSES: Final = (0, 1, 1, 2, 3, 4, 5)

_KINDS: Final = {WRITES: WROTE, TAKEN: TOOK, FINISHED: ENDED}

Event = list[Any]
"""Round, class, number, kind, and what belongs to it: as JSON takes it."""

_TASK, _OF_KIND, _ID, _AT, _RECORDS, _CONTENTS = (
    cell(CheckpointReport, name)
    for name in ("task", "kind", "checkpoint", "round", "records", "contents")
)
"""Where the fields of a report are."""

_ROUND, _CLASS, _, _KIND, _WHAT = range(5)
"""Where that stands in an event."""


class DeliveryControl(Kept, Watcher):
    """The accounts of all sink subtasks of a job.

    A clock calls :meth:`attach`, :meth:`sample` with what the sinks' tasks have taken up, and
    :meth:`advance` when nothing before a round can come any more.

    - ``groups``: the subtasks of each sink that restart together.
    - ``sinks``: all of them, in the order of the job: stage by stage, subtask by subtask.
    - ``rows``: those of the table ``delivery`` so far; the caller may take them out.
    - ``commits``: the commits that take time.
    """

    _kept = ("sinks", "commits", "_events", "_told", "_sampled", "_last")

    def __init__(self, job: Job) -> None:
        self._job = job
        self.groups = sink_groups(job)
        placed = {
            place: sink
            for group in self.groups
            for place, sink in zip(group.places, group.sinks, strict=True)
        }
        self.sinks: list[SinkAccount] = [placed[place] for place in sorted(placed)]
        self._together: dict[str, list[list[int]]] = {}
        for group in self.groups:
            subtasks = [sink.subtask for sink in group.sinks]
            self._together.setdefault(group.stage, []).append(subtasks)
        self.rows: list[dict[str, Any]] = []
        self.commits = Commits(job)
        self._by_task: dict[int, list[SinkAccount]] = {}
        for sink in self.sinks:
            self._by_task.setdefault(sink.task, []).append(sink)
        self._events: list[Event] = []
        self._told = 0
        self._sampled, self._last = -1, list[dict[str, Any]]()
        self._latency = job.latency

    @property
    def tasks(self) -> list[int]:
        """Tasks that have sinks, in the order of the job."""
        return list(self._by_task)

    @property
    def waiting(self) -> int:
        """What it was told and has not worked off, events."""
        return len(self._events)

    def attach(
        self, checkpoints: CheckpointControl | None, failures: FailureControl | None
    ) -> None:
        """Have a job's coordinator and what fails in it tell of what happens."""
        exact = Guarantee.EXACTLY_ONCE
        if checkpoints is not None and any(one.account.guarantee == exact for one in self.sinks):
            checkpoints.on_notification = self.notify  # the others do nothing about it
        if failures is not None:
            failures.watcher = self

    # ------------------------------------------------------------------ what it is told

    def hear(self, rows: Iterable[Sequence[int]]) -> None:
        """Take what tasks report, each in its round: the numbers of a report, in their order."""
        for row in rows:
            task, kind, checkpoint, records = row[_TASK], row[_OF_KIND], row[_ID], row[_RECORDS]
            if task not in self._by_task:
                continue
            if kind in _KINDS:
                self._tell(row[_AT], _KINDS[kind], task, checkpoint, records)
                if kind == TAKEN:
                    self.commits.take(task, checkpoint, records)
            elif kind == COMMITS:
                over = self.commits.begin(task, row[_AT], checkpoint, records, row[_CONTENTS])
                self._tell(over, HEARD, task, checkpoint, self.commits.is_savepoint(checkpoint))

    def notify(self, order: TaskOrder) -> None:
        """Take an order of the coordinator; that a checkpoint is complete concerns the sinks."""
        if order.kind == COMPLETED and order.task in self._by_task:
            message = order.message
            is_savepoint = message.is_savepoint > 0
            over = self.commits.complete(order.task, message)
            if over is not None:
                self._tell(over, HEARD, order.task, message.checkpoint, is_savepoint)

    def stopped(self, number: int, tasks: Sequence[int]) -> None:
        """Note that tasks do nothing from a round on: they hear nothing either."""
        for task in tasks:
            if task in self._by_task:
                self._tell(number, STOP, task)

    def leader_died(self, number: int) -> None:
        """Note that the JobManager dies before a round: what it says in that round is lost.

        That a checkpoint is complete is remembered all the same.
        """
        lost = (HEARD, number + self._latency)
        self._events = [
            one
            for one in self._events
            if (one[_KIND], one[_ROUND]) != lost or self.commits.takes_time(one[_WHAT])
        ]

    def restarting(
        self, number: int, restart: Restart, keeps: Sequence[int], attempts: KernelAttempts
    ) -> None:
        """Note that tasks begin anew in a round; called before they do."""
        tasks, checkpoint = set(restart.tasks), restart.checkpoint
        self._fence(number, tasks)
        now, then = attempts.channels(), attempts.cut_channels(checkpoint)
        routed = {name: [sent for sent, _ in counts] for name, counts in now.items()}
        ahead = {name: [sent - taken for sent, taken in counts] for name, counts in now.items()}
        behind = {name: [taken - sent for sent, taken in counts] for name, counts in then.items()}
        held = {name: [sent - taken for sent, taken in counts] for name, counts in then.items()}
        parts = [self._rows_of(self._at_inputs(counts), routed) for counts in (ahead, behind, held)]
        again = self._rows_again(restart, keeps, attempts, routed)
        for index, group in enumerate(self.groups):
            if group.tasks[0] in tasks:
                what = list[tuple[Any, ...]]()
                for sink in group.sinks:
                    own = [found[sink.stage][sink.subtask] for found in parts]
                    rows = again[sink.stage]
                    back = None if rows is None else rows[sink.subtask]
                    what.append((attempts.taken(sink.task), *own, back, sink.task in keeps))
                self._tell(number, RESTART, index, checkpoint, what)

    def sample(self, t_s: float, number: int, taken: Sequence[int]) -> None:
        """Take a sample.

        - ``number``: the round before which it is taken.
        - ``taken``: records that each of :attr:`tasks` has taken up by then.
        """
        self._tell(number, SAMPLE, t_s, [int(count) for count in taken])

    def advance(self, number: int) -> None:
        """Work off what happened before a round, samples before that round included."""
        self._events.sort(key=_order)
        done = 0
        for event in self._events:
            if event[_ROUND] > number or (event[_ROUND] == number and event[_CLASS] > 0):
                break
            done += 1
            at, kind, what = event[_ROUND], event[_KIND], event[_WHAT:]
            if kind == SAMPLE:
                self._sample(at, *what)
            elif kind == RESTART:
                self.groups[what[0]].restart(at, *what[1:])
            else:
                for sink in self._by_task[what[0]]:
                    _OF_SINKS[kind](sink, at, *what[1:])
        del self._events[:done]

    def staged(self) -> dict[str, int]:
        """Return the records of each sink in transactions that are open or not committed."""
        found: dict[str, int] = {}
        for sink in self.sinks:
            found[sink.stage] = found.get(sink.stage, 0) + sink.account.staged
        return found

    def _fence(self, number: int, tasks: Collection[int]) -> None:
        """Lose what was said to attempts of tasks that end, and has not arrived."""
        self._events = [
            one
            for one in self._events
            if one[_KIND] != HEARD or one[_ROUND] < number or one[_WHAT] not in tasks
        ]

    def _rows_of(self, inputs: Sequence[int], routed: Counts) -> dict[str, list[int]]:
        return rows_of_inputs(self._job, inputs, routed, self._together)

    def _at_inputs(self, counts: Counts) -> list[int]:
        """Return the sums over the input channels of each task; less than nothing is nothing."""
        found = [0] * len(self._job.subtasks)
        for link in self._job.links:
            first = self._job.tasks[link.edge.receiver].start
            for channel, count in zip(link.channels, counts.get(link.name, ()), strict=False):
                found[first + channel.receiver] += max(0, count)
        return found

    def _rows_again(
        self, restart: Restart, keeps: Collection[int], attempts: KernelAttempts, routed: Counts
    ) -> dict[str, list[int] | None]:
        """Return the rows since the checkpoint that come again, by sink; None: all of them.

        Where some of its sources rewind and others do not: those of the ones that do.
        """
        inputs, tasks = [0] * len(self._job.subtasks), self._job.tasks
        sources = {
            plan.name: [task for task in tasks[plan.name] if task in restart.tasks]
            for plan in self._job.stages
            if plan.is_source
        }
        for task in chain.from_iterable(sources.values()):
            if task not in keeps:
                position = attempts.position(task, restart.checkpoint)
                inputs[task] = max(0, attempts.source(task)[0] - position)
        mixed = self._rows_of(inputs, routed)
        found: dict[str, list[int] | None] = {}
        for stage, rows in mixed.items():
            names = (stage, *self._job.scenario.upstream(stage))
            above = {self._job.stage(name).name for name in names}
            stay = [task in keeps for name in above for task in sources.get(name, ())]
            found[stage] = rows if any(stay) else None
            if all(stay):
                found[stage] = [0] * len(rows)
        return found

    def _tell(self, number: int, kind: int, *what: Any) -> None:
        self._told += 1
        self._events.append([number, _CLASSES[kind], self._told, kind, *what])

    def _sample(self, number: int, t_s: float, taken: Sequence[int]) -> None:
        if number > self._sampled:  # else nothing was run since: the same rows
            counts = dict(zip(self._by_task, taken, strict=True))
            self._last = [sink.sample(t_s, number, counts[sink.task]) for sink in self.sinks]
            self._sampled = number
        self.rows += [{**row, "t_s": t_s} for row in self._last]


def _order(event: Event) -> tuple[int, int, int, int]:
    """Return by what events are sorted.

    Subtasks of a sink count together, so those of one kind come in the order of their tasks: who
    tells of them has orders of its own.
    """
    number, kind, told, _, what = event[: _WHAT + 1]
    return number, kind, what if kind > _CLASSES[RESTART] else 0, told


_OF_SINKS: Final[Mapping[int, Callable[..., None]]] = {
    STOP: SinkAccount.end,
    HEARD: SinkAccount.complete,
    WROTE: SinkAccount.begin_to_write,
    TOOK: SinkAccount.barrier,
    ENDED: SinkAccount.finish,
}
"""What happens to the sinks of one task."""
