"""Several systems on one scenario: run side by side, measured against what the job can carry.

:mod:`~flowcontrol.comparing.limits` says what a job can carry,
:mod:`~flowcontrol.comparing.metrics` and :mod:`~flowcontrol.comparing.figures` what a run comes
to, :mod:`~flowcontrol.comparing.starving` who starves and why,
:mod:`~flowcontrol.comparing.run` runs one system,
:mod:`~flowcontrol.comparing.compare` all of them, and
:mod:`~flowcontrol.comparing.page` draws them.
"""

from __future__ import annotations

from flowcontrol.comparing.compare import LiveRunner, compare
from flowcontrol.comparing.outcome import CompareResult
from flowcontrol.comparing.table import print_comparison

__all__ = ["CompareResult", "LiveRunner", "compare", "print_comparison"]
