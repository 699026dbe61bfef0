"""All orders of the steps of a few processes that share tables, up to those that come to the same.

A step is a look at a table's log or a commit to one. Steps of two processes commute if they are of
different tables or both only look; of orders that differ by such swaps one is run (sleep sets).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.log import DeltaLog


class Step(NamedTuple):
    """What a process does next."""

    table: str
    is_commit: bool

    def commutes(self, other: Step) -> bool:
        return self.table != other.table or not (self.is_commit or other.is_commit)


class Stopped(BaseException):
    """This order need not be run to its end."""


class Process(threading.Thread):
    """Runs a function, and waits before each of its steps."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.work, self.next, self.failure = work, None, None
        self._go, self._arrived = threading.Semaphore(0), threading.Semaphore(0)
        self._is_over = False

    def run(self) -> None:
        try:
            self.work()
        except Stopped:
            pass
        except BaseException as error:
            self.failure = error
        self.next = None
        self._arrived.release()

    def pause(self, step: Step) -> None:
        """Called by the process itself."""
        self.next = step
        self._arrived.release()
        self._go.acquire()
        if self._is_over:
            raise Stopped

    def advance(self) -> None:
        """Let it do its next step, up to the one after."""
        self._go.release()
        self._arrived.acquire()

    def begin(self) -> None:
        self.start()
        self._arrived.acquire()

    def end(self) -> None:
        self._is_over = True
        self._go.release()
        self.join()


def planted(patch: pytest.MonkeyPatch) -> None:
    """Have processes wait before they look at a table or commit to one."""
    poll, commit = DeltaLog.poll, Writer.commit

    def pause(path: object, *, is_commit: bool) -> None:
        process = threading.current_thread()
        if isinstance(process, Process):
            process.pause(Step(str(path).rpartition("/")[2], is_commit))

    def looking(log: DeltaLog) -> Iterator[Any]:
        pause(log.path, is_commit=False)
        return iter(list(poll(log)))

    def committing(writer: Writer, *arguments: Any, **named: Any) -> bool:
        pause(writer.path, is_commit=True)
        return commit(writer, *arguments, **named)

    patch.setattr(DeltaLog, "poll", looking)
    patch.setattr(Writer, "commit", committing)


def explore(
    begin: Callable[[], Mapping[str, Callable[[], None]]],
    check: Callable[[str], None],
    most: int,
    seed: int,
) -> int:
    """Run all orders of some processes; return how many were run.

    Parameters
    ----------
    begin : callable
        Makes what the processes share anew; returns their functions by name.
    check : callable
        Given the order, fails if what the processes left must not be.
    most : int
        Orders at most.
    seed : int
        Of the choice which order is run next.
    """
    choice = random.Random(seed)
    todo: list[tuple[tuple[str, ...], frozenset[str]]] = [((), frozenset())]
    count = 0
    while todo and count < most:
        prefix, asleep = todo.pop(choice.randrange(len(todo)))
        processes = {name: Process(work) for name, work in begin().items()}
        for process in processes.values():
            process.begin()
        order = []
        for name in prefix:
            processes[name].advance()
            order.append(name)
        while True:
            steps = {n: p.next for n, p in processes.items() if p.next is not None}
            awake = [name for name in steps if name not in asleep]
            if not awake:
                break
            seen = set(asleep)
            for name in awake:
                sleeping = frozenset(z for z in seen if steps[z].commutes(steps[name]))
                if name == awake[0]:
                    mine = sleeping
                else:
                    todo.append(((*order, name), sleeping))
                seen.add(name)
            asleep = mine
            processes[awake[0]].advance()
            order.append(awake[0])
        is_whole = not any(process.next for process in processes.values())
        for process in processes.values():
            process.end()
        text = " ".join(order)
        for name, process in processes.items():
            assert process.failure is None, f"{name} after {text}: {process.failure!r}"
        if is_whole:
            count += 1
            check(text)
    return count
