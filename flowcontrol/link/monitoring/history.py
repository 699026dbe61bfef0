"""Follow a link's two tables: every member's newest commits, and when rows were written.

Delta's log holds the cursors and the time of each commit, so following costs one small text per
commit; the file with the rows is read only when they are needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from flowcontrol.ledger.link_index import FileEntry
from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.ledger.link_log import LinkLog
from flowcontrol.ledger.log import Add
from flowcontrol.ledger.storage import Storage

Key = tuple[int, int]
"""Number of the sender, channel."""

Amounts = dict[Key, tuple[int, int]]
"""Rows and bytes of each channel."""

COMMITTED_AT = "committed_at"

COLUMNS = [
    "batch_id", "sender", "receiver", "written", "released", "pool_used", "pool_size", "rows",
    "bytes", COMMITTED_AT, "channel_state", "task_state",
]  # fmt: skip
"""What is read of a commit's rows."""


@dataclass
class Step:
    """One commit of a member, and how long it was the newest."""

    number: int  # Of the commit, from 0
    at: float  # When it was made, Unix time, seconds
    state: dict[str, Any]  # What the other side waits for: the cursors
    path: str  # The file with its rows
    end: float | None = None  # When the next commit was made; None for the newest
    # Whether the next commit was made by another start: a batch that was running was killed.
    is_cut: bool = False
    # Of a source batch: the batch before, or the start of the sender. None if not known.
    begin: float | None = None
    rows: list[dict[str, Any]] | None = None  # Its rows, once they were read

    @cached_property
    def amounts(self) -> Amounts:
        """Rows and bytes of its micro-batch; only once the rows were read."""
        return {
            (row["sender"], row["receiver"]): (row["rows"], row["bytes"])
            for row in self.rows or ()
            if row["rows"]
        }

    @property
    def is_busy(self) -> bool:
        """Whether it is a micro-batch with rows; only once the rows were read."""
        return bool(self.amounts)


@dataclass
class _Marks:
    """Where a sender's next source batch begins: its last batch or start, if that is known."""

    since: float = 0.0
    epoch: int = -1
    is_known: bool = False
    new: list[Step] = field(default_factory=list)


class LedgerHistory(LinkLedgerView):
    """What has been committed to a link's ledger lately.

    - ``window_s``: how far back packed commits are read at the start, seconds.
    - ``steps``: by application id: the newest commits, oldest first.
    - ``last_batches``: by application id: the newest micro-batch that is no longer among the steps.
    """

    def __init__(self, storage: Storage, window_s: float) -> None:
        super().__init__(storage)
        self.window_s = window_s
        self.steps: dict[str, list[Step]] = {}
        self.last_batches: dict[str, Step] = {}
        self._marks: dict[str, _Marks] = {}

    def refresh(self, *, at_once: bool = False) -> bool:
        """Read the commits since the last time, and keep their steps; whether there were any."""
        seen = super().refresh(at_once=at_once)
        for member, marks in self._marks.items():
            new = sorted(marks.new, key=lambda step: step.number)
            if new and member not in self.steps:
                new = self._packed_before(member, new[0], new[-1].at - self.window_s) + new
            for step in new:
                self._append(member, marks, step)
            marks.new = []
        return seen

    def _packed_before(self, member: str, first: Step, since: float) -> list[Step]:
        """Return the commits before the first that is not packed, back to a time."""
        found: list[Step] = []
        levels = self._files[member].items()
        packed = sorted((file for level, files in levels if level for file in files), reverse=True)
        for _, high, path in packed:
            oldest = found[0] if found else first
            if oldest.at <= since or high != oldest.number - 1:
                break
            found = self._unpack(path) + found
        return found

    def _unpack(self, path: str) -> list[Step]:
        """Return the commits of a packed file; none if it has just been packed further."""
        by_number: dict[int, list[dict[str, Any]]] = {}
        for row in self._read_file(path):
            by_number.setdefault(row["batch_id"], []).append(row)
        return [_step_of(number, path, rows) for number, rows in sorted(by_number.items())]

    def _note(self, version: int, add: Add) -> None:
        super()._note(version, add)
        member = add.stats["member"]
        if not member.startswith(("sender/", "receiver/")):  # settings that were altered
            return
        for number, _, path in self._files[member].get(0, ()):
            if path == add.path:  # a packed file holds commits that have been seen
                step = Step(number, add.added_ms / 1000, add.stats["state"], path)
                self._marks.setdefault(member, _Marks()).new.append(step)

    def _append(self, member: str, marks: _Marks, step: Step) -> None:
        steps = self.steps.setdefault(member, [])
        if steps and step.number <= steps[-1].number:
            return
        epoch = step.state["epoch"]
        if steps:
            steps[-1].end, steps[-1].is_cut = step.at, steps[-1].state["epoch"] != epoch
        if epoch != marks.epoch:
            marks.since, marks.is_known = step.at, bool(steps) or step.number == 0
        if steps and _written(step) > _written(steps[-1]):
            step.begin = marks.since if marks.is_known else None
            marks.since, marks.is_known = step.at, True
        marks.epoch = epoch
        steps.append(step)

    def forget(self, since: float) -> None:
        """Drop the commits that were the newest only before a time; the last batch is kept."""
        for member, steps in self.steps.items():
            old = [step for step in steps if step.end is not None and step.end < since]
            self._keep_batch(member, old)
            del steps[: len(old)]

    def _keep_batch(self, member: str, steps: Sequence[Step]) -> None:
        is_sender = member.startswith("sender/")
        for step in reversed(steps):
            if step.is_cut or (is_sender and step.begin is None):
                continue
            self.read(member, step)
            if step.is_busy:
                self.last_batches[member] = step
                return

    def read(self, member: str, step: Step) -> list[dict[str, Any]]:
        """Return the rows of a commit; none if they were packed at this moment."""
        if step.rows is None:
            step.rows = []
            for path in (step.path, *self._packed(member, step.number)):
                rows = self._read_file(path)
                step.rows = [row for row in rows if row["batch_id"] == step.number]
                if step.rows:
                    break
        return step.rows

    def _read_file(self, path: str) -> list[dict[str, Any]]:
        """Return the rows of a file; none if it was packed away after it was noted."""
        try:
            table = self.read_file(path).select(COLUMNS)
        except FileNotFoundError:
            return []
        # As a number: for a timestamp pyarrow would load pandas.
        at = table.column(COMMITTED_AT).cast(pa.int64())
        place = table.column_names.index(COMMITTED_AT)
        rows: list[dict[str, Any]] = table.set_column(place, COMMITTED_AT, at).to_pylist()
        return rows

    def _packed(self, member: str, number: int) -> list[str]:
        """Return the packed files that may hold a commit."""
        levels = self._files.get(member, {})
        return [
            path
            for level, files in levels.items()
            for low, high, path in files
            if level and low <= number <= high
        ]


