"""Several systems on one scenario: run side by side, measured against what the job can carry.

:mod:`.limits` computes the limit of a job; :mod:`.run` runs one system and finds receivers that
starve; :mod:`.compare` runs all of them, and :mod:`.page` draws them.
"""

from flowcontrol.experiments.compare.compare import LiveRunner, compare
from flowcontrol.experiments.compare.result import CompareResult, print_comparison

__all__ = ["CompareResult", "LiveRunner", "compare", "print_comparison"]
