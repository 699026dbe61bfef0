"""A scenario as the job of a program: plain properties, read by ``src/Job.java`` or by Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.stage_models import Stage

Properties = Mapping[str, str]


def properties(scenario: Scenario) -> Properties:
    """Return what a program reads.

    Returns
    -------
    mapping of str to str
        ``stages`` (names, the source first), ``duration_s``, ``sample_s``; for each stage
        ``NAME.rates`` (``at_us:rate`` by commas, records/s), ``NAME.arrivals`` of a log, and
        ``NAME.bytes``; then the parameters of the system's transport and throttle by their names.

    Raises
    ------
    ScenarioError
        For what no program runs: anything but a chain of single subtasks with rates.
    """
    problems = list(_refused(scenario))
    if problems:
        raise ScenarioError(problems, scenario.name)
    stages = scenario.topological()
    found = {
        "stages": ",".join(stage.name for stage in stages),
        "duration_s": f"{scenario.duration_s:g}",
        "sample_s": f"{scenario.sample_interval_s:g}",
    }
    for stage in stages:
        rates = stage.service_rate if scenario.inputs(stage.name) else stage.emit_rate
        for key, own in (("rates", rates), ("arrivals", stage.arrival_rate)):
            if own is not None:
                phases = (f"{phase.at_us}:{float(phase.rate):g}" for phase in own[0].phases)
                found[f"{stage.name}.{key}"] = ",".join(phases)
        found[f"{stage.name}.bytes"] = str(stage.record_bytes or 0)
    return found | _parameters(scenario)


def _parameters(scenario: Scenario) -> dict[str, str]:
    system = scenario.system
    stated = {**system.transport_values, **system.throttle_values}
    return {key: str(int(value) if value == int(value) else value) for key, value in stated.items()}


def _refused(scenario: Scenario) -> Iterator[Problem]:
    for number, stage in enumerate(scenario.stages):
        place = f"stages[{number}]"
        if len(scenario.inputs(stage.name)) > 1 or len(scenario.outputs(stage.name)) > 1:
            yield Problem(place, "more than one edge in or out: programs run chains; split it")
        if stage.parallelism != 1:
            text = f"{stage.parallelism}: a stage of a program is one thread; state 1"
            yield Problem(f"{place}.parallelism", text)
        yield from _lacking(place, stage)


def _lacking(place: str, stage: Stage) -> Iterator[Problem]:
    for key in ("input", "output", "event_time", "window", "state", "commit", "requests"):
        if getattr(stage, key) is not None:
            yield Problem(f"{place}.{key}", "the programs have rates alone; leave it out")
    if stage.selectivity_exact != 1:
        text = f"{float(stage.selectivity_exact):g}: a program sends on what it takes; state 1"
        yield Problem(f"{place}.selectivity", text)
