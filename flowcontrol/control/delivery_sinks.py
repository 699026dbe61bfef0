"""What readers see of the subtasks of a sink, one by one and as they restart together."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from flowcontrol.layout.fault_tolerance import Failover
from flowcontrol.layout.graph import JobEdge, JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.task_settings import SinkSubtask, sink_subtasks
from flowcontrol.protocol.commits.delivery import Delivery, Returning, restore_together
from flowcontrol.protocol.commits.transactions import SettledRows
from flowcontrol.protocol.tasks.operators import on_records
from flowcontrol.state.declared import Kept
from flowcontrol.state.tasks import TASK_INPUT

# --- What becomes of records on their way: the rows of them that reach each subtask of the sinks.
#
# Of records that are in a channel it is known how many go to which task. From there on they
# are counted by the ratios of the stages, and shared out over channels as the records before
# them were.


Counts = Mapping[str, Sequence[int]]
"""Records by the name of an edge, of each of its channels in their order."""


def rows_of_inputs(
    job: Job,
    inputs: Sequence[int],
    routed: Counts,
    groups: Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> dict[str, list[int]]:
    """Return how many rows reach the sinks of records that tasks take up.

    - ``inputs``: records that each task takes up, or emits if it is a source, in the order of the
      job.
    - ``routed``: records so far of each channel: how tasks share out what they write.
    - ``groups``: by the name of a sink: its subtasks that restart together; by default all of them.

    Returns rows by the name of the sink, of each subtask. The sum of a group is exact where the
    ratios are whole; what is left of a row there is no row.
    """
    flows, found = [Fraction(count) for count in inputs], {}
    for plan in job.stages:
        own = [flows[task] for task in job.tasks[plan.name]]
        for member in plan.members:
            if member.is_sink:
                rows, name = [flow * member.ratio_in for flow in own], member.stage.name
                parts = [range(len(rows))] if groups is None else groups[name]
                counts = dict[int, int]()
                for part in parts:
                    counts.update(zip(part, whole([rows[index] for index in part]), strict=True))
                found[name] = [counts[index] for index in range(len(rows))]
        for link in plan.outputs if any(own) else ():
            at = job.tasks[link.edge.receiver].start
            for receiver, flow in _share_out(plan, link, own, routed[link.name]):
                flows[at + receiver] += flow
    return found


def _share_out(
    plan: JobVertex, link: JobEdge, inputs: Sequence[Fraction], routed: Sequence[int]
) -> list[tuple[int, Fraction]]:
    """Return what goes to which receiver of what the subtasks of a stage take up."""
    ratio, found = plan.member(link).ratio_out, []
    totals = [0] * len(inputs)
    for channel, count in zip(link.channels, routed, strict=True):
        totals[channel.sender] += count
    for channel, count in zip(link.channels, routed, strict=True):
        share = Fraction(1)
        if link.edge.partitioner != "broadcast":
            total, outgoing = totals[channel.sender], link.outgoing(channel.sender)
            if total > 0:
                share = Fraction(count, total)
            elif link.edge.partitioner == "global":
                share = Fraction(channel == outgoing[0])
            else:
                share = Fraction(1, len(outgoing))
        found.append((channel.receiver, inputs[channel.sender] * ratio * share))
    return found


def whole(shares: Sequence[Fraction]) -> list[int]:
    """Return whole numbers whose sum is that of the shares, rounded down; the largest rest first.

    Examples
    --------
    >>> whole([Fraction(3, 2), Fraction(1, 4), Fraction(1, 4)])
    [2, 0, 0]
    """
    counts = [int(share) for share in shares]
    rests = sorted(range(len(shares)), key=lambda i: (counts[i] - shares[i], i))
    for i in rests[: int(sum(shares)) - sum(counts)]:
        counts[i] += 1
    return counts


# --- What readers see of one sink subtask: its account, in rounds and in what its task takes up


class SinkAccount(Kept):
    """The account of one sink subtask.

    A task takes records up; what a sink in it writes follows from how many, as the stages chained
    before it make a fixed number of them (:mod:`flowcontrol.protocol.tasks.operators`).

    - ``task``, ``stage``, ``subtask``: where it is.
    - ``account``: times in microseconds.
    - ``hears``: whether its task runs, and so hears that a checkpoint is complete.
    """

    _kept = ("hears", "_rows", "_since", "_taken", "_barriers")

    def __init__(self, job: Job, one: SinkSubtask, settled: SettledRows) -> None:
        self.task, self.stage, self.subtask = one.task, one.member.stage.name, one.subtask
        self._plan, self._input, self._round_us = one.plan, one.member.input, job.round_us
        stage = one.member.stage
        self._has_committer = stage.commit is not None and stage.commit.shared
        self.account = Delivery(stage.guarantee, stage.transaction_timeout_us, settled=settled)
        self.hears = True
        self._rows = 0
        """What the task had taken up when it was last known, in rows of the sink."""
        self._since = 0
        """When the first of the rows after those was written, at the earliest."""
        self._taken = 0
        self._barriers: dict[int, int] = {}

    def begin_to_write(self, number: int, _: int, before: int) -> None:
        """Note that rows are written in a round, of what is taken up after so many records."""
        self._write(number, before)
        self._since = max(self._since, number * self._round_us)

    def barrier(self, number: int, checkpoint: int, taken: int) -> None:
        """Note that the sink took a checkpoint in a round, when its task had taken so much up."""
        self._write(number, taken)
        self._since = number * self._round_us
        self._barriers[checkpoint] = taken
        self.account.barrier(self._since, checkpoint)

    def complete(self, number: int, checkpoint: int, is_savepoint: bool) -> None:
        """Note that the task hears in a round that a checkpoint is complete, if it runs."""
        if not self.hears:
            return
        self.account.complete(number * self._round_us, checkpoint, is_savepoint=is_savepoint)
        if not is_savepoint:
            self._barriers = {n: at for n, at in self._barriers.items() if n >= checkpoint}

    def end(self, *_: int) -> None:
        """Note that the task does nothing from now on."""
        self.hears = False

    def finish(self, *_: int) -> None:
        """Note that the task has finished; a committer of all subtasks goes on without it."""
        self.hears = self.hears and self._has_committer

    def stop(self, number: int, checkpoint: int, taken: int) -> bool:
        """Note that an attempt of the task has ended; tell whether the next one has work to do.

        - ``number``: the round in which it begins anew.
        - ``checkpoint``: what is restored; -1: nothing, it begins at the beginning.

        False: it had finished before the checkpoint.
        """
        self._write(number, taken)
        self.hears = True
        return checkpoint < 0 or checkpoint in self._barriers

    def resume(self, number: int, checkpoint: int, source_stays: bool) -> None:
        """Note that the task begins anew, once its account is restored.

        ``source_stays``: the task is a source that goes on where it was.
        """
        self._since = number * self._round_us
        if not source_stays:
            self._taken = 0 if checkpoint < 0 else self._barriers[checkpoint]
            self._rows = self._rows_of(self._taken)
        self._barriers = {n: at for n, at in self._barriers.items() if n <= checkpoint}

    def sample(self, t_s: float, number: int, taken: int) -> dict[str, Any]:
        """Return the row of a sample before a round, when its task has taken so much up."""
        self._write(number, taken)
        found = self.account.sample()
        middle, most = found.visibility_p50, found.visibility_max
        return {
            "t_s": t_s,
            "stage": self.stage,
            "subtask": self.subtask,
            "written": found.written,
            "committed": found.committed,
            "visible_twice": found.visible_twice,
            "lost": found.lost,
            "visibility_p50_ms": None if middle is None else middle / 1e3,
            "visibility_max_ms": None if most is None else most / 1e3,
        }

    def state(self) -> dict[str, Any]:
        """Return all of it, as JSON takes it."""
        return {**super().state(), "account": self.account.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned, in the account of the same sink."""
        others = {**state}
        self.account.restore_state(others.pop("account"))
        super().restore(others)

    def _write(self, number: int, taken: int) -> None:
        """Have the rows written of what the task has taken up before a round, or in it."""
        if taken <= self._taken:
            return
        self._taken, before = taken, self._rows
        self._rows = self._rows_of(taken)
        self.account.write(number * self._round_us, self._rows - before, self._since)

    def _rows_of(self, taken: int) -> int:
        """Return the rows that reach the sink of so many records that its task takes up."""
        if self._input == TASK_INPUT:
            return taken
        operators, out = self._plan.new_operators(), list[int]()
        for operator in operators[: self._input + 1]:
            records = taken if operator.input == TASK_INPUT else out[operator.input]
            out.append(on_records(operator, records))
        return out[self._input]


