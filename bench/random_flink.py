"""Random jobs: how often a real Flink agrees with itself, and the emulation with Flink.

    python bench/random_flink.py [--seed N] [--count M] [--flink 1.20|2] [--keep]
    python bench/random_flink.py --kept [--flink 1.20|2]

Draws jobs from the seeds N, N + 1, ..., runs each twice on Flink, emulates it, and prints how often
two runs agree, for each kind of figure. The emulation is compared with both runs, and each counts
half. ``--keep`` adds the runs to ``bench/real_flink/measured/random-VERSION.json``; ``--kept``
emulates the jobs that are there again, and needs no Flink. A run lasts 24 s of real time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent / "real_flink"))

import beside
from drawing import draw
from flink_run import VERSIONS, build
from scenario_run import emulated, measured
from tables import placement_of

from flowcontrol.errors import FlowControlError
from flowcontrol.scenario import Scenario, parse_scenario

SHARE = {
    "records": 0.03,
    "in flight": 0.1,
    "latency p50": 0.1,
    "latency p99": 0.2,
    "end to end": 0.2,
    "persisted": 0.2,
}
"""How far two figures that agree may be apart, over the larger one."""

LEAST = {
    "records": 2.0,
    "busy": 60.0,
    "idle": 60.0,
    "blocked": 60.0,
    "in pool": 0.1,
    "out pool": 0.1,
    "in flight": 8.0,
    "latency p50": 15.0,
    "latency p99": 50.0,
    "end to end": 100.0,
    "persisted": 8192.0,
}
"""And by how much in any case, in the figure's own unit: timers, polls, and one record of luck."""


Key = tuple[float, float, str, str]
Figures = dict[Key, float]
"""By begin and end of the phase, s, place and figure."""


class Kept(NamedTuple):
    """A job that ran on Flink twice.

    - ``stated``: its scenario, placed as Flink put it.
    - ``figures``: the values of each in both runs.
    """

    stated: dict[str, Any]
    figures: dict[Key, tuple[float, float]]


def agree(figure: str, one: float, other: float) -> bool:
    """Whether two values of a figure are the same, as far as can be told."""
    apart, larger = abs(one - other), max(abs(one), abs(other))
    return apart <= max(SHARE.get(figure, 0.0) * larger, LEAST[figure])


def path_of(version: str) -> Path:
    """Return where runs on a version are kept."""
    folder = Path(__file__).resolve().parent / "real_flink" / "measured"
    return folder / f"random-{version}.json"


def kept(version: str) -> dict[int, Kept]:
    """Return the jobs that are kept, by seed."""
    path = path_of(version)
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {
        int(seed): Kept(
            own["scenario"], {tuple(row[:4]): (row[4], row[5]) for row in own["figures"]}
        )
        for seed, own in found.items()
    }


def keep(version: str, runs: dict[int, Kept]) -> None:
    """Write jobs, a line each."""
    lines = [
        json.dumps(str(seed))
        + ": "
        + json.dumps(
            {
                "scenario": own.stated,
                "figures": [[*key, *map(_short, values)] for key, values in own.figures.items()],
            }
        )
        for seed, own in sorted(runs.items())
    ]
    path_of(version).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def run_twice(stated: dict[str, Any], version: str) -> Kept:
    """Run a job on Flink twice."""
    scenario = parse_scenario(stated)
    both: list[Figures] = []
    placement = None
    for _ in range(2):
        run, tables = measured(scenario, version)
        placement = placement or placement_of(run.polls[0], scenario)
        both.append(figures_of(scenario, tables))
    assert placement is not None
    stages = [{**stage, "placement": placement[stage["name"]]} for stage in stated["stages"]]
    figures = {key: (both[0][key], both[1][key]) for key in both[0] if key in both[1]}
    return Kept({**stated, "stages": stages}, figures)


def ours(own: Kept) -> Figures:
    """Emulate a job; return its figures."""
    scenario = parse_scenario(own.stated)
    placement = {stage["name"]: stage["placement"] for stage in own.stated["stages"]}
    return figures_of(scenario, emulated(scenario, placement, as_stated=False))


def figures_of(scenario: Scenario, tables: beside.Tables) -> Figures:
    """Return the figures of a run, of all phases."""
    return {
        (*window, place, figure): value
        for window in beside.windows(scenario)
        for (place, figure, _), value in beside.figures(scenario, tables, window)
    }


class Tally:
    """How often figures agree, by kind."""

    def __init__(self) -> None:
        self.of_flink: dict[str, list[float]] = defaultdict(list)
        self.of_ours: dict[str, list[float]] = defaultdict(list)

    def add(self, own: Kept, emulation: Figures) -> list[str]:
        """Count a job; return what the emulation alone sees otherwise, as text."""
        apart = []
        for key, (first, second) in own.figures.items():
            if key not in emulation or first != first or second != second:
                continue
            begin, end, place, figure = key
            value = emulation[key]
            near = [agree(figure, value, one) for one in (first, second)]
            self.of_flink[figure].append(agree(figure, first, second))
            self.of_ours[figure].append(sum(near) / 2)
            if not any(near):
                numbers = " / ".join(map(beside.number, (first, second, value)))
                apart.append(f"{begin:g}-{end:g} s  {place:<12}{figure:<12} {numbers}")
        return apart

    def show(self) -> str:
        """Return the table: a line for each kind of figure, and all."""
        lines = [f"{'figure':<14}{'Flink with itself':>20}{'the emulation with it':>24}"]
        for figure in self.of_flink:
            lines.append(_line(figure, self.of_flink[figure], self.of_ours[figure]))
        every = [value for own in self.of_flink.values() for value in own]
        every_ours = [value for own in self.of_ours.values() for value in own]
        return "\n".join([*lines, _line("all", every, every_ours)])


def _line(name: str, theirs: Sequence[float], own: Sequence[float]) -> str:
    count = len(theirs)
    cells = [
        f"{sum(one):g} of {count} {100 * sum(one) / max(count, 1):5.1f} %" for one in (theirs, own)
    ]
    return f"{name:<14}{cells[0]:>20}{cells[1]:>24}"


def jobs(options: argparse.Namespace, version: str) -> Iterator[tuple[int, Kept]]:
    """Yield jobs that have run, those that are kept or new ones."""
    known = kept(version)
    if options.kept:
        yield from known.items()
        return
    build(version)
    for seed in range(options.seed, options.seed + options.count):
        own = run_twice(draw(seed, version), version)
        if options.keep:
            known[seed] = own
            keep(version, known)
        yield seed, own


def main(arguments: Sequence[str]) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first job")
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--flink", default="1.20", help="1.20 (default), 2, or a version")
    parser.add_argument("--keep", action="store_true", help="add the runs to those that are kept")
    parser.add_argument("--kept", action="store_true", help="emulate the kept jobs again")
    options = parser.parse_args(arguments)
    version = VERSIONS.get(options.flink, options.flink)
    tally = Tally()
    try:
        for seed, own in jobs(options, version):
            apart = tally.add(own, ours(own))
            print(f"seed {seed}: {len(own.figures)} figures, {len(apart)} apart", flush=True)
            print(*(f"    {line}" for line in apart), sep="\n", end="\n" if apart else "")
    except FlowControlError as error:
        print(error, file=sys.stderr)
        return 2
    print(tally.show())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
