"""What is in a channel besides bytes and counts: the stamps of its records, its marks.

Both ends of a channel see the same :class:`ChannelElements` where a run has all subtasks in memory.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple


class Mark(NamedTuple):
    """A watermark or a status in a channel.

    Attributes
    ----------
    before : int
        Records of the channel before it, since the start of the run.
    kind : int
        ACTIVE, WATERMARK or IDLE.
    watermark : int
        Of WATERMARK: ms; else 0.
    """

    before: int
    kind: int
    watermark: int


@dataclass
class ChannelElements:
    """The records of a channel that its receiver has not taken up, and the marks between them.

    Attributes
    ----------
    stamps : deque of int
        Stamps of the records, oldest first.
    marks : deque of Mark
        The marks, oldest first.
    taken : int
        Records that its receiver has taken up.
    passed : list of (int, int), optional
        What has left the channel, as of :meth:`in_flight`; None: nobody asks for it again.
    first : (int, int)
        Records and marks that had left it before.
    """

    stamps: deque[int] = field(default_factory=deque)
    marks: deque[Mark] = field(default_factory=deque)
    taken: int = 0
    passed: list[tuple[int, int]] | None = None
    first: tuple[int, int] = (0, 0)

    def add_records(self, stamp: int, count: int) -> None:
        """Have records of one stamp enter the channel."""
        self.stamps.extend([stamp] * count)

    def add_mark(self, kind: int, watermark: int) -> None:
        """Have a mark enter behind them."""
        self.marks.append(Mark(self.taken + len(self.stamps), kind, watermark))

    def stamps_of(self, first: int, count: int) -> list[int]:
        """Return the stamps of records by number, of such as are not taken up."""
        return list(islice(self.stamps, first - self.taken, first - self.taken + count))

    def take(self, count: int) -> None:
        """Have the receiver take up records, oldest first."""
        for _ in range(count):
            stamp = self.stamps.popleft()
            if self.passed is not None:
                self.passed.append((0, stamp))
        self.taken += count

    def pass_on(self) -> None:
        """Forget what is in it: another process has it."""
        self.taken += len(self.stamps)
        self.stamps.clear()
        self.marks.clear()

    def take_mark(self) -> None:
        """Have the receiver take the oldest mark."""
        mark = self.marks.popleft()
        if self.passed is not None:
            self.passed.append((mark.kind, mark.watermark))

    def between(self, taken: tuple[int, int], put: tuple[int, int]) -> list[tuple[int, int]]:
        """Return what was in the channel between two cuts, as of :meth:`in_flight`.

        Parameters
        ----------
        taken, put : (int, int)
            Records and marks that had left it by the receiver's cut, and entered it by the
            sender's.
        """
        every = [*(self.passed or ()), *self.in_flight()]
        start = sum(taken) - sum(self.first)
        return every[start : start + max(0, sum(put) - sum(taken))]

    def begin_with(self, taken: tuple[int, int], elements: Iterable[tuple[int, int]]) -> None:
        """Have a fresh channel begin with what was in flight behind so many records and marks."""
        self.first, self.taken = taken, taken[0]
        for kind, value in elements:
            if kind == 0:
                self.stamps.append(value)
            else:
                self.add_mark(kind, value)

    def in_flight(self) -> tuple[tuple[int, int], ...]:
        """Return what is in the channel, in order: pairs of kind and value.

        0 and the stamp of a record, or a mark's kind and watermark.
        """
        found, number, marks = list[tuple[int, int]](), self.taken, deque(self.marks)
        for stamp in (*self.stamps, None):
            while marks and marks[0].before == number:
                mark = marks.popleft()
                found.append((mark.kind, mark.watermark))
            if stamp is not None:
                found.append((0, stamp))
                number += 1
        return tuple(found)
