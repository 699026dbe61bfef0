"""What queueing theory says, in closed form or as the exact solution of a Markov chain.

Rates in records/s, times in s. ``waiting`` is the number of records that wait and are not being
served, ``delay`` the time that one waits before its service begins. Sources: Kleinrock, Queueing
Systems I (1975): M/M/1 section 3.2, M/M/1/K 3.6, Pollaczek-Khinchine 5.7; Jackson (1957) for
queues in tandem; Perros, Queueing Networks with Blocking (1994), for blocking before service.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import TypeVar

import numpy as np

T_995 = {4: 4.6041, 7: 3.4995, 9: 3.2498, 11: 3.1058, 14: 2.9768, 15: 2.9467, 19: 2.8609}
"""Quantile 0.995 of Student's t by degrees of freedom: two-sided 99 %."""


@dataclass(frozen=True)
class Queue:
    """Means of one queue in its steady state.

    Attributes
    ----------
    waiting : float, records
        Mean number that wait.
    delay : float, s
        Mean time that one which is let in waits.
    throughput : float, records/s
        Of those let in.
    loss : float
        Share of the arrivals that find no room and are lost.
    busy : float
        Share of the time in which the server works.
    """

    waiting: float
    delay: float
    throughput: float
    loss: float
    busy: float


def mg1(arrival: float, service: float, cv: float) -> Queue:
    """M/G/1 by Pollaczek and Khinchine; cv is the coefficient of variation of a service time."""
    load = arrival / service
    waiting = load**2 * (1 + cv**2) / (2 * (1 - load))
    return Queue(waiting, waiting / arrival, arrival, 0.0, load)


def mm1(arrival: float, service: float) -> Queue:
    """M/M/1: exponential service times."""
    return mg1(arrival, service, 1.0)


def md1(arrival: float, service: float) -> Queue:
    """M/D/1: constant service times."""
    return mg1(arrival, service, 0.0)


def mm1k(arrival: float, service: float, places: int) -> Queue:
    """M/M/1/K: no more than ``places`` records, the one being served included.

    An arrival that finds all places taken is lost; by PASTA that is the share of time in which
    they are.
    """
    load = arrival / service
    weights = [load**n for n in range(places + 1)]
    share = [weight / sum(weights) for weight in weights]
    waiting = sum((n - 1) * p for n, p in enumerate(share) if n > 0)
    throughput = arrival * (1 - share[-1])
    return Queue(waiting, waiting / throughput, throughput, share[-1], 1 - share[0])


def saturated_tandem(first: float, second: float, room: int) -> Queue:
    """Two exponential servers, the first always with work, ``room`` records between them.

    Blocking before service: the first one begins only when there is room for what it will write.
    With n records between and in the second, it works in the states n = 0 .. room and stands
    still in n = room + 1: births at rate ``first``, deaths at rate ``second``, the chain of
    M/M/1/K with K = room + 1. ``loss`` is the share of time in which the first is blocked.
    """
    return mm1k(first, second, room + 1)


@dataclass(frozen=True)
class Tandem:
    """Means of two queues in a row in their steady state.

    Attributes
    ----------
    first, second : float, records
        Mean numbers that wait for each server.
    throughput : float, records/s
        Of the whole.
    loss : float
        Share of the arrivals lost for want of room before the first.
    blocked : float
        Share of the time in which there is no room behind the first, so that it cannot begin.
    """

    first: float
    second: float
    throughput: float
    loss: float
    blocked: float


Node = TypeVar("Node", bound=Hashable)
State = tuple[int, int, int, int]  # waiting, served, waiting, served


def blocking_tandem(arrival: float, first: float, second: float, rooms: tuple[int, int]) -> Tandem:
    """Poisson arrivals, two exponential servers, so much room to wait before each.

    An arrival without room is lost; the first blocks before service. Solved as a Markov chain.
    """
    share = steady_state(lambda state: _moves(state, arrival, first, second, rooms), (0, 0, 0, 0))
    full = sum(p for s, p in share.items() if s[0] == rooms[0])
    return Tandem(
        first=sum(s[0] * p for s, p in share.items()),
        second=sum(s[2] * p for s, p in share.items()),
        throughput=second * sum(s[3] * p for s, p in share.items()),
        loss=full,
        blocked=sum(p for s, p in share.items() if s[2] == rooms[1]),
    )


def _moves(
    state: State, arrival: float, first: float, second: float, rooms: tuple[int, int]
) -> Iterator[tuple[State, float]]:
    """Yield where a state goes, and at what rate."""
    w1, s1, w2, s2 = state
    if w1 < rooms[0]:
        yield _begin((w1 + 1, s1, w2, s2), rooms[1]), arrival
    if s1:
        yield _begin((w1, 0, w2 + 1, s2), rooms[1]), first
    if s2:
        yield _begin((w1, s1, w2, 0), rooms[1]), second


def _begin(state: State, room: int) -> State:
    """Let servers begin that can; the second first, for that makes room."""
    w1, s1, w2, s2 = state
    if not s2 and w2 > 0:
        w2, s2 = w2 - 1, 1
    if not s1 and w1 > 0 and w2 < room:
        w1, s1 = w1 - 1, 1
    return w1, s1, w2, s2


def steady_state(
    moves: Callable[[Node], Iterator[tuple[Node, float]]], start: Node
) -> dict[Node, float]:
    """Solve a Markov chain: the share of time that it spends in each state it reaches."""
    number, found = {start: 0}, [start]
    for state in found:
        for target, _ in moves(state):
            if target not in number:
                number[target] = len(found)
                found.append(target)
    rates = np.zeros((len(found), len(found)))
    for state in found:
        for target, rate in moves(state):
            rates[number[state], number[target]] += rate
            rates[number[state], number[state]] -= rate
    equations = np.vstack([rates.T, np.ones(len(found))])
    target = np.zeros(len(found) + 1)
    target[-1] = 1.0
    solved = np.linalg.lstsq(equations, target, rcond=None)[0]
    return dict(zip(found, solved.tolist(), strict=True))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and half-width of the 99 % confidence interval of independent replications."""
    return mean(values), T_995[len(values) - 1] * stdev(values) / sqrt(len(values))
