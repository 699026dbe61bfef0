"""The result of reading a job: a scenario, the origins of its figures, and the observations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from flowcontrol.errors import Problem, ScenarioError


@dataclass(frozen=True)
class Cost:
    """The time of a batch of n rows: overhead_ms + n x row_ms."""

    row_ms: float  # A row's part
    overhead_ms: float  # What a batch takes beside its rows

    def per_row_ms(self, rows: float) -> float:
        """Return a row's share of the time of a batch of so many rows, ms."""
        return self.row_ms + self.overhead_ms / rows


@dataclass(frozen=True)
class Figure:
    """One figure of a fitted scenario."""

    key: str  # Path of the key: ``stages.sink.service_rate``
    value: Any  # As it stands in the scenario
    origin: str  # The formula and what went into it; of an assumption, why it is one
    error: float | None = None  # Estimate of the relative error; None: unknown
    is_assumed: bool = False  # Whether the input does not say it

    def to_json(self) -> dict[str, Any]:
        """Return it as in ``calibration.json``."""
        return {"figure": self.key, "value": self.value, "origin": self.origin, "error": self.error}

    @property
    def comment(self) -> str:
        """What stands beside the key in the file."""
        if self.is_assumed:
            return f"assumed: {self.origin}"
        if self.error == 0:
            return f"read: {self.origin}"
        about = "" if self.error is None else f", within {_percent(self.error)}"
        return f"measured{about}: {self.origin}"


@dataclass(frozen=True)
class Observed:
    """A figure that the input holds, which the run of the scenario has to predict."""

    place: str  # Stage, ``stage/subtask``, edge or ``job``
    name: str  # As the column of the result tables
    value: float  # What was observed
    unit: str = ""  # Its unit; empty for ratios
    error: float = 0.0  # By how much what was observed may be off itself, in its unit


@dataclass(frozen=True)
class Contradiction:
    """Figures of the input that cannot all be true."""

    place: str  # The stage, ``stage/subtask`` or edge
    sentence: str  # Which figures, their values, and what is likely


@dataclass
class Draft:
    """A fitted scenario, before it is checked."""

    mapping: dict[str, Any]  # The scenario as in a file
    source: str  # What it was made from, for messages
    figures: list[Figure] = field(default_factory=list)  # Where each value comes from
    observed: list[Observed] = field(default_factory=list)  # What the input says of the job
    contradictions: list[Contradiction] = field(default_factory=list)  # What cannot be true in it
    notes: list[str] = field(default_factory=list)  # What the input cannot show, in sentences
    bottleneck: str | None = None  # The stage that limits by the input's own figures
    warm_up_s: float = 0.0  # Time of the run that is left out of the comparison, s
    # How batches of the run are recognised, of Spark; empty otherwise.
    batches: dict[str, Any] = field(default_factory=dict)
    # Of a link's receiver whose progress is known: what a batch costs, and its rows on average.
    batch_cost: tuple[Cost, float] | None = None

    def measured(self, key: str, value: Any, origin: str, error: float | None = None) -> Any:
        """Note a figure that follows from the input; return its value."""
        self.figures.append(Figure(key, value, origin, error))
        return value

    def assumed(self, key: str, value: Any, why: str) -> Any:
        """Note a figure that the input does not say; return its value."""
        self.figures.append(Figure(key, value, why, None, is_assumed=True))
        return value

    def see(
        self, place: str, name: str, value: float | None, unit: str = "", error: float = 0.0
    ) -> None:
        """Note what was observed; nothing if it is not known."""
        if value is not None:
            self.observed.append(Observed(place, name, value, unit, error))

    @property
    def assumptions(self) -> Iterator[Figure]:
        """The figures that the input does not say."""
        return (figure for figure in self.figures if figure.is_assumed)


def refuse(place: str, message: str, source: str = "") -> NoReturn:
    """Refuse an input.

    Raises ScenarioError: always; nothing was written.
    """
    raise ScenarioError([Problem(place, message)], source or "the input")


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
