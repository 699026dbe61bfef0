"""What is described: stages, edges, workload, machines and Flink's own options.

A scenario file is read in three steps. :mod:`~flowcontrol.scenario.yaml_file` reads strict
YAML; :mod:`~flowcontrol.scenario.models` says, field by field, what may be written and how; and
:mod:`~flowcontrol.scenario.resolve` works out what follows from it, a frozen
:class:`~flowcontrol.scenario.models.Scenario`. All problems are reported at once.
"""

from flowcontrol.scenario.clocks import (
    MAX_LIVE_CHANNELS,
    MAX_VIRTUAL_CHANNELS,
    channels_of,
    check_clock,
)
from flowcontrol.scenario.inputs import open_csv, read_rows
from flowcontrol.scenario.models import (
    LIVE_ROUND_MS,
    Cluster,
    Edge,
    Input,
    JobSpan,
    Output,
    Scenario,
    Stage,
    Stall,
)
from flowcontrol.scenario.option_table import NetworkOptions
from flowcontrol.scenario.resolve import load_scenario, parse_scenario
from flowcontrol.scenario.schedule import Phase, Schedule
from flowcontrol.scenario.system import SystemSpec

__all__ = [
    "LIVE_ROUND_MS",
    "MAX_LIVE_CHANNELS",
    "MAX_VIRTUAL_CHANNELS",
    "Cluster",
    "Edge",
    "Input",
    "JobSpan",
    "NetworkOptions",
    "Output",
    "Phase",
    "Scenario",
    "Schedule",
    "Stage",
    "Stall",
    "SystemSpec",
    "channels_of",
    "check_clock",
    "load_scenario",
    "open_csv",
    "parse_scenario",
    "read_rows",
]
