"""Which subtasks of a stage limit it, when not all of them do.

A busy subtask does not always limit: next to an overloaded one, another may be busy for 80 % of
the time and still process every record at once. A limiting subtask is among the busiest *and* has
records waiting for it, about as many as the subtask with the most. Records waiting for a subtask
are those in flight on all its channels, in its pool, in its queue or at its senders, so every
transport is judged alike.

Flink's web interface tells that a stage is skewed ("Data Skew"), not who gets the records. Uneven
keys show here whether or not the hot subtask limits: it will, as soon as the load grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from flowcontrol.analysis.frames import Panels, Tables, end_of, panel_of, panels_of
from flowcontrol.analysis.panel import Panel, Window
from flowcontrol.protocol.monitoring import data_skew
from flowcontrol.scenario import Scenario

# --- The figures of each subtask of a stage, and their spread.
#
# A mean over the subtasks of a stage hides the one that limits it, so wherever a mean is shown the
# largest figure of a subtask stands beside it.


_COUNTERS: Final = ("records_in", "records_out")
MEANS: Final = (
    "busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s", "in_pool_usage", "out_pool_usage",
    "floating_buffers_usage", "exclusive_buffers_usage", "input_queue_buffers",
    "output_queue_buffers", "output_pool_size", "output_pool_used", "lag_records", "lag_s",
)  # fmt: skip
"""In the order of the fields of :class:`SubtaskFigures`, behind counters and rates."""


class SubtaskFigures(NamedTuple):
    """The figures of one subtask in a window, named as the columns they come from."""

    subtask: int  # Its index in the stage, from 0
    records_in: int  # records_in, records_out: growth of the counters (records)
    records_out: int
    rate_in: float  # rate_in, rate_out: that growth over the length of the window (records/s)
    rate_out: float
    # Means weighted by the length of the intervals, as are all that follow (ms/s).
    busy_ms_per_s: float
    idle_ms_per_s: float
    backpressured_ms_per_s: float
    # Usages of pools (ratio).
    in_pool_usage: float
    out_pool_usage: float
    floating_buffers_usage: float
    exclusive_buffers_usage: float
    # Queues and pools; under a transport that counts records, records (buffers).
    input_queue_buffers: float
    output_queue_buffers: float
    output_pool_size: float
    output_pool_used: float
    lag_records: float  # lag_records, lag_s: how far a source is behind its log; 0 for others
    lag_s: float


FIGURES: Final = SubtaskFigures._fields[1:]
"""Names of the figures of a subtask."""


def subtask_figures(samples: Panel, window: Window) -> list[SubtaskFigures]:
    """Return the figures of the subtasks of one stage in a window.

    - ``samples``: rows of the table ``stages`` of one stage, from the start of the run.
    - ``window`` (s): from and until.

    In the order of their indices; empty if no sample lies in the window.
    """
    means = samples.within(window).means_by("subtask", MEANS)
    owners, growth = samples.growth(["subtask"], _COUNTERS, window)
    counts = zip(*(grown.tolist() for grown in growth), strict=True)
    counted = dict(zip(owners.first(samples["subtask"]).tolist(), counts, strict=True))
    length = window[1] - window[0]
    found = []
    for subtask, shares in means.items():
        records = counted[subtask]
        rates = [count / length if length > 0 else 0.0 for count in records]
        found.append(SubtaskFigures(subtask, *records, *rates, *shares))
    return found


def largest(subtasks: Sequence[SubtaskFigures]) -> dict[str, float]:
    """Return for each figure that of the subtask with the most; 0 without subtasks."""
    if not subtasks:
        return dict.fromkeys(FIGURES, 0)
    _, *columns = zip(*subtasks, strict=True)
    return dict(zip(FIGURES, map(max, columns), strict=True))


def spread(subtasks: Sequence[SubtaskFigures]) -> Mapping[str, float]:
    """Return how unevenly the records of a stage are spread over its subtasks.

    Returns ``data_skew_percent``: Flink's score of the records taken up (``data_skew``);
    ``records_in_max_over_mean``: those of the subtask with the most over their mean, 1 if all have
    equally many. Both are 0 where no record was taken up, as at a source.
    """
    records = [subtask.records_in for subtask in subtasks]
    total = sum(records)
    return {
        "data_skew_percent": data_skew(records),
        "records_in_max_over_mean": max(records) * len(records) / total if total else 0.0,
    }


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


HOT: Final = 1.25
"""Times an even share of the records from which a subtask is hot."""


@dataclass(frozen=True)
class Hot:
    """The subtask of a stage that got the most records."""

    stage: str  # Its stage
    subtask: int  # Its index, from 0
    share: float  # Of the records that the stage took up in the run (ratio)
    of_even: float  # That over an even share
    busy: float  # busy, mean_busy: busy time of the subtask, and mean of the stage's (ratio)
    mean_busy: float

    def document(self) -> dict[str, Any]:
        """Return it as it stands in summary.json, with its sentence."""
        return {**asdict(self), "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """Who is hot, by how much, and how busy that keeps it."""
        return (
            f"Hot: subtask {self.subtask} of {self.stage} got {100 * self.share:.0f} % of its "
            f"records, {self.of_even:.2f} times an even share, and was busy "
            f"{100 * self.busy:.0f} % of the time (mean of {self.stage}: "
            f"{100 * self.mean_busy:.0f} %)."
        )


def find_hot(tables: Tables, scenario: Scenario) -> list[Hot]:
    """Return the hot subtask of each stage that has one, in the order of the scenario.

    ``tables``: ``stages`` of a run.
    """
    panels = panels_of(tables)
    found = (_hot(stage.name, panels) for stage in scenario.stages)
    return [hot for hot in found if hot is not None and hot.of_even >= HOT]


def _hot(stage: str, panels: Panels) -> Hot | None:
    has_others = _rows(panels, stage)["subtask"].any()  # one alone has all there is
    subtasks = _whole(panels, stage) if has_others else []
    if len(subtasks) < 2:
        return None
    most = max(subtasks, key=lambda subtask: subtask.records_in)
    of_even = times_even(most, subtasks)
    if of_even is None:
        return None
    return Hot(
        stage=stage,
        subtask=most.subtask,
        share=of_even / len(subtasks),
        of_even=of_even,
        busy=most.busy_ms_per_s / 1000,
        mean_busy=sum(subtask.busy_ms_per_s for subtask in subtasks) / len(subtasks) / 1000,
    )


def times_even(one: SubtaskFigures, subtasks: list[SubtaskFigures]) -> float | None:
    """Return the records that a subtask took up over an even share; None if its stage got none."""
    records = sum(subtask.records_in for subtask in subtasks)
    return one.records_in * len(subtasks) / records if records else None


def by_subtask(tables: Tables, scenario: Scenario) -> dict[str, list[SubtaskFigures]]:
    """Return the figures of each subtask over the whole run, by stage."""
    panels = panels_of(tables)
    return {stage.name: _whole(panels, stage.name) for stage in scenario.stages}


def _rows(panels: Panels, stage: str) -> Panel:
    return panels.panel("stages").of("stage", stage)


def _whole(panels: Panels, stage: str) -> list[SubtaskFigures]:
    return subtask_figures(_rows(panels, stage), (0.0, end_of(panels)))
