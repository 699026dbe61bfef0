"""Scenarios fitted to real jobs: what they predict of these, and of the same jobs changed.

    python bench/calibration.py [--flink FOLDER] [--spark FOLDER] [JOB ...]

Each job is fitted once, to what it said of itself: real Flinks to dumps of their REST API
(``bench/real_flink/dumps.py`` makes them), real Spark pipelines to their progress and to the ledger
of a link (``bench/calibration_pipelines.py``). The same scenario, its sink slower by half or its
buffers doubled, must then predict a run that it was not fitted to. Status 1 if a figure is missed.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from flowcontrol.calibration.bodies import read_dump
from flowcontrol.calibration.draft import Draft
from flowcontrol.calibration.fit_flink import fit_flink
from flowcontrol.calibration.flink_rest import read_job
from flowcontrol.calibration.link_ledger import fit_link
from flowcontrol.calibration.predict import Tolerance, beside, bottleneck, predict
from flowcontrol.calibration.spark_progress import fit_progress, predict_batches
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import run_job

HERE = Path(__file__).resolve().parent
FLINK = HERE / "real_flink" / "dumps"
SPARK = HERE / "spark_progress"

SLOWER: dict[str, str] = {
    "slow-sink": "sink",
    "slow-map": "sink",
    "skewed-hash": "workers",
    "fan-in": "sink",
    "fan-out": "store",
    "source-limited": "sink",
    "with-checkpoints": "sink",
}
"""The stage of each Flink job that ``slower-sink`` makes slower by half."""

PREFIX = "taskmanager.network.memory."
BUFFERS = tuple(
    PREFIX + key
    for key in ("buffers-per-channel", "floating-buffers-per-gate", "max-buffers-per-channel")
)

POINTS = Tolerance(0.0, 50.0)
HELD: dict[str, tuple[str, Tolerance, Tolerance]] = {
    "rate_in": ("throughput", Tolerance(0.03, 0.0), Tolerance(0.05, 0.0)),
    "rate_out": ("throughput", Tolerance(0.03, 0.0), Tolerance(0.05, 0.0)),
    "rows_per_s": ("throughput", Tolerance(0.03, 0.0), Tolerance(0.05, 0.0)),
    "backpressured_ms_per_s": ("blocked", POINTS, POINTS),
    "in_flight_records": ("in flight", Tolerance(0.05, 2.0), Tolerance(0.05, 2.0)),
    "in_flight_buffers": ("in flight", Tolerance(0.05, 0.0), Tolerance(0.05, 0.0)),
    "batch_ms": ("batch", Tolerance(0.03, 0.0), Tolerance(0.05, 0.0)),
}
"""Figures that are held, with the tolerance of the job itself and of the changed ones."""


class Line(NamedTuple):
    """A figure of a run: the largest error of its kind."""

    run: str
    figure: str
    place: str
    observed: float
    predicted: float
    allowed: float

    @property
    def holds(self) -> bool:
        """Whether it is within its tolerance."""
        return abs(self.predicted - self.observed) <= self.allowed


def figures(run: str, fitted: Draft, seen: Draft, *, is_changed: bool) -> Iterator[Line | str]:
    """Yield of a run the worst figure of each kind, and its bottleneck if that is another."""
    scenario = parse_scenario(fitted.mapping)
    tables = run_job(job_for(scenario, "virtual")).tables
    if fitted.batches:
        predicted = predict_batches(tables, fitted)
        limit = fitted.bottleneck
    else:
        predicted = predict(tables, scenario, fitted.warm_up_s)
        limit = bottleneck(tables, scenario, fitted.warm_up_s)
    worst: dict[str, Line] = {}
    errors = {(one.place, one.name): one.error for one in seen.observed}
    for row in beside(seen.observed, predicted):
        if row.name not in HELD or "/" in row.place:
            continue
        kind, own, changed = HELD[row.name]
        allowed = (changed if is_changed else own).of(row.observed)
        allowed = max(allowed, errors.get((row.place, row.name), 0.0))
        line = Line(run, kind, row.place, row.observed, row.predicted, allowed)
        before = worst.get(kind)
        if before is None or _weight(line) > _weight(before):
            worst[kind] = line
    yield from worst.values()
    if limit != seen.bottleneck:
        yield f"{run}: the bottleneck is {seen.bottleneck}, predicted {limit}"


def _weight(line: Line) -> float:
    return abs(line.predicted - line.observed) / max(1e-9, line.allowed)


Change = Callable[[dict[str, Any]], None]


def slower(stage: str) -> Change:
    """Return the change that makes a stage slower by half."""

    def change(mapping: dict[str, Any]) -> None:
        own = next(one for one in mapping["stages"] if one["name"] == stage)
        rate = own["service_rate"]
        own["service_rate"] = [r / 2 for r in rate] if isinstance(rate, list) else rate / 2

    return change


def slower_rows(stage: str, draft: Draft) -> Change:
    """Return the change that makes the rows of a link's receiver take twice as long.

    What a batch costs beside its rows stays.
    """

    def change(mapping: dict[str, Any]) -> None:
        assert draft.batch_cost is not None
        cost, rows = draft.batch_cost
        before = cost.overhead_ms + rows * cost.row_ms
        own = next(one for one in mapping["stages"] if one["name"] == stage)
        own["service_rate"] *= before / (before + rows * cost.row_ms)

    return change


def doubled(mapping: dict[str, Any]) -> None:
    """Double the buffers."""
    for key in BUFFERS:
        mapping["options"][key] = 2 * int(mapping["options"][key])


def doubled_batches(stage: str, draft: Draft) -> Change:
    """Return the change that doubles a link's buffers, and with them the rows of a batch.

    What a batch costs beside its rows is then shared by twice as many.
    """

    def change(mapping: dict[str, Any]) -> None:
        assert draft.batch_cost is not None
        cost, rows = draft.batch_cost
        doubled(mapping)
        own = next(one for one in mapping["stages"] if one["name"] == stage)
        own["service_rate"] *= cost.per_row_ms(rows) / cost.per_row_ms(2 * rows)

    return change


def more_rows(mapping: dict[str, Any]) -> None:
    """Double what a batch takes of a backlog, or what comes."""
    throttle = mapping["system"]["throttle"]
    if "max_records" in throttle:
        throttle["max_records"] *= 2
    mapping["stages"][0]["emit_rate"] *= 2
    mapping["duration_s"] *= 2


def changed(draft: Draft, change: Change) -> Draft:
    """Return a draft with a changed scenario."""
    found = copy.copy(draft)
    found.mapping = copy.deepcopy(draft.mapping)
    change(found.mapping)
    return found


def slower_batches(draft: Draft) -> Draft:
    """Return a draft of a query whose rows take twice as long."""
    found = changed(draft, slower("query"))
    found.mapping["duration_s"] *= 2
    cost = draft.batches["cost"]
    found.batches = {**draft.batches, "cost": replace(cost, row_ms=2 * cost.row_ms)}
    return found


def flink_job(folder: Path, shape: str) -> Iterator[Line | str]:
    """Yield the figures of a Flink job, as it is and changed."""

    def fit(name: str) -> Draft:
        return fit_flink(read_job(*read_dump(folder / f"{name}.json.gz")))

    base = fit(shape)
    yield from figures(shape, base, base, is_changed=False)
    for name, change in (("slower-sink", slower(SLOWER[shape])), ("more-buffers", doubled)):
        if (folder / f"{shape}.{name}.json.gz").exists():
            seen = fit(f"{shape}.{name}")
            yield from figures(f"{shape}.{name}", changed(base, change), seen, is_changed=True)


def spark_job(folder: Path, name: str) -> Iterator[Line | str]:
    """Yield the figures of a Spark pipeline, as it is and changed."""
    if name == "link":
        base = fit_link(folder / "link-link", folder / "link.jsonl")
        yield from figures("link", base, base, is_changed=False)
        sink = base.mapping["stages"][-1]["name"]
        changes = {"slow": slower_rows(sink, base), "more": doubled_batches(sink, base)}
        for run, change in ((f"link-{name}", change) for name, change in changes.items()):
            seen = fit_link(folder / f"{run}-link")
            yield from figures(run, changed(base, change), seen, is_changed=True)
        return
    base = fit_progress(folder / f"{name}.jsonl")
    yield from figures(name, base, base, is_changed=False)
    for run, draft in (
        (f"{name}-slow", slower_batches(base)),
        (f"{name}-more", changed(base, more_rows)),
    ):
        seen = fit_progress(folder / f"{run}.jsonl")
        yield from figures(run, draft, seen, is_changed=True)


def show(lines: list[Line | str]) -> int:
    """Print all figures; return how many are missed."""
    text = "{:<30}{:<12}{:<20}{:>10}{:>10}{:>9}{:>9}"
    print(text.format("run", "figure", "place", "observed", "predicted", "error", "allowed"))
    missed = 0
    for line in lines:
        if isinstance(line, str):
            missed += 1
            print(f"{line}  MISSED")
            continue
        cells = (line.observed, line.predicted, line.predicted - line.observed, line.allowed)
        row = text.format(line.run, line.figure, line.place, *(f"{one:.1f}" for one in cells))
        print(row + ("" if line.holds else "  MISSED"))
        missed += not line.holds
    print(f"{len(lines) - missed} of {len(lines)} hold; of each kind the worst place is shown")
    return missed


def main(arguments: list[str]) -> int:
    """Fit, predict and compare the jobs that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flink", type=Path, default=FLINK, help="folder of dumps")
    parser.add_argument("--spark", type=Path, default=SPARK, help="folder of progress and ledgers")
    parser.add_argument("jobs", nargs="*", help="which; default all")
    options = parser.parse_args(arguments)
    lines: list[Line | str] = []
    for shape in SLOWER:
        if not options.jobs or shape in options.jobs:
            lines += flink_job(options.flink, shape)
    for name in ("files", "counts", "link"):
        if not options.jobs or name in options.jobs:
            lines += spark_job(options.spark, name)
    return 1 if show(lines) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
