"""A scenario: stages, edges, workload, machines and Flink's own options.

A scenario file is read in three steps. :mod:`~flowcontrol.scenario.syntax` reads strict
YAML; :mod:`~flowcontrol.scenario.models` says, field by field, what may be written and how; and
:mod:`~flowcontrol.scenario.resolve` works out what follows from it, a frozen
:class:`~flowcontrol.scenario.models.Scenario`. All problems are reported at once.
"""

from flowcontrol.scenario.clocks import check_clock
from flowcontrol.scenario.fault_tolerance import Savepoint
from flowcontrol.scenario.given import load_scenario
from flowcontrol.scenario.jobs import JobSpan
from flowcontrol.scenario.models import Edge, Scenario
from flowcontrol.scenario.resolve import parse_scenario
from flowcontrol.scenario.schedule import Phase, Schedule
from flowcontrol.scenario.stage_models import Stage

__all__ = [
    "Edge",
    "JobSpan",
    "Phase",
    "Savepoint",
    "Scenario",
    "Schedule",
    "Stage",
    "check_clock",
    "load_scenario",
    "parse_scenario",
]
