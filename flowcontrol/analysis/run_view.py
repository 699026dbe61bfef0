"""A run as its figures read it: values that several figures need are computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from flowcontrol.analysis.checkpoints import checkpoint_metrics
from flowcontrol.analysis.frames import (
    Panels,
    Tables,
    combine_latencies,
    end_of,
    in_flight_buffers,
    latency_panel,
    panels_of,
    second_half_start,
)
from flowcontrol.analysis.lag import Lag, find_lags
from flowcontrol.analysis.panel import Panel, Window, mean_over_time
from flowcontrol.analysis.producer_rates import (
    WINDOW_SAMPLES,
    Counted,
    Limit,
    PiledUp,
    Reaction,
    Response,
    Step,
    limit_steps,
    most_piled_up,
    reaction_of,
    responses,
)
from flowcontrol.analysis.subtasks import MEANS, SubtaskFigures, largest, subtask_figures
from flowcontrol.analysis.waits import waits_as_idle
from flowcontrol.records import MARKER
from flowcontrol.scenario import Scenario, Stage

EDGE_MEANS = ("credit", "backlog", "floating_held", "queued")
EDGE_PEAKS = ("in_flight_buffers", "in_flight_records", "in_flight_bytes")


class Facts(Protocol):
    """What a run tells beside its tables."""

    @property
    def control_messages(self) -> int | None:
        """Messages without data; None on the live clock."""

    @property
    def is_bounded(self) -> bool | None:
        """Whether the system bounds what is held between the stages."""

    @property
    def heap_exhausted_s(self) -> float | None:
        """When a heap was full, s; None: never."""


@dataclass(frozen=True)
class RunView:
    """A run; without tables it has the figures of its scenario alone."""

    scenario: Scenario
    given: Tables
    limits: Sequence[Limit] | None = None  # Of the job; None: unknown
    facts: Facts | None = None  # None: not asked for

    @cached_property
    def tables(self) -> Panels:
        """The tables with their panels."""
        return panels_of(self.given)

    @cached_property
    def end_s(self) -> float:
        """Time of the last sample, s."""
        return end_of(self.tables)

    @cached_property
    def windows(self) -> dict[str, Window]:
        """The parts of the run that figures cover: ``whole`` and ``second_half``."""
        start = second_half_start(self.tables)
        return {"whole": (0.0, self.end_s), "second_half": (start, self.end_s)}

    @cached_property
    def stage_rows(self) -> Panel:
        """The table ``stages``; of a source in batches waits for a trigger count as idle."""
        return waits_as_idle(self.tables.panel("stages"), self.scenario)

    @cached_property
    def latencies(self) -> Panel:
        """Latencies of records."""
        return latency_panel(self.tables)

    @cached_property
    def markers(self) -> Panel:
        """Latencies of latency markers."""
        return latency_panel(self.tables, MARKER)

    @cached_property
    def channels(self) -> Panel:
        """The table ``channels``, with ``in_flight_buffers`` and ``waits_for_credit``."""
        rows = self.tables.panel("channels")
        return rows.with_columns(
            in_flight_buffers=in_flight_buffers(rows, self.scenario),
            waits_for_credit=(rows["credit"] == 0) & (rows["backlog"] > 0),
        )

    def stage(self, name: str, window: Window) -> StageView:
        """Return a stage in a window."""
        return StageView(self, self.scenario.stage(name), window)

    def rows_of(self, stages: Sequence[Stage]) -> Panel:
        """Return the rows of some stages in the table ``stages``, as it is."""
        return self.tables.panel("stages").among("stage", [stage.name for stage in stages])

    def counted(self, stages: Sequence[Stage], column: str) -> Counted:
        """Return what some stages together have counted over the run."""
        rows = self.rows_of(stages).per_sample([column])
        return Counted(rows["t_s"].tolist(), rows[column].astype(float).tolist())

    @cached_property
    def produced(self) -> Counted:
        """What all sources together emitted."""
        return self.counted(self.scenario.sources, "records_out")

    @cached_property
    def consumed(self) -> Counted:
        """What all sinks together took up."""
        return self.counted(self.scenario.sinks, "records_in")

    @cached_property
    def in_flight(self) -> Panel:
        """Records and bytes in flight at each sample, all channels together."""
        return self.tables.panel("channels").per_sample(["in_flight_records", "in_flight_bytes"])

    @cached_property
    def logs(self) -> Panel | None:
        """What waits in all logs at each sample, and its age; None without a log."""
        readers = [stage for stage in self.scenario.stages if stage.reads_log]
        rows = self.rows_of(readers)
        if not len(rows):
            return None
        ages = rows.per_sample(["lag_s"], "max")
        return rows.per_sample(["lag_records"]).with_columns(lag_s=ages["lag_s"])

    @cached_property
    def lags(self) -> dict[str, Lag]:
        """How each source that reads a log fared with it."""
        return {lag.stage: lag for lag in find_lags(self.tables, self.scenario)}

    @cached_property
    def latency(self) -> dict[str, float]:
        """Latencies of all records, all sinks together; empty if none was taken up."""
        return combine_latencies(self.latencies) or {}

    @cached_property
    def checkpoints(self) -> tuple[float | None, int | None, float | None]:
        """Of :func:`~flowcontrol.analysis.checkpoints.checkpoint_metrics`."""
        return checkpoint_metrics(self.tables)

    @cached_property
    def restarts(self) -> list[dict[str, Any]] | None:
        """The failures; None for a job that neither checkpoints nor fails."""
        table = self.tables.get("restarts")
        return None if table is None else table.to_pylist()

    @cached_property
    def steps(self) -> list[Step]:
        """The limit of all sources together over time; empty where it is not known."""
        return limit_steps(self.limits)

    @cached_property
    def window_s(self) -> float:
        """Time over which rates are averaged to compare them with the limit, s."""
        return WINDOW_SAMPLES * self.scenario.sample_interval_s

    @cached_property
    def changes(self) -> tuple[Response, ...]:
        """What the producers did after each change of their limit."""
        return tuple(responses(self.produced, self.steps, self.window_s))

    @cached_property
    def slowdown(self) -> Reaction:
        """What they did after its falls."""
        return reaction_of(self.changes, is_slowdown=True)

    @cached_property
    def release(self) -> Reaction:
        """What they did after its rises."""
        return reaction_of(self.changes, is_slowdown=False)

    @cached_property
    def piled_up(self) -> dict[int, PiledUp]:
        """Where most piled up, for each slowdown that was not followed, by its place."""
        found = {
            place: most_piled_up(self.tables.panel("channels"), change.at_s, change.until_s)
            for place, change in enumerate(self.changes)
            if change.missed == "above" and change.is_slowdown
        }
        return {place: one for place, one in found.items() if one is not None}

    @cached_property
    def moved_bytes(self) -> float:
        """Bytes of records that receivers took up, on all edges between tasks.

        What a stage emitted on an edge, less what is in flight there at the end.
        """
        stages, channels = self.tables.panel("stages"), self.tables.panel("channels")
        moved, whole = 0.0, self.windows["whole"]
        for edge in self.scenario.edges:
            if edge.chain:
                continue
            width = self.scenario.stage(edge.receiver).parallelism
            copies = width if edge.partitioner == "broadcast" else 1
            sent = stages.of("stage", edge.sender).growth(["subtask"], ["records_out"], whole)
            left = channels.of("edge", edge.name).growth(
                ["sender", "receiver"], ["in_flight_records"], whole
            )
            records = sent[1][0].sum() * copies - left[1][0].sum()
            moved += float(records) * self.scenario.stage(edge.sender).record_bytes
        return moved

    def edge(self, name: str, window: Window) -> dict[str, Any]:
        """Return the figures of an edge in a window, its channels taken together.

        ``waiting_for_credit`` is the share of channels and samples with a backlog and no credit;
        ``messages`` counts sent messages.
        """
        samples = self.channels.of("edge", name)
        rows = samples.within(window)
        sums = rows.per_sample([*EDGE_MEANS, *EDGE_PEAKS])
        _, [sent] = samples.growth(["sender", "receiver"], ["sent"], window)
        return {
            "messages": int(sent.sum()),
            "waiting_for_credit": mean_over_time(rows, "waits_for_credit"),
            **sums.means([*EDGE_MEANS, *EDGE_PEAKS]),
            **{f"max_{peak}": int(sums[peak].max(initial=0)) for peak in EDGE_PEAKS},
        }


@dataclass(frozen=True)
class StageView:
    """A stage in a part of a run."""

    run: RunView
    stage: Stage
    window: Window

    @cached_property
    def rows(self) -> Panel:
        """Its samples."""
        return self.run.stage_rows.of("stage", self.stage.name).within(self.window)

    @cached_property
    def subtasks(self) -> list[SubtaskFigures]:
        """The figures of each subtask."""
        samples = self.run.stage_rows.of("stage", self.stage.name)
        return subtask_figures(samples, self.window)

    @cached_property
    def most(self) -> dict[str, float]:
        """Each figure of the subtask with the most of it."""
        return largest(self.subtasks)

    @cached_property
    def means(self) -> dict[str, float]:
        """Means of shares, usages and levels over subtasks and time."""
        return self.rows.means(MEANS)

    @cached_property
    def sums(self) -> dict[str, float]:
        """Means over time of the same, all subtasks together."""
        return self.rows.per_sample(MEANS).means(MEANS)

    def grown(self, column: str) -> int:
        """Return the growth of a counter, all subtasks together."""
        return sum(getattr(one, column) for one in self.subtasks)

    def rate(self, column: str) -> float:
        """Return that growth over the length of the window."""
        length = self.window[1] - self.window[0]
        return self.grown(column) / length if length > 0 else 0.0

    @cached_property
    def worst_lag(self) -> Panel:
        """How far the worst subtask is behind its log at each sample."""
        return self.rows.per_sample(["lag_s"], "max")

    @cached_property
    def latency(self) -> dict[str, float] | None:
        """Latencies of the records that it took up; None where there are none."""
        rows = self.run.latencies.of("stage", self.stage.name)
        return combine_latencies(rows.within(self.window))

    @cached_property
    def marker_latency(self) -> dict[str, float] | None:
        """The same of latency markers."""
        rows = self.run.markers.of("stage", self.stage.name)
        return combine_latencies(rows.within(self.window))

    @cached_property
    def inputs(self) -> list[dict[str, Any]]:
        """The figures of the edges that lead to it."""
        edges = self.run.scenario.inputs(self.stage.name)
        return [self.run.edge(edge.name, self.window) for edge in edges]


def downtime_s(found: Sequence[Mapping[str, Any]], end_s: float) -> float:
    """Return the time in which something was down; failures may overlap."""
    total, until = 0.0, 0.0
    for one in sorted(found, key=lambda one: float(one["failed_s"])):
        ended = end_s if one["running_s"] is None else one["running_s"]
        later = [two["failed_s"] for two in found if two["number"] > one["number"]]
        if one["running_s"] is None and later:
            ended = min(later)
        total += max(0.0, ended - max(until, one["failed_s"]))
        until = max(until, ended)
    return round(total, 6)
