"""The pressure status of a stage, as Flink's page shows it.

What lives here: shares of time in milliseconds a second, and the rule of the worst subtask; the two
thresholds are :mod:`flowcontrol.protocol.monitoring`. Nothing here reads a table.
"""

from collections.abc import Iterable

from flowcontrol.protocol.monitoring import HIGH_ABOVE as HIGH_ABOVE
from flowcontrol.protocol.monitoring import LOW_ABOVE as LOW_ABOVE
from flowcontrol.protocol.monitoring import Pressure as Pressure
from flowcontrol.protocol.monitoring import pressure_level

_MS_PER_S = 1000.0


def pressure_of(backpressured_ms_per_s: float) -> Pressure:
    """Return the status of one subtask.

    Flink's ``JobVertexBackPressureHandler`` (1.13 and later, FLINK-20852).

    ``backpressured_ms_per_s`` (ms/s): time for which the subtask was blocked, per second; 0 to
    1000.

    With ratio = backpressured_ms_per_s / 1000: OK <= 0.10 < LOW <= 0.5 < HIGH. Raises ValueError if
    the figure is not a number or below zero.
    """
    if not backpressured_ms_per_s >= 0:
        raise ValueError(f"a blocked time is at least 0 ms/s, not {backpressured_ms_per_s}")
    return pressure_level(backpressured_ms_per_s / _MS_PER_S)


def worst_pressure(backpressured_ms_per_s: Iterable[float]) -> Pressure:
    """Return the status of a stage: that of its worst subtask.

    ``backpressured_ms_per_s`` (ms/s): one figure per subtask. Without any the stage is OK: nothing
    of it was blocked.
    """
    statuses = [pressure_of(figure) for figure in backpressured_ms_per_s]
    return max(statuses, key=lambda status: status.rank, default=Pressure.OK)
