"""A sink writer with a destination of its own, driven by times and values of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from flowcontrol.protocol.requests import writers
from flowcontrol.protocol.requests.blocking import start_interval
from flowcontrol.protocol.requests.destination import WHOLE
from flowcontrol.protocol.requests.entries import new_entry, split_entry
from flowcontrol.state.requests import (
    NEVER,
    NONE,
    Batch,
    BatchQueue,
    Bucket,
    Entry,
    EntryList,
    Request,
    Requests,
    SinkWriter,
    WriterSettings,
)


def bucket(rate: int, most: int) -> Bucket:
    """Return a full bucket: tokens a second, and the most that it holds."""
    return Bucket(rate * 1000, most * WHOLE, most * WHOLE)


SMALL, LARGE = 4, 100
"""Bytes of a record up to 200, and of one above, which Flink's test sink fails once."""


def settings(**changes: int) -> WriterSettings:
    """Return those of Flink's tests, with changes: no timer, one request of 10 records or 110 B."""
    plain = WriterSettings(batch=10, batch_bytes=110, in_flight=1, buffered=100, buffer_time=1000)
    found = replace(plain, **changes)
    return replace(found, threshold=changes.get("threshold", found.batch * found.in_flight))


@dataclass
class Sink:
    """A writer, its destination, and what it did.

    ``fails``: given the values of a request, those of them that fail.
    """

    settings: WriterSettings
    latency: int = 0
    window: int | None = None  # At first; by default the threshold
    fails: Callable[[list[int]], Iterable[int]] = lambda values: ()
    size: Callable[[int], int] = lambda value: SMALL if value <= 200 else LARGE
    bucket: Bucket = field(default_factory=Bucket)
    capacity: int = 2_000
    now: int = 0
    stored: list[int] = field(default_factory=list)
    sent: list[tuple[int, list[int]]] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        window = self.settings.threshold if self.window is None else self.window
        self.state = Requests(
            self.settings,
            SinkWriter(window=window, bucket=self.bucket),
            [Entry() for _ in range(self.capacity)],
            [Request() for _ in range(self.settings.in_flight)],
            [Batch() for _ in range(self.settings.memory // self.settings.batch_bytes)],
            [BatchQueue() for _ in range(self.settings.partitions)],
        )
        start_interval(self.settings, self.writer, 0)

    @property
    def writer(self) -> SinkWriter:
        """The writer's state."""
        return self.state.writer

    def sent_at(self) -> list[tuple[int, int]]:
        """Return when each request was sent, and of how many records."""
        return [(at, len(values)) for at, values in self.sent]

    # ---- what a worker does

    def submit(self, requests: Requests, request: Request, now: int) -> None:
        """Store what does not fail, mark what does, and say when the answer comes."""
        values = self.held(request.entries)
        failing = set(self.fails(values))
        self.sent.append((now, values))
        self.windows.append(self.writer.window)
        self.stored += [value for value in values if value not in failing]
        request.due = now + self.latency
        self._mark(request.entries, failing)

    def acknowledge(self, entry: Entry, due: int, heard: int) -> None:
        """Note which records were acknowledged."""
        assert due <= heard or heard == NEVER
        self.acknowledged += range(entry.first, entry.first + entry.count * (heard != NEVER))

    def _mark(self, entries: EntryList, failing: set[int]) -> None:
        place = entries.head
        while place != NONE:
            entry = self.state.entries[place - 1]
            if entry.count > 1:
                split_entry(self.state, place, 1)
                if entries.tail == place:
                    entries.tail = entry.next
            entry.fails = int(self.values[entry.first] in failing)
            place = entry.next

    # ---- what a task does

    def may_write(self) -> bool:
        """Whether the task may take the next record."""
        return writers.is_free(self.state) == 1

    def write(self, *values: int) -> Sink:
        """Write records one by one at the present time; one that waits is the last."""
        for value in values:
            assert self.may_write(), f"{value}: the task waits at {self.now}"
            self.values.append(value)
            place = new_entry(self.state, len(self.values) - 1, 1, self.size(value), self.now)
            writers.write(self, self.state, place, self.now)
            writers.end_write(self, self.state, self.now)
            writers.run_mails(self, self.state, self.now)
        return self

    def fill(self) -> int:
        """Write records until the task waits; return how many it took, with the one in hand."""
        count = 0
        while self.may_write():
            self.write(len(self.values))
            count += 1
        return count

    def until(self, now: int) -> Sink:
        """Let time pass up to a moment, all that is due then included."""
        while self.writer.next_at != NEVER and self.writer.next_at <= now:
            self.now = max(self.now, self.writer.next_at)
            writers.run_mails(self, self.state, self.now)
        self.now = now
        return self

    def flush(self) -> Sink:
        """Begin a checkpoint."""
        if writers.begin_flush(self, self.state, self.now) == 0:
            writers.run_mails(self, self.state, self.now)
        return self

    def end(self) -> Sink:
        """Begin the end of the input."""
        writers.begin_end(self, self.state, self.now)
        writers.run_mails(self, self.state, self.now)
        return self

    def until_free(self) -> int:
        """Let time pass until the task goes on; return when."""
        while not self.may_write():
            assert self.writer.next_at != NEVER, "it waits for ever"
            self.now = max(self.now, self.writer.next_at)
            writers.run_mails(self, self.state, self.now)
        return self.now

    # ---- what it holds

    def held(self, entries: EntryList) -> list[int]:
        """Return the values of records in a list."""
        found, place = [], entries.head
        while place != NONE:
            entry = self.state.entries[place - 1]
            found += self.values[entry.first : entry.first + entry.count]
            place = entry.next
        assert entries.records == len(found)
        assert entries.nbytes == sum(map(self.size, found))
        return found

    @property
    def buffer(self) -> list[int]:
        """The values in the buffer."""
        return self.held(self.writer.buffer)

    @property
    def sizes(self) -> list[int]:
        """Records of each request."""
        return [len(values) for _, values in self.sent]


def once(*values: int, above: int | None = None) -> Callable[[list[int]], list[int]]:
    """Return a destination where some values fail the first time: these, or those above one."""
    seen: set[int] = set()

    def fails(given: list[int]) -> list[int]:
        bad = [
            v for v in given if v not in seen and (v in values or (above is not None and v > above))
        ]
        seen.update(bad)
        return bad

    return fails


class FailingSink(RuleBasedStateMachine):
    """Writes, lets time pass, takes checkpoints; records fail, up to three times each.

    Whoever extends it calls :meth:`start` with settings, and says what holds.
    """

    def start(self, own: WriterSettings, latency: int) -> None:
        """Begin with some settings."""
        self.failing: Counter[int] = Counter()
        self.sink = Sink(own, latency=latency, fails=self.fails, capacity=400)

    def fails(self, values: list[int]) -> list[int]:
        """Have those fail that are to, as often as they are to."""
        bad = [value for value in values if self.failing[value] > 0]
        self.failing.subtract(bad)
        return bad

    @precondition(lambda self: self.sink.may_write())
    @rule(large=st.booleans(), fails=st.integers(0, 3))
    def write(self, large: bool, fails: int) -> None:
        """Write a record of 4 or of 100 bytes, which may fail some times."""
        value = len(self.sink.values) * 1000 + (201 if large else 1)
        self.failing[value] = fails
        self.sink.write(value)

    @rule(after=st.integers(1, 40))
    def wait(self, after: int) -> None:
        """Let time pass."""
        self.sink.until(self.sink.now + after)

    @rule(latency=st.integers(1, 60))
    def change(self, latency: int) -> None:
        """Have the destination answer more quickly, or more slowly."""
        self.sink.latency = latency

    @precondition(lambda self: self.sink.may_write())
    @rule()
    def checkpoint(self) -> None:
        """Take a checkpoint: when it is over all is acknowledged, if it flushes."""
        self.sink.flush().until_free()
        if self.sink.settings.flushes == 1:
            assert sorted(self.sink.acknowledged) == list(range(len(self.sink.values)))

    def teardown(self) -> None:
        """Whatever has happened, the end of the input has all acknowledged."""
        if not hasattr(self, "sink"):
            return
        self.sink.until_free()
        self.sink.end().until_free()
        assert sorted(self.sink.acknowledged) == list(range(len(self.sink.values)))
        assert self.sink.writer.next_at == NEVER
        assert self.sink.writer.memory == 0
        for name in ("failed", "exhausted"):
            event(f"{name}: {getattr(self.sink.writer, name) > 0}")
