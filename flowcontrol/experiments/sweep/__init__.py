"""Many variants of a scenario at once: spread over Spark, one table, one report.

:mod:`~flowcontrol.experiments.sweep.plan` says which variants there are,
:mod:`~flowcontrol.experiments.sweep.checks` what is wrong with them,
:mod:`~flowcontrol.experiments.sweep.balance` who runs which,
:mod:`~flowcontrol.experiments.sweep.worker` what a worker does,
:mod:`~flowcontrol.experiments.sweep.store` how its rows get into the table, once, and
:mod:`~flowcontrol.experiments.sweep.page` what is drawn of them.
"""

from __future__ import annotations

from flowcontrol.experiments.sweep.progress import SweepProgress
from flowcontrol.experiments.sweep.sweep import SweepResult, sweep
from flowcontrol.experiments.sweep.terminal import print_sweep

__all__ = ["SweepProgress", "SweepResult", "print_sweep", "sweep"]
