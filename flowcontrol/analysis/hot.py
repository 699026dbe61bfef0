"""Which subtask of a stage is hot: it gets more records than an even share.

Flink's web interface tells that a stage is skewed ("Data Skew"), not who gets the records. Uneven
keys show here whether or not the hot subtask limits: it will, as soon as the load grows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from flowcontrol.analysis.frames import Panels, Tables, end_of, panels_of
from flowcontrol.analysis.panel import Panel
from flowcontrol.analysis.per_subtask import SubtaskFigures, subtask_figures
from flowcontrol.scenario import Scenario

HOT: Final = 1.25
"""Times an even share of the records from which a subtask is hot."""


@dataclass(frozen=True)
class Hot:
    """The subtask of a stage that got the most records."""

    stage: str  # Its stage
    subtask: int  # Its index, from 0
    share: float  # Of the records that the stage took up in the run (ratio)
    of_even: float  # That over an even share
    busy: float  # busy, mean_busy: busy time of the subtask, and mean of the stage's (ratio)
    mean_busy: float

    def document(self) -> dict[str, Any]:
        """Return it as it stands in summary.json, with its sentence."""
        return {**asdict(self), "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """Who is hot, by how much, and how busy that keeps it."""
        return (
            f"Hot: subtask {self.subtask} of {self.stage} got {100 * self.share:.0f} % of its "
            f"records, {self.of_even:.2f} times an even share, and was busy "
            f"{100 * self.busy:.0f} % of the time (mean of {self.stage}: "
            f"{100 * self.mean_busy:.0f} %)."
        )


def find_hot(tables: Tables, scenario: Scenario) -> list[Hot]:
    """Return the hot subtask of each stage that has one, in the order of the scenario.

    ``tables``: ``stages`` of a run.
    """
    panels = panels_of(tables)
    found = (_hot(stage.name, panels) for stage in scenario.stages)
    return [hot for hot in found if hot is not None and hot.of_even >= HOT]


def _hot(stage: str, panels: Panels) -> Hot | None:
    has_others = _rows(panels, stage)["subtask"].any()  # one alone has all there is
    subtasks = _whole(panels, stage) if has_others else []
    if len(subtasks) < 2:
        return None
    most = max(subtasks, key=lambda subtask: subtask.records_in)
    of_even = times_even(most, subtasks)
    if of_even is None:
        return None
    return Hot(
        stage=stage,
        subtask=most.subtask,
        share=of_even / len(subtasks),
        of_even=of_even,
        busy=most.busy_ms_per_s / 1000,
        mean_busy=sum(subtask.busy_ms_per_s for subtask in subtasks) / len(subtasks) / 1000,
    )


def times_even(one: SubtaskFigures, subtasks: list[SubtaskFigures]) -> float | None:
    """Return the records that a subtask took up over an even share; None if its stage got none."""
    records = sum(subtask.records_in for subtask in subtasks)
    return one.records_in * len(subtasks) / records if records else None


def by_subtask(tables: Tables, scenario: Scenario) -> dict[str, list[SubtaskFigures]]:
    """Return the figures of each subtask over the whole run, by stage."""
    panels = panels_of(tables)
    return {stage.name: _whole(panels, stage.name) for stage in scenario.stages}


def _rows(panels: Panels, stage: str) -> Panel:
    return panels.panel("stages").of("stage", stage)


def _whole(panels: Panels, stage: str) -> list[SubtaskFigures]:
    return subtask_figures(_rows(panels, stage), (0.0, end_of(panels)))
