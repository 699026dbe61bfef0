"""What tasks publish after a round, for the other tasks and to go on from."""

from __future__ import annotations

from dataclasses import dataclass, field

Cells = list[int]
"""Places and values by turns, of what is not as it was before the first round."""
Runs = list[list[int]]
"""Records in flight, oldest first: round of emission, count, stamp and kind of each run."""

COUNTED = "arrived", "grants", "transfers"
"""Counts of the memory's head, of all tasks together."""


@dataclass
class InputShare:
    """A channel at its receiver, after a round.

    Attributes
    ----------
    cells : list of int
        Its row.
    queues : list of int
        Cells of its queues: what it has received, and what was under way to it.
    runs : list of list of int
        The records in it when the round began, as far as they were not taken up.
    told : list of list of int
        What it has told its sender in the round: kind, value and round of arrival of each.
    has_news : bool
        Its sender is to look at it, where that sees its counts at once.
    """

    cells: Cells
    queues: Cells = field(default_factory=list)
    runs: Runs = field(default_factory=list)
    told: list[list[int]] = field(default_factory=list)
    has_news: bool = False


@dataclass
class OutputShare:
    """A channel at its sender, after a round.

    Attributes
    ----------
    cells : list of int
        Its row.
    queues : list of int
        Cells of its queues: buffers that are not sent, and credit under way to it.
    messages : list of list of int
        What was sent in the round: the fields of each ``KernelMessage``.
    runs : list of list of int
        The records that were written in the round.
    """

    cells: Cells
    queues: Cells = field(default_factory=list)
    messages: list[list[int]] = field(default_factory=list)
    runs: Runs = field(default_factory=list)


@dataclass
class TaskShare:
    """A task after a round.

    Attributes
    ----------
    cells : list of int
        What belongs to it, its gates and its partitions, but to none of their channels.
    wake : int
        Round in which it is looked at next; -1: in none.
    inputs, outputs : dict of int to InputShare, and to OutputShare
        Its channels, by their numbers at this side.
    runs : list of list of int
        When the records fell due that wait in the log of a throttled source.
    cuts : list of list of int
        Of each checkpoint that it has taken in the round: its id, and the cells that it keeps.
    """

    cells: Cells
    wake: int
    inputs: dict[int, InputShare]
    outputs: dict[int, OutputShare]
    runs: Runs = field(default_factory=list)
    cuts: list[list[int]] = field(default_factory=list)


@dataclass
class Machines:
    """Connections and processors before a round, which serve the tasks behind it.

    Attributes
    ----------
    cells : list of int
        What belongs to them.
    wakes : list of list of int
        Those that are to be looked at, and in which round.
    """

    cells: Cells = field(default_factory=list)
    wakes: list[list[int]] = field(default_factory=list)


@dataclass
class Shares:
    """What tasks have published after a round.

    Attributes
    ----------
    tasks : dict of int to TaskShare
        By task.
    ages : list of list of int
        Entries of the log of ages.
    results : list of list of int
        Of the log of the results of windows.
    reports : list of list of int
        What they have reported to the coordinator.
    counted : list of int
        What the round has added to the memory's counts (:data:`COUNTED`).
    queued : list of int
        Channels that they have put into the queues of connections, by their numbers at the sender.
    served : list of int
        Connections that they have had served.
    machines : Machines
        What tasks share, as it was before the round; the same wherever they run.
    """

    tasks: dict[int, TaskShare] = field(default_factory=dict)
    ages: list[list[int]] = field(default_factory=list)
    results: list[list[int]] = field(default_factory=list)
    reports: list[list[int]] = field(default_factory=list)
    counted: list[int] = field(default_factory=lambda: [0] * len(COUNTED))
    queued: list[int] = field(default_factory=list)
    served: list[int] = field(default_factory=list)
    machines: Machines = field(default_factory=Machines)

    def add(self, others: Shares) -> None:
        """Add what other tasks have published after the same round."""
        self.tasks |= others.tasks
        self.ages += others.ages
        self.results += others.results
        self.reports += others.reports
        self.counted = [a + b for a, b in zip(self.counted, others.counted, strict=True)]
        self.queued += others.queued
        self.served += others.served
        self.machines = others.machines
