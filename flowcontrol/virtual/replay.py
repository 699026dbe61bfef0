"""Replayed rows on the virtual clock: no row moves, so only the key column is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcontrol.errors import RunError
from flowcontrol.job import Job, JobVertex
from flowcontrol.job.replay import Replayed, routes_of_keys
from flowcontrol.scenario.inputs import read_rows
from flowcontrol.scenario.stage_models import Input

if TYPE_CHECKING:
    import pyarrow as pa


def read_replayed(job: Job) -> Replayed:
    """Read how many rows each replaying source has, and where a key sends them.

    Parameters
    ----------
    job : Job
        The scenario, laid out.

    Returns
    -------
    Replayed
        Of all its replaying sources; empty if there is none.

    Raises
    ------
    RunError
        If an input cannot be read or has no rows.
    """
    found = Replayed()
    for plan in job.stages:
        if plan.stage.input is not None:
            _read(plan, plan.stage.input, found)
    return found


def _read(plan: JobVertex, source: Input, found: Replayed) -> None:
    import pyarrow as pa

    keyed = [link for link in plan.outputs if link.edge.key is not None]
    names = [str(link.edge.key) for link in keyed]
    batches = _batches(plan, source, list(dict.fromkeys(names)))
    count, subtasks = sum(len(batch) for batch in batches), plan.stage.parallelism
    if count == 0:
        raise RunError(f"the input of stage {plan.name} holds no rows: {source.path}")
    for index in range(subtasks):
        found.limits[plan.name, index] = len(range(index, count, subtasks))
    for link, name in zip(keyed, names, strict=True):
        keys = pa.chunked_array([batch.column(name) for batch in batches])
        routes = routes_of_keys(keys, len(link.outgoing(0)))  # hash: all senders reach all
        for index in range(subtasks):
            found.tables[link.name, index] = routes[index::subtasks]


def _batches(plan: JobVertex, source: Input, names: list[str]) -> list[pa.RecordBatch]:
    try:
        return list(read_rows(source, names))
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        text = f"stage {plan.name}: its input {source.path} cannot be read: {reason}"
        raise RunError(text) from error
