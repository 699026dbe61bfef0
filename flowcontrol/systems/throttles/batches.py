"""Batches that are read from the log before the sources and run one at a time."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from flowcontrol.systems.throttles import controller as c


class Batches(c.Controller):
    """Admit a batch, wait until the job is empty, admit the next.

    A batch is done at the end of the first round at which all its records were emitted and nothing
    is unfinished in the job; so it takes a round at least.
    """

    _kept: ClassVar[tuple[str, ...]] = ("admitted", "is_running", "begun_us")

    def __init__(self, settings: c.ControllerSettings) -> None:
        super().__init__(settings)
        self.admitted: list[int] = []
        self.is_running = False
        self.begun_us = 0

    @property
    def wants_empty(self) -> bool:
        """True while a batch runs."""
        return self.is_running

    def first(self, sources: Sequence[c.SourceObservation]) -> list[c.Command]:
        """Let nothing be emitted before the first batch."""
        self.admitted = [0] * len(sources)
        return self._commands()

    def observe(self, job: c.JobObservation) -> list[c.Command]:
        """End a batch that is done, then form and begin what it is time for."""
        if self.is_running and self._is_done(job):
            self.is_running = False
            self._end(job)
        self._form(job)
        return self._commands()

    def _is_done(self, job: c.JobObservation) -> bool:
        pairs = zip(job.sources, self.admitted, strict=True)
        return job.is_empty and all(source.emitted >= most for source, most in pairs)

    def _begin(self, sizes: Sequence[int], now_us: int) -> None:
        self.admitted = [most + size for most, size in zip(self.admitted, sizes, strict=True)]
        self.is_running = True
        self.begun_us = now_us

    def _commands(self) -> list[c.Command]:
        return [c.Command(0, 0, most) for most in self.admitted]

    @abstractmethod
    def _end(self, job: c.JobObservation) -> None:
        """Take notice of a batch that is done."""

    @abstractmethod
    def _form(self, job: c.JobObservation) -> None:
        """Form and begin batches."""


def waiting(job: c.JobObservation, planned: Sequence[int]) -> list[int]:
    """Return how many records of each source's log no batch has yet, by what batches have."""
    pairs = zip(job.sources, planned, strict=True)
    return [max(0, source.emitted + source.log - most) for source, most in pairs]
