"""The best values of some keys: a search by runs, with Optuna, in place of a sweep of all of them.

:mod:`~flowcontrol.experiments.tune.goals` reads what is good,
:mod:`~flowcontrol.experiments.tune.search` asks for points,
:mod:`~flowcontrol.experiments.tune.tune` runs them as a sweep runs variants, and
:mod:`~flowcontrol.experiments.tune.judge` says which is best.
"""

from flowcontrol.experiments.tune.result import Tuning
from flowcontrol.experiments.tune.tune import tune

__all__ = ["Tuning", "tune"]
