"""Two forms of a job, one behind the other in turn: what benches of one feature's cost share."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flowcontrol.scenario import Scenario
from flowcontrol.virtual import simulate


def cpu_s(scenario: Scenario) -> float:
    """Run a scenario; return the processor time that it took, s."""
    began = time.process_time()
    simulate(scenario)
    return time.process_time() - began


def medians(without: Scenario, given: Scenario, repeats: int) -> tuple[float, float]:
    """Run both in turn, each compiled before; return the median processor time of each, s."""
    both = without, given
    for one in both:
        simulate(one)
    times = [[cpu_s(one) for one in both] for _ in range(repeats)]
    first, second = (statistics.median(column) for column in zip(*times, strict=True))
    return first, second


@contextmanager
def own_kernels() -> Iterator[None]:
    """Compile kernels into a folder of their own: a kept one with more parts is slower."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["FLOWCONTROL_CACHE"] = cache
        yield
