"""The result of a comparison: outcomes, tables, page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowcontrol.experiments.compare.columns import (
    RATES,
    print_comparison,
    rate_rows,
    result_row,
    results_table,
)
from flowcontrol.experiments.compare.limits import LimitPhase
from flowcontrol.experiments.compare.plan import Comparison
from flowcontrol.experiments.compare.run import Outcome
from flowcontrol.experiments.compare.wording import headline
from flowcontrol.report.result import Result

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


@dataclass(frozen=True, repr=False)
class CompareResult(Result):
    """The result of a comparison.

    Attributes
    ----------
    path : Path
        Its folder: Delta tables ``results`` and ``rates``, and ``report.html``.
    comparison : Comparison
        The plan.
    outcomes : tuple of Outcome
        Of each system, in the order of the plan.
    limits : list of LimitPhase, or None
        The limit of the job.
    """

    kind = "comparison of systems on"

    path: Path
    comparison: Comparison
    outcomes: tuple[Outcome, ...]
    limits: list[LimitPhase] | None

    @cached_property
    def name(self) -> str:
        """Name of the scenario."""
        return self.comparison.name

    @cached_property
    def sentence(self) -> str:
        """Who brought most through, and at what price."""
        return headline(self.outcomes)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Scenario, clock, the conclusion, and the figures of each system by its name."""
        systems = {outcome.system: result_row(outcome) for outcome in self.outcomes}
        return {
            "scenario": self.name,
            "clock": self.comparison.clock,
            "sentence": self.sentence,
            "systems": systems,
        }

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """``results``, a row per system, and ``rates``, a row per system and sample."""
        import pyarrow as pa

        rates = [row for outcome in self.outcomes for row in rate_rows(outcome)]
        rows = ((results_table(), list(self.summary["systems"].values())), (RATES, rates))
        return {
            table.name: pa.Table.from_pylist(found, schema=table.arrow_schema())
            for table, found in rows
        }

    def show(self, console: Console | None = None) -> None:
        """Print the systems beside each other and what to conclude."""
        print_comparison(self, console)

    def failed(self) -> list[Outcome]:
        """Return the systems that failed."""
        return [outcome for outcome in self.outcomes if outcome.state == "failed"]
