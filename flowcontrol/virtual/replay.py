"""Replayed rows on the virtual clock: no row moves, so only the columns that count are read."""

from __future__ import annotations

from dataclasses import replace

from flowcontrol.arrays import pa
from flowcontrol.errors import RunError
from flowcontrol.job import Job, JobVertex
from flowcontrol.job.replay import Replayed, read_columns, routes_of_keys
from flowcontrol.job.row_keys import row_keys
from flowcontrol.job.row_stamps import dealt, row_needs, stamp_rows
from flowcontrol.scenario.stage_models import Input


def read_replayed(job: Job) -> Replayed:
    """Read how many rows each replaying source has, where a key sends them, and their stamps.

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
    ScenarioError
        If a row has no event time or no number where one is wanted, or there are too many keys.
    """
    found, ids = Replayed(), dict[str, "pa.Table"]()
    for plan in job.stages:
        if plan.stage.input is not None:
            _read(job, plan, plan.stage.input, found, ids)
    keys = row_keys(job, ids)
    stamps = {
        (stage, index): own + keys.offsets[stage] for (stage, index), own in found.stamps.items()
    }
    return replace(found, stamps=stamps, keys=keys)


def _read(
    job: Job, plan: JobVertex, source: Input, found: Replayed, ids: dict[str, pa.Table]
) -> None:
    """Read the rows of a source; add what is to be known of them, and their ids."""
    keyed = [link for link in plan.outputs if link.edge.key is not None]
    names, needs = [str(link.edge.key) for link in keyed], row_needs(job, plan)
    wanted = dict.fromkeys((*names, *(() if needs is None else needs.columns)))
    batches = read_columns(plan.name, source, list(wanted))
    count, subtasks = sum(len(batch) for batch in batches), plan.stage.parallelism
    if count == 0:
        raise RunError(f"the input of stage {plan.name} holds no rows: {source.path}")
    for index in range(subtasks):
        found.limits[plan.name, index] = len(range(index, count, subtasks))
    if needs is not None:  # first, for it refuses rows that do not fit
        stamped = stamp_rows(needs, batches)
        ids[plan.name] = stamped.ids
        for index, own in enumerate(dealt(stamped.stamps, subtasks)):
            found.stamps[plan.name, index] = own
    for link, name in zip(keyed, names, strict=True):
        keys = pa.chunked_array([batch.column(name) for batch in batches])
        routes = routes_of_keys(keys, len(link.outgoing(0)))  # hash: all senders reach all
        for index, own in enumerate(dealt(routes, subtasks)):
            found.tables[link.name, index] = own
