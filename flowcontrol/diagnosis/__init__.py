"""Why a job is slow: how systems measure it, what the figures mean, diagnosis of a real job.

The objects of the reference's section 9, by its names, each loaded when it is first asked for.
What is behind them: rules of monitoring in :mod:`flowcontrol.protocol.monitoring`, causes in
:mod:`flowcontrol.analysis.causes`, and scenarios fitted to running jobs in
:mod:`flowcontrol.calibration`.
"""

from flowcontrol.lazy import names_of

__getattr__ = names_of(__name__)


def __dir__() -> list[str]:
    """List the public names, for completion."""
    return [*__getattr__("__all__")]
