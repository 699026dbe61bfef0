"""How large the kernel's logs are, how they grow when a run fills them, and where that ends."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from flowcontrol.errors import RunError
from flowcontrol.layout.graph import JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import NO_KEYS, RowKeys
from flowcontrol.layout.task_settings import LOOKS, is_timed, look_rounds
from flowcontrol.memory import fields as f
from flowcontrol.memory import places as h
from flowcontrol.memory.links import disks_of
from flowcontrol.memory.part_fields import KeptElement, KeptWindow, KernelResult, SpilledBuffer
from flowcontrol.memory.task_memory import first_entries, puts_aside
from flowcontrol.state.declared import width
from flowcontrol.state.network import CheckpointReport
from flowcontrol.state.windows import ColumnValues, WindowEntry
from flowcontrol.systems.barrier_buffer import AsideMessage

LEAST_RUNS, MOST_RUNS = 1 << 10, 1 << 21
"""Runs of records to begin with; those that nothing enters are memory that nobody touches."""
RUNS_A_CHANNEL = 8
"""Of a job of many channels: each has a run a round, and is looked at again a few rounds later."""
FIRST_AGES = 1 << 15
FIRST_KEPT = 1 << 13
FIRST_SPILLS = FIRST_ASIDES = FIRST_RESULTS = 1 << 12
LEAST_REPORTS = 1 << 6
PROCESS_RUNS, PROCESS_KEPT, PROCESS_RESULTS = 1 << 18, 1 << 16, 1 << 16
PROCESS_SPILLS = 1 << 17
"""Of a process that runs some stages: a round takes no more."""
GROWTH: Final = 8
"""By how much a log is larger after it was full; the run begins again, which is exact."""

MOST_BYTES: Final = 1 << 30
"""Most memory of one log, bytes; while a run begins it is there twice. A job that needs more keeps
ever more in flight, and would end with the machine's memory."""


class _Log(NamedTuple):
    """A log: what an entry is, the flag of a full one, what it holds, what makes it smaller.

    ``has_further``: each has room for the columns that a window aggregates beside the first.
    """

    entry: type[Any]
    flag: int
    content: str
    advice: str
    has_further: bool = False

    def most(self, further: int) -> int:
        """Return how many entries it may have, with so many such columns."""
        cells = width(self.entry) + (further * width(ColumnValues) if self.has_further else 0)
        return MOST_BYTES // (8 * cells)


_LOGS: Final = {
    "runs": _Log(
        f.Run,
        h.FLAG_RUNS,
        "records in flight, kept as runs that their source emitted in one round",
        "lower emit_rate, bound the queues (another system), or state a longer round_ms or a "
        "shorter duration_s",
    ),
    "ages": _Log(
        f.Age,
        h.FLAG_AGES,
        "ages of the records that sinks took up in one round",
        "state a shorter round_ms, or fewer subtasks",
    ),
    "spills": _Log(
        SpilledBuffer,
        h.FLAG_SPILLS,
        "buffers of spilling partitions that are finished and not consumed",
        "state larger buffers (taskmanager.memory.segment-size), a lower emit_rate or a shorter "
        "duration_s",
    ),
    "reports": _Log(
        CheckpointReport,
        h.FLAG_LOST_REPORT,
        "reports of tasks on checkpoints in one round",
        "state a shorter round_ms, or fewer subtasks",
    ),
    "asides": _Log(
        AsideMessage,
        h.FLAG_ASIDE,
        "buffers put aside behind barriers",
        "state task.checkpoint.alignment.max-size, larger buffers "
        "(taskmanager.memory.segment-size) or a shorter execution.checkpointing.timeout",
    ),
    "windows": _Log(
        WindowEntry,
        h.FLAG_WINDOWS,
        "windows of a subtask that are open",
        "state fewer keys, less allowed_lateness_s or delay_s, a larger slide_s or more subtasks",
        has_further=True,
    ),
    "results": _Log(
        KernelResult,
        h.FLAG_RESULTS,
        "results of windows in one round",
        "state a shorter round_ms, or fewer keys",
        has_further=True,
    ),
    "kept": _Log(
        KeptElement,
        h.FLAG_KEPT,
        "records and watermarks in flight at a checkpoint",
        "state smaller buffers or fewer of them, or checkpoints that no barrier overtakes "
        "(execution.checkpointing.unaligned.enabled)",
    ),
    "kept_windows": _Log(
        KeptWindow,
        h.FLAG_KEPT_WINDOWS,
        "windows that tasks hold as they take a checkpoint in one round",
        "state fewer keys, less allowed_lateness_s or delay_s, a larger slide_s or fewer subtasks",
        has_further=True,
    ),
}
"""Every log, by the attribute of :class:`LogSizes` that has its size."""

