"""The columns of the table ``tuning``: a row a point, in the order in which they were asked for."""

from collections.abc import Sequence
from typing import Final

from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.sweep.varied import Varied
from flowcontrol.experiments.tune.goals import known_before
from flowcontrol.records import Column, Table

_BEFORE: Final = (
    Column("run", "int64", "", "Number of the point, from 1, in the order of the search."),
    Column("variant", "string", "", "Its variant in the table `results`; empty if it was refused."),
)
_AFTER: Final = (
    Column("state", "string", "", "run, or refused: the point is not a valid scenario."),
    Column("reason", "string", "", "Why it was refused; empty for others."),
    Column("feasible", "bool", "", "Whether it was run and satisfies every constraint."),
    Column(
        "missed_by",
        "float64",
        "",
        "Largest relative miss of a constraint, in parts of its limit; 0 if all hold, 10 if the "
        "run has no such figure, null for a refused point.",
        nullable=True,
    ),
    Column(
        "on_front",
        "bool",
        "",
        "Whether it is feasible and no other feasible point is as good in both figures of the "
        "picture and better in one; the first of equal ones.",
    ),
    Column("is_best", "bool", "", "Whether it is the chosen one."),
    Column(
        "bottleneck",
        "string",
        "",
        "Bottleneck of the run: a stage, or an edge with too few buffers; empty if nothing "
        "limited for long.",
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
