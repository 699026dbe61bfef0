"""The head of the kernel's memory, where things stand in it, and who gives out its cells."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy import typing as npt

from flowcontrol.layout.graph import JobEdge
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import LinkKeys, Replayed
from flowcontrol.layout.task_settings import link_keys
from flowcontrol.memory.cells import LINE, cells_of, slot_cells
from flowcontrol.memory.part_fields import pointers
from flowcontrol.state.declared import cell, viewed, width
from flowcontrol.state.network import Ring
from flowcontrol.state.queues import FIRST_SPAN

# --- The head of the kernel's memory: what holds for the whole run, and where the blocks begin.
#
# The memory is one flat array of 64-bit integers. Its head is a KernelMemory; behind it stand
# the blocks of flowcontrol.memory.fields, rows of one class each. Times are microseconds
# unless a name says otherwise, rounds are counted from 0, sizes of pools and queues are
# buffers.


FLAG_PROTOCOL = 1
"""A message without a buffer."""
FLAG_RUNS = 2
"""No run free."""
FLAG_AGES = 4
"""The log of ages is full."""
FLAG_DRAIN = 8
"""The log of ages is half full and has to be emptied: not an error."""
FLAG_EMPTY = 16
"""Nothing is unfinished, and somebody waits for that: not an error."""
FLAG_SPILLS = 32
"""No buffer of a spilling partition free."""
FLAG_PARTS = 64
"""The kernel lacks a part that was needed."""
FLAG_REPORTS = 128
"""The log of reports has to be looked at: not an error."""
FLAG_LOST_REPORT = 256
"""The log of reports is full."""
FLAG_ASIDE = 512
"""No entry free for what is put aside behind a barrier."""
FLAG_WINDOWS = 1024
"""No room for the windows of a record."""
FLAG_RESULTS = 2048
"""The log of the results of windows is full."""
FLAG_KEPT = 4096
"""The log of what checkpoints hold in flight is full."""
FLAG_KEPT_WINDOWS = 8192
"""The log of the windows that checkpoints hold is full."""


@dataclass(slots=True)
class KernelMemory:
    """The memory: its head by name, and any cell by its place (``memory[place]``)."""

    round_us: int = 0
    """Length of a round, microseconds."""
    round: int = 0
    """Next round to run."""
    rounds: int = 0
    """Rounds of the whole run."""
    latency: int = 0
    """Rounds a message or a credit travels between two task managers."""
    segment_bytes: int = 0
    """Bytes of a segment."""
    quota: int = 0
    """``max-buffers-per-channel``; UNLIMITED: none."""
    flush_us: int = 0
    """Interval of the flushers; 0: every round; -1: never."""
    seed: int = 0
    """Of all random numbers."""
    tasks: int = 0
    """How many there are, connections and disks among them."""
    gates: int = 0
    """How many there are."""
    partitions: int = 0
    """How many there are."""
    channels: int = 0
    """How many there are."""
    served: int = 0
    """Connections to be served in this round, listed behind the active tasks."""
    tasks_at: int = 0
    """Where the tasks begin, connections and disks behind the subtasks."""
    gates_at: int = 0
    """Where the gates begin."""
    partitions_at: int = 0
    """Where the partitions begin."""
    inputs_at: int = 0
    """Where the channels begin, the receiver's side."""
    outputs_at: int = 0
    """Where the channels begin, the sender's side."""
    parts: int = 0
    """Parts of the kernel that the job needs (:mod:`.parts`)."""
    wheel: int = 0
    """Where the slots of the wheel of wake-ups begin."""
    wheel_bits: int = 0
    """Where the set of the slots that are not empty begins."""
    active: int = 0
    """Where the tasks of this round are listed, and behind them what is served."""
    runs: int = 0
    """Where the runs of records in flight begin."""
    runs_most: int = 0
    """How many there may be."""
    runs_free: int = -1
    """First run that is free again, linked by ``Run.next``; -1: none."""
    runs_used: int = 0
    """Runs that have ever been used, the first ones; the others are memory that nobody touches."""
    ages: int = 0
    """Where the log of ages begins."""
    ages_most: int = 0
    """How many entries it may have."""
    ages_count: int = 0
    """How many it has."""
    flags: int = 0
    """What went wrong, or has to be seen to: the FLAG_ values, a sum."""
    transfers: int = 0
    """Messages sent."""
    arrived: int = 0
    """Records taken up by sinks."""
    debloat_us: int = 0
    """Period of the debloaters; 0: off."""
    is_tracked: int = 0
    """1: follow the age of records."""
    drops_ages: int = 0
    """1: runs of records are kept for their stamps, and nobody wants their ages."""
    now: int = 0
    """Round being run."""
    debloat_target_us: int = 0
    """``taskmanager.network.memory.buffer-debloat.target``."""
    debloat_samples: int = 0
    """``taskmanager.network.memory.buffer-debloat.samples``."""
    debloat_threshold: int = 0
    """``taskmanager.network.memory.buffer-debloat.threshold-percentages``."""
    min_segment_bytes: int = 0
    """Bytes that debloating leaves at least."""
    latency_ns: int = 0
    """One way, nanoseconds, not rounded."""
    counts_records: int = 0
    """1: the transport counts records, not buffers."""
    values: int = 0
    """Where the parameters of a transport that counts records are."""
    grants: int = 0
    """Grants that receivers have sent."""
    is_watched: int = 0
    """1: stop as soon as nothing that was emitted is unfinished."""
    is_empty: int = 0
    """1: nothing was unfinished when the rounds were last stopped."""
    is_tcp: int = 0
    """1: no credits, but connections as Flink up to 1.4 had them."""
    spills: int = 0
    """Where the buffers of spilling partitions begin."""
    spills_most: int = 0
    """How many there may be."""
    spills_free: int = 0
    """First one that is free, linked by ``next``."""
    is_shared: int = 0
    """1: jobs start and stop, and the pools of a task manager share its global pool."""
    is_ordered: int = 0
    """1: tasks, and what serves them, take their turns of a round in the order of their numbers, as
    they share connections or pools."""
    shared_at: int = 0
    """Where the rows of the global pools then are, one a task manager."""
    has_readers: int = 0
    """1: there are sources that read logs."""
    has_checkpoints: int = 0
    """1: the job has checkpoints."""
    has_looks: int = 0
    """1: some of its sinks say when they write."""
    may_fail: int = 0
    """1: tasks may fail and restart, and be not deployed for a while."""
    reports: int = 0
    """Where the log is of what tasks have reported to the coordinator."""
    reports_most: int = 0
    """How many entries it may have."""
    reports_count: int = 0
    """How many it has."""
    reports_wanted: int = 0
    """Stop after a round that leaves more entries than this in it."""
    orders: int = 0
    """Where the orders of the coordinator to tasks are, before the first round that is run next."""
    orders_most: int = 0
    """How many there may be."""
    orders_count: int = 0
    """How many there are."""
    asides: int = 0
    """Where the entries begin of what is put aside behind barriers."""
    asides_most: int = 0
    """How many there may be."""
    results: int = 0
    """Where the log of the results of windows begins."""
    results_most: int = 0
    """How many entries it may have."""
    results_count: int = 0
    """How many it has."""
    further: int = 0
    """Columns that a window aggregates beside the first, at most: for so many there is room behind
    each result, and behind each window in a log."""
    kept: int = 0
    """Where the log begins of what checkpoints hold in flight, of a job with event time."""
    kept_most: int = 0
    """How many entries it may have."""
    kept_count: int = 0
    """How many it has."""
    kept_windows: int = 0
    """Where the log begins of the windows that checkpoints hold."""
    kept_windows_most: int = 0
    """How many entries it may have."""
    kept_windows_count: int = 0
    """How many it has."""
    has_processors: int = 0
    """1: what tasks use of the processors of their task managers is followed."""
    managers: int = 0
    """Task managers with processors."""
    managers_at: int = 0
    """Where these are."""
    asides_free: int = 0
    """Where it is noted which are free."""

    def __getitem__(self, place: int) -> int:
        """Return a cell; on the memory itself, which the object of this class is not."""
        raise NotImplementedError

    def __setitem__(self, place: int, value: int) -> None:
        """Change a cell."""
        raise NotImplementedError


