"""The pressure of stages, and which of them limits a job: interval by interval, and over the run.

The rule is Flink's: the bottleneck is the first stage downstream that is busy and not blocked
while something upstream of it is blocked. Here it is judged for each sample interval apart, for
a job's bottleneck may come and go with the phases of its schedule; the run's bottleneck is what
limited it for the longest time. Nine cases beyond the rule:

- Nothing is blocked: no bottleneck, the sources run at their own rate.
- A stage is blocked although what follows it has nothing to do: then no stage limits but the
  exchange between them, its buffers being too few for the round trip (Flink's reading of pool
  usages: out full and in empty = the limit is the network).
- A stage is blocked whose result partition is written to disk: then the disk limits.
- A source is held back that has a throttle: then the busiest stage anywhere after it limits, for
  a throttle reaches over the stages in between; if none of them is saturated, the throttle does.
- Sources wait for a trigger, and no more waits in their logs than one trigger explains: nothing
  limits, however long they wait and however busy a batch keeps a stage.
- Nothing is blocked, but the records before a saturated stage grow more, in queues of records or
  in buffers that are not full: then it limits, and what comes before it does not know yet, or
  never will.
- Nothing is blocked, but a source that reads a log is never idle and records wait there: then it
  limits itself, be it that it reads too slowly or that it stands still.
- Some subtasks of several limit: they are named, not only the stage (:mod:`.subtasks`).
- A stage limits while it stalls, or while its rate is lowered, and others limit only afterwards:
  then it is the bottleneck, for they work off what it left.
- An exchange limits only because rounds are longer than the network's latency: then there is no
  verdict on the job, whatever limited at other times (:mod:`.waits`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Any

from flowcontrol.analysis.frames import Tables, end_of, panel_of, panels_of
from flowcontrol.analysis.limits import Interval, Limits, find_limits
from flowcontrol.analysis.subtasks import Limiting, limiting_subtasks
from flowcontrol.analysis.waits import ROUND, round_us_of
from flowcontrol.analysis.wording import Evidence, describe, round_sentence, throttle_name
from flowcontrol.protocol.monitoring import HIGH_ABOVE as HIGH_ABOVE
from flowcontrol.protocol.monitoring import LOW_ABOVE as LOW_ABOVE
from flowcontrol.protocol.monitoring import Pressure as Pressure
from flowcontrol.protocol.monitoring import pressure_level
from flowcontrol.scenario import Scenario, Stage

_MS_PER_S = 1000.0


def pressure_of(backpressured_ms_per_s: float) -> Pressure:
    """Return the status of one subtask.

    Flink's ``JobVertexBackPressureHandler`` (1.13 and later, FLINK-20852).

    ``backpressured_ms_per_s`` (ms/s): time for which the subtask was blocked, per second; 0 to
    1000.

    With ratio = backpressured_ms_per_s / 1000: OK <= 0.10 < LOW <= 0.5 < HIGH. Raises ValueError if
    the figure is not a number or below zero.
    """
    if not backpressured_ms_per_s >= 0:
        raise ValueError(f"a blocked time is at least 0 ms/s, not {backpressured_ms_per_s}")
    return pressure_level(backpressured_ms_per_s / _MS_PER_S)


def worst_pressure(backpressured_ms_per_s: Iterable[float]) -> Pressure:
    """Return the status of a stage: that of its worst subtask.

    ``backpressured_ms_per_s`` (ms/s): one figure per subtask. Without any the stage is OK: nothing
    of it was blocked.
    """
    statuses = [pressure_of(figure) for figure in backpressured_ms_per_s]
    return max(statuses, key=lambda status: status.rank, default=Pressure.OK)


LASTING = 0.05
"""Least share of the run for which the run's bottleneck limits."""


@dataclass(frozen=True)
class Bottleneck:
    """The bottleneck of a run."""

    # The stage that limited longest; None if nothing limited for long, or if an exchange did.
    stage: str | None
    edge: str | None  # The edge whose exchange limited, if no stage did
    subtasks: tuple[int, ...]  # The limiting subtasks of the stage; empty if it limits as a whole
    limited_s: float  # Emulated time for which it limited (s)
    total_s: float  # Emulated time of the run (s)
    sentence: str  # Names the bottleneck and the evidence
    # Sentences with more of both, and with what limited at other times.
    details: tuple[str, ...] = ()
    throttle: str | None = None  # The throttle that limited, if neither a stage nor an exchange did
    # Whether the length of the rounds limited, and so nothing can be told of the job.
    is_of_round: bool = False

    def detail(self) -> dict[str, Any]:
        """Return everything but the stage and the sentences as plain JSON."""
        return {
            "edge": self.edge,
            "subtasks": list(self.subtasks),
            "limited_s": self.limited_s,
            "share_of_run": self.limited_s / self.total_s if self.total_s > 0 else 0.0,
            **({} if self.throttle is None else {"throttle": self.throttle}),
            **({"is_of_round": True} if self.is_of_round else {}),
        }


