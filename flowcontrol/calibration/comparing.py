"""Predicted against observed: each figure with its tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowcontrol.analysis.figures import figures
from flowcontrol.calibration.draft import Observed
from flowcontrol.calibration.predict import Predicted


@dataclass(frozen=True)
class Tolerance:
    """By how much a figure may differ."""

    share: float  # Of what was observed
    floor: float  # At least, in the figure's unit

    def of(self, value: float) -> float:
        """Return by how much a figure of this value may differ, in its unit."""
        return max(self.share * abs(value), self.floor)


TOLERANCES: Final = {
    **{
        one.column.name: Tolerance(*one.tolerance)
        for one in figures("calibrate", of_job=False)
        if one.tolerance is not None
    },
    # A task takes some milliseconds to write and to acknowledge, whatever it writes.
    "checkpoint_e2e_ms": Tolerance(0.05, 15.0),
    "marker_latency_ms": Tolerance(0.05, 5.0),
    "batch_ms": Tolerance(0.03, 0.0),
    "rows_per_s": Tolerance(0.03, 0.0),
    "rows": Tolerance(0.03, 0.0),
}
"""Of each figure: 3 % of a throughput, 5 points of a share of time, 5 % of what is in flight."""


@dataclass(frozen=True)
class Row:
    """One figure, predicted beside observed."""

    place: str  # place, name, unit: which figure, and its unit
    name: str
    unit: str
    observed: float  # observed, predicted: by the input, and by the run
    predicted: float
    tolerance: float  # By how much they may differ, in the same unit

    @property
    def error(self) -> float:
        """Predicted less observed."""
        return self.predicted - self.observed

    @property
    def is_within(self) -> bool:
        """Whether the difference is within the tolerance."""
        return abs(self.error) <= self.tolerance

    def to_json(self) -> dict[str, Any]:
        """Return it as in ``calibration.json``."""
        return {
            "place": self.place,
            "name": self.name,
            "unit": self.unit,
            "observed": self.observed,
            "predicted": self.predicted,
            "tolerance": self.tolerance,
            "is_within": self.is_within,
        }


def beside(observed: Sequence[Observed], predicted: Predicted) -> list[Row]:
    """Return each observed figure beside what was predicted; what was not is left out."""
    return [
        Row(
            one.place,
            one.name,
            one.unit,
            one.value,
            predicted[one.place, one.name],
            max(TOLERANCES[one.name].of(one.value), one.error),
        )
        for one in observed
        if (one.place, one.name) in predicted
    ]
