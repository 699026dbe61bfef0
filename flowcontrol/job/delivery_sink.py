"""What readers see of one sink subtask: its account, in rounds and in what its task takes up."""

from collections.abc import Mapping
from typing import Any

from flowcontrol.job.delivery_settings import SinkSubtask
from flowcontrol.job.job import Job
from flowcontrol.operators.states import TASK_INPUT
from flowcontrol.operators.table import on_records
from flowcontrol.protocol.commits import Delivery
from flowcontrol.protocol.commits.settled import SettledRows
from flowcontrol.protocol.kept import Kept


class SinkAccount(Kept):
    """The account of one sink subtask.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    one : SinkSubtask
        Which subtask.
    settled : SettledRows
        What is settled of the subtasks of its sink that restart with it.

    Attributes
    ----------
    task, stage, subtask : int, str, int
        Where it is.
    account : Delivery
        Times in microseconds.
    hears : bool
        Whether its task runs, and so hears that a checkpoint is complete.

    Notes
    -----
    A task takes records up; what a sink in it writes follows from how many, as the stages chained
    before it make a fixed number of them (:mod:`flowcontrol.operators.selectivity`).
    """

    _kept = ("hears", "_rows", "_since", "_taken", "_barriers")

    def __init__(self, job: Job, one: SinkSubtask, settled: SettledRows) -> None:
        self.task, self.stage, self.subtask = one.task, one.member.stage.name, one.subtask
        self._plan, self._input, self._round_us = one.plan, one.member.input, job.round_us
        stage = one.member.stage
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

    def stop(self, number: int, checkpoint: int, taken: int) -> bool:
        """Note that an attempt of the task has ended; tell whether the next one has work to do.

        Parameters
        ----------
        number : int
            The round in which it begins anew.
        checkpoint : int
            What is restored; -1: nothing, it begins at the beginning.
        taken : int
            Records that the task had taken up in the end.

        Returns
        -------
        bool
            False: it had finished before the checkpoint.
        """
        self._write(number, taken)
        self.hears = True
        return checkpoint < 0 or checkpoint in self._barriers

    def resume(self, number: int, checkpoint: int, source_stays: bool) -> None:
        """Note that the task begins anew, once its account is restored.

        Parameters
        ----------
        number, checkpoint : int
            As for :meth:`stop`.
        source_stays : bool
            The task is a source that goes on where it was.
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
