"""The batches of windows with Spark's time: what the driver of a query does between two of them.

Each stage with windows is a query of its own, as a sink of Structured Streaming has one. Its batch
ends at a multiple of ``batch_s``, once what the batch before put out has left all its tasks. Where
a throttle admits batches, theirs are the windows': one ends when all that it admitted is done, and
the throttle hears that the job is empty once it is answered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flowcontrol.job.batch_settings import has_batches, new_batch, new_operators, next_batch_end
from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.operators.states import StreamTask
from flowcontrol.operators.window_states import WindowTask
from flowcontrol.protocol.event_time.states import Valve
from flowcontrol.protocol.kept import Kept
from flowcontrol.protocol.spark_time import watermarks as w
from flowcontrol.protocol.spark_time.answering import begin_answer
from flowcontrol.protocol.windows.states import WindowStore


@dataclass(frozen=True)
class BatchedTask:
    """What of a task with windows the driver reads and changes.

    Attributes
    ----------
    task : StreamTask
        Its state.
    held : WindowTask
        What it holds of its windows beside them.
    store : WindowStore
        How far they are.
    operators : sequence of WatermarkOperator
        What it has seen of each of its inputs.
    valve : Valve
        Where the watermark of the batch under way is kept.
    """

    task: StreamTask
    held: WindowTask
    store: WindowStore
    operators: Sequence[w.WatermarkOperator]
    valve: Valve


class WindowQuery(Kept):
    """The query that the windows of a stage are.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        The stage.
    """

    _kept = ("watermark", "_operators")
    _values = (w.QueryWatermark, w.WatermarkOperator)

    def __init__(self, job: Job, plan: JobVertex) -> None:
        self.plan = plan
        self.watermark = w.QueryWatermark()
        self._mode = new_batch(job, plan).mode
        self._operators = new_operators(job, plan)

    def end_batch(self, tasks: Sequence[BatchedTask]) -> bool:
        """End the batch under way, if it may end: tell whether the tasks have to look at it.

        Parameters
        ----------
        tasks : sequence of BatchedTask
            All tasks of the stage, after a round.
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


class BatchControl(Kept):
    """The drivers of all queries of a job.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    tasks : mapping of str to sequence of BatchedTask
        The tasks of each stage with windows.
    """

    _kept = ("_queries",)

    def __init__(self, job: Job, tasks: Mapping[str, Sequence[BatchedTask]]) -> None:
        self._job, self._tasks = job, tasks
        self._queries = [WindowQuery(job, job.stage(name)) for name in tasks]

    def next_round(self, number: int) -> int:
        """Return the next round from ``number`` on before which they have something to do."""
        return next_batch_end(self._job, number)

    def before_round(self, number: int) -> list[str]:
        """End the batches that end before a round; return the stages whose tasks look at it."""
        if self.next_round(number) != number:
            return []
        return self.end_without_rows()

    @property
    def is_answering(self) -> bool:
        """Whether some task puts out what a batch answers."""
        return any(one.task.is_firing == 1 for own in self._tasks.values() for one in own)

    def end_with_rows(self) -> list[str]:
        """End the batches that have rows; return the stages whose tasks look at it."""
        return [query.plan.name for query in self._queries if self._ends(query, least=1)]

    def end_without_rows(self) -> list[str]:
        """End the batches, with rows or without; return the stages whose tasks look at it."""
        return [query.plan.name for query in self._queries if self._ends(query, least=0)]

    def _ends(self, query: WindowQuery, least: int) -> bool:
        tasks = self._tasks[query.plan.name]
        has_enough = sum(one.held.batch.rows for one in tasks) >= least
        return has_enough and query.end_batch(tasks)


def window_stages_of(job: Job) -> list[str]:
    """Return the stages whose windows are answered in batches."""
    if not has_batches(job.scenario):
        return []
    return [plan.name for plan in job.stages if plan.stage.window is not None]