# --- Where things stand in the kernel's memory, and who gives out its cells


Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Which number an edge's gate, partition or channel has in the memory."""

    tasks: dict[str, int] = field(default_factory=dict)  # First task of each stage
    # By edge and subtask.
    gates: dict[tuple[str, int], int] = field(default_factory=dict)
    partitions: dict[tuple[str, int], int] = field(default_factory=dict)
    # Number at the sender and at the receiver of each channel of an edge, in its order (shape
    # (channels of the edge,)).
    outs: dict[str, Ints] = field(default_factory=dict)
    ins: dict[str, Ints] = field(default_factory=dict)
    # By stage and subtask, of sinks that are chained behind the first stage of their task.
    sinks: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass
class Builder:
    """A memory that is being filled: gives out cells, and remembers what is to stand in them."""

    job: Job  # The scenario, laid out
    head: KernelMemory  # The memory's head
    replayed: Replayed  # What is known of replayed rows
    places: Places = field(default_factory=Places)  # Numbers of everything
    # Blocks of the memory, by the field of the head that says where each begins.
    blocks: dict[str, Any] = field(default_factory=dict)
    used: int = width(KernelMemory)  # Cells given out
    # What is to stand in some of them, and where.
    tables: list[tuple[int, Ints]] = field(default_factory=list)
    in_place: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """The memory itself, if it is so large that its blocks are filled in place."""
    rooms: int = 0
    """Cells of rooms for rings, which stand behind all else."""
    _rings: list[tuple[Any, Ints]] = field(default_factory=list)
    _once: dict[int, tuple[Ints, int]] = field(default_factory=dict)
    _keys: dict[str, LinkKeys | None] = field(default_factory=dict)

    def take(self, cells: int) -> int:
        """Return where so many cells begin that are nobody else's."""
        first = self.used
        self.used += int(cells)
        return first

    def rings(
        self, at: str, owner: type[Any], name: str, numbers: Ints, cls: type[Any], most: int
    ) -> None:
        """Give the rings of some channels their places, each with room for so many states.

        - ``at``: the field of the head that says where the block of the channels begins.
        - ``numbers`` (shape (rings,)): the rows.
        """
        rings, slots = self.blocks[at][name], slot_cells(cls) * min(most, FIRST_SPAN)
        here = getattr(self.head, at) + width(owner) * numbers + cell(owner, name)
        counted = np.arange(len(numbers))
        self.used += -self.used % LINE
        rings["place"][numbers] = self.take(slots * len(numbers)) + slots * counted - here
        if most <= FIRST_SPAN:
            rings["room"][numbers] = rings["place"][numbers]
            return
        each = slot_cells(cls) * (most | 1)  # even ones would share few sets of the cache
        rings["room"][numbers] = self.rooms + each * counted - here
        self.rooms += each * len(numbers)
        self._rings.append((rings["room"], numbers))

    def all_cells(self) -> int:
        """Return how many cells there are; the rooms of rings begin behind those given out."""
        self.used += -self.used % LINE
        for room, numbers in self._rings:
            room[numbers] += self.used
        self._rings.clear()
        return self.used + self.rooms

    def lay(self, state: Any, *names: str) -> None:
        """Make room for what fields of a state point to; states stand there as they begin."""
        for name in names:
            pointer = pointers(viewed(state))[name]
            first, cls = self.take(pointer.cells(state)), pointer.cls
            if cls is not None and pointer.form == "rows" and (begun := cells_of(cls())).any():
                self.tables.append((first, np.tile(begun, pointer.count(state, pointer.room))))
            setattr(state, name, first)

    def put(self, values: Ints) -> int:
        """Return where cells with these values begin."""
        first = self.take(len(values))
        self.tables.append((first, values))
        return first

    def put_once(self, values: Ints) -> int:
        """Return where cells with these values begin; an array that was put here is not again."""
        if id(values) not in self._once:
            self._once[id(values)] = values, self.put(values)
        return self._once[id(values)][1]

    def keys_of(self, link: JobEdge) -> LinkKeys | None:
        """Return the keys of the records of an edge; None unless it leads to windows."""
        if link.name not in self._keys:
            self._keys[link.name] = link_keys(self.job, link, self.replayed.keys)
        return self._keys[link.name]

    def queues(self, count: int, cls: type[Any], most: int) -> Ints:
        """Return where ``count`` empty queues begin, of at most so many states of a class."""
        cells = width(Ring) + width(cls) * most
        return self.take(count * cells) + cells * np.arange(count)
