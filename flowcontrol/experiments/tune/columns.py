"""The columns of the table ``tuning``: a row a point, in the order in which they were asked for."""

from collections.abc import Sequence
from typing import Final

from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.sweep.varied import Varied
from flowcontrol.experiments.tune.goals import known_before
from flowcontrol.records import Column, Table

_BEFORE: Final = (
    Column("run", "int64", "", "Number of the point, from 1, in the order of the search."),
    Column(
        "variant", "string", "", "The variant's in the table `results`; empty if it was refused."
    ),
)
_AFTER: Final = (
    Column(
        "state",
        "string",
        "",
        "run, or refused: the point is not a scenario that can run, so nothing was.",
    ),
    Column("reason", "string", "", "Why it was refused; empty for others."),
    Column("feasible", "bool", "", "Whether it was run and satisfies every constraint."),
    Column(
        "missed_by",
        "float64",
        "",
        "Largest relative miss of a constraint, in parts of its limit; 0 if all hold, 10 for a "
        "figure that the run has not, null for a refused one.",
        nullable=True,
    ),
    Column(
        "on_front",
        "bool",
        "",
        "Whether it is feasible and no other feasible point is as good in both figures of the "
        "picture and better in one; of equal ones the first.",
    ),
    Column("is_best", "bool", "", "Whether it is the chosen one."),
    Column(
        "bottleneck",
        "string",
        "",
        "What limited the run: a stage, or an edge whose buffers are too few; empty if nothing "
        "did for long.",
    ),
)

FIXED: Final = tuple(column.name for column in (*_BEFORE, *_AFTER))
"""Names of the columns that every table has."""


def reserved() -> tuple[str, ...]:
    """Return the names that no column of a varied key gets."""
    return (*FIXED, *known_before())


def tuning_table(varied: Sequence[Varied], measures: Sequence[Metric]) -> Table:
    """Return the declaration of the table of a search."""
    keys = [one.result_column() for one in varied]
    figures = [one.column for one in measures]
    return Table("tuning", "One point of a search.", (*_BEFORE, *keys, *figures, *_AFTER))
