"""Every column of the table of a sweep, once: name, type, unit, meaning, and what is better.

A row is one stage in one variant. The figures are those of ``summary.json``, each over the whole
run and, with the suffix :data:`SECOND_HALF`, over its second half.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from flowcontrol.analysis.checkpoints import FAILED
from flowcontrol.analysis.round_trips import ROUND
from flowcontrol.records import STAGES, Column, Table
from flowcontrol.scenario import Scenario

SECOND_HALF: Final = "_second_half"
"""Suffix of a figure that covers only the second half of the run."""


@dataclass(frozen=True)
class Figure:
    """One figure of a stage."""

    column: Column  # Over the whole run
    better: Literal["higher", "lower"]  # Which values are better
    is_peak: bool = False  # Whether it is the maximum over the run, whenever it occurred
    # Whether it is a figure of sources that read a log; null for other stages.
    of_sources: bool = False
    has_half: bool = True  # Whether it stands for the second half of the run too
    # Whether it is a figure of the checkpoints of the run, the same for all stages; null if the job
    # takes none.
    of_checkpoints: bool = False
    # Whether it is what failures cost the run, likewise; null if nothing can fail.
    of_failures: bool = False

    @property
    def of_job(self) -> bool:
        """Whether it is the job's, and the same for all stages."""
        return self.of_checkpoints or self.of_failures

    @property
    def second_half(self) -> Column:
        """The same figure over the second half of the run."""
        meaning = f"{self.column.meaning} Over the second half of the run."
        return replace(self.column, name=self.column.name + SECOND_HALF, meaning=meaning)


_MEAN: Final = "Mean over the run. {}"
_SUM: Final = "All subtasks together, over the run. {}"


def _of_stages(name: str, better: Literal["higher", "lower"], meaning: str = _MEAN) -> Figure:
    """Return a figure that is a column of the stages table, taken together."""
    column = STAGES.column(name)
    text = meaning.format(column.meaning.removeprefix("Covers the interval: "))
    return Figure(replace(column, type="float64", meaning=text), better)


def _figure(name: str, unit: str, meaning: str, *, is_peak: bool = False) -> Figure:
    return Figure(Column(name, "float64", unit, meaning), "lower", is_peak)


def _latency(name: str, which: str, *, is_peak: bool = False) -> Figure:
    """Return a figure of the latencies; null where there are none."""
    meaning = (
        f"Of a sink: {which.lower()} of the time from emission at the source to the start of "
        "processing here. Null where no record was taken up, and for other stages."
    )
    return _figure(name, "ms", meaning, is_peak=is_peak)


def _lag(name: str, unit: str, meaning: str, **more: bool) -> Figure:
    """Return a figure of the sources that read a log; null for other stages."""
    text = f"Of a source that reads a log: {meaning} Null for other stages."
    return Figure(Column(name, "float64", unit, text), "lower", of_sources=True, **more)


def _of_checkpoints(
    name: str, type_: Literal["int64", "float64"], unit: str, meaning: str
) -> Figure:
    """Return a figure of the checkpoints of a run, over all of it."""
    column = Column(name, type_, unit, f"{meaning} The same in all rows of a variant.")
    return Figure(column, "lower", is_peak=True, has_half=False, of_checkpoints=True)


def _of_failures(name: str, type_: Literal["int64", "float64"], unit: str, meaning: str) -> Figure:
    """Return a figure of the failures of a run, over all of it."""
    text = f"{meaning} Null for a job that neither checkpoints nor fails."
    text = f"{text} The same in all rows of a variant."
    column = Column(name, type_, unit, text)
    return Figure(column, "lower", is_peak=True, has_half=False, of_failures=True)


_NEVER: Final = (
    "0 if it was never further behind than a sample interval and, of a throttle that reads in "
    "batches, a trigger; null if it had not by the end."
)