def _written(step: Step) -> int:
    """Return the messages that a sender has written; of a receiver 0."""
    return sum(written or 0 for written in step.state.get("written", ()))


def _step_of(number: int, path: str, rows: list[dict[str, Any]]) -> Step:
    """Return a commit from its rows: the cursors that a sender's log has, and the epoch."""
    tasks = [json.loads(row["task_state"]) for row in rows if row["task_state"]]
    state: dict[str, Any] = {"epoch": tasks[0]["epoch"] if tasks else -1}
    state |= {name: [row[name] for row in rows] for name in ("written", "released")}
    return Step(number, rows[0][COMMITTED_AT] / 1e6, state, path, rows=rows)


class TimedLog(LinkLog):
    """An exchange log that knows when its files were written."""

    def _forget(self) -> None:
        super()._forget()
        self._added: dict[str, float] = {}

    def _note(self, add: Add, entry: FileEntry) -> None:
        super()._note(add, entry)
        self._added[add.path] = add.added_ms / 1000

    def refresh(self, *, at_once: bool = False) -> bool:
        """Read the commits since the last refresh; whether there were any."""
        seen = super().refresh(at_once=at_once)
        self._added = {path: at for path, at in self._added.items() if path in self.files}
        return seen

    def written_at(self, sender: int, channel: int, number: int) -> float | None:
        """Return when a message was written, Unix time, seconds; None if it is not there."""
        log = self.channel(sender, channel)
        if not log.first <= number < log.end:
            return None
        return min(
            (self._added[e.path] for e in log.message(number).extents if e.path in self._added),
            default=None,
        )


# --- The recent micro-batches of a member, and its rates and shares of time.
#
# The window is the last seconds. A micro-batch may be longer than that, so what counts is every
# batch that ended within the window, or else the newest one that ended.


