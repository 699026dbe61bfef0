"""What would help a run on the virtual clock: changes that are quick to try, on its own kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.experiments.advise.adviser import Adviser
from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.executor import shown_late

if TYPE_CHECKING:
    import pyarrow as pa

    from flowcontrol.layout.job import Job

MOST_STEPS: Final = 4_000_000
"""Rounds times subtasks and channels of a run that is tried: half a second at most."""


def add_advice(summary: dict[str, Any], job: Job, tables: Mapping[str, pa.Table]) -> None:
    """Put what would help into the summary of a run.

    Changes that need a larger kernel than the run had, such as debloating, are left to
    ``flowcontrol advise``: to compile one takes longer than most runs.

    ``summary``: from :func:`flowcontrol.analysis.summarise`; gets ``advice``, as in
    ``advice.json``, unless the run is one of several jobs or too long to be tried again some thirty
    times.
    """
    from flowcontrol.memory.parts import parts_of

    if job.scenario.jobs or job.steps > MOST_STEPS:
        return
    own = parts_of(job)

    def fits(other: Job) -> bool:
        return other.steps <= MOST_STEPS and parts_of(other) | own == own

    adviser = Adviser(varied_base(job.scenario), job.scenario, tables, None, fits, None)
    summary["advice"] = adviser.advice(shown_late("changes")).summary
