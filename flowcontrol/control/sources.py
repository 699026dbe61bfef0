"""What acts on sources between rounds: throttles, aligned groups, batches of Spark windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flowcontrol.kernel.views import (
    kernel_time,
    kernel_window,
    source_log,
    task_row,
    throttled_source,
    wake,
    watermark_operators,
)
from flowcontrol.layout.graph import JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.task_settings import (
    alignment_of,
    has_batches,
    new_batch,
    new_operators,
    next_batch_end,
)
from flowcontrol.memory.memory import Memory
from flowcontrol.protocol.event_time import allowed_watermark, note_report
from flowcontrol.protocol.tasks.event_time import reported, update_max_desired_watermark
from flowcontrol.protocol.tasks.reading import unread
from flowcontrol.protocol.windows import spark_batches as w
from flowcontrol.protocol.windows.spark_batches import begin_answer
from flowcontrol.scenario.event_time import Alignment
from flowcontrol.state.declared import Kept
from flowcontrol.state.tasks import AlignedSource, StreamTask, TaskTime, Valve, WindowTask, is_first
from flowcontrol.state.windows import WindowStore
from flowcontrol.systems.throttles import controller as c
from flowcontrol.systems.throttles.controller import Controller, make_controller
from flowcontrol.systems.throttles.throttled_source import ThrottledSource

# --- The controller of a job's throttle: its view of the kernel's memory, and its commands.


def controller_of(job: Job) -> Controller | None:
    """Return the controller of a job's throttle, at rest; None if it has none."""
    system = job.scenario.system
    return make_controller(
        system.throttle,
        system.throttle_values,
        round_us=job.round_us,
        spouts_above=job.sources_above(),
    )


