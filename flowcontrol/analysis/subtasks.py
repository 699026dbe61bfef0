"""Which subtasks of a stage limit it, when not all of them do.

A busy subtask does not always limit: next to an overloaded one, another may be busy for 80 % of
the time and still process every record at once. A limiting subtask is among the busiest *and* has
records waiting for it, about as many as the subtask with the most. Records waiting for a subtask
are those in flight on all its channels, in its pool, in its queue or at its senders, so every
transport is judged alike.
"""

from dataclasses import dataclass
from typing import Final

from flowcontrol.analysis.frames import Tables, panel_of
from flowcontrol.analysis.panel import Panel
from flowcontrol.scenario import Scenario

NEVER_IDLE: Final = 0.995
"""Busy share of a subtask that never waits for records, as one whose queue grows."""

NEAR_TOP: Final = 0.9
"""Least busy time of a subtask that may limit, relative to the busiest of its stage."""

WAITED_FOR: Final = 0.5
"""Least share of the records that wait for the subtask with the most."""

SPARE: Final = 0.85
"""Mean busy time, relative to the busiest, up to which the other subtasks have time to spare."""


@dataclass(frozen=True)
class Limiting:
    """The subtasks that limit a stage."""

    subtasks: tuple[int, ...] = ()  # Their indices; empty when the stage limits as a whole
    # Share of the records in flight to the stage that wait for them; 0 if there are none (ratio).
    waiting: float = 0.0


def limiting_subtasks(
    tables: Tables, scenario: Scenario, stage: str, times: frozenset[float]
) -> Limiting:
    """Return the subtasks that limit a stage while the others have time to spare.

    - ``tables``: ``stages`` and ``channels`` of the run.
    - ``times`` (s): samples in whose intervals it limits.

    No subtask if all are about equally busy, if most of them limit, or if no record waits.
    """
    rows = panel_of(tables, "stages").of("stage", stage).among("t_s", times)
    busy = _means(rows, "subtask", "busy_ms_per_s")
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


def edges_into(scenario: Scenario, stage: str) -> list[str]:
    """Return the edges into the task of a stage: those into its chain."""
    found: list[str] = []
    for edge in scenario.inputs(stage):
        found += edges_into(scenario, edge.sender) if edge.chain else [edge.name]
    return found


def _waiting(
    tables: Tables, scenario: Scenario, stage: str, times: frozenset[float]
) -> dict[int, float]:
    """Return the mean number of records in flight to each subtask, on all edges into the stage.

    Of a source it is what waits in its log.
    """
    if scenario.stage(stage).reads_log:
        rows = panel_of(tables, "stages").of("stage", stage).among("t_s", times)
        return _means(rows, "subtask", "lag_records")
    rows = panel_of(tables, "channels").among("edge", edges_into(scenario, stage))
    rows = rows.among("t_s", times)
    return {
        int(receiver): rows.of("receiver", receiver)
        .per_sample(["in_flight_records"])
        .means(["in_flight_records"])["in_flight_records"]
        for receiver in sorted(set(rows["receiver"].tolist()))
    }


def _means(rows: Panel, owner: str, column: str) -> dict[int, float]:
    return {number: mean for number, [mean] in rows.means_by(owner, [column]).items()}
