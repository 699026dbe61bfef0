"""A peer of the virtual clock: source -> middle -> sink as SimPy models it, one event at a time.

A process per task and per connection, a :class:`simpy.Store` per buffer pool: a full store blocks
whoever puts, as a full pool blocks its task. What moves is a buffer, not a record. The lean form
leaves out the connection and has one store an edge, as large as both of its pools; it is the
least that can be called the same job, and the quickest form found.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import simpy

Steps = Generator[simpy.Event, Any, None]


class Chain:
    """The job: three tasks, two edges.

    Parameters
    ----------
    rates : tuple of float, buffers/s
        What the source emits at most, what the middle and the sink process at most.
    pool, gate : int, buffers
        Of the sender and of the receiver of each edge.
    is_lean : bool
        One store an edge and no process for its connection.

    Attributes
    ----------
    transfers : int
        Buffers that went from a task to the next one.
    """

    def __init__(
        self, rates: tuple[float, float, float], pool: int, gate: int, is_lean: bool
    ) -> None:
        self.env = simpy.Environment()
        self.transfers = 0
        source, middle, sink = (1 / rate for rate in rates)
        connect = self._share if is_lean else self._connect
        outbox, inbox = connect(pool, gate)
        self.env.process(self._source(source, outbox))
        outbox, last = connect(pool, gate)
        self.env.process(self._middle(middle, inbox, outbox))
        self.env.process(self._sink(sink, last))

    def _share(self, pool: int, gate: int) -> tuple[simpy.Store, simpy.Store]:
        store = simpy.Store(self.env, pool + gate)
        return store, store

    def _connect(self, pool: int, gate: int) -> tuple[simpy.Store, simpy.Store]:
        outbox, inbox = simpy.Store(self.env, pool), simpy.Store(self.env, gate)
        self.env.process(self._connection(outbox, inbox))
        return outbox, inbox

    def _connection(self, outbox: simpy.Store, inbox: simpy.Store) -> Steps:
        while True:
            buffer = yield outbox.get()
            yield inbox.put(buffer)

    def _source(self, seconds: float, outbox: simpy.Store) -> Steps:
        number = 0
        while True:
            yield self.env.timeout(seconds)
            yield outbox.put(number)
            self.transfers += 1
            number += 1

    def _middle(self, seconds: float, inbox: simpy.Store, outbox: simpy.Store) -> Steps:
        while True:
            buffer = yield inbox.get()
            yield self.env.timeout(seconds)
            yield outbox.put(buffer)
            self.transfers += 1

    def _sink(self, seconds: float, inbox: simpy.Store) -> Steps:
        while True:
            yield inbox.get()
            yield self.env.timeout(seconds)


def run(
    duration_s: float,
    *,
    rates: tuple[float, float, float],
    pool: int,
    gate: int,
    is_lean: bool = False,
) -> tuple[int, float]:
    """Run the chain for so much emulated time.

    Returns
    -------
    transfers : int
        Buffers that went over the two edges.
    seconds : float
        What that took.
    """
    chain = Chain(rates, pool, gate, is_lean)
    began = time.perf_counter()
    chain.env.run(until=duration_s)
    return chain.transfers, time.perf_counter() - began
