"""Many variants of a scenario at once: spread over Spark, one table, one report.

:mod:`~flowcontrol.experiments.sweep.plan` lists the points,
:mod:`~flowcontrol.experiments.sweep.variants` checks their variants and cuts them into chunks,
:mod:`~flowcontrol.experiments.sweep.store` runs them and collects their rows in the table, and
:mod:`~flowcontrol.experiments.sweep.page` draws them.
"""

from flowcontrol.experiments.sweep.overview import SweepResult, print_sweep
from flowcontrol.experiments.sweep.sweep import sweep
from flowcontrol.report.progress import SweepProgress

__all__ = ["SweepProgress", "SweepResult", "print_sweep", "sweep"]
