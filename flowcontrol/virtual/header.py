"""The head of the kernel's memory: what holds for the whole run, and where the blocks begin.

The memory is one flat array of 64-bit integers. Its head is a :class:`KernelMemory`; behind it
stand the blocks of :mod:`flowcontrol.virtual.fields`, rows of one class each. Times are
microseconds unless a name says otherwise, rounds are counted from 0, sizes of pools and queues are
buffers.
"""

from dataclasses import dataclass

from flowcontrol.protocol.motions import Constant, Level, Round, Scratch, Total

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

    round_us: Constant = 0
    """Length of a round, microseconds."""
    round: Round = 0
    """Next round to run."""
    rounds: Constant = 0
    """Rounds of the whole run."""
    latency: Constant = 0
    """Rounds a message or a credit travels between two task managers."""
    segment_bytes: Constant = 0
    """Bytes of a segment."""
    quota: Constant = 0
    """``max-buffers-per-channel``; UNLIMITED: none."""
    flush_us: Constant = 0
    """Interval of the flushers; 0: every round; -1: never."""
    seed: Constant = 0
    """Of all random numbers."""
    tasks: Constant = 0
    """How many there are, connections and disks among them."""
    gates: Constant = 0
    """How many there are."""
    partitions: Constant = 0
    """How many there are."""
    channels: Constant = 0
    """How many there are."""
    served: Level = 0
    """Connections to be served in this round, listed behind the active tasks."""
    tasks_at: Constant = 0
    """Where the tasks begin, connections and disks behind the subtasks."""
    gates_at: Constant = 0
    """Where the gates begin."""
    partitions_at: Constant = 0
    """Where the partitions begin."""
    inputs_at: Constant = 0
    """Where the channels begin, the receiver's side."""
    outputs_at: Constant = 0
    """Where the channels begin, the sender's side."""
    parts: Constant = 0
    """Parts of the kernel that the job needs (:mod:`.parts`)."""
    wheel: Constant = 0
    """Where the slots of the wheel of wake-ups begin."""
    wheel_bits: Constant = 0
    """Where the set of the slots that are not empty begins."""
    active: Constant = 0
    """Where the tasks of this round are listed, and behind them what is served."""
    runs: Constant = 0
    """Where the runs of records in flight begin."""
    runs_most: Constant = 0
    """How many there may be."""
    runs_free: Scratch = -1
    """First run that is free again, linked by ``Run.next``; -1: none."""
    runs_used: Scratch = 0
    """Runs that have ever been used, the first ones; the others are memory that nobody touches."""
    ages: Constant = 0
    """Where the log of ages begins."""
    ages_most: Constant = 0
    """How many entries it may have."""
    ages_count: Scratch = 0
    """How many it has."""
    flags: Level = 0
    """What went wrong, or has to be seen to: the FLAG_ values, a sum."""
    transfers: Total = 0
    """Messages sent."""
    arrived: Total = 0
    """Records taken up by sinks."""
    debloat_us: Constant = 0
    """Period of the debloaters; 0: off."""
    is_tracked: Constant = 0
    """1: follow the age of records."""
    drops_ages: Constant = 0
    """1: runs of records are kept for their stamps, and nobody wants their ages."""
    now: Round = 0
    """Round being run."""
    debloat_target_us: Constant = 0
    """``taskmanager.network.memory.buffer-debloat.target``."""
    debloat_samples: Constant = 0
    """``taskmanager.network.memory.buffer-debloat.samples``."""
    debloat_threshold: Constant = 0
    """``taskmanager.network.memory.buffer-debloat.threshold-percentages``."""
    min_segment_bytes: Constant = 0
    """Bytes that debloating leaves at least."""
    latency_ns: Constant = 0
    """One way, nanoseconds, not rounded."""
    counts_records: Constant = 0
    """1: the transport counts records, not buffers."""
    values: Constant = 0
    """Where the parameters of a transport that counts records are."""
    grants: Total = 0
    """Grants that receivers have sent."""
    is_watched: Level = 0
    """1: stop as soon as nothing that was emitted is unfinished."""
    is_empty: Level = 0
    """1: nothing was unfinished when the rounds were last stopped."""
    is_tcp: Constant = 0
    """1: no credits, but connections as Flink up to 1.4 had them."""
    spills: Constant = 0
    """Where the buffers of spilling partitions begin."""
    spills_most: Constant = 0
    """How many there may be."""
    spills_free: Level = 0
    """First one that is free, linked by ``next``."""
    is_shared: Constant = 0
    """1: jobs start and stop, and the pools of a task manager share its global pool."""
    shared_at: Constant = 0
    """Where the rows of the global pools then are, one a task manager."""
    has_readers: Constant = 0
    """1: there are sources that read logs."""
    has_checkpoints: Constant = 0
    """1: the job has checkpoints."""
    has_looks: Constant = 0
    """1: some of its sinks say when they write."""
    may_fail: Constant = 0
    """1: tasks may fail and restart, and be not deployed for a while."""
    reports: Constant = 0
    """Where the log is of what tasks have reported to the coordinator."""
    reports_most: Constant = 0
    """How many entries it may have."""
    reports_count: Level = 0
    """How many it has."""
    reports_wanted: Level = 0
    """Stop after a round that leaves more entries than this in it."""
    orders: Constant = 0
    """Where the orders of the coordinator to tasks are, before the first round that is run next."""
    orders_most: Constant = 0
    """How many there may be."""
    orders_count: Level = 0
    """How many there are."""
    asides: Constant = 0
    """Where the entries begin of what is put aside behind barriers."""
    asides_most: Constant = 0
    """How many there may be."""
    results: Constant = 0
    """Where the log of the results of windows begins."""
    results_most: Constant = 0
    """How many entries it may have."""
    results_count: Level = 0
    """How many it has."""
    further: Constant = 0
    """Columns that a window aggregates beside the first, at most: for so many there is room behind
    each result, and behind each window in a log."""
    kept: Constant = 0
    """Where the log begins of what checkpoints hold in flight, of a job with event time."""
    kept_most: Constant = 0
    """How many entries it may have."""
    kept_count: Level = 0
    """How many it has."""
    kept_windows: Constant = 0
    """Where the log begins of the windows that checkpoints hold."""
    kept_windows_most: Constant = 0
    """How many entries it may have."""
    kept_windows_count: Level = 0
    """How many it has."""
    has_processors: Constant = 0
    """1: what tasks use of the processors of their task managers is followed."""
    managers: Constant = 0
    """Task managers with processors."""
    managers_at: Constant = 0
    """Where these are."""
    asides_free: Constant = 0
    """Where it is noted which are free."""

    def __getitem__(self, place: int) -> int:
        """Return a cell; on the memory itself, which the object of this class is not."""
        raise NotImplementedError

    def __setitem__(self, place: int, value: int) -> None:
        """Change a cell."""
        raise NotImplementedError
