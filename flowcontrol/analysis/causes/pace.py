"""When no stage and no exchange limits: a throttle, the sources, or nothing at all."""

from __future__ import annotations

from typing import Final

from flowcontrol.analysis.causes.cause import Cause
from flowcontrol.analysis.causes.run import Run, Times
from flowcontrol.analysis.wording import percent, seconds

SPARE: Final = 0.5
"""Busy share of the busiest stage behind a source up to which that source gives little to do."""


def throttled(run: Run, times: Times) -> Cause:
    """Return the cause for sources that a throttle holds back while nothing is saturated.

    ``times`` (s): samples in whose intervals it does.
    """
    name = run.scenario.system.throttle
    shares = {
        source.name: run.worst(source.name, "backpressured_ms_per_s", times) / 1000
        for source in run.scenario.sources
    }
    held = max(shares, key=lambda source: shares[source])
    top, busy = _busiest(run, times)
    text = (
        f"The throttle {name} held {held} back {percent(shares[held])} of the time, while {top}, "
        f"the busiest stage after it, was busy {percent(busy)} (stages, {run.span(times)})."
    )
    return Cause(
        stage=held,
        subtask=None,
        cause="throttle",
        evidence=(text,),
        confidence=round(0.95 - 0.3 * max(0.0, busy - SPARE), 2),
        reason="the source could emit more, and what comes after it has time to spare",
        advice="give the throttle larger limits or a quicker reaction",
        limited_s=run.length(times),
    )


def unlimited(run: Run) -> Cause:
    """Return the cause where nothing limits for long: the sources set the pace, or all is well."""
    times = frozenset(run.lengths)
    if not times:
        text = "The run ended before its first sample."
        return Cause(None, None, "none", (text,), 0.0, reason="nothing was measured")
    scenario = run.scenario
    top, busy = _busiest(run, times)
    rates = {one.name: run.total(one.name, "rate_out", times) for one in scenario.sources}
    most = max(rates, key=lambda name: rates[name])
    after = f"{top}, the busiest stage after it, was busy {percent(busy)} of the time"
    short = _limited_shortly(run)
    if all(scenario.stage(name).reads_log for name in rates):
        text = f"All that was written to the logs was read; {after} (stages, {run.span(times)})."
        why = "a log shows what was to be read, and no more waited than is on its way"
        return Cause(None, None, "none", (text, *short), 0.95, reason=why)
    if busy <= SPARE:
        text = (
            f"{most} emitted {rates[most]:,.0f} records/s at its own pace and was not held back; "
            f"{after} (stages, {run.span(times)})."
        )
        return Cause(
            stage=most,
            subtask=None,
            cause="source",
            evidence=(text, *short),
            confidence=round(0.6 + 0.3 * (1 - busy / SPARE), 2),
            reason="nobody can see in these figures whether there was more to emit",
            advice="let it emit more: what comes after it has time to spare",
        )
    text = f"Nothing was blocked for long; {after} (stages, {run.span(times)})."
    why = "the sources set the pace, and what follows keeps up"
    return Cause(
        None, None, "none", (text, *short), round(0.95 - 0.3 * (busy > 0.9), 2), reason=why
    )


def _busiest(run: Run, times: Times) -> tuple[str, float]:
    """Return the busiest stage after the sources, and its share, ratio."""
    scenario = run.scenario
    later = [stage.name for stage in scenario.stages if scenario.inputs(stage.name)]
    busy = {name: run.worst(name, "busy_ms_per_s", times) / 1000 for name in later}
    top = max(busy, key=lambda name: busy[name])
    return top, busy[top]


def _limited_shortly(run: Run) -> list[str]:
    lengths = {name: run.length(times) for name, times in run.limited.items()}
    if not lengths:
        return []
    name = max(lengths, key=lambda one: lengths[one])
    total = seconds(run.total_s)
    return [f"{name} limited for {seconds(lengths[name])} of {total} s, too short to matter."]
