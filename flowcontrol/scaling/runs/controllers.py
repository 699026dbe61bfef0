"""The controllers of a run: when each looks at the job, the figures it sees, its decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from flowcontrol.scaling.autoscaler import FlinkAutoscaler
from flowcontrol.scaling.runs.derive import Vertex, outputs_of, vertices_of
from flowcontrol.scaling.true_rates import Ds2Policy
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.scaling_models import Scaling

# --- What a controller sees of the job that runs: counters and times of its subtasks, by sample.
#
# Counters begin at 0 with each start of the job, as Flink's do.


Figures = npt.NDArray[np.float64]

_COLUMNS = ("records_in", "records_out", "busy_ms_per_s", "backpressured_ms_per_s", "lag_records")
_SHARES = slice(2, 4)


class Grown(NamedTuple):
    """What the subtasks of a stage did in a time, each an array over the subtasks."""

    seconds: float  # Its length
    records_in: Figures  # records_in, records_out: records that were taken up, and put out
    records_out: Figures
    # Time in which they worked, and in which they were back-pressured.
    busy_s: Figures
    blocked_s: Figures


@dataclass
class Measured:
    """Samples of one attempt of the job."""

    moments: list[float] = field(default_factory=list)  # Of the samples (s)
    _samples: list[dict[str, Figures]] = field(default_factory=list)

    def add(self, t_s: float, since_s: float, columns: Mapping[str, Any]) -> None:
        """Take in a sample: the columns of the table ``stages``, and the length of its interval."""
        stages = np.array(columns["stage"])
        rows = np.stack([np.asarray(columns[name], np.float64) for name in _COLUMNS], axis=1)
        rows[:, _SHARES] *= since_s / 1000
        found = {}
        for stage in dict.fromkeys(columns["stage"]):
            own = rows[stages == stage]
            if self._samples:
                own[:, _SHARES] += self._samples[-1][stage][:, _SHARES]
            found[str(stage)] = own
        self.moments.append(t_s)
        self._samples.append(found)

    def total(self, stage: str, column: int) -> Figures:
        """Return a column of the last sample."""
        return self._samples[-1][stage][:, column]

    def records_in(self, stage: str) -> float:
        """Return the records that all subtasks of a stage have taken up."""
        return float(self.total(stage, 0).sum())

    def records_out(self, stage: str) -> float:
        """Return the records that all subtasks of a stage have put out."""
        return float(self.total(stage, 1).sum())

    def busy_s(self, stage: str) -> float:
        """Return the time in which the subtasks of a stage have worked, added up, s."""
        return float(self.total(stage, 2).sum())

    def lag_records(self, stage: str) -> float:
        """Return the records that wait in the logs of a source."""
        return float(self.total(stage, 4).sum())

    def since(self, stage: str, t_s: float) -> Grown:
        """Return what the subtasks of a stage have done since the last sample at or before."""
        first = max((n for n, at in enumerate(self.moments) if at <= t_s + 1e-9), default=None)
        last = self._samples[-1][stage]
        begin = np.zeros_like(last) if first is None else self._samples[first][stage]
        began_s = t_s if first is None else self.moments[first]
        grown = (last - begin)[:, :4].T
        return Grown(self.moments[-1] - began_s, *grown)


GAUGE_S: Final = 60.0
"""Time over which Flink's meters and timers average (``MeterView``, ``TimerGauge``), s."""


@dataclass(frozen=True)
class Decision:
    """What a controller wants."""

    changes: dict[str, int]  # New parallelism by vertex
    reason: dict[str, str]  # Why, by vertex


class Controller(Protocol):
    """Looks at a job that runs, now and then."""

    def start(self, running_s: float, widths: Mapping[str, int]) -> None:
        """Note that the job runs from a moment on, at these parallelisms."""
        ...

    def is_due(self, t_s: float) -> bool:
        """Tell whether it looks at a moment."""
        ...

    def look(self, t_s: float, measured: Measured) -> Decision | None:
        """Look at the job; return what to change, or None."""
        ...


def controller_for(scenario: Scenario, scaling: Scaling) -> Controller:
    """Return the controller that a scenario names."""
    if scaling.policy == "ds2":
        return Ds2Controller(scenario, scaling)
    return AutoscalerController(scenario, scaling)


