"""Timely's probe: a source begins a batch only while few before it are unfinished.

"Emit only while time < probe + k" of Timely Dataflow's applications. A batch's number is its
logical time, and the frontier is the first number that is not yet done everywhere. A batch lasts
``interval_ms`` from when it began, and the sources, all of them together, wait between two batches
while the next one may not begin. What falls due then is lost: there is no log.

Where this differs: a batch lasts whole rounds; it is done when sinks have taken up all its records,
where Timely's frontier also waits for operators that hold a time back; and word of the frontier
takes no time.
"""

from bisect import bisect_left
from collections.abc import Sequence

from flowcontrol.systems.throttles import controller as c


def frontier(first: int, ends: Sequence[int], oldest: int) -> int:
    """Return the number of the first batch that is not done.

    - ``first``: the first batch that was not done when it was last looked.
    - ``ends``: when that batch and those after it ended, ascending; the last of them is the newest
      batch. A record that was emitted at the very end of a batch belongs to it.
    - ``oldest``: when the oldest record was emitted that is not done, in the same unit; negative:
      none.
    """
    return first + (len(ends) if oldest < 0 else bisect_left(ends, oldest))


def may_begin(number: int, frontier: int, lag: int) -> int:
    """Tell whether a source may begin a batch: 1 while fewer than ``lag`` batches are not done."""
    return 1 if number < frontier + lag else 0


class FrontierLag(c.Controller):
    """Stop the sources while ``lag`` of their batches are not done everywhere.

    Messages are the steps of the frontier that the sources hear of, one a batch and source.
    """

    _kept = ("is_open", "first_open", "ends")

    def __init__(self, settings: c.ControllerSettings) -> None:
        super().__init__(settings)
        self._lag = int(settings.values["lag"])
        self.is_open = True  # a batch is being emitted
        self.first_open = 0  # the frontier, as it was last seen
        self.ends: list[int] = []  # when the batches from there on ended, the one emitted not yet

    def observe(self, job: c.JobObservation) -> list[c.Command]:
        """End a batch that has lasted its time; begin the next one if it may."""
        if job.now_us >= self.look_us:
            if self.is_open:
                self.is_open = False
                self.ends.append(job.now_us)
            self._advance(job)
            if may_begin(self.first_open + len(self.ends), self.first_open, self._lag) == 1:
                self.is_open = True
            self.look_us = job.now_us + (self._interval_us if self.is_open else self._round_us)
        return [c.GO if self.is_open else c.STOP] * len(job.sources)

    def _advance(self, job: c.JobObservation) -> None:
        """Move the frontier past the batches of which nothing is under way."""
        steps = frontier(self.first_open, self.ends, job.oldest_us) - self.first_open
        self.ends = self.ends[steps:]
        self.first_open += steps
        for _ in range(steps):
            for source in job.sources:
                self._tell("step", source)


CONTROLLER = FrontierLag
