"""The tables of a run as the rules of causes read them, each made into a frame once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flowcontrol.analysis.frames import Tables, end_of, mean_over_time, means_by, result_frame
from flowcontrol.analysis.limits import Limits
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

Times = frozenset[float]
"""Ends of sample intervals, emulated s."""


@dataclass(frozen=True)
class Run:
    """A run whose causes are looked for."""

    tables: Tables  # Its results
    scenario: Scenario  # What was run
    limits: Limits  # What limited in each interval, that of the job first

    @cached_property
    def samples(self) -> pd.DataFrame:
        """The table ``stages`` with ``interval_s``."""
        return result_frame(self.tables, "stages")

    @cached_property
    def channels(self) -> pd.DataFrame:
        """The table ``channels`` with ``interval_s``."""
        return result_frame(self.tables, "channels")

    @cached_property
    def of_stage(self) -> Mapping[str, pd.DataFrame]:
        """The samples of each stage, none of one that has no rows."""
        found = {str(name): rows for name, rows in self.samples.groupby("stage", sort=False)}
        nothing = self.samples.iloc[:0]
        return {one.name: found.get(one.name, nothing) for one in self.scenario.stages}

    @cached_property
    def limited(self) -> Mapping[str, Times]:
        """The intervals in which each stage, edge or throttle limited a part of the job."""
        found: dict[str, set[float]] = {}
        for interval, names in self.limits:
            for name in names:
                found.setdefault(name, set()).add(interval.t_s)
        return {name: frozenset(times) for name, times in found.items()}

    @cached_property
    def lengths(self) -> Mapping[float, float]:
        """The length of the interval of each sample, s, in the order of time."""
        return {interval.t_s: interval.length_s for interval, _ in self.limits}

    @property
    def total_s(self) -> float:
        """Emulated time of the run, s."""
        return end_of(self.tables)

    def frame(self, name: str) -> pd.DataFrame | None:
        """Return a further table; None if the run has no such table, or no row of it."""
        table = self.tables.get(name)
        if table is None or not table.num_rows:
            return None
        found: pd.DataFrame = table.to_pandas()
        return found

    def length(self, times: Collection[float]) -> float:
        """Return the length of some intervals together, s."""
        return sum(self.lengths[t_s] for t_s in times)

    def rows(self, stage: str, times: Collection[float]) -> pd.DataFrame:
        """Return the samples of a stage at some times."""
        own = self.of_stage[stage]
        return own[own["t_s"].isin(times)]

    def by_subtask(self, stage: str, column: str, times: Collection[float]) -> dict[int, float]:
        """Return the mean of a column over some intervals for each subtask."""
        return means_by(self.rows(stage, times), "subtask", column)

    def mean(self, stage: str, column: str, times: Collection[float]) -> float:
        """Return the mean of a column over some intervals and all subtasks."""
        return mean_over_time(self.rows(stage, times), column)

    def worst(self, stage: str, column: str, times: Collection[float]) -> float:
        """Return the mean over some intervals of the subtask with the most of it."""
        return max(self.by_subtask(stage, column, times).values(), default=0.0)

    def total(self, stage: str, column: str, times: Collection[float]) -> float:
        """Return the sum over the subtasks of the means over some intervals."""
        return sum(self.by_subtask(stage, column, times).values())

    def span(self, times: Collection[float]) -> str:
        """Return which rows some figures are from, ``t_s 0.4 to 3.2``."""
        ordered = sorted(times)
        if not ordered:
            return "no sample"
        if len(ordered) == 1:
            return f"t_s {ordered[0]:g}"
        return f"{len(ordered)} samples, t_s {ordered[0]:g} to {ordered[-1]:g}"
