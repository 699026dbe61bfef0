"""The head of the kernel's memory: what holds for the whole run, and where the blocks begin.

The memory is one flat array of 64-bit integers. Its head is a :class:`KernelMemory`; behind it
stand the blocks of :mod:`flowcontrol.virtual.fields`, rows of one class each. Times are
microseconds unless a name says otherwise, rounds are counted from 0, sizes of pools and queues are
buffers.
"""

from dataclasses import dataclass

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
