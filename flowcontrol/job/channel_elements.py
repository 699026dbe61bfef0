"""What is in a channel besides bytes and counts: the stamps of its records, its marks.

Both ends of a channel see the same :class:`ChannelElements` where a run has all subtasks in memory.
"""

from collections import deque
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
    """

    stamps: deque[int] = field(default_factory=deque)
    marks: deque[Mark] = field(default_factory=deque)
    taken: int = 0

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
            self.stamps.popleft()
        self.taken += count

    def pass_on(self) -> None:
        """Forget what is in it: another process has it."""
        self.taken += len(self.stamps)
        self.stamps.clear()
        self.marks.clear()

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