FIGURES: Final = (
    Figure(Column("records_in", "int64", "records", "Records taken up in the run."), "higher"),
    Figure(Column("records_out", "int64", "records", "Records emitted in the run."), "higher"),
    Figure(Column("rate_in", "float64", "records/s", "Records taken up, all subtasks."), "higher"),
    Figure(Column("rate_out", "float64", "records/s", "Records emitted, all subtasks."), "higher"),
    _of_stages("busy_ms_per_s", "lower"),
    _of_stages("idle_ms_per_s", "lower"),
    _of_stages("backpressured_ms_per_s", "lower"),
    _figure("worst_backpressured_ms_per_s", "ms/s", "The same of the subtask blocked most."),
    _figure("busiest_busy_ms_per_s", "ms/s", "Busy time of the busiest subtask."),
    _of_stages("in_pool_usage", "lower"),
    _of_stages("out_pool_usage", "lower"),
    _of_stages("floating_buffers_usage", "lower"),
    _of_stages("exclusive_buffers_usage", "lower"),
    _of_stages("input_queue_buffers", "lower", _SUM),
    _of_stages("output_queue_buffers", "lower", _SUM),
    _of_stages("output_pool_size", "lower", _SUM),
    _of_stages("output_pool_used", "lower", _SUM),
    _figure("in_flight_buffers", "buffers", "Mean in flight on all edges into the stage."),
    _figure("in_flight_records", "records", "Mean in flight on all edges into the stage."),
    _figure("in_flight_bytes", "bytes", "Mean in flight on all edges into the stage."),
    _figure(
        "max_in_flight_records",
        "records",
        "The most that was in flight, edge by edge.",
        is_peak=True,
    ),
    _latency("latency_mean_ms", "Mean"),
    _latency("latency_p50_ms", "Median"),
    _latency("latency_p90_ms", "90th percentile"),
    _latency("latency_p99_ms", "99th percentile"),
    _latency("latency_max_ms", "Largest", is_peak=True),
    _lag("lag_records", "records", "mean of what waits in the logs of all its subtasks."),
    _lag("lag_s", "s", "mean of how far its worst subtask is behind."),
    _lag("max_lag_records", "records", "most that waited in all its logs.", is_peak=True),
    _lag("max_lag_s", "s", "furthest that a subtask was behind.", is_peak=True),
    _lag(
        "caught_up_after_s",
        "s",
        f"time from when most records waited in its log until it had caught up; {_NEVER}",
        is_peak=True,
        has_half=False,
    ),
    _lag(
        "caught_up_at_s",
        "s",
        f"when it had caught up, in the time of the run; {_NEVER}",
        is_peak=True,
        has_half=False,
    ),
    _of_checkpoints(
        "checkpoint_e2e_p50_ms",
        "float64",
        "ms",
        "Median end to end of the completed checkpoints. Null where none completed.",
    ),
    _of_checkpoints(
        "checkpoints_failed",
        "int64",
        "checkpoints",
        "Checkpoints that expired, were declined or aborted. Null for a job that takes none.",
    ),
    _of_checkpoints(
        "checkpoint_persisted_bytes",
        "float64",
        "bytes",
        "Data in flight that a completed checkpoint persisted, mean. Null where none completed.",
    ),
    _of_failures("downtime_s", "float64", "s", "Time in which the job, or a part of it, was down."),
    _of_failures(
        "records_reprocessed", "int64", "records", "Records that the sources emitted again."
    ),
    _of_failures(
        "catch_up_s",
        "float64",
        "s",
        "Longest time from when all subtasks ran again until what had waited was worked off; 0 "
        "without a failure, null if after one it never was.",
    ),
)
"""All figures, in the order of the table."""

_BEFORE: Final = (
    Column(
        "variant",
        "string",
        "",
        "Hash of everything that decides the run (the canonical scenario, its seed included).",
    ),
)
_MIDDLE: Final = (
    Column("replication", "int64", "", "Number of the replication, from 0."),
    Column("seed", "int64", "", "Seed of the run."),
    Column("stage", "string", "", "Name of the stage."),
    Column("parallelism", "int64", "subtasks", "Subtasks of the stage."),
    Column(
        "pressure", "string", "", "OK, LOW or HIGH, by the worst subtask's blocked time in the run."
    ),
)
_AFTER: Final = (
    Column(
        "bottleneck",
        "string",
        "",
        "What limited the variant: a stage, or an edge whose buffers are too few, or only the "
        "length of a round; empty if nothing did for long. The same in all rows of a variant.",
    ),
    Column("rounds", "int64", "rounds", "Rounds of the virtual clock."),
    Column("round_ms", "float64", "ms", "Emulated time of a round."),
    Column("wall_s", "float64", "s", "Time that the simulation took."),
)


