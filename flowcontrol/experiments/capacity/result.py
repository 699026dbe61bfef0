"""The sustainable rate of a source: what a search found, in figures and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, isinf
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from flowcontrol.analysis import Bottleneck
from flowcontrol.experiments.capacity.probe import HIGHEST, OVERLOAD, Probe
from flowcontrol.report.result import Result

if TYPE_CHECKING:
    import pyarrow as pa


# --- A sustainable rate in words and figures: the rate, what limits it, the evidence.


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


# --- The sustainable rate of a source: what a search found.


@dataclass(frozen=True, repr=False)
class Capacity(Result):
    """The sustainable rate of a source.

    Attributes
    ----------
    name : str
        Of the scenario.
    source : str
        Which.
    reads_log : bool
        Whether it reads a log: the rate is then what may be written there.
    parallelism : int
        Its subtasks.
    tolerance : float
        Relative error that was allowed.
    window : tuple of float, s
        The judged part of each run.
    below : Probe or None
        The run at the highest sustained rate; None if no rate was.
    above : Probe or None
        The run at the lowest rate that was not; None if all were.
    limit : Bottleneck or None
        The bottleneck of a run at a rate that is too high; None if there is none.
    force : tuple of Fraction, or None, records/s
        Lowest and highest service rate in force at a subtask of the stage that limits, in the
        judged part; None for an edge or a stage without one.
    probes : tuple of Probe
        All judged runs, in order.
    shown_at : Fraction or None, records/s
        The rate at which the limit shows: OVERLOAD times the rate, or the highest that was tried.
    """

    name: str
    source: str
    reads_log: bool
    parallelism: int
    tolerance: float
    window: tuple[float, float]
    below: Probe | None
    above: Probe | None
    limit: Bottleneck | None
    force: tuple[Fraction, Fraction] | None
    probes: tuple[Probe, ...]
    shown_at: Fraction | None = None

    path = None
    kind = "capacity of"

    @property
    def rate(self) -> Fraction:
        """The highest sustained rate of one subtask, records/s; 0 if none is.

        It is no higher than what is behind the source can do.
        """
        if self.below is None:
            return Fraction(0)
        return (
            self.below.rate
            if isinf(self.below.most)
            else min(self.below.rate, Fraction(self.below.most))
        )

    @property
    def total(self) -> Fraction:
        """The same of all subtasks together, records/s."""
        return self.rate * self.parallelism

    @property
    def error(self) -> float:
        """Relative error of the rate: the tolerance, or more if the runs were too short for it.

        What still grew at the rate may be too much of it, and half the tolerance is the distance
        to a rate that is not sustained. What a run cannot show may grow as well, unless the rate is
        what is behind the source can do.
        """
        if self.below is None:
            return self.tolerance
        growth = self.below.growth
        is_unseen = not self.is_of_stages and not isinf(growth.blind)
        grew = max(growth.share, growth.blind if is_unseen else 0.0)
        return max(self.tolerance, self.tolerance / 2 + grew)

    @property
    def is_of_stages(self) -> bool:
        """Whether the rate is what is behind the source can do, by rates, shares and bandwidths."""
        return self.below is not None and float(self.rate) >= self.below.most * (1 - self.tolerance)

    @cached_property
    def sentence(self) -> str:
        """The rate, and what limits it."""
        return conclusion(self)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The rate of a subtask and of all, records/s, what limits it, and how sure that is."""
        limit = self.limit
        return {
            "scenario": self.name,
            "source": self.source,
            "rate": float(self.rate),
            "total": float(self.total),
            "parallelism": self.parallelism,
            "tolerance": self.tolerance,
            "error": self.error,
            "window_s": list(self.window),
            "limit": None if limit is None else limit.stage or limit.edge or limit.throttle,
            "sentence": self.sentence,
        }

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """``probes``: a row per judged run, in their order."""
        import pyarrow as pa

        return {"probes": pa.Table.from_pylist([row_of(probe) for probe in self.probes])}

    def show(self, console: Console | None = None) -> None:
        """Print the rate, what limits it, and the runs just below and just above."""
        (console or Console()).print(Text(describe(self)))
