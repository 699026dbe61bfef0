"""The work that a task may do in a round."""


class RoundWork:
    """The work that a task may do in a round, units.

    - ``start``, ``end``: what its rate allows by the start and by the end of the round.
    - ``until``: what it may do by the end: less if it waits for a processor, or its manager
      uploads.
    - ``stall``: when the standstill of a RELAY ends that the round falls into, microseconds; or
      NEVER.
    """

    def __init__(self, start: int, until: int, end: int, stall: int) -> None:
        self.start, self.until, self.end, self.stall = start, until, end, stall


def round_work(start: int, until: int, end: int, stall: int) -> RoundWork:
    """Return the work that a task may do in a round."""
    return RoundWork(start, until, end, stall)
