"""Replayed rows on the virtual clock: no row moves, so only the key column is read."""

from __future__ import annotations

from flowcontrol.errors import RunError
from flowcontrol.job import Job, JobVertex
from flowcontrol.job.replay import Replayed, read_columns, routes_of_keys
from flowcontrol.scenario.stage_models import Input


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
    batches = read_columns(plan.name, source, list(dict.fromkeys(names)))
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
