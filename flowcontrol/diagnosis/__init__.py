"""Why a job is slow: how its systems watch it, what the figures mean, what a real job was.

The objects of the reference's section 9, by its names, each loaded when it is first asked for.
What is behind them: rules of monitoring in :mod:`flowcontrol.protocol.monitoring`, causes in
:mod:`flowcontrol.analysis.causes`, and scenarios fitted to running jobs in
:mod:`flowcontrol.calibration`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowcontrol.analysis.causes import Finding, root_cause
    from flowcontrol.calibration.calibrate import fit_scenario
    from flowcontrol.protocol.monitoring import (
        BackPressureSampler,
        MeterView,
        data_skew,
        pressure_level,
    )

__all__ = [
    "BackPressureSampler",
    "Finding",
    "MeterView",
    "data_skew",
    "fit_scenario",
    "pressure_level",
    "root_cause",
]

_LAZY = {
    "BackPressureSampler": "flowcontrol.protocol.monitoring",
    "Finding": "flowcontrol.analysis.causes",
    "MeterView": "flowcontrol.protocol.monitoring",
    "data_skew": "flowcontrol.protocol.monitoring",
    "fit_scenario": "flowcontrol.calibration.calibrate",
    "pressure_level": "flowcontrol.protocol.monitoring",
    "root_cause": "flowcontrol.analysis.causes",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
