"""The figures of a run in a comparison: numbers, and what producers did at each change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flowcontrol.analysis.figures import Figures, values_of
from flowcontrol.analysis.producer_rates import PiledUp, Reaction, Response, reaction_of
from flowcontrol.analysis.run_view import RunView
from flowcontrol.experiments.compare.limits import LimitPhase
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario


@dataclass(frozen=True)
class Compared(Figures):
    """The figures of a run."""

    changes: tuple[Response, ...] = ()  # What the producers did after each change of the limit
    # For each change that was not followed, by its position: where most piled up.
    piled_up: Mapping[int, PiledUp] = field(default_factory=dict)

    @property
    def slowdown(self) -> Reaction:
        """What the producers did after the falls of the limit that count."""
        return reaction_of(self.changes, is_slowdown=True)

    @property
    def release(self) -> Reaction:
        """What the producers did after the rises of the limit that count."""
        return reaction_of(self.changes, is_slowdown=False)


def figures_of(run: Run, scenario: Scenario, limits: Sequence[LimitPhase] | None) -> Compared:
    """Return the figures of a run, as ``docs/reference/figures.md`` defines them.

    ``limits``: the limit of the job; None: unknown.
    """
    view = RunView(scenario, run.tables, limits, run)
    return Compared(values_of(view, "compare"), view.changes, view.piled_up)