def find_bottleneck(
    tables: Tables, scenario: Scenario, limits: Limits | None = None, round_us: int | None = None
) -> Bottleneck:
    """Find the bottleneck of a run.

    The rule is the reading of Flink's task metrics: a blocked sink shows as busy, what feeds it
    as back-pressured; the first busy stage that is not itself blocked is the cause.

    - ``tables``: ``stages`` and ``channels`` of the run.
    - ``limits``: those of :func:`~flowcontrol.analysis.limits.find_limits`, if they are known.
    - ``round_us``: length of the rounds, microseconds; by default what the scenario states.

    Returns the limit that lasted longest, if it lasted for at least 5 % of the run, and a sentence
    with its figures. A stage that limited for as long while it stalled, or while its rate had been
    lowered, comes before what limited only afterwards, when its backlog was worked off. Where the
    length of the rounds limited for as long, it is that alone: it falsifies the figures of the
    other times, too, such as how long a log takes to be read.
    """
    tables = panels_of(tables)
    found: dict[str, list[Interval]] = defaultdict(list)
    if limits is None:
        limits = find_limits(tables, scenario, round_us)
    for interval, names in limits:
        for name in names[:1]:
            found[name].append(interval)
    of_round_s = sum(interval.length_s for interval in found.get(ROUND, ()))
    if of_round_s >= LASTING * end_of(tables) > 0:
        us = round_us_of(scenario, round_us) or 0
        sentence = round_sentence(of_round_s, end_of(tables), scenario, us)
        return Bottleneck(None, None, (), of_round_s, end_of(tables), sentence, is_of_round=True)
    return _verdict(found, tables, scenario)


def _verdict(
    limits: Mapping[str, list[Interval]], tables: Tables, scenario: Scenario
) -> Bottleneck:
    """Return the limit that lasted longest, in words; what only worked off a backlog is not it."""
    total_s = end_of(tables)
    lengths = {
        name: sum(interval.length_s for interval in intervals) for name, intervals in limits.items()
    }
    first = {name: lengths[name] for name in _not_of_a_backlog(limits, scenario, total_s)}
    name = max(first, key=lambda limit: first[limit], default=None)
    stages, channels = (panel_of(tables, name) for name in ("stages", "channels"))
    evidence = Evidence(stages, channels, scenario, lengths, total_s)
    if name is None or lengths[name] < LASTING * total_s:
        sentence, *details = describe(evidence, None, frozenset(), Limiting())
        limited_s = lengths.get(name or "", 0.0)
        return Bottleneck(None, None, (), limited_s, total_s, sentence, tuple(details))
    times = frozenset(interval.t_s for interval in limits[name])
    is_edge = name in {edge.name for edge in scenario.edges}
    is_throttle = name == throttle_name(scenario)
    is_stage = not is_edge and not is_throttle
    limiting = limiting_subtasks(tables, scenario, name, times) if is_stage else Limiting()
    sentence, *details = describe(evidence, name, times, limiting)
    return Bottleneck(
        stage=name if is_stage else None,
        edge=name if is_edge else None,
        subtasks=limiting.subtasks,
        limited_s=lengths[name],
        total_s=total_s,
        sentence=sentence,
        details=tuple(details),
        throttle=scenario.system.throttle if is_throttle else None,
    )


def _not_of_a_backlog(
    limits: Mapping[str, list[Interval]], scenario: Scenario, total_s: float
) -> list[str]:
    """Return what limited before any stage was slowed, and the stages that were.

    What limits only afterwards may but work off what waits since then.
    """
    slowed = {
        stage.name: [one for one in limits[stage.name] if _is_within(one, spans)]
        for stage in scenario.stages
        if stage.name in limits and (spans := _slowed(stage))
    }
    lasting = {
        name: min(one.t_s for one in found)
        for name, found in slowed.items()
        if sum(one.length_s for one in found) >= LASTING * total_s > 0
    }
    since_s = min(lasting.values(), default=total_s)
    return [
        name
        for name, found in limits.items()
        if name in lasting or min(one.t_s for one in found) <= since_s
    ]


def _slowed(stage: Stage) -> list[tuple[float, float]]:
    """Return when a stage stalls, or a subtask of it is slower than it was before, microseconds."""
    spans: list[tuple[float, float]] = [stall.span for stall in stage.stalls]
    for rate in stage.service_rate or ():
        most = accumulate((phase.rate for phase in rate.phases), max)
        ends = [*(phase.at_us for phase in rate.phases[1:]), inf]
        phases = zip(rate.phases, ends, most, strict=True)
        spans += [(phase.at_us, end) for phase, end, top in phases if phase.rate < top]
    return spans


def _is_within(interval: Interval, spans: list[tuple[float, float]]) -> bool:
    """Tell whether the middle of an interval is in one of some times."""
    us = round(1e6 * (interval.t_s - interval.length_s / 2))
    return any(start <= us < end for start, end in spans)
