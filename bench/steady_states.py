"""What jumping the periods of steady states gains on the virtual clock, and how often it applies.

    python bench/steady_states.py [--repeats 5] [--folder conf]

1. An hour of a steady chain, with one sample and with one each second, and four stages of eight
   subtasks that draw random numbers: processor time with and without jumps, alternating in one
   process, medians.
2. Each scenario of the folder as it stands, and over an hour: how many of its rounds repeat others,
   and the same ratio.
3. The variants of a sweep, and the runs of a search for the capacity.

Every pair of runs is compared, all rows of all tables. Exits with 1 if one differs, if the hour
with one sample is not ten times as quick, or if the job that draws is more than 2 % slower.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from measured import note
from virtual_jobs import chain, wide

from flowcontrol.errors import FlowControlError
from flowcontrol.job import Job, build_physical_graph
from flowcontrol.job.run import Run
from flowcontrol.scenario import Scenario, check_clock, load_scenario
from flowcontrol.virtual.choose import choose_round_us
from flowcontrol.virtual.clock import run_job
from flowcontrol.virtual.periods.search import EFFORT, Effort

GAIN = 10.0
"""How much quicker the hour with one sample has to be."""
MOST = 1.02
"""By how much a job that cannot jump may be slower."""
WITHOUT = "without jumps"
HOUR_S = 3600.0
SWEPT = {"emit_rate": (600, 700, 800, 900, 1000), "record_bytes": (100, 128, 200, 256)}
"""Values of the source of three-stages.yaml."""
CAPACITY_RATES = (250.0, 375.0, 437.5, 468.75, 484.375, 492.1875, 496.09375, 498.046875)
"""What a search by halves asks of a chain whose sink takes 500 records/s."""


class Gain(NamedTuple):
    """What jumps did to a job."""

    share: float
    without_s: float
    with_s: float

    @property
    def ratio(self) -> float:
        """How many times as quick the run with jumps is."""
        return self.without_s / self.with_s


def run(job: Job, effort: Effort | None) -> tuple[float, Run]:
    """Run a job; return the processor time that it took, s, and what it yields."""
    began = time.process_time()
    found = run_job(job, effort=effort)
    return time.process_time() - began, found


def measured(job: Job, repeats: int) -> Gain:
    """Run a job with and without jumps in turn; compare what they yield."""
    run_job(job, effort=None)  # compiled, or loaded
    times: dict[bool, list[float]] = {True: [], False: []}
    share = 0.0
    for _ in range(repeats):
        took_s, jumping = run(job, EFFORT)
        times[True].append(took_s)
        took_s, plain = run(job, None)
        times[False].append(took_s)
        share = jumping.jumped / jumping.rounds
        for name, table in plain.tables.items():
            if not table.equals(jumping.tables[name]):
                raise SystemExit(f"{job.scenario.name}: the table {name} is not the same")
    return Gain(share, statistics.median(times[False]), statistics.median(times[True]))


def shown(name: str, gain: Gain) -> None:
    """Print a line of a table."""
    print(
        f"{name:<34}{100 * gain.share:>9.1f} %{gain.without_s:>11.3f}{gain.with_s:>11.3f}"
        f"{gain.ratio:>9.2f} x",
        flush=True,
    )


def heading(text: str) -> None:
    """Print what the lines that follow are."""
    print(f"\n{text}\n{'':<34}{'jumped':>11}{'without, s':>11}{'with, s':>11}{'gain':>11}")


def laid_out(scenario: Scenario, round_us: int | None = None) -> Job:
    """Lay a scenario out, with the round that suits it unless one is given."""
    return build_physical_graph(scenario, round_us=round_us or choose_round_us(scenario))


def steady(repeats: int) -> bool:
    """Measure the jobs that other benches time; return whether both limits are kept."""
    heading("jobs of bench/virtual_jobs.py, rounds of 1 ms")
    hour = chain(HOUR_S, round_ms=1)
    each_second = hour.model_copy(update={"sample_interval_s": 1.0})
    one = measured(laid_out(hour), repeats)
    shown("chain, an hour, one sample", one)
    each = measured(laid_out(each_second), repeats)
    shown("chain, an hour, 3,600 samples", each)
    drawn = measured(laid_out(wide(8.0)), repeats)
    shown("4 x 8, every feature on", drawn)
    note("an hour of a chain, one sample", one.ratio, "times", beside=WITHOUT, goal=GAIN)
    note("an hour of a chain, 3,600 samples", each.ratio, "times", beside=WITHOUT)
    what = "4 stages of 8 subtasks that draw random numbers"
    note(what, 1 / drawn.ratio, "times the time", beside=WITHOUT, goal=MOST, is_met="at most")
    return one.ratio >= GAIN and drawn.ratio >= 1 / MOST


def scenarios(folder: Path) -> Iterator[tuple[str, Scenario]]:
    """Yield the scenarios of a folder that the virtual clock runs."""
    for path in sorted(folder.glob("*.yaml")):
        try:
            scenario = load_scenario(path)
            if not check_clock(scenario, "virtual") and scenario.scaling is None:
                yield path.stem, scenario
        except FlowControlError as error:
            print(f"{path.stem}: {error}")


def folder_of(folder: Path, repeats: int) -> None:
    """Measure each scenario of a folder, and those that jump over an hour."""
    for title, is_hour in (("as it stands", False), ("over an hour", True)):
        heading(f"{folder}, {title}")
        gains = []
        for name, scenario in scenarios(folder):
            job = laid_out(scenario)
            if is_hour:
                longer = scenario.model_copy(update={"duration_s": HOUR_S})
                job = laid_out(longer, job.round_us)
            try:
                gain = measured(job, 1)
                gain = measured(job, repeats) if gain.share > 0 else gain
            except FlowControlError as error:
                print(f"{name}: {str(error).splitlines()[0]}")
                continue
            shown(name, gain)
            gains.append(gain)
        jumping = [gain for gain in gains if gain.share > 0]
        note(f"{folder}/, {title}: jobs that jump, of {len(gains)}", len(jumping), "jobs")
        for gain in jumping:
            note(f"{folder}/, {title}: one of these", gain.ratio, "times", beside=WITHOUT)


def swept(folder: Path) -> None:
    """Say how many variants of a sweep jump, and runs of a search for the capacity."""
    jumped = count = 0
    for rate in SWEPT["emit_rate"]:
        for size in SWEPT["record_bytes"]:
            values = (f"stages.source.emit_rate={rate}", f"stages.source.record_bytes={size}")
            scenario = load_scenario(folder / "three-stages.yaml", overrides=values)
            jumped += run_job(laid_out(scenario)).jumped > 0
            count += 1
    print(f"\nsweep of three-stages.yaml: {jumped} of {count} variants jump")
    note(f"variants of three-stages.yaml that jump, of {count}", jumped, "variants")
    jumped = 0
    for rate in CAPACITY_RATES:
        values = (f"stages.producer.emit_rate={rate}", "stages.consumer.service_rate=500")
        scenario = load_scenario(folder / "experiment.yaml", overrides=values)
        jumped += run_job(laid_out(scenario)).jumped > 0
    print(
        f"search for the capacity of experiment.yaml: {jumped} of {len(CAPACITY_RATES)} runs jump"
    )
    what = f"runs of a search for the capacity that jump, of {len(CAPACITY_RATES)}"
    note(what, jumped, "runs")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("conf"))
    options = parser.parse_args()
    is_kept = steady(options.repeats)
    folder_of(options.folder, options.repeats)
    swept(options.folder)
    return 0 if is_kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
