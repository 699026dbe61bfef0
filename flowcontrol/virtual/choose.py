"""How long a round should be."""

from __future__ import annotations

from flowcontrol.scenario import Scenario

__all__ = ["choose_round_us"]


def choose_round_us(scenario: Scenario) -> int:
    """Return the length of a round that a scenario states, or one that suits it, microseconds."""
    if scenario.round_ms is not None:
        return scenario.live_round_us
    return 1000
