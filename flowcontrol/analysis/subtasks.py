"""Which subtasks of a stage limit it, when not all of them do.

A busy subtask need not limit: beside one that is overloaded, another may be busy for 80 % of the
time and take up at once whatever comes. What limits is busy near the top *and* has records
waiting in front of it, about as many as the subtask with most of them. Records in front of a
subtask are those in flight on all its channels, so that every transport is judged alike: they
wait in its pool, in its queue, or at senders that it holds back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis.frames import mean_over_time, result_frame

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from flowcontrol.scenario import Scenario

NEVER_IDLE: Final = 0.995
"""Busy share of a subtask that never waits for records, as one whose queue grows."""

NEAR_TOP: Final = 0.9
"""A subtask may limit when it is at least this busy, relative to the busiest of its stage ..."""

WAITED_FOR: Final = 0.5
"""... and has at least this share of the records in front of it that the one with most has."""

SPARE: Final = 0.85
"""The others have time to spare when they are on average at most this busy, relative to it."""


@dataclass(frozen=True)
class Limiting:
    """The subtasks that limit a stage.

    Attributes
    ----------
    subtasks : tuple of int
        Their indices; empty when the stage limits as a whole.
    waiting : float, ratio
        Share of the records on their way into the stage that are in front of them; 0 without any.
    """

    subtasks: tuple[int, ...] = ()
    waiting: float = 0.0


def limiting_subtasks(
    tables: Mapping[str, pa.Table], scenario: Scenario, stage: str, times: frozenset[float]
) -> Limiting:
    """Return the subtasks that limit a stage while the others have time to spare.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        ``stages`` and ``channels`` of the run.
    scenario : Scenario
        Its edges say which channels lead into the stage.
    stage : str
        A stage that limits.
    times : frozenset of float, s
        The samples in whose intervals it does.

    Returns
    -------
    Limiting
        No subtask if all are about equally busy, if most of them limit, or if nothing waits.
    """
    samples = result_frame(tables, "stages")
    busy = _busy(samples[(samples["stage"] == stage) & samples["t_s"].isin(times)])
    waiting = _waiting(tables, scenario, stage, times)
    top, most = max(busy.values(), default=0.0), max(waiting.values(), default=0.0)

    def limits(subtask: int) -> bool:
        share = busy[subtask] / top
        here = waiting.get(subtask, 0.0)
        return share >= NEAR_TOP and here > 0 and (here >= WAITED_FOR * most or share >= NEVER_IDLE)

    found = tuple(subtask for subtask in busy if top > 0 and limits(subtask))
    rest = [figure for subtask, figure in busy.items() if subtask not in found]
    if not found or len(found) > len(rest) or sum(rest) / len(rest) > SPARE * top:
        return Limiting()
    return Limiting(found, sum(waiting[subtask] for subtask in found) / sum(waiting.values()))


def _busy(rows: pd.DataFrame) -> dict[int, float]:
    """Return the mean busy time of each subtask, ms/s."""
    return {
        int(str(subtask)): mean_over_time(part, "busy_ms_per_s")
        for subtask, part in rows.groupby("subtask")
    }


def _edges_into(scenario: Scenario, stage: str) -> list[str]:
    """Return the edges on which records come to a stage's task: those of its chain."""
    found: list[str] = []
    for edge in scenario.inputs(stage):
        found += _edges_into(scenario, edge.sender) if edge.chain else [edge.name]
    return found


def _waiting(
    tables: Mapping[str, pa.Table], scenario: Scenario, stage: str, times: frozenset[float]
) -> dict[int, float]:
    """Return the mean number of records in flight to each subtask, on all edges into the stage."""
    channels = result_frame(tables, "channels")
    edges = _edges_into(scenario, stage)
    rows = channels[channels["edge"].isin(edges) & channels["t_s"].isin(times)]
    sums = rows.groupby(["receiver", "t_s"], as_index=False).agg(
        in_flight_records=("in_flight_records", "sum"), interval_s=("interval_s", "first")
    )
    return {
        int(str(receiver)): mean_over_time(part, "in_flight_records")
        for receiver, part in sums.groupby("receiver")
    }
