"""A sustainable rate in words and figures: the rate, what limits it, the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

from flowcontrol.analysis import Bottleneck
from flowcontrol.experiments.capacity.probe import OVERLOAD, Probe
from flowcontrol.experiments.capacity.search import HIGHEST

if TYPE_CHECKING:
    from flowcontrol.experiments.capacity.result import Capacity

_WIDTH = 13
"""Characters of a column: six of them fit a terminal of 80."""


def describe(capacity: Capacity) -> str:
    """Return several lines: the rate, what limits, and the runs just below and just above."""
    return "\n".join([conclusion(capacity), "", *_evidence(capacity), *_remark(capacity)])


def conclusion(capacity: Capacity) -> str:
    """Return the rate and what limits it, without the evidence."""
    return f"{_rate(capacity)}\n{_limit(capacity)}"


def row_of(probe: Probe) -> dict[str, Any]:
    """Return a run as a row of the table ``probes``."""
    return {
        "rate": float(probe.rate),
        "is_sustained": probe.is_sustained,
        "emitted": probe.emitted,
        "blocked": probe.blocked,
        "growing_edge": probe.growth.edge,
        "growth_share": probe.growth.share,
        "latency_ms": probe.latency_ms,
    }


def describe_probe(probe: Probe) -> str:
    """Return one line on a run: its rate, the verdict and why."""
    if probe.is_sustained:
        return f"{_number(probe.rate)} records/s: sustained"
    growth = probe.growth
    is_log = growth.edge.startswith("the log of ")
    if probe.emitted < float(probe.rate) and probe.blocked > 0 and not is_log:
        emits = _number(probe.emitted)
        why = f"blocked {probe.blocked:.1%} of the time, emits {emits} records/s"
    elif growth.records > growth.least:
        why = f"{growth.edge} holds {growth.records:,.0f} records more a quarter later"
    else:
        why = f"what is behind the source can do {_number(probe.most)}"
    return f"{_number(probe.rate)} records/s: not sustained ({why})"


def _rate(capacity: Capacity) -> str:
    name = capacity.source
    if capacity.below is None:
        least = _number(capacity.above.rate) if capacity.above is not None else "0"
        return f"{name} can sustain no rate: not even {least} records/s per subtask."
    if capacity.above is None:
        most = _number(HIGHEST)
        return f"{name} can sustain every rate that was tried, up to {most} records/s per subtask."
    does = "can keep up with a log of" if capacity.reads_log else "can sustain"
    return (
        f"{name} {does} {_number(capacity.rate)} records/s per subtask, "
        f"{_number(capacity.total)} records/s in total "
        f"({capacity.parallelism} subtask{'s' if capacity.parallelism > 1 else ''}), "
        f"within {capacity.error:.2g} of it."
    )


def _limit(capacity: Capacity) -> str:
    limit = capacity.limit
    if limit is None:
        return "Nothing else limits it." if capacity.above is None else "No single stage limits it."
    if limit.stage is None:
        name = f"exchange {limit.edge}" if limit.throttle is None else f"throttle {limit.throttle}"
        return f"It is limited by the {name}.\n{_sentence(capacity, limit)}"
    which = ", ".join(str(subtask) for subtask in limit.subtasks)
    hot = f", subtask {which}" if which else ""
    line = f"It is limited by {limit.stage}{hot}{_in_force(capacity.force)}."
    return f"{line}\n{_sentence(capacity, limit)}"


def _sentence(capacity: Capacity, limit: Bottleneck) -> str:
    """Return the sentence about the run that shows the limit."""
    if capacity.shown_at == max(probe.rate for probe in capacity.probes):
        rate = f"{_number(capacity.shown_at)} records/s"
    else:
        rate = "that rate" if capacity.below is None else f"{float(OVERLOAD):g} times that rate"
    return f"At {rate}: {limit.sentence}"


def _in_force(force: tuple[Fraction, Fraction] | None) -> str:
    if force is None:
        return ""
    lowest, highest = map(_number, force)
    if force[0] == force[1]:
        return f", whose rate in force is {lowest} records/s per subtask"
    return f", whose rates in force are {lowest} to {highest} records/s per subtask"


def _evidence(capacity: Capacity) -> Iterator[str]:
    start, end = capacity.window
    yield f"Per subtask, from {start:g} to {end:g} s of each run:"
    heads = ("offered", "emitted", "blocked", "queue growth", "latency")
    yield "".join([" " * _WIDTH, *(head.rjust(_WIDTH) for head in heads)]).rstrip()
    for probe in (capacity.below, capacity.above):
        if probe is not None:
            yield _row(probe)


def _remark(capacity: Capacity) -> Iterator[str]:
    """Warn if the runs are too short for the tolerance."""
    probe, allowance = capacity.below, capacity.tolerance / 2
    if probe is not None and allowance < probe.growth.blind < float("inf"):
        blind = probe.growth.blind
        end = capacity.window[1]
        if capacity.is_of_stages:
            yield (
                f"The rate is what is behind {capacity.source} can do. In runs of {end:g} s "
                f"another limit shows from {blind:.2%} of what {probe.growth.edge} carries on: "
                f"state a duration_s of {ceil(end * blind / allowance)} or more to see a smaller "
                "one."
            )
            return
        yield (
            f"Runs of {end:g} s do not show a queue that grows by less than {blind:.2%} of what "
            f"{probe.growth.edge} carries: state a duration_s of "
            f"{ceil(end * blind / allowance)} or more."
        )


def _row(probe: Probe) -> str:
    latency = "-" if probe.latency_ms is None else f"{_number(probe.latency_ms)} ms"
    cells = (
        f"{_number(probe.rate)}/s",
        f"{_number(probe.emitted)}/s",
        f"{probe.blocked:.2%}",
        f"{probe.growth.share:+.2%}",
        latency,
    )
    verdict = "sustained" if probe.is_sustained else "not sustained"
    return verdict.ljust(_WIDTH) + "".join(cell.rjust(_WIDTH) for cell in cells)


def _number(value: float | Fraction) -> str:
    """Return a number with about five significant digits."""
    size = abs(float(value))
    decimals = 0 if size >= 10_000 else 1 if size >= 1000 else 2 if size >= 100 else 3
    text = f"{float(value):,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
