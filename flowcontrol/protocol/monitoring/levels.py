"""Levels of back pressure: the two thresholds that sampling and timers have in common."""

from enum import StrEnum

LOW_ABOVE = 0.10
"""Blocked share of the time above which a subtask is LOW; at it, it is still OK."""

HIGH_ABOVE = 0.5
"""Blocked share of the time above which a subtask is HIGH; at it, it is still LOW."""

POOL_HIGH = 0.75
"""Usage of buffers from which a pool is full, near 1."""


class Pressure(StrEnum):
    """How much of its time a task was blocked by what comes after it."""

    OK = "OK"
    LOW = "LOW"
    HIGH = "HIGH"

    @property
    def rank(self) -> int:
        """Order of severity: 0 for OK, 1 for LOW, 2 for HIGH."""
        return ("OK", "LOW", "HIGH").index(self.value)


def pressure_level(ratio: float) -> Pressure:
    """Return the level of one subtask.

    Parameters
    ----------
    ratio : float
        Share of its time, or of its samples, in which it waited for a buffer; 0 to 1.

    Returns
    -------
    Pressure
        OK <= 0.10 < LOW <= 0.5 < HIGH; equal to its name as text.

    Raises
    ------
    ValueError
        If the ratio is not a number or below zero.

    Notes
    -----
    Flink's ``JobVertexBackPressureHandler``: of samples up to 1.12, of timers since 1.13
    (FLINK-20852), by the same two thresholds. A vertex has the level of its worst subtask.
    """
    if not ratio >= 0:
        raise ValueError(f"a blocked share is at least 0, not {ratio}")
    if ratio > HIGH_ABOVE:
        return Pressure.HIGH
    return Pressure.LOW if ratio > LOW_ABOVE else Pressure.OK
