"""When metrics are looked at, and which updates of Flink's views lie before: by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowcontrol.metrics.scopes import Moments


@pytest.mark.parametrize(
    ("samples", "updates", "shown"),
    [
        ([], (), ()),
        ([1, 2, 3], (), ((2, 0),)),  # ends before the first update
        ([1, 2, 3, 4, 5], (4,), ((4, 1),)),
        ([2.5, 5, 7.5, 10, 11], (1, 3), ((1, 1), (3, 2), (4, 2))),
        ([0.1 * n for n in range(1, 101)], (49, 99), ((49, 1), (99, 2))),
        ([3, 6, 9, 12], (0, 2), ((0, 1), (2, 2), (3, 2))),  # the newest one at 5 s is that of 3 s
        ([8, 16, 24], (-1, 0, 0, 1), ((0, 2), (1, 4), (2, 4))),  # none yet at 5 s
        ([20, 40], (-1, -1, -1, 0, 0, 0, 0, 1), ((0, 4), (1, 8))),
    ],
)
def test_moments_by_hand(samples: list[float], updates: Any, shown: Any) -> None:
    found = Moments.of(samples)
    assert (found.updates, found.shown) == (updates, shown)


def test_a_meter_starts_slowly_and_a_gauge_does_not() -> None:
    """2,000/s and half of the time, for 90 s: Flink shows 2,000 x t / 60 in the first minute."""
    at = np.arange(1, 91, dtype=float)
    moments = Moments.of(at.tolist())
    rates, shares = moments.meter(2000 * at), moments.gauge(500 * at)
    expected = [2000 * min(t, 60) / 60 for t in range(5, 91, 5)]
    assert rates == pytest.approx(expected)
    assert shares.tolist() == [500.0] * 18
    assert moments.levels(at).tolist() == list(range(5, 91, 5))


def test_before_the_first_update_a_view_shows_nothing() -> None:
    moments = Moments.of([1.0, 2.0])
    assert moments.meter(np.array([10.0, 20.0])).tolist() == [0.0]
    assert moments.gauge(np.array([10.0, 20.0])).tolist() == [0.0]
    assert moments.levels(np.array([10.0, 20.0])).tolist() == [20.0]
