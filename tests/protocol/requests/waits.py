"""An operator that calls a service, driven by times and values of records; its results are known.

A record's result is twice its value, unless a test says otherwise; a watermark is ``"W"`` and its
number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from flowcontrol.protocol.requests import async_wait
from flowcontrol.protocol.requests.entries import new_entry
from flowcontrol.state.async_wait import Element, Wait, WaitQueue, WaitSettings
from flowcontrol.state.requests import (
    NEVER,
    NONE,
    Entry,
    Request,
    Requests,
    SinkWriter,
    WriterSettings,
)

Latency = Callable[[int, int], int]
"""Given a value and how many calls of it there were before, how long a call takes, or NEVER."""


def settings(capacity: int = 100, ordered: bool = True, **changes: int) -> WaitSettings:
    """Return settings with changes: no timeout, no retries."""
    return replace(WaitSettings(capacity=capacity, is_ordered=int(ordered)), **changes)


def fixed(retries: int, delay: int) -> dict[str, int]:
    """Return the settings of a fixed delay."""
    return {"retries": retries, "delay": delay, "longest_delay": delay}


def exponential(retries: int, delay: int, most: int, multiplier: int) -> dict[str, int]:
    """Return the settings of an exponential one."""
    own = {"delay": delay, "longest_delay": most, "multiplier": 1000 * multiplier}
    return {"retries": retries, **own}


OK: Final = async_wait.ANSWERED


@dataclass
class Operator:
    """An operator, its service, and what it did.

    - ``latency``: how long a call takes.
    - ``outcome``: given likewise, ANSWERED, FAILED or EMPTY.
    - ``has_room``: whether the outputs have room.
    """

    settings: WaitSettings
    latency: Latency = lambda value, calls: NEVER
    outcome: Callable[[int, int], int] = lambda value, calls: OK
    cached: Callable[[int], bool] = lambda value: False
    has_room: bool = True
    has_input: bool = False
    now: int = 0
    values: list[int | str] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)  # When, and of which value
    out: list[int | str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)  # When each of these left
    numbers: list[int] = field(default_factory=list)  # Which of the values each is
    timed_out: Callable[[int], int] = lambda value: 2 * value  # Result of one that times out

    def __post_init__(self) -> None:
        count = self.settings.capacity + 2
        entries, slots = [Entry() for _ in range(count)], list[Request]()
        requests = Requests(WriterSettings(), SinkWriter(), entries, slots)
        elements = [Element() for _ in range(count)]
        self.state = Wait(self.settings, WaitQueue(), elements, requests)

    # ---- what a worker does

    def finds(self, wait: Wait, element: Element) -> int:
        """Say whether a cache has the record."""
        return int(self.cached(self.value_of(element)))

    def submit(self, requests: Requests, call: Request, now: int) -> None:
        """Say when the answer comes, and what it is."""
        entry = requests.entries[call.entries.head - 1]
        value = int(self.values[entry.first])
        before = sum(one == value for _, one in self.calls)
        self.calls.append((now, value))
        entry.fails = self.outcome(value, before)
        latency = self.latency(value, before)
        call.due = NEVER if latency == NEVER else now + latency

    def may_emit(self) -> int:
        """Say whether the outputs have room, and whether a record waits that may be taken up."""
        return self.has_room * (1 + self.has_input)

    def emit(self, wait: Wait, element: Element) -> None:
        """Note what leaves the queue."""
        number = self.number_of(element)
        self.numbers.append(number)
        if element.is_mark:
            self.out.append(self.values[number])
        elif element.outcome == async_wait.TIMED_OUT and self.settings.fails == 0:
            self.out.append(self.timed_out(int(self.values[number])))
        elif element.outcome == async_wait.ANSWERED:
            self.out.append(2 * int(self.values[number]))
        else:
            return
        self.times.append(self.now)

    def number_of(self, element: Element) -> int:
        """Return which of the values an element is."""
        if element.is_mark == 1:
            return element.mark
        return self.state.requests.entries[element.call.entries.head - 1].first

    def value_of(self, element: Element) -> int:
        """Return the value of a record."""
        return int(self.values[self.number_of(element)])

    # ---- what a task does

    def put(self, *values: int | str) -> Operator:
        """Put records and watermarks in, one by one, at the present time; wait for room if need be.

        One that waits while nothing is due is the last.
        """
        for value in values:
            self.values.append(value)
            self.put_again(len(self.values) - 1)
        return self

    def put_again(self, number: int) -> None:
        """Put one of the values in, as a restored one is."""
        self.until_free()
        if isinstance(self.values[number], str):
            async_wait.put_mark(self, self.state, number, self.now)
        else:
            place = new_entry(self.state.requests, number, 1, 4, self.now)
            async_wait.put_record(self, self.state, place, self.now)
        self.run()

    def run(self) -> None:
        """Run the mails that are due."""
        async_wait.run_mails(self, self.state, self.now)

    def is_free(self) -> bool:
        """Whether the task may take the next element."""
        return async_wait.is_free(self.state) == 1

    def until(self, now: int) -> Operator:
        """Let time pass up to a moment, all that is due then included."""
        writer = self.state.requests.writer
        while writer.next_at != NEVER and writer.next_at <= now and self.has_room:
            self.now = max(self.now, writer.next_at)
            self.run()
        self.now = max(self.now, now)
        return self

    def until_free(self) -> Operator:
        """Let time pass until the task goes on."""
        while not self.is_free():
            assert self.state.requests.writer.next_at != NEVER, "it waits for ever"
            self.until(self.state.requests.writer.next_at)
        return self

    def answer(self, *values: int) -> list[int | str]:
        """Have calls answered now, one behind the other; return what is emitted then."""
        before = len(self.out)
        for value in values:
            for place in self.places():
                element = self.state.elements[place - 1]
                if element.is_mark == 0 and self.value_of(element) == value and element.is_called:
                    element.call.due = self.now
            self.state.requests.writer.next_at = self.now
            self.run()
        return self.out[before:]

    def end(self) -> Operator:
        """Have the input end, and wait for all that is in the queue."""
        async_wait.begin_end(self, self.state, self.now)
        self.run()
        return self.until_free()

    # ---- what it holds

    def places(self) -> list[int]:
        """Return the places of the elements in the queue, in order."""
        found, place = [], self.state.queue.head
        while place != NONE:
            found.append(place)
            place = self.state.elements[place - 1].next
        assert self.state.queue.size == len(found)
        complete = sum(self.state.elements[place - 1].completed > 0 for place in found)
        assert self.state.queue.complete == complete
        return found

    def snapshot(self) -> list[int | str]:
        """Return what a checkpoint holds: all in the queue, complete or not."""
        return [self.values[number] for number in self.held()]

    def held(self) -> list[int]:
        """Return which of the values are in the queue."""
        return [self.number_of(self.state.elements[place - 1]) for place in self.places()]
