"""Queues on the virtual clock against theory: within the 99 % interval of replications.

How far the rounds are from continuous time is measured as well: the same draws with rounds of
half the length give means that differ by far less than the intervals are wide.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import pytest

SEEDS = range(1, 11)
FEW = range(1, 6)
SERVICES = 4000
"""Length of a replication in mean service times."""

HALVED = ["M/M/1/5", *(["tandem, blocking"] if "FLOWCONTROL_LONG" in os.environ else [])]

RATE = 100  # records/s of a server of rate 1: see queues.py
Checks = dict[str, tuple[float, Callable[[Any], float]]]


@dataclass(frozen=True)
class Case:
    """A queue: its stages, its room, and what theory says of which figure."""

    stages: dict[str, dict[str, Any]]
    checks: Callable[[ModuleType], Checks]
    room: int | None = None


def source(rate: float) -> dict[str, Any]:
    return {"emit_rate": rate, "service_time": "exponential"}


def server(rate: float, kind: str = "exponential", **keys: Any) -> dict[str, Any]:
    return {"service_rate": rate, "service_time": kind, **keys}


def of_one(queue: Any) -> Checks:
    """Return what is looked at in a queue between a source and a sink."""
    checks: Checks = {
        "waiting": (queue.waiting, lambda m: m.waiting["source->sink"]),
        "delay": (queue.delay, lambda m: m.delay_s),
        "throughput": (queue.throughput, lambda m: m.throughput),
        "busy": (queue.busy, lambda m: m.busy["sink"]),
    }
    if queue.loss > 0:
        checks["lost"] = (queue.loss, lambda m: m.blocked["source"])
    return checks


def of_jackson(forms: ModuleType) -> Checks:
    """Both queues as if alone; to the sink's service the delay is both waits and a service."""
    first, second = forms.mm1(50, 100), forms.mm1(50, 80)
    delay = first.delay + 1 / 100 + second.delay
    return {
        "first": (first.waiting, lambda m: m.waiting["source->middle"]),
        "second": (second.waiting, lambda m: m.waiting["middle->sink"]),
        "delay": (delay, lambda m: m.delay_s),
        "throughput": (50, lambda m: m.throughput),
    }


def of_saturated(forms: ModuleType) -> Checks:
    tandem = forms.saturated_tandem(100, 90, 3)
    return {
        "waiting": (tandem.waiting, lambda m: m.waiting["middle->sink"]),
        "throughput": (tandem.throughput, lambda m: m.throughput),
        "blocked": (tandem.loss, lambda m: m.blocked["middle"]),
        "busy": (tandem.busy, lambda m: m.busy["sink"]),
    }


def of_blocking(forms: ModuleType) -> Checks:
    tandem = forms.blocking_tandem(90, 100, 100, (3, 3))
    return {
        "first": (tandem.first, lambda m: m.waiting["source->middle"]),
        "second": (tandem.second, lambda m: m.waiting["middle->sink"]),
        "throughput": (tandem.throughput, lambda m: m.throughput),
        "lost": (tandem.loss, lambda m: m.blocked["source"]),
        "blocked": (tandem.blocked, lambda m: m.blocked["middle"]),
    }


CASES = {
    "M/M/1": Case(
        {"source": source(50), "sink": server(RATE)}, lambda forms: of_one(forms.mm1(50, RATE))
    ),
    "M/D/1": Case(
        {"source": source(60), "sink": server(RATE, "constant")},
        lambda forms: of_one(forms.md1(60, RATE)),
    ),
    "M/G/1, lognormal": Case(
        {"source": source(50), "sink": server(RATE, "lognormal", service_time_cv=0.5)},
        lambda forms: of_one(forms.mg1(50, RATE, 0.5)),
    ),
    "M/M/1/5": Case(
        {"source": source(90), "sink": server(RATE)},
        lambda forms: of_one(forms.mm1k(90, RATE, 5)),
        room=4,
    ),
    "M/M/1/3, overloaded": Case(
        {"source": source(150), "sink": server(RATE)},
        lambda forms: of_one(forms.mm1k(150, RATE, 3)),
        room=2,
    ),
    "tandem of Jackson": Case(
        {"source": source(50), "middle": server(RATE), "sink": server(80)}, of_jackson
    ),
    "saturated tandem, blocking": Case(
        {"source": {"emit_rate": 5_000}, "middle": server(RATE), "sink": server(90)},
        of_saturated,
        room=3,
    ),
    "tandem, blocking": Case(
        {"source": source(90), "middle": server(RATE), "sink": server(RATE)}, of_blocking, room=3
    ),
}

SIMILAR = ("M/M/1/3, overloaded", "saturated tandem, blocking", "M/G/1, lognormal")
"""Left out of the quick form: another room or service of a queue that it has."""


@cache
def replication(queues: ModuleType, name: str, seed: int, **keys: Any) -> Any:
    """Return the means of one run; those of a case that are there are not run again."""
    from flowcontrol.virtual import simulate

    case = CASES[name]
    room = queues.AMPLE if case.room is None else case.room
    given = queues.scenario(case.stages, room=room, seed=seed, services=SERVICES, **keys)
    return queues.means(simulate(given).tables)


def replicate(
    queues: ModuleType, name: str, seeds: Sequence[int] = SEEDS, **keys: Any
) -> list[Any]:
    """Return the means of one run a seed."""
    return [replication(queues, name, seed, **keys) for seed in seeds]


@pytest.mark.holds("credit", "virtual", "queueing theory, within its 99 % interval")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in SIMILAR)) for name in CASES]
)
def test_theory_lies_within_the_interval(name: str, forms: ModuleType, queues: ModuleType) -> None:
    runs = replicate(queues, name)
    print(f"{name}, seeds {SEEDS.start} to {SEEDS.stop - 1}")
    missed = []
    for figure, (theory, take) in CASES[name].checks(forms).items():
        middle, half = forms.interval([take(run) for run in runs])
        print(f"  {figure:<12} theory {theory:.6g}, simulated {middle:.6g} +- {half:.2g}")
        if abs(middle - theory) > half:
            missed.append(figure)
        assert half < 0.2 * theory, f"{figure}: too wide an interval to say anything"
    assert missed == []


@pytest.mark.parametrize("name", HALVED)
def test_rounds_of_half_the_length_change_little(
    name: str, forms: ModuleType, queues: ModuleType
) -> None:
    """With the same draws, by less than a fifth of the half-width of the interval of ten runs."""
    whole = replicate(queues, name, FEW)
    halved = replicate(queues, name, FEW, round_ms=queues.ROUND_MS / 2)
    for figure, (_, take) in CASES[name].checks(forms).items():
        middle, half = forms.interval([take(run) for run in whole])
        other, _ = forms.interval([take(run) for run in halved])
        print(f"  {figure:<12} {middle:.6g}, with rounds of half the length {other:.6g}")
        assert abs(middle - other) < half / 5, figure