class Batches:
    """The recent micro-batches of one member.

    - ``now``: Unix time, seconds.
    - ``window_s``: length of the window before it, seconds.
    - ``newest``: the member's newest commit.
    - ``running``: a receiver's batch that has not ended.
    """

    def __init__(self, ledger: LedgerHistory, member: str, now: float, window_s: float) -> None:
        steps = ledger.steps[member]
        self.now, self.newest = now, steps[-1]
        # Of a start that was not seen, at least the commits are known.
        self._started = ledger.starts.get(member, (0, 0.0))[1]
        self._since = max(now - window_s, steps[0].at)
        self.running: Step | None = None
        last = ledger.last_batches.get(member)
        ended = [] if last is None else [last]
        is_sender = member.startswith("sender/")
        for step in steps:
            if is_sender and step.begin is None:
                continue
            ledger.read(member, step)
            if step.is_busy and (is_sender or (step.end is not None and not step.is_cut)):
                ended.append(step)
            elif step.is_busy and step.end is None:
                self.running = step
        times = [_time(step) for step in ended]
        old = len(ended) - recent(times, now - window_s)
        self._times = times[old:]
        self._totals = _sum(ended[old:])
        self._spread_s = spread_time(self._times, now, window_s)
        self._busy_s = sum(end - start for start, end in self._times)

    def rows_per_s(self, key: Key) -> float:
        """Return rows of a channel per second."""
        return self._totals.get(key, (0, 0))[0] / self._spread_s if self._spread_s else 0.0

    def bytes_per_s(self, key: Key) -> float:
        """Return bytes of a channel per second."""
        return self._totals.get(key, (0, 0))[1] / self._spread_s if self._spread_s else 0.0

    def busy_rate(self, key: Key) -> float | None:
        """Return the bytes of a channel per second while a batch runs; None if not known."""
        running = None
        if self.running is not None:
            running = self.running.amounts.get(key, (0, 0))[1], self.now - self._began
        return busy_rate(self._totals.get(key, (0, 0))[1], self._busy_s, running)

    @property
    def batch_s(self) -> float | None:
        """How long the last batches took on average; None as long as none has ended."""
        return mean_length(self._times)

    @property
    def running_s(self) -> float | None:
        """How long the batch that runs has taken; None if none runs."""
        return None if self.running is None else max(0.0, self.now - self._began)

    @property
    def busy_ratio(self) -> float:
        """Share of the window for which a batch ran."""
        running = [] if self.running is None else [(self._began, self.now)]
        return share([*self._times, *running], self._since, self.now)

    @property
    def silent_s(self) -> float:
        """Time since the last commit, or since a start after it."""
        return max(0.0, self.now - self._began)

    @property
    def _began(self) -> float:
        """When the newest commit was made; a start after it begins its batch again."""
        return max(self.newest.at, self._started)


def _time(step: Step) -> Time:
    """Return from when to when a batch ran: a sender's ends with its commit."""
    if step.begin is not None:
        return step.begin, step.at
    return step.at, step.at if step.end is None else step.end


def _sum(steps: Sequence[Step]) -> Amounts:
    found: Amounts = {}
    for step in steps:
        for key, (rows, nbytes) in step.amounts.items():
            before = found.get(key, (0, 0))
            found[key] = before[0] + rows, before[1] + nbytes
    return found


def waiting_share(
    steps: Sequence[Step], since: float, now: float, channel: int | None = None
) -> float:
    """Return the share of the time for which messages of a sender waited for a buffer.

    - ``since``, ``now``: the window, Unix time, seconds.
    - ``channel``: of this channel; by default of any.
    """
    intervals = [
        (step.at, now if step.end is None else step.end)
        for step in steps
        if _is_waiting(step, channel)
    ]
    return share(intervals, max(since, steps[0].at), now)


def _is_waiting(step: Step, channel: int | None) -> bool:
    released, written = step.state["released"], step.state["written"]
    if channel is not None:
        # The link may have got more channels since.
        return channel < len(written) and bool(released[channel] < written[channel])
    return bool(released != written)


Time = tuple[float, float]
"""From when to when, Unix time, seconds."""

PATIENCE = 3.0
"""Usual times of a batch after which a side that is silent counts as having stopped."""


def recent(times: Sequence[Time], since: float) -> int:
    """Return how many of the last batches count: those that ended after ``since``, or one.

    ``times``: of batches that have ended, in order.
    """
    count = sum(end > since for _, end in times)
    return count or min(1, len(times))


def mean_length(times: Sequence[Time]) -> float | None:
    """Return how long a batch takes on average, s; None without any."""
    if not times:
        return None
    return sum(end - start for start, end in times) / len(times)


def spread_time(times: Sequence[Time], now: float, window_s: float) -> float:
    """Return the time over which recent batches moved their rows, idle time counted.

    ``times``: of the recent batches, in order.

    Returns the seconds from the start of the first to the end of the last. The time since then
    counts as far as it is longer than a batch usually takes: only then the next one is late. 0 if
    there are none, or none for longer than the window and three batches: nothing moves.
    """
    usual = mean_length(times)
    if usual is None:
        return 0.0
    silent = now - times[-1][1]
    if silent > max(window_s, PATIENCE * usual):
        return 0.0
    return times[-1][1] - times[0][0] + max(0.0, silent - usual)


def busy_rate(
    amount: float, length_s: float, running: tuple[float, float] | None = None
) -> float | None:
    """Return what is moved per second while a batch runs.

    ``running``: the same of the batch that runs, so far. If it takes longer than the others let
    expect it lowers the rate, as if it ended now.

    Returns None until a batch has ended.
    """
    if length_s <= 0:
        return None
    found = amount / length_s
    if running is not None:
        found = min(found, (amount + running[0]) / (length_s + max(0.0, running[1])))
    return found


def share(intervals: Iterable[Time], since: float, now: float) -> float:
    """Return the share of the time from ``since`` to ``now`` that intervals cover, 0 to 1."""
    if now <= since:
        return 0.0
    covered = sum(max(0.0, min(end, now) - max(start, since)) for start, end in intervals)
    return min(1.0, covered / (now - since))
