"""What event time costs a run on the virtual clock.

    python bench/virtual_event_time.py [--repeats 9]

Processor time of a chain of three stages and of four stages of eight subtasks, with event times,
watermarks every 200 ms and the table of them, and without, alternating in one process. Exits with 1
if one takes more than 25 % longer with them.
"""

from __future__ import annotations

import argparse

from alternating import medians, own_kernels
from measured import note
from virtual_jobs import chain, wide

from flowcontrol.scenario import Scenario, parse_scenario

MOST = 1.25
JOBS = {"chain": "three stages", "4 x 8": "4 stages of 8 subtasks"}


def with_event_time(scenario: Scenario) -> Scenario:
    """Return a scenario whose sources stamp their records, and give watermarks."""
    mapping = scenario.canonical()
    inner = {edge["to"] for edge in mapping["edges"]}
    for stage in mapping["stages"]:
        if stage["name"] not in inner:
            stage["event_time"] = {"out_of_orderness_s": 5}
            stage["watermark"] = {"delay_s": 5}
    return parse_scenario(mapping)


def ratio(name: str, scenario: Scenario, repeats: int) -> float:
    """Print what a job takes without and with event time; return by how much they differ."""
    without, given = medians(scenario, with_event_time(scenario), repeats)
    print(
        f"{name:6} {without:.3f} s without, {given:.3f} s with event time: {given / without:.3f}",
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
