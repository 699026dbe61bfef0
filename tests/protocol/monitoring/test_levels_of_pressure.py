"""The thresholds of Flink's levels, on shares."""

from __future__ import annotations

import math

import pytest

from flowcontrol.protocol.monitoring import Pressure, pressure_level


@pytest.mark.parametrize(
    ("ratio", "level"),
    [(0, "OK"), (0.1, "OK"), (0.11, "LOW"), (0.5, "LOW"), (0.51, "HIGH"), (1, "HIGH")],
)
def test_level_at_the_thresholds(ratio: float, level: str) -> None:
    assert pressure_level(ratio) == level
    assert pressure_level(ratio) is Pressure(level)


@pytest.mark.parametrize("ratio", [-0.001, math.nan])
def test_what_is_no_share_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="at least 0, not"):
        pressure_level(ratio)
