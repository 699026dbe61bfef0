"""Back pressure by sampling on the virtual clock: the kernel stops around a round with a sample."""

from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.sampling import Doing, Sampling
from flowcontrol.virtual.fields import ABSENT
from flowcontrol.virtual.memory import Memory


class Samples:
    """Has a run's tasks looked at in the rounds into which a sample falls.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    memory : Memory
        Of its run.
    absent : set of str
        Stages whose job does not run at present.
    sampling : Sampling
        What takes the samples.

    Attributes
    ----------
    sampling : Sampling
        As given.
    """

    def __init__(self, job: Job, memory: Memory, absent: set[str], sampling: Sampling) -> None:
        self._head, self._absent, self.sampling = memory.head, absent, sampling
        self._places, self._last = memory.places.tasks, job.rounds
        self._at: int | None = None
        tasks = memory.tasks  # views, made once: making them takes longer than looking at them
        self._status, self._is_finished = tasks["status"], tasks["is_finished"]
        self._blocked = tasks["blocked"]
        self._before = self._blocked.copy()

    def take(self) -> None:
        """Take the samples of the round that is over, if any fell into it.

        To be called before anything else happens between two rounds.
        """
        if self._at is not None and self._head.round > self._at:
            number, self._at = self._at, None
            self.sampling.look(number, self._doing)

    def begin(self) -> int:
        """Be ready for the next round; return the round before which to be called again.

        To be called when all that happens between two rounds has happened.
        """
        number, due = self._head.round, self.sampling.next_round
        if number < due:
            return due
        if number >= self._last:
            return self._last
        self._at = number
        self._before = self._blocked.copy()
        return number + 1

    def _doing(self, plan: JobVertex) -> list[Doing]:
        """Return what the tasks of a vertex did in the round that is over."""
        first = self._places[plan.name]
        own = slice(first, first + plan.stage.parallelism)
        grown = (self._blocked[own] - self._before[own]).tolist()
        is_there = not any(member.stage.name in self._absent for member in plan.members)
        runs = (self._status[own] != ABSENT) & (self._is_finished[own] == 0)
        return [Doing(is_there and run, us) for run, us in zip(runs.tolist(), grown, strict=True)]