class ThrottleControl:
    """Shows a controller the job at the ends of rounds, and hands its commands to the sources.

    - ``memory``: of its run, before the first round.
    - ``batches``: batches of Spark's windows, if those of the throttle are theirs.
    """

    def __init__(
        self, job: Job, memory: Memory, controller: c.Controller, batches: Batches | None = None
    ) -> None:
        self.controller, self._batches = controller, batches
        self._job, self._memory = job, memory
        self._sources = [(plan, i) for plan, i in job.subtasks if plan.is_source]
        self._tasks = [(plan, i) for plan, i in job.subtasks if not plan.is_source]
        self._tell(controller.first([self._source(plan, i, 0) for plan, i in self._sources]))

    def next_end(self) -> int:
        """Return how many rounds are done when the controller is to look next, at least one more.

        The end of the first round that ends at or after the time of its look.
        """
        rounds = -(-self.controller.next_look_us() // self._job.round_us)
        return max(self._memory.head.round + 1, rounds)

    def look(self) -> None:
        """Show the controller the rounds that are done, and pass its commands on."""
        head = self._memory.head
        now_us = head.round * self._job.round_us
        is_empty = bool(head.is_empty)
        if self._batches is not None:
            is_empty = self._batches.are_answered(is_empty=is_empty)
        seen = c.JobObservation(
            now_us,
            tuple(self._source(plan, i, now_us) for plan, i in self._sources),
            tuple(self._task(plan, i, now_us) for plan, i in self._tasks),
            is_empty,
            head.arrived,
            self._oldest_us(),
        )
        self._tell(self.controller.look(seen))
        if self._batches is not None and self.controller.found_nothing:
            self._batches.end()

    def _tell(self, commands: list[c.Command]) -> None:
        for (plan, index), command in zip(self._sources, commands, strict=True):
            state = self._state(plan, index)
            state.is_stopped = command.is_stopped
            state.gap_ns = command.gap_ns
            state.admitted = command.admitted
        self._memory.head.is_watched = int(self.controller.wants_empty)

    def _row(self, plan: JobVertex, index: int) -> np.ndarray:
        return self._memory.tasks[self._memory.places.tasks[plan.name] + index]

    def _state(self, plan: JobVertex, index: int) -> ThrottledSource:
        return throttled_source(self._memory.cells, int(self._row(plan, index)["throttle"]))

    def _source(self, plan: JobVertex, index: int, now_us: int) -> c.SourceObservation:
        task, rates = self._row(plan, index), plan.rates(index)
        log = source_log(self._memory.cells, int(task["log"])) if task["log"] > 0 else None
        return c.SourceObservation(
            plan.name,
            index,
            int(task["taken"]),
            0 if log is None else unread(log),
            self._state(plan, index).offered if log is None else log.end,
            0.0 if rates is None else float(rates.rate_at(now_us)),
        )

    def _task(self, plan: JobVertex, index: int, now_us: int) -> c.TaskObservation:
        task, rates, nbytes = self._row(plan, index), plan.rates(index), 0
        gates = self._memory.gates[int(task["first_gate"]) :][: int(task["gates"])]
        for gate in gates:
            first = int(gate["first_channel"])
            rows = self._memory.ins[first : first + int(gate["channels"])]
            sent = self._memory.outs[rows["out"]]["written"]
            queued = sent - rows["processed"]
            nbytes += int(queued.sum() * gate["record_bytes"])
        rate = 0.0 if rates is None else float(rates.rate_at(now_us))
        return c.TaskObservation(
            plan.name,
            index,
            int(task["queued"]),
            nbytes,
            int(task["taken"]),
            1000 / rate if rate > 0 else 0.0,
        )

    def _oldest_us(self) -> int:
        """End of the round in which the oldest record on any channel was emitted; -1: none."""
        heads = self._memory.outs["runs"]["head"]
        heads = heads[heads > 0] - 1
        if len(heads) == 0:
            return -1
        return int(self._memory.runs["round"][heads].min() + 1) * self._job.round_us


# --- The coordinators of aligned sources between rounds: what is reported, and what each may
# have.
#
# They run at the start of a round, once in an interval of each source, and know nothing but
# what its subtasks held after the round before. What a subtask reports reaches them a network
# latency later, what they answer reaches the subtasks a network latency later; a latency is
# at least a round.


class _Sent(NamedTuple):
    """A watermark on its way: the round of its arrival, from or to whom, and itself, ms."""

    arrives: int
    number: int
    watermark: int


class AlignmentControl(Kept):
    """The coordinators of a job's aligned sources, beside its tasks.

    Flink's ``SourceCoordinator``. It answers at the multiples of its interval with what has been
    reported by then. Its subtasks report half an interval before: on Flink the timers of the two
    begin apart, so that an answer is 0 to 1 interval behind its report. If an interval is shorter
    than a round, both happen once a round.

    ``latency``: rounds that a message between a coordinator and a subtask takes.
    """

    _kept = ("_turns", "_reports", "_under_way", "_answers")
    _values = (AlignedSource, _Sent)

    def __init__(self, job: Job) -> None:
        self._round_us = job.round_us
        self.latency = job.latency
        self._sources = [
            (job.tasks[plan.name], own)
            for plan in job.stages
            if (own := alignment_of(job, plan)) is not None
        ]
        self._turns = [1] * len(self._sources)
        """Of each source, in half intervals: odd ones are reports, even ones answers."""
        self._group = {task: own.group for tasks, own in self._sources for task in tasks}
        self._reports = {task: AlignedSource() for task in self._group}
        self._under_way: list[_Sent] = []
        self._answers: list[_Sent] = []

    def next_round(self) -> int:
        """Return the round before which :meth:`before_round` must be called at the latest."""
        rounds = [
            -(-turn * own.interval_us // (2 * self._round_us))
            for turn, (_, own) in zip(self._turns, self._sources, strict=True)
        ]
        return min([*rounds, *(answer.arrives for answer in self._answers)])

    def before_round(self, number: int, reported: Callable[[int], int]) -> list[tuple[int, int]]:
        """Do what is due by the start of a round.

        - ``number``: the round that is about to run; never less than in the call before.
        - ``reported``: given a task, what it reports after the round before
          (:func:`flowcontrol.protocol.tasks.event_time.reported`), ms.

        Returns what subtasks hear before the round: the number of each, in the order of the job's
        subtasks, and the watermark that its group allows it, ms.
        """
        self._hear(number)
        for place, source in enumerate(self._sources):
            self._take_turns(number, place, *source, reported)
        told = [answer for answer in self._answers if answer.arrives <= number]
        self._answers = [answer for answer in self._answers if answer.arrives > number]
        return [
            (task, answer.watermark) for answer in told for task in self._sources[answer.number][0]
        ]

    def _hear(self, number: int) -> None:
        """Take notice of the reports that have arrived."""
        for report in self._under_way:
            if report.arrives <= number:
                note_report(self._reports[report.number], report.watermark)
        self._under_way = [report for report in self._under_way if report.arrives > number]

    def _take_turns(
        self, number: int, place: int, tasks: range, own: Alignment, reported: Callable[[int], int]
    ) -> None:
        """Have a coordinator answer, and its subtasks report, if they are due."""
        due = range(self._turns[place], 2 * number * self._round_us // own.interval_us + 1)
        self._turns[place] += len(due)
        arrives = number + self.latency
        if any(turn % 2 == 0 for turn in due[:2]):
            group = [self._reports[task] for task, name in self._group.items() if name == own.group]
            self._answers.append(_Sent(arrives, place, allowed_watermark(group, own.max_drift_ms)))
        for task in tasks if any(turn % 2 == 1 for turn in due[:2]) else ():
            watermark = reported(task)
            if is_first(watermark) == 0:
                self._under_way.append(_Sent(arrives, task, watermark))

    def begin(self, memory: Memory) -> int:
        """Have sources hear what is due before the next round of a memory.

        Returns the round before which to be asked again.
        """
        head = memory.head

        def time(task: int) -> TaskTime:
            return kernel_time(memory.cells, int(memory.tasks["time"][task])).own

        if self.next_round() <= head.round:
            for task, allowed in self.before_round(head.round, lambda task: reported(time(task))):
                if update_max_desired_watermark(time(task), allowed) == 1:
                    wake(head, task, head.round)
        return self.next_round()


# --- The batches of windows with Spark's time: what the driver of a query does between two of
# them.
#
# Each stage with windows is a query of its own, as a sink of Structured Streaming has one.
# Its batch ends at a multiple of `batch_s`, once what the batch before put out has left all
# its tasks. Where a throttle admits batches, theirs are the windows': one ends when all that
# it admitted is done, and the throttle hears that the job is empty once it is answered.


@dataclass(frozen=True)
class BatchedTask:
    """What of a task with windows the driver reads and changes."""

    task: StreamTask  # Its state
    held: WindowTask  # What it holds of its windows beside them
    store: WindowStore  # How far they are
    operators: Sequence[w.WatermarkOperator]  # What it has seen of each of its inputs
    valve: Valve  # Where the watermark of the batch under way is kept


class WindowQuery(Kept):
    """The query that the windows of a stage are."""

    _kept = ("watermark", "_operators")
    _values = (w.QueryWatermark, w.WatermarkOperator)

    def __init__(self, job: Job, plan: JobVertex) -> None:
        self.plan = plan
        self.watermark = w.QueryWatermark()
        self._mode = new_batch(job, plan).mode
        self._operators = new_operators(job, plan)

    def end_batch(self, tasks: Sequence[BatchedTask]) -> bool:
        """End the batch under way, if it may end: tell whether the tasks have to look at it.

        ``tasks``: all tasks of the stage, after a round.
        """
        if any(one.task.is_firing == 1 for one in tasks):
            return False
        rows = sum(one.held.batch.rows for one in tasks)
        if rows == 0 and w.needs_no_data_batch(self.watermark, self._mode) == 0:
            return self._end(tasks)
        own = self.watermark.current
        self._observe(tasks)
        for one in tasks:
            begin_answer(one.store, one.held.batch, own)
            one.task.is_firing = 1
            if self.watermark.current > 0:
                one.valve.watermark = self.watermark.current
        return True

    def _observe(self, tasks: Sequence[BatchedTask]) -> None:
        """Work out the watermark of the next batch from what all tasks have seen."""
        if not self._operators:
            return
        for one in tasks:
            for operator, seen in zip(self._operators, one.operators, strict=True):
                operator.watermark = max(operator.watermark, seen.watermark)
        w.end_batch(self.watermark, self._operators)

    @staticmethod
    def _end(tasks: Sequence[BatchedTask]) -> bool:
        """Let the tasks end if nothing comes any more; tell whether that is new."""
        is_over = all(one.task.open_inputs == 0 for one in tasks)
        if not is_over or all(one.held.batch.is_over == 1 for one in tasks):
            return False
        for one in tasks:
            one.held.batch.is_over = 1
        return True


def window_stages_of(job: Job) -> list[str]:
    """Return the stages whose windows are answered in batches."""
    if not has_batches(job.scenario):
        return []
    return [plan.name for plan in job.stages if plan.stage.window is not None]


class Batches(Kept):
    """The drivers of all queries of a job: they end batches in the memory.

    ``memory``: of its run, before the first round.
    """

    _kept = ("_queries",)

    def __init__(self, job: Job, memory: Memory) -> None:
        self._job, self._head = job, memory.head
        stages = window_stages_of(job)
        self._tasks = {name: list(map(self._task, job.tasks[name])) for name in stages}
        self._queries = [WindowQuery(job, job.stage(name)) for name in stages]

    def next_round(self, number: int) -> int:
        """Return the next round from ``number`` on before which they have something to do."""
        return next_batch_end(self._job, number)

    def before_round(self, number: int) -> None:
        """End the batches that end before a round."""
        if self.next_round(number) == number:
            self.end()

    def are_answered(self, *, is_empty: bool) -> bool:
        """Tell whether a job that is empty has nothing to answer either; end its batches if not."""
        every = (one for own in self._tasks.values() for one in own)
        return is_empty and not any(one.task.is_firing == 1 for one in every) and not self.end(1)

    def end(self, least: int = 0) -> bool:
        """End the batches that have so many rows; tell whether tasks have to look at one."""
        have_ended = [self._ends(query, least) for query in self._queries]
        return any(have_ended)

    def _ends(self, query: WindowQuery, least: int) -> bool:
        name, tasks = query.plan.name, self._tasks[query.plan.name]
        if sum(one.held.batch.rows for one in tasks) < least or not query.end_batch(tasks):
            return False
        for task in self._job.tasks[name]:
            wake(self._head, task, self._head.round)
        return True

    def _task(self, number: int) -> BatchedTask:
        head = self._head
        task = task_row(head, number)
        held = kernel_window(head, task.window)
        operators = watermark_operators(head, held.operators, held.operator_count)
        valve = kernel_time(head, task.time).own.valve
        return BatchedTask(task, held.own, held.store, operators, valve)
