"""What a checkpoint every emulated second costs a run on the virtual clock.

    python bench/virtual_checkpoints.py [--repeats 9]

Processor time of a chain of three stages and of four stages of eight subtasks, with checkpoints and
without, alternating in one process. Exits with 1 if one takes more than 10 % longer with them.
"""

from __future__ import annotations

import argparse

from alternating import medians, own_kernels
from measured import note
from virtual_jobs import chain, wide

from flowcontrol.scenario import Scenario
from flowcontrol.virtual import simulate

MOST = 1.10
EVERY_US = 1_000_000
JOBS = {"chain": "three stages", "4 x 8": "4 stages of 8 subtasks"}


def with_checkpoints(scenario: Scenario) -> Scenario:
    """Return a scenario that checkpoints every second."""
    options = scenario.options.model_copy(update={"checkpoint_interval_us": EVERY_US})
    return scenario.model_copy(update={"options": options})


def ratio(name: str, scenario: Scenario, repeats: int) -> float:
    """Print what a job takes without and with checkpoints; return by how much they differ."""
    checkpointed = with_checkpoints(scenario)
    completed = simulate(checkpointed).tables["checkpoints"].column("status").to_pylist()
    without, given = medians(scenario, checkpointed, repeats)
    each_us = (given - without) / len(completed) * 1e6
    print(
        f"{name:6} {without:.3f} s without, {given:.3f} s with {completed.count('completed')} "
        f"checkpoints: {given / without:.3f}, {each_us:.0f} us each",
        flush=True,
    )
    note(JOBS[name], given / without, "times", beside="without", goal=MOST, is_met="at most")
    return given / without


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    jobs = {"chain": chain(200.0, round_ms=1), "4 x 8": wide(8.0)}
    with own_kernels():
        found = [ratio(name, job, repeats) for name, job in jobs.items()]
    return int(max(found) > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
