"""A cause, and a run as the search for causes sees it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from flowcontrol.analysis.frames import Tables, end_of, mean_over_time, means_by, result_frame
from flowcontrol.analysis.limits import Limits
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd


Word = Literal[
    "none", "operator", "key_skew", "channel_skew", "stall", "cpu", "network", "buffers", "disk",
    "checkpoint", "external", "throttle", "source", "downstream",
]  # fmt: skip

WORDS: Final[tuple[Word, ...]] = get_args(Word)
"""The words for a cause, in the order of the documents."""


@dataclass(frozen=True)
class Cause:
    """Why a job is slow, or one of several reasons.

    Attributes
    ----------
    stage : str or None
        The stage where it is; of an exchange the receiving one. None for the whole job.
    subtask : int or None
        The subtask, if it is one of several.
    cause : str
        One of ``flowcontrol.analysis.causes.WORDS``.
    evidence : tuple of str
        Sentences with the figures that show it, and the rows of the tables that they are from.
    confidence : float
        From 0 to 1: how sure it is.
    reason : str
        Why it is no surer, or why so sure.
    advice : str
        What helps, in a few words.
    limited_s : float, s
        Emulated time for which it limited; 0 if nothing did.
    beside : tuple of str
        Other stages that stood still with it, as all of a task manager do.
    """

    stage: str | None
    subtask: int | None
    cause: Word
    evidence: tuple[str, ...]
    confidence: float
    reason: str = ""
    advice: str = ""
    limited_s: float = 0.0
    beside: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return it as it stands in summary.json."""
        return {
            "stage": self.stage,
            "subtask": self.subtask,
            "cause": self.cause,
            "evidence": list(self.evidence),
            "confidence": self.confidence,
            "reason": self.reason,
            "advice": self.advice,
            "limited_s": self.limited_s,
            **({"beside": list(self.beside)} if self.beside else {}),
        }


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
