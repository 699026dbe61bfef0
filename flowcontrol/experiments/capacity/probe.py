"""A run at one constant rate, and whether that rate is sustained.

A run is judged over its second half, when a job that starts empty has settled. With e the
allowance, half of the requested tolerance, backpressure is *sustained* if

- a subtask of the source was blocked for more than the share e of that time, and, where its pace
  is not random, emitted less than 1 - e of what it was to emit (what a random one emits differs
  from its mean anyway; what it lost is the share of time for which it was blocked); or
- a queue behind it grows for ever: on an edge that its records reach, the records in flight, mean
  over the last quarter of the run against the quarter before, grew by more than the share e of
  the records that the edge carries in a quarter, and never fell back to the mean of that quarter;
  and they grew by more than a buffer a channel, since an open buffer that fills and empties is no
  growing queue.

Of a source that reads a log the rate is what is written there, and that it is blocked now and then
does not count: a rate is *not* sustained if a queue behind it grows for ever, or the log itself, in
the same way and by more than a record a subtask.

The first is backpressure that has arrived, the second is backpressure on its way: full buffers
delay it, and with them it grows as Karimov's latency does. The schedules of all other stages are
kept, so a slow phase of a stage counts for its whole length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.frames import (
    Tables,
    combine_latencies,
    end_of,
    latency_panel,
    mean_over_time,
    means_by,
    result_frame,
    second_half_start,
)
from flowcontrol.errors import RunError
from flowcontrol.scenario import Edge, Scenario, Schedule, Stage
from flowcontrol.scenario.clocks import channels_of

if TYPE_CHECKING:
    import pandas as pd


_MS_PER_S = 1000.0
_ENDED = 10
"""Allowances by which an unblocked source falls short of its rate if its input has ended."""


OVERLOAD: Final = Fraction(3, 2)
"""Multiple of the sustainable rate at which a run shows the limit: just above the sustainable rate,
backpressure is too short to identify it."""


@dataclass(frozen=True)
class Growth:
    """How a queue grew towards the end of a run."""

    edge: str  # Name of the edge, or "the log of" a source
    # In flight on all its channels, or waiting in the log: mean over the last quarter less mean
    # over the one before; 0 if they fell back to the latter meanwhile (records).
    records: float
    # What its senders emitted in a quarter of the run, or what was written to the log (records).
    carried: float
    # A buffer a channel, a record a log: less than that is not called growth (records).
    least: float

    @property
    def share(self) -> float:
        """Growth over the records carried; 0 if none were."""
        return self.records / self.carried if self.carried > 0 else 0.0

    @property
    def blind(self) -> float:
        """Share of growth up to which a queue counts as constant; infinite if none was carried."""
        return self.least / self.carried if self.carried > 0 else float("inf")


@dataclass(frozen=True)
class Probe:
    """A run at one rate, over its second half."""

    # What each subtask of the source was to emit; what was written to its log (records/s).
    rate: Fraction
    emitted: float  # What a subtask emitted, mean over all of them (records/s)
    # Share of the time for which the source was blocked, of the subtask that was so the most.
    blocked: float
    growth: Growth  # Of the edge on which records in flight grew by the largest share
    latency_ms: float | None  # Mean latency at the sinks; None where nothing arrived (ms)
    is_sustained: bool  # Whether the job can sustain the rate
    # What the stages and connections behind the source can do at the most (records/s).
    most: float = inf


def at_rate(scenario: Scenario, source: str, rate: Fraction) -> Scenario:
    """Return a scenario with the schedule of a source replaced by a constant rate.

    Of one that reads a log it is the rate at which that is written.

    ``rate`` (records/s): of each of its subtasks.
    """
    stages = [
        stage.model_copy(update={paced_by(stage): (Schedule.constant(rate),) * stage.parallelism})
        if stage.name == source
        else stage
        for stage in scenario.stages
    ]
    return scenario.model_copy(update={"stages": tuple(stages)})


def paced_by(stage: Stage) -> str:
    """Return the key that says what comes to a source: that of its log, if it reads one."""
    return "arrival_rate" if stage.reads_log else "emit_rate"


def reached_edges(scenario: Scenario, source: str) -> tuple[Edge, ...]:
    """Return the edges that records of a source come to, in the order of the file."""
    reached = {source, *scenario.downstream(source)}
    return tuple(edge for edge in scenario.edges if edge.sender in reached)


def examine(
    scenario: Scenario,
    source: str,
    rate: Fraction,
    tables: Tables,
    allowance: float,
    most: float = inf,
) -> Probe:
    """Judge a run.

    - ``scenario``: what was run, but for the rate.
    - ``rate`` (records/s): what each of its subtasks was to emit.
    - ``tables``: ``stages``, ``channels`` and ``latency`` of the run.
    - ``allowance``: the share e of the rule above, more than 0.
    - ``most`` (records/s): what the stages and connections behind the source can do at the most.

    Raises RunError if the source fell short without being blocked: its input ended before the run
    did.
    """
    start = second_half_start(tables)
    stages = result_frame(tables, "stages")
    rows = stages[(stages["stage"] == source) & (stages["t_s"] > start)]
    emitted = mean_over_time(rows, "rate_out")
    shares = means_by(rows, "subtask", "backpressured_ms_per_s")
    blocked = max(shares.values(), default=0.0) / _MS_PER_S
    growth = _largest_growth(scenario, source, tables, rate)
    latency = combine_latencies(latency_panel(tables).within((start, end_of(tables))))
    probe = Probe(
        rate=rate,
        emitted=emitted,
        blocked=blocked,
        growth=growth,
        latency_ms=None if latency is None else latency["mean_ms"],
        is_sustained=not (
            (1 - allowance) * float(rate) > most
            or _is_throttled(scenario, source, rate, emitted, blocked, allowance)
            or (growth.share > allowance and growth.records > growth.least)
        ),
        most=most,
    )
    _check_input(scenario, source, probe, allowance)
    return probe


def _is_throttled(
    scenario: Scenario, source: str, rate: Fraction, emitted: float, blocked: float, share: float
) -> bool:
    """Tell whether the source was held back, and what it could not emit is lost."""
    if scenario.stage(source).reads_log:
        return False
    is_random = scenario.stage(source).service_time != "constant"
    return blocked > share and (is_random or emitted < (1 - share) * float(rate))


def _check_input(scenario: Scenario, source: str, probe: Probe, allowance: float) -> None:
    """Refuse to judge a source whose rows ran out."""
    stage = scenario.stage(source)
    if stage.input is None or probe.blocked > allowance:
        return
    if stage.reads_log and not probe.is_sustained:
        return  # what is missing waits in the log
    if probe.emitted < (1 - _ENDED * allowance) * float(probe.rate):
        raise RunError(
            f"source {source} was to emit {float(probe.rate):g} records/s and emitted "
            f"{probe.emitted:g} in the second half of the run without being blocked: its input "
            f"ended; state a shorter duration_s than {scenario.duration_s:g}"
        )


def _largest_growth(scenario: Scenario, source: str, tables: Tables, rate: Fraction) -> Growth:
    """Return the growth of the edge on which it is the largest share of what the edge carries.

    The log of the source counts as one.
    """
    growths = [_growth(scenario, edge, tables) for edge in reached_edges(scenario, source)]
    if scenario.stage(source).reads_log:
        growths.append(_log_growth(scenario.stage(source), tables, rate))
    return max(growths, key=lambda growth: growth.share)


def _log_growth(stage: Stage, tables: Tables, rate: Fraction) -> Growth:
    """Return how what waits in the logs of a source grew, all subtasks together."""
    stages, end = result_frame(tables, "stages"), end_of(tables)
    levels = stages[stages["stage"] == stage.name].groupby("t_s")["lag_records"].sum()
    carried = float(rate) * stage.parallelism * end / 4
    return Growth(f"the log of {stage.name}", _grown(levels, end), carried, stage.parallelism)


def _grown(levels: pd.Series[Any], end: float) -> float:
    """Return by how much a level grew from one quarter of a run to the last; 0 if it fell back."""
    last = levels[levels.index > 0.75 * end]
    before = levels[(levels.index > 0.5 * end) & (levels.index <= 0.75 * end)]
    if len(last) and len(before) and float(last.min()) > float(before.mean()):
        return float(last.mean()) - float(before.mean())
    return 0.0


def _growth(scenario: Scenario, edge: Edge, tables: Tables) -> Growth:
    channels, stages = result_frame(tables, "channels"), result_frame(tables, "stages")
    end = end_of(tables)
    levels = channels[channels["edge"] == edge.name].groupby("t_s")["in_flight_records"].sum()
    records = _grown(levels, end)
    late = stages[(stages["stage"] == edge.sender) & (stages["t_s"] > 0.5 * end)]
    per_s = sum(means_by(late, "subtask", "rate_out").values())
    record_bytes = scenario.stage(edge.sender).record_bytes
    a_buffer = max(1.0, scenario.options.segment_bytes / record_bytes)
    least = channels_of(edge, scenario) * a_buffer
    return Growth(edge.name, records, per_s * end / 4, least)


# --- The search for the highest rate at which something holds: it doubles, then bisects.


HIGHEST: Final = Fraction(10**8)
"""Highest rate to try, records/s per subtask."""

LOWEST: Final = Fraction(1, 1000)
"""Lowest rate to try: 1 record in 1,000 s."""

_GUARD: Final = 8
"""Rates are rounded to this share of the width at which the search ends."""

Bracket = tuple[Fraction | None, Fraction | None]


def rounded(rate: Fraction, width: float) -> Fraction:
    """Return a rate rounded to a power of ten that is small against a relative width.

    - ``rate`` (records/s): more than 0.
    - ``width``: relative; the result differs by less than an eighth of it.

    Examples
    --------
    >>> rounded(Fraction(31415926, 10000), 0.01)
    Fraction(3142, 1)
    """
    step = Fraction(1)
    least = rate * Fraction(width) / _GUARD
    while step > least:
        step /= 10
    while step * 10 <= least:
        step *= 10
    return round(rate / step) * step


def search(holds: Callable[[Fraction], bool], start: Fraction, width: float) -> Bracket:
    """Find the highest rate at which something holds.

    - ``holds``: called with rates in records/s, each once.
    - ``start`` (records/s): first rate, between LOWEST and HIGHEST.
    - ``width``: relative distance at which to stop, more than 0.

    Returns ``below, above``: it holds at ``below``, not at ``above``, and they are no further apart
    than ``width``. ``below`` is None if it holds at no rate that was tried, down to LOWEST;
    ``above`` is None if it holds at all of them, up to HIGHEST.
    """
    below, above = _bracket(holds, rounded(start, width))
    if below is None or above is None:
        return below, above
    while above > below * (1 + Fraction(width)):
        middle = rounded(_between(below, above), width)
        if not below < middle < above:
            break
        if holds(middle):
            below = middle
        else:
            above = middle
    return below, above


def _bracket(holds: Callable[[Fraction], bool], rate: Fraction) -> Bracket:
    """Double, or quarter, until the predicate holds at one end only."""
    if holds(rate):
        below = rate
        while below * 2 <= HIGHEST:
            if not holds(below * 2):
                return below, below * 2
            below *= 2
        return below, None
    above = rate
    while above / 4 >= LOWEST:
        if holds(above / 4):
            return above / 4, above
        above /= 4
    return None, above


def _between(low: Fraction, high: Fraction) -> Fraction:
    """Return the geometric mean, to the nearest double."""
    return Fraction(float(low * high) ** 0.5)