def results_table(varied: Sequence[Column]) -> Table:
    """Return the declaration of a sweep's table."""
    halves = [figure.second_half for figure in FIGURES if figure.has_half]
    figures = [figure.column for figure in FIGURES] + halves
    columns = (*_BEFORE, *varied, *_MIDDLE, *figures, *_AFTER)
    return Table("results", "One stage of one variant.", columns)


FIXED: Final = results_table(()).names
"""Names of the columns of every sweep; columns of varied keys have other names."""


def figure_named(name: str) -> Figure | None:
    """Return the figure of a column, of the whole run or of its second half; None if it is none."""
    for figure in FIGURES:
        if figure.column.name == name:
            return figure
        if figure.has_half and figure.second_half.name == name:
            return replace(figure, column=figure.second_half)
    return None


_LATENCY = "latency_"
_IN_FLIGHT = ("in_flight_buffers", "in_flight_records", "in_flight_bytes", "max_in_flight_records")


def variant_rows(
    summary: Mapping[str, Any], scenario: Scenario, given: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return a row for each stage of a run.

    ``given``: the columns that all rows share: variant, varied values, replication, seed.

    In the order of the scenario's stages; every column of the table.
    """
    shared = {
        **given,
        "bottleneck": _bottleneck(summary),
        "rounds": summary["rounds"],
        "round_ms": summary["round_ms"],
        "wall_s": summary["wall_s"],
    }
    return [
        {
            **shared,
            "stage": stage.name,
            "parallelism": stage.parallelism,
            "pressure": summary["stages"][stage.name]["pressure"],
            **_figures(summary, scenario, stage.name, "whole", ""),
            **_figures(summary, scenario, stage.name, "second_half", SECOND_HALF),
        }
        for stage in scenario.stages
    ]


def _bottleneck(summary: Mapping[str, Any]) -> str:
    """Return the stage, the edge, the throttle or ROUND that limited; empty for none."""
    detail = summary["bottleneck_detail"]
    if "is_of_round" in detail:
        return ROUND
    return str(summary["bottleneck"] or detail.get("edge") or detail.get("throttle") or "")


def _figures(
    summary: Mapping[str, Any], scenario: Scenario, stage: str, window: str, suffix: str
) -> dict[str, Any]:
    """Return the figures of a stage in one window, by column."""
    found = dict(summary["stages"][stage][window])
    latency = found["latency"] or {}
    edges = [summary["edges"][edge.name][window] for edge in scenario.inputs(stage)]
    found |= {name: _sum(edges, name) for name in _IN_FLIGHT}
    found |= {_LATENCY + name: value for name, value in latency.items()}
    found |= _caught_up(summary, stage)
    found |= _checkpoints(summary) | _failures(summary)
    return {
        figure.column.name + suffix: _typed(found.get(figure.column.name), figure.column.type)
        for figure in FIGURES
        if figure.has_half or not suffix
    }


_CATCH_UP = ("caught_up_after_s", "caught_up_at_s")


def _caught_up(summary: Mapping[str, Any], stage: str) -> dict[str, Any]:
    """Return when a source had caught up with its log; nothing for other stages."""
    for lag in summary.get("lags", ()):
        if lag["stage"] == stage:
            return {name: 0.0 if lag["kept_up"] else lag[name] for name in _CATCH_UP}
    return {}


def _checkpoints(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a run's checkpoints; nothing for a job that takes none."""
    found = summary.get("checkpoints")
    if found is None:
        return {}
    e2e = found["e2e"] or {"p50_ms": None}
    failed = sum(found["counts"][status] for status in FAILED)
    persisted = found["persisted_bytes"] if found["e2e"] else None
    return {
        "checkpoint_e2e_p50_ms": e2e["p50_ms"],
        "checkpoints_failed": failed,
        "checkpoint_persisted_bytes": persisted,
    }


def _failures(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return what failures cost a run; nothing for a job that neither checkpoints nor fails."""
    found = summary.get("restarts")
    if found is None:
        return {}
    times = [one["catch_up_s"] for one in found["failures"]]
    return {
        "downtime_s": found["downtime_s"],
        "records_reprocessed": found["records_reprocessed"],
        "catch_up_s": None if None in times else max(times, default=0.0),
    }


def _sum(edges: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(sum(edge[name] for edge in edges))


def _typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    return int(value) if kind == "int64" else float(value)
