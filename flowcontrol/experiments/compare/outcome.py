"""The outcome of one system, as workers write it, and the result of a comparison."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from flowcontrol.experiments.compare.figures import Figures
from flowcontrol.experiments.compare.limits import LimitPhase
from flowcontrol.experiments.compare.plan import Comparison
from flowcontrol.experiments.compare.starving import Starved


@dataclass(frozen=True)
class Lines:
    """The series of a run's chart; each has a value per time.

    Attributes
    ----------
    t_s : list of float, s
        Samples.
    produced, consumed : list of float, records/s
        What all sources emitted and all sinks took up since the sample before.
    in_flight : list of float, records
        Levels, all channels together.
    """

    t_s: list[float]
    produced: list[float]
    consumed: list[float]
    in_flight: list[float]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one system.

    Attributes
    ----------
    system : str
        Its name.
    state : {"ran", "refused", "failed"}
        Refused: the clock cannot run the system with this scenario.
    reason : str
        Why it was refused or failed.
    figures, lines : Figures and Lines, or None
        Of one that ran.
    starved : tuple of Starved
        Receivers that starved.
    rounds : int
        That were run.
    round_ms : float, ms
        Emulated time of each.
    wall_s : float, s
        Real time that it took.
    is_compiled : bool
        False if it was run without a compiler.
    """

    system: str
    state: Literal["ran", "refused", "failed"]
    reason: str = ""
    figures: Figures | None = None
    lines: Lines | None = None
    starved: tuple[Starved, ...] = field(default=())
    rounds: int = 0
    round_ms: float = 0.0
    wall_s: float = 0.0
    is_compiled: bool = True

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """Return the outcome that :meth:`to_json` has written."""
        return TypeAdapter(cls).validate_json(text)


@dataclass(frozen=True)
class CompareResult:
    """The result of a comparison.

    Attributes
    ----------
    path : Path
        Its folder: Delta tables ``results`` and ``rates``, and ``report.html``.
    comparison : Comparison
        The plan.
    outcomes : tuple of Outcome
        Of each system, in the order of the plan.
    limits : list of LimitPhase, or None
        The limit of the job.
    """

    path: Path
    comparison: Comparison
    outcomes: tuple[Outcome, ...]
    limits: list[LimitPhase] | None

    @property
    def page(self) -> Path:
        """The page."""
        return self.path / "report.html"

    def failed(self) -> list[Outcome]:
        """Return the systems that failed."""
        return [outcome for outcome in self.outcomes if outcome.state == "failed"]