LOGS_OF_HEAD: Final = tuple(name for name in _LOGS if name != "windows")
"""Those of which the head of the memory has the size: one for all tasks."""


@dataclass(frozen=True)
class LogSizes:
    """Entries of the logs."""

    runs: int  # Runs of records that may be in flight
    ages: int  # Ages that sinks may log before they are counted
    spills: int = 0  # Buffers of spilling partitions that may be finished; 0 where none spills
    # Reports of tasks on checkpoints before they are looked at; 0 where there are none.
    reports: int = 0
    asides: int = 0  # Buffers that may be put aside behind barriers; 0 where none is
    windows: int = 0  # Windows that each subtask has room for; 0 where no stage has any
    results: int = 0  # Results of windows that may be put out before the log is emptied; 0 likewise
    # Records and watermarks that checkpoints may hold in flight before the log is emptied; 0 of a
    # job that has no event time or does not fail.
    kept: int = 0
    kept_windows: int = 0  # Windows that checkpoints may hold likewise
    further: int = 0  # Columns that a window aggregates beside the first, at most; does not grow

    @classmethod
    def first(cls, job: Job, rows: RowKeys = NO_KEYS) -> LogSizes:
        """Return what a run begins with: most never fill it; replayed rows may bring keys."""
        may_restore = is_timed(job) and job.faults is not None and job.checkpoints is not None
        windows = first_entries(job, rows)
        together = windows * sum(_has_window(job, plan) for plan, _ in job.subtasks)
        return cls(
            _first_runs(job),
            FIRST_AGES,
            FIRST_SPILLS if disks_of(job) else 0,
            0 if job.checkpoints is None else _first_reports(job),
            FIRST_ASIDES if puts_aside(job) else 0,
            windows,
            max(FIRST_RESULTS, together) if windows > 0 else 0,
            FIRST_KEPT if may_restore else 0,
            max(FIRST_KEPT, together) if may_restore and windows > 0 else 0,
            rows.further,
        )

    @classmethod
    def of_processes(cls, job: Job, rows: RowKeys = NO_KEYS) -> LogSizes:
        """Return what each of the processes has that run a job stage by stage.

        They cannot begin anew with more, and need not: what nobody writes to takes no memory.
        """
        first = cls.first(job, rows)
        return replace(
            first,
            runs=max(first.runs, PROCESS_RUNS),
            spills=first.spills and max(first.spills, PROCESS_SPILLS),
            windows=GROWTH * first.windows,
            results=first.results and max(first.results, PROCESS_RESULTS),
            kept=first.kept and max(first.kept, PROCESS_KEPT),
            kept_windows=GROWTH * first.kept_windows,
        )

    def grown(self, flags: int, reached_s: float, duration_s: float) -> LogSizes:
        """Return larger logs.

        Raises RunError if one is as large as it may be.
        """
        sizes = asdict(self)
        for name, log in _LOGS.items():
            if flags & log.flag:
                count, most = sizes[name], log.most(self.further)
                if count >= most:
                    raise RunError(
                        f"the run holds more than {count:,} {log.content}, at {reached_s:g} s of "
                        f"{duration_s:g} s: more than the {MOST_BYTES / (1 << 30):g} GiB that one "
                        f"log may take; {log.advice}"
                    )
                sizes[name] = min(most, GROWTH * count)
        return LogSizes(**sizes)


def _has_window(job: Job, plan: JobVertex) -> bool:
    return job.scenario.window_of(plan.name) is not None


def _first_reports(job: Job) -> int:
    """Reports to begin with: as many as tasks make of four checkpoints, and sinks between them."""
    tasks = len(job.subtasks)
    looked_at = sum(plan.stage.parallelism for plan in job.stages if look_rounds(job, plan))
    return LEAST_REPORTS + 4 * (tasks + LOOKS * looked_at)


def _first_runs(job: Job) -> int:
    """Runs of records to begin with: as many as records fit into all buffers, within limits."""
    sizes, most = job.sizes, 0
    for link in job.links:
        each = job.scenario.options.segment_bytes // link.record_bytes + 1
        buffers = sum(
            size.size + size.overdraft
            for (edge, _), size in sizes.partitions.items()
            if edge == link.name
        )
        gates = [size for (edge, _), size in sizes.gates.items() if edge == link.name]
        buffers += sum(size.floating for size in gates)
        buffers += link.width * max((size.exclusive for size in gates), default=0)
        most += buffers * each
    channels = sum(link.width for link in job.links)
    limit = min(max(MOST_RUNS, RUNS_A_CHANNEL * channels), _LOGS["runs"].most(0))
    return min(limit, max(LEAST_RUNS, most))
