"""Where back pressure by sampling and by timers differ: what a page up to Flink 1.12 did not show.

A page shows the result of the last set until the next one is there. Timers, of the table
``stages``, say at every sample of the run how long each subtask was blocked since the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.frames import Tables, mean_over_time, result_frame
from flowcontrol.analysis.pressure import Pressure, pressure_of
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.monitoring import SamplingKeys

if TYPE_CHECKING:
    import pandas as pd

MOST_UNSEEN: Final = 20
"""Times of back pressure without a sample that are listed for a stage: the worst, the longest."""

_SLACK_S: Final = 1e-9


@dataclass(frozen=True)
class Interval:
    """The time between two samples of a run, for one stage."""

    from_s: float  # from_s, until_s: emulated seconds
    until_s: float
    blocked: float  # Share of that time for which its worst subtask was blocked, 0 to 1
    shown: Pressure | None  # The level on the page at its end; None: no set was finished

    @property
    def timed(self) -> Pressure:
        """The level by timers."""
        return pressure_of(1000 * self.blocked)


def sampling_summary(tables: Tables, scenario: Scenario, keys: SamplingKeys) -> dict[str, Any]:
    """Return what sampling saw of each stage beside the timers, for ``summary.json``.

    ``tables``: result tables of a run, ``samples`` among them.

    Returns ``set_s``: how long a set takes; ``requests`` and ``answers``: messages between
    JobManager and task managers for the sets that were finished, one of each per subtask of a task
    and set; ``requests_per_set``: for one set of every task; ``stages``: by stage the finished sets
    (``from_s``, ``t_s``, ``level``, ``ratio`` of the worst subtask, and by timers over the same
    time ``timer_level`` and ``timer_ratio``), ``differs_s``: for how long the page showed another
    level than the timers, ``hidden_s``: of that a milder one, and ``unseen``: times of such back
    pressure that no sample fell into.
    """
    samples, frame = tables["samples"].to_pandas(), result_frame(tables, "stages")
    heads = _heads(scenario)
    stages, requests = {}, 0
    for stage in scenario.stages:
        own = samples[samples["stage"] == stage.name]
        rows = frame[frame["stage"] == stage.name]
        sets = _sets(own, rows, keys)
        found = intervals(own, rows)
        wrong = [one for one in found if one.shown is not None and one.shown != one.timed]
        stages[stage.name] = {
            "sets": sets,
            "differs_s": _length(wrong),
            "hidden_s": _length([one for one in wrong if _is_hidden(one)]),
            "unseen": _unseen(found, sets),
        }
        if stage.name in heads:
            requests += len(sets) * stage.parallelism
    return {
        "samples": keys.samples,
        "delay_ms": keys.delay_ms,
        "refresh_s": keys.refresh_ms / 1000,
        "set_s": keys.length_ms / 1000,
        "requests_per_set": sum(scenario.stage(name).parallelism for name in heads),
        "requests": requests,
        "answers": requests,
        "stages": stages,
    }


def intervals(samples: pd.DataFrame, rows: pd.DataFrame) -> list[Interval]:
    """Return the intervals of one stage, in order.

    - ``samples``: rows of the table ``samples`` of the stage.
    - ``rows``: those of the table ``stages``, with ``interval_s``.
    """
    known = [(at, pressure_of(1000 * ratio)) for at, ratio in _worst(samples)]
    blocked = rows.groupby("t_s")[["backpressured_ms_per_s", "interval_s"]].max()
    found, shown = list[Interval](), None
    for until_s, share, length in blocked.itertuples(name=None):
        while known and known[0][0] <= until_s + _SLACK_S:
            shown = known.pop(0)[1]
        found.append(Interval(round(until_s - length, 6), until_s, min(share / 1000, 1.0), shown))
    return found


def _worst(samples: pd.DataFrame) -> list[tuple[float, float]]:
    """Return the end of each set, s, and the ratio of the worst subtask."""
    worst = samples.groupby("t_s")["ratio"].max()
    return list(zip(worst.index.tolist(), worst.tolist(), strict=True))


def _sets(samples: pd.DataFrame, rows: pd.DataFrame, keys: SamplingKeys) -> list[dict[str, Any]]:
    """Return the finished sets of a stage, each beside the timers over the same time."""
    found = []
    for end_s, ratio in _worst(samples):
        start_s = round(end_s - keys.length_ms / 1000, 6)
        share = _blocked_between(rows, start_s, end_s)
        found.append(
            {
                "from_s": start_s,
                "t_s": end_s,
                "level": pressure_of(1000 * ratio).value,
                "ratio": ratio,
                "timer_level": pressure_of(1000 * share).value,
                "timer_ratio": round(share, 6),
            }
        )
    return found


def _blocked_between(rows: pd.DataFrame, start_s: float, end_s: float) -> float:
    """Return the blocked share of the worst subtask in a time, intervals at its ends in part.

    Of a time without length, that of the interval around it.
    """
    begins = rows["t_s"] - rows["interval_s"]
    inside = rows[(rows["t_s"] >= start_s - _SLACK_S) & (begins <= end_s + _SLACK_S)]
    upto, since = inside["t_s"].clip(upper=end_s), begins[inside.index].clip(lower=start_s)
    part = inside.assign(interval_s=(upto - since).clip(lower=0.0) + _SLACK_S)
    shares = [mean_over_time(own, "backpressured_ms_per_s") for _, own in part.groupby("subtask")]
    return min(max(shares, default=0.0) / 1000, 1.0)


def _unseen(found: Sequence[Interval], sets: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the times of more back pressure than the page showed into which no sample fell."""
    spans: list[list[Interval]] = []
    for one in found:
        if not _is_hidden(one):
            continue
        if spans and spans[-1][-1].until_s == one.from_s:
            spans[-1].append(one)
        else:
            spans.append([one])
    kept = [span for span in spans if not any(_meet(span, own) for own in sets)]
    longest = sorted(kept, key=_importance)[:MOST_UNSEEN]
    return [
        {
            "from_s": span[0].from_s,
            "until_s": span[-1].until_s,
            "level": max((one.timed for one in span), key=lambda level: level.rank).value,
            "shown": None if span[0].shown is None else span[0].shown.value,
            "most_blocked": round(max(one.blocked for one in span), 6),
        }
        for span in sorted(longest, key=lambda span: span[0].from_s)
    ]


def _importance(span: Sequence[Interval]) -> tuple[int, float, float]:
    """Order times of back pressure: the worst first, of these the longest, the earliest."""
    return -max(one.timed.rank for one in span), -_length(span), span[0].from_s


def _meet(span: Sequence[Interval], own: Mapping[str, Any]) -> bool:
    """Tell whether samples of a set fell into a time."""
    return bool(own["from_s"] < span[-1].until_s and own["t_s"] > span[0].from_s)


def _is_hidden(one: Interval) -> bool:
    """Tell whether the page showed less than the timers say."""
    return one.shown is not None and one.shown.rank < one.timed.rank


def _length(found: Sequence[Interval]) -> float:
    return round(sum(one.until_s - one.from_s for one in found), 6)


def _heads(scenario: Scenario) -> list[str]:
    """Return the stages that are asked about: of a chain the first one, which is the task's."""
    behind = {edge.receiver for edge in scenario.edges if edge.chain}
    return [stage.name for stage in scenario.stages if stage.name not in behind]
