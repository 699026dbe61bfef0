"""The sustainable rate of a source: what a search found."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isinf
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from flowcontrol.analysis import Bottleneck
from flowcontrol.experiments.capacity.probe import Probe
from flowcontrol.experiments.capacity.wording import conclusion, describe, row_of
from flowcontrol.report.result import Result

if TYPE_CHECKING:
    import pyarrow as pa


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
