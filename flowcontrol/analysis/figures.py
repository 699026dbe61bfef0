"""Every figure of a run, declared once: name, unit, meaning, better direction, computation.

To add a figure, add it to :data:`FIGURES`: summary.json, sweeps, searches, comparisons and advice
have it then. A figure of a stage covers a part of the run; one of the job covers all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np

from flowcontrol.analysis.panel import mean_over_time
from flowcontrol.analysis.producer_rates import Counted, Reaction, ahead, swing
from flowcontrol.analysis.run_view import RunView, StageView, downtime_s
from flowcontrol.analysis.subtasks import spread, subtask_figures
from flowcontrol.layout.plan import network_memory, slots_used
from flowcontrol.records import STAGES, Column, ColumnType

SECOND_HALF: Final = "_second_half"
"""Suffix of a figure that covers only the second half of the run."""

Place = Literal["summary", "sweep", "compare", "advise", "calibrate"]
"""Where figures are shown; a search has those of sweeps."""

EVERYWHERE: Final[tuple[Place, ...]] = ("summary", "sweep", "compare", "advise")

Need = Literal["", "log", "checkpoints", "failures"]
"""What a scenario must have, or the figure is null: a source that reads a log, and so on."""


@dataclass(frozen=True)
class Figure:
    """One figure: of a stage in a part of a run, or of the job."""

    column: Column  # Over the whole run
    value: Callable[[Any], Any]  # Of a StageView; of the job's, of a RunView. None: there is none
    better: Literal["higher", "lower"] = "lower"  # Which values are better
    of_job: bool = False  # Whether it is the job's, and the same for all stages
    is_peak: bool = False  # Whether it is the maximum over the run, whenever it occurred
    has_half: bool = True  # Whether it stands for the second half of the run too
    needs: Need = ""
    needs_run: bool = True  # Whether it is known after a run only
    places: tuple[Place, ...] = EVERYWHERE
    # Its name where that is another one.
    aliases: Mapping[str, str] = field(default_factory=dict, hash=False)
    tolerance: tuple[float, float] | None = None  # Of calibration: share, and at least (its unit)

    @property
    def second_half(self) -> Column:
        """The same figure over the second half of the run."""
        meaning = f"{self.column.meaning} Over the second half of the run."
        return replace(self.column, name=self.column.name + SECOND_HALF, meaning=meaning)

    def at(self, place: Place) -> Column:
        """Return its column at a place."""
        return replace(self.column, name=self.aliases.get(place, self.column.name))

    def typed(self, view: Any) -> Any:
        """Return its value as its column holds it."""
        found = self.value(view)
        if found is None or self.column.type == "string":
            return found
        return int(found) if self.column.type == "int64" else float(found)


def figures(place: Place, *, of_job: bool) -> Iterator[Figure]:
    """Yield the figures of a place, in their order."""
    own = (one for one in FIGURES if one.of_job == of_job)
    if place == "calibrate":
        return (one for one in own if one.tolerance is not None)
    return (one for one in own if place in one.places)


def scenario_figures() -> Iterator[Figure]:
    """Yield the figures that need no run."""
    return (one for one in FIGURES if not one.needs_run)


def values_of(view: RunView, place: Place) -> dict[str, Any]:
    """Return the figures of the job that a place shows, by their names there."""
    return {one.at(place).name: one.value(view) for one in figures(place, of_job=True)}


@dataclass(frozen=True)
class Figures:
    """The figures of a run, each an attribute; None: the run has no such figure."""

    values: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        """Return a figure by its name."""
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(f"a run has no figure {name!r}") from None

    def document(self) -> dict[str, Any]:
        """Return the figures as plain JSON."""
        return dict(self.values)


# --- Figures of a stage

_MEAN: Final = "Mean over the run. {}"
_SUM: Final = "All subtasks together, over the run. {}"
_RUN: Final[tuple[Place, ...]] = ("summary", "sweep")
_SHARE, _USAGE = (0.0, 50.0), (0.0, 0.1)
_THROUGHPUT, _FLIGHT = (0.03, 0.0), (0.05, 2.0)  # a record in hand is counted here or there

OfStage = Callable[[StageView], Any]


def _stage(name: str, unit: str, meaning: str, value: OfStage, **more: Any) -> Figure:
    column = Column(name, more.pop("type", "float64"), unit, meaning)
    return Figure(column, value, **{"places": _RUN, **more})


def _count(name: str, counter: str, meaning: str) -> Figure:
    more = {"better": "higher", "type": "int64"}
    return _stage(name, "records", meaning, lambda v: v.grown(counter), **more)


def _rate(name: str, counter: str, meaning: str) -> Figure:
    more = {"better": "higher", "tolerance": _THROUGHPUT}
    return _stage(name, "records/s", meaning, lambda v: v.rate(counter), **more)


def _of_table(name: str, meaning: str = _MEAN, **more: Any) -> Figure:
    """Return a figure that is a column of the stages table, taken together."""
    column = STAGES.column(name)
    text = meaning.format(column.meaning.removeprefix("Covers the interval: "))
    means = meaning == _MEAN
    return _stage(name, column.unit, text, lambda v: (v.means if means else v.sums)[name], **more)


def _in_flight(name: str, unit: str, **more: Any) -> Figure:
    """Return what is in flight on all edges into a stage."""
    meaning = "Mean in flight on all edges into the stage."
    if more.get("is_peak"):
        meaning = "Sum over the edges of the most in flight."
    more["places"] = ("sweep",)
    return _stage(name, unit, meaning, lambda v: sum(edge[name] for edge in v.inputs), **more)


def _latency(name: str, which: str, **more: Any) -> Figure:
    """Return a figure of the latencies; null where there are none."""
    meaning = (
        f"For a sink: {which} of the time from emission at the source to the start of "
        "processing here. Null if no record arrived, and for other stages."
    )
    own = name.removeprefix("latency_")
    more["places"] = ("sweep",)
    return _stage(name, "ms", meaning, lambda v: v.latency and v.latency[own], **more)


def _lag(name: str, unit: str, meaning: str, value: OfStage, **more: Any) -> Figure:
    """Return a figure of the sources that read a log; null for other stages."""
    text = f"Of a source that reads a log: {meaning} Null for other stages."
    own: OfStage = lambda v: value(v) if v.stage.reads_log else None  # noqa: E731
    return _stage(name, unit, text, own, needs="log", **more)


def _caught_up(name: str, meaning: str) -> Figure:
    """Return when a source had caught up with its log."""

    def value(view: StageView) -> Any:
        lag = view.run.lags[view.stage.name]
        return 0.0 if lag.kept_up else getattr(lag, name)

    text = (
        f"{meaning}; 0 if it was never further behind than a sample interval and, of a throttle "
        "that reads in batches, a trigger; null if it had not by the end."
    )
    return _lag(name, "s", text, value, is_peak=True, has_half=False, places=("sweep",))


def _spread(name: str, unit: str, meaning: str) -> Figure:
    """Return how unevenly records are spread over subtasks."""
    return _stage(name, unit, meaning, lambda v: spread(v.subtasks)[name], places=("summary",))


_OF_STAGES: Final = (
    _count("records_in", "records_in", "Records processed in the run."),
    _count("records_out", "records_out", "Records emitted in the run."),
    _rate("rate_in", "records_in", "Records processed, all subtasks."),
    _rate("rate_out", "records_out", "Records emitted, all subtasks."),
    _of_table("busy_ms_per_s", tolerance=_SHARE),
    _of_table("idle_ms_per_s", tolerance=_SHARE),
    _of_table("backpressured_ms_per_s", tolerance=_SHARE),
    _stage(
        "worst_backpressured_ms_per_s", "ms/s", "The same of the subtask blocked most.",
        lambda v: v.most["backpressured_ms_per_s"],
    ),
    _stage(
        "busiest_busy_ms_per_s", "ms/s", "Busy time of the busiest subtask.",
        lambda v: v.most["busy_ms_per_s"],
    ),
    _of_table("in_pool_usage", tolerance=_USAGE),
    _of_table("out_pool_usage", tolerance=_USAGE),
    _of_table("floating_buffers_usage", tolerance=_USAGE),
    _of_table("exclusive_buffers_usage", tolerance=_USAGE),
    _of_table("input_queue_buffers", _SUM),
    _of_table("output_queue_buffers", _SUM),
    _of_table("output_pool_size", _SUM),
    _of_table("output_pool_used", _SUM),
    _spread("data_skew_percent", "%", "Flink's score of how unevenly records are distributed."),
    _spread("records_in_max_over_mean", "", "Records of the subtask with the most over the mean."),
    _in_flight("in_flight_buffers", "buffers", tolerance=_FLIGHT),
    _in_flight("in_flight_records", "records", tolerance=_FLIGHT),
    _in_flight("in_flight_bytes", "bytes"),
    _in_flight("max_in_flight_records", "records", is_peak=True),
    _latency("latency_mean_ms", "mean"),
    _latency("latency_p50_ms", "median"),
    _latency("latency_p90_ms", "90th percentile"),
    _latency("latency_p99_ms", "99th percentile"),
    _latency("latency_max_ms", "largest", is_peak=True),
    _lag(
        "lag_records", "records", "mean of the records in the logs of all its subtasks.",
        lambda v: v.sums["lag_records"],
    ),
    _lag(
        "lag_s", "s", "mean lag of its worst subtask.",
        lambda v: mean_over_time(v.worst_lag, "lag_s"),
    ),
    _lag(
        "max_lag_records", "records", "most records in all its logs.",
        lambda v: int(v.rows.per_sample(["lag_records"])["lag_records"].max(initial=0)),
        is_peak=True,
    ),
    _lag(
        "max_lag_s", "s", "largest lag of a subtask.",
        lambda v: float(v.worst_lag["lag_s"].max(initial=0.0)), is_peak=True,
    ),
    _caught_up(
        "caught_up_after_s", "time from when most records waited in its log until it had caught up"
    ),
    _caught_up("caught_up_at_s", "when it had caught up, in the time of the run"),
)  # fmt: skip

# --- Figures of the job

OfRun = Callable[[RunView], Any]


def _job(
    places: tuple[Place, ...], type_: ColumnType, name: str, unit: str, meaning: str, value: OfRun,
    **more: Any,
) -> Figure:  # fmt: skip
    column, more = Column(name, type_, unit, meaning), {"has_half": False, **more}
    return Figure(column, value, of_job=True, is_peak=True, places=places, **more)


def _compared(type_: ColumnType, name: str, unit: str, meaning: str, value: OfRun) -> Figure:
    """Return a figure by which systems are compared."""
    return _job(("compare",), type_, name, unit, meaning, value)


def _reactions(
    of: Callable[[RunView], Reaction], count: str, longest: str, *meanings: str
) -> tuple[Figure, ...]:
    """Return how many changes of the limit count, how many were missed, the longest other one."""
    changes, missed, time = meanings
    return (
        _compared("int64", count, "", changes, lambda v: of(v).count),
        _compared("int64", f"{count}_missed", "", missed, lambda v: of(v).missed),
        _compared("float64", longest, "s", time, lambda v: of(v).longest_s),
    )


def _last(counted: Counted) -> int:
    return int(counted.records[-1]) if counted.records else 0


def _of_limit(view: RunView) -> float | None:
    able = sum(p.consumed * (p.end_s - p.start_s) for p in view.limits or ())
    return view.consumed.records[-1] / able if able > 0 and view.consumed.records else None


def _ahead(view: RunView) -> float | None:
    return ahead(view.produced, view.steps, view.window_s) if view.produced.times else None


def _control_per_mb(view: RunView) -> float | None:
    """Return control messages over megabytes (1,000,000 bytes) moved, all edges together."""
    sent = view.facts.control_messages if view.facts else None
    return None if sent is None or not view.moved_bytes else sent * 1e6 / view.moved_bytes


def _in_logs(view: RunView, column: str, at: Callable[[Any], Any]) -> Any:
    return None if view.logs is None else at(view.logs[column]).item()


def _again(view: RunView) -> int | None:
    if view.restarts is None:
        return None
    return sum(row["records_reprocessed"] or 0 for row in view.restarts)


def _throughput(view: RunView) -> float:
    """Return what sinks took up, less the share that sources had emitted before a failure."""
    new = max(0.0, 1 - (_again(view) or 0) / max(1, _last(view.produced)))
    return _last(view.consumed) * new / view.end_s if view.end_s > 0 else 0.0


def _latency_of_sinks(view: RunView) -> float | None:
    sinks = (view.stage(stage.name, view.windows["whole"]) for stage in view.scenario.sinks)
    return max((one.latency["p99_ms"] for one in sinks if one.latency is not None), default=None)


def _memory(view: RunView) -> int | None:
    return None if view.scenario.system.counts_records else network_memory(view.scenario)


def _held_back(view: RunView) -> float:
    rows, whole = view.tables.panel("stages"), view.windows["whole"]
    paced = [stage.name for stage in view.scenario.sources if not stage.reads_log]
    tasks = (one for name in paced for one in subtask_figures(rows.of("stage", name), whole))
    return max((one.backpressured_ms_per_s for one in tasks), default=0.0) / 1000


def _lagging(view: RunView) -> float:
    waiting = _in_logs(view, "lag_records", lambda levels: levels[-1]) or 0
    return float(waiting / max(1, _last(view.produced)))


def _downtime(view: RunView) -> float | None:
    return None if view.restarts is None else downtime_s(view.restarts, view.end_s)


def _catch_up(view: RunView) -> float | None:
    unknown: list[dict[str, Any]] = [{"caught_up_s": None}]
    rows = unknown if view.restarts is None else view.restarts
    if any(row["caught_up_s"] is None for row in rows):
        return None
    return max((row["caught_up_s"] - row["running_s"] for row in rows), default=0.0)


_SWEPT: Final[tuple[Place, ...]] = ("sweep",)
_ADVISED: Final[tuple[Place, ...]] = ("advise",)
_ALL: Final[tuple[Place, ...]] = ("sweep", "compare", "advise")
_NOT: Final = "Null for a job that neither checkpoints nor fails."

_OF_JOB: Final = (
    _compared(
        "int64", "produced", "records", "Records emitted by all sources.",
        lambda v: _last(v.produced),
    ),
    _compared(
        "int64", "consumed", "records", "Records processed by all sinks.",
        lambda v: _last(v.consumed),
    ),
    _compared(
        "float64", "of_limit", "ratio", "consumed over what the sinks take at the limit.",
        _of_limit,
    ),
    _compared(
        "float64", "latency_p50_ms", "ms", "Median latency of all records.",
        lambda v: v.latency.get("p50_ms"),
    ),
    _compared(
        "float64", "latency_p99_ms", "ms", "99th percentile of the same.",
        lambda v: v.latency.get("p99_ms"),
    ),
    _compared(
        "int64", "peak_records", "records", "Most in flight at a sample, over all channels.",
        lambda v: int(v.in_flight["in_flight_records"].max(initial=0)),
    ),
    _compared(
        "int64", "peak_bytes", "bytes", "Most in flight at a sample, over all channels.",
        lambda v: int(v.in_flight["in_flight_bytes"].max(initial=0)),
    ),
    _compared(
        "float64", "swing", "ratio", "Coefficient of variation of the producers' rate.",
        lambda v: swing(v.produced, v.steps),
    ),
    _compared(
        "float64", "ahead", "ratio", "Producers' rate over a phase's limit, less 1, at most.",
        _ahead,
    ),
    *_reactions(
        lambda v: v.slowdown, "slowdowns", "follow_s", "Falls of the limit that count.",
        "Of those, how many the producers never followed.", "Longest time to follow one of the "
        "others.",
    ),
    *_reactions(
        lambda v: v.release, "releases", "recovery_s", "Rises of the limit that count.",
        "Of those, how many the producers never reached.", "Longest time to recover after one of "
        "the others.",
    ),
    _compared(
        "float64", "control_per_mb", "1/MB", "Control messages over megabytes moved.",
        _control_per_mb,
    ),
    _compared(
        "string", "is_bounded", "", '"yes", "no", or empty where the run does not say.',
        lambda v: v.facts and v.facts.is_bounded,
    ),
    _compared(
        "float64", "heap_exhausted_s", "s", "Time at which a heap was full; null: never.",
        lambda v: v.facts and v.facts.heap_exhausted_s,
    ),
    _compared(
        "int64", "lag_records", "records", "Most records in the logs that sources read, at a "
        "sample; null: none reads one.", lambda v: _in_logs(v, "lag_records", np.max),
    ),
    _compared(
        "float64", "lag_s", "s", "Largest lag of a source, at a sample; null: none reads a log.",
        lambda v: _in_logs(v, "lag_s", np.max),
    ),
    _compared(
        "int64", "lag_end_records", "records", "Records in those logs at the end; null: none "
        "reads one.", lambda v: _in_logs(v, "lag_records", lambda levels: levels[-1]),
    ),
    _job(
        _ADVISED, "float64", "throughput", "records/s", "Records processed by all sinks, without "
        "repetitions.", _throughput, better="higher",
    ),
    _job(
        _ADVISED, "float64", "sinks_latency_p99_ms", "ms", "99th percentile of the latency, of "
        "the sink with the largest.", _latency_of_sinks, aliases={"advise": "latency_p99_ms"},
    ),
    _job(
        _ADVISED, "float64", "in_flight_bytes", "bytes", "Mean of the data in flight on all edges.",
        lambda v: mean_over_time(v.in_flight, "in_flight_bytes"),
    ),
    _job(
        _ALL, "float64", "checkpoint_e2e_p50_ms", "ms", "Median end to end of the completed "
        "checkpoints. Null where none completed.", lambda v: v.checkpoints[0], needs="checkpoints",
        aliases={"advise": "checkpoint_ms"},
    ),
    _job(
        ("sweep", "compare"), "int64", "checkpoints_failed", "checkpoints", "Checkpoints that "
        "expired, were declined or aborted. Null for a job that takes none.",
        lambda v: v.checkpoints[1], needs="checkpoints",
    ),
    _job(
        _SWEPT, "float64", "checkpoint_persisted_bytes", "bytes", "Data in flight that a "
        "completed checkpoint persisted, mean. Null where none completed.",
        lambda v: v.checkpoints[2], needs="checkpoints",
    ),
    _job(
        _ADVISED, "int64", "memory", "bytes", "Network memory granted to the job on all task "
        "managers together: exclusive buffers of remote channels, and the pools of gates and "
        "result partitions.", _memory, needs_run=False, aliases={"advise": "memory_bytes"},
    ),
    _job(
        _ADVISED, "int64", "slots", "slots", "Slots that the job occupies on all task managers "
        "together.", lambda v: slots_used(v.scenario), needs_run=False,
    ),
    _job(
        _ADVISED, "float64", "held_back", "ratio", "Largest share of time for which a source that "
        "reads no log was blocked: what it could not emit is lost.", _held_back,
    ),
    _job(
        _ADVISED, "float64", "lagging", "ratio", "Records that waited in all logs at the end, as "
        "a share of those that were read.", _lagging,
    ),
    _job(
        _SWEPT, "float64", "downtime_s", "s", f"Time in which the job, or a part of it, was down. "
        f"{_NOT}", _downtime, needs="failures",
    ),
    _job(
        _SWEPT, "int64", "records_reprocessed", "records", f"Records that the sources emitted "
        f"again. {_NOT}", _again, needs="failures",
    ),
    _job(
        _SWEPT, "float64", "catch_up_s", "s", f"Longest time from when all subtasks ran again "
        f"until what had waited was worked off; 0 without a failure, null if after one it never "
        f"was. {_NOT}", _catch_up, needs="failures",
    ),
)  # fmt: skip

FIGURES: tuple[Figure, ...] = (*_OF_STAGES, *_OF_JOB)
"""All figures, in the order of tables. Those of the job stand behind those of stages."""
