"""Columns of the rows that move: made ones, replayed ones, and the hidden ones beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcontrol.errors import Problem, ScenarioError

if TYPE_CHECKING:
    import pyarrow as pa

    from flowcontrol.job import Job, JobVertex

__all__ = ["HIDDEN", "ROUND", "SUBTASK", "exchange_schema", "made_schema", "row_schemas"]

ROUND = "_round"
"""Hidden column: round of emission at the source."""

SUBTASK = "_subtask"
"""Hidden column: subtask that takes the row up. It travels to the executors, not into files."""

HIDDEN = (ROUND, SUBTASK)


def made_schema() -> pa.Schema:
    """Return the columns of a made row: which source, which subtask of it, and its number."""
    import pyarrow as pa

    return pa.schema(
        [("source", pa.string()), ("source_subtask", pa.int64()), ("number", pa.int64())]
    )


def exchange_schema(rows: pa.Schema) -> pa.Schema:
    """Return the columns of an exchange file: the row's own and the round of emission."""
    import pyarrow as pa

    return rows.append(pa.field(ROUND, pa.int64()))


def row_schemas(job: Job, replayed: dict[str, pa.Schema]) -> dict[str, pa.Schema]:
    """Return the columns of the rows that each stage takes up (a source: emits).

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    replayed : dict of str to pyarrow.Schema
        Columns of the rows of each replaying source.

    Raises
    ------
    ScenarioError
        If the inputs of a stage have different columns.
    """
    schemas: dict[str, pa.Schema] = {}
    for plan in job.stages:
        if plan.is_source:
            schemas[plan.name] = replayed.get(plan.name, made_schema())
            continue
        first, *others = [link.edge.sender for link in plan.inputs]
        for other in others:
            _check_equal(plan, first, schemas[first], other, schemas[other])
        schemas[plan.name] = schemas[first]
    return schemas


def _check_equal(plan: JobVertex, one: str, left: pa.Schema, two: str, right: pa.Schema) -> None:
    if left.equals(right):
        return
    problem = Problem(
        f"stages.{plan.name}",
        f"its inputs have different columns: {one} has {', '.join(left.names)}; {two} has "
        f"{', '.join(right.names)}; feed it from sources with equal columns",
    )
    raise ScenarioError([problem])
