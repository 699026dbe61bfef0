"""The table of a sweep: its columns, and the rows that a run gives.

A row is one stage in one variant. The figures are those of :mod:`flowcontrol.analysis.figures`,
each over the whole run and, with the suffix :data:`SECOND_HALF`, over its second half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis import find_bottleneck
from flowcontrol.analysis.bottleneck import worst_pressure
from flowcontrol.analysis.figures import SECOND_HALF, Figure, figures
from flowcontrol.analysis.run_view import RunView, StageView
from flowcontrol.analysis.waits import ROUND
from flowcontrol.records import Column, Table
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    from flowcontrol.results.run import Run

_DIGITS: Final = 6
"""Decimals of a figure, as in summary.json."""

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
        "Bottleneck of the variant: a stage, an edge with too few buffers, or only the length of "
        "a round; empty if nothing limited for long. The same in all rows of a variant.",
    ),
    Column("rounds", "int64", "rounds", "Rounds of the virtual clock."),
    Column("round_ms", "float64", "ms", "Emulated time of a round."),
    Column("wall_s", "float64", "s", "Time that the simulation took."),
)


def swept() -> tuple[Figure, ...]:
    """Return the figures of a sweep, in the order of the table."""
    return (*figures("sweep", of_job=False), *map(_of_all, figures("sweep", of_job=True)))


def _of_all(figure: Figure) -> Figure:
    """Return a figure of the job, which is in the rows of all stages."""
    meaning = f"{figure.column.meaning} The same in all rows of a variant."
    return replace(figure, column=replace(figure.column, meaning=meaning))


def results_table(varied: Sequence[Column]) -> Table:
    """Return the declaration of a sweep's table."""
    halves = [figure.second_half for figure in swept() if figure.has_half]
    own = [figure.column for figure in swept()] + halves
    return Table(
        "results", "One stage of one variant.", (*_BEFORE, *varied, *_MIDDLE, *own, *_AFTER)
    )


def fixed() -> tuple[str, ...]:
    """Return the names of the columns of every sweep; columns of varied keys have others."""
    return results_table(()).names


def figure_named(name: str) -> Figure:
    """Return the figure of a column, of the whole run or of its second half.

    Raises KeyError if there is none.
    """
    for figure in swept():
        if figure.column.name == name:
            return figure
        if figure.has_half and figure.second_half.name == name:
            return replace(figure, column=figure.second_half)
    raise KeyError(name)


def variant_rows(run: Run, scenario: Scenario, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each stage of a run, with every column of the table.

    ``given``: the columns that all rows share: variant, varied values, replication, seed.
    """
    view = RunView(scenario, run.tables, facts=run)
    shared = {
        **given,
        "bottleneck": _bottleneck(view, run.round_us),
        "rounds": run.rounds,
        "round_ms": run.round_us / 1000,
        "wall_s": run.wall_s,
        **{one.column.name: _value(one, view) for one in figures("sweep", of_job=True)},
    }
    return [{**shared, **_stage(view, stage.name)} for stage in scenario.stages]


def _stage(view: RunView, name: str) -> dict[str, Any]:
    """Return what the row of a stage has of its own."""
    whole, half = (view.stage(name, window) for window in view.windows.values())
    found: dict[str, Any] = {"stage": name, "parallelism": whole.stage.parallelism}
    blocked = (one.backpressured_ms_per_s for one in whole.subtasks)
    found["pressure"] = worst_pressure(blocked).value
    for one in figures("sweep", of_job=False):
        found[one.column.name] = _value(one, whole)
        if one.has_half:
            found[one.column.name + SECOND_HALF] = _value(one, half)
    return found


def _value(figure: Figure, view: RunView | StageView) -> Any:
    found = figure.typed(view)
    return round(found, _DIGITS) if isinstance(found, float) else found


def _bottleneck(view: RunView, round_us: int) -> str:
    """Return the stage, the edge, the throttle or ROUND that limited; empty for none."""
    found = find_bottleneck(view.tables, view.scenario, round_us=round_us)
    return ROUND if found.is_of_round else found.stage or found.edge or found.throttle or ""