class Ds2Controller:
    """DS2: looks each ``policy_interval``, at what was measured since the look before."""

    def __init__(self, scenario: Scenario, scaling: Scaling) -> None:
        self._scenario, self._vertices = scenario, vertices_of(scenario)
        edges = [(sender, one.name) for one in self._vertices.values() for sender in one.inputs]
        ratio = scaling.target_rate_ratio
        self._policy = Ds2Policy(
            edges,
            float(scaling.scaling_factor),
            inf if ratio is None else float(ratio),
            scaling.activation_time,
        )
        self._interval_s, self._warm_up_s = (
            float(scaling.policy_interval),
            float(scaling.warm_up_time),
        )
        self._since_s = self._due_s = 0.0
        self._widths: dict[str, int] = {}

    def start(self, running_s: float, widths: Mapping[str, int]) -> None:
        """Wait until the job has warmed up, and for an interval."""
        self._since_s = running_s + self._warm_up_s
        self._due_s, self._widths = self._since_s + self._interval_s, dict(widths)
        self._policy.restart()

    def is_due(self, t_s: float) -> bool:
        """Tell whether an interval is over."""
        return t_s >= self._due_s - 1e-9

    def look(self, t_s: float, measured: Measured) -> Decision | None:
        """Decide by the true rates since the last look."""
        rates = {one.name: self._rates(one, measured) for one in self._vertices.values()}
        targets, observed = dict[str, float](), dict[str, float]()
        for one in self._vertices.values():
            if one.is_source:
                targets[one.name] = self._target(one, t_s)
                put_out = [
                    measured.since(stage.name, self._since_s)
                    for stage, _ in outputs_of(self._scenario, one)
                ]
                observed[one.name] = sum(
                    float(grown.records_out.sum()) / grown.seconds for grown in put_out
                )
        self._since_s, self._due_s = t_s, t_s + self._interval_s
        try:
            changes = self._policy.look(rates, targets, observed)
        except ValueError:  # nothing came through yet: it looks again
            return None
        changes = {
            name: min(new, self._vertices[name].max_parallelism) for name, new in changes.items()
        }
        changes = {n: new for n, new in changes.items() if new != self._widths[n]}
        if not changes:
            return None
        return Decision(changes, dict.fromkeys(changes, self._policy.reason))

    def _rates(self, one: Vertex, measured: Measured) -> list[tuple[float, float]]:
        """Return the true rates of each subtask: records over the time in which it worked."""
        grown = measured.since(one.name, self._since_s)
        put_out = sum(
            measured.since(stage.name, self._since_s).records_out
            for stage, _ in outputs_of(self._scenario, one)
        )
        found = []
        for number, busy_s in enumerate(grown.busy_s.tolist()):
            taken = 0.0 if one.is_source else float(grown.records_in[number])
            out = 0.0 if isinstance(put_out, int) else float(put_out[number])
            found.append((taken / busy_s, out / busy_s) if busy_s > 0 else (0.0, 0.0))
        return found

    def _target(self, one: Vertex, t_s: float) -> float:
        """Return what a source is to put out, records/s: what is written to its log, or its rate.

        What it emits of each record counts, too.
        """
        stage = self._scenario.stage(one.name)
        rates = stage.arrival_rate or stage.emit_rate or ()
        whole = stage.total_arrival_rate if stage.reads_log else stage.total_rate
        last, since = round(t_s * 1e6), round(self._since_s * 1e6)
        schedules = rates if whole is None else (whole,)
        due = sum(one.integral(last) - one.integral(since) for one in schedules)
        ratio = sum(ratio for _, ratio in outputs_of(self._scenario, one))
        return float(due) / (t_s - self._since_s) * ratio


class AutoscalerController:
    """Flink's autoscaler: looks each ``interval_s`` at the metrics that Flink reports."""

    def __init__(self, scenario: Scenario, scaling: Scaling) -> None:
        self._scenario, self._vertices = scenario, vertices_of(scenario)
        self._partitions, self._interval_s = scaling.partitions, float(scaling.interval_s)
        fixed = [one.name for one in self._vertices.values() if not one.scales]
        excluded = [*scaling.autoscaler.vertex_exclude_ids, *fixed]
        keys = {k: v for k, v in scaling.keys.items() if not k.endswith("vertex.exclude.ids")}
        keys["job.autoscaler.vertex.exclude.ids"] = ",".join(excluded)
        self._scaler = FlinkAutoscaler(keys, scaling.version)
        self._least = self._scaler.settings.metrics_busy_time_aggregator == "min"
        self._due_s, self._widths = 0.0, dict[str, int]()

    def start(self, running_s: float, widths: Mapping[str, int]) -> None:
        """Look as soon as the job runs."""
        self._due_s, self._widths = running_s, dict(widths)

    def is_due(self, t_s: float) -> bool:
        """Tell whether an interval is over."""
        return t_s >= self._due_s - 1e-9

    def look(self, t_s: float, measured: Measured) -> Decision | None:
        """Collect, and decide."""
        self._due_s = t_s + self._interval_s
        self._scaler.observe(
            t_s, {name: self._figures(one, t_s, measured) for name, one in self._vertices.items()}
        )
        found = self._scaler.decide(t_s)
        if not found:
            return None
        reasons = self._scaler.reasons
        return Decision({n: one.new for n, one in found.items()}, {n: reasons[n] for n in found})

    def _figures(self, one: Vertex, t_s: float, measured: Measured) -> dict[str, Any]:
        """Return the metrics of a vertex as Flink reports them."""
        grown = measured.since(one.name, t_s - GAUGE_S)
        seconds = grown.seconds or inf  # the job has just begun
        leaving = [stage for stage, _ in outputs_of(self._scenario, one)]
        head = self._scenario.stage(one.name)
        put_out = sum(measured.records_out(stage.name) for stage in leaving)
        shares = grown.busy_s / seconds * 1000
        busy = float(shares.min() if self._least else shares.max())
        taken, rate_in = measured.records_in(one.name), float(grown.records_in.sum()) / seconds
        if one.is_source and head.selectivity > 0:  # its operator counts what it reads
            taken = measured.records_out(one.name) / head.selectivity
            rate_in = float(grown.records_out.sum()) / seconds / head.selectivity
        return {
            "parallelism": self._widths[one.name],
            "max_parallelism": one.max_parallelism,
            "partitions": self._partitions.get(one.name, 0),
            "inputs": one.inputs,
            "numRecordsIn": taken,
            "numRecordsOut": put_out,
            "numRecordsInPerSecond": rate_in,
            "pendingRecords": measured.lag_records(one.name) if head.reads_log else None,
            "busyTimeMsPerSecond": min(1000.0, busy),
            "backPressuredTimeMsPerSecond": float(grown.blocked_s.mean()) / seconds * 1000,
            "accumulatedBusyTime": measured.busy_s(one.name) * 1000,
        }
