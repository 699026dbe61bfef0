"""The coordinators of aligned sources between rounds, and their work on the memory."""

from collections.abc import Callable
from typing import NamedTuple

from flowcontrol.kernel.views import kernel_time, wake
from flowcontrol.layout.job import Job
from flowcontrol.layout.task_settings import alignment_of
from flowcontrol.memory.memory import Memory
from flowcontrol.protocol.event_time.watermarks import allowed_watermark, note_report
from flowcontrol.protocol.tasks.event_time import reported, update_max_desired_watermark
from flowcontrol.scenario.event_time import AlignmentPlan
from flowcontrol.state.kept import Kept
from flowcontrol.state.tasks import AlignedSource, TaskTime, is_first

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

    Flink's ``SourceCoordinator``. At the multiples of its interval it answers with what has been
    reported by then, and its subtasks report: what is reported at one multiple is answered at the
    next. If an interval is shorter than a round, that is once a round.

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
        self._turns = [own.interval_us for _, own in self._sources]
        self._group = {task: own.group for tasks, own in self._sources for task in tasks}
        self._reports = {task: AlignedSource() for task in self._group}
        self._under_way: list[_Sent] = []
        self._answers: list[_Sent] = []

    def next_round(self) -> int:
        """Return the round before which :meth:`before_round` must be called at the latest."""
        rounds = [-(-turn // self._round_us) for turn in self._turns]
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
            if self._turns[place] <= number * self._round_us:
                self._take_turn(number, place, *source, reported)
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

    def _take_turn(
        self,
        number: int,
        place: int,
        tasks: range,
        own: AlignmentPlan,
        reported: Callable[[int], int],
    ) -> None:
        """Have a coordinator answer, and its subtasks report."""
        passed = number * self._round_us // own.interval_us
        self._turns[place] = (passed + 1) * own.interval_us
        group = [self._reports[task] for task, group in self._group.items() if group == own.group]
        arrives = number + self.latency
        self._answers.append(_Sent(arrives, place, allowed_watermark(group, own.max_drift_ms)))
        for task in tasks:
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
