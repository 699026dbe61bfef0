"""The results of a window stage as a table, of either clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from flowcontrol.job.job import Job
from flowcontrol.protocol.event_time import MAX_TIME, MIN_TIME
from flowcontrol.records import RESULTS_OF_WINDOWS, Column, Table

if TYPE_CHECKING:
    import pyarrow as pa

    from flowcontrol.scenario.windows import WindowPlan

Ints = npt.NDArray[np.int64]

EMITTED = "emitted_s"
"""Column of the table that results on their way do not have."""


def table_name(stage: str) -> str:
    """Return the name of the table of a stage's results: its folder below that of the run.

    The same as that of a sink's rows on the live clock.
    """
    return f"output/{stage}"


def window_stages(job: Job) -> list[str]:
    """Return the stages that have a window."""
    return [stage.name for stage in job.scenario.stages if stage.window is not None]


def declared(window: WindowPlan) -> Table:
    """Return the columns of a window's results: its aggregates stand before the time."""
    *before, emitted = RESULTS_OF_WINDOWS.columns
    counts = [
        Column(one.name, "int64", "records", f"Aggregate {one.function} of the window.")
        for one in window.aggregations
    ]
    return replace(RESULTS_OF_WINDOWS, columns=(*before, *counts, emitted))


def result_schema(window: WindowPlan) -> pa.Schema:
    """Return the columns of results as a stage sends them on."""
    schema = declared(window).arrow_schema()
    return schema.remove(schema.get_field_index(EMITTED))


def key_names(job: Job, stage: str) -> Sequence[str]:
    """Return the names of the keys of a stage's records, by number.

    Notes
    -----
    Those that the edges into it name; else, as of a ``key_distribution``, 1, 2, 3 ...
    """
    for edge in job.scenario.inputs(stage):
        if edge.key_weights is not None:
            return list(edge.key_weights)
    window = job.scenario.window_of(stage)
    keys = 1 if window is None or window.keys is None else window.keys
    return [str(rank) for rank in range(1, keys + 1)]


def window_table(
    job: Job, stage: str, starts: Ints, ends: Ints, keys: Ints, counts: Ints, rounds: Ints
) -> pa.Table:
    """Return the results of a window stage, in the order in which they were put out.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    stage : str
        A stage with a window.
    starts, ends : ndarray of int64, shape (results,)
        Of the windows, ms; the second is behind the last millisecond.
    keys, counts : ndarray of int64, shape (results,)
        Number of the key, and records in the window.
    rounds : ndarray of int64, shape (results,)
        In which it was put out.
    """
    import pyarrow as pa

    window = job.scenario.window_of(stage)
    assert window is not None
    names = np.array(key_names(job, stage), object)
    columns = {
        "window_start": pa.array(starts / 1000, mask=starts == MIN_TIME),
        "window_end": pa.array(ends / 1000, mask=ends == MAX_TIME),
        "key": names[keys],
        **{one.name: counts for one in window.aggregations},
        "emitted_s": (rounds + 1) * (job.round_us / 1e6),
    }
    schema = declared(window).arrow_schema()
    return pa.table([pa.array(columns[one.name], one.type) for one in schema], schema)
