"""Many variants of a scenario at once: spread over Spark, one table, one report.

:mod:`~flowcontrol.sweeping.plan` says which variants there are,
:mod:`~flowcontrol.sweeping.checks` what is wrong with them,
:mod:`~flowcontrol.sweeping.balance` who runs which,
:mod:`~flowcontrol.sweeping.worker` what a worker does,
:mod:`~flowcontrol.sweeping.store` how its rows get into the table, once, and
:mod:`~flowcontrol.sweeping.page` what is drawn of them.
"""

from __future__ import annotations

from flowcontrol.sweeping.progress import SweepProgress
from flowcontrol.sweeping.sweep import SweepResult, sweep
from flowcontrol.sweeping.terminal import print_sweep

__all__ = ["SweepProgress", "SweepResult", "print_sweep", "sweep"]