# --- The subtasks of a sink that restart together: a rebalance deals rows out to others of them


class Restarted(NamedTuple):
    """What a restart finds and leaves of one subtask of a sink; as JSON takes it."""

    taken: int  # Records that its task had taken up in the end
    # Rows that were on their way to it; those before the checkpoint that come again; those that the
    # checkpoint holds in flight.
    in_flight: int
    early: int
    stored: int
    again: int | None  # Other rows since the checkpoint that come again; None: all of them
    source_stays: bool  # The task is a source that goes on where it was


class SinkGroup:
    """The subtasks of one sink in one pipelined region, which restart together.

    - ``subtasks``: which, by their places among the sinks' subtasks of the job, in their order.
    - ``places``: those places.
    - ``sinks``: their accounts, which share what is settled.
    - ``stage``: name of the sink.
    - ``tasks``: where they are.
    """

    def __init__(self, job: Job, subtasks: Mapping[int, SinkSubtask]) -> None:
        settled, self._round_us = SettledRows(), job.round_us
        self.places = list(subtasks)
        self.sinks = [SinkAccount(job, one, settled) for one in subtasks.values()]
        self.stage, self.tasks = self.sinks[0].stage, [sink.task for sink in self.sinks]

    def restart(self, number: int, checkpoint: int, found: Sequence[Sequence[int | None]]) -> None:
        """Note that the tasks begin anew in a round.

        - ``checkpoint``: what is restored; -1: nothing, they begin at the beginning.
        - ``found``: what is known of each.
        """
        parts = [Restarted(*one) for one in found]  # type: ignore[arg-type]
        have_work = [
            (sink, one)
            for sink, one in zip(self.sinks, parts, strict=True)
            if sink.stop(number, checkpoint, one.taken)
        ]
        if not have_work:
            return  # they had finished before, and have nothing to do again
        restore_together(
            number * self._round_us,
            None if checkpoint < 0 else checkpoint,
            [
                (sink.account, Returning(one.in_flight, one.early, one.stored, one.again))
                for sink, one in have_work
            ],
        )
        for sink, one in have_work:
            sink.resume(number, checkpoint, one.source_stays)


def sink_groups(job: Job) -> list[SinkGroup]:
    """Return the groups of all sinks, in the order of their first subtasks in the job.

    A sink of a job in which nothing fails is one group.
    """
    regions = None if job.faults is None else Failover(job).regions
    groups: dict[tuple[str, int], dict[int, SinkSubtask]] = {}
    for place, one in enumerate(sink_subtasks(job)):
        region = 0 if regions is None else regions[one.task]
        groups.setdefault((one.member.stage.name, region), {})[place] = one
    return [SinkGroup(job, subtasks) for subtasks in groups.values()]
