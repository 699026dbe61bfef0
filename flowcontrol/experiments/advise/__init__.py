"""Advice from runs: changes of a scenario, each run on the virtual clock.

:mod:`~flowcontrol.experiments.advise.rules` proposes, by rules of thumb and from what a run shows;
:mod:`~flowcontrol.experiments.advise.adviser` runs, and
:mod:`~flowcontrol.experiments.advise.result` weighs. Nothing is advice that was not run.
"""

from flowcontrol.analysis.figures import Figures
from flowcontrol.experiments.advise.advise import advise
from flowcontrol.experiments.advise.result import Advice, Change, Proposal

__all__ = ["Advice", "Change", "Figures", "Proposal", "advise"]
